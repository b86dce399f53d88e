//! The host, not the target, is what limits.
//! Knows both machines; of two ends on one machine nothing can be said by CPU use.

use linerate_machine::end::End;

use super::case::{Case, SATURATED, percent, tidy};
use super::{Finding, Rule, Sureness};

/// A machine whose busiest CPU is busy less than this has time left.
const TIME_LEFT: f64 = 0.8;

pub(super) const RULE: Rule = Rule {
    name: "host-limits",
    says: "The host is the bottleneck, not the target: the figure is the host's.",
    rests_on: "The host sent at most 98 % of what it was asked for, and all but 0.1 % of that arrived; or the host's thread or CPU \
               had no time left while the target's busiest CPU was at most 80 % busy and nothing was lost (two machines only).",
    source: "XAPP941 (2007): if the target's CPU is low and nothing was lost, the host is the bottleneck.",
    suggests: &["streams", "qdisc"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let starved = case.receiver.thread_shares(case).is_some_and(|(_, waited)| waited >= 0.1);
    if case.loss().is_some() || case.retransmitted().is_some() || (starved && case.read_late().is_some()) {
        return None;
    }
    let host = case.sides().into_iter().find(|side| side.end == End::Host)?;
    let target = case.sides().into_iter().find(|side| side.end == End::Target)?;
    let fell_behind = fell_behind(case);
    let out_of_cpu = host.out_of_cpu(case).filter(|_| !case.shares_machine());
    let left = target.busiest().map(|(_, cpu)| cpu.busy);
    let has_time_left = left.is_some_and(|busy| busy < TIME_LEFT);
    let is_limit = fell_behind.is_some() || (out_of_cpu.is_some() && has_time_left);
    if !is_limit || (left.is_some_and(|busy| busy >= SATURATED) && !case.shares_machine()) {
        return None;
    }
    let mut finding = RULE
        .finds(case, Some(End::Host), Sureness::Likely, 0.9, "The host, not the target, is the bottleneck.".to_owned())
        .because_of(fell_behind)
        .because_of(out_of_cpu.map(|(_, clauses)| clauses.join(", ")))
        .because(short)
        .because_of(
            left.filter(|_| !case.shares_machine())
                .map(|busy| format!("the target's busiest CPU was busy {}", percent(busy))),
        )
        .wrong_if("It is wrong if a faster machine, or a second one, as the host gets no more out of the target.")
        .explains(&["sender-cpu", "receiver-cpu", "send-buffer", "receive-window", "application-limited"]);
    if let Some(shaper) = host.nic().and_then(|nic| nic.rate_keeper()) {
        finding = finding.because(format!("its queueing discipline is {shaper}"));
        finding = finding.attempt(host.setting("qdisc"), "default", "throughput");
    } else if case.streams() < 2.0 && host.cpu().is_some_and(|cpu| cpu.cpus > 1) {
        finding = finding.attempt("streams", "2", "throughput");
    }
    Some(finding)
}

/// The host sent less than it was asked for, and what it sent arrived: a clause.
fn fell_behind(case: &Case<'_>) -> Option<String> {
    let asked = case.asked_bps().filter(|bps| bps.is_finite())?;
    let sent = case.flow()?.achieved_load_bps?;
    (case.sender.end == End::Host && case.loss_ratio()? < 0.001 && sent < case.reached() * asked).then(|| {
        format!(
            "the host sent {} of {} Mbit/s that it was asked for, and that arrived",
            tidy(sent / 1e6),
            tidy(asked / 1e6)
        )
    })
}
