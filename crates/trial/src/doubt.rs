//! Reasons not to trust a figure: facts, and the one place that makes sentences of them.
//! Knows what can be doubted; the measuring code says when.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use linerate_machine::cpu::FewTicks;
use linerate_machine::end::{End, Party, PerEnd};
use linerate_path::budget::{Contradiction, Disagreement, Segmented, SeveralStages};

/// A reason not to trust a figure, carried by the record. As text, a sentence with the figures that it rests on, ending in
/// what to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// The machine that it is about, where it is about one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Party>,
    /// What is doubted, and on what figures.
    #[serde(flatten)]
    pub what: Doubted,
}

/// What is doubted, with its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doubted {
    /// The sender did not offer the load it was asked for.
    SenderFellBehind {
        /// What was asked for, payload bits per second.
        asked_bps: f64,
        /// What it offered, likewise.
        offered_bps: f64,
        /// What held it up; absent where it offered more.
        #[serde(skip_serializing_if = "Option::is_none")]
        held_up: Option<SenderLimit>,
    },
    /// The kernel attributes interrupt time by sampling at the tick only.
    IrqTimeByTicks,
    /// Too few clock ticks passed for a CPU figure.
    ShortForCpu(FewTicks),
    /// A hypervisor took CPU time away during the trial.
    NoisyMachine {
        /// The fraction of the machine's time.
        steal: f64,
    },
    /// Programs that take no part used the CPUs during the trial.
    BusyMachine {
        /// The fraction of the machine's time.
        share: f64,
        /// The part of it that programs of real-time priority used; absent where there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        real_time: Option<f64>,
        /// The one that used most of it.
        most: String,
    },
    /// Counters of the two ends, or of two sources, contradict each other.
    CountersContradict {
        /// How.
        contradiction: Contradiction,
    },
    /// Both ends run on one machine, so they share its CPUs.
    SharedMachine,
    /// The datagrams are larger than the MTU and travel as fragments.
    Fragmented {
        /// Octets of a datagram.
        octets: u32,
        /// Its fragments.
        fragments: u32,
    },
    /// Fragments were dropped at several stages, so that it cannot be told where datagrams were lost.
    FragmentsLost(SeveralStages),
    /// Counters took buffers of many datagrams, which the stack had yet to cut apart, for one packet each.
    Segmented(Segmented),
    /// A socket buffer is not what was asked.
    SocketBufferClamped {
        /// Octets that were asked for.
        asked: u32,
        /// Octets that it got.
        given: u64,
    },
    /// The idle-capacity method could not calibrate on an idle machine.
    SoakNotCalibrated {
        /// What shows it.
        sign: NotIdle,
    },
    /// What one end sent in its measured part is not what the other read in its own, though all of it arrived.
    PartsApart {
        /// Octets that were sent in the sender's measured part.
        sent: u64,
        /// Octets that were read in the receiver's.
        read: u64,
    },
    /// A flow's end mark did not arrive, so its last datagrams are judged by a time-out.
    EndMarkLost {
        /// The flow.
        flow: u16,
    },
    /// What another tool told of its end cannot be, by what this end knows.
    ImplausibleReport {
        /// Of which of its figures.
        figures: Vec<ReportFigure>,
    },
    /// A counter source could not be read.
    CountersMissing {
        /// Each that is missing, and why.
        missing: Vec<String>,
    },
    /// No profile, or not the whole of it, could be taken.
    ProfileReduced {
        /// What is missing, and why.
        missing: Vec<String>,
    },
    /// A setting is not what was asked: the machine took it and made something else of it, or nothing.
    SettingNotTaken {
        /// The setting.
        setting: String,
        /// The value that was asked for.
        asked: String,
        /// The value that it has; absent where it could not be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        read_back: Option<String>,
    },
    /// A setting had another value when the trial was over: somebody else has changed it meanwhile.
    SettingOverridden {
        /// The setting.
        setting: String,
        /// The value that was asked for.
        asked: String,
        /// The value that was found, which may be the one of before the campaign.
        #[serde(skip_serializing_if = "Option::is_none")]
        read_back: Option<String>,
    },
    /// A machine was booted as something, and nothing tells whether it is that.
    BootUnchecked {
        /// What it was booted as.
        level: String,
    },
    /// A machine is emulated: it shows what a driver does, not how fast it is.
    Emulated,
    /// The link of an end went down, or came up, during the trial.
    LinkWentDown {
        /// Whose.
        ends: Vec<End>,
        /// Changes of the carrier, of the end with the most.
        changes: u64,
        /// How long nothing arrived; absent where that does not show.
        #[serde(skip_serializing_if = "Option::is_none")]
        silence: Option<Silence>,
        /// The trial had a warm-up, in which it may have been.
        warmup: bool,
    },
    /// Nothing arrived for long in mid-trial, and no link of the ends went down.
    Silence {
        /// For how long.
        silence: Silence,
    },
    /// The middle runs on the machine of an end, so they share its CPUs.
    MiddleSharesMachine {
        /// Of these.
        ends: Vec<End>,
    },
    /// The middle's interfaces counted far less than what passed between the ends.
    MiddleNotOnPath {
        /// Towards the target, and towards the host.
        interfaces: PerEnd<String>,
        /// Octets that the one with less counted in the direction of the traffic.
        counted: u64,
        /// Octets of payload that arrived.
        passed: u64,
    },
}

/// What another tool tells of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportFigure {
    /// How long it took.
    Time,
    /// Bytes that it moved.
    Bytes,
    /// Datagrams that it sent, received, or missed.
    Datagrams,
}

impl Display for ReportFigure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReportFigure::Time => "time",
            ReportFigure::Bytes => "bytes",
            ReportFigure::Datagrams => "datagrams",
        })
    }
}

/// What shows that a machine was not idle when the idle-capacity method calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NotIdle {
    /// The soaking thread of a CPU did not run.
    SilentThread {
        /// The CPU.
        cpu: u32,
    },
    /// Others used the machine.
    Others {
        /// The fraction of its time.
        share: f64,
    },
    /// A soaking thread ran faster in the trial than on the idle machine.
    Faster {
        /// By this fraction.
        by: f64,
    },
}

impl Display for NotIdle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            NotIdle::SilentThread { cpu } => write!(
                f,
                "the soaking thread of CPU {cpu} did not run, so that CPU counts as busy; try again on an idle machine, or \
                 cpu_method=stat"
            ),
            NotIdle::Others { share } => write!(
                f,
                "others used {:.0} % of the machine while the soaking threads were calibrated, so CPU use is understated; \
                 try again on an idle machine",
                share * 100.0
            ),
            NotIdle::Faster { by } => write!(
                f,
                "a soaking thread ran {:.0} % faster than on the idle machine, so CPU use is understated; fix the CPU \
                 frequency, or measure again on an idle machine",
                by * 100.0
            ),
        }
    }
}

/// What held a sender up. Shares are fractions of its threads' time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SenderLimit {
    /// Its threads waited for a CPU.
    NoCpu {
        /// The share.
        share: f64,
    },
    /// TCP waited for the receiver's window.
    ReceiveWindow {
        /// The share.
        share: f64,
    },
    /// Its threads worked, and can do no more.
    Work {
        /// The share.
        share: f64,
    },
    /// The link, or a shaper before it, took no more.
    NoRoom {
        /// The share in which its threads worked.
        worked: f64,
        /// The queueing discipline that shapes, where one is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        shaper: Option<String>,
    },
    /// Nothing that is known.
    Unknown,
}

/// Time in which nothing arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// How long.
    pub seconds: f64,
    /// It may have been longer, by up to two time slices.
    pub at_least: bool,
}

impl Silence {
    /// In words: `4.0 s`.
    pub fn words(self) -> String {
        let digits = if self.seconds < 1.0 { 2 } else { 1 };
        format!("{:.digits$} s{}", self.seconds, if self.at_least { " or more" } else { "" })
    }
}

impl From<Disagreement> for Doubt {
    fn from(disagreement: Disagreement) -> Doubt {
        match disagreement {
            Disagreement::Contradiction(contradiction) => Doubted::CountersContradict { contradiction }.into(),
            Disagreement::SeveralStages(stages) => Doubted::FragmentsLost(stages).into(),
            Disagreement::Segmented(segmented) => Doubted::Segmented(segmented).into(),
        }
    }
}

impl From<Doubted> for Doubt {
    fn from(what: Doubted) -> Doubt {
        Doubt { end: None, what }
    }
}

impl Doubt {
    /// A doubt about one of the machines.
    pub fn of(party: impl Into<Party>, what: Doubted) -> Doubt {
        Doubt { end: Some(party.into()), what }
    }

    /// Its kind.
    pub fn kind(&self) -> DoubtKind {
        match self.what {
            Doubted::SenderFellBehind { .. } => DoubtKind::SenderFellBehind,
            Doubted::IrqTimeByTicks => DoubtKind::IrqTimeByTicks,
            Doubted::ShortForCpu(_) => DoubtKind::ShortForCpu,
            Doubted::NoisyMachine { .. } => DoubtKind::NoisyMachine,
            Doubted::BusyMachine { .. } => DoubtKind::BusyMachine,
            Doubted::CountersContradict { .. } => DoubtKind::CountersContradict,
            Doubted::SharedMachine => DoubtKind::SharedMachine,
            Doubted::Fragmented { .. } => DoubtKind::Fragmented,
            Doubted::FragmentsLost(_) => DoubtKind::FragmentsLost,
            Doubted::Segmented(_) => DoubtKind::Segmented,
            Doubted::SocketBufferClamped { .. } => DoubtKind::SocketBufferClamped,
            Doubted::SoakNotCalibrated { .. } => DoubtKind::SoakNotCalibrated,
            Doubted::PartsApart { .. } => DoubtKind::PartsApart,
            Doubted::EndMarkLost { .. } => DoubtKind::EndMarkLost,
            Doubted::ImplausibleReport { .. } => DoubtKind::ImplausibleReport,
            Doubted::CountersMissing { .. } => DoubtKind::CountersMissing,
            Doubted::ProfileReduced { .. } => DoubtKind::ProfileReduced,
            Doubted::SettingNotTaken { .. } => DoubtKind::SettingNotTaken,
            Doubted::SettingOverridden { .. } => DoubtKind::SettingOverridden,
            Doubted::BootUnchecked { .. } => DoubtKind::BootUnchecked,
            Doubted::Emulated => DoubtKind::Emulated,
            Doubted::LinkWentDown { .. } => DoubtKind::LinkWentDown,
            Doubted::Silence { .. } => DoubtKind::Silence,
            Doubted::MiddleSharesMachine { .. } => DoubtKind::MiddleSharesMachine,
            Doubted::MiddleNotOnPath { .. } => DoubtKind::MiddleNotOnPath,
        }
    }
}

impl Display for Doubt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.end.iter().try_for_each(|end| write!(f, "{end}: "))?;
        self.what.fmt(f)
    }
}

/// A load in Mbit/s; one of datagrams a second has digits too.
pub fn mbit(bps: f64) -> String {
    let digits = if bps < 1e6 { 3 } else { 1 };
    format!("{:.digits$}", bps / 1e6)
}

impl Display for Doubted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Doubted::SenderFellBehind { asked_bps, offered_bps, held_up } => {
                let off = 100.0 * (offered_bps / asked_bps - 1.0);
                let why = held_up.as_ref().map_or(String::new(), |why| format!(": {why}"));
                write!(
                    f,
                    "the sender was asked for {} Mbit/s and offered {} ({off:+.1} %){why}; read loss against what was \
                     offered",
                    mbit(*asked_bps),
                    mbit(*offered_bps)
                )
            }
            Doubted::IrqTimeByTicks => f.write_str(
                "this kernel samples interrupt time at the clock tick only, so CPU use may be far off under network load; \
                 try cpu_method=soak, or a kernel with CONFIG_IRQ_TIME_ACCOUNTING",
            ),
            Doubted::ShortForCpu(few) => few.fmt(f),
            Doubted::NoisyMachine { steal } => write!(
                f,
                "a hypervisor took {:.1} % of the machine's time for others; measure on a machine of your own, or again at \
                 a quieter hour",
                100.0 * steal
            ),
            Doubted::BusyMachine { share, most, .. } => write!(
                f,
                "other programs used {:.0} % of the machine's CPU time, {most} most of it; end them and measure again, or \
                 read the CPU figures as theirs too",
                100.0 * share
            ),
            Doubted::CountersContradict { contradiction } => contradiction.fmt(f),
            Doubted::SharedMachine => f.write_str(
                "both ends run on one machine and share its CPUs, so CPU use and service demand are of both together; \
                 measure between two machines",
            ),
            Doubted::Fragmented { octets, fragments } => write!(
                f,
                "each datagram of {octets} bytes travels in {fragments} fragments, and is lost with any of them; choose a \
                 smaller message_size or a larger MTU"
            ),
            Doubted::FragmentsLost(stages) => stages.fmt(f),
            Doubted::Segmented(segmented) => segmented.fmt(f),
            Doubted::SocketBufferClamped { asked, given } => write!(
                f,
                "the socket buffer is {given} bytes where {asked} were asked; raise net.core.rmem_max and \
                 net.core.wmem_max there"
            ),
            Doubted::SoakNotCalibrated { sign } => sign.fmt(f),
            Doubted::PartsApart { sent, read } => write!(
                f,
                "{sent} bytes were sent in the sender's measured part and {read} read in the receiver's, though all arrived: \
                 the receiver got no CPU when the first ones came, or buffers hold much of so short a trial; measure longer"
            ),
            Doubted::EndMarkLost { flow } => write!(
                f,
                "the end mark of flow {flow} never arrived; its last datagrams may still have been under way"
            ),
            Doubted::ImplausibleReport { figures } => {
                let figures = figures.iter().map(ReportFigure::to_string).collect::<Vec<_>>().join(" and ");
                write!(
                    f,
                    "what it told of its {figures} cannot be by what the other end saw: that end's figure stands instead, or \
                     none; see what answers there"
                )
            }
            Doubted::CountersMissing { missing } | Doubted::ProfileReduced { missing } => f.write_str(&missing.join("; ")),
            Doubted::SettingNotTaken { setting, asked, read_back } => {
                let read = read_back.as_ref().map_or_else(|| "could not be read".to_owned(), |read| format!("is {read}"));
                write!(f, "{setting} was to be {asked} and {read}; choose a value that the machine keeps")
            }
            Doubted::SettingOverridden { setting, asked, read_back } => write!(
                f,
                "{setting} was to be {asked} and was {} when the trial was over: another program changed it meanwhile; it is \
                 put back all the same, so find that program, and measure again",
                read_back.as_deref().unwrap_or("something else")
            ),
            Doubted::BootUnchecked { level } => write!(
                f,
                "it is {level} by the word of a command: boot.{level} names nothing to look at; give it a kernel, a build or \
                 a srcversion"
            ),
            Doubted::Emulated => f.write_str(
                "each instruction of the board is carried out in software by the machine that measures, and no MAC waits for \
                 a cable: its speed, loss and CPU use say nothing of the hardware; measure on the board itself",
            ),
            Doubted::LinkWentDown { ends, changes, silence, warmup } => {
                let ends: Vec<String> = ends.iter().map(|end| format!("the {end}'s")).collect();
                let what = match silence {
                    Some(silence) => format!("nothing arrived for {}", silence.words()),
                    None if *warmup => "in the warm-up, or too shortly to show in what arrived".to_owned(),
                    None => "too shortly to show in what arrived".to_owned(),
                };
                write!(
                    f,
                    "{} link went down or came up during the trial (changes of the carrier: {changes}): {what}; look at the \
                     cable and its plugs, and measure again",
                    ends.join(" and ")
                )
            }
            Doubted::Silence { silence } => write!(
                f,
                "nothing arrived for {} in mid-trial, though no link of the two ends went down: the figures are of a path \
                 that was interrupted; look at what lies between, and measure again",
                silence.words()
            ),
            Doubted::MiddleSharesMachine { ends } => {
                let ends: Vec<String> = ends.iter().map(|end| format!("the {end}")).collect();
                write!(
                    f,
                    "the middle runs on the machine of {}, so its CPU use and its profile are of all of them; measure through \
                     a machine of its own",
                    ends.join(" and ")
                )
            }
            Doubted::MiddleNotOnPath { interfaces, counted, passed } => write!(
                f,
                "the middle's interfaces {} and {} counted {counted} bytes where {passed} arrived: it is not on the way, or \
                 forwards in hardware, past its kernel; no loss is placed in it: look where the cables go, and name the \
                 interfaces with --middle-interfaces",
                interfaces.target, interfaces.host
            ),
        }
    }
}

impl Display for SenderLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match self {
            SenderLimit::NoCpu { share } => write!(
                f,
                "its threads waited for a CPU {} of the time, so give it more CPUs or less else to do",
                percent(*share)
            ),
            SenderLimit::ReceiveWindow { share } => {
                write!(f, "TCP waited for the receiver's window {} of the time", percent(*share))
            }
            SenderLimit::Work { share } => {
                write!(f, "its threads worked {} of the time, and can do no more", percent(*share))
            }
            SenderLimit::NoRoom { worked, shaper } => {
                match shaper {
                    Some(kind) => write!(f, "its queueing discipline, {kind},")?,
                    None => f.write_str("its link, or a shaper before it,")?,
                }
                write!(
                    f,
                    " took no more, and its threads, which worked {} of the time, waited for room to send",
                    percent(*worked)
                )
            }
            SenderLimit::Unknown => f.write_str("it or its link can do no more"),
        }
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
    /// Programs that take no part used the CPUs during the trial.
    BusyMachine,
    /// Counters of the two ends, or of two sources, contradict each other.
    CountersContradict,
    /// Both ends run on one machine, so they share its CPUs.
    SharedMachine,
    /// The datagrams are larger than the MTU and travel as fragments.
    Fragmented,
    /// Fragments were dropped at several stages, so that it cannot be told where datagrams were lost.
    FragmentsLost,
    /// Counters took buffers of many datagrams, which the stack had yet to cut apart, for one packet each.
    Segmented,
    /// A socket buffer is not what was asked.
    SocketBufferClamped,
    /// The idle-capacity method could not calibrate on an idle machine.
    SoakNotCalibrated,
    /// What one end sent in its measured part is not what the other read in its own, though all of it arrived.
    PartsApart,
    /// A flow's end mark did not arrive, so its last datagrams are judged by a time-out.
    EndMarkLost,
    /// What another tool told of its end cannot be.
    ImplausibleReport,
    /// A counter source could not be read.
    CountersMissing,
    /// No profile, or not the whole of it, could be taken.
    ProfileReduced,
    /// A setting is not what was asked: the machine took it and made something else of it, or nothing.
    SettingNotTaken,
    /// A setting had another value when the trial was over: somebody else has changed it meanwhile.
    SettingOverridden,
    /// A machine was booted as something, and nothing tells whether it is that.
    BootUnchecked,
    /// A machine is emulated: it shows what a driver does, not how fast it is.
    Emulated,
    /// The link of an end went down, or came up, during the trial.
    LinkWentDown,
    /// Nothing arrived for long in mid-trial, and no link of the ends went down.
    Silence,
    /// The middle runs on the machine of an end.
    MiddleSharesMachine,
    /// The middle's interfaces did not count what passed.
    MiddleNotOnPath,
}

impl DoubtKind {
    /// The name, as records write it.
    pub fn name(self) -> &'static str {
        match self {
            DoubtKind::SenderFellBehind => "sender-fell-behind",
            DoubtKind::IrqTimeByTicks => "irq-time-by-ticks",
            DoubtKind::ShortForCpu => "short-for-cpu",
            DoubtKind::NoisyMachine => "noisy-machine",
            DoubtKind::BusyMachine => "busy-machine",
            DoubtKind::CountersContradict => "counters-contradict",
            DoubtKind::SharedMachine => "shared-machine",
            DoubtKind::Fragmented => "fragmented",
            DoubtKind::FragmentsLost => "fragments-lost",
            DoubtKind::Segmented => "segmented",
            DoubtKind::SocketBufferClamped => "socket-buffer-clamped",
            DoubtKind::SoakNotCalibrated => "soak-not-calibrated",
            DoubtKind::PartsApart => "parts-apart",
            DoubtKind::EndMarkLost => "end-mark-lost",
            DoubtKind::ImplausibleReport => "implausible-report",
            DoubtKind::CountersMissing => "counters-missing",
            DoubtKind::ProfileReduced => "profile-reduced",
            DoubtKind::SettingNotTaken => "setting-not-taken",
            DoubtKind::SettingOverridden => "setting-overridden",
            DoubtKind::BootUnchecked => "boot-unchecked",
            DoubtKind::Emulated => "emulated",
            DoubtKind::LinkWentDown => "link-went-down",
            DoubtKind::Silence => "silence",
            DoubtKind::MiddleSharesMachine => "middle-shares-machine",
            DoubtKind::MiddleNotOnPath => "middle-not-on-path",
        }
    }
}
