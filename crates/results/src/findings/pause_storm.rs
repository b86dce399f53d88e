//! Pause frames hold a sender back: loss turned into slowness.
//! Knows the standard pause counters, and those of drivers that have their own.

use linerate_trial::flow::End;

use super::case::{Case, Side, tidy};
use super::{Finding, Rule, Sureness};

/// A pause frame stops a sender for up to 65,535 times 512 bit times, 33 ms at 1 Gbit/s: ten a second can stop it for a
/// third of the time.
const A_SECOND: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    name: "pause-storm",
    says: "Pause frames stop the sender: the receiver cannot take in what comes, and says so instead of losing it.",
    rests_on: "At least 10 pause frames a second, received by the sender's MAC or sent by the receiver's, and a trial that came \
               short of what was asked or of the link.",
    source: "IEEE 802.3, annex 31B.2 (pause_time in units of 512 bit times).",
    suggests: &["pause.rx"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let (name, end, frames) = pauses(case)?;
    let a_second = frames as f64 / case.whole_s()?;
    if a_second < A_SECOND {
        return None;
    }
    let (sender, receiver) = (case.sender, case.receiver);
    let sentence = format!("Pause frames from the {} hold the {} back.", receiver.end, sender.end);
    let most_s = case.link_bps().map(|bps| 65_535.0 * 512.0 / bps);
    Some(
        RULE.finds(case, Some(receiver.end), Sureness::Likely, (a_second / 100.0).min(1.0), sentence)
            .because(format!("{end}: {name} {frames}, {} a second", tidy(a_second)))
            .because_of(most_s.map(|s| format!("each may stop the sender for up to {} ms", tidy(s * 1e3))))
            .because(short)
            .attempt(sender.setting("pause.rx"), "off", "throughput")
            .wrong_if("It is wrong if, with pause frames ignored, no more comes through and nothing is lost.")
            .explains(&["receive-window", "sender-cpu", "host-limits"]),
    )
}

/// The kernel's standard names, and those of the statistics of drivers that have their own.
const RECEIVED: [&str; 6] = [
    "pause rx_frames",
    "driver IEEE_rx_fdxfc",
    "driver rx_pause_frames",
    "driver rx_flow_control_xoff",
    "driver mmc_rx_pause_frame",
    "driver rx_pause",
];
const SENT: [&str; 6] = [
    "pause tx_frames",
    "driver IEEE_tx_fdxfc",
    "driver tx_pause_frames",
    "driver tx_flow_control_xoff",
    "driver mmc_tx_pause_frame",
    "driver tx_pause",
];

/// The largest counter of pause frames that stop the sender: its name, whose it is, its growth.
fn pauses<'a>(case: &Case<'a>) -> Option<(&'a str, End, u64)> {
    let at = |side: Side<'a>, names: [&str; 6]| {
        side.largest(|name| names.contains(&name)).map(|(name, frames)| (name, side.end, frames))
    };
    let both = [at(case.sender, RECEIVED), at(case.receiver, SENT)];
    both.into_iter().flatten().max_by_key(|(_, _, frames)| *frames)
}
