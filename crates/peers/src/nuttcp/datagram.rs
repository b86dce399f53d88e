//! nuttcp's datagrams: the short ones that begin and end a stream, and the count of octets in those of data.
//! Knows no sockets.

use std::sync::atomic::{AtomicU8, Ordering};

use linerate_trial::wire::Probe;

/// What a sender says first, and again before its data.
pub const BEGINS: [&[u8]; 2] = [b"BOD0", b"BOD1"];
/// What it says after its data, over and over.
pub const ENDS: [&[u8]; 5] = [b"EOD0", b"EOD1", b"EOD2", b"EOD3", b"EOD4"];
/// Octets of each of these.
const MARK_LEN: usize = 4;
/// Where the octets sent so far stand, this datagram's included: 64 bits, in the sender's byte order.
const COUNT_AT: usize = 24;
/// The smallest datagram that has room for them.
pub const COUNTED_LEN: usize = COUNT_AT + 8;

/// Whether this says that a stream begins.
pub fn is_begin(octets: &[u8]) -> bool {
    octets.len() == MARK_LEN && octets.starts_with(b"BOD")
}

/// Whether this says that a stream is over.
pub fn is_end(octets: &[u8]) -> bool {
    octets.len() == MARK_LEN && octets.starts_with(b"EOD")
}

/// Writes the octets so far.
pub fn emit(probe: &Probe, octets: &mut [u8]) {
    let len = octets.len();
    let count = probe.sequence.wrapping_add(1).wrapping_mul(len as u64);
    if let Some(place) = octets.get_mut(COUNT_AT..COUNTED_LEN) {
        place.copy_from_slice(&count.to_ne_bytes());
    }
}

/// Reads the numbers of one sender's datagrams, whose byte order its first one shows.
#[derive(Default)]
pub struct Numbers(AtomicU8);

const LITTLE: u8 = 1;
const BIG: u8 = 2;

impl Numbers {
    /// The number of a datagram of this length, from 0; `None` where it is none of data.
    pub fn parse(&self, len: usize, octets: &[u8]) -> Option<u64> {
        if octets.len() != len {
            return None;
        }
        let count: [u8; 8] = octets.get(COUNT_AT..COUNTED_LEN)?.try_into().ok()?;
        let (little, big) = (u64::from_le_bytes(count), u64::from_be_bytes(count));
        let order = match self.0.load(Ordering::Relaxed) {
            // Few have been sent before the first that arrives, and what is few one way is many the other.
            0 => {
                let order = if little <= big { LITTLE } else { BIG };
                self.0.store(order, Ordering::Relaxed);
                order
            }
            order => order,
        };
        let count = if order == LITTLE { little } else { big };
        (count % len as u64 == 0).then(|| (count / len as u64).checked_sub(1)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(len: usize, count: [u8; 8]) -> Vec<u8> {
        let mut octets = vec![b'x'; len];
        octets[24..32].copy_from_slice(&count);
        octets
    }

    #[test]
    fn the_count_is_as_the_peers_write_it() {
        // As 6.1.2 begins a stream of 8192 octets each, here on a little-endian machine.
        let numbers = Numbers::default();
        for number in 0..3_u64 {
            let count = (number + 1) * 8192;
            assert_eq!(numbers.parse(8192, &datagram(8192, count.to_le_bytes())), Some(number));
            let mut ours = vec![b'x'; 8192];
            emit(&Probe { sequence: number, measured: true, sent_at_ns: 0 }, &mut ours);
            assert_eq!(ours, datagram(8192, count.to_ne_bytes()));
        }
    }

    #[test]
    fn the_first_shows_the_byte_order_and_the_others_keep_it() {
        let big = Numbers::default();
        // At 4 GiB either order would do.
        for number in [1_u64, 524_287] {
            assert_eq!(big.parse(8192, &datagram(8192, ((number + 1) * 8192).to_be_bytes())), Some(number));
        }
        let little = Numbers::default();
        for number in [0_u64, 524_287] {
            assert_eq!(little.parse(8192, &datagram(8192, ((number + 1) * 8192).to_le_bytes())), Some(number));
        }
    }

    #[test]
    fn what_is_no_data_has_no_number() {
        let numbers = Numbers::default();
        assert_eq!(numbers.parse(8192, b"BOD1"), None);
        assert_eq!(numbers.parse(100, &datagram(101, 101_u64.to_le_bytes())), None);
        assert_eq!(numbers.parse(100, &datagram(100, 150_u64.to_le_bytes())), None);
        assert_eq!(numbers.parse(100, &datagram(100, [0; 8])), None);
        assert_eq!(numbers.parse(31, &[0; 31]), None);
        emit(&Probe { sequence: 7, measured: true, sent_at_ns: 0 }, &mut [0; 31]);
    }

    #[test]
    fn marks_are_four_octets() {
        assert!(BEGINS.iter().all(|mark| is_begin(mark) && !is_end(mark)));
        assert!(ENDS.iter().all(|mark| is_end(mark) && !is_begin(mark)));
        assert!(!is_begin(b"BOD1\0") && !is_end(b"EOD") && !is_begin(b""));
    }
}
