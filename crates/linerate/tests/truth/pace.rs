//! Offered load: what was asked for is what is sent, or the record doubts it.
//! Knows no links: what the kernel's link counted in the wall time is the judge.

use linerate_lab::Shape;
use linerate_machine::end::End;
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;

use super::rig::{Link, Rig, flow, is_crowded};

fn is_doubted(record: &Record) -> bool {
    record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::SenderFellBehind)
}

/// The share by which the sender was off, and whether that is what the record's doubt says.
#[track_caller]
fn check(record: &Record, asked_bps: f64) -> f64 {
    let figures = flow(record);
    let off = figures.achieved_load_bps.unwrap() / asked_bps - 1.0;
    println!("asked {:.1} Mbit/s: {:+.3} %", asked_bps / 1e6, off * 100.0);
    // Half a percent, and a datagram and a half at the edges.
    let edge = 1.5 * 1470.0 * 8.0 / asked_bps / record.duration_s.unwrap();
    if (off.abs() - edge.max(0.005)).abs() > 1e-4 {
        assert_eq!(is_doubted(record), off.abs() > edge.max(0.005), "{off}: {:?}", record.doubts);
    }
    // The sender's word against its link's: without warm-up they count the same datagrams.
    let sender = if record.direction.name() == "tx" { End::Target } else { End::Host };
    let sent = figures.packets_sent.unwrap();
    assert!((sent + 1..=sent + 24).contains(&Link::of(record, sender).tx_packets), "{sent}");
    off
}

#[test]
fn a_load_is_offered_as_asked() {
    let Some(rig) = Rig::up("offered_as_asked", &Shape::unshaped()) else { return };
    for (rate, direction, asked) in [("5M", "tx", 5e6), ("100M", "rx", 100e6), ("100M", "tx", 100e6)] {
        let options = [("rate", rate), ("direction", direction), ("duration", "1s"), ("ip", "4")];
        let mut best: f64 = 1.0;
        for _ in 0..6 {
            best = best.min(check(&rig.trial("udp-stream", &options), asked).abs());
            if best < 0.005 {
                break;
            }
        }
        // Held by the clock alone, and so not to half a percent on a machine of others; the doubt was held to it.
        assert!(best < 0.03 || (best < 0.2 && is_crowded()), "{rate} {direction}: {best}");
    }
}

#[test]
fn a_load_that_cannot_be_offered_is_doubted() {
    let Some(rig) = Rig::up("cannot_be_offered", &Shape::unshaped()) else { return };
    let record = rig.trial("udp-stream", &[("rate", "90G"), ("duration", "200ms"), ("ip", "4")]);
    assert!(check(&record, 90e9) < -0.1 && is_doubted(&record));
    let record = rig.trial("udp-stream", &[("duration", "200ms")]);
    assert!(!is_doubted(&record), "nothing was asked");
}

#[test]
fn poisson_departures_have_the_same_mean() {
    let Some(rig) = Rig::up("poisson", &Shape::unshaped()) else { return };
    let options = [("rate", "10kpps"), ("spacing", "poisson"), ("duration", "1s"), ("seed", "7")];
    let record = rig.trial("udp-stream", &options);
    let sent = flow(&record).packets_sent.unwrap();
    // 10 000 in the mean, with a standard deviation of 100; fewer where the sender had to wait for a CPU.
    assert!((8000..=10_500).contains(&sent), "{sent}");
    let gaps = flow(&record).arrival_gaps.as_ref().unwrap();
    let mean_ns = gaps.mean_ns().unwrap();
    assert!((mean_ns / (1e9 / sent as f64) - 1.0).abs() < 0.1, "{mean_ns} ns between arrivals, {sent} sent in 1 s");
}
