//! A machine that needs its CPU does not run it at its highest frequency.
//! Knows governors by name, and the time at each frequency where the kernel counts it.

use super::case::{Case, percent};
use super::throttled::slow;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "governor",
    says: "The governor is not performance on a machine that is out of CPU time, or that answers requests.",
    rests_on: "The governor's name. Likely where the kernel counted at least 10 % of the time below the highest frequency, or the \
               governor is powersave; possible else.",
    source: "Linux Documentation/admin-guide/pm/cpufreq.rst.",
    suggests: &["governor"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    case.sides().into_iter().find_map(|side| {
        let governor = side.machine.environment.cpu.governor.as_deref().filter(|name| *name != "performance")?;
        let needed = side.needs_cpu(case)?;
        let slow = slow(side);
        let sure = match slow {
            Some(share) if share >= 0.1 => Sureness::Likely,
            None if governor == "powersave" => Sureness::Likely,
            _ => Sureness::Possible,
        };
        let sentence = format!("The {}'s CPUs need not run at full speed: their governor is {governor}.", side.end);
        Some(
            RULE.finds(case, Some(side.end), sure, slow.unwrap_or(0.3), sentence)
                .because(match slow {
                    Some(share) => format!("they ran below their highest frequency {} of the time", percent(share)),
                    None => "at which frequency they ran, the kernel does not count (0 of its statistics are there)"
                        .to_owned(),
                })
                .because(needed)
                .attempt(side.setting("governor"), "performance", case.metric())
                .wrong_if("It is wrong if the governor performance changes nothing.")
                .explains(&["sender-cpu", "receiver-cpu", "host-limits", "softirq-cpu"]),
        )
    })
}
