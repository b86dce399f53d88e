//! How many packets passed each stage, where a counter tells, and the pause frames beside them.
//! Knows no losses.

use linerate_machine::end::Party;
use linerate_machine::pattern::fits;
use serde::{Deserialize, Serialize};

use super::chain::Chain;
use super::leg::Leg;
use super::line::{listed, named_at};
use super::machine_account::{Hits, MachineAccount};
use super::{Counted, Datagrams};
use crate::drivers::Meaning;
use crate::stage::Stage;

/// Packets that passed a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCount {
    /// Where.
    pub stage: Stage,
    /// How many.
    pub packets: u64,
    /// What they are there.
    pub unit: Passed,
    /// The machine that says so; absent of what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Party>,
    /// Which of its interfaces it was at; absent of an end, which has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// What says so.
    pub witness: CountSource,
}

/// What says how many packets passed a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CountSource {
    /// The rate and the duration that were asked for.
    Asked,
    /// The sending application.
    Sender,
    /// The sending application: those that `send` accepted.
    Send,
    /// The receiving application: different ones that it got.
    Receiver,
    /// `tcp_info` of the trial's sockets.
    TcpInfo,
    /// Counters of the machine, which add up.
    Counters {
        /// Those that moved.
        counters: Vec<Counted>,
    },
}

impl StageCount {
    /// What says so, as a clause.
    pub fn evidence(&self) -> String {
        let said = match &self.witness {
            CountSource::Asked => "asked for, by rate and duration".to_owned(),
            CountSource::Sender => "sent by the application".to_owned(),
            CountSource::Send => "accepted by send".to_owned(),
            CountSource::Receiver => "different ones delivered to the application".to_owned(),
            CountSource::TcpInfo => "tcp_info of its sockets".to_owned(),
            CountSource::Counters { counters } if self.stage == Stage::SoftirqBacklog => {
                format!("{}, of all its interfaces", listed(counters))
            }
            CountSource::Counters { counters } => listed(counters),
        };
        let interface = self.interface.as_deref();
        self.end.map_or(said.clone(), |end| format!("{}: {said}", named_at(end, interface)))
    }

    /// Where it stands on the way from the sending application to the receiving one.
    pub fn place(&self) -> (Leg, Stage) {
        (self.end.map_or(Leg::Sender, |end| Leg::of(end, self.stage)), self.stage)
    }
}

/// What passes a stage. Below the stack it is not always one for one: large buffers are cut late, and put together
/// early; other traffic and the trial's own hello and end mark are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Passed {
    /// Datagrams of the trial.
    Datagrams,
    /// Frames of the trial.
    Frames,
    /// Data segments of the trial's connections, those retransmitted included.
    Segments,
    /// Packets of the interface, or of the machine, whosever they were.
    Packets,
}

impl Passed {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Passed::Datagrams => "datagrams",
            Passed::Frames => "frames",
            Passed::Segments => "segments",
            Passed::Packets => "packets",
        }
    }
}

/// The path of one direction, in its order. `asked` is what the offered load and the duration come to.
pub fn path(trial: Trial<'_>, chain: Chain<'_>) -> Vec<StageCount> {
    let mut path = Path(Vec::new());
    let Chain { sender, receiver, .. } = chain;
    let (from, to) = (Some(sender.party()), Some(receiver.party()));
    match trial {
        Trial::Udp { asked, datagrams } => {
            let Datagrams { sent, send_errors, received_unique, .. } = *datagrams;
            let accepted = sent.saturating_sub(send_errors);
            let unit = if datagrams.below_ip { Passed::Frames } else { Passed::Datagrams };
            path.add(Stage::SenderApplication, unit, asked, None, CountSource::Asked);
            path.add(Stage::SenderApplication, unit, Some(sent), from, CountSource::Sender);
            path.add(Stage::SenderSocket, unit, Some(accepted), from, CountSource::Send);
            if !datagrams.below_ip {
                path.add_counters(Stage::SenderStack, sender, &["Udp OutDatagrams", "Udp6 OutDatagrams"]);
            }
            path.add_interfaces(chain);
            if !datagrams.below_ip {
                path.add_counters(Stage::ReceiverStack, receiver, &["Ip InReceives", "Ip6 InReceives"]);
                path.add_counters(Stage::ReceiverSocket, receiver, &["Udp InDatagrams", "Udp6 InDatagrams"]);
            }
            path.add(Stage::ReceiverApplication, unit, Some(received_unique), to, CountSource::Receiver);
        }
        Trial::Tcp { sent, received } => {
            path.add(Stage::SenderSocket, Passed::Segments, sent, from, CountSource::TcpInfo);
            path.add_counters(Stage::SenderStack, sender, &["Tcp OutSegs"]);
            path.add_interfaces(chain);
            path.add_counters(Stage::ReceiverStack, receiver, &["Tcp InSegs"]);
            path.add(Stage::ReceiverSocket, Passed::Segments, received, to, CountSource::TcpInfo);
        }
    }
    path.0
}

/// What the two ends know of a trial's traffic in one direction.
#[derive(Clone, Copy, Debug)]
pub enum Trial<'a> {
    /// Datagrams.
    Udp {
        /// What was asked for; `None` of an unlimited load.
        asked: Option<u64>,
        /// What became of them.
        datagrams: &'a Datagrams,
    },
    /// Data segments, those retransmitted included.
    Tcp {
        /// By the sending sockets.
        sent: Option<u64>,
        /// By the receiving ones.
        received: Option<u64>,
    },
}

struct Path(Vec<StageCount>);

impl Path {
    fn add(&mut self, stage: Stage, unit: Passed, packets: Option<u64>, end: Option<Party>, witness: CountSource) {
        let passage = |packets| StageCount { stage, packets, unit, end, interface: None, witness };
        self.0.extend(packets.map(passage));
    }

    fn add_sum(&mut self, stage: Stage, seen: &MachineAccount<'_>, packets: u64, counters: Vec<Counted>) {
        let (end, interface) = (Some(seen.party()), seen.interface().map(str::to_owned));
        let witness = CountSource::Counters { counters };
        self.0.push(StageCount { stage, packets, unit: Passed::Packets, end, interface, witness });
    }

    /// The sum of those counters that are there.
    fn add_counters(&mut self, stage: Stage, seen: &MachineAccount<'_>, names: &[&str]) {
        let known = seen.counters.iter().filter(|(_, name, _)| names.contains(name));
        let known: Hits<'_> = known.map(|(_, name, value)| (name, value)).collect();
        if known.is_empty() {
            return;
        }
        let moved: Hits<'_> = known.into_iter().filter(|(_, value)| *value > 0).collect();
        self.add_sum(stage, seen, moved.iter().map(|(_, value)| value).sum(), Counted::of(&moved));
    }

    /// From the sending queue to the receiving one, through the middle where there is one.
    fn add_interfaces(&mut self, chain: Chain<'_>) {
        for (leg, seen) in chain.all() {
            if matches!(leg, Leg::Sender | Leg::MiddleOut) {
                self.add_queue(seen);
                self.add_frames(seen, [Stage::DriverTxRing, Stage::MacTx]);
                continue;
            }
            self.add_frames(seen, [Stage::MacRxFifo, Stage::DriverRxRing]);
            let processed = "softnet processed";
            if let Some(packets) = seen.counters.get(Stage::SoftirqBacklog, processed) {
                self.add_sum(Stage::SoftirqBacklog, seen, packets, Counted::of(&[(processed, packets)]));
            }
            if leg == Leg::MiddleIn {
                // Of a bridge these stand still.
                let forwarded = seen.forwarded();
                let packets = forwarded.iter().map(|(_, packets)| packets).sum();
                if packets > 0 {
                    self.add_sum(Stage::ReceiverStack, seen, packets, Counted::of(&forwarded));
                }
            }
        }
    }

    fn add_queue(&mut self, seen: &MachineAccount<'_>) {
        // A queue below a root counts what the root counts; of several devices in a row each does.
        let queues = seen.counters.0.get(&Stage::Qdisc).into_iter().flatten();
        let queue = queues
            .filter(|(name, _)| fits("* * packets", name) && !name.contains('@'))
            .max_by_key(|(_, packets)| **packets);
        if let Some((name, packets)) = queue {
            self.add_sum(Stage::Qdisc, seen, *packets, Counted::of(&[(name, *packets)]));
        }
    }

    fn add_frames(&mut self, seen: &MachineAccount<'_>, stages: [Stage; 2]) {
        for stage in stages {
            if let Some((packets, counters)) = frames_at(seen, stage) {
                self.add_sum(stage, seen, packets, counters);
            }
        }
    }
}

/// Frames that passed a stage of an interface: what the link counts at the rings, what the driver's table says
/// elsewhere.
pub(super) fn frames_at(seen: &MachineAccount<'_>, stage: Stage) -> Option<(u64, Vec<Counted>)> {
    passed_at(seen, stage, "packets", Meaning::Packets)
}

pub(super) fn octets_at(seen: &MachineAccount<'_>, stage: Stage) -> Option<(u64, Vec<Counted>)> {
    passed_at(seen, stage, "bytes", Meaning::Octets)
}

fn passed_at(seen: &MachineAccount<'_>, stage: Stage, unit: &str, meaning: Meaning) -> Option<(u64, Vec<Counted>)> {
    let link = match stage {
        Stage::DriverTxRing => Some(format!("link tx_{unit}")),
        Stage::DriverRxRing => Some(format!("link rx_{unit}")),
        _ => None,
    };
    if let Some(name) = link
        && let Some(value) = seen.counters.get(stage, &name)
    {
        return Some((value, Counted::of(&[(&name, value)])));
    }
    let alternatives = seen.alternatives(|row| row.stage == stage && row.meaning == meaning);
    let hits = alternatives.first()?;
    Some((hits.iter().fold(0, |sum, (_, value)| sum.saturating_add(*value)), Counted::of(hits)))
}

/// Pause frames of one machine (IEEE 802.3, annex 31B): they turn loss into slowness.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PauseFrames {
    /// Sent: its receive side was full, and the peer was to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Received: the peer asked it to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// How long its transmitter stood still for them, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_s: Option<f64>,
    /// The counters that say so.
    pub counters: Vec<Counted>,
}

impl PauseFrames {
    /// Which counters say so, as a clause.
    pub fn evidence(&self) -> String {
        listed(&self.counters)
    }
}

impl MachineAccount<'_> {
    /// Its pause frames; `None` where no counter tells of any.
    pub fn pause(&self) -> Option<PauseFrames> {
        let mut counters = Vec::new();
        let mut count = |standard: Option<(Stage, &str)>, meaning| {
            let value = standard.and_then(|(stage, name)| Some((name, self.counters.get(stage, name)?)));
            let hits: Option<Hits<'_>> = match value {
                Some(hit) => Some(vec![hit]),
                None => self.counted(meaning),
            };
            let hits = hits?;
            counters.extend(Counted::of(&hits));
            Some(hits.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value)))
        };
        let sent = count(Some((Stage::MacRxFifo, "pause tx_frames")), Meaning::PauseSent);
        let received = count(Some((Stage::MacTx, "pause rx_frames")), Meaning::PauseReceived);
        let stalled_s = count(None, Meaning::StalledMicroseconds).map(|us| us as f64 / 1e6);
        (!counters.is_empty()).then_some(PauseFrames { sent, received, stalled_s, counters })
    }

    /// The counters of a meaning that add up, those of zero included; those that count again where there are no
    /// others.
    fn counted(&self, meaning: Meaning) -> Option<Hits<'_>> {
        let of = |again: bool| -> Hits<'_> {
            let hits = self.counters.iter().filter(|(_, name, _)| {
                self.table.row(name).is_some_and(|row| row.meaning == meaning && row.again == again)
            });
            hits.map(|(_, name, value)| (name, value)).collect()
        };
        [of(false), of(true)].into_iter().find(|hits| !hits.is_empty())
    }
}
