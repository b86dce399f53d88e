//! Fuzz target: datagrams from a stranger, as probes, as handshakes, and as the arrivals of a stream.
//! Knows no sockets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_trial::arrivals::Tracker;
use linerate_wire::{HANDSHAKE_LEN, Handshake, PROBE_LEN, Probe};

fuzz_target!(|data: &[u8]| {
    check(data);
    arrive(data);
    // A series of datagrams, each with its length before it.
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        let (datagram, after) = after.split_at(after.len().min(length.into()));
        check(datagram);
        rest = after;
    }
});

fn check(datagram: &[u8]) {
    match Probe::parse(datagram) {
        Some(probe) => {
            let mut octets = [0; PROBE_LEN];
            probe.emit(&mut octets).unwrap();
            assert_eq!(octets, datagram[..PROBE_LEN], "a probe has one form");
        }
        None => assert!(datagram.len() < PROBE_LEN),
    }
    if let Some(handshake) = Handshake::parse(datagram) {
        assert_eq!(datagram.len(), HANDSHAKE_LEN);
        assert_eq!(Handshake::parse(&handshake.emit()), Some(handshake));
        let mut other = handshake.token;
        other[15] ^= 1;
        assert!(handshake.expect(handshake.kind, handshake.flow, &handshake.token).is_some());
        assert!(handshake.expect(handshake.kind, handshake.flow, &other).is_none());
    }
}

/// Numbers between which the tracker still tells a first arrival from a copy, and loss bursts that it keeps apart:
/// see [`Tracker`].
const WINDOW: u64 = 1 << 17;
const MOST_BURSTS: usize = 1024 + 64 + 64;

/// The same octets as a stream's datagrams, one after the other, at times that they tell.
///
/// An octet says how the next number is made, because numbers near each other, where the account is difficult, would
/// hardly ever be found by chance.
fn arrive(data: &[u8]) {
    let mut tracker = Tracker::new();
    let (mut handled, mut measured, mut now_ns, mut number, mut highest) = (0, 0, 0_u64, 0_u64, 0);
    let (mut end, mut exact) = (None, true);
    let mut rest = data;
    while let Some((&how, after)) = rest.split_first() {
        let (step, after) = after.split_at(after.len().min(usize::from(how & 7) + 1));
        let step = step.iter().fold(0_u64, |step, octet| step << 8 | u64::from(*octet));
        rest = after;
        number = if how & 8 == 0 { number.wrapping_add(step) } else { number.wrapping_sub(step) };
        now_ns = now_ns.saturating_add(step % 1_000_003);
        if how & 0xF0 == 0xF0 {
            tracker.handle_end(number);
            end = Some(end.unwrap_or(0).max(number));
            continue;
        }
        let probe = Probe { sequence: number, measured: how & 0x10 == 0, sent_at_ns: step };
        // Half a word less than the window, which moves by words of 64.
        exact &= highest < WINDOW - 64 || number > highest - (WINDOW - 64);
        highest = highest.max(number.min(u64::MAX - 1));
        tracker.handle_datagram(&probe, now_ns);
        handled += 1;
        measured += u64::from(probe.measured);
        assert!(tracker.received() <= handled);
    }
    let missing = tracker.missing();
    let arrivals = tracker.finish();
    assert_eq!(arrivals.received_total + arrivals.duplicated_total, handled, "each datagram is one or the other");
    assert_eq!(arrivals.received + arrivals.duplicated, measured);
    assert!(arrivals.late <= arrivals.received && arrivals.reordered <= arrivals.received);
    assert_eq!(arrivals.sent_by_end_mark, end);
    assert!(arrivals.loss_bursts.len() <= MOST_BURSTS, "memory is bounded");
    assert!(!arrivals.loss_bursts.contains_key(&0));
    assert!(arrivals.jitter_s.is_none_or(|jitter| jitter.is_finite() && jitter >= 0.0));
    if exact {
        let seen = if handled == 0 { 0 } else { highest + 1 };
        assert_eq!(missing, seen - arrivals.received_total);
        let kept_exactly = arrivals.loss_bursts.len() < 1024;
        let lost: u128 =
            arrivals.loss_bursts.iter().map(|(&length, &times)| u128::from(length) * u128::from(times)).sum();
        let sent = seen.max(end.unwrap_or(0));
        assert!(
            !kept_exactly || lost == u128::from(sent - arrivals.received_total),
            "what did not arrive is in a burst"
        );
    }
}
