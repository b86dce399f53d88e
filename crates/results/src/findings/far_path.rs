//! The way is long: TCP's window is filled over many round trips, or too few transactions fit one after the other.
//! Knows the time budget and the least round trip. That answers take the way's time is no fault, and no finding.

use linerate_trial::spec::{MAX_OUTSTANDING, Workload};

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// A round trip of a local network takes less than this.
const FAR_S: f64 = 2e-3;
/// From this share of the time on.
const SHARE: f64 = 0.5;
/// What may be asked for.
const MOST_AT_ONCE: f64 = MAX_OUTSTANDING as f64;

pub(super) const RULE: Rule = Rule {
    name: "far-path",
    says: "The way there and back takes long by itself: TCP's window was still growing to fill it, or more transactions were asked for than \
           happen one after the other.",
    rests_on: "A shortest round trip of at least 2 ms, and at least half of the time limited by a window that still grew while \
               nothing was lost. Or at least half of the transactions' time on the way, and fewer of them than were asked for, which at \
               that round trip take more at a time.",
    source: "RFC 5681, section 3.1 (slow start, congestion avoidance); RFC 6349, section 3.",
    suggests: &["outstanding"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    seldom(case).or_else(|| growing(case))
}

/// More transactions were asked for than the way lets happen one after the other.
fn seldom(case: &Case<'_>) -> Option<Finding> {
    let seldom = case.seldom().filter(|_| case.share_of(&[Limit::OnTheWay]) >= SHARE)?;
    let least = case.latency()?.min_s.filter(|least| *least >= FAR_S)?;
    let (asked, wanted) = (case.asked.as_ref()?, case.wanted_per_s()?);
    let needed = (wanted / f64::from(asked.streams.max(1)) * least).ceil();
    if needed <= f64::from(asked.outstanding) || !needed.is_finite() || case.loss().is_some() {
        return None;
    }
    let sentence = format!(
        "The way there and back takes {} ms: so few transactions fit, {} of each stream at a time.",
        tidy(least * 1e3),
        asked.outstanding
    );
    let finding = RULE
        .finds(case, None, Sureness::Likely, 0.7, sentence)
        .because(seldom)
        .because(format!("as many as were asked take {needed} at a time"))
        .wrong_if("It is wrong if no more come about with more outstanding, or by a shorter way.");
    let can_more = !case.is(Workload::TcpCrr) && needed <= MOST_AT_ONCE;
    Some(if can_more { finding.attempt("outstanding", needed.to_string(), "transactions") } else { finding })
}

fn growing(case: &Case<'_>) -> Option<Finding> {
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
