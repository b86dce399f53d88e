//! Frames arrived damaged: the cable, its plugs, or a PHY. Or the receiving MAC found them wrong in another way, or nobody but the
//! trial, by their length.
//! Knows the CRC counters; a duplex mismatch, which damages frames too, is another rule.

use linerate_path::budget::DropCause;
use linerate_path::stage::Stage;

use super::case::Case;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "link-damage",
    says: "Frames arrive damaged over the cable, or the receiving MAC takes them for wrong: too long, too short, \
           faulty. Or they come, and not as long as they were sent.",
    rests_on: "A loss of at least 10 frames, and 5 % of what was lost, at the stage link, by CRC and alignment errors; \
               or at the stage MAC RX FIFO, by length and other errors (likely); or at the receiver application, by frames of \
               the trial that have another length (sure).",
    source: "Linux Documentation/networking/statistics.rst, rx_crc_errors, rx_frame_errors, rx_length_errors and \
             rx_errors.",
    suggests: &["speed"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    damaged(case).or_else(|| refused(case)).or_else(|| altered(case))
}

/// What the MAC took for whole, and is of another length than was sent.
fn altered(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_by(Stage::ReceiverApplication, |line| line.cause == Some(DropCause::Altered))?;
    let end = case.receiver.end;
    let sentence = format!(
        "Frames reach the {end} longer or shorter than they were sent: a driver, its DMA or a device on the way cuts or pads them."
    );
    Some(
        RULE.finds(case, None, Sureness::Sure, at.part, sentence)
            .because(at.evidence())
            .because(case.of_loss(&at))
            .wrong_if("It is wrong if tcpdump -e at both ends sees these frames with one length."),
    )
}

/// The MAC threw away what no CRC showed to be damaged.
fn refused(case: &Case<'_>) -> Option<Finding> {
    let is_wrong = |cause| matches!(cause, Some(DropCause::Length | DropCause::OtherErrors));
    let at = case.lost_by(Stage::MacRxFifo, |line| is_wrong(line.cause))?;
    let end = case.receiver.end;
    let sentence = format!("The {end}'s MAC threw frames away that it took for too long, too short or faulty.");
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, at.part, sentence)
            .because(at.evidence())
            .because(case.of_loss(&at))
            .wrong_if("It is wrong if smaller frames without VLAN tags (message_size=1000) are thrown away as often."),
    )
}

fn damaged(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_at(Stage::Link)?;
    let end = case.receiver.end;
    let speed = case.receiver.nic().and_then(|nic| nic.speed_mbps);
    let sentence = format!("Frames reach the {end} damaged: the cable, a plug or a PHY.");
    let mut finding = RULE
        .finds(case, None, case.sure_of(&at), at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(&at))
        .because_of(speed.map(|mbit| format!("the link runs at {mbit} Mbit/s")))
        .wrong_if("It is wrong if another cable, and another port, damage as many.");
    // What a bad pair of a cable spoils at 1000BASE-T, 100BASE-TX may not need.
    if speed == Some(1000) {
        finding = finding.attempt(case.receiver.setting("speed"), "100", "loss");
    }
    Some(finding)
}
