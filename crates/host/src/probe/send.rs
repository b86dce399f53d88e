//! Probes to the other end: echo requests, datagrams, a connection, ARP, and datagrams of several sizes; all at the same
//! time, some hundred and fifty packets at most, and none to any other address.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use linerate_machine::probe::{
    ENOUGH, FLOWS, IcmpError, IcmpReport, Neighbour, ProbeReport, ProbeResult, Refusal, ReportedMtu, SYN_AGAIN,
    SizeTried, TcpReached, TcpTried,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{FILLING, LEN, MOST_CONNECTIONS, Secret, arp, headers, icmp_error, message, read, refusal, route_info};
use crate::interfaces::{self, Link};
use crate::sys;
use crate::sys::message::{Message, ORIGIN_ICMP, ORIGIN_ICMP6, QueuedError};
use crate::sys::socket_state::{ECN, Field8, Field32, Field64, TcpInfo, report_icmp_errors};
use crate::traffic::socket_options::set_traffic_class;

/// Sizes that one order tries at most.
pub const MOST_SIZES: usize = 20;
/// When requests are sent, until enough are answered. The first may wait for ARP.
const SENT_AT_MS: [u64; 6] = [0, 5, 10, 100, 300, 600];
/// How long their answers are waited for, and how long at most where more is asked.
const PATIENCE: Duration = Duration::from_millis(1000);
const MOST_PATIENCE: Duration = Duration::from_secs(4);
/// Once enough are answered, the others are waited for so long, or twice as long as the slowest one took.
const LATER: Duration = Duration::from_millis(20);
/// A SYN that is lost is sent again after a second (RFC 6298).
const CONNECT_TIME: Duration = Duration::from_millis(1300);
/// No further one is tried when this has passed since the first began: the last may take as long again, and more.
const AT_ONCE_TIME: Duration = Duration::from_millis(1800);
const TALK_TIME: Duration = Duration::from_millis(1200);
/// Full segments have so long until the first is acknowledged, on a slow link behind those that come the other way, and so long until
/// all are, as long as some are.
const FILLING_TIME: [Duration; 2] = [Duration::from_millis(1800), Duration::from_secs(4)];
/// Sizes that are not answered are sent again after this part of the time for them.
const SIZES_TWICE: u32 = 2;
/// Between two packets of different sizes.
const APART: Duration = Duration::from_millis(2);
/// TTL or hop limit of echo requests, at the least.
const ECHO_HOPS: u8 = 64;
/// RFC 3168, section 5.
const ECT_0: u8 = 2;
const MOST_SIZE_TIME: Duration = Duration::from_secs(6);

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// The address of this machine.
    pub local: IpAddr,
    /// The other end's.
    pub peer: IpAddr,
    /// Where this machine's address is.
    pub interface: Option<&'a str>,
    /// Known to the other end's witness.
    pub secret: Secret,
    /// Echo requests.
    pub echo: bool,
    /// ARP.
    pub arp: bool,
    /// The port of the witness of datagrams.
    pub udp: Option<u16>,
    /// How many ports the datagrams leave from, instead of one; how many of each port are answered is reported.
    pub flows: u16,
    /// The port of the witness of connections.
    pub tcp: Option<u16>,
    /// Connections that are to be open at once.
    pub connections: u16,
    /// Octets of packets to try, with IP's header, that may not be fragmented.
    pub sizes: &'a [u32],
    /// How long to wait for answers to these.
    pub size_time: Duration,
    /// How long to wait for any other answer, at least.
    pub patience: Duration,
    /// TTL or hop limit of datagrams and of the connection.
    pub hops: Option<u8>,
    /// Their differentiated services code point.
    pub dscp: u8,
    /// Datagrams say that they are ECN-capable.
    pub ecn: bool,
}

/// Work beside this thread's, in one of its own; done already in this one where the system gives no other.
type Beside<'scope, T> = Result<ScopedJoinHandle<'scope, T>, T>;

fn beside<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl Fn() -> T + Copy + Send + 'scope,
) -> Beside<'scope, T> {
    thread::Builder::new().spawn_scoped(scope, work).map_err(|_| work())
}

fn outcome<T>(beside: Beside<'_, T>) -> Option<T> {
    beside.map_or_else(Some, |thread| thread.join().ok())
}

/// Tries it all. Takes 1.5 s at most where nothing is answered, unless more patience is asked.
pub fn probe(order: &Order<'_>) -> ProbeReport {
    let links = interfaces::links().unwrap_or_default();
    let next_hop = next_hop(order);
    let mut report = thread::scope(|scope| {
        let echo = order.echo.then(|| beside(scope, || echo(order)));
        let tcp = order.tcp.map(|port| beside(scope, move || connect(order, port)));
        let arp = order.arp.then(|| beside(scope, || ask_arp(order, next_hop.as_ref(), &links)));
        let from = |port: u16, times: [u64; 6]| datagrams(order, port, times);
        let udp = order.udp.filter(|_| order.sizes.is_empty() && order.flows == 0).map(|port| from(port, SENT_AT_MS));
        let flow = |flow: u16| order.udp.map(|port| beside(scope, move || from(port, apart(flow))));
        let flows: Vec<_> = (0..order.flows.min(FLOWS)).filter_map(flow).collect();
        let sizes = order.udp.filter(|_| !order.sizes.is_empty()).map(|port| sizes(order, port));
        let arp = arp.and_then(outcome).flatten();
        let [answer_for_next_hop, answer_for_own] = arp.clone().unwrap_or_default();
        ProbeReport {
            echo: echo.and_then(outcome).flatten(),
            udp,
            // One without a socket of its own tells nothing, and one that this machine's filter does not let send much.
            flows: flows
                .into_iter()
                .filter_map(outcome)
                .filter(|tried| tried.sent > 0 || tried.refusal == Some(Refusal::NotPermitted))
                .map(|tried| tried.answered)
                .collect(),
            tcp: tcp.and_then(outcome),
            sizes: sizes.unwrap_or_default(),
            answer_for_next_hop,
            answer_for_own,
            asked_arp: arp.is_some(),
            neighbour: None,
        }
    });
    report.neighbour = next_hop.and_then(|hop| route_info::neighbour(hop.address, &hop.interface, &links));
    report
}

impl Order<'_> {
    /// At least this long, or as long as is asked.
    fn patience(&self, least: Duration) -> Duration {
        least.max(self.patience.min(MOST_PATIENCE))
    }
}

/// Where packets go first, by the kernel's own look-up.
fn next_hop(order: &Order<'_>) -> Option<Neighbour> {
    route_info(order.local, order.peer, order.interface).neighbour
}

fn local_at(order: &Order<'_>) -> SocketAddr {
    interfaces::at(order.local, 0, order.interface)
}

fn peer_at(order: &Order<'_>, port: u16) -> SocketAddr {
    interfaces::at(order.peer, port, order.interface)
}

fn set_hops(socket: &SockRef<'_>, is_ipv4: bool, hops: Option<u8>) -> io::Result<()> {
    match hops.map(u32::from) {
        Some(hops) if is_ipv4 => socket.set_ttl_v4(hops),
        Some(hops) => socket.set_unicast_hops_v6(hops),
        None => Ok(()),
    }
}

/// What the trial's packets have in their header. Where the kernel refuses it, the trial itself says so.
fn mark(socket: &Socket, order: &Order<'_>) {
    let _ = set_hops(&SockRef::from(socket), order.local.is_ipv4(), order.hops);
    // The kernel takes the two lowest bits of datagrams alone: of TCP they are its own.
    let _ = set_traffic_class(socket, order.dscp << 2 | if order.ecn { ECT_0 } else { 0 });
}

fn hops_of(socket: &SockRef<'_>, is_ipv4: bool) -> Option<u8> {
    let hops = if is_ipv4 { socket.ttl_v4() } else { socket.unicast_hops_v6() };
    hops.ok().and_then(|hops| u8::try_from(hops).ok())
}

/// A connected socket of datagrams, whose errors ICMP tells.
fn open(order: &Order<'_>, kind: Type, protocol: Protocol, port: u16) -> io::Result<Socket> {
    let (local, peer) = (local_at(order), peer_at(order, port));
    let socket = Socket::new(Domain::for_address(local), kind, Some(protocol))?;
    report_icmp_errors(&socket, local.is_ipv4())?;
    socket.bind(&local.into())?;
    socket.connect(&peer.into())?;
    Ok(socket)
}

/// When a flow's requests are sent: in another order each time, so that what passes but a few does not pass the same ones.
fn apart(flow: u16) -> [u64; 6] {
    let scattered = u32::from(flow + 1).wrapping_mul(0x9e37_79b9);
    let rounds: [(u64, u32); 6] = [(0, 27), (40, 22), (80, 17), (160, 12), (320, 7), (600, 2)];
    rounds.map(|(at_ms, bits)| at_ms + u64::from(scattered >> bits & 31))
}

/// Requests on a connected socket at these times, until enough are answered; then the others are waited for a moment, so that no answer
/// comes to a closed port. `make` makes one of this number, `number` reads an answer's.
fn ask(
    socket: &Socket,
    is_ipv4: bool,
    at_ms: [u64; 6],
    patience: Duration,
    make: impl Fn(u32) -> Vec<u8>,
    number: impl Fn(&[u8]) -> Option<u32>,
) -> ProbeResult {
    let mut tried = ProbeResult { hops_sent: hops_of(&SockRef::from(socket), is_ipv4), ..ProbeResult::default() };
    let began = Instant::now();
    let mut sent_at: Vec<Instant> = Vec::new();
    let mut times: Vec<u64> = Vec::new();
    let mut octets = [0; 2048];
    let mut until = patience;
    while began.elapsed() < until {
        let next = at_ms.get(sent_at.len()).map(|at| Duration::from_millis(*at));
        let next = next.filter(|_| tried.answered < ENOUGH);
        if next.is_some_and(|next| began.elapsed() >= next) {
            let request = make(sent_at.len() as u32);
            sent_at.push(Instant::now());
            match socket.send(&request) {
                Ok(_) => tried.sent += 1,
                // A queueing discipline or a link has dropped it, which is seen at the interface.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => tried.sent += 1,
                Err(error) => note(&mut tried, refusal(&error)),
            }
        }
        let next = at_ms.get(sent_at.len()).filter(|_| tried.answered < ENOUGH);
        let next = next.map_or(until, |at| Duration::from_millis(*at));
        let wait = next.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
        if sys::poll::wait_readable(socket, wait).is_err() {
            break;
        }
        while let Some(error) = take_error(socket, &mut octets) {
            note_error(&mut tried, &error);
        }
        loop {
            match sys::message::receive(socket, &mut octets, false) {
                Ok(Message { len, .. }) => {
                    let Some(number) = number(&octets[..len.min(octets.len())]) else { continue };
                    let Some(sent) = sent_at.get(number as usize) else { continue };
                    times.push(sent.elapsed().as_nanos() as u64);
                    tried.answered += 1;
                    if tried.answered >= ENOUGH {
                        let slowest = Duration::from_nanos(times.iter().copied().max().unwrap_or(0));
                        let later = if tried.answered < tried.sent { LATER.max(2 * slowest) } else { Duration::ZERO };
                        until = patience.min(began.elapsed() + later);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    note(&mut tried, refusal(&error));
                    break;
                }
            }
        }
    }
    times.sort_unstable();
    tried.median_ns = times.get(times.len() / 2).copied();
    tried
}

/// The first refusal is kept.
fn note(tried: &mut ProbeResult, why: Refusal) {
    tried.refusal.get_or_insert(why);
}

fn take_error(socket: &Socket, octets: &mut [u8]) -> Option<QueuedError> {
    sys::message::receive(socket, octets, true).ok()?.error
}

fn icmp_of(error: &QueuedError) -> Option<IcmpReport> {
    let is_ipv4 = match error.origin {
        ORIGIN_ICMP => true,
        ORIGIN_ICMP6 => false,
        _ => return None,
    };
    icmp_error(error.kind, error.code, is_ipv4).map(|what| IcmpReport { by: error.offender, what })
}

fn note_error(tried: &mut ProbeResult, error: &QueuedError) {
    match icmp_of(error) {
        Some(said) if !tried.icmp.contains(&said) && tried.icmp.len() < 8 => tried.icmp.push(said),
        Some(_) => {}
        None => note(tried, refusal(&io::Error::from_raw_os_error(error.errno))),
    }
}

/// `None`: this machine lets the agent send none.
fn echo(order: &Order<'_>) -> Option<ProbeResult> {
    let is_ipv4 = order.local.is_ipv4();
    let protocol = if is_ipv4 { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
    // Ping's own kind of socket is for those whom net.ipv4.ping_group_range names, the other one for root.
    let opened = open(order, Type::DGRAM, protocol, 0).map(|socket| (socket, false));
    let opened = opened.or_else(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EPROTONOSUPPORT) => {
            open(order, Type::RAW, protocol, 0).map(|socket| (socket, true))
        }
        _ => Err(error),
    });
    let (socket, is_raw) = match opened {
        Ok(opened) => opened,
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return None,
        Err(error) => return Some(ProbeResult { refusal: Some(refusal(&error)), ..ProbeResult::default() }),
    };
    // Echo gets there even where what is usual here would not, so that routers can be counted.
    let usual = hops_of(&SockRef::from(&socket), is_ipv4).unwrap_or(0);
    let _ = set_hops(&SockRef::from(&socket), is_ipv4, (usual < ECHO_HOPS).then_some(ECHO_HOPS));
    let (asks, answers): (u8, u8) = if is_ipv4 { (8, 0) } else { (128, 129) };
    let identifier = (std::process::id() as u16).to_be_bytes();
    let make = |number: u32| {
        let sequence = (number as u16).to_be_bytes();
        let mut request = vec![asks, 0, 0, 0, identifier[0], identifier[1], sequence[0], sequence[1]];
        request.extend(message(&order.secret, number, false));
        // The kernel fills it in of ICMPv6, and of ping's sockets.
        if is_raw && is_ipv4 {
            let sum = checksum(&request).to_be_bytes();
            request[2..4].copy_from_slice(&sum);
        }
        request
    };
    let number = |octets: &[u8]| {
        let header = if is_raw && is_ipv4 { usize::from(octets.first()? & 15) * 4 } else { 0 };
        let octets = octets.get(header..)?;
        (*octets.first()? == answers).then_some(())?;
        Some(read(octets.get(8..)?, &order.secret)?.0)
    };
    Some(ask(&socket, is_ipv4, SENT_AT_MS, order.patience(PATIENCE), make, number))
}

/// RFC 1071.
fn checksum(octets: &[u8]) -> u16 {
    let words = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

fn datagrams(order: &Order<'_>, port: u16, at_ms: [u64; 6]) -> ProbeResult {
    let is_ipv4 = order.local.is_ipv4();
    let socket = match open(order, Type::DGRAM, Protocol::UDP, port) {
        Ok(socket) => socket,
        Err(error) => return ProbeResult { refusal: Some(refusal(&error)), ..ProbeResult::default() },
    };
    mark(&socket, order);
    let number = |octets: &[u8]| read(octets, &order.secret).filter(|(_, is_answer)| *is_answer).map(|(one, _)| one);
    let make = |number| message(&order.secret, number, false).to_vec();
    ask(&socket, is_ipv4, at_ms, order.patience(PATIENCE), make, number)
}

fn connect(order: &Order<'_>, port: u16) -> TcpTried {
    let mut tried = TcpTried {
        reached: TcpReached::Nothing,
        refusal: None,
        handshake_ns: None,
        port: None,
        at_once: None,
        at_once_refusal: None,
        ecn: None,
        segments: None,
        retransmitted: None,
        acknowledged: None,
        closed: None,
    };
    if let Err(error) = talk(order, port, &mut tried) {
        tried.refusal = Some(refusal(&error));
    }
    tried
}

fn talk(order: &Order<'_>, port: u16, tried: &mut TcpTried) -> io::Result<()> {
    let peer = peer_at(order, port);
    let socket = unconnected(order)?;
    tried.port = socket.local_addr()?.as_socket().map(|at| at.port());
    let began = Instant::now();
    socket.connect_timeout(&peer.into(), order.patience(CONNECT_TIME))?;
    tried.reached = TcpReached::Open;
    let mut took = began.elapsed();
    if took >= order.patience(SYN_AGAIN) {
        // One SYN may be lost by chance: another connection tells.
        let again = Instant::now();
        let _ = further(order, peer).map(|_| took = took.min(again.elapsed()));
    }
    tried.handshake_ns = Some(took.as_nanos() as u64);
    let mut stream: TcpStream = socket.into();
    stream.set_nodelay(true)?;
    let talk_time = order.patience(TALK_TIME);
    stream.set_write_timeout(Some(talk_time))?;
    stream.set_read_timeout(Some(talk_time))?;
    stream.write_all(&message(&order.secret, 0, false))?;
    let mut answer = [0; LEN];
    stream.read_exact(&mut answer)?;
    if read(&answer, &order.secret) != Some((0, true)) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    tried.reached = TcpReached::Answered;
    stream.set_read_timeout(Some(order.patience(FILLING_TIME[0])))?;
    fill(&mut stream, tried)?;
    tried.reached = TcpReached::Filled;
    if let Ok(info) = TcpInfo::of(&stream) {
        tried.ecn = info.get8(Field8::Options).map(|options| options & ECN != 0);
        tried.segments = info.get32(Field32::DataSegsOut);
        tried.retransmitted = info.get32(Field32::TotalRetrans);
    }
    at_once(order, peer, began, tried);
    // All has been said, and acknowledged.
    SockRef::from(&stream).set_linger(None)?;
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(talk_time))?;
    tried.closed = match stream.read(&mut [0]) {
        Ok(0) => Some(true),
        Err(error) if is_timeout(&error) => Some(false),
        _ => None,
    };
    Ok(())
}

/// A few full segments, until the other end says that it has them all; a slow link has longer, as long as some get through.
fn fill(stream: &mut TcpStream, tried: &mut TcpTried) -> io::Result<()> {
    let acknowledged = |stream: &TcpStream| TcpInfo::of(stream).ok()?.get64(Field64::BytesAcked);
    let before = acknowledged(stream);
    let began = Instant::now();
    stream.write_all(&vec![0; FILLING])?;
    loop {
        match stream.read_exact(&mut [0]) {
            Err(error) if is_timeout(&error) => {
                let now = acknowledged(stream).zip(before).map(|(now, before)| now.saturating_sub(before));
                let is_moving = now.is_some_and(|now| now > 0) && now > tried.acknowledged;
                tried.acknowledged = now;
                if !is_moving || began.elapsed() >= FILLING_TIME[1] {
                    return Err(error);
                }
            }
            came => return came,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A connection's socket, of which nothing stays behind if nothing passes.
fn unconnected(order: &Order<'_>) -> io::Result<Socket> {
    let local = local_at(order);
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    mark(&socket, order);
    socket.set_linger(Some(Duration::ZERO))?;
    socket.bind(&local.into())?;
    Ok(socket)
}

fn further(order: &Order<'_>, peer: SocketAddr) -> io::Result<Socket> {
    let socket = unconnected(order)?;
    socket.connect_timeout(&peer.into(), order.patience(CONNECT_TIME))?;
    Ok(socket)
}

/// How many connections are open at once, beside the one that began then, of which the other end has closed its half: all that are to
/// be, or as many as there may be.
fn at_once(order: &Order<'_>, peer: SocketAddr, began: Instant, tried: &mut TcpTried) {
    let wanted = order.connections.min(MOST_CONNECTIONS);
    if wanted <= 1 {
        return;
    }
    let (mut open, mut refused) = (Vec::new(), None);
    while open.len() < usize::from(wanted) {
        if began.elapsed() >= AT_ONCE_TIME {
            if refused.is_none() {
                return;
            }
            // It waited for one that did not pass, or for another's end.
            break;
        }
        // A SYN that is lost is sent again within this time, and each is tried twice.
        let again = |error: io::Error| {
            refused = Some(refusal(&error));
            further(order, peer)
        };
        match further(order, peer).or_else(again) {
            Ok(socket) => open.push(socket),
            Err(error) => {
                refused = Some(refusal(&error));
                break;
            }
        }
    }
    if open.len() < usize::from(wanted) {
        tried.at_once_refusal = refused;
    }
    tried.at_once = Some(open.len() as u16);
}

/// Datagrams of these sizes, each until it is answered, twice at most.
fn sizes(order: &Order<'_>, port: u16) -> Vec<SizeTried> {
    let is_ipv4 = order.local.is_ipv4();
    let wanted = &order.sizes[..order.sizes.len().min(MOST_SIZES)];
    let blank = |octets: &u32| SizeTried { octets: *octets, sent: 0, too_large: false, told_mtu: None };
    let mut tried: Vec<SizeTried> = wanted.iter().map(blank).collect();
    let Ok(socket) = open(order, Type::DGRAM, Protocol::UDP, port) else { return tried };
    mark(&socket, order);
    if sys::message::never_fragment(&socket, is_ipv4).is_err() {
        return tried;
    }
    let mut answered = vec![false; tried.len()];
    let mut octets = [0; 2048];
    let time = order.size_time.min(MOST_SIZE_TIME);
    for _ in 0..SIZES_TWICE {
        let until = Instant::now() + time / SIZES_TWICE;
        for (number, one) in tried.iter_mut().enumerate() {
            let payload = one.octets.saturating_sub(headers(is_ipv4)) as usize;
            if answered[number] || one.too_large || !(LEN..=1 << 16).contains(&payload) {
                continue;
            }
            let mut datagram = message(&order.secret, number as u32, false).to_vec();
            datagram.resize(payload, 0);
            match socket.send(&datagram) {
                Ok(_) => one.sent += 1,
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => one.too_large = true,
                // A queue that does not take it says ENOBUFS, a filter EPERM: it was tried.
                Err(_) => one.sent += 1,
            }
            thread::sleep(APART);
        }
        loop {
            while let Ok(Message { error: Some(error), .. }) = sys::message::receive(&socket, &mut octets, true) {
                let is_too_big = icmp_of(&error).is_some_and(|said| said.what == IcmpError::TooBig);
                let told = ReportedMtu { octets: error.info, by: error.offender };
                for one in tried.iter_mut().filter(|one| is_too_big && one.octets > told.octets) {
                    one.told_mtu = Some(told);
                }
            }
            while let Ok(Message { len, .. }) = sys::message::receive(&socket, &mut octets, false) {
                let number = read(&octets[..len.min(octets.len())], &order.secret).map(|(number, _)| number as usize);
                if let Some(answered) = number.and_then(|number| answered.get_mut(number)) {
                    *answered = true;
                }
            }
            let settled = tried.iter().zip(&answered).all(|(one, answered)| *answered || one.too_large);
            let left = until.saturating_duration_since(Instant::now());
            if settled || left.is_zero() || sys::poll::wait_readable(&socket, left).is_err() {
                if settled {
                    return tried;
                }
                break;
            }
        }
    }
    tried
}

/// Who answers for the next hop, and for this machine's own address; `None`: not to be asked.
fn ask_arp(order: &Order<'_>, next_hop: Option<&Neighbour>, links: &[Link]) -> Option<[Vec<String>; 2]> {
    let IpAddr::V4(own) = order.local else { return None };
    let link = links.iter().find(|link| Some(link.name.as_str()) == order.interface)?;
    let flags = (libc::IFF_LOOPBACK | libc::IFF_NOARP) as u32;
    let mac = link.mac.as_deref().filter(|_| link.flags & flags == 0).and_then(octets_of)?;
    let hop = next_hop.filter(|hop| hop.interface == link.name).map(|hop| hop.address);
    let answers = match hop {
        Some(IpAddr::V4(hop)) => arp::ask(link.index, mac, own, [hop, own], order.patience),
        _ => arp::ask(link.index, mac, own, [own], order.patience).map(|[own]| [Vec::new(), own]),
    };
    answers.ok()
}

fn octets_of(mac: &str) -> Option<[u8; 6]> {
    let octets: Option<Vec<u8>> = mac.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::super::ProbeObserver;
    use super::*;

    const SECRET: Secret = [9; 16];

    #[test]
    fn flows_take_turns_in_being_first() {
        let first = |round: usize| (0..FLOWS).min_by_key(|flow| apart(*flow)[round]).unwrap();
        let firsts: std::collections::BTreeSet<u16> = (0..6).map(first).collect();
        assert!(firsts.len() >= 4, "{firsts:?}");
        for flow in 0..FLOWS {
            assert!(apart(flow).is_sorted(), "{flow}");
        }
    }

    #[test]
    fn a_machine_hears_itself() {
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let witness = ProbeObserver::open(here, here, Some("lo"), SECRET, Duration::from_secs(5)).unwrap();
        let (udp, tcp) = witness.ports;
        let order = Order {
            local: here,
            peer: here,
            interface: Some("lo"),
            secret: SECRET,
            echo: true,
            arp: true,
            udp: Some(udp),
            flows: 0,
            tcp: Some(tcp),
            connections: 0,
            sizes: &[],
            size_time: Duration::from_millis(300),
            patience: Duration::ZERO,
            hops: None,
            dscp: 46,
            ecn: true,
        };
        let began = Instant::now();
        let report = probe(&order);
        assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
        assert!(
            report.udp.as_ref().is_some_and(|udp| udp.answered >= ENOUGH && udp.hops_sent == Some(64)),
            "{report:?}"
        );
        assert!(report.echo.as_ref().is_none_or(|echo| echo.answered >= ENOUGH), "{report:?}");
        assert_eq!(
            report.tcp.map(|tcp| (tcp.reached, tcp.at_once, tcp.closed)),
            Some((TcpReached::Filled, None, Some(true)))
        );
        let report = probe(&Order { flows: 9, echo: false, arp: false, tcp: None, ..order.clone() });
        assert!(report.flows.iter().all(|answered| *answered >= ENOUGH), "{report:?}");
        assert_eq!((report.flows.len(), report.udp), (9, None));
        let sizes =
            probe(&Order { sizes: &[1500, 60, 200_000], echo: false, arp: false, tcp: None, ..order.clone() }).sizes;
        assert_eq!(sizes.iter().map(|one| one.sent).collect::<Vec<_>>(), [1, 1, 0], "{sizes:?}");
        let heard = witness.report();
        assert!(heard.datagrams.iter().any(|(octets, _)| *octets == 1500), "{heard:?}");
        assert_eq!((heard.connections, heard.hops), (1, Some(64)));
        let many = Order { connections: 20, echo: false, arp: false, udp: None, ..order.clone() };
        assert_eq!(probe(&many).tcp.unwrap().at_once, Some(20));
        // A stranger's secret is answered by nobody.
        let stranger = Order { secret: [1; 16], echo: false, arp: false, ..order };
        let report = probe(&stranger);
        assert_eq!((report.udp.unwrap().answered, report.tcp.unwrap().reached), (0, TcpReached::Open));
        drop(witness);
        let report = probe(&stranger);
        assert_eq!(report.udp.unwrap().icmp.first().map(|said| said.what), Some(IcmpError::PortUnreachable));
        assert_eq!(report.tcp.unwrap().refusal, Some(Refusal::Refused));
    }
}
