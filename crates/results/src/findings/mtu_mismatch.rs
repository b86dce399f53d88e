//! The two ends have different MTUs, and the larger one's packets do not fit the other.
//! Knows nothing of routers in between, whose MTU nobody tells.

use linerate_trial::spec::Workload;

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "mtu-mismatch",
    says: "The receiver's MTU is smaller than the packets that the sender makes by its own, so they are thrown away.",
    rests_on: "Both interfaces' MTUs; a UDP datagram or a request, with headers, that is larger than the receiver's; and at \
               least half of the datagrams lost, or a trial that failed, for which it is a possible reason.",
    source: "RFC 791, section 3.2: a host need not accept what is larger than it says. Linux drops what is longer than the \
             MTU of a veth (net/core/dev.c, is_skb_forwardable); MACs count it as too long.",
    suggests: &["mtu"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let mtu = |side: super::case::Side<'_>| side.nic()?.mtu;
    let (sends, takes) = (mtu(case.sender)?, mtu(case.receiver)?);
    let payload = match case.record.workload {
        Workload::UdpStream => case.message_size()?,
        Workload::UdpRr => case.asked.as_ref()?.request_size.into(),
        // The two ends of TCP tell each other what they take (RFC 9293, section 3.7.1).
        _ => return None,
    };
    let largest = (payload + 28).min(sends.into());
    let ratio = match &case.record.error {
        Some(_) => 1.0,
        None => case.loss()?.ratio,
    };
    if sends <= takes || largest <= takes.into() || ratio < 0.5 {
        return None;
    }
    // A trial may fail for any reason.
    let sure = match &case.record.error {
        Some(_) => Sureness::Possible,
        None if ratio > 0.99 => Sureness::Sure,
        None => Sureness::Likely,
    };
    let (sender, receiver) = (case.sender.end, case.receiver.end);
    let sentence =
        format!("Packets are too large for the {receiver}: its MTU is {takes}, and the {sender}'s is {sends}.");
    let suggested = case.receiver.setting("mtu");
    Some(
        RULE.finds(case, Some(receiver), sure, ratio, sentence)
            .because(format!("the {sender} sends packets of {largest} bytes, the {receiver} takes {takes}"))
            .because(match &case.record.error {
                Some(_) => "the trial failed, as one would whose data is thrown away".to_owned(),
                None => format!("{} of the datagrams were lost", percent(ratio)),
            })
            .attempt(suggested, sends.to_string(), "loss")
            .wrong_if(format!(
                "It is wrong if as many are lost with message_size={}.",
                u64::from(takes).saturating_sub(28)
            ))
            .explains(&["receive-ring", "transmit-ring", "unaccounted", "fifo-overrun", "stack-drops"]),
    )
}
