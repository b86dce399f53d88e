//! Pause frames hold a sender back: loss turned into slowness.
//! Knows no counter; the drivers' tables say which count pause frames, and the time that they cost.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// A pause frame stops a sender for up to 65,535 times 512 bit times, 33 ms at 1 Gbit/s: ten a second can stop it for a
/// third of the time.
const A_SECOND: f64 = 10.0;
/// Of a sender's time, where its MAC tells how long it stood still.
const STALLED: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    name: "pause-storm",
    says: "Pause frames stop the sender: the receiver cannot take in what comes, and says so instead of losing it.",
    rests_on: "At least 10 pause frames a second, received by the sender's MAC or sent by the receiver's, or a tenth of the time \
               that the sender's MAC stood still for them (then it is sure), and a trial that came short of what was asked or \
               of the link. Which counters these are is in the drivers' tables.",
    source: "IEEE 802.3, annex 31B.2 (pause_time in units of 512 bit times).",
    suggests: &["pause.rx"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let (sender, receiver) = (case.sender, case.receiver);
    let heard = sender.pause().and_then(|pause| Some((pause.received?, sender.end, pause)));
    let said = receiver.pause().and_then(|pause| Some((pause.sent?, receiver.end, pause)));
    let (frames, end, pause) = [heard, said].into_iter().flatten().max_by_key(|(frames, ..)| *frames)?;
    let seconds = case.whole_s()?;
    let a_second = frames as f64 / seconds;
    let stalled = sender.pause().and_then(|pause| pause.stalled_s).map_or(0.0, |stalled_s| stalled_s / seconds);
    if a_second < A_SECOND && stalled < STALLED {
        return None;
    }
    let evidence = pause.evidence();
    let sure = if stalled >= STALLED { Sureness::Sure } else { Sureness::Likely };
    let sentence = format!("Pause frames from the {} hold the {} back.", receiver.end, sender.end);
    let most_s = case.link_bps().map(|bps| 65_535.0 * 512.0 / bps);
    Some(
        RULE.finds(case, Some(receiver.end), sure, stalled.max(a_second / 100.0).min(1.0), sentence)
            .because(format!("{end}: {evidence}; {} pause frames a second", tidy(a_second)))
            .because_of(
                (stalled > 0.0).then(|| format!("the {} stood still {} of the time", sender.end, percent(stalled))),
            )
            .because_of(most_s.map(|s| format!("each may stop the sender for up to {} ms", tidy(s * 1e3))))
            .because(short)
            .attempt(sender.setting("pause.rx"), "off", "throughput")
            .wrong_if("It is wrong if, with pause frames ignored, no more comes through and nothing is lost.")
            .explains(&["receive-window", "sender-cpu", "host-limits"]),
    )
}
