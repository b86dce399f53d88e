//! What CPU time the threads of an end had, and who had the rest.
//! Knows what the scheduler tells of threads, and what was doubted of a machine that others keep busy.

use linerate_machine::end::{Direction, Party};
use linerate_trial::doubt::Doubted;

use super::case::{Case, SATURATED, Side, THREAD_BUSY, percent, tidy};

/// A thread that waited for a CPU for this share of its time, while others had half of one, was kept from its work by them. One that
/// does as much as it can shares a CPU with equals, and waits for three of them without being starved.
const STARVED: f64 = 0.3;
const MOSTLY_STARVED: f64 = 0.6;
const FAIR_SHARES: f64 = 4.0;
const HALF_A_CPU: f64 = 0.5;
/// Waiting so long for a CPU that others have costs a thread a good part of what it could do.
const SHARED: f64 = 0.15;
/// Up to here a machine has CPUs for whoever waits for one.
const MOSTLY_BUSY: f64 = 0.8;
/// A round trip over a gigabit cable takes a board 40 to 100 µs; twice that is slow.
const SLOW_ANSWER_S: f64 = 200e-6;

/// Threads that waited for CPUs which other programs had.
pub(super) struct Starved<'a> {
    /// Shares of their time that they worked, and waited for a CPU.
    worked: f64,
    pub(super) waited: f64,
    others: Option<OthersCpu<'a>>,
}

/// What other programs did with a machine's CPUs.
struct OthersCpu<'a> {
    /// How many CPUs they had on average, and how many of these had programs of real-time priority.
    cpus: f64,
    of_real_time: f64,
    /// The one that used most.
    most: &'a str,
}

/// How a thread that had no time left came by what it had.
pub(super) enum CpuTime {
    /// It worked all the time.
    Own,
    /// Other programs had a good part of it: a clause that says so.
    Shared(String),
    /// It waited while CPUs were idle: a limit of its control group, or of the CPUs that it may run on.
    Withheld,
}

impl CpuTime {
    /// What its thread cannot do, `verb`: send or read.
    pub(super) fn limit(&self, verb: &str) -> String {
        match self {
            CpuTime::Own => format!("can {verb} no faster"),
            CpuTime::Shared(_) => format!("can {verb} no faster beside other programs"),
            CpuTime::Withheld => {
                "waits for a CPU while CPUs are idle: a quota of its control group (cpu.stat), or the CPUs that it may run on (taskset -p)"
                    .to_owned()
            }
        }
    }

    pub(super) fn clause(&self) -> Option<String> {
        if let CpuTime::Shared(clause) = self { Some(clause.clone()) } else { None }
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self, CpuTime::Own)
    }
}

impl OthersCpu<'_> {
    fn clause(&self) -> String {
        let real_time = if self.of_real_time >= HALF_A_CPU { "; real-time programs are among them" } else { "" };
        format!("other programs had {} CPUs, {} most of it{real_time}", tidy(self.cpus), self.most)
    }
}

impl Starved<'_> {
    /// What it explains besides: whose threads have so little are silent for a while, and answer late whoever examines the way.
    pub(super) fn silences(&self) -> &'static [&'static str] {
        if self.waited >= MOSTLY_STARVED {
            &["outage", "flow-died", "nothing-comes-through", "retransmission-timeout", "unaccounted"]
        } else {
            &[]
        }
    }

    /// What says so.
    pub(super) fn clauses(&self) -> Vec<String> {
        let mut clauses = vec![waited_for_cpu(self.worked, self.waited)];
        clauses.extend(self.others.as_ref().map(OthersCpu::clause));
        clauses
    }
}

/// What an end's threads did, as shares of their time: a clause.
pub(super) fn waited_for_cpu(worked: f64, waited: f64) -> String {
    let [worked, waited] = [worked, waited].map(percent);
    format!("its threads could have run and waited for a CPU {waited} of the time; they worked {worked}")
}

impl<'a> Side<'a> {
    /// The share of its time that each of the threads which moved the data worked, and waited for a CPU.
    pub(super) fn thread_shares(self, case: &Case<'_>) -> Option<(f64, f64)> {
        let threads = self.machine.threads.as_ref()?;
        let time = case.whole_s()? * case.streams();
        // Threads of both directions are counted together.
        let time = if case.record.direction == Direction::Both { time * 2.0 } else { time };
        Some((
            ((threads.user_s + threads.system_s) / time).min(1.0),
            (threads.run_delay_s.unwrap_or(0.0) / time).min(1.0),
        ))
    }

    /// What other programs did with its CPUs, where it was worth a doubt.
    fn others(self, case: &Case<'a>) -> Option<OthersCpu<'a>> {
        let is_of = |end: Option<Party>| end.is_none_or(|end| end == Party::from(self.end));
        let cpus = f64::from(self.machine.cpu.as_ref()?.cpus);
        case.record.doubts.iter().filter(|doubt| is_of(doubt.end)).find_map(|doubt| match &doubt.what {
            Doubted::BusyMachine { share, real_time, most } => {
                Some(OthersCpu { cpus: share * cpus, of_real_time: real_time.unwrap_or(0.0) * cpus, most })
            }
            _ => None,
        })
    }

    /// Whether other programs of its machine had half a CPU or more.
    pub(super) fn others_have_cpus(self, case: &Case<'a>) -> bool {
        self.others(case).is_some_and(|others| others.cpus >= HALF_A_CPU)
    }

    /// Whether its threads waited for CPUs that other programs had, and not for one another's or the other end's.
    pub(super) fn starved(self, case: &Case<'a>) -> Option<Starved<'a>> {
        let (worked, waited) = self.thread_shares(case)?;
        let (least, times) = match case.record.workload.is_stream() && case.is_unlimited() {
            true => (MOSTLY_STARVED, FAIR_SHARES),
            false => (STARVED, 2.0),
        };
        let others = self.others(case).filter(|others| others.cpus >= HALF_A_CPU);
        // Nobody has the CPUs that are idle.
        let is_others = others.is_some() || !(case.shares_machine() || self.has_idle_cpus());
        let is_starved = waited >= least && waited >= times * worked && is_others;
        is_starved.then_some(Starved { worked, waited, others })
    }

    /// Whether its machine has CPUs for whoever waits for one.
    fn has_idle_cpus(self) -> bool {
        self.cpu().is_some_and(|cpu| cpu.machine.busy <= MOSTLY_BUSY)
    }

    /// How its threads came by the time that they had.
    pub(super) fn cpu_time(self, case: &Case<'a>) -> CpuTime {
        let Some((worked, waited)) = self.thread_shares(case) else { return CpuTime::Own };
        match self.others(case).filter(|others| others.cpus >= HALF_A_CPU && waited >= SHARED) {
            Some(others) => CpuTime::Shared(others.clause()),
            None if waited >= STARVED && waited >= 2.0 * worked && self.has_idle_cpus() => CpuTime::Withheld,
            None => CpuTime::Own,
        }
    }

    /// Whether its threads, or one of its CPUs, had nothing left: a clause that says so, and how far.
    pub(super) fn out_of_cpu(self, case: &Case<'_>) -> Option<(f64, Vec<String>)> {
        let mut clauses = Vec::new();
        let mut most = 0.0_f64;
        if let Some((worked, waited)) = self.thread_shares(case)
            && worked + waited >= THREAD_BUSY
        {
            most = (worked + waited).min(1.0);
            let and_waited =
                if waited >= 0.01 { format!(" and waited for a CPU {}", percent(waited)) } else { String::new() };
            clauses.push(format!("the {}'s thread worked {} of the time{and_waited}", self.end, percent(worked)));
        }
        if let Some((number, cpu)) = self.busiest().filter(|(_, cpu)| cpu.busy >= SATURATED) {
            most = most.max(cpu.busy);
            clauses.push(format!("the {}'s CPU {number} was busy {} of the time", self.end, percent(cpu.busy)));
        }
        if !case.may_be_cpu() {
            return None;
        }
        // A busy CPU beside an idle thread is somebody else's; of two ends on one machine, either may have kept it busy.
        let wants = |side: &Side<'_>| side.thread_shares(case).is_none_or(|(worked, waited)| worked + waited >= 0.5);
        let wanted = wants(&self) || (case.shares_machine() && case.sides().iter().any(wants));
        (!clauses.is_empty() && wanted).then_some((most, clauses))
    }

    /// Whether the speed of its CPUs shows in the trial: out of CPU time, or answering. A clause that says so.
    pub(super) fn needs_cpu(self, case: &Case<'_>) -> Option<String> {
        if case.record.workload.is_stream() {
            let (_, clauses) = self.out_of_cpu(case).filter(|_| case.is_troubled())?;
            return Some(clauses.join(", "));
        }
        // Without a long round trip, nobody waits for a slow CPU.
        let median = *case.latency()?.percentiles.get("p50")?;
        (median >= SLOW_ANSWER_S).then(|| format!("half of the answers took {} µs or more", tidy(median * 1e6)))
    }
}
