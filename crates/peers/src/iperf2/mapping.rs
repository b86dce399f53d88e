//! What an iperf2 client asks for as a trial of linerate's, and a trial of linerate's as it asks an iperf2 server for it;
//! and what is known of the far end, which tells little.
//! Knows no connections.

use std::time::Duration;

use linerate_host::traffic::reachability::ExceededLimit;
use linerate_machine::end::{Direction, End};
use linerate_machine::units::OfferedLoad;
use linerate_trial::arrivals::Arrivals;
use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

use super::bounce_back;
use super::datagram::{MIN_LEN, PREFIX_LEN};
use super::header::{
    AT_ONCE, Amount, EXTEND, Extension, FULL_DUPLEX, FULL_LEN, Header, ISOCHRONOUS, LEN, NUMBERS_64, RATE_IS_PPS,
    REVERSE, UDP_TESTS, VERSION1, VERSION2,
};
use super::report::Report;
use crate::abilities::{cannot, check_turns};
use crate::error::Error;
use crate::limits::{Exceeded, Limits};
use crate::socket_options::chosen_size;

/// The version that this implementation behaves like.
pub const VERSION: (u32, u32) = (0x0002_0001, 0x0008_0003);
/// The largest message that a server takes.
const MOST_MESSAGE: u32 = 1 << 20;
/// What clients of TCP write at once where their user does not say.
const USUAL_SIZE: u32 = 128 << 10;
/// Times on the wire are counted in these.
const TICK: Duration = Duration::from_millis(10);
/// The most octets of a session that asks for an answer alone.
pub const MOST_ADDRESS_CHECK: u32 = 8 << 10;

/// What a client asks for, as a trial in which this server is the target; or why it is not served. `size` is of the
/// messages where the client does not say.
pub fn spec_of(header: &Header, workload: Workload, size: u32, limits: &Limits) -> Result<Spec, &'static str> {
    let mut spec = Spec::new(workload);
    let is_udp = workload == Workload::UdpStream;
    spec.direction = match (header.has(FULL_DUPLEX), header.has(REVERSE)) {
        (true, _) => Direction::Both,
        (false, true) => Direction::Tx,
        // The second of two tests one after the other is another trial.
        (false, false) if header.flags & VERSION1 != 0 && header.flags & AT_ONCE != 0 => Direction::Both,
        (false, false) => Direction::Rx,
    };
    spec.streams = u16::try_from(header.streams.max(1)).unwrap_or(u16::MAX);
    let sends = spec.direction != Direction::Rx || header.flags & VERSION1 != 0;
    spec.extent = match header.amount {
        Amount::Time(time) => Extent::Time(time),
        Amount::Octets(0) if sends => return Err("asked for data without saying how much"),
        Amount::Octets(0) => Extent::Time(limits.time()),
        Amount::Octets(octets) => Extent::Octets(octets.into()),
    };
    if let Some(extension) = header.extension {
        spec.rate = match extension.rate {
            0 => OfferedLoad::Unlimited,
            _ if header.has(ISOCHRONOUS) && !sends => OfferedLoad::Unlimited,
            rate if header.has(RATE_IS_PPS) => OfferedLoad::PacketsPerSecond(rate),
            rate => OfferedLoad::BitsPerSecond(rate),
        };
        spec.dscp = (extension.tos >> 2) as u8 & 0x3f;
    }
    if !is_udp && matches!(spec.rate, OfferedLoad::PacketsPerSecond(_)) {
        spec.rate = OfferedLoad::Unlimited;
    }
    let size = if header.message_size > 0 { header.message_size } else { size };
    spec.message_size = chosen_size(&spec, size, USUAL_SIZE);
    spec.socket_buffer = Some(header.socket_buffer).filter(|octets| (1..=1 << 30).contains(octets));
    limits.check(&spec, MIN_LEN as u32).map_err(Exceeded::sentence)?;
    if is_udp && sends {
        check_unproven(&spec, limits)?;
    }
    Ok(spec)
}

/// The trial of a bounce-back test with requests of this size. How long it goes, its client does not say.
pub fn bounce_back(size: u32, limits: &Limits) -> Result<Spec, &'static str> {
    let mut spec = Spec::new(Workload::TcpRr);
    (spec.request_size, spec.response_size) = (size, size);
    spec.extent = Extent::Time(limits.time());
    if size > MOST_MESSAGE { Err("asked for requests above 1M") } else { Ok(spec) }
}

/// Whether datagrams may be sent as this asks for them: the protocol has nothing that a client would have to repeat before
/// they come, so the address that they would go to may be another's.
fn check_unproven(spec: &Spec, limits: &Limits) -> Result<(), &'static str> {
    let limit =
        limits.unproven.ok_or("asked for datagrams, which --allow-unproven-udp serves: their client may be forged")?;
    let sent = Spec { direction: Direction::Tx, ..spec.clone() };
    limit.check(&sent, End::Target).map_err(|beyond| match beyond {
        ExceededLimit::Rate => "asked for datagrams at a higher rate than --allow-unproven-udp allows",
        ExceededLimit::Time => "asked for datagrams for longer than the 60 s that --allow-unproven-udp allows",
    })
}

/// Whether a header asks for no more than an answer: a session of a few datagrams by which a client of ours finds out whether
/// its server takes part. It is no test, and leaves no record.
pub fn is_address_check(header: &Header) -> bool {
    let is_short = matches!(header.amount, Amount::Octets(octets) if octets > 0 && octets <= MOST_ADDRESS_CHECK);
    is_short
        && header.back_port == 0
        && header.flags & VERSION1 == 0
        && !header.has(REVERSE)
        && !header.has(FULL_DUPLEX)
}

/// The header of such a session of so many octets in all.
pub fn address_check(octets: u32) -> Header {
    let rate = OfferedLoad::BitsPerSecond(1_000_000);
    let spec = Spec { extent: Extent::Octets(octets.into()), rate, ..Spec::new(Workload::UdpStream) };
    Header { back_port: 0, message_size: 0, ..header_of(&spec, Direction::Rx) }
}

/// Makes a trial one that a server can take part in, where the difference is small: its report of datagrams knows no
/// warm-up, and times on the wire have steps.
pub fn fit(spec: &mut Spec) {
    if spec.workload == Workload::UdpStream && spec.direction != Direction::Tx {
        spec.warmup = Duration::ZERO;
    }
    if spec.workload.is_stream() && spec.direction != Direction::Rx {
        let ticks = spec.warmup.as_nanos().div_ceil(TICK.as_nanos());
        spec.warmup = TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
    }
}

/// Whether an iperf2 server can take part in this trial, beside its abilities.
pub fn check(spec: &Spec) -> Result<(), Error> {
    let cannot = |what: &str, instead| cannot(Tool::Iperf2, what, instead);
    if spec.workload == Workload::TcpRr {
        return match spec.request_size {
            size if size == spec.response_size && size >= bounce_back::MIN_LEN => Ok(()),
            _ => cannot(
                "responses but of the size of their requests, 64 bytes at least",
                "choose request_size=64 and response_size=64, or more",
            ),
        };
    }
    if spec.workload == Workload::UdpStream && spec.direction != Direction::Tx && !spec.warmup.is_zero() {
        return cannot("warm-up in its server's report of what arrived", "leave warmup out, or choose direction=tx");
    }
    if spec.direction == Direction::Rx {
        return Ok(());
    }
    if !spec.expected_time().unwrap_or_default().subsec_nanos().is_multiple_of(TICK.subsec_nanos()) {
        return cannot("time but in hundredths of a second", "choose duration and warmup in steps of 10ms");
    }
    match spec.extent {
        Extent::Octets(octets) if octets > i32::MAX as u64 => {
            cannot("stream of its server's above 2 GiB", "choose fewer bytes, or a duration")
        }
        _ => check_turns(Tool::Iperf2, spec),
    }
}

/// The header of this trial's streams of one direction; of both where they share a connection.
pub fn header_of(spec: &Spec, direction: Direction) -> Header {
    let is_udp = spec.workload == Workload::UdpStream;
    let (rate, unit) = match spec.rate {
        // Of a line it is not when it comes here.
        OfferedLoad::Unlimited | OfferedLoad::OfLine(_) => (0, 0),
        OfferedLoad::BitsPerSecond(bits) => (bits, 0),
        OfferedLoad::PacketsPerSecond(packets) => (packets, RATE_IS_PPS),
    };
    let (kind, upper) = match direction {
        Direction::Rx => (0, 0),
        Direction::Tx => (VERSION2, REVERSE),
        Direction::Both => (VERSION2, FULL_DUPLEX),
    };
    let (udp, len) = match (is_udp, direction) {
        (false, _) => (0, FULL_LEN),
        (true, Direction::Rx) => (NUMBERS_64, PREFIX_LEN + FULL_LEN),
        (true, _) => (NUMBERS_64 | UDP_TESTS, PREFIX_LEN + FULL_LEN),
    };
    let amount = match spec.extent {
        Extent::Time(_) => Amount::Time(spec.expected_time().unwrap_or_default()),
        Extent::Octets(octets) => Amount::Octets(u32::try_from(octets).unwrap_or(i32::MAX as u32)),
    };
    Header {
        flags: EXTEND | LEN | kind | udp | (len as u32) << 1,
        streams: spec.streams.into(),
        back_port: Tool::Iperf2.row().port,
        message_size: spec.message_octets(),
        socket_buffer: spec.socket_buffer.unwrap_or(0),
        amount,
        extension: Some(Extension {
            upper: upper | unit,
            version: VERSION.0,
            patch: VERSION.1,
            tos: u16::from(spec.dscp) << 2,
            rate,
        }),
    }
}

/// What a server reports of a flow; and our account of it made to agree: the last datagram that it heard may be a later
/// one of those that this end sent to say so.
/// `None` where more were sent than a short report can count: such a server takes the number 2^31 for the end.
pub fn reported(ours: &mut FlowOutcome, report: &Report, repeats: u64) -> Option<FlowOutcome> {
    let first = ours.messages_total;
    if report.is_short && first + repeats > i32::MAX as u64 {
        return None;
    }
    let sent = report.datagrams.clamp(first, first + repeats);
    let size = ours.octets_total.checked_div(first).unwrap_or(0);
    ours.messages += sent - first;
    ours.messages_total = sent;
    (ours.octets, ours.octets_total) = (ours.messages * size, sent * size);
    ours.end_marks = first + repeats - sent;
    let mut far = FlowOutcome::new(ours.id, Role::Receiver);
    let received = report.datagrams.saturating_sub(report.lost);
    (far.messages, far.messages_total) = (received, received);
    let octets = report.all_octets(size);
    (far.octets, far.octets_total) = (octets, octets);
    // Before 2.1 a session that comes soon after another of the same address is timed from that one's beginning.
    far.elapsed_ns = if report.is_old { ours.elapsed_ns } else { report.elapsed_us.saturating_mul(1000) };
    far.arrivals = Some(Arrivals {
        received,
        received_total: received,
        reordered: report.reordered,
        sent_by_end_mark: Some(sent),
        jitter_s: Some(report.jitter_us as f64 / 1e6),
        ..Arrivals::default()
    });
    Some(far)
}

/// A receiver's account as a server reports it.
pub fn report_of(flow: &FlowOutcome) -> Report {
    let Some(arrivals) = &flow.arrivals else { return Report::default() };
    let missing = arrivals.missing();
    Report {
        octets: flow.octets_total,
        elapsed_us: flow.elapsed_ns / 1000,
        lost: missing,
        reordered: arrivals.reordered,
        datagrams: arrivals.received_total + missing,
        jitter_us: (arrivals.jitter_s.unwrap_or(0.0) * 1e6) as u64,
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use linerate_host::traffic::reachability::UnprovenLimit;

    use super::*;

    fn limits() -> Limits {
        Limits { unproven: Some(UnprovenLimit { bits_per_second: 1_000_000_000 }), ..Limits::default() }
    }

    #[test]
    fn a_trial_asked_for_and_understood_is_the_same() {
        for (workload, direction, rate) in [
            (Workload::TcpStream, Direction::Rx, OfferedLoad::Unlimited),
            (Workload::TcpStream, Direction::Both, OfferedLoad::BitsPerSecond(7_000_000_000)),
            (Workload::UdpStream, Direction::Tx, OfferedLoad::PacketsPerSecond(5000)),
        ] {
            let mut spec = Spec::new(workload);
            (spec.direction, spec.rate, spec.streams, spec.dscp) = (direction, rate, 3, 46);
            (spec.socket_buffer, spec.message_size) = (Some(100_000), Some(1400));
            crate::check(Tool::Iperf2, &spec).unwrap();
            let header = Header::parse(&header_of(&spec, direction).emit()).unwrap();
            assert_eq!(spec_of(&header, workload, 1470, &limits()).unwrap(), spec);
        }
    }

    #[test]
    fn legacy_tests_go_both_ways_at_once_or_one_after_the_other() {
        let mut header = header_of(&Spec::new(Workload::TcpStream), Direction::Rx);
        for (flags, direction) in [(VERSION1, Direction::Rx), (VERSION1 | AT_ONCE, Direction::Both)] {
            header.flags = EXTEND | flags;
            assert_eq!(spec_of(&header, Workload::TcpStream, 1, &limits()).unwrap().direction, direction);
        }
    }

    #[test]
    fn what_is_above_the_limits_is_not_served() {
        #[track_caller]
        fn check(workload: Workload, change: impl FnOnce(&mut Spec), limits: &Limits, contains: &str) {
            let mut spec = Spec::new(workload);
            change(&mut spec);
            let header = header_of(&spec, spec.direction);
            let refused = spec_of(&header, workload, 1470, limits).unwrap_err();
            assert!(refused.contains(contains), "{refused}");
        }
        let slow = Limits { rate: Some(10_000_000), ..limits() };
        check(Workload::TcpStream, |_| {}, &slow, "rate");
        check(Workload::UdpStream, |s| (s.rate, s.streams) = (OfferedLoad::BitsPerSecond(6_000_000), 2), &slow, "rate");
        check(Workload::TcpStream, |s| s.extent = Extent::Time(Duration::from_secs(3601)), &limits(), "longer");
        let asks = |rate: &'static str, time_s| {
            move |s: &mut Spec| {
                (s.direction, s.rate) = (Direction::Tx, rate.parse().unwrap());
                s.extent = Extent::Time(Duration::from_secs(time_s));
            }
        };
        check(Workload::UdpStream, asks("1M", 1), &Limits::default(), "--allow-unproven-udp serves");
        check(Workload::UdpStream, asks("1001M", 1), &limits(), "higher rate than --allow-unproven-udp");
        check(Workload::UdpStream, asks("unlimited", 1), &limits(), "higher rate than --allow-unproven-udp");
        check(Workload::UdpStream, asks("1M", 61), &limits(), "longer than the 60 s");
        check(Workload::TcpStream, |s| s.streams = 129, &limits(), "128");
        check(Workload::UdpStream, |s| s.message_size = Some(17), &limits(), "size");
        check(
            Workload::TcpStream,
            |s| (s.direction, s.extent) = (Direction::Tx, Extent::Octets(0)),
            &limits(),
            "how much",
        );
    }

    #[test]
    fn what_iperf2_has_not_is_said() {
        #[track_caller]
        fn check(workload: Workload, change: impl FnOnce(&mut Spec), contains: &str) {
            let mut spec = Spec::new(workload);
            change(&mut spec);
            let sentence = crate::check(Tool::Iperf2, &spec).unwrap_err().to_string();
            assert!(sentence.contains(contains), "{sentence}");
        }
        check(Workload::UdpRr, |_| {}, "iperf2 has no udp-rr; choose tcp-stream");
        check(Workload::TcpRr, |s| s.direction = Direction::Tx, "direction=rx");
        check(Workload::TcpRr, |s| s.response_size = 1, "response_size=64");
        check(Workload::UdpStream, |s| s.probe = true, "leave probe out");
        check(Workload::UdpStream, |s| s.message_size = Some(17), "message_size=18");
        check(Workload::UdpStream, |s| s.warmup = Duration::from_secs(1), "leave warmup out");
        let odd = |s: &mut Spec| (s.direction, s.extent) = (Direction::Tx, Extent::Time(Duration::from_millis(1234)));
        check(Workload::TcpStream, odd, "steps of 10ms");
        let slow = |s: &mut Spec| {
            (s.direction, s.rate) = (Direction::Tx, OfferedLoad::BitsPerSecond(10_000));
            (s.extent, s.message_size) = (Extent::Time(Duration::from_secs(2)), Some(65_507));
        };
        check(Workload::UdpStream, slow, "waits 52 s to send its next message");
        // A gap that is a little longer than the trial is waited for.
        let mut little = Spec { message_size: Some(4000), ..Spec::new(Workload::UdpStream) };
        (little.direction, little.rate) = (Direction::Tx, OfferedLoad::BitsPerSecond(10_000));
        little.extent = Extent::Time(Duration::from_secs(2));
        crate::check(Tool::Iperf2, &little).unwrap();
    }

    #[test]
    fn a_report_tells_which_of_the_last_datagrams_was_heard() {
        let mut ours = FlowOutcome::new(0, Role::Sender);
        (ours.messages, ours.messages_total, ours.octets, ours.octets_total) = (11, 11, 1100, 1100);
        let report = Report { datagrams: 13, lost: 3, octets: 1000, elapsed_us: 5, ..Report::default() };
        let far = reported(&mut ours, &report, 4).unwrap();
        assert_eq!((ours.messages_total, ours.end_marks, ours.octets_total), (13, 2, 1300));
        assert_eq!(far.arrivals.unwrap().received, 10);
        let hostile = Report { datagrams: u64::MAX, lost: 0, ..Report::default() };
        reported(&mut ours, &hostile, 0).unwrap();
        assert_eq!(ours.messages_total, 13, "what this end sent is no stranger's to tell");
    }

    #[test]
    fn a_report_from_before_2_1_lacks_the_first_datagram_and_the_time() {
        let mut ours = FlowOutcome { elapsed_ns: 1_000_000_000, ..FlowOutcome::new(0, Role::Sender) };
        (ours.messages, ours.messages_total, ours.octets_total) = (9, 9, 1800);
        let report =
            Report { datagrams: 9, lost: 2, octets: 1200, elapsed_us: 1_400_000, is_old: true, ..Report::default() };
        let far = reported(&mut ours, &report, 0).unwrap();
        assert_eq!((far.messages_total, far.octets_total, far.elapsed_ns), (7, 1400, 1_000_000_000));
    }

    #[test]
    fn a_report_of_short_counts_tells_nothing_of_more_datagrams() {
        let mut ours = FlowOutcome::new(0, Role::Sender);
        let sent = (1 << 31) + 1000;
        (ours.messages, ours.messages_total, ours.octets_total) = (sent, sent, sent * 100);
        // An old server took the number 2^31, which is negative in 32 bits, for the end.
        let short = Report { datagrams: 1 << 31, octets: 100 << 31, is_short: true, ..Report::default() };
        assert_eq!(reported(&mut ours.clone(), &short, 4), None);
        let long = Report { datagrams: sent, is_short: false, ..short };
        assert_eq!(reported(&mut ours, &long, 4).unwrap().messages_total, sent);
    }
}
