//! A link of the two ends was down for a part of the trial.
//! Knows changes of the carrier, and how long nothing arrived meanwhile.

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};
use crate::outage::{self, CARRIER_CHANGES};

/// Silence that explains a smaller part of what went wrong is not what to look at first.
const PART: f64 = 0.05;

pub(super) const RULE: Rule = Rule {
    name: "link-down",
    says: "The link was down for a part of the trial: a cable, a plug, a port or a device that was set down.",
    rests_on: "Changes of an interface's carrier during the trial, and time in which nothing arrived: the longest gap between \
               datagrams, or time slices without any; else as long as the carrier was lost. Sure where that time explains half of what was lost or missing.",
    source: "Linux Documentation/ABI/testing/sysfs-class-net, carrier_changes.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let changes = outage::carrier_changes(case.record);
    let silence = outage::silence(case.record, case.flow()?).filter(|_| !changes.is_empty() && case.is_troubled())?;
    let share = (silence.seconds / case.span_s()?).min(1.0);
    // Of a steady stream as much is lost, or missing, as there was silence.
    let missing = case.missing_share().or_else(|| case.missing_transactions());
    let part = match (case.loss_ratio().filter(|_| case.loss().is_some()), missing) {
        (Some(lost), _) => (share / lost).min(1.0),
        (None, Some(missing)) => (share / missing).min(1.0),
        (None, None) => share,
    };
    if part < PART {
        return None;
    }
    let sure = if part >= 0.5 { Sureness::Sure } else { Sureness::Likely };
    let machine = if let [(end, _)] = changes[..] { Some(end) } else { None };
    let counted: Vec<String> = changes.iter().map(|(end, count)| format!("{end}: {CARRIER_CHANGES} {count}")).collect();
    let sentence = format!("The link was down during the trial, and nothing arrived for {}.", silence.words());
    Some(
        RULE.finds(case, machine, sure, part, sentence)
            .because(counted.join("; "))
            .because(format!("nothing arrived for {} of the measured time", percent(share)))
            .wrong_if("It is wrong if as much is lost while carrier_changes stands still.")
            // Packets wait in vain for a neighbour that is not there, and are dropped where nobody counts.
            .explains(&["neighbours", "stack-drops", "unaccounted", "qdisc-drops", "transmit-ring", "receive-ring"]),
    )
}
