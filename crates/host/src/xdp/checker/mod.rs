//! Counts test frames where they arrive, before the stack: an XDP program that checks numbers, takes delays, and drops
//! what is ours. Knows no senders.
//!
//! What holds to the frame, for each stream, once nothing is on its way any more:
//! `sent = received + lost`, where late frames are part of `received` and further copies are not. A copy is told from a
//! first arrival among the last [`Checker::window`] numbers, on however many CPUs frames arrive; one that comes later
//! than that is counted as received. Frames of another length than they were sent with are neither, where lengths are known.
//! Whether a frame was overtaken (`reordered`) is told by the order in which the CPUs
//! had them, which on one receive queue is the order in which they came.

mod program;

use std::collections::BTreeMap;
use std::io;

use linerate_machine::sync::Mutex;
use linerate_wire::frame::FCS_LEN;
use linerate_wire::template::Template;

use self::program::{ControlWords, Stream, Totals, program};
use super::attach::{AttachPoint, attach};
use super::error::XdpError;
use crate::sys::bpf::{Array, Attached, Counts, PerCpuArray, Program, ProgramKind};

/// What is to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckerOptions {
    /// The trial's: frames with another are strangers.
    pub secret: u32,
    /// Streams 0 to this, less one; 1 to [`MAX_STREAMS`].
    pub streams: u16,
    /// Frames that an echo sent back are counted, instead of those that come straight from a sender.
    pub echoed: bool,
    /// What the frames look like, where that is known: others are malformed, or strangers.
    pub expected: Option<Expected>,
    /// Which times are kept of the measured part.
    pub times: Times,
    /// In each stream so many flows take turns, each with a frame of each size; more than 1: each one's frames are counted, where the
    /// flows of all streams are not more than [`MAX_FLOWS`].
    pub flows: u16,
}

impl CheckerOptions {
    /// Frames of any kind and length with this secret, of so many streams, straight from a sender, and their delays.
    pub const fn new(secret: u32, streams: u16) -> CheckerOptions {
        CheckerOptions { secret, streams, echoed: false, expected: None, times: Times::Delays, flows: 1 }
    }
}

/// What frames look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Their kind, their tags.
    pub template: Template,
    /// Their sizes, FCS counted, by their numbers: over and over, 1 to [`MAX_SIZES`] of them.
    pub sizes: Vec<u32>,
}

/// Which times are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// From the time in a frame to its arrival: meaningful where sender and receiver share a clock.
    Delays,
    /// Between two arrivals of a stream.
    Gaps,
    /// By how much such a gap is off from this one, nanoseconds.
    GapErrors(u32),
}

/// The most sizes that take turns.
pub const MAX_SIZES: usize = 64;

/// The most flows of all streams together whose frames are counted.
pub const MAX_FLOWS: u32 = 1 << 14;

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

/// What came at a time when it counts apart, of the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateCounts {
    /// Different frames after [`Checker::end_stream`].
    pub late: u64,
    /// Different frames after that, or after the window ([`Checker::end_window`]).
    pub outside: u64,
    /// Their octets, as in [`PartCounts`].
    pub outside_octets: u64,
}

/// What a stream's frames came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// The measured part.
    pub measured: PartCounts,
    /// The warm-up.
    pub warmup: PartCounts,
    /// Frames of the measured part that came behind its time; they are part of `measured`.
    pub behind: LateCounts,
    /// Frames of another length than they were sent with, where that is known.
    pub malformed: u64,
    /// Frames of the measured part by their place in the mix of sizes, where there is one.
    pub places: Vec<u64>,
    /// How often a number leapt over others, which were lost or came later.
    pub gaps: u64,
    /// The number after the highest that came, of 64 bits: numbers of frames begin again after 2^32.
    pub next: u64,
    /// When the first and the last frame came, nanoseconds of CLOCK_MONOTONIC.
    pub first_ns: Option<u64>,
    /// See [`StreamCounts::first_ns`].
    pub last_ns: Option<u64>,
    /// When the first of the measured part came.
    pub first_measured_ns: Option<u64>,
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

/// Times of frames of the measured part, by [`CheckerOptions::times`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeCounts {
    /// Only buckets that have some.
    pub buckets: Vec<TimeBucket>,
    /// Frames that came before they were sent, by unlike clocks.
    pub from_the_future: u64,
}

/// How many times are at least `from_ns` and below `to_ns`. Buckets are a 64th of a power of two wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBucket {
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
    place: AttachPoint,
    window: u32,
    sizes: usize,
    /// In a stream; 1 where they are not counted.
    flows: u16,
    telling: Mutex<()>,
    _attached: Attached,
}

/// What the program writes to, and reads.
#[derive(Debug)]
struct Maps {
    /// What this process tells: one value of [`ControlWords`].
    told: Array,
    /// The lengths that are expected, as [`program`] counts them: one value.
    sizes: Array,
    /// A [`Stream`] each.
    streams: PerCpuArray,
    /// Their times, by buckets.
    times: PerCpuArray,
    /// Runs of numbers that were leapt over: stream and length, 32 bits each, as this machine writes them.
    leaps: Counts<8>,
    /// The next number of each, a cache line apart.
    next: Array,
    /// The last number seen at each place of each stream's window, 32 bits each.
    seen: Array,
    /// Different frames of each flow, one stream's after the other's.
    flows: PerCpuArray,
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
/// Different lengths of runs that are told apart, of all streams together.
const LEAPS: u32 = 1024;

impl Checker {
    /// Begins to count at an interface of the thread's network namespace: where it is `wanted`, or in the driver, and where
    /// that takes no program, in the stack.
    pub fn attach(interface: &str, options: &CheckerOptions, wanted: Option<AttachPoint>) -> Result<Checker, XdpError> {
        let streams = options.streams.clamp(1, MAX_STREAMS);
        let all_flows = u32::from(streams) * u32::from(options.flows);
        let flows = if all_flows <= MAX_FLOWS { options.flows.max(1) } else { 1 };
        let options = CheckerOptions { streams, flows, ..options.clone() };
        let window = (SEEN / u32::from(streams).next_power_of_two()).min(MAX_WINDOW);
        let make = |streams: u32| -> io::Result<Maps> {
            Ok(Maps {
                told: Array::new(1, ControlWords::WORDS)?,
                sizes: Array::new(1, MAX_SIZES)?,
                streams: PerCpuArray::new(streams, Stream::WORDS)?,
                times: PerCpuArray::new(streams, Stream::BUCKETS)?,
                leaps: Counts::new(LEAPS)?,
                next: Array::new(streams, LINE_WORDS)?,
                seen: Array::new(streams, window as usize / 2)?,
                flows: PerCpuArray::new(streams * u32::from(flows), 1)?,
                totals: PerCpuArray::new(1, Totals::WORDS)?,
                ethertypes: Counts::new(ETHERTYPES)?,
            })
        };
        let maps = make(u32::from(streams)).map_err(XdpError::map)?;
        let lengths = options.expected.as_ref().map_or_else(Vec::new, Expected::lengths);
        let mut words = vec![0; MAX_SIZES];
        words.iter_mut().zip(&lengths).for_each(|(word, length)| *word = *length);
        maps.sizes.write(0, &words).map_err(XdpError::map)?;
        let mut told = vec![0; ControlWords::WORDS];
        told[ControlWords::WINDOW_END..].fill(u64::MAX);
        maps.told.write(0, &told).map_err(XdpError::map)?;
        let load = |is_atomic| {
            let code = program(&options, &lengths, &maps, window, is_atomic);
            Program::load(ProgramKind::Xdp, &code)
        };
        // Before Linux 5.12, and on processors whose compiler lacks it, nothing can be exchanged atomically.
        let program = load(true).or_else(|_| load(false)).map_err(XdpError::load)?;
        let (attached, place) = attach(&program, interface, wanted)?;
        Ok(Checker { maps, place, window, sizes: lengths.len(), flows, telling: Mutex::default(), _attached: attached })
    }

    /// Frames of this stream's measured part that come at this time of CLOCK_MONOTONIC or later are outside.
    pub fn end_window(&self, stream: u16, ns: u64) -> io::Result<()> {
        self.tell(ControlWords::WINDOW_END + usize::from(stream.min(MAX_STREAMS - 1)), ns)
    }

    /// Frames of this stream that come from now on are late.
    pub fn end_stream(&self, stream: u16) -> io::Result<()> {
        self.tell(ControlWords::ENDED + usize::from(stream.min(MAX_STREAMS - 1)), 1)
    }

    fn tell(&self, word: usize, value: u64) -> io::Result<()> {
        let _one_at_a_time = self.telling.lock();
        let mut told = self.maps.told.read(0)?;
        told[word] = value;
        self.maps.told.write(0, &told)
    }

    /// Where the program runs.
    pub fn place(&self) -> AttachPoint {
        self.place
    }

    /// Among how many numbers copies are told from first arrivals.
    pub fn window(&self) -> u32 {
        self.window
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
        Ok(StreamCounts {
            measured: part(Stream::MEASURED),
            warmup: part(Stream::WARMUP),
            behind: LateCounts {
                late: sum(Stream::LATE),
                outside: sum(Stream::OUTSIDE),
                outside_octets: sum(Stream::OUTSIDE_OCTETS),
            },
            malformed: sum(Stream::MALFORMED),
            places: match self.sizes {
                0 | 1 => Vec::new(),
                sizes => (Stream::PLACES..).take(sizes).map(sum).collect(),
            },
            gaps: sum(Stream::GAPS),
            next: self.maps.next.read(index)?[0],
            first_ns: times(Stream::FIRST).min(),
            last_ns: times(Stream::LAST).max(),
            first_measured_ns: times(Stream::FIRST_MEASURED).min(),
        })
    }

    /// Different frames of each of a stream's flows so far; `None`: they are not counted.
    pub fn flows(&self, stream: u16) -> io::Result<Option<Vec<u64>>> {
        let flows = u32::from(self.flows);
        let all = u32::from(stream) * flows..(u32::from(stream) + 1) * flows;
        (flows > 1).then(|| all.map(|flow| Ok(self.maps.flows.sum(flow)?[0])).collect()).transpose()
    }

    /// A stream's times so far.
    pub fn times(&self, stream: u16) -> io::Result<TimeCounts> {
        let index = u32::from(stream);
        let frames = self.maps.times.sum(index)?;
        let bounds = |bucket: usize| bucket_from_ns(bucket as u64);
        let buckets = (0..).zip(frames).filter(|(_, frames)| *frames > 0);
        let bucket = |(at, frames)| TimeBucket { from_ns: bounds(at), to_ns: bounds(at + 1), frames };
        let from_the_future = self.maps.streams.sum(index)?[Stream::FROM_THE_FUTURE];
        Ok(TimeCounts { buckets: buckets.map(bucket).collect(), from_the_future })
    }

    /// How often numbers of a stream leapt over so many, by how many. `None`: there were more lengths than are told apart.
    pub fn leaps(&self, stream: u16) -> io::Result<Option<BTreeMap<u64, u64>>> {
        let mut leaps = BTreeMap::new();
        for (key, count) in self.maps.leaps.read()? {
            let (of, length) = key.split_at(4);
            let word = |half: &[u8]| half.first_chunk().copied().map_or(0, u32::from_ne_bytes);
            if word(of) == u32::from(stream) {
                *leaps.entry(word(length).into()).or_insert(0) += count;
            }
        }
        let counted: u64 = leaps.values().sum();
        Ok((counted == self.stream(stream)?.gaps).then_some(leaps))
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

impl Expected {
    /// Octets of each frame in turn without FCS, with all tags in it.
    fn lengths(&self) -> Vec<u64> {
        let mut lengths: Vec<u64> =
            self.sizes.iter().take(MAX_SIZES).map(|size| u64::from(*size).saturating_sub(FCS_LEN as u64)).collect();
        if lengths.windows(2).all(|pair| pair[0] == pair[1]) {
            lengths.truncate(1);
        }
        lengths
    }
}

/// The least of a bucket: 0 to 63 ns have one each, then every power of two has 64, up to some seconds.
fn bucket_from_ns(bucket: u64) -> u64 {
    const EACH: u64 = 1 << Stream::BUCKET_BITS;
    match bucket {
        0..EACH => bucket,
        _ if bucket >= Stream::BUCKETS as u64 => u64::MAX,
        _ => (EACH + bucket % EACH) << (bucket / EACH - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!([0, 63, 64, 127, 128, 129, 192].map(bucket_from_ns), [0, 63, 64, 127, 128, 130, 256]);
        assert!((0..Stream::BUCKETS as u64).all(|bucket| bucket_from_ns(bucket) < bucket_from_ns(bucket + 1)));
        assert_eq!(bucket_from_ns(Stream::BUCKETS as u64), u64::MAX, "the last has all that there are");
        assert!(bucket_from_ns(Stream::BUCKETS as u64 - 1) > 10_000_000_000);
    }
}
