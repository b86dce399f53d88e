//! A hypervisor gave the CPU to others.
//! Knows stolen time as the kernel accounts it.

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

/// From this share of the machine's time on.
const STOLEN: f64 = 0.05;
/// What goes as fast as its CPUs let it is slower by what is stolen, and by as much again by chance: less is no answer.
const REAL_PART: f64 = 0.15;

pub(super) const RULE: Rule = Rule {
    name: "steal",
    says: "A noisy neighbour: the hypervisor gave CPU time to others that this machine wanted.",
    rests_on: "At least 5 % of a machine's CPU time stolen, in a trial that lost packets, came short or failed; 15 % of a stream that went as fast \
               as it could, for which nothing else was wrong.",
    source: "proc_stat(5), steal.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is_troubled() || !case.may_be_cpu() {
        return None;
    }
    let least = if case.only_has_an_end() { REAL_PART } else { STOLEN };
    case.sides().into_iter().find_map(|side| {
        let cpu = side.cpu()?;
        let stolen = cpu.machine.steal;
        (stolen >= least).then(|| {
            let sure = if stolen >= 2.0 * STOLEN { Sureness::Likely } else { Sureness::Possible };
            RULE.finds(case, Some(side.end), sure, stolen, format!("A hypervisor took CPU time from the {}.", side.end))
                .because(format!("{} of its CPUs' time was stolen; they were busy {}", percent(stolen), percent(cpu.machine.busy)))
                .wrong_if("It is wrong if the figures stay when the neighbours are quiet, or the machine has CPUs of its own.")
        })
    })
}
