//! Both ends of a trial in one process, over loopback: every workload and direction moves real octets, and what
//! one end counts the other end counts too.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use ends::{TOKENS, Unusual};
use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, Codec, Framing, Tokens, TrafficError, Trial};
use linerate_machine::end::{Direction, End};
use linerate_machine::units::OfferedLoad;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};

mod ends;

fn run(spec: &Spec, address: &str) -> (Outcome, Outcome) {
    let (target, host) = ends::run(spec, address, &Unusual::default());
    (target.unwrap(), host.unwrap())
}

fn short(workload: Workload, direction: Direction) -> Spec {
    let mut spec = Spec::new(workload);
    spec.direction = direction;
    spec.extent = Extent::Time(Duration::from_millis(300));
    spec.interval = Duration::from_millis(100);
    spec
}

fn of_role(outcome: &Outcome, role: Role) -> Vec<&FlowOutcome> {
    outcome.flows.iter().filter(|flow| flow.role == role).collect()
}

/// A machine that has no CPU left for a trial loses datagrams and falls behind; no figure is wrong for it. What a
/// trial got wrong four times is wrong.
#[track_caller]
fn once_of_four(mut attempt: impl FnMut() -> Result<(), String>) {
    let said: Vec<String> = std::iter::repeat_with(|| attempt().err()).take(4).map_while(|said| said).collect();
    assert!(said.len() < 4, "{said:#?}");
}

#[track_caller]
fn check(spec: &Spec, address: &str) {
    let (target, host) = run(spec, address);
    assert_eq!(target.flows.len(), host.flows.len());
    for (a, b) in target.flows.iter().zip(&host.flows) {
        assert_eq!(a.id, b.id);
        let (source, sink) = if matches!(a.role, Role::Sender | Role::Requester) { (a, b) } else { (b, a) };
        assert!(source.octets_total > 0 && source.messages > 0, "{source:?}");
        match source.role {
            Role::Sender if spec.workload == Workload::UdpStream => {
                let arrivals = sink.arrivals.as_ref().unwrap();
                assert_eq!(arrivals.sent_by_end_mark, Some(source.messages_total));
                let lost = source.messages_total - arrivals.received_total;
                assert_eq!(lost, sink.socket_drops.unwrap() + source.send_errors, "loopback loses in the socket only");
                assert_eq!(arrivals.duplicated_total, 0);
            }
            Role::Sender => assert!(sink.octets_total <= source.octets_total && sink.octets_total > 0),
            Role::Requester => {
                assert!(sink.messages_total >= source.messages_total);
                assert!(sink.messages_total - source.messages_total <= u64::from(spec.outstanding.max(64)));
                let latency = source.latency.as_ref().unwrap();
                assert_eq!(latency.count(), source.messages);
            }
            _ => unreachable!(),
        }
        for flow in [a, b] {
            let sliced: u64 = flow.slices.iter().map(|slice| slice.octets).sum();
            assert!(sliced <= flow.octets_total, "slices hold no more than there was");
            // Of a trial without a warm-up they begin with its first byte, whenever the sampler's thread had a CPU.
            let first = flow.slices.first().map(|slice| slice.start_ns);
            assert!(!spec.warmup.is_zero() || first == Some(0), "{first:?}");
            assert!(sliced * 10 >= flow.octets_total * 6, "{} of {} in slices", sliced, flow.octets_total);
        }
    }
}

#[test]
fn every_workload_in_every_direction_over_both_protocols() {
    for address in ["127.0.0.1", "::1"] {
        for workload in Workload::over_ip() {
            for direction in [Direction::Tx, Direction::Rx, Direction::Both] {
                println!("{workload} {direction} {address}");
                check(&short(workload, direction), address);
            }
        }
    }
}

#[test]
fn parallel_streams_with_a_probe_beside_them() {
    for workload in [Workload::TcpStream, Workload::UdpStream] {
        let mut spec = short(workload, Direction::Both);
        (spec.streams, spec.probe, spec.pin) = (3, true, true);
        if workload == Workload::UdpStream {
            spec.rate = OfferedLoad::BitsPerSecond(20_000_000);
        }
        let (target, host) = run(&spec, "127.0.0.1");
        assert_eq!(target.flows.len(), 7);
        let probe = of_role(&host, Role::Requester);
        assert_eq!(probe.len(), 1, "the host asks");
        assert!((15..=31).contains(&probe[0].messages), "100 requests a second for 0.3 s, was {}", probe[0].messages);
    }
}

#[test]
fn many_requests_under_way_and_tiny_ones() {
    for (workload, size, outstanding) in
        [(Workload::TcpRr, 1, 16), (Workload::UdpRr, 1, 8), (Workload::UdpRr, 40, 4), (Workload::TcpRr, 50_000, 1)]
    {
        let mut spec = short(workload, Direction::Rx);
        (spec.request_size, spec.response_size, spec.outstanding) = (size, size, outstanding);
        let (_, host) = run(&spec, "127.0.0.1");
        assert!(host.flows[0].messages > 100, "{workload} {size}: {}", host.flows[0].messages);
        assert!(host.flows[0].timeouts.is_none_or(|timeouts| timeouts == 0));
    }
}

#[test]
fn a_number_of_octets_arrives_whole() {
    for workload in [Workload::TcpStream, Workload::UdpStream] {
        let mut spec = short(workload, Direction::Rx);
        spec.extent = Extent::Octets(2_000_000);
        spec.message_size = Some(1000);
        spec.rate = OfferedLoad::BitsPerSecond(100_000_000);
        once_of_four(|| {
            let (target, host) = run(&spec, "127.0.0.1");
            assert_eq!(host.flows[0].octets_total, 2_000_000);
            // 2 MB at 100 Mbit/s take 0.16 s.
            let (arrived, elapsed) = (target.flows[0].octets_total, target.flows[0].elapsed_ns as f64 / 1e9);
            let right = arrived == 2_000_000 && (0.15..0.25).contains(&elapsed);
            if right { Ok(()) } else { Err(format!("{workload}: {arrived} arrived in {elapsed} s")) }
        });
    }
}

#[test]
fn an_interval_longer_than_any_clock_is_one_slice() {
    let mut spec = short(Workload::TcpStream, Direction::Rx);
    // A little more than 2^64 ns, and the longest there is.
    for interval in [Duration::new(18_446_744_073, 709_551_617), Duration::MAX] {
        spec.interval = interval;
        let (target, host) = run(&spec, "127.0.0.1");
        for outcome in [target, host] {
            assert!(outcome.flows[0].slices.len() <= 1, "{} slices", outcome.flows[0].slices.len());
            assert!(outcome.cpu.is_some(), "whoever samples has come to the end");
        }
    }
}

#[test]
fn a_paced_load_is_what_was_asked() {
    for rate in ["1M", "100M", "5kpps"] {
        let mut spec = short(Workload::UdpStream, Direction::Tx);
        spec.extent = Extent::Time(Duration::from_secs(1));
        spec.warmup = Duration::from_millis(100);
        spec.rate = rate.parse().unwrap();
        once_of_four(|| {
            let (target, host) = run(&spec, "127.0.0.1");
            let (sent, arrived) = (&target.flows[0], &host.flows[0]);
            let asked = spec.rate.bits_per_second(1470).unwrap();
            let off = |flow: &FlowOutcome| flow.octets as f64 * 8.0 / (flow.elapsed_ns as f64 / 1e9) / asked - 1.0;
            let received = arrived.arrivals.as_ref().unwrap().received;
            let right = off(sent).abs() < 0.02 && off(arrived).abs() < 0.02 && received == sent.messages;
            let said = || {
                format!("{rate}: {:+.4} sent, {:+.4} arrived, {received} of {}", off(sent), off(arrived), sent.messages)
            };
            if right { Ok(()) } else { Err(said()) }
        });
    }
}

#[test]
fn a_stranger_gets_no_test_traffic() {
    // The far end answers with another secret, as an echo server or another trial would.
    for workload in Workload::over_ip() {
        let stranger = Tokens { answer: TOKENS.hello, ..TOKENS };
        let unusual = Unusual { host_tokens: stranger, ..Unusual::default() };
        let (target, host) = ends::run(&short(workload, Direction::Rx), "127.0.0.1", &unusual);
        assert!(target.is_err() || host.is_err(), "{workload}");
        let moved = [target, host].into_iter().flatten().flat_map(|o| o.flows).map(|f| f.octets_total).sum::<u64>();
        assert_eq!(moved, 0, "{workload}");
    }
}

#[test]
fn a_stop_ends_a_trial_at_once() {
    for workload in Workload::over_ip() {
        let mut spec = short(workload, Direction::Rx);
        spec.extent = Extent::Time(Duration::from_secs(60));
        let began = Instant::now();
        let unusual = Unusual { stop_after: Some(Duration::from_millis(100)), ..Unusual::default() };
        let (target, _) = ends::run(&spec, "127.0.0.1", &unusual);
        let is_stopped =
            |error| matches!(error, TrafficError::Stopped | TrafficError::Reset(_) | TrafficError::Moving { .. });
        assert!(target.is_err_and(is_stopped), "{workload}");
        assert!(began.elapsed() < Duration::from_secs(2), "{workload}: {:?}", began.elapsed());
    }
}

#[test]
fn a_tail_that_was_waited_with_in_vain_takes_no_time() {
    once_of_four(send_a_tail);
}

/// Another tool's streams, whose end another connection says.
struct EndsElsewhere;

impl Codec for EndsElsewhere {
    fn ends_itself(&self) -> bool {
        false
    }
}

/// One message is due at once, and the next in seconds.
#[test]
fn a_message_that_is_not_due_yet_is_not_sent_at_the_end() {
    for workload in [Workload::TcpStream, Workload::UdpStream] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        let mut spec = short(workload, Direction::Tx);
        (spec.extent, spec.rate) = (Extent::Time(Duration::from_secs(60)), OfferedLoad::BitsPerSecond(1000));
        spec.message_size = Some(1000);
        let far_udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (socket, reach) = match workload.is_udp() {
            true => {
                let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
                udp.connect(far_udp.local_addr().unwrap()).unwrap();
                (udp.into(), SendPermission::Proven(ProvenPeer::by_connection(&near).unwrap()))
            }
            false => (near.into(), SendPermission::Connected),
        };
        let flows = vec![Adopted::new(Flow::of(&spec)[0], socket, reach)];
        let here = "127.0.0.1".parse().unwrap();
        let framing = Framing::new(EndsElsewhere);
        let trial = Trial::adopt(spec, framing, End::Target, here, None, flows, |_| {}).unwrap();
        trial.start();
        let mut octets = [0; 2000];
        let came = if workload.is_udp() { far_udp.recv(&mut octets) } else { far.read(&mut octets) };
        assert_eq!(came.unwrap(), 1000);
        // The sender waits for the next departure.
        thread::sleep(Duration::from_millis(30));
        trial.stopper().finish();
        let flow = &trial.join().unwrap().flows[0];
        assert_eq!((flow.messages_total, flow.octets_total), (1, 1000), "{workload}");
    }
}

/// A fast stream of octets with a hundred more at its end, when the receiver lets octets come together.
fn send_a_tail() -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = listener.accept().unwrap().0;
    let mut spec = short(Workload::TcpStream, Direction::Rx);
    spec.extent = Extent::Time(Duration::from_secs(60));
    let framing = Framing::new(EndsElsewhere);
    let flows = vec![Adopted::new(Flow::of(&spec)[0], socket.into(), SendPermission::Connected)];
    let here = "127.0.0.1".parse().unwrap();
    let trial = Trial::adopt(spec, framing, End::Target, here, None, flows, |_| {}).unwrap();
    let began = Instant::now();
    trial.start();
    // So fast that the receiver lets octets come together before it reads them.
    let mut sent = 0;
    while began.elapsed() < Duration::from_millis(60) {
        sent += sender.write(&[0; 1 << 16]).unwrap();
    }
    thread::sleep(Duration::from_millis(5));
    sender.write_all(&[0; 100]).unwrap();
    trial.stopper().finish();
    let took = began.elapsed();
    let outcome = trial.join().unwrap();
    assert_eq!(outcome.flows[0].octets_total, sent as u64 + 100);
    let elapsed = Duration::from_nanos(outcome.flows[0].elapsed_ns);
    // A receiver that had no CPU reads later than it could have.
    if elapsed <= took { Ok(()) } else { Err(format!("{elapsed:?} of {took:?}")) }
}
