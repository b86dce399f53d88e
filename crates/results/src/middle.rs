//! The machine in the middle of a trial, as its record has it: between the two ends, with an interface towards each.
//! Knows no direction but the one it is asked about.

use linerate_machine::change::Changed;
use linerate_machine::end::{Direction, End, PerEnd};
use linerate_machine::environment::{Environment, Nic};
use linerate_path::budget::{MachineAccount, MiddleMachine, PauseFrames};
use linerate_path::stage::{Counters, Stage};
use linerate_registers::changes::RegisterChanges;
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::middle::MiddleOutcome;
use serde::{Deserialize, Serialize};

use crate::record::Machine;

/// The machine that forwarded the test traffic: a bridge, a router, a NAT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Middle {
    /// The machine, without what is of an interface. It has no address of the test traffic, and no threads that moved data.
    #[serde(flatten)]
    pub machine: Machine,
    /// Its interfaces towards the target and towards the host.
    pub ports: PerEnd<Port>,
}

/// An interface of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub interface: String,
    /// The interface as it was.
    pub nic: Option<Nic>,
    /// Settings of it that were changed for this trial.
    #[serde(default)]
    pub settings: Vec<Changed>,
    /// What its counters grew by during the whole trial.
    #[serde(default)]
    pub counters: Counters,
    /// Pause frames during the whole trial, where a counter tells.
    pub pause_frames: Option<PauseFrames>,
    /// What changed in the registers of its MAC and PHY over the whole trial; with `registers` on.
    pub registers: Option<RegisterChanges>,
}

impl Port {
    /// The driver's name, where it is known.
    pub fn driver(&self) -> Option<&str> {
        self.nic.as_ref()?.driver.as_deref()
    }
}

/// The end that sends what goes this way.
pub fn sender_of(direction: Direction) -> End {
    match direction {
        Direction::Rx => End::Host,
        Direction::Tx | Direction::Both => End::Target,
    }
}

/// What the middle saw of the traffic of one direction, as [`MiddleMachine`] has it.
pub(crate) struct MiddlePath<'a> {
    input: MachineAccount<'a>,
    output: MachineAccount<'a>,
    shares_with_sender: bool,
    shares_with_receiver: bool,
}

impl MiddlePath<'_> {
    pub(crate) fn between(&self) -> MiddleMachine<'_> {
        let MiddlePath { input, output, shares_with_sender, shares_with_receiver } = self;
        let (shares_with_sender, shares_with_receiver) = (*shares_with_sender, *shares_with_receiver);
        MiddleMachine { input, output, shares_with_sender, shares_with_receiver }
    }
}

impl Middle {
    /// What it saw of the traffic of one direction: where it came in, and where it left.
    pub fn seen(&self, direction: Direction) -> [MachineAccount<'_>; 2] {
        let sender = sender_of(direction);
        [sender, sender.other()].map(|end| {
            let port = &self.ports[end];
            let mut counters = self.machine.counters.clone();
            port.counters.iter().for_each(|(stage, name, value)| counters.add(stage, name, value));
            let reasons = self.machine.drop_reasons.as_deref().unwrap_or_default();
            MachineAccount::of_middle(direction, &port.interface, &counters, port.driver()).with_reasons(reasons)
        })
    }

    /// The same as a part of the way between machines with these environments.
    pub(crate) fn on_way(&self, direction: Direction, environments: PerEnd<&Environment>) -> MiddlePath<'_> {
        let sender = sender_of(direction);
        let shares_with = |end: End| self.machine.environment.is_machine_of(environments[end]);
        let [input, output] = self.seen(direction);
        let (shares_with_sender, shares_with_receiver) = (shares_with(sender), shares_with(sender.other()));
        MiddlePath { input, output, shares_with_sender, shares_with_receiver }
    }

    /// Its counters, the machine's own and those of each interface, with their names.
    pub fn counters(&self) -> [(String, &Counters); 3] {
        let [target, host] = self.named().map(|(name, port)| (name, &port.counters));
        [("middle".to_owned(), &self.machine.counters), target, host]
    }

    /// Its interfaces with their names: the one towards the target, then the one towards the host.
    pub fn named(&self) -> [(String, &Port); 2] {
        End::BOTH.map(|towards| (self.name(towards), &self.ports[towards]))
    }

    /// An interface's name, as tables and sentences have it.
    pub fn name(&self, towards: End) -> String {
        format!("middle {}", self.ports[towards].interface)
    }

    /// Why nothing that it counted can be of this trial: its interfaces saw far less pass than these octets of payload, which
    /// arrived.
    pub fn is_not_on_path(&self, direction: Direction, passed: u64) -> Option<Doubt> {
        let sender = sender_of(direction);
        let of = |end: End, stage, name| self.ports[end].counters.get(stage, name);
        let came = of(sender, Stage::DriverRxRing, "link rx_bytes")?;
        let left = of(sender.other(), Stage::DriverTxRing, "link tx_bytes")?;
        let counted = came.min(left);
        if passed < ENOUGH || counted >= passed / 2 {
            return None;
        }
        let interfaces = PerEnd::of(|end| self.ports[end].interface.clone());
        Some(Doubted::MiddleNotOnPath { interfaces, counted, passed }.into())
    }

    /// Takes in what it saw of the trial.
    pub(crate) fn handle_outcome(&mut self, outcome: MiddleOutcome, registers: Option<RegistersOf>) {
        let MiddleOutcome { cpu, cpu_slices: _, counters, ports, drop_reasons, profile: _, doubts: _ } = outcome;
        (self.machine.cpu, self.machine.drop_reasons) = (cpu, drop_reasons);
        self.machine.counters = counters;
        let PerEnd { target, host } = ports;
        for (end, seen) in [(End::Target, target), (End::Host, host)] {
            let port = &mut self.ports[end];
            let placed = MachineAccount::of_middle(Direction::Tx, &port.interface, &seen.counters, port.driver());
            port.pause_frames = placed.pause();
            port.counters = placed.counters;
            port.registers = registers.map(|made_of| made_of(seen.registers));
        }
    }

    /// The machine without what only a record in full shows.
    pub(crate) fn into_brief(mut self) -> Middle {
        self.machine = self.machine.into_brief();
        for end in End::BOTH {
            let port = &mut self.ports[end];
            let nic = port.nic.take().map(|nic| nic.in_brief());
            *port = Port { interface: std::mem::take(&mut port.interface), nic, ..Port::default() };
        }
        self
    }
}

/// What registers did between two readings of them.
type RegistersOf = fn(Option<linerate_machine::registers::AroundTrial>) -> RegisterChanges;

/// Of a trial of less payload nothing is concluded.
const ENOUGH: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn middle(came: u64, left: u64) -> Middle {
        let mut middle = sample::middle();
        middle.ports.host.counters = Counters::default();
        middle.ports.host.counters.add(Stage::DriverRxRing, "link rx_bytes", came);
        middle.ports.target.counters = Counters::default();
        middle.ports.target.counters.add(Stage::DriverTxRing, "link tx_bytes", left);
        middle
    }

    #[test]
    fn a_machine_that_saw_nothing_pass_is_not_on_the_way() {
        assert_eq!(middle(1_100_000, 1_090_000).is_not_on_path(Direction::Rx, 1_000_000), None);
        // What it dropped did not arrive.
        assert_eq!(middle(1_100_000, 11_000).is_not_on_path(Direction::Rx, 10_000), None);
        let doubt = middle(4000, 900).is_not_on_path(Direction::Rx, 1_000_000).unwrap().to_string();
        assert!(
            doubt.starts_with("the middle's interfaces p1 and p0 counted 900 bytes where 1000000 arrived"),
            "{doubt}"
        );
        assert_eq!(middle(0, 0).is_not_on_path(Direction::Rx, 100), None);
        // Of the other direction these two say nothing.
        assert_eq!(middle(0, 0).is_not_on_path(Direction::Tx, 1_000_000), None);
    }
}
