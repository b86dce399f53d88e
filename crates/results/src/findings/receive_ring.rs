//! The receive ring had no free descriptor, the driver threw packets away, or the queue that packets are redirected to was full.
//! Knows the ring's length; why it was not emptied in time is for rules about CPUs.

use linerate_machine::setting::discipline::keeps_to_a_rate;
use linerate_path::budget::{DropCause, LossLine};
use linerate_path::stage::Stage;

use super::case::{Case, LostAt};
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "receive-ring",
    says: "The receive ring ran full: it is too short for how late the CPU comes to empty it. Or the queue that packets are redirected \
           to on the way in (an ifb) did.",
    rests_on: "A loss of at least 10 frames, and 5 % of what was lost (or of the segments that TCP retransmitted), at the stage \
               driver RX ring, and the ring's length. Only possible where nothing but rx_dropped says so: a driver counts there \
               what it had no memory for, and what it did not want.",
    source: "Linux Documentation/networking/statistics.rst, rx_missed_errors; ethtool(8), --show-ring.",
    suggests: &["ring.rx", "coalesce.rx_usecs"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let is_of_interface = |line: &LossLine| line.cause == Some(DropCause::DriverDrops);
    let is_of_ring = |line: &LossLine| !is_of_interface(line) && line.cause != Some(DropCause::Xdp);
    let of_ring = case.lost_by(Stage::DriverRxRing, is_of_ring);
    let is_sure = of_ring.is_some();
    let at = of_ring.or_else(|| case.lost_by(Stage::DriverRxRing, is_of_interface))?;
    let side = case.receiver;
    if at.any(|line| line.cause == Some(DropCause::RedirectQueue)) {
        return find_redirected(case, &at);
    }
    let ring = side.nic().and_then(|nic| nic.rings.get("rx"));
    let waits = side.nic().and_then(|nic| nic.coalescing.get("rx-usecs").copied());
    let (sure, sentence) = match is_sure {
        true => (case.sure_of(&at), format!("The {}'s receive ring ran full.", side.end)),
        false => (
            Sureness::Possible,
            format!(
                "The {}'s interface dropped what came: a full ring, or frames that its driver did not want.",
                side.end
            ),
        ),
    };
    let is_longest = ring.is_some_and(|ring| ring.max.is_some_and(|max| max <= ring.current));
    let mut finding = RULE
        .finds(case, Some(side.end), sure, at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(&at))
        .wrong_if(if is_longest {
            "It is wrong if as many are lost at a tenth of the load: then it is no full ring that drops them."
        } else {
            "It is wrong if as many are lost with a longer ring: then the CPU cannot take in what comes, ever."
        });
    if let Some(ring) = ring {
        let of = ring.max.map_or(String::new(), |max| format!(" of at most {max}"));
        finding = finding.because(format!("the ring has {} descriptors{of}", ring.current));
        if let Some(max) = ring.max.filter(|max| *max > ring.current) {
            finding = finding.attempt(side.setting("ring.rx"), max.to_string(), case.metric());
        }
    } else {
        finding = finding.because("how long the ring is, its driver does not tell");
    }
    if let Some(waits) = waits.filter(|waits| *waits >= 50) {
        finding = finding.because(format!("a frame may wait {waits} µs for its interrupt"));
        finding = finding.attempt(side.setting("coalesce.rx_usecs"), (waits / 4).to_string(), case.metric());
    }
    Some(finding)
}

/// Shaping what comes in (tc-mirred(8), an ifb) is done so; a lab's boards have their short receive queues in it.
fn find_redirected(case: &Case<'_>, at: &LostAt<'_>) -> Option<Finding> {
    let (side, (device, kind)) = (case.receiver, at.device_and_kind()?);
    let shapes = keeps_to_a_rate(kind);
    let what = if shapes { "keeps to a rate, and drops the rest" } else { "ran full" };
    let sentence = format!("The {}'s {kind} at {device}, by which it takes packets in, {what}.", side.end);
    let nic = side.nic().map_or("the interface", |nic| &nic.name);
    let finding = RULE
        .finds(case, Some(side.end), case.sure_of(at), at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(at))
        .wrong_if(format!("It is wrong if as many are lost without it (tc qdisc del dev {nic} ingress)."));
    // What TCP's queue stands in is this one.
    Some(if shapes { finding.explains(&["bottleneck"]) } else { finding })
}
