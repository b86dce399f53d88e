//! ttcp's short datagrams, which begin and end a stream. There is nothing in the others.
//! Knows no sockets.

use std::sync::Arc;

use linerate_host::traffic::{Early, Foreign, Framing, StreamEnd};

use crate::early_datagrams::StreamMarks;

/// The most octets of a datagram that is none of data.
pub const MARK_LEN: usize = 4;
/// What a sender says before its data, once. Some receivers pass over one of zeroes.
pub const START: &[u8] = b"ttcp";
/// What it says after its data, each time.
pub const END: &[u8] = b"ttcp";
/// How often: one may be lost.
pub const ENDS: usize = 5;

/// Whether this is no data: the first of a stream is its start, the second its end, whatever is in them.
pub fn is_mark(octets: &[u8]) -> bool {
    octets.len() <= MARK_LEN
}

/// What a stream looks like; `early` is what came before a trial takes it.
pub fn framing(is_udp: bool, early: impl Fn() -> Early + Send + Sync + 'static) -> Framing {
    Framing::Foreign(Arc::new(Foreign {
        end: Some(StreamEnd {
            is_last: is_mark,
            is_first: Some(is_mark),
            early: Box::new(move |_| early()),
            ..StreamEnd::default()
        }),
        bare: is_udp,
        ..Foreign::default()
    }))
}

/// Where its streams begin and end.
pub struct Streams;

impl StreamMarks for Streams {
    fn begins(&self, _: &[u8]) -> bool {
        true
    }

    fn ends(&self, stream: &[Vec<u8>], octets: &[u8]) -> bool {
        is_mark(octets) && self.is_stream(stream)
    }

    fn is_stream(&self, datagrams: &[Vec<u8>]) -> bool {
        datagrams.iter().any(|octets| !is_mark(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_short_is_a_mark() {
        for octets in [&b""[..], b"\0", b"\0\0\0\0", START, END] {
            assert!(is_mark(octets), "{octets:?}");
        }
        assert!(!is_mark(b"12345"));
        assert!(START.iter().chain(END).all(|octet| *octet != 0));
    }
}
