//! Frames arrived damaged: the cable, its plugs, or a PHY.
//! Knows the CRC counters; a duplex mismatch, which damages frames too, is another rule.

use linerate_trial::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "link-damage",
    says: "Frames arrive damaged over the cable.",
    rests_on: "A loss of at least 10 frames, and 5 % of what was lost, at the stage link, by CRC and alignment errors.",
    source: "Linux Documentation/networking/statistics.rst, rx_crc_errors and rx_frame_errors.",
    suggests: &["speed"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_at(Stage::Link)?;
    let end = case.receiver.end;
    let speed = case.receiver.nic().and_then(|nic| nic.speed_mbps);
    let sentence = format!("Frames reach the {end} damaged: the cable, a plug or a PHY.");
    let mut finding = RULE
        .finds(case, None, case.sure_of_drops(), at.part, sentence)
        .because(at.evidence.clone())
        .because(case.of_loss(&at))
        .because_of(speed.map(|mbit| format!("the link runs at {mbit} Mbit/s")))
        .wrong_if("It is wrong if another cable, and another port, damage as many.");
    // What a bad pair of a cable spoils at 1000BASE-T, 100BASE-TX may not need.
    if speed == Some(1000) {
        finding = finding.attempt(case.receiver.setting("speed"), "100", "loss");
    }
    Some(finding)
}
