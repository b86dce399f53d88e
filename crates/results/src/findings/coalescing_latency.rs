//! Answers wait for interrupts that are held back.
//! Knows coalescing times; adaptive coalescing lowers them by itself under light load.

use super::case::{Case, Side, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::total::Total;

/// From this part of the usual round trip on.
const PART: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "coalescing-latency",
    says: "Interrupt coalescing makes answers wait: frames are told to the CPU later than they come.",
    rests_on: "rx_usecs of both machines together at least 30 % of the median round trip, and at least 20 µs, without adaptive \
               coalescing.",
    source: "ethtool(8), --coalesce.",
    suggests: &["coalesce.rx_usecs"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let latency = case.latency()?;
    let median = *latency.percentiles.get("p50")?;
    let waits = |side: Side<'_>| {
        let coalescing = &side.nic()?.coalescing;
        coalescing.get("rx-usecs").copied().filter(|_| coalescing.get("adaptive-rx") != Some(&1))
    };
    let both = case.sides().map(|side| (side, waits(side).unwrap_or(0)));
    let sum_us = both.iter().map(|(_, us)| *us).total();
    let part = f64::from(sum_us) * 1e-6 / median;
    // A frame that waits longer than the round trip takes shows that the driver does not do what it tells.
    if part < PART || sum_us < 20 || part > 1.1 {
        return None;
    }
    let (side, most) = both.into_iter().max_by_key(|(_, us)| *us)?;
    let sentence = format!("Answers wait for interrupts that the {}'s interface holds back.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, part.min(1.0), sentence)
            .because(format!(
                "half of the answers took {} µs or more; coalescing may hold {sum_us} µs of it, {}",
                tidy(median * 1e6),
                percent(part)
            ))
            .because(format!("coalesce.rx_usecs of the {} is {most}", side.end))
            .attempt(side.setting("coalesce.rx_usecs"), "0", "latency_p50")
            .wrong_if("It is wrong if the median round trip stays what it is without coalescing."),
    )
}
