//! Most of what answers take is beyond the quickest round trip, and neither thread did it.
//! Knows the time budget of transactions; what stands in the way nobody at the ends can see.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// From this share of the time on, and from this mean on: a busy machine wakes a thread late by less.
const SHARE: f64 = 0.5;
const LEAST_S: f64 = 2e-3;
/// A round trip takes so many times the quickest.
const TIMES: f64 = 3.0;

pub(super) const RULE: Rule = Rule {
    name: "slow-answers",
    says: "Answers take much longer than the quickest one, though nothing was lost and both threads had their CPU: a queue on the way, \
           a delay that varies, or CPUs that sleep.",
    rests_on: "At least half of the transactions' time, and 2 ms of each, in the time budget's line queues, and half of the answers \
               took three times the quickest, and 1 ms. Of several at a time, where fewer came about than were asked, what the way took beyond the \
               quickest answer counts as well.",
    source: "RFC 6349, section 3.1 (baseline round trip, and what buffers add).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let (waited_s, share) = case.queued()?;
    let latency = case.latency()?;
    let (least, median) = (latency.min_s?, *latency.percentiles.get("p50")?);
    // A few that took very long are no matter of half of them.
    let is_half = median >= TIMES * least && median >= LEAST_S / 2.0;
    let is_long = share >= SHARE && waited_s >= LEAST_S && is_half;
    if !is_long || case.loss().is_some() || case.waited_for_timer().is_some() {
        return None;
    }
    let sentence = format!(
        "Half of the answers take {} ms or more, and the quickest took {} ms: they wait in a queue between the two ends, or for a \
         delay that varies.",
        tidy(median * 1e3),
        tidy(least * 1e3)
    );
    Some(
        RULE.finds(case, None, Sureness::Possible, share, sentence)
            .because(format!(
                "queues and slow wake-ups took {} of the time, {} ms of each transaction",
                percent(share),
                tidy(waited_s * 1e3)
            ))
            .because_of(case.seldom())
            .wrong_if(
                "It is wrong if answers take as long over a cable from one end to the other, with nothing between.",
            ),
    )
}
