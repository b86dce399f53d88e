//! The machine in the middle has no CPU time left to forward more.
//! Knows its CPUs; of one that shares an end's nothing can be said by CPU use.

use super::case::{Case, SATURATED, percent};
use super::{Finding, Rule, Sureness};

/// A machine whose other CPUs are busy less than this has time left elsewhere.
const TIME_LEFT: f64 = 0.7;

pub(super) const RULE: Rule = Rule {
    name: "middle-cpu",
    says: "The CPU of the machine between the two ends (--middle) is the limit: all of it, or the one that forwards.",
    rests_on: "The middle's busiest CPU at least 95 % busy while packets were lost or less came through than was wanted; one of \
               several, where the machine was busy at most 70 % (a middle on a machine of its own only).",
    source: "Linux Documentation/networking/scaling.rst: one flow is forwarded by one CPU, that of its receive queue.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let middle = case.middle_of_its_own()?;
    let cpu = middle.machine.cpu.as_ref().filter(|cpu| !cpu.is_coarse())?;
    let (number, busiest) = cpu.per_cpu.iter().enumerate().max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))?;
    let short = case.short();
    if busiest.busy < SATURATED || (case.loss().is_none() && case.retransmitted().is_none() && short.is_none()) {
        return None;
    }
    let is_one_of_many = cpu.cpus > 1 && cpu.machine.busy < TIME_LEFT;
    let sentence = match is_one_of_many {
        true => format!("One of the middle's {} CPUs forwards everything, and has no time left.", cpu.cpus),
        false => "The middle's CPU is the limit: it can forward no more.".to_owned(),
    };
    let finding = RULE
        .finds(case, None, Sureness::Likely, 0.9 * busiest.busy, sentence)
        .on_middle()
        .of_kind(if is_one_of_many { "one-cpu" } else { "all-cpus" })
        .because(format!(
            "the middle's CPU {number} was busy {} of the time, {} in softirqs",
            percent(busiest.busy),
            percent(busiest.softirq)
        ))
        .because_of(is_one_of_many.then(|| format!("its {} CPUs together {}", cpu.cpus, percent(cpu.machine.busy))))
        .because_of(short)
        .wrong_if(
            "It is wrong if as little comes through over a cable from one end to the other, with nothing between.",
        )
        .explains(&["middle-drops", "bottleneck", "lossy-path", "unaccounted"]);
    Some(finding)
}
