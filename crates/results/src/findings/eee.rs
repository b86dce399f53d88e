//! Energy-Efficient Ethernet: the PHY sleeps between packets and must wake up first.
//! Knows the standard's wake times.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// From this part of the usual round trip on.
const PART: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    name: "eee",
    says: "Energy-Efficient Ethernet is active: the link sleeps between requests and takes time to wake up.",
    rests_on: "EEE active at either end, requests further apart than its timer (or a timer that is not known), and two wake times of \
               the link's speed (30 µs at 100BASE-TX, 16.5 µs at 1000BASE-T, 7.4 µs at 10GBASE-T) at least 10 % of the median \
               round trip.",
    source: "IEEE 802.3, clause 78.5, table 78-2 (Tw_sys_tx).",
    suggests: &["eee"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let latency = case.latency()?;
    let median = *latency.percentiles.get("p50")?;
    let side = case.sides().into_iter().find(|side| side.nic().and_then(|nic| nic.eee?.active) == Some(true))?;
    let timer = side.nic()?.eee?.tx_lpi_timer_us;
    let wake_us = match side.nic()?.speed_mbps? {
        100 => 30.0,
        1000 => 16.5,
        10_000 => 7.36,
        _ => return None,
    };
    // Another request follows at once, unless they are paced.
    let apart_s = case.span_s()? * case.streams() / latency.count.max(1) as f64;
    let part = 2.0 * wake_us * 1e-6 / median;
    if part < PART || timer.is_some_and(|timer| f64::from(timer) * 1e-6 > apart_s) {
        return None;
    }
    let sentence = format!(
        "The {}'s link sleeps between packets (Energy-Efficient Ethernet), and each way wakes it up.",
        side.end
    );
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, part.min(1.0), sentence)
            .because(format!(
                "half of the answers took {} µs or more; two wake-ups are {} µs, {}",
                tidy(median * 1e6),
                2.0 * wake_us,
                percent(part)
            ))
            .because(format!(
                "EEE is active, its timer {}",
                timer.map_or("unknown".to_owned(), |timer| format!("{timer} µs"))
            ))
            .because(format!("requests were {} µs apart", tidy(apart_s * 1e6)))
            .attempt(side.setting("eee"), "off", "latency_p50")
            .wrong_if("It is wrong if the median round trip stays what it is with EEE off.")
            .explains(&["idle-states", "coalescing-latency"]),
    )
}
