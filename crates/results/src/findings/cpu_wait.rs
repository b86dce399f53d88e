//! Threads that answer, or ask, wait for a CPU.
//! Knows the time budget of transactions.

use linerate_machine::end::End;

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// From this share of the transactions' time on, and from this mean on: waking up takes a few microseconds everywhere.
const SHARE: f64 = 0.35;
const LEAST_S: f64 = 20e-6;
/// Ends that share a machine wait for each other, and for what carries their packets from one to the other: for some wakings of a
/// few hundred microseconds. Another program has a CPU for a millisecond and more before the scheduler takes it.
const LEAST_SHARED_S: f64 = 500e-6;
/// From this share on it is no matter of wakings, where other programs have half a CPU and more.
const MUCH: f64 = 0.6;
/// A few long waits among many transactions are accidents, unless they take so much of the trial: every transaction waits, or
/// the CPU is gone for a good part of the time.
const LEAST_OF_TRIAL: f64 = 0.05;

pub(super) const RULE: Rule = Rule {
    name: "cpu-wait",
    says: "A thread that answers, or asks, could run and has no CPU: other programs have it.",
    rests_on: "At least 35 % of the transactions' time, and 20 µs of each (500 µs where both ends share a machine), in the time \
               budget's lines requester-waits-for-cpu or responder-waits-for-cpu; and the median transaction took as long, or the \
               waiting 5 % of the trial. Or too few came about, or some waited for TCP's timer or in vain, and an end's threads waited \
               for a CPU 30 % of the time, twice as long as they worked, and others had half a CPU (where both ends share a \
               machine).",
    source: "Linux Documentation/scheduler/sched-stats.rst (schedstat's run delay).",
    suggests: &["receiver_scheduling"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    starved(case).or_else(|| waiting(case))
}

fn sentence(end: End, asks: bool) -> String {
    format!("The {end}'s thread that {} waits for a CPU that others have.", if asks { "asks" } else { "answers" })
}

/// Between transactions as well: too few came about, or answers came so late that they were sent again.
fn starved(case: &Case<'_>) -> Option<Finding> {
    if case.record.workload.is_stream() {
        return None;
    }
    let seldom = case.seldom();
    if seldom.is_none() && case.waited_for_timer().is_none() && case.loss().is_none() && !case.stood_still() {
        return None;
    }
    let sides = case.sides().into_iter().filter_map(|side| Some((side.end, side.starved(case)?)));
    let (end, starved) = sides.max_by(|a, b| a.1.waited.total_cmp(&b.1.waited))?;
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, starved.waited, sentence(end, end == case.sender.end))
            .because_of(starved.clauses())
            .because_of(seldom)
            .wrong_if("It is wrong if answers take as long on a machine on which nothing else runs.")
            .explains(&["idle-states", "coalescing-latency", "slow-answers"])
            .explains(starved.silences()),
    )
}

/// The transactions themselves took longer.
fn waiting(case: &Case<'_>) -> Option<Finding> {
    let latency = case.latency().filter(|_| !case.record.workload.is_stream())?;
    // Beside other programs that take so much it is these.
    let others_have = |share: f64| share >= MUCH && case.sides().into_iter().any(|side| side.others_have_cpus(case));
    let is_shared = case.shares_machine();
    let waits = |line: &&_| -> bool {
        let line: &crate::time_budget::TimeLine = line;
        matches!(line.limit, Limit::RequesterWaits | Limit::ResponderWaits)
            && line.share >= SHARE
            && line.seconds >= if is_shared && !others_have(line.share) { LEAST_SHARED_S } else { LEAST_S }
    };
    let line = case.time().find(waits)?;
    let is_typical = latency.percentiles.get("p50").is_some_and(|median| *median >= line.seconds);
    let all_s = line.seconds * latency.count as f64;
    if !is_typical && all_s < LEAST_OF_TRIAL * case.span_s()? {
        return None;
    }
    let end = line.end?;
    let sentence = sentence(end, line.limit == Limit::RequesterWaits);
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, line.share, sentence)
            .because(format!("it could run and had no CPU {} of the transactions' time", percent(line.share)))
            .because_of(latency.mean_s.map(|mean| format!("a transaction took {} µs on average", tidy(mean * 1e6))))
            .wrong_if("It is wrong if answers take as long on a machine on which nothing else runs.")
            .explains(&["idle-states", "coalescing-latency"]),
    )
}
