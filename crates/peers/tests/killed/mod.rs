//! What a client leaves that was killed a second and a half after it was started.

use linerate_peers::served_test::ServedTest;

/// It has figures of as much time, marked.
#[track_caller]
pub fn check(mode: &str, served: &ServedTest) {
    let ended = served.ended.as_ref().map(|outcomes| outcomes.as_ref());
    let Ok([ours, _]) = ended else { panic!("{mode}: {ended:?}") };
    let [octets, ns] = [
        ours.flows.iter().map(|flow| flow.octets).sum::<u64>(),
        ours.flows.iter().map(|flow| flow.elapsed_ns).max().unwrap_or(0),
    ];
    assert!(ours.ended_early && octets > 100_000, "{mode}: {octets}");
    assert!((0.8..2.5).contains(&(ns as f64 / 1e9)), "{mode}: {ns}");
}
