//! The sender's own queueing discipline drops.
//! Knows its kind and length.

use linerate_path::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "qdisc-drops",
    says: "The sender's queueing discipline drops: it holds less than the sender puts into it, or shapes to a lower rate.",
    rests_on: "A loss of at least 10 packets, and 5 % of what was lost (or of the segments that TCP retransmitted), at the stage \
               qdisc.",
    source: "tc(8); Linux net/sched (a root discipline's qstats drops).",
    suggests: &["qdisc", "queue_length"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_at(Stage::Qdisc)?;
    let side = case.sender;
    let shaper = side.nic().and_then(|nic| nic.rate_keeper());
    let kind = shaper.or(side.nic().and_then(|nic| nic.qdisc.as_deref()));
    let length = side.nic().and_then(|nic| nic.queue_length);
    let shapes = shaper.is_some();
    let sentence = match shapes {
        true => format!("The {}'s own queueing discipline shapes what it sends, and drops the rest.", side.end),
        false => format!("The {}'s own transmit queue ran full.", side.end),
    };
    let finding = RULE
        .finds(case, Some(side.end), case.sure_of(&at), at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(&at))
        .because_of(kind.map(|kind| format!("the discipline is {kind}")))
        .because_of(length.filter(|_| !shapes).map(|length| format!("the queue holds {length} packets")))
        .wrong_if("It is wrong if the discipline's drops go on as they are after the change.");
    Some(match shapes {
        true => finding.attempt(side.setting("qdisc"), "default", case.metric()),
        false => {
            let more = length.unwrap_or(1000).saturating_mul(10).max(1000);
            finding.attempt(side.setting("queue_length"), more.to_string(), case.metric())
        }
    })
}
