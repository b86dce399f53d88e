//! One of the two machines of a case, and what its counters say of its interface.
//! Knows neither directions nor what went wrong.

use std::collections::BTreeMap;

use linerate_machine::cpu::{CpuShares, CpuUse};
use linerate_machine::end::End;
use linerate_machine::environment::Nic;
use linerate_machine::setting::discipline::keeps_to_a_rate;
use linerate_path::budget::PauseFrames;
use linerate_path::stage::{Counters, Stage};

use crate::join::packets::seen_by;
use crate::middle::Port;
use crate::record::Machine;
use crate::total::Total;

/// A packet held back fewer times is an accident.
const LEAST_HELD: u64 = 10;

/// A machine of a trial.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) end: End,
    pub(super) machine: &'a Machine,
}

impl<'a> Side<'a> {
    /// Its pause frames; absent where no counter tells of any.
    pub(super) fn pause(self) -> Option<PauseFrames> {
        seen_by(self.end, &self.machine.counters, self.nic(), None).pause()
    }

    pub(super) fn nic(self) -> Option<&'a Nic> {
        self.machine.environment.nic.as_ref()
    }

    /// `target.NAME`, as `--set` has it.
    pub(super) fn setting(self, name: &str) -> String {
        format!("{}.{name}", self.end)
    }

    pub(super) fn sysctl(self, name: &str) -> Option<&'a str> {
        self.machine.environment.sysctls.get(name).map(String::as_str)
    }

    /// The last of a sysctl's numbers.
    pub(super) fn sysctl_number(self, name: &str) -> Option<u64> {
        self.sysctl(name)?.split_whitespace().last()?.parse().ok()
    }

    /// CPU use, where it covers enough ticks to mean something.
    pub(super) fn cpu(self) -> Option<&'a CpuUse> {
        self.machine.cpu.as_ref().filter(|cpu| !cpu.is_coarse())
    }

    /// The busiest CPU and its number.
    pub(super) fn busiest(self) -> Option<(usize, CpuShares)> {
        let cpus = self.cpu()?.per_cpu.iter().copied().enumerate();
        cpus.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))
    }

    /// Packets that its interface sent.
    pub(super) fn link_sent(self) -> Option<u64> {
        self.sum(Stage::DriverTxRing, |name| name == "link tx_packets")
    }

    /// Packets that its interface received.
    pub(super) fn link_received(self) -> Option<u64> {
        self.sum(Stage::DriverRxRing, |name| name == "link rx_packets")
    }

    /// The kind of the discipline that keeps to a rate at its egress: the interface's own, or that of one below it, by the names of
    /// their counters.
    pub(super) fn rate_keeper(self) -> Option<&'a str> {
        let of_nic = self.nic()?.rate_keeper();
        let counters = self.machine.counters.0.get(&Stage::Qdisc).into_iter().flatten();
        let kinds = || counters.filter_map(|(name, _)| name.split_whitespace().nth(1));
        of_nic.or_else(|| kinds().find(|kind| keeps_to_a_rate(kind)))
    }

    /// Of what its root discipline sent, how often it held a packet back to keep to a rate: the discipline, and the share.
    pub(super) fn held_at_egress(self) -> Option<(&'a str, f64)> {
        let kind = self.rate_keeper()?;
        let (held, sent) = (self.at_root("overlimits")?, self.at_root("packets")?);
        (held >= LEAST_HELD).then_some((kind, held as f64 / sent.max(1) as f64))
    }

    /// What keeps to a rate where packets are redirected to on their way in (an ifb), and held some back: the interface, the discipline, and
    /// how often.
    pub(super) fn held_at_ingress(self) -> Option<(&'a str, &'a str, u64)> {
        held_in(&self.machine.counters, Stage::DriverRxRing)
    }

    /// What its root discipline counted, which takes a buffer of several segments for so many packets.
    pub(super) fn at_root(self, field: &str) -> Option<u64> {
        self.sum(Stage::Qdisc, |name| is_of_root(name, field))
    }

    /// The sum of the counters at this stage that `is` takes; absent where there is none of them.
    pub(super) fn sum(self, stage: Stage, is: impl Fn(&str) -> bool) -> Option<u64> {
        sum_at(&self.machine.counters, stage, is)
    }

    /// A counter wherever its table places it.
    pub(super) fn counter(self, name: &str) -> Option<u64> {
        self.machine.counters.iter().find(|(_, other, _)| *other == name).map(|(_, _, value)| value)
    }

    /// What IP counted of both versions by this field, IPv4's among its extended ones.
    pub(super) fn of_ip(self, field: &str) -> u64 {
        ["IpExt", "Ip6"].into_iter().filter_map(|version| self.counter(&format!("{version} {field}"))).total()
    }

    /// A feature by the kernel's name: on, or off although it could be on. Absent where it cannot.
    pub(super) fn offload(self, name: &str) -> Option<bool> {
        self.nic()?.offloads.get(name).copied()
    }
}

/// The sum of the counters at a stage that `is` takes; absent where there is none of them.
pub(super) fn sum_at(counters: &Counters, stage: Stage, is: impl Fn(&str) -> bool) -> Option<u64> {
    let counters: &BTreeMap<String, u64> = counters.0.get(&stage)?;
    let mut matching = counters.iter().filter(|(name, _)| is(name)).map(|(_, value)| *value).peekable();
    matching.peek()?;
    Some(matching.total())
}

/// The root discipline of an interface of the middle that keeps to a rate and held packets back, and how often.
pub(super) fn held_at(port: &Port) -> Option<(&str, u64)> {
    held_in(&port.counters, Stage::Qdisc).map(|(_, kind, held)| (kind, held))
}

/// The same of any interface whose discipline counts at this stage.
fn held_in(counters: &Counters, stage: Stage) -> Option<(&str, &str, u64)> {
    let held = counters.0.get(&stage)?.iter().filter(|(_, held)| **held >= LEAST_HELD);
    held.filter(|(name, _)| is_of_root(name, "overlimits")).find_map(|(name, held)| {
        let (interface, kind) = name.strip_suffix(" overlimits")?.split_once(' ')?;
        keeps_to_a_rate(kind).then_some((interface, kind, *held))
    })
}

/// Whether a counter is this field of a root discipline: `eth0 tbf overlimits`. Those below it have their handle in their names.
pub(super) fn is_of_root(name: &str, field: &str) -> bool {
    name.ends_with(field) && name.split_whitespace().count() == 3 && !name.contains('@')
}
