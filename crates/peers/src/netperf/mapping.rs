//! A trial of linerate's as a netperf client asks for it, and what such a client asks for as a trial of linerate's; and
//! a server's results as the account of the far end, and ours as the results of a server.
//! Knows no connections.

use std::time::Duration;

use linerate_machine::cpu::{CpuShares, CpuUse};
use linerate_machine::end::{Direction, End};
use linerate_machine::environment::{Cpu as Processors, Environment, Nic};
use linerate_machine::units::OfferedLoad;
use linerate_trial::arrivals::Arrivals;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role, TcpSummary};
use linerate_trial::spec::{Extent, MAX_DATAGRAM, Spec, Workload};
use linerate_trial::tool::Tool;

use super::omni::{Request, Response, ServerRole, USUAL, flag};
use super::results::{Cpu, PROC_STAT, Results, method, service_demand};
use crate::abilities::cannot;
use crate::error::Error;
use crate::limits::Limits;

/// How much longer than asked a server waits for a client to end.
pub const PAD: Duration = Duration::from_secs(4);
/// The largest message for which a server has memory.
const MOST_MESSAGE: u32 = 4 << 20;
/// The first port that a client may have opened here.
const LEAST_PORT: i32 = 1024;
/// The largest request or response where a rate is not to be exceeded: larger ones are a stream.
const SMALL: u32 = 64 << 10;
/// What may be on its way when a sender is told to stop: no more than this is believed to have been sent beyond what came.
const ON_ITS_WAY: u64 = 64 << 20;

/// Makes a trial one that a netserver can take part in, where the difference is small: what it receives it counts from
/// the first octet on, and it sends for whole seconds.
pub fn fit(spec: &mut Spec) {
    if !spec.workload.is_stream() {
        return;
    }
    if spec.direction != Direction::Tx {
        spec.warmup = Duration::ZERO;
    }
    if spec.direction != Direction::Rx
        && let Extent::Time(time) = &mut spec.extent
    {
        let whole = spec.warmup + *time;
        *time += Duration::from_secs(seconds(whole)) - whole;
    }
}

/// Whole seconds, and one for what is left.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() != 0)
}

/// Whether a netserver can take part in this trial, beside its abilities.
pub fn check(spec: &Spec) -> Result<(), Error> {
    let cannot = |what: &str, instead| cannot(Tool::Netperf, what, instead);
    let (is_udp, sends) = (spec.workload.is_udp(), spec.direction != Direction::Rx);
    match spec.extent {
        Extent::Time(time) if seconds(spec.warmup + time) > i32::MAX as u64 => {
            cannot("test of so many seconds", "choose a shorter duration")
        }
        Extent::Octets(octets) if octets > i32::MAX as u64 => {
            cannot("test of more than 2 GiB", "choose fewer bytes, or a duration")
        }
        _ if !spec.workload.is_stream() && is_udp && spec.outstanding > 1 => {
            cannot("numbers in its requests over UDP", "choose outstanding=1, or tcp-rr")
        }
        _ if !spec.workload.is_stream() => Ok(()),
        _ if sends && is_udp => cannot("datagrams of its server's", "choose direction=rx, or tcp-stream"),
        _ if sends && spec.rate != OfferedLoad::Unlimited => {
            cannot("offered load of its server's", "leave rate out, or choose direction=rx")
        }
        _ if spec.direction != Direction::Tx && !spec.warmup.is_zero() => {
            cannot("warm-up of what its server receives", "leave warmup out, or choose direction=tx")
        }
        Extent::Time(time) if sends && (spec.warmup + time).subsec_nanos() != 0 => {
            cannot("time of its server's but whole seconds", "choose such a duration")
        }
        _ => Ok(()),
    }
}

/// What a flow's control connection asks for. `port`: of this end's datagrams.
pub fn request_of(spec: &Spec, flow: Flow, is_ipv4: bool, port: u16) -> Request {
    let is_udp = flow.workload.is_udp();
    let size = |octets: u32| octets.cast_signed();
    let mut request = Request {
        length: match spec.extent {
            Extent::Time(time) => i32::try_from(seconds(spec.warmup + time)).unwrap_or(i32::MAX),
            Extent::Octets(octets) => -i32::try_from(octets).unwrap_or(i32::MAX),
        },
        family: if is_ipv4 { 4 } else { 6 },
        socket: if is_udp { 2 } else { 1 },
        protocol: if is_udp { 17 } else { 6 },
        flags: flag::CPU | flag::CONGESTION_CONTROL | flag::INTERFACE | flag::DRIVER,
        client_port: port.into(),
        send_buffer: spec.socket_buffer.map_or(USUAL, size),
        receive_buffer: spec.socket_buffer.map_or(USUAL, size),
        tos: if spec.dscp == 0 { USUAL } else { i32::from(spec.dscp) << 2 },
        congestion_control: spec.congestion_control.clone().filter(|_| !is_udp),
        ..Request::default()
    };
    if !is_udp && spec.nodelay() {
        request.flags |= flag::NODELAY;
    }
    match (flow.workload.is_stream(), flow.source) {
        (true, End::Target) => (request.does, request.send_size) = (ServerRole::Sends, size(spec.message_octets())),
        (true, End::Host) => {
            // What is longer than a receive would be cut.
            request.receive_size = if is_udp { size(spec.message_octets()) } else { USUAL };
            request.does = ServerRole::Receives;
        }
        (false, _) => {
            request.does = ServerRole::Answers;
            (request.request_size, request.response_size) = (size(spec.request_size), size(spec.response_size));
        }
    }
    if flow.workload == Workload::TcpCrr {
        request.flags |= flag::CONNECTIONS;
    }
    request
}

/// Why a client's test is refused: the errno it is told, and what the user here reads that it did.
pub type Refused = (i32, &'static str);

/// Errnos that netperf's user reads (asm-generic/errno.h).
pub mod errno {
    /// Beyond a limit.
    pub const EPERM: i32 = 1;
    /// A data port that is not for clients to choose.
    pub const EACCES: i32 = 13;
    /// Too many tests at once.
    pub const EBUSY: i32 = 16;
    /// What is asked for makes no sense.
    pub const EINVAL: i32 = 22;
    /// Another protocol than TCP and UDP.
    pub const EPROTONOSUPPORT: i32 = 93;
    /// Connections without data, and the like.
    pub const EOPNOTSUPP: i32 = 95;
    /// Another family than that of the control connection.
    pub const EAFNOSUPPORT: i32 = 97;
    /// The client did not open its data connection, or sent nothing.
    pub const ETIMEDOUT: i32 = 110;
}

/// What a client asks for, as a trial in which this server is the target.
pub fn spec_of(request: &Request, is_ipv4: bool, limits: &Limits) -> Result<Spec, Refused> {
    use errno::{EACCES, EAFNOSUPPORT, EINVAL, EOPNOTSUPP, EPERM, EPROTONOSUPPORT};
    let is_udp = match (request.socket, request.protocol) {
        (1, 6 | 0) => false,
        (2, 17 | 0) => true,
        _ => return Err((EPROTONOSUPPORT, "asked for another protocol than TCP and UDP")),
    };
    if request.family != 0 && request.family != if is_ipv4 { 4 } else { 6 } {
        return Err((EAFNOSUPPORT, "asked for another IP version than that of its control connection"));
    }
    let workload = match (request.does, is_udp, request.has(flag::CONNECTIONS)) {
        (ServerRole::Sends | ServerRole::Receives, false, false) => Workload::TcpStream,
        (ServerRole::Receives, true, false) => Workload::UdpStream,
        (ServerRole::Answers, false, true) => Workload::TcpCrr,
        (ServerRole::Answers, false, false) => Workload::TcpRr,
        (ServerRole::Answers, true, false) => Workload::UdpRr,
        (ServerRole::Sends, true, _) => {
            return Err((
                EOPNOTSUPP,
                "asked for datagrams from here, which are not sent; UDP_STREAM towards here is served",
            ));
        }
        _ => {
            return Err((
                EOPNOTSUPP,
                "asked for connections without data, as TCP_CC does, which is not served here; TCP_CRR is",
            ));
        }
    };
    if (1..LEAST_PORT).contains(&request.data_port) {
        return Err((EACCES, "asked for a data port below 1024, which may be another server's"));
    }
    let mut spec = Spec::new(workload);
    spec.direction = if request.does == ServerRole::Sends { Direction::Tx } else { Direction::Rx };
    let longest = limits.time();
    spec.extent = match request.length {
        0 => return Err((EINVAL, "asked for a test of no time")),
        time if time > 0 => Extent::Time(Duration::from_secs(time.unsigned_abs().into())),
        count if workload.is_stream() => Extent::Octets(count.unsigned_abs().into()),
        // How long so many transactions take, the test will show.
        _ => Extent::Time(longest),
    };
    if matches!(spec.extent, Extent::Time(time) if time > longest) {
        return Err((EPERM, "asked for a longer test than is allowed here"));
    }
    sizes(&mut spec, request)?;
    let buffer = if request.does == ServerRole::Sends { request.send_buffer } else { request.receive_buffer };
    spec.socket_buffer = u32::try_from(buffer).ok().filter(|octets| (1..=1 << 30).contains(octets));
    spec.nodelay = (!is_udp).then(|| request.has(flag::NODELAY));
    spec.congestion_control = request.congestion_control.clone().filter(|_| !is_udp);
    spec.dscp = u8::try_from(request.tos).unwrap_or(0) >> 2;
    limit_rate(&mut spec, request, limits)?;
    Ok(spec)
}

/// What messages are like.
fn sizes(spec: &mut Spec, request: &Request) -> Result<(), Refused> {
    let most = if spec.workload.is_udp() { MAX_DATAGRAM } else { MOST_MESSAGE };
    let size = |octets: i32| u32::try_from(octets).ok().filter(|octets| (1..=most).contains(octets));
    if spec.workload.is_stream() {
        spec.message_size = match request.does {
            ServerRole::Sends if request.send_size != USUAL => {
                Some(size(request.send_size).ok_or((errno::EINVAL, "asked for sends of a size that is none"))?)
            }
            // Datagrams are of whatever size the client sends.
            _ if spec.workload.is_udp() => Some(MAX_DATAGRAM),
            _ => None,
        };
        return Ok(());
    }
    let none = (errno::EINVAL, "asked for requests or responses of a size that is none");
    spec.request_size = size(request.request_size).ok_or(none)?;
    spec.response_size = size(request.response_size).ok_or(none)?;
    Ok(())
}

/// What this end sends keeps to a limit; what the client would send, nobody can hold it to.
fn limit_rate(spec: &mut Spec, request: &Request, limits: &Limits) -> Result<(), Refused> {
    if request.does == ServerRole::Sends {
        let asked = u32::try_from(request.burst).ok().zip(u64::try_from(request.burst_us).ok());
        if let Some((burst @ 1..=1000, us @ 1..)) = asked {
            let size = u64::from(*spec.message_size.get_or_insert(SMALL));
            spec.burst = burst;
            spec.rate = OfferedLoad::BitsPerSecond((u64::from(burst) * size * 8_000_000 / us).max(1));
        }
        if let Some(most) = limits.rate {
            let asked = spec.rate.bits_per_second(spec.message_octets().into()).unwrap_or(f64::INFINITY);
            if asked > most as f64 {
                spec.rate = OfferedLoad::BitsPerSecond(most);
            }
        }
        return Ok(());
    }
    let streams = spec.workload.is_stream() || spec.request_size.max(spec.response_size) > SMALL;
    if limits.rate.is_some() && streams {
        return Err((errno::EPERM, "asked to send as fast as it can, which is above the rate that is allowed here"));
    }
    Ok(())
}

/// The server's account of its end, the target, of all flows: what it answered and told of each, and this end's own.
pub fn outcome_of(spec: &Spec, told: &[(Flow, Response, Results)], ours: &Outcome) -> Outcome {
    let flows = told.iter().filter_map(|(flow, _, results)| {
        let near = ours.flows.iter().find(|one| one.id == flow.id)?;
        Some(flow_outcome(spec, *flow, results, near))
    });
    let mut outcome = Outcome::of_flows(End::Target, flows.collect());
    // Each connection's process has looked at the whole machine: the one that looked longest.
    let longest = told.iter().filter_map(|(_, response, results)| Some((response, results, results.elapsed_s?)));
    if let Some((response, results, span_s)) = longest.reduce(|one, other| if other.2 > one.2 { other } else { one }) {
        outcome.cpu = results.cpu.as_ref().and_then(|cpu| cpu_use(spec, cpu, span_s));
        let environment = environment(response, results);
        outcome.told = (environment != Environment::default()).then(|| Box::new(environment));
    }
    outcome
}

/// A server measures from its start, and knows no warm-up.
fn cpu_use(spec: &Spec, cpu: &Cpu, span_s: f64) -> Option<CpuUse> {
    let machine = CpuShares {
        busy: cpu.busy / 100.0,
        user: cpu.user / 100.0,
        system: cpu.system / 100.0,
        irq: cpu.irq / 100.0,
        softirq: cpu.softirq / 100.0,
        steal: 0.0,
    };
    let method = method(cpu.method)?.to_owned();
    let includes_warmup = !spec.warmup.is_zero();
    Some(CpuUse { machine, cpus: cpu.cpus, per_cpu: Vec::new(), method, span_s, includes_warmup })
}

/// What a server tells of its machine.
fn environment(response: &Response, results: &Results) -> Environment {
    let known = |text: &Option<String>| text.clone().filter(|text| !text.eq_ignore_ascii_case("unknown"));
    let nic = known(&results.interface).map(|name| Nic {
        name,
        driver: known(&results.driver),
        driver_version: known(&results.driver_version),
        firmware: known(&results.firmware),
        bus: known(&results.bus),
        ..Nic::default()
    });
    let cpu =
        Processors { model: known(&response.cpu), count: results.cpu.map(|cpu| cpu.cpus), ..Processors::default() };
    Environment { machine: known(&response.machine), cpu, nic, ..Environment::default() }
}

/// The far end of a flow, of which `near` is this end's account. No server is believed more than can be: of what it received,
/// [`crate::plausible`] sees to that.
fn flow_outcome(spec: &Spec, flow: Flow, results: &Results, near: &FlowOutcome) -> FlowOutcome {
    let role = match near.role {
        Role::Sender => Role::Receiver,
        Role::Receiver => Role::Sender,
        Role::Requester | Role::Responder => Role::Responder,
    };
    let mut far = FlowOutcome::new(flow.id, role);
    let elapsed_ns = results.elapsed_s.map(|time| (time * 1e9) as u64);
    far.elapsed_ns = elapsed_ns.unwrap_or(near.elapsed_ns);
    match role {
        Role::Receiver => {
            (far.octets, far.octets_total) = (results.received, results.received);
            far.socket_buffer = results.receive_buffer.map(u64::from);
            if flow.workload.is_udp() {
                let received = far.octets_total / u64::from(spec.message_octets().max(1));
                (far.messages, far.messages_total) = (received, received);
                far.arrivals = Some(Arrivals {
                    received,
                    received_total: received,
                    sent_by_end_mark: Some(near.messages_total),
                    unnumbered: true,
                    ..Arrivals::default()
                });
            }
        }
        Role::Sender => {
            let most = near.octets_total.saturating_add(ON_ITS_WAY);
            far.octets_total = results.sent.clamp(near.octets_total, most);
            far.octets = far.octets_total - (near.octets_total - near.octets);
            far.elapsed_ns = far.elapsed_ns.saturating_sub(spec.warmup.as_nanos() as u64);
            (far.messages, far.messages_total) = (results.send_calls.into(), results.send_calls.into());
            far.socket_buffer = results.send_buffer.map(u64::from);
            far.tcp = results.retransmissions.map(|segments| TcpSummary {
                retransmissions: segments.into(),
                congestion_control: results.congestion_control.clone(),
                ..TcpSummary::default()
            });
        }
        Role::Requester | Role::Responder => {
            let most = near.messages_total + u64::from(spec.outstanding);
            far.messages_total = u64::from(results.transactions).min(most);
            far.messages = far.messages_total.min(near.messages);
            let octets = u64::from(spec.request_size) + u64::from(spec.response_size);
            (far.octets, far.octets_total) = (far.messages * octets, far.messages_total * octets);
        }
    }
    far
}

/// What a server tells of a test, this end being the target; `nic` is the interface of the data.
pub fn results_of(request: &Request, ours: &Outcome, nic: Option<&Nic>) -> Results {
    let Some(flow) = ours.flows.first() else { return Results::default() };
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let elapsed_s = flow.elapsed_ns as f64 / 1e9;
    let cpu = ours.cpu.as_ref().filter(|_| request.has(flag::CPU)).map(cpu_of);
    let units = if flow.role == Role::Responder { flow.messages as f64 } else { flow.octets as f64 / 1024.0 };
    let rate = if elapsed_s > 0.0 { units / elapsed_s } else { 0.0 };
    let mut results = Results {
        elapsed_s: Some(elapsed_s),
        service_demand: cpu.and_then(|cpu| service_demand(&cpu, rate)),
        cpu,
        congestion_control: flow.tcp.as_ref().and_then(|tcp| tcp.congestion_control.clone()),
        interface: nic.map(|nic| nic.name.clone()),
        driver: nic.and_then(|nic| nic.driver.clone()),
        driver_version: nic.and_then(|nic| nic.driver_version.clone()),
        firmware: nic.and_then(|nic| nic.firmware.clone()),
        bus: nic.and_then(|nic| nic.bus.clone()),
        ..Results::default()
    };
    let buffer = flow.socket_buffer.map(count);
    match flow.role {
        Role::Receiver => {
            (results.received, results.receive_calls) = (flow.octets_total, count(flow.calls));
            results.receive_buffer = buffer;
            if flow.arrivals.is_some() {
                // A receive brings one datagram, of any server but this.
                results.receive_calls = count(flow.messages_total);
            }
        }
        Role::Sender => {
            (results.sent, results.send_calls) = (flow.octets_total, count(flow.calls));
            (results.send_buffer, results.failed_sends) = (buffer, count(flow.send_errors));
            results.retransmissions = flow.tcp.as_ref().map(|tcp| count(tcp.retransmissions));
        }
        Role::Requester | Role::Responder => {
            results.transactions = count(flow.messages_total);
            (results.receive_calls, results.send_calls) = (results.transactions, results.transactions);
            let of = |size: i32| flow.messages_total * u64::try_from(size).unwrap_or(0);
            (results.received, results.sent) = (of(request.request_size), of(request.response_size));
        }
    }
    results
}

fn cpu_of(used: &CpuUse) -> Cpu {
    let CpuShares { busy, user, system, irq, softirq, .. } = used.machine;
    let shares = (0..).zip(&used.per_cpu).map(|(cpu, shares)| (cpu, 100.0 * shares.busy));
    let peak = shares.reduce(|one, other| if other.1 > one.1 { other } else { one });
    let [busy, user, system, irq, softirq] = [busy, user, system, irq, softirq].map(|share| 100.0 * share);
    Cpu { busy, user, system, irq, softirq, method: PROC_STAT, cpus: used.cpus, peak }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(workload: Workload, change: impl FnOnce(&mut Spec)) -> Spec {
        let mut spec = Spec::new(workload);
        change(&mut spec);
        spec
    }

    #[test]
    fn a_trial_asked_for_and_understood_is_the_same() {
        for workload in Workload::over_ip() {
            for direction in [Direction::Rx, Direction::Tx] {
                if direction == Direction::Tx && workload != Workload::TcpStream {
                    continue;
                }
                let spec = spec(workload, |spec| {
                    (spec.direction, spec.dscp, spec.socket_buffer) = (direction, 46, Some(100_000));
                    if workload.is_stream() {
                        spec.message_size = Some(if workload.is_udp() { MAX_DATAGRAM } else { 9000 });
                    }
                    if !workload.is_udp() {
                        (spec.nodelay, spec.congestion_control) = (Some(true), Some("reno".to_owned()));
                    }
                });
                crate::check(Tool::Netperf, &spec).unwrap();
                let request = request_of(&spec, Flow::of(&spec)[0], false, 4000);
                let mut understood = spec_of(&Request::parse(&request.emit()), false, &Limits::default()).unwrap();
                if workload == Workload::TcpStream && direction == Direction::Rx {
                    understood.message_size = spec.message_size;
                }
                assert_eq!(understood, spec, "{workload} {direction}");
            }
        }
    }

    #[test]
    fn what_netperf_has_not_is_said() {
        #[track_caller]
        fn check(workload: Workload, change: impl FnOnce(&mut Spec), contains: &str) {
            let sentence = crate::check(Tool::Netperf, &spec(workload, change)).unwrap_err().to_string();
            assert!(sentence.contains(contains), "{sentence}");
        }
        check(Workload::UdpStream, |s| s.probe = true, "leave probe out");
        check(Workload::TcpRr, |s| s.direction = Direction::Tx, "direction=rx");
        check(Workload::UdpRr, |s| s.outstanding = 2, "outstanding=1");
        check(Workload::UdpStream, |s| s.direction = Direction::Tx, "datagrams of its server's; choose direction=rx");
        check(Workload::TcpStream, |s| s.warmup = Duration::from_secs(1), "leave warmup out");
        check(Workload::TcpStream, |s| s.extent = Extent::Octets(1 << 31), "2 GiB");
        let paced = |s: &mut Spec| (s.direction, s.rate) = (Direction::Tx, OfferedLoad::BitsPerSecond(1));
        check(Workload::TcpStream, paced, "leave rate out");
        let odd = |s: &mut Spec| (s.direction, s.extent) = (Direction::Tx, Extent::Time(Duration::from_millis(1500)));
        check(Workload::TcpStream, odd, "whole seconds");
        for workload in Workload::over_ip() {
            let mut spec = spec(workload, |spec| spec.warmup = Duration::from_millis(1500));
            fit(&mut spec);
            crate::check(Tool::Netperf, &spec).unwrap();
        }
        let mut odd = spec(Workload::TcpStream, odd);
        odd.warmup = Duration::from_millis(250);
        fit(&mut odd);
        assert_eq!((odd.expected_time(), odd.warmup), (Some(Duration::from_secs(2)), Duration::from_millis(250)));
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_an_errno() {
        #[track_caller]
        fn check(change: impl FnOnce(&mut Request), limits: &Limits, errno: i32) {
            let mut request = Request::default();
            change(&mut request);
            assert_eq!(spec_of(&request, true, limits).unwrap_err().0, errno, "{request:?}");
        }
        let usual = Limits::default();
        check(|r| r.length = 3601, &usual, errno::EPERM);
        check(|r| r.length = 0, &usual, errno::EINVAL);
        check(|r| r.data_port = 80, &usual, errno::EACCES);
        check(|r| r.family = 6, &usual, errno::EAFNOSUPPORT);
        check(|r| r.family = 7, &usual, errno::EAFNOSUPPORT);
        check(|r| r.socket = 4, &usual, errno::EPROTONOSUPPORT);
        check(|r| (r.socket, r.protocol) = (2, 33), &usual, errno::EPROTONOSUPPORT);
        check(|r| r.does = ServerRole::Other(0), &usual, errno::EOPNOTSUPP);
        check(|r| (r.does, r.socket, r.protocol) = (ServerRole::Sends, 2, 17), &usual, errno::EOPNOTSUPP);
        check(|r| r.does = ServerRole::Answers, &usual, errno::EINVAL);
        check(|r| (r.does, r.send_size) = (ServerRole::Sends, (4 << 20) + 1), &usual, errno::EINVAL);
        check(|r| (r.does, r.send_size) = (ServerRole::Sends, 0), &usual, errno::EINVAL);
        let huge = |r: &mut Request| (r.does, r.request_size, r.response_size) = (ServerRole::Answers, 1, i32::MAX);
        check(huge, &usual, errno::EINVAL);
        let slow = Limits { rate: Some(1_000_000), ..usual.clone() };
        check(|_| {}, &slow, errno::EPERM);
        let large = |r: &mut Request| (r.does, r.request_size, r.response_size) = (ServerRole::Answers, 1, 1 << 20);
        check(large, &slow, errno::EPERM);
    }

    #[test]
    fn what_is_sent_keeps_to_the_bursts_asked_for_and_to_the_limit() {
        let request =
            Request { does: ServerRole::Sends, send_size: 1000, burst: 10, burst_us: 1000, ..Request::default() };
        let spec = spec_of(&request, true, &Limits::default()).unwrap();
        assert_eq!((spec.burst, spec.rate), (10, OfferedLoad::BitsPerSecond(80_000_000)));
        let slow = Limits { rate: Some(1_000_000), ..Limits::default() };
        assert_eq!(spec_of(&request, true, &slow).unwrap().rate, OfferedLoad::BitsPerSecond(1_000_000));
        let endless = Request { burst: 0, ..request };
        assert_eq!(spec_of(&endless, true, &slow).unwrap().rate, OfferedLoad::BitsPerSecond(1_000_000));
    }

    #[test]
    fn a_count_is_of_octets_or_of_transactions() {
        let stream = Request { length: -5000, ..Request::default() };
        assert_eq!(spec_of(&stream, true, &Limits::default()).unwrap().extent, Extent::Octets(5000));
        let requests =
            Request { does: ServerRole::Answers, request_size: 1, response_size: 1, length: i32::MIN, ..stream };
        let spec = spec_of(&requests, true, &Limits::default()).unwrap();
        assert_eq!(spec.extent, Extent::Time(Duration::from_secs(3600)));
    }

    #[test]
    fn no_server_is_believed_more_than_can_be() {
        let spec = spec(Workload::UdpStream, |spec| spec.message_size = Some(100));
        let mut near = FlowOutcome::new(0, Role::Sender);
        (near.messages, near.messages_total, near.octets, near.octets_total) = (10, 10, 1000, 1000);
        let flow = Flow::of(&spec)[0];
        let results = Results { received: 700, elapsed_s: Some(1.0), ..Results::default() };
        let far = flow_outcome(&spec, flow, &results, &near);
        let arrivals = far.arrivals.unwrap();
        assert_eq!((arrivals.received, arrivals.unnumbered, far.octets), (7, true, 700));
        near.role = Role::Receiver;
        let results = Results { sent: u64::MAX, ..Results::default() };
        assert_eq!(flow_outcome(&spec, flow, &results, &near).octets, 1000 + ON_ITS_WAY);
        near.role = Role::Requester;
        let results = Results { transactions: u32::MAX, ..Results::default() };
        assert_eq!(flow_outcome(&spec, flow, &results, &near).messages_total, 11);
    }

    #[test]
    fn what_a_server_tells_of_its_machine_is_known() {
        let spec = Spec::new(Workload::TcpStream);
        let flow = Flow::of(&spec)[0];
        let mut near = FlowOutcome::new(0, Role::Sender);
        near.octets_total = 5;
        let ours = Outcome::of_flows(End::Host, vec![near]);
        let cpu = Cpu { busy: 50.0, cpus: 2, method: PROC_STAT, ..Cpu::default() };
        let text = |text: &str| Some(text.to_owned());
        let results = Results {
            cpu: Some(cpu),
            elapsed_s: Some(2.0),
            interface: text("eth0"),
            driver: text("fec"),
            driver_version: text("UNKNOWN"),
            ..Results::default()
        };
        let response = Response { machine: text("a board"), ..Response::default() };
        let outcome = outcome_of(&spec, &[(flow, response, results.clone())], &ours);
        let told = outcome.told.unwrap();
        let nic = told.nic.clone().unwrap();
        assert_eq!((nic.name.as_str(), nic.driver.as_deref(), nic.driver_version), ("eth0", Some("fec"), None));
        assert_eq!((told.machine.as_deref(), told.cpu.count), (Some("a board"), Some(2)));
        assert_eq!(outcome.cpu.unwrap().busy_seconds(), 2.0);
        let warm = Spec { direction: Direction::Tx, warmup: Duration::from_secs(1), ..spec.clone() };
        let of = |spec: &Spec| outcome_of(spec, &[(flow, Response::default(), results.clone())], &ours).cpu.unwrap();
        assert!(of(&warm).includes_warmup && !of(&spec).includes_warmup, "its process knows no warm-up");
        let silent = outcome_of(&spec, &[(flow, Response::default(), Results::default())], &ours);
        assert_eq!((silent.told, silent.cpu, silent.flows.len()), (None, None, 1));
    }
}
