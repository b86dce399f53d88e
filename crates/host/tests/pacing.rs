//! Pacing, over loopback: the gaps between departures that a sender notes, against those that a packet socket saw leave;
//! a sender on a single CPU that somebody else wants too; and each way to pace, used or refused.
//! Knows no records; `crates/linerate/tests/truth` looks at those.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ends::Unusual;
use linerate_host::sys::datagrams::{DatagramBatch, set_receive_timestamps};
use linerate_host::sys::thread::{allowed_cpus, pin_to_cpu};
use linerate_machine::end::Direction;
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{FlowOutcome, Outcome};
use linerate_trial::pace::Pacing;
use linerate_trial::spec::{Extent, Spacing, Spec, Workload};
use linerate_wire::Probe;
use socket2::{Domain, Protocol, Socket, Type};

mod ends;

/// One at a time: each asks for a CPU of its own.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Both ends over loopback. The target sends.
fn run(spec: &Spec) -> (Outcome, Outcome) {
    let (target, host) = ends::run(spec, "127.0.0.1", &Unusual::default());
    (target.unwrap(), host.unwrap())
}

fn stream(rate: &str, message_size: u32, duration: Duration) -> Spec {
    let mut spec = Spec::new(Workload::UdpStream);
    (spec.direction, spec.extent) = (Direction::Tx, Extent::Time(duration));
    (spec.rate, spec.message_size) = (rate.parse().unwrap(), Some(message_size));
    spec
}

/// When datagrams with this much payload left over loopback while `work` ran, by the kernel's own clock, in order of
/// their numbers; `None` without the right to a packet socket (packet(7)).
fn captured<T>(message_size: usize, work: impl FnOnce() -> T) -> Option<(Vec<u64>, T)> {
    const ETH_P_IP: u16 = 0x0800;
    const HEADERS: usize = 14 + 20 + 8;
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(i32::from(ETH_P_IP.to_be())))).ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let _ = socket.set_recv_buffer_size(16 << 20);
    set_receive_timestamps(&socket).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| {
            let mut batch = DatagramBatch::incoming(32, 64, 64);
            let mut left = BTreeMap::new();
            let mut ends: Option<Instant> = None;
            loop {
                let count = batch.receive(&socket).unwrap_or(0);
                if over.load(Ordering::Relaxed) {
                    // Others' traffic over loopback may never pause.
                    let ends = *ends.get_or_insert_with(|| Instant::now() + Duration::from_millis(100));
                    if count == 0 || Instant::now() > ends {
                        return left;
                    }
                }
                for index in 0..count {
                    let frame = batch.received(index);
                    let probe = frame.octets.get(HEADERS..).and_then(Probe::parse);
                    if let Some(probe) = probe.filter(|_| frame.len == HEADERS + message_size) {
                        // Loopback shows each frame twice, first as it leaves.
                        left.entry(probe.sequence).or_insert(frame.stamped_ns.expect("a time"));
                    }
                }
            }
        });
        // The kernel begins to stamp a moment after it is first asked to.
        std::thread::sleep(Duration::from_millis(20));
        let result = work();
        over.store(true, Ordering::Relaxed);
        Some((listener.join().unwrap().into_values().collect(), result))
    })
}

/// The share of times up to `ns`.
fn share_up_to(histogram: &Histogram, ns: u64) -> f64 {
    let below: u64 = histogram.buckets().filter(|(upper, _)| *upper <= ns).map(|(_, count)| count).sum();
    below as f64 / histogram.count() as f64
}

#[test]
fn the_gaps_that_a_sender_notes_are_those_that_the_kernel_saw() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (message_size, rate, spacing, burst) in [
        (1234, "2kpps", Spacing::Even, 1),
        (1235, "2kpps", Spacing::Poisson, 1),
        (1236, "4kpps", Spacing::Even, 8),
        (1237, "10pps", Spacing::Even, 1),
    ] {
        let duration = Duration::from_millis(if rate == "10pps" { 1500 } else { 700 });
        let mut spec = stream(rate, message_size, duration);
        (spec.spacing, spec.burst) = (spacing, burst);
        // A flood of others over loopback takes the packet socket's room, and a busy machine comes between a clock and
        // a system call; what was wrong four times is wrong.
        let mut said = Vec::new();
        let right = (0..4).any(|_| {
            let Some((times, (target, _))) = captured(message_size as usize, || run(&spec)) else {
                eprintln!("skipped, needs CAP_NET_RAW");
                return true;
            };
            let sender = &target.flows[0];
            let noted = sender.departure_gaps.as_ref().unwrap();
            assert_eq!(noted.count(), sender.messages - 1);
            let distance = distance(noted, &times);
            said.push((times.len() as u64, sender.messages_total, distance));
            times.len() as u64 == sender.messages_total && distance < 0.1
        });
        println!("{rate} {spacing:?} {burst}: captured, sent, distance {said:?}");
        assert!(right, "{rate} {spacing:?} {burst}: captured, sent, distance {said:?}");
    }
}

/// Kolmogorov and Smirnov's distance between the gaps that the sender noted and those between the times captured, with
/// what a system call takes to either side.
fn distance(noted: &Histogram, times: &[u64]) -> f64 {
    const CALL_NS: u64 = 30_000;
    let mut seen = Histogram::default();
    times.windows(2).for_each(|pair| seen.record(pair[1].saturating_sub(pair[0])));
    let at = |(ns, _): (u64, u64)| {
        // Messages of one call have a gap of 0 for the sender and of some µs on the wire.
        let low = if ns < 2 * CALL_NS { 0 } else { ns - CALL_NS };
        let high = (ns + CALL_NS) * 101 / 100;
        let have = share_up_to(noted, ns);
        (have - share_up_to(&seen, high)).max(share_up_to(&seen, low) - have)
    };
    noted.buckets().map(at).fold(0.0, f64::max)
}

#[test]
fn a_million_departures_a_second_are_noted_or_doubted() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (target, _) = run(&stream("1000kpps", 64, Duration::from_millis(200)));
    let sender = &target.flows[0];
    // What could not be kept is less than was asked, never more; the record doubts it by the same figures.
    assert!(sender.messages > 1000 && sender.messages <= 201_000, "{}", sender.messages);
    assert_eq!(sender.departure_gaps.as_ref().unwrap().count(), sender.messages - 1);
}

/// Both ends, and a thread that wants the CPU for itself, on one CPU: the load is kept, and the other gets on.
#[test]
fn a_sender_on_a_single_cpu_leaves_some_of_it() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let attempt = || {
        let stop = AtomicBool::new(false);
        let turns = AtomicU32::new(0);
        // A thread of its own, for its children inherit its CPU.
        std::thread::scope(|scope| {
            let trial = scope.spawn(|| {
                pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
                std::thread::scope(|scope| {
                    let hog = scope.spawn(|| {
                        // A slice is far shorter than this, so nearly all of the time counted is its own.
                        while !stop.load(Ordering::Relaxed) {
                            let turn = Instant::now();
                            while turn.elapsed() < Duration::from_micros(100) {
                                std::hint::spin_loop();
                            }
                            turns.fetch_add(1, Ordering::Relaxed);
                        }
                        linerate_host::sys::thread::thread_use()
                    });
                    let began = Instant::now();
                    let (target, host) = run(&stream("50M", 1470, Duration::from_secs(1)));
                    let took = began.elapsed();
                    stop.store(true, Ordering::Relaxed);
                    let hog = hog.join().unwrap();
                    (target, host, (hog.user_s + hog.system_s) / took.as_secs_f64())
                })
            });
            trial.join().unwrap()
        })
    };
    // Other tests, and other programs, want this CPU too: once of four is enough.
    let mut said = Vec::new();
    for _ in 0..4 {
        let (target, host, share) = attempt();
        let load = |flow: &FlowOutcome| flow.octets as f64 * 8.0 / flow.elapsed_ns as f64 * 1e3 / 50.0;
        said.push((load(&target.flows[0]), load(&host.flows[0]), share));
        if said.last().is_some_and(|&(sent, arrived, share)| sent > 0.98 && arrived > 0.97 && share > 0.3) {
            println!("{said:?}");
            return;
        }
    }
    panic!("load sent, load that arrived, share of the other thread: {said:?}");
}

#[test]
fn what_this_machine_cannot_pace_by_is_refused_before_any_traffic() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut spec = stream("10M", 1470, Duration::from_secs(1));
    for (pacing, sentence) in [
        (
            Pacing::Fq,
            "pacing fq is not to be had here: lo has no fq queueing discipline, without which UDP leaves at once; choose \
             application, or run 'tc qdisc replace dev lo root fq' there",
        ),
        (
            Pacing::Txtime,
            "pacing txtime is not to be had here: lo has neither the fq queueing discipline nor etf below mqprio or \
             taprio; choose application, or see tc-etf(8)",
        ),
    ] {
        spec.pacing = Some(pacing);
        let (target, _) = ends::run(&spec, "127.0.0.1", &Unusual::default());
        assert_eq!(target.unwrap_err().to_string(), sentence);
    }
}

#[test]
fn the_sender_says_who_paced_it() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut spec = Spec::new(Workload::TcpStream);
    (spec.direction, spec.extent) = (Direction::Tx, Extent::Time(Duration::from_millis(300)));
    assert_eq!(run(&spec).0.flows[0].pacing, None, "nobody");
    spec.rate = "50M".parse().unwrap();
    for (asked, became) in [
        (None, Pacing::Application),
        (Some(Pacing::Application), Pacing::Application),
        // TCP paces by itself since Linux 4.13.
        (Some(Pacing::Fq), Pacing::Fq),
    ] {
        spec.pacing = asked;
        let (target, host) = run(&spec);
        assert_eq!((target.flows[0].pacing, host.flows[0].pacing), (Some(became), None));
        let sent = target.flows[0].octets as f64 * 8.0 / target.flows[0].elapsed_ns as f64 * 1e3;
        assert!((20.0..51.0).contains(&sent), "{became}: {sent} Mbit/s");
        assert!(target.flows[0].departure_gaps.is_some());
    }
}
