//! What is known of the far end of a test whose protocol tells nothing of it.
//! Knows no protocol.

use linerate_trial::arrivals::MOST_DATAGRAMS;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{Acknowledged, FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Spec, Workload};

/// What the far end of flows saw, as far as this end's account of them tells. TCP loses nothing: what one end read until
/// the stream ended the other has written, and what one end wrote the other has read once its kernel has acknowledged it. Of a datagram
/// that was sent nothing is known, unless there is a report.
pub fn remote_end(spec: &Spec, ours: &Outcome) -> Outcome {
    let far = ours.end.other();
    let flows = Flow::of(spec).into_iter().filter_map(|flow| {
        let near = ours.flows.iter().find(|one| one.id == flow.id)?;
        remote_flow(flow, near)
    });
    Outcome::of_flows(far, flows.collect())
}

/// Of datagrams that do not tell when they left there is no jitter.
pub fn forget_jitter(ours: &mut Outcome) {
    for arrivals in ours.flows.iter_mut().filter_map(|flow| flow.arrivals.as_mut()) {
        arrivals.jitter_s = None;
    }
}

fn remote_flow(flow: Flow, near: &FlowOutcome) -> Option<FlowOutcome> {
    let role = match near.role {
        Role::Sender => Role::Receiver,
        Role::Receiver => Role::Sender,
        Role::Requester => Role::Responder,
        Role::Responder => Role::Requester,
    };
    let mut far = FlowOutcome::new(flow.id, role);
    far.elapsed_ns = near.elapsed_ns;
    match (&near.arrivals, flow.workload) {
        (Some(arrivals), _) if arrivals.unnumbered && arrivals.sent_by_end_mark.is_none() => return None,
        (Some(arrivals), _) => {
            // A stranger's number may be any.
            let sent = arrivals.sent_by_end_mark.unwrap_or(arrivals.received_total + arrivals.missing());
            far.messages_total = sent.min(MOST_DATAGRAMS);
            // Without a warm-up all of it is measured; with one, what is missing is taken to be of the measured part.
            far.messages = far.messages_total - (arrivals.received_total - arrivals.received).min(far.messages_total);
            let size = near.octets.checked_div(near.messages).unwrap_or(0);
            (far.octets, far.octets_total) = (far.messages * size, far.messages_total * size);
        }
        (None, Workload::UdpStream) => return None,
        (None, Workload::TcpStream) => {
            (far.octets, far.octets_total) = (near.octets, near.octets_total);
            // When a sender's time is over, its last octets are still in its socket, or on their way.
            if let Some(Acknowledged { octets, elapsed_ns }) = near.acknowledged {
                far.octets_total = far.octets_total.saturating_sub(near.octets.saturating_sub(octets));
                (far.octets, far.elapsed_ns) = (octets, elapsed_ns);
            }
        }
        (None, _) => {
            (far.octets, far.octets_total) = (near.octets, near.octets_total);
            (far.messages, far.messages_total) = (near.messages, near.messages_total);
        }
    }
    Some(far)
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::End;
    use linerate_trial::arrivals::Arrivals;

    use super::*;

    #[test]
    fn a_number_that_no_sender_reaches_is_no_sum_that_overflows() {
        // Was found by the fuzzer: a server's last datagram of the number 2^63 - 1.
        let mut near = FlowOutcome::new(0, Role::Receiver);
        (near.messages, near.messages_total, near.octets) = (1, 1, 1470);
        for sent_by_end_mark in [None, Some(u64::MAX)] {
            let loss_bursts = [(1 << 62, 1), (u64::MAX, 9)].into();
            let arrivals =
                Arrivals { received: 1, received_total: 1, sent_by_end_mark, loss_bursts, ..Arrivals::default() };
            near.arrivals = Some(arrivals);
            let spec = Spec { direction: linerate_machine::end::Direction::Tx, ..Spec::new(Workload::UdpStream) };
            let far = remote_end(&spec, &Outcome::of_flows(End::Host, vec![near.clone()]));
            assert!(far.flows[0].octets <= 1470 * MOST_DATAGRAMS && far.flows[0].messages > 1);
        }
    }
}
