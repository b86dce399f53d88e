//! The thread that reads had no time left.
//! Knows thread times; who else took the CPU is for other rules.

use linerate_path::stage::Stage;

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "receiver-cpu",
    says: "The receiver's CPU is the limit: its thread worked all the time and read no faster.",
    rests_on: "The receiving threads worked, or waited for a CPU, at least 90 % of the time, or a CPU was at least 95 % busy; \
               and datagrams were lost at the socket, or a stream came short and its sender had more time left than the \
               receiver. Beside other programs (busy-machine), or while CPUs are idle, where it waited for one 15 or 30 % of the time.",
    source: "getrusage(2); Linux Documentation/scheduler/sched-stats.rst.",
    suggests: &["streams"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let side = case.receiver;
    let (most, clauses) = side.out_of_cpu(case)?;
    let (worked, waited) = side.thread_shares(case)?;
    let at = case.lost_at(Stage::ReceiverSocket);
    let weight = match &at {
        Some(at) => at.part,
        None => {
            // A sender that works as hard is the limit at least as much.
            let sender = case.sender.thread_shares(case).map_or(0.0, |(worked, waited)| worked + waited);
            if case.loss().is_some() || case.short().is_none() || worked + waited < sender.max(0.8) {
                return None;
            }
            most
        }
    };
    let time = side.cpu_time(case);
    let sentence = format!("The {}'s CPU is the limit: its receiving thread {}.", side.end, time.limit("read"));
    let mut finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, weight * most, sentence)
        .because_of(clauses)
        .because_of(time.clause())
        .because_of(case.short())
        .because_of(at.as_ref().map(|at| at.evidence()))
        .wrong_if("It is wrong if its thread has time left at the same throughput with a cheaper receiver_api.")
        .explains(&["receive-buffer", "receive-window"]);
    let used = case.flow().and_then(|flow| flow.receiver_api.as_ref()).map(|api| api.name.as_str());
    if let Some(used) = used {
        finding = finding.because(format!("it reads by {used}, which worked {} of the time", percent(worked)));
    }
    // More threads get more only of what nobody else has.
    if case.streams() < 2.0 && side.cpu().is_some_and(|cpu| cpu.cpus > 1) && time.is_own() {
        finding = finding.attempt("streams", "2", if at.is_some() { "loss" } else { "throughput" });
    }
    Some(finding)
}
