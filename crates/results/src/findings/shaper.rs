//! A queueing discipline of the sender keeps to a rate, and that is what limits.
//! Knows the time budget, and the disciplines' names.

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// From this share of the time on.
const SHARE: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "shaper",
    says: "A queueing discipline at the sender's egress keeps to a rate, and is what limits.",
    rests_on: "The time budget's line shaper with at least 30 % of the time: frames stood in a discipline that keeps to a rate, or \
               it held them back (overlimits).",
    source: "tc(8), tc-tbf(8); Linux struct gnet_stats_queue (linux/gen_stats.h).",
    suggests: &["qdisc"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let line = case.time().find(|line| line.limit == Limit::Shaper && line.share >= SHARE)?;
    let short = case.short()?;
    let side = case.sender;
    let nic = side.nic()?;
    let kinds = if nic.qdiscs.is_empty() { nic.qdisc.clone() } else { Some(nic.qdiscs.join(", ")) };
    let sentence = format!("A shaper at the {}'s own egress limits.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, line.share * 0.85, sentence)
            .because(format!("frames waited in it {} of the time", percent(line.share)))
            .because_of(kinds.map(|kinds| format!("the discipline is {kinds}")))
            .because(short)
            .attempt(side.setting("qdisc"), "default", "throughput")
            .wrong_if("It is wrong if no more comes through without it.")
            .explains(&[
                "host-limits",
                "send-buffer",
                "receive-window",
                "application-limited",
                "sender-cpu",
                "lossy-path",
                "bottleneck",
                "small-buffer",
            ]),
    )
}
