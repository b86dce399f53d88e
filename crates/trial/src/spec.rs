//! What one trial is asked to do, every option as understood, defaults included.
//! Knows no text: [`crate::options`] reads and writes the options by name.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::{ReceiverApi, SenderApi, Timestamps};
use crate::pace::Pacing;
use crate::units::OfferedLoad;
use crate::wire::PROBE_LEN;

/// What traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One-way bytes over TCP.
    TcpStream,
    /// One-way numbered datagrams over UDP.
    UdpStream,
    /// Requests and responses over one TCP connection.
    TcpRr,
    /// Requests and responses over UDP.
    UdpRr,
    /// A TCP connection for each request and response.
    TcpCrr,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 5] =
        [Workload::TcpStream, Workload::UdpStream, Workload::TcpRr, Workload::UdpRr, Workload::TcpCrr];

    /// The name, as options and records write it.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::TcpStream => "tcp-stream",
            Workload::UdpStream => "udp-stream",
            Workload::TcpRr => "tcp-rr",
            Workload::UdpRr => "udp-rr",
            Workload::TcpCrr => "tcp-crr",
        }
    }

    /// One-way traffic, rather than requests and responses.
    pub const fn is_stream(self) -> bool {
        matches!(self, Workload::TcpStream | Workload::UdpStream)
    }

    /// Carried by UDP.
    pub const fn is_udp(self) -> bool {
        matches!(self, Workload::UdpStream | Workload::UdpRr)
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Which way, seen from the target. For requests and responses: who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The target sends (or asks).
    Tx,
    /// The target receives (or answers).
    Rx,
    /// Both at the same time.
    Both,
}

impl Direction {
    /// The name, as options and records write it.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Tx => "tx",
            Direction::Rx => "rx",
            Direction::Both => "both",
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
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

/// How departures are spaced under a limited offered load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// The same gap each time.
    Even,
    /// Gaps drawn from the exponential distribution: Poisson arrivals.
    Poisson,
}

/// How CPU use is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuMethod {
    /// The kernel's own accounting, /proc/stat.
    Stat,
    /// Idle capacity, by spinning threads of the lowest priority (what netperf calls a looper).
    Soak,
}

/// Everything a trial is asked to do. Sizes in octets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What traffic.
    pub workload: Workload,
    /// Which way.
    pub direction: Direction,
    /// When the measurement ends.
    pub extent: Extent,
    /// Time at the start that is left out of the figures.
    pub warmup: Duration,
    /// Length of the time slices in the record.
    pub interval: Duration,
    /// Offered load of each stream, or rate of requests of each stream.
    pub rate: OfferedLoad,
    /// Messages sent back to back under a limited offered load.
    pub burst: u32,
    /// How the departures are spaced.
    pub spacing: Spacing,
    /// Who keeps the senders to their schedule; `None`: what makes the departures smoothest.
    pub pacing: Option<Pacing>,
    /// Octets of payload in each write or datagram; `None`: the workload's usual size.
    pub message_size: Option<u32>,
    /// Streams in each direction, each with a thread of its own.
    pub streams: u16,
    /// IPv4 or IPv6; `None`: whichever both ends share, IPv4 first.
    pub ip: Option<Ip>,
    /// SO_SNDBUF and SO_RCVBUF to ask for; `None`: what the system gives.
    pub socket_buffer: Option<u32>,
    /// TCP_MAXSEG to ask for.
    pub mss: Option<u16>,
    /// TCP_NODELAY; `None`: off for tcp-stream, on for requests and responses.
    pub nodelay: Option<bool>,
    /// TCP_CONGESTION; `None`: what the system gives.
    pub congestion_control: Option<String>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Octets of a request.
    pub request_size: u32,
    /// Octets of a response.
    pub response_size: u32,
    /// Requests under way at once on each stream.
    pub outstanding: u32,
    /// How senders hand their data to the socket, at whichever end they are; `None`: [`SenderApi::auto`].
    pub sender_api: Option<SenderApi>,
    /// How receivers take their data from the socket, at whichever end they are; `None`: [`ReceiverApi::auto`].
    pub receiver_api: Option<ReceiverApi>,
    /// The most messages to one system call, of the ways that take many; `None`: what measuring has shown to be best.
    pub batch: Option<u32>,
    /// Who notes when datagrams of a UDP stream arrive; `None`: the NIC where it does so already, else the kernel.
    pub timestamps: Option<Timestamps>,
    /// Alignment of the data buffers in memory, octets, a power of two.
    pub alignment: u32,
    /// Pin each stream's thread to a CPU, one after the other.
    pub pin: bool,
    /// Run a udp-rr beside the stream, so that delay under load is measured.
    pub probe: bool,
    /// How CPU use is measured.
    pub cpu_method: CpuMethod,
    /// Count what the kernel drops, by its own reasons.
    #[serde(default)]
    pub drop_reasons: bool,
    /// Samples a second of what each CPU does, in the measured part; `None`: no profile.
    #[serde(default)]
    pub profile: Option<u32>,
    /// Read the devices' registers before and after the traffic.
    #[serde(default)]
    pub registers: bool,
    /// Seed of everything that is left to chance.
    pub seed: u64,
}

/// IPv4 or IPv6, as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ip {
    /// IPv4.
    #[serde(rename = "4")]
    V4,
    /// IPv6.
    #[serde(rename = "6")]
    V6,
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
/// The most messages to one system call.
pub const MAX_BATCH: u32 = 1024;
/// The most samples a second of a profile: more would measure itself.
pub const MAX_PROFILE_HZ: u32 = 10_000;
/// Samples a second where a profile is asked for without a number. Not 1000, so as to fall on no clock's beat.
pub const USUAL_PROFILE_HZ: u32 = 999;
/// Requests a second of the probe that runs beside a stream.
pub const PROBE_PPS: u64 = 100;

impl Spec {
    /// The usual trial of this workload.
    pub fn new(workload: Workload) -> Spec {
        Spec {
            workload,
            direction: Direction::Rx,
            extent: Extent::Time(Duration::from_secs(10)),
            warmup: Duration::ZERO,
            interval: Duration::from_secs(1),
            rate: OfferedLoad::Unlimited,
            burst: 1,
            spacing: Spacing::Even,
            pacing: None,
            message_size: None,
            streams: 1,
            ip: None,
            socket_buffer: None,
            mss: None,
            nodelay: None,
            congestion_control: None,
            dscp: 0,
            request_size: 64,
            response_size: 64,
            outstanding: 1,
            sender_api: None,
            receiver_api: None,
            batch: None,
            timestamps: None,
            alignment: 4096,
            pin: false,
            probe: false,
            cpu_method: CpuMethod::Stat,
            drop_reasons: false,
            profile: None,
            registers: false,
            seed: 1,
        }
    }

    /// Octets of each write or datagram. UDP's usual size fits an MTU of 1500 without fragments. A write of TCP leaves
    /// as one train of packets, so under a limited load its usual size is what a millisecond brings, in whole pages.
    pub fn message_octets(&self) -> u32 {
        const PAGE: u32 = 4096;
        const MOST: u32 = 128 * 1024;
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

    /// Whether the options can be met together; the error is one sentence that says what to change.
    pub fn validate(&self) -> Result<(), Unsuitable> {
        let say = |condition: bool, options: &[&str], sentence: &str| match condition {
            true => Err(Unsuitable::new(options, sentence)),
            false => Ok(()),
        };
        let size = self.message_octets();
        match self.extent {
            Extent::Time(time) => {
                say(time < Duration::from_millis(1), &["duration"], "duration must be at least 1ms")?;
                say(
                    time.as_nanos() / self.interval.as_nanos().max(1) > MAX_SLICES,
                    &["duration", "interval"],
                    "duration holds more than 10000 intervals; make interval longer or duration shorter",
                )?;
            }
            Extent::Octets(octets) => {
                say(octets == 0, &["bytes"], "bytes must be at least 1")?;
                say(
                    !self.workload.is_stream(),
                    &["bytes", "workload"],
                    "bytes end a stream; give a request-response workload a duration",
                )?;
                say(
                    !self.warmup.is_zero(),
                    &["bytes", "warmup"],
                    "a trial of a number of bytes has no warm-up; leave one of the two out",
                )?;
            }
        }
        say(self.interval < Duration::from_millis(10), &["interval"], "interval must be at least 10ms")?;
        say(self.streams == 0 || self.streams > MAX_STREAMS, &["streams"], "streams must be 1 to 128")?;
        say(self.burst == 0 || self.burst > 1000, &["burst"], "burst must be 1 to 1000")?;
        say(
            self.outstanding == 0 || self.outstanding > MAX_OUTSTANDING,
            &["outstanding"],
            "outstanding must be 1 to 256",
        )?;
        say(
            self.profile.is_some_and(|hz| !(1..=MAX_PROFILE_HZ).contains(&hz)),
            &["profile"],
            "profile must be 1 to 10000 samples a second, or off",
        )?;
        say(
            self.profile.is_some() && self.cpu_method == CpuMethod::Soak,
            &["profile", "cpu_method"],
            "a profile counts idle time, which cpu_method soak fills; choose cpu_method stat, or profile off",
        )?;
        say(self.dscp > 63, &["dscp"], "dscp must be 0 to 63")?;
        say(
            !self.alignment.is_power_of_two() || self.alignment > 1 << 20,
            &["alignment"],
            "alignment must be a power of two up to 1M",
        )?;
        say(
            self.mss.is_some_and(|mss| mss < 88),
            &["mss"],
            "mss must be at least 88, the smallest that Linux accepts",
        )?;
        say(
            self.congestion_control.as_ref().is_some_and(|name| {
                name.is_empty() || name.len() > 15 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            }),
            &["congestion_control"],
            "congestion_control must be a name like cubic, reno or bbr",
        )?;
        say(
            self.batch.is_some_and(|batch| !(1..=MAX_BATCH).contains(&batch)),
            &["batch"],
            "batch must be 1 to 1024, or auto",
        )?;
        if let Some(api) = self.sender_api.filter(|api| !api.suits(self.workload)) {
            let fit = SenderApi::ALL.into_iter().filter(|api| api.suits(self.workload)).map(SenderApi::name);
            return Err(unsuitable(&["sender_api", "workload"], api.name(), self.workload, fit));
        }
        if let Some(api) = self.receiver_api.filter(|api| !api.suits(self.workload)) {
            let fit = ReceiverApi::ALL.into_iter().filter(|api| api.suits(self.workload)).map(ReceiverApi::name);
            return Err(unsuitable(&["receiver_api", "workload"], api.name(), self.workload, fit));
        }
        if let Some(pacing) = self.pacing {
            if !pacing.suits(self.workload) {
                let fit = Pacing::ALL.into_iter().filter(|pacing| pacing.suits(self.workload)).map(Pacing::name);
                return Err(unsuitable(&["pacing", "workload"], pacing.name(), self.workload, fit));
            }
            say(
                pacing == Pacing::Txtime && self.sender_api.is_some_and(|api| api != SenderApi::Sendmmsg),
                &["pacing", "sender_api"],
                "pacing txtime sends with sendmmsg; leave sender_api at auto, or choose another pacing",
            )?;
            say(
                pacing == Pacing::Fq && (self.spacing != Spacing::Even || self.burst != 1),
                &["pacing", "spacing", "burst"],
                "pacing fq knows a rate only, which it keeps evenly; spacing and burst need pacing application or txtime",
            )?;
        }
        match self.workload {
            Workload::TcpStream => {
                say(size == 0 || size > MAX_MESSAGE, &["message_size"], "message_size of tcp-stream must be 1 to 16M")?;
                say(
                    matches!(self.rate, OfferedLoad::PacketsPerSecond(_)),
                    &["rate", "workload"],
                    "a TCP stream has no packets of its own to count; give its rate in bits per second, like 100M",
                )?;
            }
            Workload::UdpStream => say(
                size < PROBE_LEN as u32 || size > MAX_DATAGRAM,
                &["message_size"],
                "message_size of udp-stream must be 16 (room for the sequence number and time) to 65507",
            )?,
            Workload::TcpRr | Workload::TcpCrr | Workload::UdpRr => {
                let limit = if self.workload == Workload::UdpRr { MAX_DATAGRAM } else { MAX_MESSAGE };
                say(
                    [self.request_size, self.response_size].iter().any(|size| !(1..=limit).contains(size)),
                    &["request_size", "response_size"],
                    "request_size and response_size must be 1 to 16M, and to 65507 for udp-rr",
                )?;
                say(
                    self.probe,
                    &["probe", "workload"],
                    "a probe runs beside tcp-stream or udp-stream; this workload measures delay itself",
                )?;
                say(
                    matches!(self.rate, OfferedLoad::BitsPerSecond(_)),
                    &["rate", "workload"],
                    "requests are counted; give their rate per second, like 100pps",
                )?;
                say(
                    self.workload == Workload::TcpCrr && self.outstanding > 1,
                    &["outstanding", "workload"],
                    "tcp-crr has one request to a connection; use streams for more at once",
                )?;
                // More in flight than the socket buffers hold would stop both ends, each waiting for the other.
                say(
                    self.workload == Workload::TcpRr
                        && u64::from(self.outstanding) * u64::from(self.request_size.max(self.response_size))
                            > 64 << 10
                        && self.outstanding > 1,
                    &["outstanding", "request_size", "response_size"],
                    "outstanding times the larger of request_size and response_size must stay within 64K for tcp-rr",
                )?;
            }
        }
        Ok(())
    }
}

/// Why a trial cannot be as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Unsuitable {
    /// The options that do not go together, or the one whose value is not allowed.
    pub options: Vec<String>,
    /// One sentence that says what is allowed.
    pub sentence: String,
}

impl Unsuitable {
    /// Of these options.
    pub fn new(options: &[&str], sentence: impl Into<String>) -> Unsuitable {
        Unsuitable { options: options.iter().map(|&name| name.to_owned()).collect(), sentence: sentence.into() }
    }
}

fn unsuitable(
    options: &[&str],
    value: &str,
    workload: Workload,
    fit: impl Iterator<Item = &'static str>,
) -> Unsuitable {
    let fit: Vec<&str> = fit.collect();
    let sentence = format!("{} {value} is not for {workload}; for it there are auto, {}", options[0], fit.join(", "));
    Unsuitable::new(options, sentence)
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
            Err(error) => assert!(!complaint.is_empty() && error.sentence.contains(complaint), "{error}"),
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
        check(Workload::TcpStream, |s| s.profile = Some(0), "10000");
        check(Workload::TcpStream, |s| (s.profile, s.cpu_method) = (Some(99), CpuMethod::Soak), "idle time");
        check(Workload::TcpStream, |s| s.streams = 0, "streams");
        check(Workload::TcpStream, |s| s.sender_api = Some(SenderApi::Sendmmsg), "auto, plain, sendfile");
        check(Workload::UdpStream, |s| s.receiver_api = Some(ReceiverApi::Trunc), "not for udp-stream");
        check(Workload::UdpStream, |s| s.batch = Some(0), "batch");
        let paced = |s: &mut Spec, pacing| (s.pacing, s.rate) = (Some(pacing), OfferedLoad::BitsPerSecond(1_000_000));
        check(Workload::UdpStream, |s| paced(s, Pacing::Txtime), "");
        check(Workload::TcpStream, |s| paced(s, Pacing::Txtime), "auto, application, fq");
        check(Workload::TcpStream, |s| paced(s, Pacing::Fq), "");
        check(Workload::TcpStream, |s| (paced(s, Pacing::Fq), s.burst = 2).0, "evenly");
        check(Workload::TcpStream, |s| s.congestion_control = Some("../x".to_owned()), "congestion_control");
    }
}
