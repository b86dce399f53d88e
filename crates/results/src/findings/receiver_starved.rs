//! The thread that reads did not get a CPU, so the socket's buffer ran full in front of it.
//! Knows how long the scheduler let it wait.

use linerate_path::stage::Stage;
use linerate_trial::spec::Workload;

use super::case::{Case, percent};
use super::cpu_time::waited_for_cpu;
use super::{Finding, Rule, Sureness};

/// From this share of its time on, waiting for a CPU is no accident.
const WAITED: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    name: "receiver-starved",
    says: "The receiving thread is starved: the stack delivers, the socket's buffer is full, and the thread waits for a CPU.",
    rests_on: "Receiving threads that could have run but waited for a CPU for at least 10 % of the time; and a loss of at least 10 \
               datagrams, and 5 % of what was lost, at the stage receiver socket, datagrams read more than 5 % slower than \
               they were sent by threads that worked or waited for as large a share of the time, or a TCP stream that came short while the threads waited 30 % of the time, twice as \
               long as they worked, and others had half a CPU (where both ends share a machine).",
    source: "Linux Documentation/scheduler/sched-stats.rst (schedstat's run delay); sched(7).",
    suggests: &["receiver_scheduling"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let side = case.receiver;
    let (worked, waited) = side.thread_shares(case).filter(|(_, waited)| *waited >= WAITED)?;
    let at = case.lost_at(Stage::ReceiverSocket);
    // What a thread left unread at the end took it as long to come to.
    let late = case.read_late().filter(|(share, _)| worked + waited >= *share);
    let starved = side.starved(case).filter(|_| case.is(Workload::TcpStream));
    let short = case.short().filter(|_| starved.is_some());
    let weight = match (&at, &late, &short) {
        (Some(at), ..) => at.part,
        (None, Some(_), _) | (None, None, Some(_)) => waited,
        (None, None, None) => return None,
    };
    let cpu = side.cpu();
    let sentence = format!("The {}'s receiving thread did not get a CPU when it had data to read.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, weight, sentence)
            .because(waited_for_cpu(worked, waited))
            .because_of(at.as_ref().map(|at| format!("{}; {}", at.evidence(), case.of_loss(at))))
            .because_of(late.map(|(_, clause)| clause))
            .because_of(short)
            .because_of(cpu.map(|cpu| {
                let [busy, softirq] = [cpu.machine.busy, cpu.machine.softirq].map(percent);
                format!("the {}'s {} CPUs were busy {busy} of the time, {softirq} in softirqs", side.end, cpu.cpus)
            }))
            .attempt(side.setting("receiver_scheduling"), "fifo:50", case.metric())
            .wrong_if("It is wrong if as little arrives in time when the thread runs before all others.")
            .explains(&["receive-buffer", "receiver-cpu", "small-buffer", "host-limits", "sender-cpu"])
            .explains(starved.map_or(&[], |starved| starved.silences())),
    )
}
