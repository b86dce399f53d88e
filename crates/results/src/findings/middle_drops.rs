//! The machine in the middle dropped what it was to forward.
//! Knows at which stage; the ends' own stages are other rules'.

use linerate_path::budget::{DropCause, LossLine};
use linerate_path::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};
use crate::middle::sender_of;

pub(super) const RULE: Rule = Rule {
    name: "middle-drops",
    says: "The machine between the two ends (--middle) dropped packets: at its qdisc, a ring, its softirq backlog, in its stack, \
           or between its two interfaces.",
    rests_on: "The loss budget's lines of the middle: at least 5 % of what was lost at one stage of it, by its own counters; or \
               what came in by one interface and did not leave by the other, where no counter saw a drop.",
    source: "Linux Documentation/networking/statistics.rst; RFC 4293, section 3.2.3, the case diagram of forwarding.",
    suggests: &["qdisc", "queue_length", "ring.rx", "sysctl.net.core.netdev_max_backlog"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let (line, at) = case.lost_in_middle()?;
    let interface = line.interface.as_deref().map_or(String::new(), |name| format!(" ({name})"));
    let noun = case.noun();
    let sentence = format!("{} {noun} were dropped by the middle's {}{interface}.", at.packets, place(line));
    let finding = RULE
        .finds(case, None, case.sure_of(&at), at.part, sentence)
        .on_middle()
        .because(at.evidence())
        .because(case.of_loss(&at))
        .wrong_if("It is wrong if as many are lost over a cable from one end to the other, with nothing between.")
        .explains(&["lossy-path", "bottleneck", "unaccounted", "outage", "middle-cpu", "retransmission-timeout"]);
    Some(attempt(case, line, finding))
}

/// Where that is, behind "the middle's".
fn place(line: &LossLine) -> &'static str {
    match (line.cause, line.stage) {
        (Some(DropCause::NotForwarded), _) => "forwarding, between its two interfaces",
        (Some(DropCause::Neighbours), _) => "neighbour table, for want of an address",
        (Some(DropCause::Xdp), _) => "XDP program",
        (Some(DropCause::Ingress), _) => "ingress filter",
        (_, Stage::Qdisc) => "qdisc",
        (_, Stage::DriverTxRing) => "transmit ring",
        (_, Stage::MacTx) => "transmitting MAC",
        (_, Stage::Link) => "receiving MAC, damaged on the link",
        (_, Stage::MacRxFifo) => "receive FIFO",
        (_, Stage::DriverRxRing) => "receive ring",
        (_, Stage::SoftirqBacklog) => "softirq backlog",
        (_, Stage::ReceiverStack | Stage::SenderStack) => "IP",
        (_, other) => other.name(),
    }
}

/// What to change there.
fn attempt(case: &Case<'_>, line: &LossLine, finding: Finding) -> Finding {
    let Some(middle) = &case.record.middle else { return finding };
    let port = |end| middle.ports[end].nic.as_ref();
    let sender = sender_of(case.way);
    match line.stage {
        Stage::Qdisc if port(sender.other()).is_some_and(|nic| nic.rate_keeper().is_some()) => {
            finding.attempt("middle.qdisc", "default", case.metric())
        }
        Stage::Qdisc => {
            let length = port(sender.other()).and_then(|nic| nic.queue_length);
            let more = length.unwrap_or(1000).saturating_mul(10).max(1000);
            finding.attempt("middle.queue_length", more.to_string(), case.metric())
        }
        Stage::DriverRxRing => {
            let ring = port(sender).and_then(|nic| nic.rings.get("rx"));
            let most = ring.and_then(|ring| ring.max.filter(|max| *max > ring.current));
            match most {
                Some(most) => finding.attempt("middle.ring.rx", most.to_string(), case.metric()),
                None => finding,
            }
        }
        Stage::SoftirqBacklog => {
            let name = "net.core.netdev_max_backlog";
            let now = middle.machine.environment.sysctls.get(name).and_then(|text| text.trim().parse::<u64>().ok());
            let more = now.unwrap_or(1000).saturating_mul(10);
            finding.attempt(format!("middle.sysctl.{name}"), more.to_string(), case.metric())
        }
        _ => finding,
    }
}
