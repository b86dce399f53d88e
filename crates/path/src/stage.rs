//! The path of a packet, and counters grouped by it.
//! Knows the stages' names and order; which counter belongs where is decided by who reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use linerate_machine::words;

words! {
    /// A place where a packet can be, in the order in which it passes them.
    Stage {
        /// The program that sends.
        SenderApplication = "sender application",
        /// The sending socket's buffer.
        SenderSocket = "sender socket",
        /// TCP, UDP, IP and the neighbour table on the way out.
        SenderStack = "sender stack",
        /// The queueing discipline of the sending interface.
        Qdisc = "qdisc",
        /// The transmit descriptors between driver and MAC.
        DriverTxRing = "driver TX ring",
        /// The sending MAC.
        MacTx = "MAC TX",
        /// The cable, and whatever stands in it.
        Link = "link",
        /// The receiving MAC and its FIFO.
        MacRxFifo = "MAC RX FIFO",
        /// The receive descriptors between MAC and driver.
        DriverRxRing = "driver RX ring",
        /// The per-CPU queue and poll loop that feeds the stack.
        SoftirqBacklog = "softirq backlog",
        /// IP, UDP and TCP on the way in.
        ReceiverStack = "receiver stack",
        /// The receiving socket's buffer.
        ReceiverSocket = "receiver socket",
        /// The program that receives.
        ReceiverApplication = "receiver application",
        /// Not a place on the path: a counter that the tables do not know, shown rather than swallowed.
        Unplaced = "unplaced",
    }
}

impl Stage {
    /// Every place on the path, in order.
    pub const PATH: [Stage; 13] = {
        let [path @ .., Stage::Unplaced] = Stage::ALL else { panic!("what is not on the path is the last") };
        path
    };

    /// Whether IP, what it carries, or a socket of theirs is there.
    pub const fn is_of_ip(self) -> bool {
        matches!(self, Stage::SenderSocket | Stage::SenderStack | Stage::ReceiverStack | Stage::ReceiverSocket)
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
