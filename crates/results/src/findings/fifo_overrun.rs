//! The receiving MAC's FIFO overran: the bus, or the driver, did not empty it in time.
//! Knows pause frames, which would have held the sender back.

use linerate_path::budget::DropCause;
use linerate_path::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "fifo-overrun",
    says: "The receiving MAC's FIFO overran; and whether pause frames, which hold the sender back, were off at either end or \
           not agreed on.",
    rests_on: "A loss of at least 10 frames, and 5 % of what was lost (or of the segments that TCP retransmitted), at the stage \
               MAC RX FIFO, by the counters that the loss budget names.",
    source: "IEEE 802.3, annex 31B (pause) and clause 28B (its negotiation); Linux Documentation/networking/statistics.rst, \
             rx_fifo_errors and rx_over_errors.",
    suggests: &["pause.tx", "pause.rx"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    // A frame of a wrong length is no overrun; what the counters are called is the drivers' affair.
    let at = case.lost_by(Stage::MacRxFifo, |line| line.cause == Some(DropCause::Fifo))?;
    let (sender, receiver) = (case.sender, case.receiver);
    let of = |side: super::case::Side<'_>| side.nic().and_then(|nic| nic.pause);
    let (sends, obeys) = (of(receiver).and_then(|pause| pause.tx), of(sender).and_then(|pause| pause.rx));
    let partner = receiver.nic().and_then(|nic| nic.link_modes.as_ref()).map(|modes| &modes.partner);
    let not_agreed = partner
        .is_some_and(|modes| !modes.is_empty() && !modes.iter().any(|mode| mode == "Pause" || mode == "Asym_Pause"));
    let word = |on: Option<bool>| on.map_or("unknown", |on| if on { "on" } else { "off" });
    let off = sends == Some(false) || obeys == Some(false) || not_agreed;
    let sentence = format!(
        "The {}'s receive FIFO overran, and {}.",
        receiver.end,
        match (off, sends.is_some() && obeys.is_some()) {
            (true, _) => "pause frames, which would hold the sender back, were off",
            (false, true) => "pause frames did not prevent it",
            (false, false) => "whether pause frames were on is not known",
        }
    );
    let mut finding = RULE
        .finds(case, Some(receiver.end), case.sure_of(&at), at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(&at))
        .because(format!(
            "pause frames: the {} sends them: {}; the {} obeys them: {}{}",
            receiver.end,
            word(sends),
            sender.end,
            word(obeys),
            if not_agreed { "; the other end of the cable offers none" } else { "" }
        ))
        .wrong_if("It is wrong if the FIFO overruns as often with pause frames on at both ends, and sent (counter pause tx_frames).");
    // One that is on is not to be turned on; of two that are off, the one that sends comes first.
    for (side, on, name) in [(receiver, sends, "pause.tx"), (sender, obeys, "pause.rx")] {
        if on != Some(true) || not_agreed {
            finding = finding.attempt(side.setting(name), "on", case.metric());
        }
    }
    Some(finding)
}
