//! A CPU was slowed down because it was too hot.
//! Knows the thermal counters, and the time at each frequency.

use super::case::{Case, Side, percent};
use super::{Finding, Rule, Sureness};
use crate::total::Total;

/// From this share of the time below the highest frequency on, under the governor `performance`.
const SLOW: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    name: "throttled",
    says: "A CPU that was needed was slowed down, because it was too hot or its supply too weak.",
    rests_on: "A machine out of CPU time, or one that answers requests, whose thermal throttle counters moved; or which ran below \
               its highest frequency for at least 10 % of the time although its governor is performance.",
    source: "Linux Documentation/ABI/testing/sysfs-devices-system-cpu (thermal_throttle); Documentation/cpu-freq/cpufreq-stats.rst.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    case.sides().into_iter().find_map(|side| {
        let needed = side.needs_cpu(case)?;
        let hot: u64 =
            side.machine.counters.iter().filter(|(_, n, _)| n.starts_with("cpu too hot")).map(|(_, _, v)| v).total();
        let slow = slow(side).filter(|share| *share >= SLOW && governor(side) == Some("performance"));
        if hot == 0 && slow.is_none() {
            return None;
        }
        let sentence = format!("The {}'s CPU was slowed down while it was needed.", side.end);
        Some(
            RULE.finds(case, Some(side.end), Sureness::Likely, slow.unwrap_or(0.5), sentence)
                .because(format!("the {}'s CPUs were too hot {hot} times", side.end))
                .because_of(slow.map(|share| {
                    format!("they ran below their highest frequency {} of the time, under performance", percent(share))
                }))
                .because(needed)
                .wrong_if("It is wrong if a fan, or a pause between trials, changes nothing.")
                .explains(&[
                    "sender-cpu",
                    "receiver-cpu",
                    "receiver-starved",
                    "sender-starved",
                    "host-limits",
                    "softirq-cpu",
                ]),
        )
    })
}

fn governor<'a>(side: Side<'a>) -> Option<&'a str> {
    side.machine.environment.cpu.governor.as_deref()
}

/// The share of the time below the highest frequency that there is, by `cpu frequency N kHz, 10 ms`.
pub(super) fn slow(side: Side<'_>) -> Option<f64> {
    let time = |(_, name, ticks): (_, &str, u64)| {
        let khz: u64 = name.strip_prefix("cpu frequency ")?.split(' ').next()?.parse().ok()?;
        Some((khz, ticks))
    };
    let times: Vec<(u64, u64)> = side.machine.counters.iter().filter_map(time).collect();
    let highest = times.iter().map(|(khz, _)| *khz).max()?;
    let all: u64 = times.iter().map(|(_, ticks)| *ticks).total();
    let below: u64 = times.iter().filter(|(khz, _)| *khz < highest).map(|(_, ticks)| *ticks).total();
    (all > 0).then(|| below as f64 / all as f64)
}
