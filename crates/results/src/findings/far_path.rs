//! The way is long: answers take its round trip, and TCP's window is filled over many of them.
//! Knows the time budget and the least round trip.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// A round trip of a local network takes less than this.
const FAR_S: f64 = 2e-3;
/// From this share of the time on.
const SHARE: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "far-path",
    says: "The way there and back takes long by itself: each answer waits for it, or TCP's window grows over many round trips.",
    rests_on: "A shortest round trip of at least 2 ms; and of requests at least half of their time on the way, of TCP at least half of the \
               time limited by a window that still grew while nothing was lost.",
    source: "RFC 9293; RFC 5681, section 3.1 (slow start, congestion avoidance); RFC 6349, section 3.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if case.record.workload.is_stream() {
        case.short()?;
        let least = case.tcp()?.min_rtt_s.filter(|least| *least >= FAR_S)?;
        let share = case.share_of(&[Limit::SlowStart, Limit::WindowGrowth]);
        if share < SHARE || case.retransmitted().is_some() {
            return None;
        }
        let sentence = format!(
            "The way there and back takes {} ms, and TCP's window was still growing to fill it.",
            tidy(least * 1e3)
        );
        return Some(
            RULE.finds(case, None, Sureness::Likely, share * 0.7, sentence)
                .because(format!("TCP's window limited {} of the time, and nothing was lost", percent(share)))
                .wrong_if("It is wrong if no more comes through in a trial that takes ten times as long."),
        );
    }
    let latency = case.latency()?;
    let least = latency.min_s.filter(|least| *least >= FAR_S)?;
    let share = case.share_of(&[Limit::OnTheWay]);
    if share < SHARE {
        return None;
    }
    let sentence = format!("The way there and back takes {} ms by itself.", tidy(least * 1e3));
    Some(
        RULE.finds(case, None, Sureness::Likely, share * 0.7, sentence)
            .because(format!("{} of the transactions' time was spent on the way", percent(share)))
            .because_of(
                latency
                    .percentiles
                    .get("p50")
                    .map(|s| format!("half of the answers took {} ms or more", tidy(s * 1e3))),
            )
            .wrong_if("It is wrong if ping takes much less at the same time."),
    )
}
