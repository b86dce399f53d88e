//! The two ends have different MTUs, and the larger one's packets do not fit the other.
//! Of a router in between it knows that it makes packets fit, and not what its links take.

use linerate_path::stage::Stage;
use linerate_trial::spec::Workload;
use linerate_trial::wire::EthernetOverhead;
use linerate_trial::wire::frame::TAG_LEN;

use super::case::{Case, percent};
use super::refused::RefusedFrames;
use super::{Finding, Rule, Sureness};
use crate::examination::is_routed;

pub(super) const RULE: Rule = Rule {
    name: "mtu-mismatch",
    says: "The receiver's MTU is smaller than the packets that the sender makes by its own, so they are thrown away.",
    rests_on: "Both interfaces' MTUs; a UDP datagram, a request or a frame, with headers, that is larger than the receiver's; and at \
               least half of the datagrams lost, or half of the tries to send a frame refused by the sender's link, or a trial that failed, for which it is a possible reason. \
               Where a router is between, only if the receiver's own interface counted drops.",
    source: "RFC 791, section 3.2: a host need not accept what is larger than it says. Linux drops what is longer than the \
             MTU of a veth (net/core/dev.c, is_skb_forwardable); MACs count it as too long.",
    suggests: &["mtu"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let mtu = |side: super::case::Side<'_>| side.nic()?.mtu;
    let (sends, takes) = (mtu(case.sender)?, mtu(case.receiver)?);
    let headers = u64::from(case.ip_version().udp_headers());
    let of_ip = |payload: u64| payload.saturating_add(headers).min(sends.into());
    let largest = match case.record.workload {
        Workload::UdpStream => of_ip(case.message_size()?),
        Workload::UdpRr => of_ip(case.asked.as_ref()?.request_size.into()),
        Workload::Frames => {
            let asked = case.asked.as_ref()?;
            let tags = (asked.vlan.0.count() * TAG_LEN) as u64;
            let around = EthernetOverhead::HEADER + EthernetOverhead::FCS + tags;
            u64::from(asked.frame_sizes().largest()).saturating_sub(around)
        }
        // The two ends of TCP tell each other what they take (RFC 9293, section 3.7.1).
        _ => return None,
    };
    let refused = RefusedFrames::of(case).filter(|refused| refused.by_link > refused.by_qdisc);
    let ratio = match (&case.record.error, &refused) {
        (Some(_), _) => 1.0,
        (None, Some(refused)) => refused.ratio(),
        (None, None) => case.loss()?.ratio,
    };
    if sends <= takes || largest <= takes.into() || ratio < 0.5 {
        return None;
    }
    // A router makes packets fit the link behind it, or says that they do not.
    let routed = case.record.examination.as_ref().is_some_and(|examination| is_routed(&examination.steps));
    if routed && case.dropped_between(Stage::Link, Stage::DriverRxRing) == 0 {
        return None;
    }
    // A trial may fail for any reason.
    let sure = match &case.record.error {
        Some(_) => Sureness::Possible,
        None if routed => Sureness::Likely,
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
            .because(match (&case.record.error, &refused) {
                (Some(_), _) => "the trial failed, as one would whose data is thrown away".to_owned(),
                (None, Some(refused)) => refused.clause(),
                (None, None) => format!("{} of the {} were lost", percent(ratio), case.noun()),
            })
            .attempt(suggested, sends.to_string(), if refused.is_some() { "throughput" } else { "loss" })
            .wrong_if(match case.is(Workload::Frames) {
                true => format!("It is wrong if as few arrive with frame_size={takes}."),
                false => format!(
                    "It is wrong if as many are lost with message_size={}.",
                    u64::from(takes).saturating_sub(headers)
                ),
            })
            .explains(&[
                "receive-ring",
                "transmit-ring",
                "unaccounted",
                "fifo-overrun",
                "stack-drops",
                "host-limits",
                "sender-starved",
            ]),
    )
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::End;

    use super::super::{cases, findings};
    use super::*;
    use crate::examination::{Examination, Passed, Probe, Step, StepResult};
    use crate::record::Record;

    #[test]
    fn behind_a_router_different_mtus_are_no_fault() {
        let all = cases::cases();
        let case = all.iter().find(|case| case.name == "MTU 1400 at the receiver").unwrap();
        let sure = |record: &Record| findings(record).into_iter().find(|one| one.name == RULE.name).map(|one| one.sure);
        assert_eq!(sure(&case.record), Some(Sureness::Sure));
        let mut routed = case.record.clone();
        let came = StepResult::Passed(Passed::Hops { routers: 1 });
        let steps = vec![Step { probe: Probe::Hops { from: End::Host }, came }];
        routed.examination = Some(Examination { seconds: 1.0, steps, cause: None });
        assert_eq!(sure(&routed), Some(Sureness::Likely), "its own interface counted drops");
        routed.target.counters.0.remove(&Stage::DriverRxRing);
        routed.loss_budget = Some(Vec::new());
        assert_eq!(sure(&routed), None);
    }
}
