//! Fuzz target: datagrams from a stranger, as probes and as handshakes.
//! Knows no sockets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_wire::{HANDSHAKE_LEN, Handshake, PROBE_LEN, Probe};

fuzz_target!(|data: &[u8]| {
    check(data);
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
