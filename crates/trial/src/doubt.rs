//! Reasons not to trust a figure.
//! Knows what can be doubted; whoever measures says when.

use serde::{Deserialize, Serialize};

/// A reason not to trust a figure, carried by the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// What is doubted.
    pub kind: DoubtKind,
    /// One sentence with the figures it rests on, ending in what to try.
    pub detail: String,
}

impl Doubt {
    /// A doubt of this kind, in this sentence.
    pub fn new(kind: DoubtKind, detail: impl Into<String>) -> Doubt {
        Doubt { kind, detail: detail.into() }
    }
}

/// The kinds of doubt there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoubtKind {
    /// The sender did not offer the load it was asked for.
    SenderFellBehind,
    /// The kernel attributes interrupt time by sampling at the tick only.
    IrqTimeByTicks,
    /// Too few clock ticks passed for a CPU figure.
    ShortForCpu,
    /// A hypervisor took CPU time away during the trial.
    NoisyMachine,
    /// Counters of the two ends, or of two sources, contradict each other.
    CountersContradict,
    /// Both ends run on one machine, so they share its CPUs.
    SharedMachine,
    /// The datagrams are larger than the MTU and travel as fragments.
    Fragmented,
    /// Counters took buffers of many datagrams, which the stack had yet to cut apart, for one packet each.
    Segmented,
    /// A socket buffer is not what was asked.
    SocketBufferClamped,
    /// The idle-capacity method could not calibrate on an idle machine.
    SoakNotCalibrated,
    /// A flow's end mark did not arrive, so its last datagrams are judged by a time-out.
    EndMarkLost,
    /// A counter source could not be read.
    CountersMissing,
    /// No profile, or not the whole of it, could be taken.
    ProfileReduced,
    /// A setting is not what was asked: the machine took it and made something else of it, or nothing.
    SettingNotTaken,
    /// A machine was booted as something, and nothing tells whether it is that.
    BootUnchecked,
    /// A machine is emulated: it shows what a driver does, not how fast it is.
    Emulated,
    /// The link of an end went down, or came up, during the trial.
    LinkWentDown,
    /// Nothing arrived for long in mid-trial, and no link of the ends went down.
    Silence,
}

impl DoubtKind {
    /// The name, as records write it.
    pub fn name(self) -> &'static str {
        match self {
            DoubtKind::SenderFellBehind => "sender-fell-behind",
            DoubtKind::IrqTimeByTicks => "irq-time-by-ticks",
            DoubtKind::ShortForCpu => "short-for-cpu",
            DoubtKind::NoisyMachine => "noisy-machine",
            DoubtKind::CountersContradict => "counters-contradict",
            DoubtKind::SharedMachine => "shared-machine",
            DoubtKind::Fragmented => "fragmented",
            DoubtKind::Segmented => "segmented",
            DoubtKind::SocketBufferClamped => "socket-buffer-clamped",
            DoubtKind::SoakNotCalibrated => "soak-not-calibrated",
            DoubtKind::EndMarkLost => "end-mark-lost",
            DoubtKind::CountersMissing => "counters-missing",
            DoubtKind::ProfileReduced => "profile-reduced",
            DoubtKind::SettingNotTaken => "setting-not-taken",
            DoubtKind::BootUnchecked => "boot-unchecked",
            DoubtKind::Emulated => "emulated",
            DoubtKind::LinkWentDown => "link-went-down",
            DoubtKind::Silence => "silence",
        }
    }
}
