//! The sender's own queueing discipline drops.
//! Knows its kind and length.

use linerate_machine::setting::discipline::keeps_to_a_rate;
use linerate_path::stage::Stage;

use super::case::Case;
use super::refused::RefusedFrames;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "qdisc-drops",
    says: "The sender's queueing discipline drops: it holds less than the sender puts into it, or shapes to a lower rate.",
    rests_on: "A loss of at least 10 packets, and 5 % of what was lost (or of the segments that TCP retransmitted; where it retransmitted next to none, 0.1 % of those it sent), at \
               the stage qdisc. Of frames, which a sender tries again \
               when they are refused: a discipline that keeps to no rate and refused them in number, and less came through than was \
               asked. Which discipline it is says the name of the counter: that of a port of a bridge, or of an interface below, is \
               none that a setting changes.",
    source: "tc(8); Linux net/sched (a root discipline's qstats drops).",
    suggests: &["qdisc", "queue_length"],
    find,
};

/// Frames that it refused, which are none of those lost.
fn find_refused(case: &Case<'_>) -> Option<Finding> {
    let refused = RefusedFrames::of(case).filter(|refused| refused.by_qdisc > refused.by_link)?;
    let side = case.sender;
    // One that keeps to a rate is the shaper.
    if side.held_at_egress().is_some() || case.loss().is_some() || !case.asked_bps()?.is_finite() {
        return None;
    }
    let short = case.short()?;
    let kind = side.nic().and_then(|nic| nic.qdisc.as_deref());
    let sentence = format!("The {}'s own transmit queue takes no more frames than leave it.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, refused.ratio() * 0.9, sentence)
            .because(refused.clause())
            .because_of(kind.map(|kind| format!("the discipline is {kind}")))
            .because(short)
            .attempt(side.setting("qdisc"), "default", "throughput")
            .wrong_if("It is wrong if no more is sent without it: then the link below it is what takes no more.")
            .explains(&["host-limits", "sender-starved"]),
    )
}

fn find(case: &Case<'_>) -> Option<Finding> {
    let Some(at) = case.lost_at(Stage::Qdisc) else { return find_refused(case) };
    let side = case.sender;
    let nic = side.nic();
    // One that stands on another interface, a bridge or a VLAN's, has no queue of its own.
    let counted = at.device_and_kind();
    let below = counted.filter(|(device, _)| nic.is_some_and(|nic| nic.name != *device));
    // The environment has the discipline of the beginning; it may have been exchanged since.
    let kind = counted.map(|(_, kind)| kind);
    let shaper = kind.filter(|kind| keeps_to_a_rate(kind));
    let shaper = shaper.or_else(|| nic.filter(|_| below.is_none()).and_then(|nic| nic.rate_keeper()));
    let kind = shaper.or(kind).or(nic.and_then(|nic| nic.qdisc.as_deref()));
    let length = nic.and_then(|nic| nic.queue_length).filter(|_| below.is_none());
    let shapes = shaper.is_some();
    let through = |device: &str| format!("{device}, by which {} sends,", nic.map_or("", |nic| nic.name.as_str()));
    let sentence = match (shapes, below) {
        (true, None) => format!("The {}'s own queueing discipline shapes what it sends, and drops the rest.", side.end),
        (false, None) => format!("The {}'s own transmit queue ran full.", side.end),
        (true, Some((device, _))) => {
            format!("The {}'s {} shapes what it sends, and drops the rest.", side.end, through(device))
        }
        (false, Some((device, _))) => format!("The transmit queue of the {}'s {} ran full.", side.end, through(device)),
    };
    let finding = RULE
        .finds(case, Some(side.end), case.sure_of(&at), at.part, sentence)
        .because(at.evidence())
        .because_of(case.slowed().map(|(clause, _)| clause))
        .because(case.of_loss(&at))
        .because_of(kind.map(|kind| format!("the discipline is {kind}")))
        .because_of(length.filter(|_| !shapes).map(|length| format!("the queue holds {length} packets")))
        .wrong_if("It is wrong if the discipline's drops go on as they are after the change.");
    Some(match (shapes, below) {
        // What can be set is set at the interface that has the address.
        (_, Some((device, _))) => finding.wrong_if(format!(
            "It is wrong if as many are lost without it (tc qdisc replace dev {device} root pfifo limit 10000)."
        )),
        (true, None) => finding.attempt(side.setting("qdisc"), "default", case.metric()),
        (false, None) => {
            let more = length.unwrap_or(1000).saturating_mul(10).max(1000);
            finding.attempt(side.setting("queue_length"), more.to_string(), case.metric())
        }
    })
}
