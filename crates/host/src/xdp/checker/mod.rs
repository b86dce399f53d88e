//! Counts test frames where they arrive, before the stack: an XDP program that checks numbers, takes delays, and drops
//! what is ours. Knows no senders.
//!
//! What holds to the frame, for each stream, once nothing is on its way any more:
//! `sent = received + lost`, where late frames are part of `received` and further copies are not. A copy is told from a
//! first arrival among the last [`Checker::window`] numbers, on however many CPUs frames arrive; one that comes later
//! than that is counted as received. Whether a frame was overtaken (`reordered`) is told by the order in which the CPUs
//! had them, which on one receive queue is the order in which they came.

mod program;

use std::io;

use self::program::{Stream, Totals, program};
use super::attach::{Place, attach};
use super::error::XdpError;
use crate::sys::bpf::{Array, Attached, Counts, PerCpuArray, Program, ProgramKind};

/// What is to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckerOptions {
    /// The trial's: frames with another are strangers.
    pub secret: u32,
    /// Streams 0 to this, less one; 1 to [`MAX_STREAMS`].
    pub streams: u16,
    /// Frames that an echo sent back are counted, instead of those that come straight from a sender.
    pub echoed: bool,
}

/// The most streams that one program counts.
pub const MAX_STREAMS: u16 = 256;

/// What a stream's frames came to: of the warm-up, or of the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounts {
    /// Different frames.
    pub received: u64,
    /// Their octets, without FCS.
    pub octets: u64,
    /// Further copies.
    pub duplicated: u64,
    /// Those of `received` that came after one with a higher number (RFC 4737, section 3).
    pub reordered: u64,
}

/// What a stream's frames came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// The measured part.
    pub measured: PartCounts,
    /// The warm-up.
    pub warmup: PartCounts,
    /// How often a number leapt over others, which were lost or came later.
    pub gaps: u64,
    /// The number after the highest that came, of 64 bits: numbers of frames begin again after 2^32.
    pub next: u64,
    /// When the first and the last frame came, nanoseconds of CLOCK_MONOTONIC.
    pub first_ns: Option<u64>,
    /// See [`StreamCounts::first_ns`].
    pub last_ns: Option<u64>,
    /// Frames of the measured part by their delay, from the time in them to arrival: meaningful where sender and receiver
    /// share a clock. Only buckets that have some.
    pub delays: Vec<DelayBucket>,
    /// Frames that came before they were sent, by unlike clocks.
    pub from_the_future: u64,
}

impl StreamCounts {
    /// Different frames of both parts.
    pub fn received(&self) -> u64 {
        self.measured.received + self.warmup.received
    }

    /// Frames that did not arrive, of so many that were sent in both parts. Negative only where a copy came more than a
    /// window late.
    pub fn lost(&self, sent: u64) -> i64 {
        sent as i64 - self.received() as i64
    }
}

/// So many delays that are at least `from_ns` and below `to_ns`. Buckets are an eighth of a power of two wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayBucket {
    /// The least.
    pub from_ns: u64,
    /// More than the most.
    pub to_ns: u64,
    /// How many.
    pub frames: u64,
}

/// What else arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Frames that are none of this trial's; they went on to the stack.
    pub strangers: u64,
    /// Those by EtherType, behind up to two tags; 64 different ones at most.
    pub by_ethertype: Vec<(u16, u64)>,
    /// Frames with this trial's secret that are of no stream, or go the other way; they were dropped.
    pub strays: u64,
    /// Handshakes with this trial's secret; they went on to the stack.
    pub handshakes: u64,
}

/// Counts at an interface until it is dropped.
#[derive(Debug)]
pub struct Checker {
    maps: Maps,
    place: Place,
    window: u32,
    is_atomic: bool,
    _attached: Attached,
}

/// What the program writes to.
#[derive(Debug)]
struct Maps {
    /// A [`Stream`] each.
    streams: PerCpuArray,
    /// The next number of each, a cache line apart.
    next: Array,
    /// The last number seen at each place of each stream's window, 32 bits each.
    seen: Array,
    /// The [`Totals`].
    totals: PerCpuArray,
    /// Strangers by EtherType, as it stands in the frame.
    ethertypes: Counts<2>,
}

/// Words between two streams' next numbers.
const LINE_WORDS: usize = 8;
/// Numbers in all windows together, at most.
const SEEN: u32 = 1 << 21;
const MAX_WINDOW: u32 = 1 << 16;
const ETHERTYPES: u32 = 64;

impl Checker {
    /// Begins to count at an interface of the thread's network namespace: where it is `wanted`, or in the driver, and where
    /// that takes no program, in the stack.
    pub fn attach(interface: &str, options: CheckerOptions, wanted: Option<Place>) -> Result<Checker, XdpError> {
        let streams = options.streams.clamp(1, MAX_STREAMS);
        let window = (SEEN / u32::from(streams).next_power_of_two()).min(MAX_WINDOW);
        let make = |streams: u32| -> io::Result<Maps> {
            Ok(Maps {
                streams: PerCpuArray::new(streams, Stream::WORDS)?,
                next: Array::new(streams, LINE_WORDS)?,
                seen: Array::new(streams, window as usize / 2)?,
                totals: PerCpuArray::new(1, Totals::WORDS)?,
                ethertypes: Counts::new(ETHERTYPES)?,
            })
        };
        let maps = make(u32::from(streams)).map_err(XdpError::map)?;
        let load = |is_atomic| {
            let code = program(CheckerOptions { streams, ..options }, &maps, window, is_atomic);
            Program::load(ProgramKind::Xdp, &code)
        };
        // Before Linux 5.12, and on processors whose compiler lacks it, nothing can be exchanged atomically.
        let (program, is_atomic) = match load(true) {
            Ok(program) => (program, true),
            Err(_) => (load(false).map_err(XdpError::load)?, false),
        };
        let (attached, place) = attach(&program, interface, wanted)?;
        Ok(Checker { maps, place, window, is_atomic, _attached: attached })
    }

    /// Where the program runs.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Among how many numbers copies are told from first arrivals.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Whether copies and order are exact too where one stream's frames arrive on several CPUs at once.
    pub fn is_exact_on_several_queues(&self) -> bool {
        self.is_atomic
    }

    /// What a stream's frames came to so far.
    pub fn stream(&self, stream: u16) -> io::Result<StreamCounts> {
        let index = u32::from(stream);
        let cpus = self.maps.streams.read(index)?;
        let sum = |word: usize| cpus.iter().map(|cpu| cpu[word]).fold(0, u64::wrapping_add);
        let times = |word: usize| cpus.iter().map(move |cpu| cpu[word]).filter(|ns| *ns > 0);
        let part = |from: usize| PartCounts {
            received: sum(from + Stream::RECEIVED),
            octets: sum(from + Stream::OCTETS),
            duplicated: sum(from + Stream::DUPLICATED),
            reordered: sum(from + Stream::REORDERED),
        };
        let delays = (0..Stream::BUCKETS).filter_map(|bucket| {
            let frames = sum(Stream::DELAYS + bucket);
            let bounds = |bucket| bucket_from_ns(bucket as u64);
            (frames > 0).then(|| DelayBucket { from_ns: bounds(bucket), to_ns: bounds(bucket + 1), frames })
        });
        Ok(StreamCounts {
            measured: part(Stream::MEASURED),
            warmup: part(Stream::WARMUP),
            gaps: sum(Stream::GAPS),
            next: self.maps.next.read(index)?[0],
            first_ns: times(Stream::FIRST).min(),
            last_ns: times(Stream::LAST).max(),
            delays: delays.collect(),
            from_the_future: sum(Stream::FROM_THE_FUTURE),
        })
    }

    /// What else arrived so far.
    pub fn others(&self) -> io::Result<Others> {
        let totals = self.maps.totals.sum(0)?;
        let mut by_ethertype: Vec<_> =
            self.maps.ethertypes.read()?.into_iter().map(|(key, frames)| (u16::from_be_bytes(key), frames)).collect();
        by_ethertype.sort_by_key(|(ethertype, frames)| (std::cmp::Reverse(*frames), *ethertype));
        Ok(Others {
            strangers: totals[Totals::STRANGERS],
            by_ethertype,
            strays: totals[Totals::STRAYS],
            handshakes: totals[Totals::HANDSHAKES],
        })
    }
}

/// The least of a bucket: 0 to 7 ns have one each, then every power of two has eight.
fn bucket_from_ns(bucket: u64) -> u64 {
    match bucket {
        0..8 => bucket,
        _ => u64::try_from(u128::from(8 + bucket % 8) << (bucket / 8 - 1)).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!([0, 7, 8, 15, 16, 17, 24].map(bucket_from_ns), [0, 7, 8, 15, 16, 18, 32]);
        assert!((0..Stream::BUCKETS as u64).all(|bucket| bucket_from_ns(bucket) < bucket_from_ns(bucket + 1)));
        assert_eq!(bucket_from_ns(Stream::BUCKETS as u64), u64::MAX, "the last has all that there are");
    }
}
