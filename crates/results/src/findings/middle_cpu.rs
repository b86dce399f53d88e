//! The machine in the middle has no CPU time left to forward more: all the time, or at the times at which packets were lost.
//! Knows its CPUs; of one that shares an end's nothing can be said by CPU use.

use super::case::{Case, SATURATED, percent};
use super::{Finding, Rule, Sureness};
use crate::middle::sender_of;
use crate::profile::{Category, MachineProfile};
use crate::total::Total;

/// A machine whose other CPUs are busy less than this has time left elsewhere.
const TIME_LEFT: f64 = 0.7;

pub(super) const RULE: Rule = Rule {
    name: "middle-cpu",
    says: "The CPU of the machine between the two ends (--middle) is the limit: all of it, or the one that forwards.",
    rests_on: "The middle's busiest CPU at least 95 % busy while packets were lost or less came through than was wanted; one of \
               several, where the machine was busy at most 70 %; or all its CPUs at least 95 % busy in the slices that lost \
               packets, and less in others (a middle on a machine of its own only).",
    source: "Linux Documentation/networking/scaling.rst: one flow is forwarded by one CPU, that of its receive queue.",
    suggests: &["gro"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let middle = case.middle_of_its_own()?;
    let cpu = middle.machine.cpu.as_ref().filter(|cpu| !cpu.is_coarse())?;
    let (number, busiest) = cpu.per_cpu.iter().enumerate().max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))?;
    let short = case.short();
    if busiest.busy < SATURATED
        && let Some(times) = Times::of(case)
    {
        return Some(at_times(case, &times));
    }
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
        .because_of(middle.machine.profile.as_ref().and_then(work))
        .because_of(short)
        .wrong_if(
            "It is wrong if as little comes through over a cable from one end to the other, with nothing between.",
        )
        .explains(&["middle-drops", "bottleneck", "lossy-path", "unaccounted"]);
    // One GRO packet is forwarded at the cost of one, whatever it holds; it is TCP's (Documentation/networking/segmentation-offloads.rst).
    let merges = |end| middle.ports[end].nic.as_ref()?.offloads.get("rx-gro").copied();
    let is_off = case.record.workload.is_tcp() && merges(sender_of(case.way)) == Some(false);
    Some(if is_off { finding.attempt("middle.gro", "on", case.metric()) } else { finding })
}

/// What its CPUs did while they were busy, by the largest kinds of work.
fn work(profile: &MachineProfile) -> Option<String> {
    let mut kinds: Vec<(&str, u64)> = Category::ALL
        .into_iter()
        .filter(|category| *category != Category::Idle)
        .filter_map(|category| Some((category.title(), profile.of(category)?.samples)))
        .collect();
    let busy = kinds.iter().map(|(_, samples)| *samples).total();
    kinds.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let largest = kinds.iter().take(3).filter(|(_, samples)| *samples as f64 >= WORTH * busy as f64);
    let said: Vec<String> =
        largest.map(|(title, samples)| format!("{title} {}", percent(*samples as f64 / busy as f64))).collect();
    (busy >= ENOUGH_SAMPLES && !said.is_empty())
        .then(|| format!("of its busy time, its profile says: {}", said.join(", ")))
}

/// A kind of work that is worth a word, as a part of the busy time.
const WORTH: f64 = 0.05;
/// Fewer samples say nothing.
const ENOUGH_SAMPLES: u64 = 100;

/// How busy the middle's CPUs were while packets were lost, and at other times.
struct Times {
    lossy: f64,
    other: f64,
    /// The part of the loss that was in slices in which they had no time left.
    part: f64,
}

/// So much busier they are while packets are lost; else loss says nothing of them.
const MORE: f64 = 0.1;
/// Most of the loss.
const MOST: f64 = 0.8;

impl Times {
    /// By the slices of the trial, where there are enough of both kinds.
    fn of(case: &Case<'_>) -> Option<Times> {
        case.loss()?;
        let slices = case.record.intervals.iter();
        let known: Vec<(f64, f64)> =
            slices.filter_map(|slice| Some((slice.middle_cpu?.busy, slice.packets_missing? as f64))).collect();
        let lost: f64 = known.iter().map(|(_, lost)| lost).sum();
        let lossy: f64 = known.iter().map(|(busy, lost)| busy * lost).sum::<f64>() / lost;
        let others = || known.iter().filter(|(_, lost)| *lost == 0.0).map(|(busy, _)| busy);
        let other = others().sum::<f64>() / others().count() as f64;
        let part = known.iter().filter(|(busy, _)| *busy >= SATURATED).map(|(_, lost)| lost).sum::<f64>() / lost;
        // Of none, a mean is no number.
        (part >= MOST && lossy >= other + MORE).then_some(Times { lossy, other, part })
    }
}

fn at_times(case: &Case<'_>, Times { lossy, other, part }: &Times) -> Finding {
    let sentence = "The middle's CPU is the limit while packets are lost: it can forward no more then.".to_owned();
    RULE.finds(case, None, Sureness::Likely, 0.9 * part, sentence)
        .on_middle()
        .of_kind("at-times")
        .because(format!(
            "the middle's CPUs were busy {} of the time in the slices that lost packets, weighted by how many, and {} in those \
             that lost none",
            percent(*lossy),
            percent(*other)
        ))
        .wrong_if("It is wrong if as many are lost over a cable from one end to the other, with nothing between.")
        .explains(&["middle-drops", "bottleneck", "lossy-path", "unaccounted"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::CategoryTime;
    use crate::sample;

    #[test]
    fn a_profile_says_what_a_busy_middle_does() {
        let of = |all: &[(Category, u64)]| MachineProfile {
            taken: sample::profile().taken,
            categories: all
                .iter()
                .map(|&(category, samples)| CategoryTime {
                    category,
                    samples,
                    share: None,
                    us_per_packet: None,
                    us_per_kib: None,
                })
                .collect(),
        };
        let busy = of(&[
            (Category::Idle, 5_000),
            (Category::Copy, 380),
            (Category::DriverInterrupt, 200),
            (Category::Other, 40),
            (Category::Protocol, 380),
        ]);
        let said = "of its busy time, its profile says: copy 38 %, protocol 38 %, driver and interrupt 20 %";
        assert_eq!(work(&busy).as_deref(), Some(said));
        for few in [of(&[]), of(&[(Category::Idle, 900)]), of(&[(Category::Copy, 99)])] {
            assert_eq!(work(&few), None);
        }
    }
}
