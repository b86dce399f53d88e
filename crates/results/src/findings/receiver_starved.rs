//! The thread that reads did not get a CPU, so the socket's buffer ran full in front of it.
//! Knows how long the scheduler let it wait.

use linerate_trial::stage::Stage;

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

/// From this share of its time on, waiting for a CPU is no accident.
const WAITED: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    name: "receiver-starved",
    says: "The receiving thread is starved: the stack delivers, the socket's buffer is full, and the thread waits for a CPU.",
    rests_on: "A loss of at least 10 datagrams, and 5 % of what was lost, at the stage receiver socket, and receiving threads \
               that could have run but waited for a CPU for at least 10 % of the time.",
    source: "Linux Documentation/scheduler/sched-stats.rst (schedstat's run delay); sched(7).",
    suggests: &["receiver_scheduling"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_at(Stage::ReceiverSocket)?;
    let side = case.receiver;
    let (worked, waited) = side.thread_shares(case)?;
    if waited < WAITED {
        return None;
    }
    let cpu = side.cpu(case);
    let sentence = format!("The {}'s receiving thread did not get a CPU when it had data to read.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, at.part, sentence)
            .because(format!(
                "its threads could have run and waited for a CPU {} of the time; they worked {}",
                percent(waited),
                percent(worked)
            ))
            .because(at.evidence.clone())
            .because(case.of_loss(&at))
            .because_of(cpu.map(|cpu| {
                let [busy, softirq] = [cpu.machine.busy, cpu.machine.softirq].map(percent);
                format!("the {}'s {} CPUs were busy {busy} of the time, {softirq} in softirqs", side.end, cpu.cpus)
            }))
            .attempt(side.setting("receiver_scheduling"), "fifo:50", "loss")
            .wrong_if("It is wrong if as much is lost at the socket when the thread runs before all others.")
            .explains(&["receive-buffer", "receiver-cpu", "small-buffer"]),
    )
}
