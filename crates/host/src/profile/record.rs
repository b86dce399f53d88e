//! The records that the kernel leaves in a ring of perf events: samples, and how many were lost.
//! Knows their layout (linux/perf_event.h); what is cut short or makes no sense is passed over.

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A CPU was found here.
    Sample(Sample<'a>),
    /// How many records found no room.
    Lost(u64),
    /// The kernel stopped sampling for a moment, because it took too much of a CPU.
    Throttled,
}

/// Where a CPU was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The process (what getpid(2) returns); 0 is an idle CPU.
    pub pid: u32,
    /// The instruction itself, for a sample whose chain is empty.
    ip: u64,
    /// It was in user mode.
    user: bool,
    /// Addresses of 64 bits, the innermost first; a marker stands before those of each mode.
    chain: &'a [u8],
}

/// PERF_RECORD_LOST, PERF_RECORD_THROTTLE, PERF_RECORD_SAMPLE.
const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const SAMPLE: u32 = 9;
/// PERF_RECORD_MISC_CPUMODE_MASK, and PERF_RECORD_MISC_USER among its values.
const MODE: u16 = 7;
const MODE_USER: u16 = 2;
/// Values from here on are markers in a chain (PERF_CONTEXT_MAX), and those of the two modes.
const MARKERS: u64 = (-4095i64) as u64;
const CONTEXT_KERNEL: u64 = (-128i64) as u64;
const CONTEXT_USER: u64 = (-512i64) as u64;

impl<'a> Record<'a> {
    /// Reads a record with its header; `None`: one of another kind, or none at all.
    pub fn read(octets: &'a [u8]) -> Option<Record<'a>> {
        let misc = u16::from_ne_bytes(octets.get(4..6)?.try_into().ok()?);
        let body = octets.get(8..)?;
        match u32_at(octets, 0)? {
            LOST => Some(Record::Lost(u64_at(body, 8)?)),
            THROTTLE => Some(Record::Throttled),
            SAMPLE => {
                let claimed = usize::try_from(u64_at(body, 16)?).ok()?;
                let chain = body.get(24..)?;
                let chain = chain.get(..claimed.checked_mul(8)?)?;
                let user = misc & MODE == MODE_USER;
                Some(Record::Sample(Sample { pid: u32_at(body, 8)?, ip: u64_at(body, 0)?, user, chain }))
            }
            _ => None,
        }
    }
}

impl Sample<'_> {
    /// The addresses, the innermost first, each with whether it is in user mode.
    pub fn frames(&self) -> impl Iterator<Item = (u64, bool)> {
        let mut user = self.user;
        let mut empty = true;
        let of_chain = self.chain.chunks_exact(8).filter_map(move |octets| {
            let address = u64::from_ne_bytes(octets.try_into().expect("chunks of eight"));
            match address {
                CONTEXT_KERNEL => user = false,
                CONTEXT_USER => user = true,
                // Of hypervisors and guests: not ours to tell.
                _ if address >= MARKERS => {}
                _ => return Some((address, user)),
            }
            None
        });
        let mut of_chain = of_chain.peekable();
        if of_chain.peek().is_some() {
            empty = false;
        }
        of_chain.chain(empty.then_some((self.ip, self.user)))
    }
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(octets: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(octets.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the kernel writes it, of this machine's order of octets.
    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * words.len() as u16;
        let mut octets = [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes()].concat();
        words.iter().for_each(|word| octets.extend_from_slice(&word.to_ne_bytes()));
        octets
    }

    fn ids(pid: u32, tid: u32) -> u64 {
        u64::from_ne_bytes([pid.to_ne_bytes(), tid.to_ne_bytes()].concat().try_into().unwrap())
    }

    #[track_caller]
    fn check(misc: u16, chain: &[u64], frames: &[(u64, bool)]) {
        let octets = record(SAMPLE, misc, &[&[0x77, ids(4, 5), chain.len() as u64], chain].concat());
        let Some(Record::Sample(sample)) = Record::read(&octets) else { panic!("no sample") };
        assert_eq!(sample.pid, 4);
        assert_eq!(sample.frames().collect::<Vec<_>>(), frames);
    }

    #[test]
    fn chains_of_both_modes() {
        check(1, &[CONTEXT_KERNEL, 10, 11, CONTEXT_USER, 12], &[(10, false), (11, false), (12, true)]);
        check(2, &[CONTEXT_USER, 12, 0], &[(12, true), (0, true)]);
        check(1, &[CONTEXT_KERNEL], &[(0x77, false)]);
        check(2, &[], &[(0x77, true)]);
        check(1, &[MARKERS, 9], &[(9, false)]);
    }

    #[test]
    fn other_records() {
        assert_eq!(Record::read(&record(LOST, 0, &[1, 42])), Some(Record::Lost(42)));
        assert_eq!(Record::read(&record(THROTTLE, 0, &[1, 2, 3])), Some(Record::Throttled));
        assert_eq!(Record::read(&record(3, 0, &[1, 2, 3])), None);
    }

    #[test]
    fn what_is_cut_short_is_no_record() {
        let whole = record(SAMPLE, 1, &[0x77, 4, 2, 10, 11]);
        assert!(Record::read(&whole).is_some());
        for len in 0..whole.len() {
            assert_eq!(Record::read(&whole[..len]), None, "{len} octets");
        }
        // It claims more addresses than it has, up to what no multiplication holds.
        for claimed in [3, 1 << 40, u64::MAX, u64::MAX / 8 + 1] {
            assert_eq!(Record::read(&record(SAMPLE, 1, &[0x77, 4, claimed, 10, 11])), None);
        }
    }
}
