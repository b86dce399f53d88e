//! Every API of a TCP stream moves real octets over loopback: both ends count the same, whatever the pair, and what
//! a machine lacks is refused before any traffic.

use std::time::{Duration, Instant};

use ends::{Ended, Unusual};
use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_trial::api::{ReceiverApi, SenderApi};
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::{Extent, Spec, Workload};

mod ends;

/// Runs a trial whose host sends; a stop comes after the time, if one is given.
fn run(spec: &Spec, address: &str, stop_after: Option<Duration>) -> (Ended, Ended) {
    ends::run(spec, address, &Unusual { stop_after, ..Unusual::default() })
}

fn stream(sender: SenderApi, receiver: ReceiverApi, extent: Extent) -> Spec {
    let mut spec = Spec::new(Workload::TcpStream);
    (spec.direction, spec.extent) = (Direction::Rx, extent);
    spec.interval = Duration::from_millis(100);
    (spec.sender_api, spec.receiver_api) = (Some(sender), Some(receiver));
    spec
}

fn senders() -> Vec<SenderApi> {
    SenderApi::ALL.into_iter().filter(|api| api.suits(Workload::TcpStream)).collect()
}

fn receivers() -> Vec<ReceiverApi> {
    ReceiverApi::ALL.into_iter().filter(|api| api.suits(Workload::TcpStream)).collect()
}

/// Runs it; both ends must have moved `octets`. `None`: this machine does not have one of the APIs, and says so.
#[track_caller]
fn check(spec: &Spec, address: &str, octets: u64) -> Option<(FlowOutcome, FlowOutcome)> {
    let (target, host) = match run(spec, address, None) {
        (Ok(target), Ok(host)) => (target, host),
        (target, host) => {
            let said: Vec<String> =
                [target, host].into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
            assert!(said.iter().any(|said| said.contains("is not to be had here")), "{said:?}");
            println!("left out: {said:?}");
            return None;
        }
    };
    let (received, sent) = (target.flows[0].clone(), host.flows[0].clone());
    assert_eq!(sent.octets_total, octets);
    assert_eq!(received.octets_total, octets);
    let size = sent.api.message_octets.unwrap();
    assert!(spec.message_size.is_none_or(|asked| asked == size), "{size}");
    assert_eq!(sent.messages_total, octets.div_ceil(size.into()));
    assert_eq!(Some(sent.api.name.as_str()), spec.sender_api.map(SenderApi::name));
    assert_eq!(Some(received.api.name.as_str()), spec.receiver_api.map(ReceiverApi::name));
    Some((sent, received))
}

#[test]
fn every_pair_moves_every_octet_over_both_protocols() {
    // No whole number of messages, nor of pages.
    let octets = 20_000_001;
    for address in ["127.0.0.1", "::1"] {
        for sender in senders() {
            for receiver in receivers() {
                println!("{sender} {receiver} {address}");
                let Some((sent, received)) = check(&stream(sender, receiver, Extent::Octets(octets)), address, octets)
                else {
                    continue;
                };
                if sender == SenderApi::Zerocopy {
                    let completions = sent.api.completions.unwrap();
                    assert_eq!(completions, sent.calls, "each send completes");
                    // "MSG_ZEROCOPY … loopback": Documentation/networking/msg_zerocopy.rst, Loopback.
                    assert_eq!(sent.api.completions_copied, Some(completions), "loopback copies");
                }
                if sender == SenderApi::IoUringZerocopy {
                    assert!(sent.api.completions.unwrap() >= octets / u64::from(128u32 << 10));
                }
                // What loopback copies instead of lending, it copies into single pages, which can be mapped.
                if (sender, receiver) == (SenderApi::Zerocopy, ReceiverApi::Zerocopy) {
                    let mapped = received.api.octets_mapped.unwrap();
                    assert!((octets / 2..=octets).contains(&mapped), "{mapped} of {octets} mapped");
                }
            }
        }
    }
}

#[test]
fn messages_of_odd_sizes_and_a_limited_rate() {
    for sender in senders() {
        for (size, batch) in [(1, 4), (1000, 1), (99_999, 3), (3 << 20, 2)] {
            println!("{sender} {size}");
            let octets = u64::from(size) * 5 + 1;
            let mut spec = stream(sender, ReceiverApi::Plain, Extent::Octets(octets));
            (spec.message_size, spec.batch, spec.alignment) = (Some(size), Some(batch), 64);
            check(&spec, "127.0.0.1", octets);
        }
    }
    // 2 MB at 100 Mbit/s take 0.16 s, whatever the API: a paced message leaves by itself.
    for (sender, receiver) in senders().into_iter().zip(receivers().into_iter().cycle()) {
        let mut spec = stream(sender, receiver, Extent::Octets(2_000_000));
        (spec.message_size, spec.rate) = (Some(10_000), OfferedLoad::BitsPerSecond(100_000_000));
        let Some((sent, received)) = check(&spec, "127.0.0.1", 2_000_000) else { continue };
        // A receiver that gets no CPU finds all of it there at once, and its time begins with that.
        let elapsed = sent.elapsed_ns.max(received.elapsed_ns) as f64 / 1e9;
        assert!((0.15..1.0).contains(&elapsed), "{sender} {receiver}: {elapsed} s");
    }
}

#[test]
fn a_time_ends_every_pair_and_so_does_a_stop() {
    for sender in senders() {
        for receiver in receivers() {
            println!("{sender} {receiver}");
            let spec = stream(sender, receiver, Extent::Time(Duration::from_millis(50)));
            if let (Ok(target), Ok(host)) = run(&spec, "127.0.0.1", None) {
                let (received, sent) = (target.flows[0].octets_total, host.flows[0].octets_total);
                assert!(0 < received && received <= sent, "{received} of {sent}");
            }
            let spec = stream(sender, receiver, Extent::Time(Duration::from_secs(60)));
            let began = Instant::now();
            let (target, host) = run(&spec, "127.0.0.1", Some(Duration::from_millis(20)));
            assert!(target.is_err() && host.is_err());
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        }
    }
}

#[test]
fn auto_reads_what_arrives_at_either_end() {
    for direction in [Direction::Rx, Direction::Tx] {
        let mut spec = stream(SenderApi::Plain, ReceiverApi::Plain, Extent::Octets(1_000_000));
        (spec.sender_api, spec.receiver_api, spec.direction) = (None, None, direction);
        let (target, host) = run(&spec, "127.0.0.1", None);
        let (target, host) = (target.unwrap(), host.unwrap());
        assert_eq!((target.flows[0].octets_total, host.flows[0].octets_total), (1_000_000, 1_000_000));
        assert_eq!([&target, &host].map(|end| end.flows[0].api.name.as_str()), ["plain"; 2], "{direction}");
    }
}

/// Forbids io_uring on this machine for as long as it lives, some milliseconds. Others' trials go on with what else
/// there is, or say what this test waits to hear.
struct Forbidden(String);

impl Forbidden {
    const PLACE: &str = "/proc/sys/kernel/io_uring_disabled";

    fn new() -> std::io::Result<Forbidden> {
        let before = std::fs::read_to_string(Self::PLACE)?;
        std::fs::write(Self::PLACE, "2")?;
        Ok(Forbidden(before))
    }
}

impl Drop for Forbidden {
    fn drop(&mut self) {
        std::fs::write(Self::PLACE, &self.0).unwrap();
    }
}

#[test]
fn io_uring_that_is_forbidden_is_refused_before_any_traffic() {
    let spec = stream(SenderApi::IoUring, ReceiverApi::Plain, Extent::Octets(1_000_000));
    let Ok(forbidden) = Forbidden::new() else {
        println!("not root, or a kernel before 6.6: nobody can forbid io_uring here");
        return;
    };
    let (target, host) = run(&spec, "127.0.0.1", None);
    drop(forbidden);
    let said = host.unwrap_err().to_string();
    assert_eq!(
        said,
        "sender_api io-uring is not to be had here: io_uring is forbidden (kernel.io_uring_disabled, or a container's \
         seccomp filter); allow it, or choose plain or auto"
    );
    let moved = target.map_or(0, |outcome| outcome.flows[0].octets_total);
    assert_eq!(moved, 0);
}
