//! Counters contradict each other, so that no conclusion from them is safe.
//! Knows the doubt that the loss budget raised; whose drops they were nobody can say.

use linerate_trial::doubt::DoubtKind;

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

/// Counters that explain this part more than was lost are wrong, and not only moved by a packet of somebody else.
const PART: f64 = 0.05;

pub(super) const RULE: Rule = Rule {
    name: "contradiction",
    says: "Counters contradict each other: they saw more dropped than was lost.",
    rests_on: "A loss budget whose counters explain at least 5 %, and 10 datagrams, more than was lost, in a trial where \
               something went wrong. Other traffic that was dropped looks the same.",
    source: "raspberrypi/linux issue 6898 (macb drivers count one drop twice).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is_troubled() {
        return None;
    }
    let surplus = case.unaccounted().filter(|rest| *rest <= -10)?.unsigned_abs();
    let doubt = case.record.doubts.iter().find(|doubt| doubt.kind() == DoubtKind::CountersContradict)?;
    // The counts of a queueing discipline are right: others' packets were dropped in it (others-traffic).
    if case.surplus_at_qdisc().is_some() {
        return None;
    }
    let seen = case.drops_seen();
    let part = surplus as f64 / seen.max(1) as f64;
    if part < PART {
        return None;
    }
    let sentence = "Counters contradict each other: they saw more packets dropped than were lost.".to_owned();
    Some(
        RULE.finds(case, None, Sureness::Likely, part.min(1.0), sentence)
            .because(format!("they saw {seen} dropped, {surplus} more than were lost ({} of them)", percent(part)))
            .because(doubt.to_string())
            .explains(&["receive-ring", "fifo-overrun", "transmit-ring", "qdisc-drops", "link-damage"])
            .wrong_if("It is wrong if other traffic was dropped at the same time: stop it and measure again."),
    )
}
