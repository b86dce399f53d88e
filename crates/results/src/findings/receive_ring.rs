//! The receive ring had no free descriptor, or the driver threw packets away.
//! Knows the ring's length; why it was not emptied in time is for rules about CPUs.

use linerate_trial::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "receive-ring",
    says: "The receive ring ran full: it is too short for how late the CPU comes to empty it.",
    rests_on: "A loss of at least 10 frames, and 5 % of what was lost (or of the segments that TCP sent again), at the stage \
               driver RX ring, and the ring's length.",
    source: "Linux Documentation/networking/statistics.rst, rx_missed_errors; ethtool(8), --show-ring.",
    suggests: &["ring.rx", "coalesce.rx_usecs"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_at(Stage::DriverRxRing)?;
    let side = case.receiver;
    let ring = side.nic().and_then(|nic| nic.rings.get("rx"));
    let waits = side.nic().and_then(|nic| nic.coalescing.get("rx-usecs").copied());
    let sentence = format!("The {}'s receive ring ran full.", side.end);
    let mut finding = RULE
        .finds(case, Some(side.end), case.sure_of_drops(), at.part, sentence)
        .because(at.evidence.clone())
        .because(case.of_loss(&at))
        .wrong_if("It is wrong if as many are lost with a longer ring: then the CPU cannot take in what comes, ever.");
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
