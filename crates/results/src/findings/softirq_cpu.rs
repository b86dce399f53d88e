//! One CPU takes all packets in and has no time left, while others have.
//! Knows CPU use by CPU, and how packets are spread over them.

use linerate_path::stage::Stage;

use super::case::{Case, SATURATED, percent};
use super::{Finding, Rule, Sureness};

/// What the other CPUs may be busy at most, to be called idle.
const IDLE: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "softirq-cpu",
    says: "One CPU is saturated by interrupts and softirqs, which take packets in, while others have time.",
    rests_on: "A CPU at least 95 % busy, of which at least 60 points in hard and soft interrupts, the others at most 50 % busy \
               on average; and the trial lost packets or came short.",
    source: "Linux Documentation/networking/scaling.rst (RSS, RPS, IRQ affinity).",
    suggests: &["channels.combined", "rps.all"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is_troubled() {
        return None;
    }
    case.sides().into_iter().rev().find_map(|side| {
        let cpu = side.cpu()?;
        let (number, busiest) = side.busiest()?;
        let others = cpu.per_cpu.len().checked_sub(1).filter(|others| *others > 0)?;
        let mean = (cpu.per_cpu.iter().map(|one| one.busy).sum::<f64>() - busiest.busy) / others as f64;
        let interrupts = busiest.softirq + busiest.irq;
        if busiest.busy < SATURATED || interrupts < 0.6 || mean > IDLE {
            return None;
        }
        let lost = [Stage::DriverRxRing, Stage::SoftirqBacklog, Stage::MacRxFifo]
            .into_iter()
            .filter_map(|stage| case.lost_at(stage))
            .filter(|_| side.end == case.receiver.end)
            .max_by(|a, b| a.part.total_cmp(&b.part));
        let sentence = format!(
            "The {}'s CPU {number} has no time left for taking packets in, while its other CPUs have.",
            side.end
        );
        let all = format!("0-{}", cpu.per_cpu.len() - 1);
        let mut finding = RULE
            .finds(case, Some(side.end), Sureness::Likely, lost.as_ref().map_or(busiest.busy, |at| at.part), sentence)
            .because(format!(
                "the {}'s CPU {number}: {} busy, {} in softirqs and {} in interrupts; the {others} others {} on average",
                side.end,
                percent(busiest.busy),
                percent(busiest.softirq),
                percent(busiest.irq),
                percent(mean)
            ))
            .because_of(lost.map(|at| at.evidence()))
            .wrong_if("It is wrong if packets are spread (the other CPUs' softirq time rises) and no more come through.")
            .explains(&["receive-ring", "softirq-backlog", "fifo-overrun", "time-squeeze", "receiver-cpu", "host-limits"]);
        if let Some(queues) = side.nic().and_then(|nic| nic.channels.get("combined"))
            && let Some(max) = queues.max.filter(|max| *max > queues.current)
        {
            let wanted = max.min(cpu.per_cpu.len() as u32);
            finding = finding.because(format!("it uses {} of {max} queues", queues.current));
            finding = finding.attempt(side.setting("channels.combined"), wanted.to_string(), case.metric());
        }
        Some(finding.attempt(side.setting("rps.all"), all, case.metric()))
    })
}
