//! The time budget against what was planted: shapers, rates, windows whose share of the time is known by how they were made.
//! Knows no columns of slices.

use linerate_lab::Shape;
use linerate_results::record::Record;
use linerate_results::time_budget::Limit;

use super::rig::{Rig, is_crowded};

/// Offloads off, 50 Mbit/s from the target, which is what its own token bucket lets out.
fn shape() -> Shape {
    Shape { tx_rate_bps: Some(50_000_000), rx_rate_bps: None, segmentation_offload: false, ..Shape::modest_board() }
}

fn share(record: &Record, limits: &[Limit]) -> f64 {
    record.time_budget.iter().filter(|line| limits.contains(&line.limit)).map(|line| line.share).sum()
}

/// Of some trials the one in which the machine interfered least must have this share; each must account for all but 5 %.
#[track_caller]
fn check(rig: &Rig, workload: &str, options: &[(&str, &str)], limits: &[Limit], wants: std::ops::RangeInclusive<f64>) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let record = rig.trial(workload, options);
        assert!(!record.time_budget.is_empty());
        let sum: f64 = record.time_budget.iter().map(|line| line.share).sum();
        assert!((sum - 1.0).abs() < 0.01, "{:?}", record.time_budget);
        let got = share(&record, limits);
        println!("{workload} {options:?}: {limits:?} {got:.3}, {:?}", record.time_budget);
        seen.push((got, share(&record, &[Limit::Unaccounted])));
        if wants.contains(&got) {
            break;
        }
    }
    assert!(
        is_crowded() || seen.iter().any(|(got, _)| wants.contains(got)),
        "{limits:?}: {seen:?} and none in {wants:?}"
    );
    assert!(is_crowded() || seen.iter().any(|(_, rest)| *rest <= 0.05), "unaccounted: {seen:?}");
}

#[test]
fn a_shaper_at_the_sender_s_egress_has_the_time() {
    let Some(rig) = Rig::up("time_shaper", &shape()) else { return };
    let options = [("direction", "tx"), ("duration", "1s"), ("warmup", "500ms")];
    check(&rig, "tcp-stream", &options, &[Limit::Shaper], 0.95..=1.0);
    check(
        &rig,
        "udp-stream",
        &[options[0], options[1], options[2], ("rate", "unlimited")],
        &[Limit::Shaper],
        0.5..=1.0,
    );
}

#[test]
fn a_rate_that_is_reached_has_the_time() {
    let Some(rig) = Rig::up("time_rate", &shape()) else { return };
    for workload in ["tcp-stream", "udp-stream"] {
        let options = [("direction", "tx"), ("duration", "1s"), ("rate", "20M")];
        check(&rig, workload, &options, &[Limit::AskedRate], 0.95..=1.0);
    }
}

#[test]
fn a_small_window_has_the_time() {
    let Some(rig) = Rig::up("time_window", &Shape { tx_rate_bps: None, ..shape() }) else { return };
    // A buffer of 4 KiB holds two segments or so: one of the two ends' is always full.
    let options = [("direction", "tx"), ("duration", "1s"), ("socket_buffer", "4K")];
    let limits = [
        Limit::ReceiveWindow,
        Limit::SendBuffer,
        Limit::ReceiverCpuWait,
        Limit::ReceiverCpu,
        Limit::SenderCpu,
        Limit::SenderCpuWait,
    ];
    check(&rig, "tcp-stream", &options, &limits, 0.95..=1.0);
}
