//! An end's program did not run for a while: stopped, or not scheduled at all.
//! Knows the event that the agent tells when it runs again.

use linerate_trial::event::{Event, EventKind};

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// A busy machine keeps a program from running for as long.
const LEAST_S: f64 = 0.15;

pub(super) const RULE: Rule = Rule {
    name: "agent-stopped",
    says: "The program at one end did not run for a while: it was stopped (SIGSTOP, a debugger, a suspended machine), or a \
           real-time thread had its CPU.",
    rests_on: "The event agent-stopped; of a stream, with something that went wrong.",
    source: "signal(7), SIGSTOP; sched(7).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let is_stopped = |event: &Event| event.what == EventKind::AgentStopped;
    let first = case.events().find(|event| is_stopped(event))?;
    let end = first.end?;
    let (seconds, times) = case.held(|event| is_stopped(event) && event.end == Some(end));
    if seconds < LEAST_S || case.is_untroubled_stream() {
        return None;
    }
    let share = seconds / case.span_s()?;
    let sentence = format!("The {end}'s agent did not run for {} s.", tidy(seconds));
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, (share * 10.0).clamp(0.3, 1.0), sentence)
            .because(format!(
                "it stood still {times} times, {} of the trial, for the first time at {} s",
                percent(share),
                tidy(first.at_s)
            ))
            .because_of(case.short())
            .wrong_if("It is wrong if as much is lost in a trial without the event agent-stopped.")
            .explains(&[
                "receive-buffer",
                "receiver-starved",
                "sender-starved",
                "small-buffer",
                "outage",
                "flow-died",
                "unaccounted",
                "receive-window",
                "application-limited",
                "receiver-cpu",
                "sender-cpu",
                "host-limits",
                "retransmission-timeout",
            ]),
    )
}
