//! Fuzz target: octets from a stranger as lines of a nuttcp client to our server, as a server's report to our client, and as
//! datagrams.
//! Knows no sockets.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linerate_machine::end::{Direction, End};
use linerate_peers::limits::Limits;
use linerate_peers::nuttcp::datagram::{Numbers, is_begin, is_end};
use linerate_peers::nuttcp::line::{Request, Version, is_taken, parse_hello, read};
use linerate_peers::nuttcp::mapping::{remote_of, request_of, spec_of};
use linerate_peers::nuttcp::report_writer::{Part, Writer};
use linerate_peers::nuttcp::server_report::ServerReport;
use linerate_peers::plausible;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{MAX_DATAGRAM, MAX_MESSAGE, MAX_STREAMS, Spec, Workload};
use linerate_trial::tool::Tool;

static LIMITS: LazyLock<Limits> =
    LazyLock::new(|| Limits { tests: 1, rate: Some(1_000_000_000), time_s: 60, ..Limits::default() });

fuzz_target!(|data: &[u8]| {
    // The first octet says what the others are.
    let Some((&kind, data)) = data.split_first() else { return };
    match kind % 3 {
        0 => request(data),
        1 => report(kind, data),
        _ => datagrams(kind, data),
    }
});

/// What a client says.
fn request(data: &[u8]) {
    let mut from = data;
    while let Ok(line) = read(&mut from) {
        assert!(line.len() <= 4096 && !line.contains('\n'));
        let _ = is_taken(&line);
        if let Some(version) = parse_hello(&line) {
            assert_eq!(Version::parse(&version.to_string()), Some(version));
        }
        let Some(asked) = Request::parse(&line) else { continue };
        if asked.besides.is_none() && asked.version == Version::OURS {
            // Times are said in millionths.
            let again = Request::parse(asked.emit(Version::OURS).trim_end()).expect("what was read can be written");
            let again = Request { timeout: asked.timeout, interval: asked.interval, ..again };
            assert_eq!(again, asked);
        }
        let Ok(spec) = spec_of(&asked, &LIMITS) else { continue };
        let most = if asked.udp { MAX_DATAGRAM } else { MAX_MESSAGE };
        assert!((1..=MAX_STREAMS).contains(&spec.streams) && spec.message_octets() <= most);
        assert!(spec.expected_time().is_none_or(|time| time.as_secs() <= LIMITS.time_s));
        let bits = spec.rate.bits_per_second(spec.message_octets().into()).expect("a limited one");
        assert!(bits * f64::from(spec.streams) <= 1e9 + f64::from(spec.streams));
        assert!(u32::from(asked.port) + u32::from(spec.streams) <= 65_535);
        let all = Part { octets: 1 << 40, elapsed: asked.timeout, packets: 1 << 30, drops: Some(-7) };
        assert!(Writer { asked: &asked }.interval(&all, &all).ends_with('\n'));
        if linerate_peers::check(Tool::Nuttcp, &spec).is_ok() {
            let line = request_of(&spec, asked.port).emit(Version::OURS);
            assert!(Request::parse(line.trim_end()).is_some(), "{line}");
        }
    }
}

/// What a server reports, of each kind of trial.
fn report(kind: u8, data: &[u8]) {
    let mut told = ServerReport::default();
    String::from_utf8_lossy(data).lines().for_each(|line| told.handle_line(line));
    assert!(told.intervals.len() <= 10_000 && told.errors.len() <= 4);
    assert!(told.errors.iter().all(|error| error.chars().count() <= 200));
    assert!(told.cpu().is_none_or(|(user, system)| user >= 0.0 && system >= 0.0));
    let udp = kind & 4 != 0;
    let mut spec = Spec::new(if udp { Workload::UdpStream } else { Workload::TcpStream });
    spec.message_size = Some(u32::from(kind >> 3) + 5);
    spec.direction = if kind & 0x40 != 0 { Direction::Tx } else { Direction::Rx };
    spec.streams = if udp || kind & 0x80 == 0 { 1 } else { 3 };
    let size = u64::from(spec.message_octets());
    let flow = |id| {
        let receives = spec.direction == Direction::Tx;
        let mut flow = FlowOutcome::new(id, if receives { Role::Receiver } else { Role::Sender });
        (flow.messages, flow.messages_total) = (1000, 1000);
        (flow.octets, flow.octets_total) = (1000 * size, 1000 * size);
        if udp && receives {
            let arrivals = flow.arrivals.insert(Default::default());
            (arrivals.received, arrivals.received_total) = (1000, 1000);
        }
        flow
    };
    let mut ours = Outcome::of_flows(End::Host, (0..spec.streams).map(flow).collect());
    let Some(mut far) = remote_of(&spec, &mut ours, &told) else { return };
    plausible::limit(&spec, &ours, &mut far, Duration::from_secs(60));
    assert!(far.flows.len() <= usize::from(spec.streams));
    for (theirs, ours) in far.flows.iter().zip(&ours.flows) {
        if let Some(arrivals) = theirs.arrivals.as_ref().or(ours.arrivals.as_ref()) {
            assert!(arrivals.sent_by_end_mark.is_some_and(|sent| arrivals.received_total <= sent));
        }
        assert!(theirs.slices.windows(2).all(|two| two[0].end_ns == two[1].start_ns));
    }
}

/// Datagrams of one sender, all of one length.
fn datagrams(kind: u8, data: &[u8]) {
    let len = usize::from(kind) / 2 + 1;
    let numbers = Numbers::default();
    for octets in data.chunks(len) {
        assert!(!(is_begin(octets) && is_end(octets)));
        if let Some(number) = numbers.parse(len, octets) {
            assert!(octets.len() == len && len >= 32);
            let count = (u128::from(number) + 1) * len as u128;
            assert!(count <= u128::from(u64::MAX));
        }
    }
}
