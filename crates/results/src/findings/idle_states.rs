//! The CPU sleeps deeply between packets, and an answer waits for it to wake up.
//! Knows each idle state's exit latency, and how often it was entered where the kernel tells.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// A state that takes longer to leave than this is deep.
const DEEP_US: u32 = 20;
/// From this part of the usual round trip on.
const PART: f64 = 0.2;

pub(super) const RULE: Rule = Rule {
    name: "idle-states",
    says: "The CPU goes into a deep idle state between packets, and each answer waits until it has left it.",
    rests_on: "An idle state that is in use with an exit latency of at least 20 µs, entered at least once for two requests, and at \
               least 20 % of the median round trip.",
    source: "Linux Documentation/admin-guide/pm/cpuidle.rst (latency, usage); Documentation/power/pm_qos_interface.rst.",
    suggests: &["cpuidle.max_latency_us"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let latency = case.latency()?;
    let median = *latency.percentiles.get("p50")?;
    case.sides().into_iter().rev().find_map(|side| {
        let used = |state: &linerate_machine::environment::IdleState| {
            let entered = side.counter(&format!("cpu idle {} entered", state.name))?;
            let exit_us = state.exit_latency_us.filter(|us| *us >= DEEP_US && state.disabled != Some(true))?;
            (entered >= latency.count.div_ceil(2)).then(|| (state.name.clone(), exit_us, entered))
        };
        let states = side.machine.environment.cpu.idle_states.iter();
        let (name, exit_us, entered) = states.filter_map(used).max_by_key(|(_, exit_us, _)| *exit_us)?;
        let part = f64::from(exit_us) * 1e-6 / median;
        if part < PART {
            return None;
        }
        let sentence = format!("The {}'s CPU sleeps deeply between packets, and wakes up slowly.", side.end);
        Some(
            RULE.finds(case, Some(side.end), Sureness::Likely, part.min(1.0), sentence)
                .because(format!(
                    "state {name} takes {exit_us} µs to leave, {} of the median round trip of {} µs",
                    percent(part),
                    tidy(median * 1e6)
                ))
                .because(format!("it was entered {entered} times for {} requests", latency.count))
                .attempt(side.setting("cpuidle.max_latency_us"), "1", "latency_p50")
                .wrong_if("It is wrong if the median round trip stays what it is with light idle states only.")
                .explains(&["coalescing-latency"]),
        )
    })
}
