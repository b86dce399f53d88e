//! The probe: the first 16 octets of every datagram of a UDP stream.
//! Knows nothing of flows; one connected socket carries one flow.
//!
//! ```text
//!  octet 0        8                16
//!        +--------+----------------+----------
//!        |sequence|M| sent_at_ns   | filler …
//!        +--------+----------------+----------
//! ```
//! Big-endian. `M` is the top bit of the time: the datagram belongs to the measured part of the trial. Sixteen
//! octets, so that a probe fits the smallest Ethernet frame (18 octets of UDP payload over IPv4).

/// Octets of a probe; the smallest message of a UDP stream.
pub const PROBE_LEN: usize = 16;

const MEASURED: u64 = 1 << 63;

/// What a datagram of a UDP stream says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the datagram in its flow, from 0, without gaps at the sender.
    pub sequence: u64,
    /// The sender counts this datagram: it was sent after the warm-up.
    pub measured: bool,
    /// The sender's monotonic clock, in nanoseconds. Only differences mean anything. 63 bits.
    pub sent_at_ns: u64,
}

impl Probe {
    /// Writes the probe over the first [`PROBE_LEN`] octets of `payload`; `None` if it is shorter.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) -> Option<()> {
        let header = payload.first_chunk_mut::<PROBE_LEN>()?;
        let mark = if self.measured { MEASURED } else { 0 };
        header[..8].copy_from_slice(&self.sequence.to_be_bytes());
        header[8..].copy_from_slice(&(self.sent_at_ns & !MEASURED | mark).to_be_bytes());
        Some(())
    }

    /// Reads a probe from the start of `payload`; `None` if it is shorter than [`PROBE_LEN`].
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Probe> {
        let header = payload.first_chunk::<PROBE_LEN>()?;
        let (sequence, time) = header.split_at(8);
        let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
        let time = u64::from_be_bytes(time.try_into().ok()?);
        Some(Probe { sequence, measured: time & MEASURED != 0, sent_at_ns: time & !MEASURED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emitted_is_parsed() {
        for (sequence, measured, sent_at_ns) in [(0, false, 0), (u64::MAX, true, (1 << 63) - 1), (7, true, 12_345)] {
            let probe = Probe { sequence, measured, sent_at_ns };
            let mut payload = [0xA5; 18];
            probe.emit(&mut payload).unwrap();
            assert_eq!(Probe::parse(&payload), Some(probe));
            assert_eq!(payload[16..], [0xA5; 2], "the filler is left alone");
        }
    }

    #[test]
    fn the_layout_is_fixed() {
        let mut payload = [0; PROBE_LEN];
        Probe { sequence: 0x0102, measured: true, sent_at_ns: 0x0304 }.emit(&mut payload).unwrap();
        assert_eq!(payload, [0, 0, 0, 0, 0, 0, 1, 2, 0x80, 0, 0, 0, 0, 0, 3, 4]);
    }

    #[test]
    fn a_short_datagram_is_no_probe() {
        assert_eq!(Probe::parse(&[0; 15]), None);
        assert_eq!(Probe { sequence: 0, measured: false, sent_at_ns: 0 }.emit(&mut [0; 15]), None);
    }
}
