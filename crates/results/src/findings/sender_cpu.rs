//! The thread that sends had no time left.
//! Knows thread times; why it costs so much is for other rules.

use linerate_trial::spec::Workload;

use super::case::Case;
use super::refused::RefusedFrames;
use super::{Finding, Rule, Sureness};

/// A system call costs as much as copying a few thousand octets.
const SMALL: u64 = 4096;

pub(super) const RULE: Rule = Rule {
    name: "sender-cpu",
    says: "The sender's CPU is the limit: its thread worked all the time and sent no faster.",
    rests_on: "The sending threads worked, or waited for a CPU, at least 90 % of the time, or a CPU was at least 95 % busy; at most \
               1 % was lost, and no frames were refused in number by the sender's queueing discipline or link; and the trial came short of what was asked or of the link, or the link's speed is not known. Beside \
               other programs (busy-machine), or while CPUs are idle, where it waited for one 15 or 30 % of the time.",
    source: "getrusage(2); Linux Documentation/scheduler/sched-stats.rst.",
    suggests: &["message_size", "streams"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let (most, clauses) = case.sender.out_of_cpu(case)?;
    // Whoever loses what it sends is not the limit.
    if case.loss_ratio().is_some_and(|ratio| ratio > 0.01) {
        return None;
    }
    // It was busy with trying again what was not taken.
    if RefusedFrames::of(case).is_some() {
        return None;
    }
    let used = case.flow().and_then(|flow| flow.sender_api.as_ref()).map(|api| api.name.as_str());
    let end = case.sender.end;
    let time = case.sender.cpu_time(case);
    let sentence = format!("The {end}'s CPU is the limit: its sending thread {}.", time.limit("send"));
    let mut finding = RULE
        .finds(case, Some(end), Sureness::Likely, most * 0.9, sentence)
        .because_of(clauses)
        .because_of(time.clause())
        .because_of(used.map(|used| format!("it sends with {used}")))
        .because(short)
        .wrong_if("It is wrong if a second stream brings no more, and the CPUs have time left then.");
    // Of a stream of octets, what a call hands over is the application's choice alone.
    if let Some(octets) = case.message_size().filter(|octets| *octets < SMALL)
        && case.is(Workload::TcpStream)
    {
        finding = finding.because(format!("each call hands over {octets} bytes"));
        finding = finding.attempt("message_size", "128K", "throughput");
    }
    // More threads get more only of what nobody else has.
    let has_more = case.sender.cpu().is_some_and(|cpu| cpu.cpus > 1) && time.is_own();
    Some(if case.streams() < 2.0 && has_more { finding.attempt("streams", "2", "throughput") } else { finding })
}
