//! Datagrams that travel as fragments do not come through, and whole packets do.
//! Knows sizes, links' MTUs, and what was tried right after.

use linerate_machine::probe::Protocol;
use linerate_path::budget::{DropCause, LossLine};
use linerate_path::stage::Stage;
use linerate_trial::spec::Workload;

use super::case::{Case, percent};
use super::unaccounted::Missing;
use super::{Finding, Rule, Sureness};
use crate::examination::{Passed, Probe, StepResult};

/// From this share of them on they do not come through.
const ALL: f64 = 0.9;

pub(super) const RULE: Rule = Rule {
    name: "fragments",
    says: "Datagrams larger than the MTU travel as fragments, and hardly any comes through, while whole packets do: something on the way \
           drops fragments.",
    rests_on: "At least 90 % of the datagrams, or requests, lost that need fragments at the sender's link, unaccounted for, or taken by the receiver's stack and delivered to nobody; and the \
               examination right after, whose datagrams in whole packets were answered.",
    source: "RFC 8900 (IP fragmentation considered fragile), section 3.",
    suggests: &["message_size"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let asked = case.asked.as_ref()?;
    let message = match case.record.workload {
        Workload::UdpStream => asked.message_octets(),
        Workload::UdpRr => asked.request_size.max(asked.response_size),
        _ => return None,
    };
    let headers = case.ip_version().udp_headers();
    let mtu = case.sender.nic()?.mtu?;
    if message.saturating_add(headers) <= mtu || mtu <= headers {
        return None;
    }
    let loss = case.loss().filter(|loss| loss.ratio >= ALL)?;
    let by_filter = |line: &LossLine| line.cause == Some(DropCause::Undelivered);
    let (place, evidence) = match Missing::of(case) {
        Some(missing) if missing.is_between() => (format!(" {}", missing.links), missing.evidence(case).to_vec()),
        Some(missing) => (String::new(), missing.evidence(case).to_vec()),
        None => {
            let filtered = case.lost_by(Stage::ReceiverStack, by_filter).filter(|at| at.part >= ALL)?;
            let place = format!(" in the {}'s stack, by a packet filter for all that shows", case.receiver.end);
            (place, vec![filtered.evidence()])
        }
    };
    let answered = |step: &&crate::examination::Step| {
        let is_udp =
            matches!(step.probe, Probe::Transport { transport: Protocol::Udp, asker } if asker == case.sender.end);
        is_udp && matches!(step.came, StepResult::Passed(Passed::Answered { .. }))
    };
    case.record.examination.as_ref()?.steps.iter().find(answered)?;
    let fragments = case.ip_version().fragments(message.saturating_add(8), mtu)?;
    let sentence = format!(
        "Fragments are dropped{place}: {} of {message} bytes travel as {fragments} fragments each, and do not come through, while whole packets \
         do.",
        case.noun()
    );
    let finding = RULE
        .finds(case, None, Sureness::Likely, 1.0, sentence)
        .because(format!("{} of them were lost", percent(loss.ratio)))
        .because(format!("the {}'s link takes packets of {mtu} bytes", case.sender.end))
        .because("datagrams in whole packets were answered right after".to_owned())
        .because_of(evidence)
        .wrong_if("It is wrong if as many are lost where each fits into a packet.")
        .explains(&["lossy-path", "unaccounted", "bottleneck", "dead-flows", "stack-drops"]);
    Some(match case.record.workload {
        Workload::UdpStream => finding.attempt("message_size", (mtu - headers).to_string(), "loss"),
        _ => finding,
    })
}
