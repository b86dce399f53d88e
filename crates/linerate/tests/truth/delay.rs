//! Delay against a stop-watch of this test's own, and delay under load against the queue that makes it.
//! Knows no histograms.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use linerate_lab::{HOST_IPV4, Shape, TARGET_IPV4};
use linerate_results::record::{Latency, Record};

use super::rig::{Rig, is_crowded};

fn latency(record: &Record) -> &Latency {
    record.result.as_ref().unwrap().latency.as_ref().unwrap()
}

/// The median of `count` round trips of 64 octets, timed here: request from the host, echo in the target.
fn echo_median(rig: &Rig, count: usize) -> Duration {
    let udp = |address: IpAddr| {
        let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(socket)
    };
    let server = rig.lab.target.run(|| udp(TARGET_IPV4.into())).unwrap();
    let client = rig.lab.host.run(|| udp(HOST_IPV4.into())).unwrap();
    let at = server.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut octets = [0; 64];
            for _ in 0..count {
                let (len, from) = server.recv_from(&mut octets).unwrap();
                server.send_to(&octets[..len], from).unwrap();
            }
        });
        let mut times: Vec<Duration> = (0..count)
            .map(|_| {
                let began = Instant::now();
                client.send_to(&[7; 64], at).unwrap();
                client.recv_from(&mut [0; 64]).unwrap();
                began.elapsed()
            })
            .collect();
        times.sort();
        times[count / 2]
    })
}

#[test]
fn a_round_trip_takes_what_a_stop_watch_says() {
    let Some(rig) = Rig::up("round_trip", &Shape::unshaped()) else { return };
    let before = echo_median(&rig, 3000).as_secs_f64();
    let record = rig.trial("udp-rr", &[("duration", "300ms"), ("ip", "4")]);
    let after = echo_median(&rig, 3000).as_secs_f64();
    let told = latency(&record).percentiles["p50"];
    println!("median round trip: {:.1} and {:.1} µs here, {:.1} µs told", before * 1e6, after * 1e6, told * 1e6);
    // Two threads that wake each other take longer or shorter with where the scheduler puts them.
    assert!(told > before.min(after) / 5.0 && told < before.max(after) * 5.0);
    // One request at a time: the rate and the mean are each other's inverse, but for the time between two requests.
    let rate = record.result.as_ref().unwrap().transactions_per_s.unwrap();
    let busy = rate * latency(&record).mean_s.unwrap();
    assert!((0.5..=1.01).contains(&busy), "{rate} a second of {:?} s each", latency(&record).mean_s);
    let latency = latency(&record);
    assert!(latency.min_s <= latency.mean_s && latency.mean_s <= latency.max_s);
    let of_histogram: u64 = latency.histogram.count();
    assert_eq!(latency.count, of_histogram);
    assert!(latency.count.abs_diff((rate * record.duration_s.unwrap()).round() as u64) <= 1);
}

#[test]
fn delay_under_load_is_the_queue_before_it() {
    const RATE: u64 = 50_000_000;
    const QUEUE: u32 = 250_000;
    // What the target receives waits in a queue that a flood keeps full.
    let shape =
        Shape { rx_rate_bps: Some(RATE), rx_queue_octets: QUEUE, segmentation_offload: false, ..Shape::unshaped() };
    let Some(rig) = Rig::up("delay_under_load", &shape) else { return };
    let idle = rig.trial("udp-rr", &[("rate", "200pps"), ("duration", "500ms")]);
    let flood = [("rate", "80M"), ("probe", "true"), ("warmup", "300ms"), ("duration", "1500ms")];
    let queue_s = f64::from(QUEUE) * 8.0 / RATE as f64;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let loaded = rig.trial("udp-stream", &flood);
        assert_eq!(latency(&loaded).of, "probe");
        // A probe that the full queue drops has no time; those that pass waited behind nearly all of it.
        assert!(latency(&loaded).count >= 5, "{:?}", latency(&loaded));
        let told = latency(&loaded).percentiles["p50"];
        println!("idle {:?}, loaded {told} s, the queue is {queue_s} s", latency(&idle).percentiles["p50"]);
        seen.push(told);
        if (told / queue_s - 1.0).abs() < 0.2 {
            assert!(told > 5.0 * latency(&idle).percentiles["p50"]);
            return;
        }
    }
    assert!(is_crowded(), "{seen:?}: the queue is {queue_s} s");
}
