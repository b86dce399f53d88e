//! Two outcomes and what was asked become one record.
//! Reads no clock and asks no machine: pure arithmetic, so that each figure's formula stands here and nowhere else.

use std::fmt::Display;
use std::net::IpAddr;

use linerate_machine::change::Changed;
use linerate_machine::cpu::{CpuShares, CpuUse, PROC_STAT, is_long_enough};
use linerate_machine::end::{End, Party, PerEnd};
use linerate_machine::environment::Environment;
use linerate_machine::profile::Profile;
use linerate_machine::registers::AroundTrial;
use linerate_machine::setting::{self, BOOT};
use linerate_path::budget::MachineAccount;
use linerate_registers::changes::RegisterChanges;
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::middle::MiddleOutcome;
use linerate_trial::outcome::{CpuSlice, Outcome, ThreadUse};
use linerate_trial::spec::Spec;

use crate::middle::Middle;
use crate::outage;
use crate::record::{Machine, Record, TrialPlace};

use linerate_registers::around;

mod formulas;
pub(crate) mod packets;
mod pair;
mod send_counts;
mod time;

use formulas::Joined;
use pair::pairs;

/// The two addresses of the test traffic.
pub type Route = PerEnd<IpAddr>;

/// What both ends saw of a trial.
#[derive(Debug)]
pub struct EndedTrial<E> {
    /// What was asked, with the Internet Protocol that was chosen.
    pub spec: Spec,
    /// The addresses.
    pub route: Option<Route>,
    /// What was changed on the target and on the host.
    pub settings: [Vec<Changed>; 2],
    /// Of what was changed, what had yet another value when the trial was over.
    pub overridden: Vec<Doubt>,
    /// The target as it was; empty where it could not be asked.
    pub target: Environment,
    /// The host as it was.
    pub host: Environment,
    /// The machine between the two as it was, with its interfaces and what was changed on it; nothing is measured there yet.
    pub middle: Option<Box<Middle>>,
    /// What it saw.
    pub middle_outcome: Option<Box<MiddleOutcome>>,
    /// What each end saw, target and host, or why there is nothing.
    pub outcomes: Result<Box<[Outcome; 2]>, E>,
    /// What each end saw of a trial that failed, until then.
    pub partial: PerEnd<Option<Box<Outcome>>>,
}

impl<E> EndedTrial<E> {
    /// A trial that came to nothing before it began.
    pub fn without(spec: &Spec, error: E) -> EndedTrial<E> {
        EndedTrial {
            spec: spec.clone(),
            route: None,
            settings: [Vec::new(), Vec::new()],
            overridden: Vec::new(),
            target: Environment::default(),
            host: Environment::default(),
            middle: None,
            middle_outcome: None,
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
pub fn record<E: Display>(label: Label, conducted: EndedTrial<E>) -> Record {
    let EndedTrial { spec, route, settings, overridden, target, host, middle, middle_outcome, outcomes, partial } =
        conducted;
    let Label { id, started_at, campaign, plan, trial, endpoints } = label;
    let PerEnd { target: target_endpoint, host: host_endpoint } = endpoints;
    let [target_address, host_address] = addresses(route, &target, &host);
    let machine =
        |endpoint, environment, address: Option<String>| Machine { address, ..Machine::of(endpoint, environment) };
    let (target, host) = (machine(target_endpoint, target, target_address), machine(host_endpoint, host, host_address));
    let mut record = Record { id, started_at, campaign, plan, ..Record::blank(&spec, trial, target, host) };
    [record.target.settings, record.host.settings] = settings;
    let observed = observed(&spec, &mut record, middle, middle_outcome);
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
            // The middle began with the ends, and counts its slices by its own clock.
            for (interval, slice) in record.intervals.iter_mut().zip(&observed.cpu_slices) {
                interval.middle_cpu = *slice;
            }
            record.target.profile = joined.profile(&target, &record.target.environment);
            record.host.profile = joined.profile(&host, &record.host.environment);
            if let Some(middle) = &mut record.middle {
                // Of a machine that is an end's too, that end's samples are of it all.
                let shares = |end: &Machine| middle.machine.environment.is_machine_of(&end.environment);
                let of_target = shares(&record.target).then(|| target.profile.clone()).flatten();
                let of_host = || shares(&record.host).then(|| host.profile.clone()).flatten();
                let taken = observed.profile.or(of_target).or_else(of_host);
                middle.machine.profile = taken.and_then(|taken| joined.profile_of_middle(*taken, middle));
            }
            doubt_settings(&mut record);
            [target, host].into_iter().for_each(|outcome| keep_machine(&spec, &mut record, outcome));
        }
    }
    record.doubts.extend(overridden);
    record.doubts.extend(observed.doubts);
    record.doubts.extend(outage::doubt(&record));
    // Of a failed trial as well: why it failed may be QEMU's doing.
    doubt_boards(&mut record);
    record
}

/// What the machine in the middle saw, beside what its part of the record takes.
#[derive(Default)]
struct Observed {
    profile: Option<Box<Profile>>,
    /// Of slices that are long enough to be told.
    cpu_slices: Vec<Option<CpuShares>>,
    doubts: Vec<Doubt>,
}

/// Puts the machine in the middle into the record, with what it saw.
fn observed(
    spec: &Spec,
    record: &mut Record,
    middle: Option<Box<Middle>>,
    outcome: Option<Box<MiddleOutcome>>,
) -> Observed {
    let mut observed = Observed::default();
    let Some(mut middle) = middle else { return observed };
    let ends = record.machines().into_iter();
    let shared = ends.filter(|(_, machine)| machine.environment.is_machine_of(&middle.machine.environment));
    let ends: Vec<End> = shared.map(|(end, _)| end).collect();
    if !ends.is_empty() {
        observed.doubts.push(Doubted::MiddleSharesMachine { ends }.into());
    }
    if let Some(mut outcome) = outcome {
        let few = outcome.cpu.as_ref().and_then(CpuUse::few_ticks);
        let told = outcome.doubts.iter().map(|doubt| doubt.what.clone()).chain(few.map(Doubted::ShortForCpu));
        observed.doubts.extend(told.map(|what| Doubt::of(Party::Middle, what)));
        outcome.cpu = outcome.cpu.take().filter(CpuUse::is_told);
        observed.profile = outcome.profile.take();
        let method = outcome.cpu.as_ref().map_or(PROC_STAT, |cpu| cpu.method.as_str());
        let span_s = |slice: &CpuSlice| slice.end_ns.saturating_sub(slice.start_ns) as f64 / 1e9;
        let is_told = |slice: &CpuSlice| is_long_enough(method, span_s(slice));
        observed.cpu_slices = outcome.cpu_slices.iter().map(|slice| is_told(slice).then_some(slice.machine)).collect();
        middle.handle_outcome(*outcome, spec.registers.then_some(registers));
    }
    record.middle = Some(*middle);
    observed
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
    let seen = MachineAccount::new(end, &outcome.counters, driver);
    machine.pause_frames = seen.pause();
    machine.counters = seen.counters;
    machine.cpu = outcome.cpu.filter(CpuUse::is_told);
    machine.drop_reasons = outcome.drop_reasons;
    machine.registers = spec.registers.then(|| registers(outcome.registers));
    // No thread moves data without a context switch: one that has nothing is another tool's, which tells of none.
    let threads = outcome.flows.iter().map(|flow| flow.thread).fold(ThreadUse::default(), |a, b| a + b);
    machine.threads = Some(threads).filter(|threads| *threads != ThreadUse::default());
}

/// Doubts every figure of a machine that is emulated.
fn doubt_boards(record: &mut Record) {
    if record.parties().any(|(_, machine)| machine.endpoint.starts_with("board:")) {
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
    let mut doubts = Vec::new();
    for (end, _, settings) in record.settings() {
        for one in settings {
            let read = one.read_back.as_deref();
            if one.name == BOOT && read.is_none() {
                doubts.push(Doubt::of(end, Doubted::BootUnchecked { level: one.asked.clone() }));
            } else if !read.is_some_and(|read| setting::agrees(&one.name, &one.asked, read)) {
                let (setting, asked) = (format!("{end}.{}", one.name), one.asked.clone());
                let read_back = one.read_back.clone();
                doubts.push(Doubted::SettingNotTaken { setting, asked, read_back }.into());
            }
        }
    }
    doubts.dedup();
    record.doubts.extend(doubts);
}

#[cfg(test)]
mod tests;
