//! What a nuttcp client asks for as a trial of linerate's, and a trial of linerate's as it asks a nuttcp server for it; and
//! what the server's report says of its end.
//! Knows no connections.

use std::time::Duration;

use linerate_machine::end::Direction;
use linerate_machine::units::OfferedLoad;
use linerate_trial::arrivals::Arrivals;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role, Slice, TcpSummary};
use linerate_trial::spec::{Extent, MAX_DATAGRAM, MAX_MESSAGE, MAX_SLICES, MAX_STREAMS, Spec, Workload};
use linerate_trial::tool::Tool;

use super::datagram::COUNTED_LEN;
use super::line::Request;
use super::server_report::ServerReport;
use crate::abilities::{cannot, check_turns};
use crate::error::Error;
use crate::limits::Limits;
use crate::remote_end::remote_end;
use crate::socket_options::chosen_size;

/// The first port of data that a client asks for: the one after the server's own, as nuttcp's usual two are.
pub fn data_port(server: u16) -> u16 {
    server.checked_add(1).unwrap_or(5001)
}

/// What clients of TCP write at once where their user does not say.
const USUAL_SIZE: u32 = 64 << 10;
/// The smallest datagram of data.
pub const LEAST_DATAGRAM: u32 = 5;
/// The longest time between two reports of a receiver, and the shortest.
const MOST_INTERVAL: Duration = Duration::from_secs(60);
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// The first port that a client may have opened here: those below are of other servers.
const LEAST_PORT: u16 = 1024;

/// What a client asks for, as a trial in which this server is the target; or why it is not served.
pub fn spec_of(asked: &Request, limits: &Limits) -> Result<Spec, String> {
    if let Some(what) = asked.besides {
        return Err(format!("{what} is not to be had here; ask nuttcp's own server"));
    }
    let workload = if asked.udp { Workload::UdpStream } else { Workload::TcpStream };
    let mut spec = Spec::new(workload);
    let streams = u64::from(asked.nstream.max(1));
    spec.direction = if asked.client_sends { Direction::Rx } else { Direction::Tx };
    spec.streams = asked.nstream.max(1);
    let (least, most) = if asked.udp { (LEAST_DATAGRAM, MAX_DATAGRAM) } else { (1, MAX_MESSAGE) };
    if !(least..=most).contains(&asked.buflen) {
        return Err(format!("messages of {} bytes are not to be had; choose -l{least} to -l{most}", asked.buflen));
    }
    if spec.streams > MAX_STREAMS {
        return Err(format!("{} streams are too many; choose at most -N{MAX_STREAMS}", spec.streams));
    }
    if !limits.allow_messages(spec.streams, asked.buflen) {
        return Err(format!("{} streams of such messages take too much memory; choose a smaller -l", spec.streams));
    }
    if asked.udp && spec.streams > 1 {
        return Err("several streams of datagrams are not to be had; leave -N out, or run several clients".to_owned());
    }
    if u32::from(asked.port) + u32::from(spec.streams) > 65_535 || asked.port == 0 {
        return Err("there are not as many ports from this one on; choose a lower -p".to_owned());
    }
    // A client could have the ports of other servers of this machine before they are started.
    if asked.port < LEAST_PORT && asked.client_sends != (asked.reverse && !asked.udp) {
        return Err(format!("ports below {LEAST_PORT} are not opened here; choose a higher -p"));
    }
    spec.extent = match asked.nbuf {
        Some(nbuf) => Extent::Octets((nbuf.saturating_mul(asked.buflen.into()) / streams).max(1)),
        None if asked.timeout.is_zero() => Extent::Time(limits.time()),
        None => Extent::Time(asked.timeout),
    };
    if let Some(kbps) = asked.rate_kbps {
        spec.rate = OfferedLoad::BitsPerSecond((kbps.saturating_mul(1000) / streams).max(1));
    }
    spec.message_size = chosen_size(&spec, asked.buflen, USUAL_SIZE);
    if !asked.interval.is_zero() {
        // As often as the client wants, up to what a record holds, and once at the least.
        let time = spec.expected_time().unwrap_or(limits.time());
        let least = (time / MAX_SLICES as u32).max(Duration::from_millis(10));
        spec.interval = asked.interval.min(time).max(least);
    }
    spec.socket_buffer = Some(asked.win).filter(|octets| (1..=1 << 30).contains(octets));
    spec.dscp = asked.tos >> 2;
    if !asked.udp {
        spec.mss = Some(asked.mss).filter(|mss| *mss >= 88);
        spec.nodelay = Some(asked.nodelay);
    }
    if asked.timeout > limits.time() {
        return Err(format!("tests are at most {} s here; choose a shorter -T", limits.time_s));
    }
    if let Some(most) = limits.rate
        && asked.rate_kbps.is_none_or(|kbps| kbps.saturating_mul(1000) > most)
    {
        return Err(format!("tests are at most {:.3} Mbit/s here; choose a smaller -R", most as f64 / 1e6));
    }
    Ok(spec)
}

/// Bits per second of all streams together, in the kilobits that are asked for.
fn kilobits(spec: &Spec) -> Option<f64> {
    let bits = spec.rate.bits_per_second(spec.message_octets().into())?;
    Some(bits * f64::from(spec.streams) / 1000.0)
}

/// Makes a trial one that a server can take part in, where the difference is small: it counts whole messages and
/// kilobits per second where it sends, and its report of datagrams knows no warm-up.
pub fn fit(spec: &mut Spec) {
    if spec.direction == Direction::Rx {
        if spec.workload == Workload::UdpStream {
            spec.warmup = Duration::ZERO;
        }
        return;
    }
    let size = u64::from(spec.message_octets());
    if let Extent::Octets(octets) = &mut spec.extent {
        *octets = octets.div_ceil(size) * size;
    }
    if let Some(kbps) = kilobits(spec)
        && kbps.fract() != 0.0
    {
        let streams = f64::from(spec.streams);
        spec.rate = OfferedLoad::BitsPerSecond((kbps.round().max(1.0) * 1000.0 / streams).round() as u64);
    }
}

/// Whether a nuttcp server can take part in this trial, beside its abilities.
pub fn check(spec: &Spec) -> Result<(), Error> {
    let cannot = |what: &str, instead| cannot(Tool::Nuttcp, what, instead);
    if spec.direction == Direction::Rx {
        return match spec.workload {
            Workload::UdpStream if !spec.warmup.is_zero() => {
                cannot("warm-up in its server's report of what arrived", "leave warmup out, or choose direction=tx")
            }
            _ => Ok(()),
        };
    }
    if kilobits(spec).is_some_and(|kbps| !(0.999..=4e9).contains(&kbps)) {
        return cannot("rate of its server's below 1 kbit/s or above 4 Tbit/s", "choose another rate, or direction=rx");
    }
    if let Extent::Octets(octets) = spec.extent
        && octets / u64::from(spec.message_octets()) * u64::from(spec.streams) >= super::line::UNLIMITED_BUFFERS
    {
        return cannot("test of so many messages", "choose fewer bytes, a larger message_size, or a duration");
    }
    check_turns(Tool::Nuttcp, spec)
}

/// A trial as a client asks a server for it, with the port of the first stream.
pub fn request_of(spec: &Spec, port: u16) -> Request {
    let is_udp = spec.workload == Workload::UdpStream;
    let (nbuf, timeout) = match spec.extent {
        Extent::Time(time) => (None, spec.warmup + time),
        Extent::Octets(octets) => {
            let each = octets.div_ceil(spec.message_octets().into());
            (
                Some(each.saturating_mul(spec.streams.into()).clamp(1, super::line::UNLIMITED_BUFFERS - 1)),
                Duration::ZERO,
            )
        }
    };
    // A sender of datagrams numbers them only where a receiver reports as it goes, which must be before the end.
    let interval = spec.interval.clamp(LEAST_INTERVAL, MOST_INTERVAL);
    let interval = if timeout.is_zero() { interval } else { interval.min(timeout / 2) };
    let sends = spec.direction == Direction::Rx;
    Request {
        buflen: spec.message_octets(),
        nbuf,
        win: spec.socket_buffer.unwrap_or(0),
        nstream: spec.streams,
        // The sender keeps the pace.
        rate_kbps: kilobits(spec).filter(|_| !sends).map(|kbps| kbps.round().max(1.0) as u64),
        port,
        client_sends: sends,
        timeout,
        interval,
        // The client opens every connection: firewalls are usually before hosts.
        reverse: !sends && !is_udp,
        mss: spec.mss.filter(|_| !is_udp).unwrap_or(0),
        tos: spec.dscp << 2,
        rate_is_pps: matches!(spec.rate, OfferedLoad::PacketsPerSecond(_)),
        nodelay: !is_udp && spec.nodelay(),
        ..Request::new(is_udp)
    }
}

/// The octets that carry this trial's numbers, if its datagrams are numbered.
pub fn is_numbered(asked: &Request) -> bool {
    asked.udp && !asked.interval.is_zero() && asked.buflen as usize >= COUNTED_LEN
}

/// The server's end as it reports it, beside this end's account; and this end's made to agree where only the server knows.
/// `None`: it reported nothing.
pub fn remote_of(spec: &Spec, ours: &mut Outcome, told: &ServerReport) -> Option<Outcome> {
    let total = told.total?;
    let size = u64::from(spec.message_octets());
    let mut far = remote_end(spec, ours);
    let role = if spec.direction == Direction::Rx { Role::Receiver } else { Role::Sender };
    if spec.workload == Workload::UdpStream {
        let near = ours.flows.first_mut()?;
        let octets = total.octets(size, near.octets_total);
        let mut flow = FlowOutcome::new(near.id, role);
        flow.messages_total = octets / size;
        match &mut near.arrivals {
            Some(arrivals) => {
                arrivals.jitter_s = None;
                flow.messages_total = flow.messages_total.max(arrivals.received_total);
                arrivals.sent_by_end_mark = Some(flow.messages_total);
                flow.messages = flow.messages_total - (arrivals.received_total - arrivals.received);
            }
            None => {
                flow.messages = flow.messages_total;
                let received = flow.messages;
                flow.arrivals = Some(Arrivals {
                    received,
                    received_total: received,
                    sent_by_end_mark: Some(near.messages_total),
                    unnumbered: told.intervals.iter().all(|interval| interval.drops.is_none()),
                    ..Arrivals::default()
                });
            }
        }
        (flow.octets, flow.octets_total) = (flow.messages * size, flow.messages_total * size);
        far.flows = vec![flow];
    } else {
        let sum: u64 = ours.flows.iter().map(|flow| flow.octets_total).sum();
        let octets = total.octets(1, sum);
        match &mut far.flows[..] {
            // What came before the end of the warm-up, this end knows.
            [only] => {
                only.octets = octets.saturating_sub(only.octets_total - only.octets);
                only.octets_total = octets;
            }
            // Of parallel streams the server tells the sum. A receiver reads them in turn, and leaves with the first that
            // ends: what it left was each stream's in proportion, as far as anybody knows.
            flows if octets < sum => {
                for flow in flows {
                    let part = |of: u64| (u128::from(of) * u128::from(octets) / u128::from(sum)) as u64;
                    (flow.octets, flow.octets_total) = (part(flow.octets), part(flow.octets_total));
                }
            }
            // More than was sent is nobody's.
            _ if octets > sum => far.flows.clear(),
            _ => {}
        }
    }
    for flow in &mut far.flows {
        flow.elapsed_ns = total.ns().saturating_sub(spec.warmup.as_nanos() as u64);
        flow.socket_buffer = if role == Role::Sender { told.send_buffer } else { told.receive_buffer };
    }
    if let [only] = &mut far.flows[..] {
        only.calls = told.calls.unwrap_or(0);
        if let Some(retransmissions) = told.retransmissions.filter(|_| spec.workload == Workload::TcpStream) {
            only.tcp = Some(TcpSummary { retransmissions, mss: told.mss, ..TcpSummary::default() });
        }
        if spec.warmup.is_zero() {
            only.slices = slices(told, if spec.workload.is_udp() { size } else { 0 });
        }
    }
    // Its process has all streams; the machine's account is a sum.
    if let (Some(first), Some((user_s, system_s))) = (far.flows.first_mut(), told.cpu()) {
        (first.thread.user_s, first.thread.system_s) = (user_s, system_s);
    }
    Some(far)
}

/// A receiver's intervals, one after the other. `size`: of datagrams; 0 of octets.
fn slices(told: &ServerReport, size: u64) -> Vec<Slice> {
    let mut start_ns = 0_u64;
    let slice = |interval: &super::server_report::Interval| {
        let end_ns = start_ns.saturating_add(interval.ns);
        let messages = (interval.octets + size / 2).checked_div(size).unwrap_or(0);
        let octets = if size > 0 { messages * size } else { interval.octets };
        let slice = Slice { start_ns, end_ns, octets, messages, missing: interval.drops, tcp: None };
        start_ns = end_ns;
        slice
    };
    told.intervals.iter().map(slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<Spec> {
        let mut specs = Vec::new();
        for workload in [Workload::TcpStream, Workload::UdpStream] {
            for direction in [Direction::Rx, Direction::Tx] {
                let mut spec = Spec::new(workload);
                (spec.direction, spec.dscp, spec.socket_buffer) = (direction, 46, Some(100_000));
                spec.message_size = Some(1400);
                if workload == Workload::TcpStream {
                    (spec.streams, spec.mss, spec.nodelay) = (3, Some(1000), Some(true));
                }
                if direction == Direction::Tx {
                    spec.rate = OfferedLoad::BitsPerSecond(7_000_000);
                }
                specs.push(spec.clone());
                spec.extent = Extent::Octets(14_000);
                specs.push(spec);
            }
        }
        specs
    }

    #[test]
    fn a_trial_asked_for_and_understood_is_the_same() {
        for spec in specs() {
            crate::check(Tool::Nuttcp, &spec).unwrap();
            let line = request_of(&spec, 5001).emit(super::super::line::Version::OURS);
            let asked = Request::parse(line.trim_end()).unwrap();
            assert_eq!(spec_of(&asked, &Limits::default()).unwrap(), spec, "{line}");
        }
    }

    #[test]
    fn a_trial_is_fitted_to_what_the_server_counts() {
        let mut spec = Spec { direction: Direction::Tx, ..Spec::new(Workload::UdpStream) };
        (spec.message_size, spec.extent, spec.rate) =
            (Some(1000), Extent::Octets(2500), OfferedLoad::PacketsPerSecond(3333));
        fit(&mut spec);
        assert_eq!((spec.extent, spec.rate), (Extent::Octets(3000), OfferedLoad::PacketsPerSecond(3333)));
        spec.rate = OfferedLoad::BitsPerSecond(1_234_567);
        fit(&mut spec);
        assert_eq!(spec.rate, OfferedLoad::BitsPerSecond(1_235_000));
        let mut warm = Spec { warmup: Duration::from_secs(1), ..Spec::new(Workload::UdpStream) };
        fit(&mut warm);
        assert!(warm.warmup.is_zero());
    }

    #[test]
    fn datagrams_are_numbered_where_the_receiver_reports() {
        let mut spec = Spec { direction: Direction::Tx, ..Spec::new(Workload::UdpStream) };
        spec.extent = Extent::Time(Duration::from_millis(500));
        let asked = request_of(&spec, 5001);
        assert_eq!(asked.interval, Duration::from_millis(250), "not before the end, it reports nothing");
        assert!(is_numbered(&asked));
        assert!(!is_numbered(&Request { buflen: 31, ..asked }));
    }

    #[test]
    fn a_record_holds_its_intervals() {
        let asked =
            Request { timeout: Duration::from_secs(1000), interval: Duration::from_micros(1), ..Request::new(false) };
        let spec = spec_of(&asked, &Limits::default()).unwrap();
        assert_eq!(spec.interval, Duration::from_millis(100));
        assert_eq!(spec.validate(), Ok(()));
        // Nanoseconds that come close to 2^64, and those that exceed it.
        for interval in [Duration::from_nanos(u64::MAX), Duration::MAX] {
            let spec = spec_of(&Request { interval, ..asked.clone() }, &Limits::default()).unwrap();
            assert_eq!(spec.interval, Duration::from_secs(1000));
        }
    }

    #[test]
    fn what_nuttcp_has_not_is_said() {
        #[track_caller]
        fn check(workload: Workload, change: impl FnOnce(&mut Spec), contains: &str) {
            let mut spec = Spec::new(workload);
            change(&mut spec);
            let sentence = crate::check(Tool::Nuttcp, &spec).unwrap_err().to_string();
            assert!(sentence.contains(contains), "{sentence}");
        }
        check(Workload::TcpRr, |_| {}, "nuttcp has no tcp-rr; choose tcp-stream or udp-stream");
        check(Workload::TcpStream, |s| s.direction = Direction::Both, "direction=rx or direction=tx");
        check(Workload::UdpStream, |s| s.probe = true, "leave probe out");
        check(Workload::UdpStream, |s| s.streams = 2, "streams=1");
        check(Workload::UdpStream, |s| s.message_size = Some(4), "message_size=5");
        check(Workload::UdpStream, |s| s.warmup = Duration::from_secs(1), "leave warmup out");
        check(Workload::TcpStream, |s| (s.direction, s.burst) = (Direction::Tx, 2), "leave spacing and burst out");
        let slow = |s: &mut Spec| (s.direction, s.rate) = (Direction::Tx, OfferedLoad::BitsPerSecond(100));
        check(Workload::UdpStream, slow, "choose another rate");
    }

    #[test]
    fn what_cannot_be_met_is_refused_in_a_sentence() {
        #[track_caller]
        fn check(change: impl FnOnce(&mut Request), limits: &Limits, contains: &str) {
            let mut asked = Request { timeout: Duration::from_secs(10), ..Request::new(false) };
            change(&mut asked);
            let sentence = spec_of(&asked, limits).unwrap_err();
            assert!(sentence.contains(contains), "{sentence}");
        }
        let usual = Limits::default();
        check(|a| a.besides = Some("a traceroute"), &usual, "a traceroute is not to be had here");
        check(|a| a.buflen = 0, &usual, "-l1");
        check(|a| a.buflen = u32::MAX, &usual, "messages of 4294967295 bytes");
        check(|a| a.nstream = 129, &usual, "-N128");
        check(|a| (a.udp, a.buflen, a.nstream) = (true, 1000, 2), &usual, "leave -N out");
        check(|a| (a.nstream, a.port) = (10, 65_530), &usual, "lower -p");
        check(|a| a.port = 1023, &usual, "choose a higher -p");
        check(|a| a.timeout = Duration::from_secs(3601), &usual, "shorter -T");
        let slow = Limits { rate: Some(9_000_000), ..usual.clone() };
        check(|_| {}, &slow, "at most 9.000 Mbit/s");
        check(|a| a.rate_kbps = Some(9001), &slow, "smaller -R");
    }

    fn sender(octets: u64, size: u64) -> Outcome {
        let mut flow = FlowOutcome::new(0, Role::Sender);
        (flow.octets, flow.octets_total) = (octets, octets);
        (flow.messages, flow.messages_total) = (octets / size, octets / size);
        Outcome::of_flows(linerate_machine::end::End::Host, vec![flow])
    }

    fn told(text: &str) -> ServerReport {
        let mut told = ServerReport::default();
        text.lines().for_each(|line| told.handle_line(line));
        told
    }

    #[test]
    fn what_a_receiver_reports_is_the_far_end() {
        let spec = Spec { message_size: Some(8192), ..Spec::new(Workload::UdpStream) };
        let report = "    0.2969 MB /   0.50 sec =    4.9801 Mbps     2 /    40 ~drop/pkt  5.00 ~%loss\n\
                      nuttcp-r: 0.6016 MB in 1.01 real seconds = 610.29 KB/sec = 4.9995 Mbps\n\
                      nuttcp-r: 0.6016 MB in 0.02 CPU seconds = 131259.32 KB/cpu sec\n\
                      nuttcp-r: 0.0user 0.0sys 0:01real 0% 0i+0d 1044maxrss 0+0pf 240+0csw\n";
        let far = remote_of(&spec, &mut sender(79 * 8192, 8192), &told(report)).unwrap();
        let arrivals = far.flows[0].arrivals.clone().unwrap();
        assert_eq!((arrivals.received, arrivals.sent_by_end_mark, far.flows[0].octets), (77, Some(79), 77 * 8192));
        assert_eq!(far.flows[0].slices.len(), 1);
        assert_eq!((far.flows[0].slices[0].messages, far.flows[0].slices[0].missing), (38, Some(2)));
        assert_eq!(far.flows[0].thread.system_s, 0.02);
    }

    #[test]
    fn a_sum_is_shared_and_one_above_ours_is_nobodys() {
        let spec = Spec { streams: 2, message_size: Some(1000), ..Spec::new(Workload::TcpStream) };
        let report = "nuttcp-r: 1.9073 MB in 1.00 real seconds = 1953.12 KB/sec = 16.0000 Mbps\n";
        let mut ours = sender(1_000_000, 1000);
        ours.flows.push(FlowOutcome { id: 1, ..ours.flows[0].clone() });
        let octets = |ours: &Outcome| -> Vec<u64> {
            remote_of(&spec, &mut ours.clone(), &told(report))
                .unwrap()
                .flows
                .iter()
                .map(|flow| flow.octets_total)
                .collect()
        };
        assert_eq!(octets(&ours), [1_000_000, 1_000_000], "what rounds to the sum is the sum");
        ours.flows[1].octets_total = 3_000_000;
        let shared = octets(&ours);
        assert_eq!((shared[0] / 1000, shared[1] / 1000), (499, 1499), "it left half");
        ours.flows[1].octets_total = 500_000;
        assert!(octets(&ours).is_empty());
        assert!(remote_of(&spec, &mut ours, &ServerReport::default()).is_none());
    }
}
