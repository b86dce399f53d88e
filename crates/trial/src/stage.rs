//! The path of a packet, and counters grouped by it.
//! Knows the stages' names and order; which counter belongs where is decided by who reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A place where a packet can be, in the order in which it passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// The program that sends.
    #[serde(rename = "sender application")]
    SenderApplication,
    /// The sending socket's buffer.
    #[serde(rename = "sender socket")]
    SenderSocket,
    /// TCP, UDP, IP and the neighbour table on the way out.
    #[serde(rename = "sender stack")]
    SenderStack,
    /// The queueing discipline of the sending interface.
    #[serde(rename = "qdisc")]
    Qdisc,
    /// The transmit descriptors between driver and MAC.
    #[serde(rename = "driver TX ring")]
    DriverTxRing,
    /// The sending MAC.
    #[serde(rename = "MAC TX")]
    MacTx,
    /// The cable, and whatever stands in it.
    #[serde(rename = "link")]
    Link,
    /// The receiving MAC and its FIFO.
    #[serde(rename = "MAC RX FIFO")]
    MacRxFifo,
    /// The receive descriptors between MAC and driver.
    #[serde(rename = "driver RX ring")]
    DriverRxRing,
    /// The per-CPU queue and poll loop that feeds the stack.
    #[serde(rename = "softirq backlog")]
    SoftirqBacklog,
    /// IP, UDP and TCP on the way in.
    #[serde(rename = "receiver stack")]
    ReceiverStack,
    /// The receiving socket's buffer.
    #[serde(rename = "receiver socket")]
    ReceiverSocket,
    /// The program that receives.
    #[serde(rename = "receiver application")]
    ReceiverApplication,
    /// Not a place on the path: a counter that the tables do not know, shown rather than swallowed.
    #[serde(rename = "unplaced")]
    Unplaced,
}

impl Stage {
    /// Every place on the path, in order.
    pub const PATH: [Stage; 13] = [
        Stage::SenderApplication,
        Stage::SenderSocket,
        Stage::SenderStack,
        Stage::Qdisc,
        Stage::DriverTxRing,
        Stage::MacTx,
        Stage::Link,
        Stage::MacRxFifo,
        Stage::DriverRxRing,
        Stage::SoftirqBacklog,
        Stage::ReceiverStack,
        Stage::ReceiverSocket,
        Stage::ReceiverApplication,
    ];

    /// The name, as records and reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::SenderApplication => "sender application",
            Stage::SenderSocket => "sender socket",
            Stage::SenderStack => "sender stack",
            Stage::Qdisc => "qdisc",
            Stage::DriverTxRing => "driver TX ring",
            Stage::MacTx => "MAC TX",
            Stage::Link => "link",
            Stage::MacRxFifo => "MAC RX FIFO",
            Stage::DriverRxRing => "driver RX ring",
            Stage::SoftirqBacklog => "softirq backlog",
            Stage::ReceiverStack => "receiver stack",
            Stage::ReceiverSocket => "receiver socket",
            Stage::ReceiverApplication => "receiver application",
            Stage::Unplaced => "unplaced",
        }
    }

    /// The stage of this name.
    pub fn named(name: &str) -> Option<Stage> {
        Stage::PATH.into_iter().chain([Stage::Unplaced]).find(|stage| stage.name() == name)
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Counters of one machine at one moment, or what they grew by: stage → name → value.
/// A name that is absent is unknown; a zero was read as zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(pub BTreeMap<Stage, BTreeMap<String, u64>>);

impl Counters {
    /// Adds `value` to the counter (several sources may speak of one name, such as one per queue).
    pub fn add(&mut self, stage: Stage, name: impl Into<String>, value: u64) {
        let counter = self.0.entry(stage).or_default().entry(name.into()).or_default();
        *counter = counter.wrapping_add(value);
    }

    /// The counter's value, where it is known.
    pub fn get(&self, stage: Stage, name: &str) -> Option<u64> {
        self.0.get(&stage)?.get(name).copied()
    }

    /// What every counter grew by since `before`. A counter that only one side knows is left out; one that
    /// went backwards (a driver reset it) is left out too, for its growth is unknown.
    pub fn since(&self, before: &Counters) -> Counters {
        let mut growth = Counters::default();
        for (&stage, names) in &self.0 {
            for (name, &after) in names {
                if let Some(delta) = before.get(stage, name).and_then(|before| after.checked_sub(before)) {
                    growth.0.entry(stage).or_default().insert(name.clone(), delta);
                }
            }
        }
        growth
    }

    /// Every counter, in the path's order.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, &str, u64)> {
        self.0.iter().flat_map(|(&stage, names)| names.iter().map(move |(name, &value)| (stage, name.as_str(), value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_known_only_where_both_moments_are() {
        let mut before = Counters::default();
        before.add(Stage::Qdisc, "eth0 dropped", 5);
        before.add(Stage::Qdisc, "eth0 requeues", 9);
        before.add(Stage::Qdisc, "gone", 1);
        let mut after = Counters::default();
        after.add(Stage::Qdisc, "eth0 dropped", 7);
        after.add(Stage::Qdisc, "eth0 requeues", 2);
        after.add(Stage::Qdisc, "new", 4);
        let growth = after.since(&before);
        assert_eq!(growth.iter().collect::<Vec<_>>(), [(Stage::Qdisc, "eth0 dropped", 2)]);
    }

    #[test]
    fn names_are_the_serialized_names() {
        for stage in Stage::PATH {
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.name());
        }
    }
}
