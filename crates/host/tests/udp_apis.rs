//! Every way that datagrams can go: real ones go through each, and both ends count the same.
//! Both ends run in this process, over loopback.

use std::time::Duration;

use ends::Unusual;
use linerate_host::traffic::TrafficError;
use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_trial::api::{ReceiverApi, SenderApi, Timestamps};
use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};

mod ends;

/// Sender and receiver of the one flow; or why either would not.
fn run(spec: &Spec, address: &str) -> Result<(FlowOutcome, FlowOutcome), TrafficError> {
    let (target, host) = ends::run(spec, address, &Unusual::default());
    let (host, target) = (host?.flows.remove(0), target?.flows.remove(0));
    Ok(if target.role == Role::Sender { (target, host) } else { (host, target) })
}

fn spec(sender: SenderApi, receiver: ReceiverApi) -> Spec {
    let mut spec = Spec::new(Workload::UdpStream);
    (spec.sender_api, spec.receiver_api) = (Some(sender), Some(receiver));
    spec.extent = Extent::Time(Duration::from_millis(150));
    spec.interval = Duration::from_millis(50);
    spec
}

#[track_caller]
fn check(spec: &Spec, address: &str) -> (FlowOutcome, FlowOutcome) {
    let (sender, receiver) = run(spec, address).unwrap();
    let what = format!("{:?} to {:?} over {address}", sender.api, receiver.api);
    let arrivals = receiver.arrivals.as_ref().unwrap();
    assert!(arrivals.received_total > 10, "{what}: {}", arrivals.received_total);
    assert_eq!(arrivals.sent_by_end_mark, Some(sender.messages_total), "{what}");
    let lost = sender.messages_total - arrivals.received_total;
    // An end mark may be dropped like a datagram, and is none.
    let more = receiver.socket_drops.unwrap() + sender.send_errors;
    let marks = sender.end_marks - receiver.end_marks;
    // Where merged messages are dropped at the very end, nothing after them says how many datagrams each held.
    let merged = receiver.api.name == ReceiverApi::UdpGro.name() && more > 0;
    let most = if merged { more * 64 } else { more };
    assert!(
        (more - marks.min(more)..=most).contains(&lost),
        "{what}: loopback loses in the socket only: {lost}, {more}"
    );
    assert_eq!(arrivals.duplicated_total, 0, "{what}");
    assert_eq!(receiver.octets_total, arrivals.received_total * u64::from(spec.message_octets()), "{what}");
    if let Some(api) = spec.sender_api {
        assert_eq!(sender.api.name, api.name());
    }
    if let Some(api) = spec.receiver_api {
        assert_eq!(receiver.api.name, api.name());
    }
    (sender, receiver)
}

fn senders() -> impl Iterator<Item = SenderApi> {
    SenderApi::ALL.into_iter().filter(|api| api.suits(Workload::UdpStream))
}

fn receivers() -> impl Iterator<Item = ReceiverApi> {
    ReceiverApi::ALL.into_iter().filter(|api| api.suits(Workload::UdpStream))
}

#[test]
fn every_pair_moves_every_datagram_or_counts_it_as_dropped() {
    for sender in senders() {
        for receiver in receivers() {
            for address in ["127.0.0.1", "::1"] {
                check(&spec(sender, receiver), address);
            }
        }
    }
}

#[test]
fn sizes_batches_and_a_limited_rate_go_through_every_sender() {
    for sender in senders() {
        for (size, batch) in [(16, None), (40, Some(7)), (64, Some(1000)), (9000, Some(1))] {
            let mut spec = spec(sender, ReceiverApi::UdpGro);
            (spec.message_size, spec.batch) = (Some(size), batch);
            let (sent, _) = check(&spec, "127.0.0.1");
            assert!(batch.is_none_or(|batch| sent.api.batch <= batch), "{:?}", sent.api);
        }
        let mut paced = spec(sender, ReceiverApi::Recvmmsg);
        (paced.rate, paced.burst) = (OfferedLoad::PacketsPerSecond(2000), 5);
        // A busy machine has a sender fall behind, which makes the load less than was asked and never more.
        let mut kept = (0..4).map(|_| {
            let (sent, _) = check(&paced, "127.0.0.1");
            assert!(sent.api.batch <= 5, "no more than a burst leaves at once: {:?}", sent.api);
            assert!(sent.messages <= 305, "0.15 s of 2000 a second, was {}", sent.messages);
            sent.messages
        });
        assert!(kept.any(|messages| messages >= 250), "{sender}: 0.15 s of 2000 a second");
    }
}

/// How many datagrams a call moved at both ends is what tells one API from another.
#[test]
fn the_calls_are_those_of_the_api() {
    use SenderApi::*;
    for (sender, fewest, most) in
        [(Plain, 1, 1), (UdpSegment, 40, 64), (Sendmmsg, 32, 32), (SendmmsgUdpSegment, 160, 256)]
    {
        let mut spec = spec(sender, ReceiverApi::Plain);
        spec.extent = Extent::Octets(1470 * 44 * 100);
        let (sent, received) = check(&spec, "127.0.0.1");
        let least = sent.messages_total.div_ceil(most);
        assert!((least..=sent.messages_total.div_ceil(fewest)).contains(&sent.calls), "{sender}: {sent:?}");
        assert!(received.calls >= received.messages_total, "plain takes one datagram a call: {received:?}");
    }
    let mut spec = spec(SendmmsgUdpSegment, ReceiverApi::UdpGro);
    spec.extent = Extent::Octets(1470 * 44 * 100);
    let (_, received) = check(&spec, "127.0.0.1");
    assert!(received.calls * 2 < received.messages_total, "merged datagrams come many to a call: {received:?}");
}

#[test]
fn a_number_of_octets_ends_in_the_middle_of_a_batch() {
    for sender in senders() {
        let mut spec = spec(sender, ReceiverApi::UdpGro);
        spec.extent = Extent::Octets(1470 * 101 - 5);
        let (sent, received) = check(&spec, "127.0.0.1");
        assert_eq!((sent.messages_total, sent.octets_total), (101, 1470 * 101));
        assert_eq!(received.messages_total + received.socket_drops.unwrap(), 101);
    }
}

/// Loopback is no cable: what is cut apart would stay whole.
#[test]
fn auto_is_plain_at_the_target_and_cheaper_at_the_host() {
    let of = |direction: Direction, rate: OfferedLoad| {
        let mut spec = spec(SenderApi::Plain, ReceiverApi::Plain);
        (spec.sender_api, spec.receiver_api, spec.rate, spec.direction) = (None, None, rate, direction);
        let (sent, received) = check(&spec, "127.0.0.1");
        (sent.api.name, received.api.name)
    };
    let names = |sender: &str, receiver: &str| (sender.to_owned(), receiver.to_owned());
    let paced = OfferedLoad::PacketsPerSecond(2000);
    assert_eq!(of(Direction::Rx, OfferedLoad::Unlimited), names("sendmmsg", "plain"));
    assert_eq!(of(Direction::Rx, paced), names("plain", "plain"));
    assert_eq!(of(Direction::Tx, OfferedLoad::Unlimited), names("plain", "recvmmsg"));
    assert_eq!(of(Direction::Tx, paced), names("plain", "recvmmsg"));
}

#[test]
fn datagrams_that_do_not_fit_the_mtu_are_not_cut_apart() {
    // Loopback's MTU is 65536 on every Linux, so only the largest IPv4 payloads could be too large, and are not; the
    // refusal is of what IPv6's larger header leaves.
    for api in [SenderApi::UdpSegment, SenderApi::SendmmsgUdpSegment] {
        let mut large = spec(api, ReceiverApi::Recvmmsg);
        large.message_size = Some(65_500);
        check(&large, "127.0.0.1");
        let error = run(&large, "::1").unwrap_err().to_string();
        assert!(error.contains("do not fit the MTU of 65536"), "{error}");
        assert!(error.contains("message_size of 65488 or less, or sendmmsg"), "{error}");
    }
}

#[test]
fn the_record_says_who_noted_arrivals() {
    for who in [Timestamps::Application, Timestamps::Kernel] {
        let mut spec = spec(SenderApi::Sendmmsg, ReceiverApi::Recvmmsg);
        (spec.timestamps, spec.rate) = (Some(who), OfferedLoad::PacketsPerSecond(2000));
        let (_, received) = check(&spec, "127.0.0.1");
        assert_eq!(received.timestamps, Some(who));
        let gaps = &received.arrivals.unwrap().gaps;
        // The mean, for on a busy machine departures are late and those after them early.
        let mean_ns = gaps.mean_ns().unwrap();
        assert!((400_000.0..=650_000.0).contains(&mean_ns), "2000 a second, noted by the {who}: {mean_ns}");
    }
    let mut spec = spec(SenderApi::Sendmmsg, ReceiverApi::Recvmmsg);
    spec.timestamps = Some(Timestamps::Hardware);
    let error = run(&spec, "127.0.0.1").unwrap_err().to_string();
    assert!(error.contains("timestamps hardware is not to be had here: lo does not stamp"), "{error}");
}

#[test]
fn an_undersized_buffer_drops_and_every_drop_is_counted() {
    for receiver in receivers() {
        let mut spec = spec(SenderApi::SendmmsgUdpSegment, receiver);
        spec.socket_buffer = Some(8 << 10);
        let (sent, received) = check(&spec, "127.0.0.1");
        assert!(received.socket_drops.unwrap() > sent.messages_total / 10, "{received:?}");
    }
}
