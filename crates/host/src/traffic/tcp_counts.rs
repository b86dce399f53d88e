//! What TCP counts of one connection in 32 bits, carried on beyond them: at 10 Gbit/s its segments wrap in 85 minutes.
//! Knows no sockets but by what the kernel tells of them.

use linerate_trial::outcome::TcpSummary;

use crate::sys::socket_state::{Field32, TcpInfo};

/// A connection's counts as of the last look, since it was opened.
#[derive(Clone, Debug, Default)]
pub struct TcpCounts {
    /// In the order of [`FIELDS`]; `None` where this kernel has none.
    totals: [Option<u64>; FIELDS.len()],
    looked_ns: u64,
    /// What the flow had moved by then.
    octets: u64,
    /// Too long passed between two looks: nobody knows how often a count wrapped.
    lost_track: bool,
}

const FIELDS: [Field32; 4] = [Field32::TotalRetrans, Field32::DataSegsOut, Field32::DataSegsIn, Field32::RcvOoopack];

/// Within this time no connection moves 2^32 segments: that would be 400 million a second.
const SOON_NS: u64 = 10_000_000_000;
/// Looks cost a system call; so often is more than enough.
const PERIOD_NS: u64 = 400_000_000;

impl TcpCounts {
    /// Counts of a connection that has just been opened.
    pub fn new(now_ns: u64) -> TcpCounts {
        TcpCounts { looked_ns: now_ns, ..TcpCounts::default() }
    }

    /// Whether it is time to look.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_ns) >= PERIOD_NS
    }

    /// The kernel's counts are these now, of a flow that has moved so many octets.
    pub fn handle_info(&mut self, info: &TcpInfo, now_ns: u64, octets: u64) {
        self.handle_counts(FIELDS.map(|field| info.get32(field)), now_ns, octets);
    }

    fn handle_counts(&mut self, counts: [Option<u32>; FIELDS.len()], now_ns: u64, octets: u64) {
        // Each segment carries an octet at least.
        let is_bounded =
            now_ns.saturating_sub(self.looked_ns) < SOON_NS || octets.saturating_sub(self.octets) < 1 << 32;
        self.lost_track |= !is_bounded;
        for (total, count) in self.totals.iter_mut().zip(counts) {
            let before = total.unwrap_or(0);
            *total = count.map(|low| before + u64::from(low.wrapping_sub(before as u32)));
        }
        (self.looked_ns, self.octets) = (now_ns, octets);
    }

    /// The flow's own last reading in full, and what cannot be known absent. It was made within seconds of the last look,
    /// before or after it.
    pub fn carry_on(&self, summary: &mut TcpSummary) {
        let [retransmissions, sent, received, reordered] = self.totals;
        let full = |low: u64, total: Option<u64>| {
            // Nobody looked: the flow's thread has carried it on by itself (`segments`), or it is short.
            let Some(total) = total else { return low };
            let difference = (low as u32).wrapping_sub(total as u32).cast_signed();
            total.saturating_add_signed(difference.into())
        };
        summary.retransmissions = full(summary.retransmissions, retransmissions);
        for (count, total) in [
            (&mut summary.segments_sent, sent),
            (&mut summary.segments_received, received),
            (&mut summary.reordered_segments, reordered),
        ] {
            *count = count.filter(|_| !self.lost_track).map(|low| full(low, total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn counts(of: [u64; 4]) -> [Option<u32>; 4] {
        of.map(|count| Some(count as u32))
    }

    fn summary(of: [u64; 4]) -> TcpSummary {
        let [retransmissions, sent, received, reordered] = of.map(|count| u64::from(count as u32));
        TcpSummary {
            retransmissions,
            segments_sent: Some(sent),
            segments_received: Some(received),
            reordered_segments: Some(reordered),
            ..TcpSummary::default()
        }
    }

    #[test]
    fn segments_are_counted_beyond_32_bits() {
        // Three hours at 863,000 segments a second, looked at every half second; some are retransmitted.
        let at = |half_s: u64| [half_s * 431, half_s * 431_500, half_s * 215_000, half_s * 3];
        let mut carried = TcpCounts::new(0);
        let last = 3 * 7200;
        for half_s in 1..=last {
            carried.handle_counts(counts(at(half_s)), half_s * SECOND / 2, half_s * 431_500 * 1448);
        }
        assert!(at(last)[1] > 2 << 32);
        for now in [last - 1, last, last + 3] {
            let mut read = summary(at(now));
            carried.carry_on(&mut read);
            let [retransmissions, sent, received, reordered] = at(now);
            assert_eq!(
                (read.retransmissions, read.segments_sent, read.segments_received, read.reordered_segments),
                (retransmissions, Some(sent), Some(received), Some(reordered))
            );
        }
    }

    #[test]
    fn what_may_have_wrapped_unseen_is_absent() {
        let of = [0, 50_000, 1, 0];
        let mut carried = TcpCounts::new(0);
        carried.handle_counts(counts(of), 60 * SECOND, (1 << 32) - 1);
        let mut read = summary(of);
        carried.carry_on(&mut read);
        assert_eq!(read.segments_sent, Some(50_000), "a minute in which no 2^32 octets passed");
        carried.handle_counts(counts(of), 120 * SECOND, 2 << 32);
        let mut read = summary(of);
        carried.carry_on(&mut read);
        assert_eq!((read.segments_sent, read.segments_received, read.reordered_segments), (None, None, None));
    }

    #[test]
    fn a_short_connection_and_an_old_kernel_are_as_they_were() {
        let mut read = summary([5, 6, 7, 8]);
        TcpCounts::new(0).carry_on(&mut read);
        assert_eq!(read, summary([5, 6, 7, 8]));
        let mut old = TcpSummary { retransmissions: 5, ..TcpSummary::default() };
        let mut carried = TcpCounts::new(0);
        carried.handle_counts([Some(4), None, None, None], SECOND, 1);
        carried.carry_on(&mut old);
        assert_eq!((old.retransmissions, old.segments_sent), (5, None));
    }
}
