//! The way is long, and TCP's window is filled over many round trips.
//! Knows the time budget and the least round trip. That answers take the way's time is no fault, and no finding.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// A round trip of a local network takes less than this.
const FAR_S: f64 = 2e-3;
/// From this share of the time on.
const SHARE: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "far-path",
    says: "The way there and back takes long by itself, and TCP's window was still growing to fill it.",
    rests_on: "A shortest round trip of at least 2 ms, and at least half of the time limited by a window that still grew while \
               nothing was lost.",
    source: "RFC 5681, section 3.1 (slow start, congestion avoidance); RFC 6349, section 3.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
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
    Some(
        RULE.finds(case, None, Sureness::Likely, share * 0.7, sentence)
            .because(format!("TCP's window limited {} of the time, and nothing was lost", percent(share)))
            .wrong_if("It is wrong if no more comes through in a trial that takes ten times as long."),
    )
}
