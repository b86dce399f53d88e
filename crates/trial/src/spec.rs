//! What one trial is asked to do: the table of its options, and which go together.
//! Parsing, `asked`, help and docs/plans.md follow from the rows.

use std::time::Duration;

use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_machine::words;
use serde::{Deserialize, Serialize};

use crate::api::{ReceiverApi, SenderApi, Timestamps};
use crate::frames::{FrameKind, FrameSizes, MAX_FLOWS, VlanTags};
use crate::options::kind::{
    Auto, BitRate, ByOctets, ByTime, CodePoint, Field, Load, MOST_BYTES, Name, ON_OFF, PowerOfTwo, SampleRate, TRUTH,
    WHOLE,
};
use crate::options::kind::{Kind, Sizes, Tags};
use crate::options::kind::{Words, size, time, within};
use crate::options::{Applies, OptionRow};
use crate::pace::Pacing;
use crate::wire::{IpVersion, PROBE_LEN};

words! {
    /// What traffic.
    Workload {
        /// One-way bytes over TCP.
        TcpStream = "tcp-stream",
        /// One-way numbered datagrams over UDP.
        UdpStream = "udp-stream",
        /// Requests and responses over one TCP connection.
        TcpRr = "tcp-rr",
        /// Requests and responses over UDP.
        UdpRr = "udp-rr",
        /// A TCP connection for each request and response.
        TcpCrr = "tcp-crr",
        /// One-way numbered Ethernet frames.
        Frames = "frames",
    }
}

impl Workload {
    /// Those that go over sockets of IP, as other tools' do; frames go beside it.
    pub fn over_ip() -> impl Iterator<Item = Workload> {
        Workload::ALL.into_iter().filter(|workload| *workload != Workload::Frames)
    }

    /// One-way traffic, rather than requests and responses.
    pub const fn is_stream(self) -> bool {
        matches!(self, Workload::TcpStream | Workload::UdpStream | Workload::Frames)
    }

    /// A stream whose packets bear numbers, so that each that is lost is known.
    pub const fn is_numbered(self) -> bool {
        matches!(self, Workload::UdpStream | Workload::Frames)
    }

    /// Carried by TCP.
    pub const fn is_tcp(self) -> bool {
        matches!(self, Workload::TcpStream | Workload::TcpRr | Workload::TcpCrr)
    }

    /// Carried by UDP.
    pub const fn is_udp(self) -> bool {
        matches!(self, Workload::UdpStream | Workload::UdpRr)
    }
}

/// When a measurement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// After this time, counted from the end of the warm-up.
    Time(Duration),
    /// After this many octets of payload, on each stream.
    Octets(u64),
}

words! {
    /// How departures are spaced under a limited offered load.
    Spacing {
        /// The same gap each time.
        Even = "even",
        /// Gaps drawn from the exponential distribution: Poisson arrivals.
        Poisson = "poisson",
    }
}

words! {
    /// How CPU use is measured.
    CpuMethod {
        /// The kernel's own accounting, /proc/stat.
        Stat = "stat",
        /// Idle capacity, by spinning threads of the lowest priority (what netperf calls a looper).
        Soak = "soak",
    }
}

words! {
    /// IPv4 or IPv6, as an option.
    Ip {
        /// IPv4.
        V4 = "4",
        /// IPv6.
        V6 = "6",
    }
}

/// The most streams in one direction.
pub const MAX_STREAMS: u16 = 128;
/// The largest write of a TCP stream.
pub const MAX_MESSAGE: u32 = 16 << 20;
/// The largest UDP payload: 65,535 less the headers of IPv4 and UDP.
pub const MAX_DATAGRAM: u32 = 65_507;
/// The most requests under way at once on a stream.
pub const MAX_OUTSTANDING: u32 = 256;
/// The most time slices in a record, so that a trial stays in bounded memory.
pub const MAX_SLICES: u128 = 10_000;
/// The most octets of frames that a sender holds ready.
const MOST_PREPARED: u64 = 64 << 20;
/// The most messages to one system call.
pub const MAX_BATCH: u32 = 1024;
/// The most samples a second of a profile: more would measure itself.
pub const MAX_PROFILE_HZ: u32 = 10_000;
/// Samples a second where a profile is asked for without a number. Not 1000, so as to fall on no clock's beat.
pub const USUAL_PROFILE_HZ: u32 = 999;
/// Requests a second of the probe that runs beside a stream.
pub const PROBE_PPS: u64 = 100;

/// A row for each option: what it does, its name, its type, what is usual, where it does something, and what its text
/// looks like. The first field has two options, which stand in braces.
macro_rules! options {
    (
        $(#[doc = $ending:literal])+ $extent:ident: $Extent:ty = $usually:expr, {
            $($(#[doc = $sub:literal])+ $option:ident, in $where:ident, $how:expr;)+
        };
        $($(#[doc = $about:literal])+ $field:ident: $Type:ty = $usual:expr, in $applies:ident, $kind:expr;)+
    ) => {
        /// Everything a trial is asked to do. Sizes in octets.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Spec {
            $(#[doc = $ending])+ pub $extent: $Extent,
            $($(#[doc = $about])+ pub $field: $Type,)+
        }

        impl Default for Spec {
            fn default() -> Spec {
                Spec { $extent: $usually, $($field: $usual,)+ }
            }
        }

        impl Spec {
            /// The first option whose value is not allowed. Apart from the table: an agent has no use for texts, and no room.
            fn out_of_bounds(&self) -> Option<&'static str> {
                $(if !$how.holds(&self.$extent) {
                    return Some(stringify!($option));
                })+
                $(if !$kind.holds(&self.$field) {
                    return Some(stringify!($field));
                })+
                None
            }
        }

        /// Every option there is, in the order in which help texts show them.
        pub static OPTIONS: &[OptionRow] = &[
            $(options!(@row $extent $option [$($sub),+] $where $how),)+
            $(options!(@row $field $field [$($about),+] $applies $kind),)+
        ];
    };
    (@row $field:ident $name:ident $about:tt $applies:ident $kind:expr) => {
        OptionRow {
            name: stringify!($name),
            about: &$about,
            applies: Applies::$applies,
            field: &Field { kind: $kind, of: |spec| &spec.$field, of_mut: |spec| &mut spec.$field },
        }
    };
}

options! {
    /// When the measurement ends.
    extent: Extent = Extent::Time(Duration::from_secs(10)), {
        /// How long to measure, after the warm-up.
        duration, in All, ByTime(time(1));
        /// Payload of each stream, instead of a duration and without a warm-up.
        bytes, in Streams, ByOctets(size(1, MOST_BYTES));
    };
    /// What traffic.
    workload: Workload = Workload::TcpStream, in All, Words;
    /// Who sends, seen from the target; of requests, who asks.
    /// `tx`: the target sends, or asks; `rx`: the target receives, or answers.
    direction: Direction = Direction::Rx, in All, Words;
    /// Time at the start that is left out of the figures.
    warmup: Duration = Duration::ZERO, in All, time(0);
    /// Length of the time slices in the record.
    interval: Duration = Duration::from_secs(1), in All, time(10);
    /// Offered load of each stream, or rate of requests.
    /// Bits per second for streams, packets per second for UDP streams and requests. A part of the line rate, like `95%`, is
    /// for frames and UDP streams, which share it: of frames with preamble and gap, of datagrams with all their headers.
    rate: OfferedLoad = OfferedLoad::Unlimited, in All, Load;
    /// The line rate of which a `rate` in per cent is a part, bits per second; `auto`: what the slower end's link says.
    line_rate: Option<OfferedLoad> = None, in Numbered, Auto(BitRate);
    /// Offered load of each stream for the first `first_time` of the measured part (and the warm-up), in place of `rate`: an
    /// overload, say, that the path recovers from. `auto`: `rate` all the time.
    first_rate: Option<OfferedLoad> = None, in Numbered, Auto(Load);
    /// How long `first_rate` lasts.
    first_time: Duration = Duration::ZERO, in Numbered, time(0);
    /// Messages sent back to back under a limited rate.
    burst: u32 = 1, in All, within(1, 1000);
    /// How departures are spaced under a limited rate.
    spacing: Spacing = Spacing::Even, in All, Words;
    /// Who keeps a sender to its rate.
    /// `application`: its own thread, which `auto` becomes; `fq`: the kernel, told the rate; `txtime`: the kernel, told
    /// each datagram's time, udp-stream only. docs/method.md says what each needs.
    pacing: Option<Pacing> = None, in Streams, Auto(Words);
    /// Payload of each write or datagram.
    /// `auto`: 1470 (IPv6: 1450) for UDP; for TCP a whole train of segments, under a limited rate what a millisecond
    /// brings.
    message_size: Option<u32> = None, in SocketStreams, Auto(size(1, MAX_MESSAGE as u64));
    /// Size of each frame, FCS counted: Linux itself has four bytes less in hand.
    /// A mix is sent over and over, its sizes spread evenly, and its loss is counted by size. `auto`: the smallest that the
    /// headers leave room for, which is 64 but for `udp6` and for `udp4` with VLAN tags.
    frame_size: Option<FrameSizes> = None, in Frames, Auto(Sizes);
    /// What a frame carries: `raw` nothing, under EtherType 0x88B5; `udp4` and `udp6` UDP over IP, between test networks.
    /// `auto`: `udp4` where flows, dscp or ttl need IP, else `raw`. A receiver does not look at what fills a frame.
    frame_kind: Option<FrameKind> = None, in Frames, Auto(Words);
    /// VLAN tags in each frame, within its size.
    vlan: VlanTags = VlanTags::default(), in Frames, Tags;
    /// Flows that each stream is made of: IP addresses and UDP ports that take turns.
    flows: u16 = 1, in Frames, within(1, MAX_FLOWS as u64);
    /// How often an end that receives shows its Ethernet address, so that no bridge on the way forgets it and sends its frames to
    /// all ports. `auto`: every 100 s; bridges forget after 300 s.
    learning: Option<Duration> = None, in Frames, Auto(time(100));
    /// Parallel streams in each direction, each with a thread of its own.
    streams: u16 = 1, in All, within(1, MAX_STREAMS as u64);
    /// The Internet Protocol; `auto`: whichever both ends share, IPv4 first.
    ip: Option<Ip> = None, in All, Auto(Words);
    /// SO_SNDBUF and SO_RCVBUF; `auto`: what the system gives.
    socket_buffer: Option<u32> = None, in All, Auto(size(0, 1 << 30));
    /// TCP_MAXSEG, from the smallest that Linux accepts.
    mss: Option<u16> = None, in Tcp, Auto(within(88, u16::MAX as u64));
    /// TCP_NODELAY; `auto`: only for requests and responses.
    nodelay: Option<bool> = None, in Tcp, Auto(TRUTH);
    /// TCP_CONGESTION; `auto`: what the system gives.
    congestion_control: Option<String> = None, in Tcp, Auto(Name { like: "cubic, reno or bbr", longest: 15 });
    /// Differentiated services code point.
    dscp: u8 = 0, in All, CodePoint(within(0, 63));
    /// SO_PRIORITY: by it prio, mqprio and taprio choose a queue, and a VLAN its priority bits.
    /// `auto`: what the kernel makes of `dscp`; above 6 needs CAP_NET_ADMIN.
    priority: Option<u8> = None, in All, Auto(within(0, 15));
    /// Hops that what linerate sends may take (IP_TTL, IPV6_UNICAST_HOPS): 1 stays on the link, whatever the routes say.
    ttl: Option<u8> = None, in All, Auto(within(1, u8::MAX as u64));
    /// Payload of a request.
    request_size: u32 = 64, in Requests, size(1, MAX_MESSAGE as u64);
    /// Payload of a response.
    response_size: u32 = 64, in Requests, size(1, MAX_MESSAGE as u64);
    /// Requests under way at once on each stream; tcp-crr has one.
    outstanding: u32 = 1, in Requests, within(1, MAX_OUTSTANDING as u64);
    /// How data goes to the socket, at whichever end sends.
    /// `auto` is *plain* at the target, of frames the fastest; docs/method.md, *Who uses which API*. TCP: `plain`,
    /// `sendfile`, `zerocopy`, `splice`, `io-uring`, `io-uring-zerocopy`; UDP: `plain`, `sendmmsg`, `udp-segment`,
    /// `sendmmsg-udp-segment`, `io-uring`; frames: `packet-sendmmsg`, `packet-bypass`, `live-frames`, `af-xdp`.
    sender_api: Option<SenderApi> = None, in Streams, Auto(Words);
    /// How data comes from the socket, at whichever end receives.
    /// `auto` likewise. TCP: `plain`, `trunc`, `splice`, `zerocopy`, `io-uring`, `busy-poll`; UDP: `plain`, `recvmmsg`,
    /// `udp-gro`, `busy-poll`; requests: `plain`, `busy-poll`; frames: `packet-recvmmsg`, `packet-ring`, `xdp`, `af-xdp`.
    receiver_api: Option<ReceiverApi> = None, in All, Auto(Words);
    /// Most messages to one system call, where the API takes many.
    batch: Option<u32> = None, in Streams, Auto(within(1, MAX_BATCH as u64));
    /// Who notes when a datagram arrived; `auto`: the NIC where it does so already, else the kernel.
    timestamps: Option<Timestamps> = None, in Numbered, Auto(Words);
    /// Alignment of the data buffers in memory.
    alignment: u32 = 4096, in All, PowerOfTwo(size(0, 1 << 20));
    /// Pin each stream's thread to a CPU, one after the other.
    pin: bool = false, in All, TRUTH;
    /// A udp-rr beside the stream, for delay under load.
    probe: bool = false, in SocketStreams, TRUTH;
    /// How CPU use is measured.
    /// `stat`: the kernel's accounting; `soak`: spinning threads of the lowest priority.
    cpu_method: CpuMethod = CpuMethod::Stat, in All, Words;
    /// Count what the kernels drop, by their own reasons.
    /// docs/method.md, *Drop reasons*.
    drop_reasons: bool = false, in All, ON_OFF;
    /// Samples a second of what each CPU does in the measured part; not with `cpu_method=soak`.
    profile: Option<u32> = None, in All, SampleRate(within(1, MAX_PROFILE_HZ as u64));
    /// Read the MACs' and PHYs' registers before and after, and record what changed.
    /// [registers.md](registers.md) says more.
    registers: bool = false, in All, ON_OFF;
    /// Seed of everything left to chance.
    seed: u64 = 1, in All, WHOLE;
}

impl Spec {
    /// The usual trial of this workload.
    pub fn new(workload: Workload) -> Spec {
        Spec { workload, ..Spec::default() }
    }

    /// With what the workload makes of `auto`, as far as no machine has to tell it.
    pub(crate) fn understood(&self) -> Spec {
        // An unlimited TCP stream's depends on the connection's segments: the record's sender_api tells what it became.
        let is_open = self.workload == Workload::TcpStream && self.rate == OfferedLoad::Unlimited;
        let message_size =
            if is_open || self.workload == Workload::Frames { self.message_size } else { Some(self.message_octets()) };
        let (frame_size, frame_kind) = match self.workload {
            Workload::Frames => (Some(self.frame_sizes()), Some(self.frame_kind())),
            _ => (self.frame_size.clone(), self.frame_kind),
        };
        Spec { message_size, frame_size, frame_kind, nodelay: Some(self.nodelay()), ..self.clone() }
    }

    /// Octets of each write, datagram, or frame; of a mix of frames, the mean. UDP's usual size fits an MTU of 1500 without fragments. A write of TCP leaves
    /// as one train of packets, so under a limited load its usual size is what a millisecond brings, in whole pages.
    pub fn message_octets(&self) -> u32 {
        const PAGE: u32 = 4096;
        const MOST: u32 = 128 * 1024;
        if self.workload == Workload::Frames {
            let smallest = self.smallest_frame();
            return self.frame_size.as_ref().map_or(smallest, |sizes| sizes.mean().round() as u32);
        }
        self.message_size.unwrap_or(match (self.workload, self.ip, self.rate) {
            (Workload::UdpStream, Some(Ip::V6), _) => 1450,
            (Workload::UdpStream, ..) => 1470,
            (Workload::TcpStream, _, OfferedLoad::BitsPerSecond(bits)) => {
                let brought = u32::try_from(bits / 8 / 1000).unwrap_or(MOST);
                (brought / PAGE * PAGE).clamp(PAGE, MOST)
            }
            _ => MOST,
        })
    }

    /// What test frames carry.
    pub fn frame_kind(&self) -> FrameKind {
        let needs_ip = self.flows > 1 || self.dscp != 0 || self.ttl.is_some();
        self.frame_kind.unwrap_or(if needs_ip { FrameKind::Udp4 } else { FrameKind::Raw })
    }

    /// The sizes of test frames.
    pub fn frame_sizes(&self) -> FrameSizes {
        self.frame_size.clone().unwrap_or_else(|| FrameSizes::one(self.smallest_frame()))
    }

    /// The smallest test frame that the headers leave room for.
    fn smallest_frame(&self) -> u32 {
        self.frame_kind().on_the_wire().smallest(self.vlan.0.count()) as u32
    }

    /// Whether TCP_NODELAY is set.
    pub fn nodelay(&self) -> bool {
        self.nodelay.unwrap_or(!self.workload.is_stream())
    }

    /// The longest that the traffic should take, warm-up included; `None` where bytes decide.
    pub fn expected_time(&self) -> Option<Duration> {
        match self.extent {
            Extent::Time(time) => Some(self.warmup + time),
            Extent::Octets(_) => None,
        }
    }

    /// Payload bits per second that each stream is asked to offer, in the mean of the measured part; `None` when unlimited.
    pub fn offered_bps(&self) -> Option<f64> {
        let bps = |rate: OfferedLoad| rate.bits_per_second(self.message_octets().into());
        let rate = bps(self.rate)?;
        match (self.first_rate.and_then(bps), self.extent) {
            (Some(first), Extent::Time(time)) if !time.is_zero() => {
                let part = (self.first_time.as_secs_f64() / time.as_secs_f64()).min(1.0);
                Some(first * part + rate * (1.0 - part))
            }
            _ => Some(rate),
        }
    }

    /// The same of all streams of a direction together.
    pub fn offered_by_all_bps(&self) -> Option<f64> {
        Some(self.offered_bps()? * f64::from(self.streams))
    }

    /// How many packets of a stream are due before `rate` takes the place of `first_rate`, by an even schedule; `None`: `rate`
    /// holds all the time.
    pub fn first_packets(&self) -> Option<u64> {
        let gap_ns = self.first_rate?.gap_ns(self.message_octets().into())?;
        Some(((self.warmup + self.first_time).as_nanos() as f64 / gap_ns).ceil() as u64)
    }

    /// Whether the options can be met together.
    pub fn validate(&self) -> Result<(), Unsuitable> {
        if let Some(name) = self.out_of_bounds() {
            return Err(Unsuitable::Value(name));
        }
        self.fits("sender_api", self.sender_api, &SenderApi::ALL, SenderApi::suits, SenderApi::name)?;
        self.fits("receiver_api", self.receiver_api, &ReceiverApi::ALL, ReceiverApi::suits, ReceiverApi::name)?;
        self.fits("pacing", self.pacing, &Pacing::ALL, Pacing::suits, Pacing::name)?;
        match RULES.iter().find(|(is_broken, _)| is_broken(self)) {
            Some((_, rule)) => Err(Unsuitable::Together(*rule)),
            None => Ok(()),
        }
    }

    /// The version of IP that its packets have.
    pub fn ip_version(&self) -> IpVersion {
        if self.ip == Some(Ip::V6) { IpVersion::V6 } else { IpVersion::V4 }
    }

    /// The options that do nothing, because what they are about is not asked for. Not among what [`Spec::validate`] refuses: a
    /// search, or a comparison, has trials with a rate and without one of the same options.
    pub fn idle(&self) -> impl Iterator<Item = Rule> {
        IDLE.iter().filter(|(is_idle, _)| is_idle(self)).map(|(_, rule)| *rule)
    }

    fn fits<T: Copy>(
        &self,
        option: &'static str,
        value: Option<T>,
        all: &[T],
        suits: fn(T, Workload) -> bool,
        name: fn(T) -> &'static str,
    ) -> Result<(), Unsuitable> {
        let workload = self.workload;
        let Some(value) = value.filter(|value| !suits(*value, workload)) else { return Ok(()) };
        let fit = all.iter().filter(|one| suits(**one, workload)).map(|one| name(*one)).collect();
        Err(Unsuitable::Workload { option, value: name(value), workload, fit })
    }
}

/// Options that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which.
    pub options: &'static [&'static str],
    /// What to change.
    pub sentence: &'static str,
}

/// What breaks a rule, and the rule.
type Broken = (fn(&Spec) -> bool, Rule);

const fn rule(is_broken: fn(&Spec) -> bool, options: &'static [&'static str], sentence: &'static str) -> Broken {
    (is_broken, Rule { options, sentence })
}

/// Options that do something only beside another one. The first that is named does nothing.
const IDLE: &[Broken] = &[
    rule(
        |s| s.burst != 1 && s.rate == OfferedLoad::Unlimited,
        &["burst", "rate"],
        "burst does nothing without a limited rate; give a rate, or leave burst out",
    ),
    rule(
        |s| s.spacing != Spacing::Even && s.rate == OfferedLoad::Unlimited,
        &["spacing", "rate"],
        "spacing does nothing without a limited rate; give a rate, or leave spacing out",
    ),
    rule(
        |s| s.pacing.is_some() && s.rate == OfferedLoad::Unlimited,
        &["pacing", "rate"],
        "pacing does nothing without a limited rate; give a rate, or leave pacing out",
    ),
    rule(
        |s| !s.first_time.is_zero() && s.first_rate.is_none(),
        &["first_time", "first_rate"],
        "first_time does nothing without first_rate, which lasts so long; give a first_rate, or leave first_time out",
    ),
    rule(
        |s| s.first_rate.is_some() && s.first_time.is_zero() && s.warmup.is_zero(),
        &["first_rate", "first_time"],
        "first_rate does nothing for a first_time of 0s; give a first_time, or leave first_rate out",
    ),
    rule(
        |s| {
            let is_part = |rate| matches!(rate, OfferedLoad::OfLine(_));
            s.line_rate.is_some() && !is_part(s.rate) && !s.first_rate.is_some_and(is_part)
        },
        &["line_rate", "rate"],
        "line_rate does nothing without a rate in per cent, like rate=95%; give one, or leave line_rate out",
    ),
];

const RULES: &[Broken] = &[
    rule(
        |s| matches!(s.extent, Extent::Time(time) if time.as_nanos() / s.interval.as_nanos().max(1) > MAX_SLICES),
        &["duration", "interval"],
        "duration holds more than 10000 intervals; make interval longer or duration shorter",
    ),
    rule(
        |s| matches!(s.extent, Extent::Octets(_)) && !s.workload.is_stream(),
        &["bytes", "workload"],
        "bytes end a stream; give a request-response workload a duration",
    ),
    rule(
        |s| matches!(s.extent, Extent::Octets(_)) && !s.warmup.is_zero(),
        &["bytes", "warmup"],
        "a trial of a number of bytes has no warm-up; leave one of the two out",
    ),
    rule(
        |s| s.profile.is_some() && s.cpu_method == CpuMethod::Soak,
        &["profile", "cpu_method"],
        "a profile counts idle time, which cpu_method soak fills; choose cpu_method stat, or profile off",
    ),
    rule(
        |s| s.pacing == Some(Pacing::Txtime) && s.priority.is_some(),
        &["pacing", "priority"],
        "pacing=txtime takes the priority that leads to its queue; leave priority out, or choose another pacing",
    ),
    rule(
        |s| s.pacing == Some(Pacing::Txtime) && s.sender_api.is_some_and(|api| api != SenderApi::Sendmmsg),
        &["pacing", "sender_api"],
        "pacing txtime sends with sendmmsg; leave sender_api at auto, or choose another pacing",
    ),
    rule(
        |s| s.pacing == Some(Pacing::Fq) && (s.spacing != Spacing::Even || s.burst != 1),
        &["pacing", "spacing", "burst"],
        "pacing fq knows a rate only, which it keeps evenly; spacing and burst need pacing application or txtime",
    ),
    rule(
        |s| {
            let is_even = s.spacing == Spacing::Even && s.pacing.is_none_or(|pacing| pacing == Pacing::Application);
            let is_even = is_even && s.sender_api != Some(SenderApi::LiveFrames);
            let is_timed = matches!(s.extent, Extent::Time(_));
            let unlimited = |rate| rate == OfferedLoad::Unlimited;
            let fits = is_even && is_timed && !unlimited(s.rate) && !s.first_rate.is_some_and(unlimited);
            s.workload.is_numbered() && s.first_rate.is_some() && !fits
        },
        &["first_rate", "rate", "spacing", "pacing", "bytes"],
        "first_rate and rate follow each other evenly: both are limited, of a duration, with spacing even, pacing \
         application, and a sender_api other than live-frames",
    ),
    rule(
        |s| !s.workload.is_numbered() && matches!(s.rate, OfferedLoad::OfLine(_)),
        &["rate", "workload"],
        "a rate in per cent is a part of the line rate, for frames and udp-stream; give bits per second, like 100M",
    ),
    rule(
        |s| s.workload == Workload::TcpStream && matches!(s.rate, OfferedLoad::PacketsPerSecond(_)),
        &["rate", "workload"],
        "a TCP stream has no packets of its own to count; give its rate in bits per second, like 100M",
    ),
    rule(
        |s| s.workload == Workload::UdpStream && !(PROBE_LEN as u32..=MAX_DATAGRAM).contains(&s.message_octets()),
        &["message_size"],
        "message_size of udp-stream must be 16 (room for the sequence number and time) to 65507",
    ),
    rule(
        |s| {
            let asked = s.frame_size.as_ref().map(FrameSizes::smallest);
            s.workload == Workload::Frames && asked.is_some_and(|octets| octets < s.smallest_frame())
        },
        &["frame_size", "frame_kind", "vlan"],
        "a frame_size has no room for the headers and what a test frame says of itself; the smallest are 64 for raw and udp4 \
         frames, 84 for udp6, and 4 more for each VLAN tag of udp4 and udp6",
    ),
    rule(
        |s| s.workload == Workload::Frames && s.frame_kind() == FrameKind::Raw && s.flows > 1,
        &["flows", "frame_kind"],
        "raw frames have no IP addresses and ports to vary; choose frame_kind udp4 or udp6, or leave flows out",
    ),
    rule(
        |s| s.workload == Workload::Frames && s.frame_kind() == FrameKind::Raw && (s.dscp != 0 || s.ttl.is_some()),
        &["dscp", "ttl", "frame_kind"],
        "raw frames have no IP header for dscp and ttl; choose frame_kind udp4 or udp6, or leave the two out",
    ),
    rule(
        |s| {
            let octets = |sizes: FrameSizes| sizes.octets(sizes.sizes().len() as u64);
            s.workload == Workload::Frames && octets(s.frame_sizes()) * u64::from(s.flows) > MOST_PREPARED
        },
        &["flows", "frame_size"],
        "each size of each flow is held ready in memory, 64 MiB at most; choose fewer flows, or fewer sizes",
    ),
    rule(
        |s| s.workload == Workload::UdpRr && s.request_size.max(s.response_size) > MAX_DATAGRAM,
        &["request_size", "response_size"],
        "request_size and response_size of udp-rr must be 1 to 65507",
    ),
    rule(
        |s| !s.workload.is_stream() && s.probe,
        &["probe", "workload"],
        "a probe runs beside tcp-stream or udp-stream; this workload measures delay itself",
    ),
    rule(
        |s| !s.workload.is_stream() && matches!(s.rate, OfferedLoad::BitsPerSecond(_)),
        &["rate", "workload"],
        "requests are counted; give their rate per second, like 100pps",
    ),
    rule(
        |s| s.workload == Workload::TcpCrr && s.outstanding > 1,
        &["outstanding", "workload"],
        "tcp-crr has one request to a connection; use streams for more at once",
    ),
    // More in flight than the socket buffers hold would stop both ends, each waiting for the other.
    rule(
        |s| {
            let octets = u64::from(s.outstanding) * u64::from(s.request_size.max(s.response_size));
            s.workload == Workload::TcpRr && s.outstanding > 1 && octets > 64 << 10
        },
        &["outstanding", "request_size", "response_size"],
        "outstanding times the larger of request_size and response_size must stay within 64K for tcp-rr",
    ),
];

/// Why a trial cannot be as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// An option has a value that the parser of its text would have refused.
    #[error("{0} is out of its bounds, which docs/plans.md has; change it")]
    Value(&'static str),
    /// Options do not go together.
    #[error("{}", .0.sentence)]
    Together(Rule),
    /// A way that the workload does not have.
    #[error("{option} {value} is not for {workload}; for it there are auto, {}", .fit.join(", "))]
    Workload {
        /// The option.
        option: &'static str,
        /// What it was to be.
        value: &'static str,
        /// Of which it is none.
        workload: Workload,
        /// What the workload has.
        fit: Vec<&'static str>,
    },
}

impl Unsuitable {
    /// The options that do not go together, or the one whose value is not allowed.
    pub fn options(&self) -> Vec<&'static str> {
        match self {
            Unsuitable::Value(name) => vec![name],
            Unsuitable::Together(rule) => rule.options.to_vec(),
            Unsuitable::Workload { option, .. } => vec![option, "workload"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(workload: Workload, change: impl FnOnce(&mut Spec), complaint: &str) {
        let mut spec = Spec::new(workload);
        change(&mut spec);
        match spec.validate() {
            Ok(()) => assert_eq!(complaint, "", "accepted"),
            Err(error) => assert!(!complaint.is_empty() && error.to_string().contains(complaint), "{error}"),
        }
    }

    #[test]
    fn a_paced_tcp_stream_writes_what_a_millisecond_brings() {
        for (bits, octets) in [(1, 4096), (10_000_000, 4096), (100_000_000, 12_288), (40_000_000_000, 131_072)] {
            let mut spec = Spec::new(Workload::TcpStream);
            assert_eq!(spec.message_octets(), 131_072);
            spec.rate = OfferedLoad::BitsPerSecond(bits);
            assert_eq!(spec.message_octets(), octets, "{bits} bit/s");
            spec.message_size = Some(7);
            assert_eq!(spec.message_octets(), 7);
        }
    }

    #[test]
    fn frames_are_as_small_as_their_headers_let_them_be_and_have_ip_where_it_is_needed() {
        let check = |change: fn(&mut Spec), kind: &str, size: &str| {
            let mut spec = Spec::new(Workload::Frames);
            change(&mut spec);
            let asked: std::collections::BTreeMap<_, _> = spec.asked().into_iter().collect();
            assert_eq!((asked["frame_kind"].as_str(), asked["frame_size"].as_str()), (kind, size));
            assert_eq!(spec.message_octets().to_string(), size);
        };
        check(|_| {}, "raw", "64");
        check(|s| s.vlan = "100.5".parse().unwrap(), "raw", "64");
        check(|s| s.flows = 256, "udp4", "64");
        check(|s| s.ttl = Some(3), "udp4", "64");
        check(|s| (s.flows, s.vlan) = (2, "5".parse().unwrap()), "udp4", "68");
        check(|s| s.frame_kind = Some(FrameKind::Udp6), "udp6", "84");
    }

    /// A controller may say any number; times are added to each other.
    #[test]
    fn a_time_that_is_more_than_can_be_counted_is_out_of_bounds() {
        for time in [Duration::MAX, Duration::from_secs(367 * 86_400), Duration::from_secs(1 << 40)] {
            check(Workload::UdpStream, |s| s.warmup = time, "warmup");
            check(Workload::UdpStream, |s| s.first_time = time, "first_time");
            check(Workload::UdpStream, |s| s.interval = time, "interval");
            check(Workload::UdpStream, |s| (s.extent, s.interval) = (Extent::Time(time), time), "duration");
            check(Workload::Frames, |s| s.learning = Some(time), "learning");
        }
    }

    #[test]
    fn an_overload_is_a_part_of_what_is_offered() {
        let ms = Duration::from_millis;
        let mut spec = Spec::new(Workload::Frames);
        (spec.rate, spec.extent) = (OfferedLoad::PacketsPerSecond(1000), Extent::Time(ms(4000)));
        assert_eq!((spec.offered_bps(), spec.first_packets()), (Some(512e3), None));
        (spec.first_rate, spec.first_time) = (Some(OfferedLoad::PacketsPerSecond(3000)), ms(1000));
        assert!((spec.offered_bps().unwrap() - 768e3).abs() < 1e-6);
        assert_eq!(spec.first_packets(), Some(3000));
        spec.warmup = ms(500);
        assert_eq!(spec.first_packets(), Some(4500));
    }

    #[test]
    fn what_does_nothing_is_known() {
        let check = |workload, texts: &[(&str, &str)], idle: &[&str]| {
            let mut spec = Spec::new(workload);
            texts.iter().for_each(|(name, text)| spec.set(name, text).unwrap());
            assert_eq!(spec.idle().map(|rule| rule.options[0]).collect::<Vec<_>>(), idle, "{texts:?}");
        };
        for workload in Workload::ALL {
            check(workload, &[], &[]);
        }
        check(Workload::TcpStream, &[("spacing", "poisson"), ("burst", "10")], &["burst", "spacing"]);
        check(Workload::TcpStream, &[("spacing", "poisson"), ("rate", "10M")], &[]);
        check(Workload::TcpRr, &[("burst", "4")], &["burst"]);
        check(Workload::UdpStream, &[("pacing", "fq")], &["pacing"]);
        check(Workload::UdpStream, &[("first_time", "5s")], &["first_time"]);
        check(Workload::UdpStream, &[("first_rate", "5M"), ("rate", "1M")], &["first_rate"]);
        check(Workload::UdpStream, &[("line_rate", "1G"), ("rate", "5M")], &["line_rate"]);
        check(Workload::UdpStream, &[("line_rate", "1G"), ("rate", "5%")], &[]);
        check(Workload::TcpStream, &[("duration", "500ms")], &[]);
    }

    #[test]
    fn what_cannot_be_met_is_refused() {
        for workload in Workload::ALL {
            check(workload, |_| {}, "");
        }
        check(Workload::UdpStream, |s| s.message_size = Some(15), "message_size");
        check(Workload::UdpStream, |s| s.message_size = Some(65_508), "message_size");
        check(Workload::TcpStream, |s| s.rate = OfferedLoad::PacketsPerSecond(5), "bits per second");
        check(Workload::UdpRr, |s| s.rate = OfferedLoad::BitsPerSecond(5), "per second");
        check(Workload::TcpRr, |s| s.probe = true, "probe");
        check(Workload::TcpStream, |s| s.extent = Extent::Time(Duration::ZERO), "duration");
        check(Workload::TcpRr, |s| s.extent = Extent::Octets(5), "duration");
        check(Workload::TcpRr, |s| (s.outstanding, s.request_size) = (128, 1024), "outstanding");
        check(Workload::TcpRr, |s| s.request_size = 1 << 20, "");
        check(Workload::TcpStream, |s| s.profile = Some(0), "profile");
        check(Workload::TcpStream, |s| (s.profile, s.cpu_method) = (Some(99), CpuMethod::Soak), "idle time");
        check(Workload::TcpStream, |s| s.streams = 0, "streams");
        check(Workload::TcpStream, |s| s.sender_api = Some(SenderApi::Sendmmsg), "auto, plain, sendfile");
        check(Workload::UdpStream, |s| s.receiver_api = Some(ReceiverApi::Trunc), "not for udp-stream");
        check(Workload::UdpStream, |s| s.batch = Some(0), "batch");
        let first = |s: &mut Spec| s.first_rate = Some(OfferedLoad::BitsPerSecond(2_000_000));
        check(Workload::UdpStream, first, "both are limited");
        let limited = move |s: &mut Spec| (first(s), s.rate = OfferedLoad::BitsPerSecond(1_000_000)).0;
        check(Workload::Frames, limited, "");
        check(Workload::Frames, move |s| (limited(s), s.spacing = Spacing::Poisson).0, "spacing even");
        let paced = |s: &mut Spec, pacing| (s.pacing, s.rate) = (Some(pacing), OfferedLoad::BitsPerSecond(1_000_000));
        check(Workload::UdpStream, |s| paced(s, Pacing::Txtime), "");
        check(Workload::TcpStream, |s| paced(s, Pacing::Txtime), "auto, application, fq");
        check(Workload::TcpStream, |s| paced(s, Pacing::Fq), "");
        check(Workload::TcpStream, |s| (paced(s, Pacing::Fq), s.burst = 2).0, "evenly");
        let frames = |kind, vlan: &str, size: &str| {
            let (vlan, size) = (vlan.parse().unwrap(), size.parse().unwrap());
            move |s: &mut Spec| (s.frame_kind, s.vlan, s.frame_size) = (Some(kind), vlan, Some(size))
        };
        check(Workload::Frames, frames(FrameKind::Raw, "100.5", "64"), "");
        check(Workload::Frames, frames(FrameKind::Udp4, "5", "64"), "smallest");
        check(Workload::Frames, frames(FrameKind::Udp6, "none", "imix"), "84 for udp6");
        check(Workload::Frames, |s| (s.frame_kind, s.flows) = (Some(FrameKind::Raw), 2), "udp4 or udp6");
        check(Workload::Frames, |s| (s.frame_kind, s.ttl) = (Some(FrameKind::Raw), Some(9)), "ttl");
        check(Workload::Frames, |s| (s.flows, s.frame_size) = (4096, Some("h".repeat(20).parse().unwrap())), "64 MiB");
        check(Workload::Frames, |s| s.sender_api = Some(SenderApi::Plain), "auto, packet-sendmmsg");
        check(Workload::TcpStream, |s| s.congestion_control = Some("../x".to_owned()), "congestion_control");
    }
}
