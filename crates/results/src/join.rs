//! Two outcomes and what was asked become one record.
//! Reads no clock and asks no machine: pure arithmetic, so that each figure's formula stands here and nowhere else.

use std::fmt::Display;
use std::net::IpAddr;

use linerate_machine::change::Changed;
use linerate_machine::cpu::CpuUse;
use linerate_machine::end::{End, PerEnd};
use linerate_machine::environment::Environment;
use linerate_machine::registers::AroundTrial;
use linerate_machine::setting::{self, BOOT};
use linerate_path::budget::Seen;
use linerate_registers::changes::RegisterChanges;
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::outcome::{Outcome, ThreadUse};
use linerate_trial::spec::Spec;

use crate::outage;
use crate::record::{Machine, Record, TrialPlace};

use linerate_registers::around;

mod formulas;
mod packets;
mod time;

use formulas::{Joined, pairs};

/// The two addresses of the test traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The target's.
    pub target: IpAddr,
    /// The host's.
    pub host: IpAddr,
}

/// What both ends saw of a trial.
#[derive(Debug)]
pub struct Conducted<E> {
    /// What was asked, with the Internet Protocol that was chosen.
    pub spec: Spec,
    /// The addresses.
    pub route: Option<Route>,
    /// What was changed on the target and on the host.
    pub settings: [Vec<Changed>; 2],
    /// The target as it was; empty where it could not be asked.
    pub target: Environment,
    /// The host as it was.
    pub host: Environment,
    /// What each end saw, target and host, or why there is nothing.
    pub outcomes: Result<Box<[Outcome; 2]>, E>,
    /// What each end saw of a trial that failed, until then.
    pub partial: PerEnd<Option<Box<Outcome>>>,
}

impl<E> Conducted<E> {
    /// A trial that came to nothing before it began.
    pub fn without(spec: &Spec, error: E) -> Conducted<E> {
        Conducted {
            spec: spec.clone(),
            route: None,
            settings: [Vec::new(), Vec::new()],
            target: Environment::default(),
            host: Environment::default(),
            outcomes: Err(error),
            partial: PerEnd::default(),
        }
    }
}

/// What a record says beside what was measured.
#[derive(Clone, Debug)]
pub struct Label {
    /// The record's name in the store.
    pub id: String,
    /// Wall-clock time, RFC 3339.
    pub started_at: String,
    /// Which it belongs to.
    pub campaign: String,
    /// The plan's name.
    pub plan: String,
    /// Where it stands in its campaign.
    pub trial: TrialPlace,
    /// How the target and the host are reached.
    pub endpoints: PerEnd<String>,
}

/// The addresses of both ends. A link-local one is named with its interface: its machine's own, else the other end's, from
/// where it is reached.
fn addresses(route: Option<Route>, target: &Environment, host: &Environment) -> [Option<String>; 2] {
    let Some(route) = route else { return [None, None] };
    let interface = |end: &Environment| end.nic.as_ref().map(|nic| nic.name.clone());
    let named = |address: IpAddr, own: &Environment, other: &Environment| match (
        address,
        interface(own).or(interface(other)),
    ) {
        (IpAddr::V6(six), Some(interface)) if six.is_unicast_link_local() => format!("{address}%{interface}"),
        _ => address.to_string(),
    };
    [Some(named(route.target, target, host)), Some(named(route.host, host, target))]
}

/// Makes the record.
pub fn record<E: Display>(label: Label, conducted: Conducted<E>) -> Record {
    let Conducted { spec, route, settings, target, host, outcomes, partial } = conducted;
    let Label { id, started_at, campaign, plan, trial, endpoints } = label;
    let PerEnd { target: target_endpoint, host: host_endpoint } = endpoints;
    let [target_address, host_address] = addresses(route, &target, &host);
    let machine = |endpoint, environment, address: Option<String>| Machine {
        endpoint,
        address,
        environment,
        settings: Vec::new(),
        cpu: None,
        counters: Default::default(),
        pause_frames: None,
        drop_reasons: None,
        threads: None,
        profile: None,
        registers: None,
    };
    let (target, host) = (machine(target_endpoint, target, target_address), machine(host_endpoint, host, host_address));
    let mut record = Record { id, started_at, campaign, plan, ..Record::blank(&spec, trial, target, host) };
    [record.target.settings, record.host.settings] = settings;
    match outcomes {
        Err(error) => {
            record.error = Some(error.to_string());
            keep_partial(&spec, &mut record, partial);
        }
        Ok(outcomes) => {
            let [mut target, mut host] = *outcomes;
            record.ended_early = target.ended_early || host.ended_early;
            for (machine, outcome) in [(&mut record.target, &mut target), (&mut record.host, &mut host)] {
                if let Some(told) = outcome.told.take()
                    && machine.environment == Environment::default()
                {
                    machine.environment = *told;
                }
                let few = outcome.cpu.as_ref().and_then(CpuUse::few_ticks);
                outcome.doubts.extend(few.map(|few| Doubted::ShortForCpu(few).into()));
                outcome.cpu = outcome.cpu.take().filter(CpuUse::is_told);
            }
            let joined = Joined { spec: &spec, pairs: pairs(&spec, &target, &host), target: &target, host: &host };
            joined.fill(&mut record);
            record.target.profile = joined.profile(&target, &record.target.environment);
            record.host.profile = joined.profile(&host, &record.host.environment);
            doubt_settings(&mut record);
            [target, host].into_iter().for_each(|outcome| keep_machine(&spec, &mut record, outcome));
        }
    }
    record.doubts.extend(outage::doubt(&record));
    // Of a failed trial as well: why it failed may be QEMU's doing.
    doubt_boards(&mut record);
    record
}

/// Of a trial that failed: what both ends saw until then, in time and by counters. It has no figures.
fn keep_partial(spec: &Spec, record: &mut Record, partial: PerEnd<Option<Box<Outcome>>>) {
    if partial.target.is_none() && partial.host.is_none() {
        return;
    }
    let nothing = |end| Outcome::of_flows(end, Vec::new());
    let blank = [nothing(End::Target), nothing(End::Host)];
    let target = partial.target.as_deref().unwrap_or(&blank[0]);
    let host = partial.host.as_deref().unwrap_or(&blank[1]);
    Joined { spec, pairs: pairs(spec, target, host), target, host }.fill_partial(record);
    for outcome in [partial.target, partial.host].into_iter().flatten() {
        keep_machine(spec, record, *outcome);
    }
}

/// What an end saw of its machine.
fn keep_machine(spec: &Spec, record: &mut Record, outcome: Outcome) {
    let end = outcome.end;
    let machine = if end == End::Target { &mut record.target } else { &mut record.host };
    let driver = machine.environment.nic.as_ref().and_then(|nic| nic.driver.as_deref());
    let seen = Seen::new(end, &outcome.counters, driver);
    machine.pause_frames = seen.pause();
    machine.counters = seen.counters;
    machine.cpu = outcome.cpu.filter(CpuUse::is_told);
    machine.drop_reasons = outcome.drop_reasons;
    machine.registers = spec.registers.then(|| registers(outcome.registers));
    machine.threads = Some(outcome.flows.iter().map(|flow| flow.thread).fold(ThreadUse::default(), |a, b| a + b));
}

/// Doubts every figure of a machine that is emulated.
fn doubt_boards(record: &mut Record) {
    if [&record.target, &record.host].iter().any(|machine| machine.endpoint.starts_with("board:")) {
        record.doubts.push(Doubted::Emulated.into());
    }
}

/// What the registers did, or why nothing is known of them.
fn registers(around: Option<AroundTrial>) -> RegisterChanges {
    around.map_or_else(
        || RegisterChanges {
            notes: vec!["this agent reads no registers; install the same version of linerate there".to_owned()],
            ..RegisterChanges::default()
        },
        around::changes,
    )
}

/// Doubts a setting that is not what was asked.
fn doubt_settings(record: &mut Record) {
    for (end, machine) in [(End::Target, &record.target), (End::Host, &record.host)] {
        for one in &machine.settings {
            let read = one.read_back.as_deref();
            if one.name == BOOT && read.is_none() {
                record.doubts.push(Doubt::of(end, Doubted::BootUnchecked { level: one.asked.clone() }));
            } else if !read.is_some_and(|read| setting::agrees(&one.name, &one.asked, read)) {
                let (setting, asked) = (format!("{end}.{}", one.name), one.asked.clone());
                let read_back = one.read_back.clone();
                record.doubts.push(Doubted::SettingNotTaken { setting, asked, read_back }.into());
            }
        }
    }
}

#[cfg(test)]
mod tests;
