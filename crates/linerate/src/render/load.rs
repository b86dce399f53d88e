//! A load as people say it: of datagrams the payload, of frames how many there are.

use linerate_results::search::SearchAsked;

use super::number::figure;

/// With its unit.
pub(super) fn load(asked: &SearchAsked, bps: f64) -> String {
    let mbit = format!("{} Mbit/s", figure(bps / 1e6, 4));
    match asked.packets_per_s(bps).filter(|_| asked.is_of_frames) {
        Some(frames) => format!("{} frames/s ({mbit})", figure(frames, frames_digits(frames))),
        None => mbit,
    }
}

/// Five digits, and none behind the point of what is counted.
pub(super) fn frames_digits(frames: f64) -> i32 {
    5.min(frames.max(1.0).log10() as i32 + 1)
}
