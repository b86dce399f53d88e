//! A queue stands between the two ends: something on the way is slower than both.
//! Knows the time budget and round trips; what stands there nobody at the ends can see.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// From this share of the time on.
const SHARE: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "bottleneck",
    says: "A queue stands between the two ends: a slower link, a shaper or a busy switch on the way limits, not the ends.",
    rests_on: "The time budget's line path with at least 30 % of the time: round trips took 1.5 times the shortest and 1 ms more, \
               while nothing stood at the sender's egress and both ends had CPU time left.",
    source: "RFC 6349, section 3.2 (bottleneck bandwidth, buffer delay); tcp_info's rtt and min_rtt.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let line = case.time().find(|line| line.limit == Limit::Path && line.share >= SHARE)?;
    let short = case.short()?;
    let tcp = case.tcp()?;
    let mbit = case.throughput_bps()? / 1e6;
    let sentence =
        format!("A slower link or a shaper between the two ends limits: about {} Mbit/s pass it.", tidy(mbit));
    let trips = tcp.min_rtt_s.map(|least| {
        format!("a round trip took {} ms at last, and {} ms at least", tidy(tcp.rtt_s * 1e3), tidy(least * 1e3))
    });
    Some(
        RULE.finds(case, None, Sureness::Likely, line.share.max(0.6), sentence)
            .because(format!("a queue stood on the way {} of the time", percent(line.share)))
            .because_of(trips)
            .because(short)
            .wrong_if("It is wrong if round trips are as long without any traffic, or as much comes through several ways at once.")
            .explains(&["lossy-path", "send-buffer", "receive-window", "host-limits", "sender-cpu", "unaccounted"]),
    )
}
