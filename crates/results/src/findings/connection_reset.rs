//! A connection was reset, and the other end sent no RST.
//! Knows what each machine's TCP counted; who is between nobody tells.

use linerate_machine::end::Direction;
use linerate_trial::event::EventKind;

use super::case::Case;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "connection-reset",
    says: "A connection was reset in mid-trial, and the other end sent no RST: something between the two did, such as a firewall, a NAT \
           or a middlebox.",
    rests_on: "A trial over TCP that failed, the event connection-reset of one end, and the counters of the other: segments went out, \
               and Tcp OutRsts did not move. A packet filter of an end that rejects with a RST does not count it there either.",
    source: "RFC 9293, section 3.10.7 (when an end sends a RST); RFC 3360 (resets from between); Linux net/ipv4/tcp_ipv4.c, \
             tcp_v4_send_reset, and tcp_output.c, tcp_send_active_reset (OutRsts).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    case.record.error.as_ref()?;
    let both = case.record.direction == Direction::Both;
    case.events().filter(|event| event.what == EventKind::ConnectionReset).find_map(|event| {
        let end = event.end?;
        let other = case.sides().into_iter().find(|side| side.end != end)?;
        // Of both directions one tells it.
        let is_here = !both || case.receiver.end == end;
        let sent = other.counter("Tcp OutSegs").filter(|sent| *sent > 0 && is_here)?;
        if other.counter("Tcp OutRsts").unwrap_or(0) > 0 {
            return None;
        }
        let other = other.end;
        let sentence = format!(
            "Something between the two ends broke off the connection: a RST came to the {end}, and the {other} sent none; a firewall, \
             a NAT or a middlebox makes such."
        );
        Some(
            RULE.finds(case, None, Sureness::Likely, 1.0, sentence)
                .because(event.to_string())
                .because(format!("{other}: Tcp OutSegs {sent}, OutRsts 0"))
                .wrong_if(format!(
                    "It is wrong if a packet filter of the {end} or of the {other} rejects with a RST (nft list ruleset there)."
                ))
                .explains(&["flow-died", "outage", "mtu-mismatch"]),
        )
    })
}
