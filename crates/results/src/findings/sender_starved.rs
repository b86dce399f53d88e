//! The thread that sends did not get a CPU, because other programs had it.
//! Knows how long the scheduler let it wait, and what others used.

use super::case::Case;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "sender-starved",
    says: "The sending thread is starved: it has data to send, and waits for a CPU that other programs have.",
    rests_on: "Sending threads that could have run but waited for a CPU for at least 30 % of the time, and twice as long as they \
               worked; other programs that had half a CPU (where both ends share a machine); at most 1 % was lost; and a stream that came short of what was asked, or waited \
               for 60 % of the time, and four times as long as they worked, where as much as possible was asked.",
    source: "Linux Documentation/scheduler/sched-stats.rst (schedstat's run delay); proc_pid_stat(5); sched(7).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let side = case.sender;
    let short = case.short()?;
    // Whoever loses what it sends is not the limit.
    if case.loss_ratio().is_some_and(|ratio| ratio > 0.01) {
        return None;
    }
    let starved = side.starved(case)?;
    let sentence = format!("The {}'s sending thread waits for a CPU that other programs have.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, starved.waited, sentence)
            .because_of(starved.clauses())
            .because(short)
            .wrong_if("It is wrong if it sends no faster with these programs ended.")
            .explains(&["sender-cpu", "host-limits", "receiver-cpu", "application-limited"])
            .explains(starved.silences()),
    )
}
