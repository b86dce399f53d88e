//! A line of the loss budget as facts, and the one place that makes a sentence of them.
//! Knows no rule of the budget: what a line rests on is decided in [`super`].

use std::fmt::Write as _;

use linerate_machine::end::{Direction, Party};
use serde::{Deserialize, Serialize};

use super::drops::DropCause;
use super::leg::{Leg, SeenAt};
use crate::drop_reason::DropReason;
use crate::stage::Stage;

/// Packets that were lost at one stage, and what says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossLine {
    /// Where.
    pub stage: Stage,
    /// Which way they went.
    pub direction: Direction,
    /// The machine whose counters say so.
    pub end: Party,
    /// Which of its interfaces it was at; absent of an end, which has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// How many.
    pub packets: u64,
    /// What happened to them; absent of what the trial did not lose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<DropCause>,
    /// The counters whose sum they are, before `adjustments`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counted>,
    /// Counters that count the same packets once more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted_again: Vec<Counter>,
    /// Why `packets` is not what the counters say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjustments: Vec<Adjustment>,
    /// The reasons that the kernel gave for such drops, of all the machine's traffic. Where there are no counters, the
    /// line rests on these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<DropReason>,
}

/// What one counter grew by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Who counts.
    pub source: Source,
    /// The counter's name, as `machine.counters` has it, such as `link rx_dropped`.
    pub name: String,
    /// By how much it grew.
    pub value: u64,
}

impl Counted {
    /// Counters of the machine.
    pub(super) fn of(hits: &[(&str, u64)]) -> Vec<Counted> {
        let counted = |&(name, value): &(&str, u64)| Counted { source: Source::Counter, name: name.to_owned(), value };
        hits.iter().map(counted).collect()
    }
}

/// Who counts packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A counter of the machine: of its kernel, an interface or a driver.
    Counter,
    /// The trial's own sockets, by `SO_MEMINFO`.
    Socket,
    /// The sending application, by errors of `send`.
    Send,
    /// The receiving application.
    Receiver,
}

/// A counter of one of the machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Whose.
    pub end: Party,
    /// Of which of its interfaces; absent of an end, which has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its name.
    pub name: String,
}

/// Why a line is of other packets than its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Adjustment {
    /// Some have a line of their own at another stage.
    CountedAt {
        /// Where.
        stage: Stage,
        /// How many.
        packets: u64,
    },
    /// Some were handed over again: there was no room in the sender's queue, or the kernel told of an earlier one.
    Retried {
        /// How many.
        packets: u64,
    },
    /// Some were the sender's end marks, which are no datagrams of the trial.
    EndMarks {
        /// How many.
        packets: u64,
    },
    /// Some were not the trial's: they are more than it lost.
    NotOfTheTrial {
        /// How many.
        packets: u64,
    },
    /// All that are more than the trial lost: of unknown protocols, or of other traffic.
    MoreThanLost {
        /// How many.
        packets: u64,
    },
    /// The counters are the whole machine's and count more than the trial lost.
    MachineWide,
    /// The counters are the whole machine's; the interface's own counter says less.
    LimitedByInterface {
        /// The interface's counter.
        name: String,
        /// By how much it grew.
        packets: u64,
    },
    /// The counters are of buffers that were cut into segments only behind them.
    Buffers {
        /// How many buffers.
        packets: u64,
        /// The segments that were lost with them.
        segments: u64,
    },
    /// What IP received, delivered to nobody and counted as no error, as a packet filter has it.
    Undelivered {
        /// How many.
        packets: u64,
    },
    /// What IP was asked to send and transmitted none of, as a packet filter has it.
    Untransmitted {
        /// How many.
        packets: u64,
    },
    /// What the middle received, and neither forwarded, nor kept, nor counted as an error.
    NotForwarded {
        /// How many.
        packets: u64,
    },
    /// The counters are of IP fragments.
    Fragments {
        /// Fragments to a datagram.
        per_datagram: u32,
        /// Times that the receiver gave up putting fragments together; 0: not counted, or not yet.
        reassembly_failures: u64,
    },
    /// The counters are of fragments and of attempts to put them together.
    ReassemblyAttempts {
        /// Fragments to a datagram.
        per_datagram: u32,
    },
}

impl LossLine {
    /// A line without adjustments.
    pub(super) fn new(stage: Stage, seen_at: SeenAt, packets: u64, counters: Vec<Counted>) -> LossLine {
        let SeenAt { direction, party, interface } = seen_at;
        LossLine {
            stage,
            direction,
            end: party,
            interface,
            packets,
            cause: None,
            counters,
            counted_again: Vec::new(),
            adjustments: Vec::new(),
            reasons: Vec::new(),
        }
    }

    /// Where it stands on the way from the sending application to the receiving one.
    pub fn place(&self) -> (Leg, Stage) {
        (Leg::of(self.end, self.stage), self.stage)
    }

    /// Whether other traffic of the machine moves what the line rests on, and it was taken for as much as was missing.
    pub fn is_of_the_whole_machine(&self) -> bool {
        // softnet counts for every interface; the trial's own has to agree.
        let is_confirmed = !self.counted_again.is_empty()
            || self.adjustments.iter().any(|one| matches!(one, Adjustment::LimitedByInterface { .. }));
        match self.cause {
            Some(DropCause::Undelivered | DropCause::Untransmitted | DropCause::NotForwarded) => true,
            Some(DropCause::Backlog) => !is_confirmed,
            _ => self.counters.is_empty() || self.adjustments.contains(&Adjustment::MachineWide),
        }
    }

    /// Whether one of its counters is this field of its group: `NoPorts` is of `Udp` and of `Udp6`.
    pub fn counts(&self, field: &str) -> bool {
        self.counters.iter().any(|counted| counted.name.rsplit(' ').next() == Some(field))
    }

    /// Whether the kernel gave this reason, or one that begins so where the name ends in `*`.
    pub fn has_reason(&self, pattern: &str) -> bool {
        self.reasons
            .iter()
            .filter_map(|reason| reason.reason.as_deref())
            .any(|name| linerate_machine::pattern::fits(pattern, name))
    }

    /// Whether this function of the kernel dropped some.
    pub fn is_dropped_by(&self, function: &str) -> bool {
        self.reasons.iter().any(|reason| reason.location.as_deref() == Some(function))
    }

    /// Which counters of which machine say so, as a clause.
    pub fn evidence(&self) -> String {
        let mut clause = format!("{}: {}", named_at(self.end, self.interface.as_deref()), listed(&self.counters));
        if !self.counted_again.is_empty() {
            let again: Vec<String> = self.counted_again.iter().map(|counter| self.named(counter)).collect();
            let _ = write!(clause, " ({} again)", again.join(" and "));
        }
        for adjustment in &self.adjustments {
            let _ = write!(clause, "{adjustment}");
        }
        clause.push_str(match self.cause {
            Some(DropCause::RedirectQueue) => " (packets are redirected there on the way in)",
            Some(DropCause::PolicyIn | DropCause::PolicyOut) => " (IPsec)",
            Some(DropCause::UdpErrors) => " (a socket's filter, or a policy)",
            _ => "",
        });
        let reasons: Vec<String> = self.reasons.iter().map(ToString::to_string).collect();
        if self.counters.is_empty() {
            let _ = write!(clause, "{}, by no counter; of all the machine's traffic", reasons.join("; "));
        } else {
            reasons.iter().for_each(|reason| clause.extend(["; ", reason]));
        }
        clause
    }

    /// A counter's name, with its machine where that is the other one.
    fn named(&self, counter: &Counter) -> String {
        match counter.end == self.end && counter.interface == self.interface {
            true => counter.name.clone(),
            false => format!("the {}'s {}", named_at(counter.end, counter.interface.as_deref()), counter.name),
        }
    }
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.source {
            Source::Counter => write!(f, "{} {}", self.name, self.value),
            Source::Socket => write!(f, "the trial's sockets dropped {}", self.value),
            Source::Send => write!(f, "{} refused by send", self.value),
            Source::Receiver => write!(f, "{} came longer or shorter than they were sent", self.value),
        }
    }
}

/// A machine, and which of its interfaces where it has several: `middle p1`.
pub(super) fn named_at(party: Party, interface: Option<&str>) -> String {
    interface.map_or_else(|| party.to_string(), |interface| format!("{party} {interface}"))
}

/// `name 3, other 4`.
pub(super) fn listed(counters: &[Counted]) -> String {
    counters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for Adjustment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Adjustment::CountedAt { stage, packets } => write!(f, ", less {packets} counted at {stage}"),
            Adjustment::Retried { packets } => {
                write!(f, ", less {packets} that were handed over again")
            }
            Adjustment::EndMarks { packets } => {
                write!(f, ", {packets} of them the sender's end mark, which is no datagram of the trial")
            }
            Adjustment::NotOfTheTrial { packets } => write!(f, ", less {packets} that the trial did not lose"),
            Adjustment::MoreThanLost { packets } => {
                write!(f, ", {packets} more than the trial lost: unknown protocols or other traffic")
            }
            Adjustment::Buffers { packets, segments } => {
                write!(f, "; {packets} buffers of several segments each, {segments} segments in all")
            }
            Adjustment::MachineWide => f.write_str(" on the machine, more than the trial lost"),
            Adjustment::LimitedByInterface { name, packets } => write!(f, " on the machine, {name} {packets}"),
            Adjustment::Undelivered { packets } => {
                write!(f, ": {packets} delivered to nobody and counted as no error, as by a packet filter")
            }
            Adjustment::Untransmitted { packets } => {
                write!(f, ": {packets} asked for and not transmitted, as by a packet filter")
            }
            Adjustment::NotForwarded { packets } => {
                write!(f, ": {packets} neither forwarded nor kept, and counted as no error, as by a packet filter")
            }
            Adjustment::Fragments { per_datagram, reassembly_failures } => {
                write!(f, " fragments, {per_datagram} to a datagram")?;
                match reassembly_failures {
                    0 => Ok(()),
                    failures => write!(f, "; {}", reassembly_failed(*failures)),
                }
            }
            Adjustment::ReassemblyAttempts { per_datagram } => {
                write!(f, " fragments and attempts, {per_datagram} fragments to a datagram")
            }
        }
    }
}

/// Drops that were counted before buffers were cut apart: each may have been of many datagrams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segmented {
    /// Drops that counters saw.
    pub drops: i64,
    /// Datagrams to a buffer, at most.
    pub segments: u32,
    /// Datagrams that are unaccounted for.
    pub unaccounted: i64,
}

impl std::fmt::Display for Segmented {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Segmented { drops, segments, unaccounted } = self;
        write!(
            f,
            "counters saw {drops} drops, each of which may have been of a buffer of up to {segments} datagrams: that can be \
             where the {unaccounted} unaccounted ones went; send with sender_api=sendmmsg to have each counted"
        )
    }
}

/// Fragments that were dropped at several stages: which of them lost which datagram cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeveralStages {
    /// The stages.
    pub stages: Vec<FragmentsAt>,
    /// Fragments to a datagram.
    pub per_datagram: u32,
    /// Times that the receiver gave up putting fragments together; 0: not counted, or not yet.
    pub reassembly_failures: u64,
}

/// Fragments that were dropped at one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentsAt {
    /// Where.
    pub stage: Stage,
    /// How many.
    pub fragments: u64,
}

impl std::fmt::Display for SeveralStages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |one: &FragmentsAt| format!("{} at {}", one.fragments, one.stage);
        let places = self.stages.iter().map(at).collect::<Vec<_>>().join(", ");
        let reassembly = match self.reassembly_failures {
            0 => String::new(),
            failures => format!("; {}", reassembly_failed(failures)),
        };
        write!(
            f,
            "Fragments were dropped at several stages ({places}{reassembly}), {} to a datagram: which of them lost which \
             datagram cannot be told; try a message that fits the MTU",
            self.per_datagram
        )
    }
}

/// What the receiver's failures to put fragments together are counted in.
fn reassembly_failed(failures: u64) -> String {
    format!("receiver: Ip ReasmFails {failures}, in fragments and attempts, not datagrams")
}
