//! A control group's CPU quota held an end back.
//! Knows the event throttled, and how much time its slices lost.

use linerate_trial::event::EventKind;

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// From this share of the trial on.
const SHARE: f64 = 0.05;

pub(super) const RULE: Rule = Rule {
    name: "cpu-quota",
    says: "The control group of one end's agent used up its CPU quota, and had no CPU until the next period.",
    rests_on: "The event throttled for at least 5 % of the trial; of a stream, with something that went wrong.",
    source: "Linux Documentation/admin-guide/cgroup-v2.rst, cpu.max and cpu.stat (throttled_usec).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    case.sides().into_iter().rev().find_map(|side| {
        let (seconds, times) = case.held(|event| event.what == EventKind::Throttled && event.end == Some(side.end));
        let share = (seconds / case.span_s()?).min(1.0);
        if times == 0 || share < SHARE || case.is_untroubled_stream() {
            return None;
        }
        let sentence = format!("The {}'s agent may use no more CPU time: its control group has a quota.", side.end);
        let shares = side.thread_shares(case);
        Some(
            RULE.finds(case, Some(side.end), Sureness::Likely, share.max(0.5), sentence)
                .because(format!(
                    "its control group was throttled in slices that make {} s, {} of the trial",
                    tidy(seconds),
                    percent(share)
                ))
                .because_of(shares.map(|(worked, _)| format!("its threads worked {} of the time", percent(worked))))
                .because_of(case.short())
                .wrong_if("It is wrong if nothing changes with a larger quota (cpu.max, CPUQuota= of systemd).")
                .explains(&[
                    "receive-buffer",
                    "receiver-starved",
                    "sender-starved",
                    "small-buffer",
                    "receiver-cpu",
                    "sender-cpu",
                    "receive-window",
                    "application-limited",
                    "host-limits",
                    "outage",
                    "cpu-wait",
                    "agent-stopped",
                    "unaccounted",
                ]),
        )
    })
}
