//! An iperf3 client's parameters as a trial of linerate's, or the error code with which a server refuses them; and both
//! ends' accounts in iperf3's terms and in ours.
//! Knows no connections.

use std::time::Duration;

use linerate_machine::end::{Direction, End};
use linerate_machine::units::OfferedLoad;
use linerate_trial::api::{ApiUse, SenderApi};
use linerate_trial::arrivals::Arrivals;
use linerate_trial::doubt::ReportFigure;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role, TcpSummary, ThreadUse};
use linerate_trial::pace::Pacing;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

use super::datagram::MIN_LEN;
use super::parameters::Parameters;
use super::results::{Results, StreamResults};
use crate::abilities::cannot;
use crate::error::Error;
use crate::limits::{Exceeded, Limits};
use crate::plausible;
use crate::socket_options::chosen_size;

/// How long a server waits beyond the time that was asked for.
pub const SAFETY: Duration = Duration::from_secs(40);

/// The version that this implementation behaves like: 3.13 and later count what was left out apart.
const CLIENT_VERSION: &str = "3.17";

/// Error codes of iperf3 (`iperf_api.h`), which a server sends with [`super::message::State::ServerError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The streams' rates together are above the server's limit.
    Rate = 27,
    /// The test is longer than the server's limit.
    Time = 37,
    /// The parameters could not be read, or not be met.
    Parameters = 114,
    /// The client is nobody who may have a test.
    User = 142,
    /// Nothing arrived for too long.
    NoData = 144,
}

impl Refused {
    /// What the client did.
    pub fn sentence(self) -> &'static str {
        match self {
            Refused::Rate => "asked for a higher rate than is allowed",
            Refused::Time => "asked for a longer test than is allowed",
            Refused::Parameters => "asked for what is no test",
            Refused::User => "is no user that is allowed, or showed a wrong password",
            Refused::NoData => "sent nothing",
        }
    }
}

/// The longest time that a client leaves out (iperf3's MAX_OMIT_TIME).
const MOST_OMIT_S: u64 = 600;
/// Octets of all streams that a test may be asked for: numbers are exact up to here ([`super::parameters`]).
const MOST_OCTETS: u64 = 1 << 53;
/// Between two datagrams of a stream, of a sender that is as fast as it can be.
const LEAST_GAP_NS: f64 = 50.0;
/// What clients of TCP read and write at once where their user does not say.
const USUAL_LEN: u32 = 128 << 10;

/// What the client asks for, as a trial in which this server is the target.
pub fn spec_of(parameters: &Parameters, limits: &Limits) -> Result<Spec, Refused> {
    let workload = match (parameters.tcp, parameters.udp) {
        (true, false) => Workload::TcpStream,
        (false, true) => Workload::UdpStream,
        _ => return Err(Refused::Parameters),
    };
    let small = |number: Option<u64>| number.filter(|&number| number > 0).and_then(|number| u32::try_from(number).ok());
    let mut spec = Spec::new(workload);
    spec.direction = match (parameters.reverse, parameters.bidirectional) {
        (_, true) => Direction::Both,
        (true, false) => Direction::Tx,
        (false, false) => Direction::Rx,
    };
    spec.streams = u16::try_from(parameters.parallel.max(1)).map_err(|_| Refused::Parameters)?;
    // Before any sum of times: a client says what it likes.
    if parameters.omit > MOST_OMIT_S || parameters.time > limits.time_s {
        return Err(Refused::Time);
    }
    spec.warmup = Duration::from_secs(parameters.omit);
    let blocks = parameters.blockcount.saturating_mul(parameters.len.unwrap_or(0));
    spec.extent = match parameters.num.max(blocks) {
        0 => Extent::Time(Duration::from_secs(parameters.time)),
        octets if octets.saturating_mul(spec.streams.into()) > MOST_OCTETS => return Err(Refused::Parameters),
        octets => Extent::Octets(octets),
    };
    let rate = parameters.bandwidth.or(parameters.fqrate).unwrap_or(0);
    if rate > 0 {
        spec.rate = OfferedLoad::BitsPerSecond(rate);
        spec.pacing = (parameters.fqrate == Some(rate) && workload == Workload::TcpStream).then_some(Pacing::Fq);
    }
    spec.message_size = chosen_size(&spec, small(parameters.len).ok_or(Refused::Parameters)?, USUAL_LEN);
    spec.burst = small(parameters.burst).unwrap_or(1);
    spec.socket_buffer = small(parameters.window);
    spec.mss = parameters.mss.filter(|_| workload == Workload::TcpStream).and_then(|mss| u16::try_from(mss).ok());
    spec.nodelay = (workload == Workload::TcpStream).then_some(parameters.nodelay);
    spec.congestion_control = parameters.congestion.clone();
    spec.dscp = (parameters.tos.unwrap_or(0) >> 2) as u8 & 0x3f;
    if spec.burst > 1000 || spec.congestion_control.as_ref().is_some_and(|name| name.len() > 15) {
        return Err(Refused::Parameters);
    }
    limits.check(&spec, MIN_LEN as u32)?;
    Ok(spec)
}

impl From<Exceeded> for Refused {
    fn from(exceeded: Exceeded) -> Refused {
        match exceeded {
            Exceeded::Rate => Refused::Rate,
            Exceeded::Time => Refused::Time,
            Exceeded::Streams | Exceeded::Size => Refused::Parameters,
        }
    }
}

/// Whether an iperf3 server can take part in this trial, beside its abilities.
pub fn check(spec: &Spec) -> Result<(), Error> {
    let cannot = |what: &str, instead| cannot(Tool::Iperf3, what, instead);
    if spec.direction != Direction::Tx && spec.warmup.subsec_nanos() != 0 {
        return cannot("warm-up but of whole seconds", "choose warmup=1s, or none");
    }
    if spec.direction != Direction::Rx && matches!(spec.extent, Extent::Octets(_)) {
        return cannot("end of a stream of its server's by a number of bytes", "choose a duration, or direction=rx");
    }
    if spec.workload == Workload::TcpStream && spec.message_octets() > 1 << 20 {
        return cannot("message_size above 1M", "choose a smaller one");
    }
    Ok(())
}

/// A trial as a client asks a server for it.
pub fn parameters_of(spec: &Spec) -> Parameters {
    let (num, time) = match spec.extent {
        Extent::Octets(octets) => (octets.saturating_mul(spec.streams.into()), 0),
        // The client ends the test, to the millisecond; the server has this for its own safety.
        Extent::Time(time) => (0, time.as_secs() + u64::from(time.subsec_nanos() != 0)),
    };
    let size = spec.message_octets();
    let is_udp = spec.workload == Workload::UdpStream;
    Parameters {
        tcp: !is_udp,
        udp: is_udp,
        omit: spec.warmup.as_secs(),
        time,
        num,
        parallel: spec.streams.into(),
        len: Some(size.into()),
        mss: spec.mss.map(u64::from),
        nodelay: !is_udp && spec.nodelay(),
        reverse: spec.direction == Direction::Tx,
        bidirectional: spec.direction == Direction::Both,
        window: spec.socket_buffer.map(u64::from),
        bandwidth: spec.rate.bits_per_second(size.into()).map(|bits| bits as u64),
        pacing_timer: Some(1000),
        burst: (spec.burst > 1).then_some(spec.burst.into()),
        tos: (spec.dscp != 0).then_some(u64::from(spec.dscp) << 2),
        congestion: spec.congestion_control.clone(),
        udp_counters_64bit: is_udp && most_datagrams(spec) > i32::MAX as f64,
        client_version: Some(CLIENT_VERSION.to_owned()),
        ..Parameters::default()
    }
}

/// The datagrams of a stream at most. Servers before 3.1 have numbers of 32 bits alone, and say nothing of being asked for longer ones.
fn most_datagrams(spec: &Spec) -> f64 {
    let size = u64::from(spec.message_octets());
    match spec.extent {
        Extent::Octets(octets) => octets as f64 / size as f64,
        Extent::Time(time) => (spec.warmup + time).as_nanos() as f64 / spec.rate.gap_ns(size).unwrap_or(LEAST_GAP_NS),
    }
}

/// iperf3's number of the stream that was opened as the `n`th, from 0: the second is 3.
pub fn stream_id(n: usize) -> i64 {
    if n == 0 { 1 } else { n as i64 + 2 }
}

/// The flows of a trial in the order in which a client opens their streams: those first that it sends.
pub fn in_order_of_opening(spec: &Spec) -> Vec<Flow> {
    let mut flows = Flow::of(spec);
    flows.sort_by_key(|flow| flow.source == End::Target);
    flows
}

/// What this end tells of its flows.
pub fn results_of(spec: &Spec, outcome: &Outcome) -> Results {
    let sends = |flow: &FlowOutcome| flow.role == Role::Sender;
    let known = outcome.flows.iter().filter(|flow| sends(flow)).map(|flow| flow.tcp.is_some());
    let threads = outcome.flows.iter().map(|flow| flow.thread).fold(ThreadUse::default(), |sum, one| sum + one);
    // The threads' time is of the whole test, as iperf3's is: what `-O` leaves out is in it.
    let elapsed_s = outcome.flows.iter().map(seconds).fold(0.0, f64::max) + spec.warmup.as_secs_f64();
    let percent = |time_s: f64| if elapsed_s > 0.0 { 100.0 * time_s / elapsed_s } else { 0.0 };
    let streams = in_order_of_opening(spec).into_iter().enumerate();
    let of = |flow: Flow| outcome.flows.iter().find(|one| one.id == flow.id);
    Results {
        cpu_util_total: percent(threads.user_s + threads.system_s),
        cpu_util_user: percent(threads.user_s),
        cpu_util_system: percent(threads.system_s),
        sender_has_retransmits: known.reduce(|all, one| all && one).map_or(-1, i64::from),
        congestion_used: outcome.flows.iter().find_map(|flow| flow.tcp.as_ref()?.congestion_control.clone()),
        streams: streams.filter_map(|(n, flow)| Some(stream_results(stream_id(n), of(flow)?))).collect(),
        ..Results::default()
    }
}

fn seconds(flow: &FlowOutcome) -> f64 {
    flow.elapsed_ns as f64 / 1e9
}

fn stream_results(id: i64, flow: &FlowOutcome) -> StreamResults {
    let mut stream = StreamResults {
        id,
        bytes: flow.octets as i64,
        retransmits: flow
            .tcp
            .as_ref()
            .filter(|_| flow.role == Role::Sender)
            .map_or(-1, |tcp| tcp.retransmissions as i64),
        packets: flow.messages_total as i64,
        omitted_errors: Some(0),
        omitted_packets: Some((flow.messages_total - flow.messages) as i64),
        end_time: seconds(flow),
        ..StreamResults::default()
    };
    match &flow.arrivals {
        Some(arrivals) => {
            // What is missing below the highest number, and the highest number: so iperf3 counts.
            let missing = arrivals.missing();
            stream.errors = missing as i64;
            stream.packets = (arrivals.received_total + missing) as i64;
            // The same at the moment at which the time that is left out ended.
            let before = arrivals.missing_before.unwrap_or(0).min(missing);
            stream.omitted_errors = Some(before as i64);
            stream.omitted_packets = Some((arrivals.received_total - arrivals.received + before) as i64);
            stream.jitter = arrivals.jitter_s.unwrap_or(0.0);
        }
        None if flow.tcp.is_some() => (stream.packets, stream.omitted_packets) = (0, Some(0)),
        None => {}
    }
    stream
}

/// The peer's account in our terms, as far as it tells: what it leaves out is as if it were not known, or 0 where there
/// is no such thing as not known.
pub fn outcome_of(spec: &Spec, end: End, results: &Results) -> Outcome {
    let mut implausible = Vec::new();
    let flows = in_order_of_opening(spec).into_iter().enumerate().filter_map(|(n, flow)| {
        // Without a number of bytes nothing is known of a stream.
        let stream = results.streams.iter().find(|stream| stream.id == stream_id(n) && stream.bytes >= 0);
        if stream.is_some_and(|stream| counts_heads(spec, flow.source != end, stream)) {
            implausible.extend([ReportFigure::Bytes, ReportFigure::Datagrams]);
            return None;
        }
        if stream.is_none() {
            implausible.push(ReportFigure::Bytes);
        } else if stream.is_some_and(|stream| misses_too_many(stream) || stream.packets < 0) {
            implausible.push(ReportFigure::Datagrams);
        }
        Some(flow_outcome(spec, end, flow, stream?))
    });
    let mut flows: Vec<FlowOutcome> = flows.collect();
    flows.sort_by_key(|flow| flow.id);
    let mut outcome = Outcome::of_flows(end, flows);
    plausible::doubt(&mut outcome, implausible);
    outcome
}

/// A receiver that has bytes of no datagram: 3.22 with `--skip-rx-copy` reads the head of each, counts its 16 bytes, and no number.
fn counts_heads(spec: &Spec, receives: bool, stream: &StreamResults) -> bool {
    spec.workload == Workload::UdpStream && receives && stream.packets == 0 && stream.bytes > 0
}

/// Notes with what an iperf3 client sent that its stack was to cut it apart, as its `parameters` say.
pub fn note_buffers(theirs: &mut Outcome, parameters: &Parameters) {
    let Some(segments) = parameters.datagrams_to_a_buffer() else { return };
    for flow in theirs.flows.iter_mut().filter(|flow| flow.role == Role::Sender) {
        let name = SenderApi::UdpSegment.name().to_owned();
        flow.api = ApiUse { name, batch: segments, segments: Some(segments), ..ApiUse::default() };
    }
}

/// More are missing than there were.
fn misses_too_many(stream: &StreamResults) -> bool {
    stream.errors > stream.packets
}

fn flow_outcome(spec: &Spec, end: End, flow: Flow, stream: &StreamResults) -> FlowOutcome {
    // A stranger's numbers may be any; sums of these fit.
    let count = |number: i64| u64::try_from(number).unwrap_or(0).min(1 << 53);
    let role = if flow.source == end { Role::Sender } else { Role::Receiver };
    let mut outcome = FlowOutcome::new(flow.id, role);
    outcome.octets = count(stream.bytes);
    outcome.octets_total = outcome.octets;
    outcome.elapsed_ns = time_s(stream.end_time - stream.start_time).map_or(0, |time_s| (time_s * 1e9) as u64);
    if spec.workload == Workload::UdpStream {
        // Octets are those of the measured part in every version; what was left out of the datagrams is told from 3.13 on.
        let measured = outcome.octets / u64::from(spec.message_octets());
        let lost = if role == Role::Receiver && !misses_too_many(stream) { count(stream.errors) } else { 0 };
        outcome.messages_total = count(stream.packets).saturating_sub(lost);
        outcome.messages = match (stream.omitted_packets, stream.omitted_errors) {
            (Some(packets), Some(errors)) => {
                let lost_before = if role == Role::Receiver { count(errors) } else { 0 };
                outcome.messages_total.saturating_sub(count(packets).saturating_sub(lost_before))
            }
            _ if spec.warmup.is_zero() => outcome.messages_total,
            _ => measured.min(outcome.messages_total),
        };
        if role == Role::Receiver {
            let received = outcome.messages;
            // Where nothing was lost nothing was before.
            let missing_before = stream.omitted_errors.map(count).or((lost == 0).then_some(0));
            outcome.arrivals = Some(Arrivals {
                missing_before,
                // The highest number that it saw: more nobody knows before both accounts are side by side.
                sent_by_end_mark: Some(count(stream.packets)),
                received,
                received_total: outcome.messages_total,
                jitter_s: time_s(stream.jitter),
                ..Arrivals::default()
            });
        }
    } else if role == Role::Sender && stream.retransmits >= 0 {
        outcome.tcp = Some(TcpSummary { retransmissions: count(stream.retransmits), ..TcpSummary::default() });
    }
    outcome
}

/// Seconds, where they may be a time of a test.
fn time_s(seconds: f64) -> Option<f64> {
    Some(seconds).filter(|seconds| (0.0..=1e6).contains(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(text: &str) -> Parameters {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_asked_becomes_a_trial() {
        let asked = parameters(
            r#"{"udp":true,"time":10,"omit":1,"parallel":2,"reverse":true,"len":1448,"bandwidth":5000000,"TOS":184}"#,
        );
        let spec = spec_of(&asked, &Limits::default()).unwrap();
        assert_eq!((spec.workload, spec.direction, spec.streams), (Workload::UdpStream, Direction::Tx, 2));
        assert_eq!((spec.rate, spec.dscp), (OfferedLoad::BitsPerSecond(5_000_000), 46));
        assert_eq!((spec.warmup, spec.extent), (Duration::from_secs(1), Extent::Time(Duration::from_secs(10))));
    }

    #[test]
    fn a_trial_asked_for_and_understood_is_the_same() {
        for (workload, direction, rate) in [
            (Workload::TcpStream, Direction::Rx, OfferedLoad::Unlimited),
            (Workload::TcpStream, Direction::Both, OfferedLoad::BitsPerSecond(7_000_000)),
            (Workload::UdpStream, Direction::Tx, OfferedLoad::BitsPerSecond(5_000_000)),
        ] {
            let mut spec = Spec::new(workload);
            (spec.direction, spec.rate, spec.streams, spec.dscp, spec.burst) = (direction, rate, 3, 46, 4);
            (spec.socket_buffer, spec.message_size, spec.warmup) = (Some(100_000), Some(1400), Duration::from_secs(2));
            if workload == Workload::TcpStream {
                (spec.mss, spec.nodelay, spec.congestion_control) = (Some(1000), Some(true), Some("reno".to_owned()));
            }
            let text = serde_json::to_string(&parameters_of(&spec)).unwrap();
            assert_eq!(spec_of(&parameters(&text), &Limits::default()).unwrap(), spec, "{text}");
        }
    }

    #[test]
    fn numbers_are_long_where_short_ones_do_not_last() {
        for (rate, time_s, long) in [
            (OfferedLoad::Unlimited, 10, false),
            (OfferedLoad::Unlimited, 600, true),
            (OfferedLoad::PacketsPerSecond(100_000), 20_000, false),
            (OfferedLoad::PacketsPerSecond(100_000), 30_000, true),
        ] {
            let extent = Extent::Time(Duration::from_secs(time_s));
            let spec = Spec { rate, extent, ..Spec::new(Workload::UdpStream) };
            assert_eq!(parameters_of(&spec).udp_counters_64bit, long, "{rate:?} for {time_s} s");
        }
    }

    #[test]
    fn what_iperf3_has_not_is_said() {
        #[track_caller]
        fn check(workload: Workload, change: impl FnOnce(&mut Spec), contains: &str) {
            let mut spec = Spec::new(workload);
            change(&mut spec);
            let sentence = crate::check(Tool::Iperf3, &spec).unwrap_err().to_string();
            assert!(sentence.contains(contains), "{sentence}");
        }
        check(Workload::TcpRr, |_| {}, "iperf3 has no tcp-rr; choose tcp-stream or udp-stream");
        check(Workload::UdpStream, |spec| spec.probe = true, "leave probe out");
        check(Workload::UdpStream, |spec| spec.warmup = Duration::from_millis(1500), "whole seconds");
        check(
            Workload::TcpStream,
            |spec| (spec.direction, spec.extent) = (Direction::Tx, Extent::Octets(1000)),
            "choose a duration",
        );
    }

    #[test]
    fn what_cannot_be_met_is_refused_with_iperf3s_code() {
        #[track_caller]
        fn check(text: &str, limits: &Limits, refused: Refused) {
            assert_eq!(spec_of(&parameters(text), limits).unwrap_err(), refused, "{text}");
        }
        let usual = Limits::default();
        check(r#"{"time":1,"len":8}"#, &usual, Refused::Parameters);
        check(r#"{"tcp":true,"udp":true,"len":1000}"#, &usual, Refused::Parameters);
        check(r#"{"tcp":true,"time":1}"#, &usual, Refused::Parameters);
        check(r#"{"udp":true,"time":1,"len":15}"#, &usual, Refused::Parameters);
        check(r#"{"tcp":true,"time":1,"len":4294967296}"#, &usual, Refused::Parameters);
        check(r#"{"tcp":true,"time":1,"len":1000,"parallel":129}"#, &usual, Refused::Parameters);
        check(r#"{"tcp":true,"blockcount":133333333333333333,"len":1024}"#, &usual, Refused::Parameters);
        check(r#"{"tcp":true,"num":9007199254740992,"len":1024,"parallel":2}"#, &usual, Refused::Parameters);
        check(r#"{"tcp":true,"time":3599,"omit":2,"len":1000}"#, &usual, Refused::Time);
        let slow = Limits { rate: Some(9_000_000), ..usual.clone() };
        check(r#"{"udp":true,"time":1,"len":1000,"parallel":2,"bandwidth":5000000}"#, &slow, Refused::Rate);
        check(r#"{"tcp":true,"time":1,"len":1000}"#, &slow, Refused::Rate);
    }

    #[test]
    fn streams_are_numbered_as_iperf3_does_and_the_clients_own_come_first() {
        assert_eq!((0..4).map(stream_id).collect::<Vec<_>>(), [1, 3, 4, 5]);
        let both = parameters(r#"{"tcp":true,"len":1000,"parallel":2,"bidirectional":true}"#);
        let spec = spec_of(&both, &Limits::default()).unwrap();
        let sources: Vec<End> = in_order_of_opening(&spec).iter().map(|flow| flow.source).collect();
        assert_eq!(sources, [End::Host, End::Host, End::Target, End::Target]);
    }

    #[test]
    fn what_was_lost_before_is_told_apart() {
        let spec = spec_of(&parameters(r#"{"udp":true,"len":1000,"omit":1,"time":1}"#), &Limits::default()).unwrap();
        let mut flow = FlowOutcome::new(0, Role::Receiver);
        // 13 numbers before, of which 3 never came; then 12, of which 2 did not.
        (flow.messages, flow.messages_total) = (10, 20);
        flow.arrivals = Some(Arrivals {
            received: 10,
            received_total: 20,
            missing_before: Some(3),
            loss_bursts: [(3, 1), (2, 1)].into(),
            ..Arrivals::default()
        });
        let told = results_of(&spec, &Outcome::of_flows(End::Target, vec![flow]));
        let stream = &told.streams[0];
        assert_eq!((stream.errors, stream.packets), (5, 25));
        assert_eq!((stream.omitted_errors, stream.omitted_packets), (Some(3), Some(13)));
        let again = outcome_of(&spec, End::Target, &told);
        assert_eq!(again.flows[0].arrivals.as_ref().map(|one| (one.received, one.received_total)), Some((10, 20)));
    }

    #[test]
    fn cpu_time_is_divided_by_the_time_in_which_it_was_spent() {
        let spec = Spec { warmup: Duration::from_secs(3), ..Spec::new(Workload::TcpStream) };
        let mut flow = FlowOutcome::new(0, Role::Receiver);
        (flow.elapsed_ns, flow.thread.system_s) = (1_000_000_000, 1.0);
        let told = results_of(&spec, &Outcome::of_flows(End::Target, vec![flow]));
        assert_eq!((told.cpu_util_total, told.cpu_util_system), (25.0, 25.0));
    }

    #[test]
    fn a_receivers_loss_is_what_it_did_not_get_of_the_numbers_it_saw() {
        let spec = spec_of(&parameters(r#"{"udp":true,"len":1000,"reverse":true}"#), &Limits::default()).unwrap();
        let stream = StreamResults {
            id: 1,
            bytes: 90_000,
            errors: 12,
            packets: 110,
            omitted_errors: Some(2),
            omitted_packets: Some(10),
            jitter: 1e-5,
            end_time: 2.0,
            ..StreamResults::default()
        };
        let results = Results { streams: vec![stream], ..Results::default() };
        let outcome = outcome_of(&spec, End::Host, &results);
        let arrivals = outcome.flows[0].arrivals.clone().unwrap();
        assert_eq!((arrivals.received, arrivals.received_total, outcome.flows[0].elapsed_ns), (90, 98, 2_000_000_000));
        // As 3.12 says it: the octets alone are without what was left out.
        let mut old = results.clone();
        (old.streams[0].omitted_errors, old.streams[0].omitted_packets) = (None, None);
        let spec_with = Spec { warmup: Duration::from_secs(1), ..spec.clone() };
        let arrivals = outcome_of(&spec_with, End::Host, &old).flows[0].arrivals.clone().unwrap();
        assert_eq!((arrivals.received, arrivals.received_total), (90, 98));
        let silent = outcome_of(&spec, End::Host, &Results::default());
        assert!(silent.flows.is_empty());
    }

    #[test]
    fn a_receiver_that_counts_the_heads_of_datagrams_tells_nothing_of_them() {
        let spec = spec_of(&parameters(r#"{"udp":true,"len":1448,"reverse":true}"#), &Limits::default()).unwrap();
        // 3.22 -u -R --skip-rx-copy, of 1727 datagrams.
        for (bytes, packets, is_told) in [(27_632, 0, false), (27_632, 1727, true), (0, 0, true)] {
            let stream = StreamResults { id: 1, bytes, packets, end_time: 1.0, ..StreamResults::default() };
            let outcome = outcome_of(&spec, End::Host, &Results { streams: vec![stream], ..Results::default() });
            assert_eq!((outcome.flows.len() == 1, outcome.doubts.is_empty()), (is_told, is_told), "{bytes}, {packets}");
        }
    }

    #[test]
    fn a_time_that_is_none_is_not_known() {
        let spec = spec_of(&parameters(r#"{"udp":true,"len":1000,"reverse":true}"#), &Limits::default()).unwrap();
        for (jitter, want) in [
            ("0", Some(0.0)),
            ("1.5e-05", Some(1.5e-5)),
            ("-5", None),
            ("-0.5", None),
            ("1e200", None),
            ("1.8446744073709552e19", None),
            ("18446744073709551615", None),
        ] {
            let text = format!(r#"{{"streams":[{{"id":1,"packets":10,"jitter":{jitter},"end_time":{jitter}}}]}}"#);
            let results: Results = serde_json::from_str(&text).unwrap();
            let flow = &outcome_of(&spec, End::Host, &results).flows[0];
            assert_eq!(flow.arrivals.as_ref().and_then(|arrivals| arrivals.jitter_s), want, "{jitter}");
            assert_eq!(flow.elapsed_ns, (want.unwrap_or(0.0) * 1e9) as u64, "{jitter}");
        }
    }
}
