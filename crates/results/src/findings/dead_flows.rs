//! Some streams of many lose everything, and the others little: something on the way goes by flow.
//! Knows streams' own losses, and between which places they vanished.

use super::case::{Case, percent};
use super::streams::DeadFlows;
use super::unaccounted::Missing;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "dead-flows",
    says: "Some streams of many lose everything, from the first packet to the last, and the others little: something on the way goes by \
           flow, such as a dead member of a link aggregation, or of equal-cost routes, or a filter by port.",
    rests_on: "Datagrams or frames in several streams, or frames of several flows in one (flows=): at least one lost 98 % or more of what it sent (10 at least), another at most \
               50 %, and of all that was lost at least 80 % was lost by the dead ones; no counter saw it.",
    source: "IEEE 802.1AX, 6.2.4 (frame distribution by conversation); RFC 2992 (equal-cost multi-path by hash).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let flows = DeadFlows::of(case)?;
    let missing = Missing::of(case)?;
    let DeadFlows { dead, all, sent, others } = flows;
    let what = if case.flow().and_then(|flow| flow.frames.as_ref()?.flows).is_some() { "flows" } else { "streams" };
    let place = if missing.is_between() { format!(" {}", missing.links) } else { String::new() };
    let sentence = format!(
        "{dead} of {all} {what} lose everything{place}, and the others hardly anything: something there goes by flow, such as a dead \
         member of a link aggregation or of equal-cost routes, or a filter by port."
    );
    Some(
        RULE.finds(case, None, Sureness::Likely, 1.0, sentence)
            .because(format!("of the {sent} {} of these {what} none arrived, or next to none", case.noun()))
            .because(format!("the others lost {}", percent(others)))
            .because_of(missing.evidence(case))
            .wrong_if(format!(
                "It is wrong if other {what} lose everything each time: then it is no matter of the ports that they have."
            ))
            .explains(&["lossy-path", "bottleneck", "unaccounted", "outage"]),
    )
}
