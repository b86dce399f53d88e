//! Sockets with a trial's options on them, and the handshake that opens each flow.
//! Knows nothing of what is sent afterwards.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use linerate_machine::end::End;
use linerate_trial::flow::Flow;
use linerate_trial::spec::{Spec, Workload};
use linerate_wire::{HANDSHAKE_LEN, Handshake, HandshakeKind, Token};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::frames::FrameLink;
use super::reachability::{SendPermission, UnprovenLimit, local_towards};
use super::{TrafficError, neighbour, socket_options};

/// How long the two ends have to find each other.
pub const OPENING_TIME: Duration = Duration::from_secs(5);
/// When an unanswered hello is sent again over UDP at first; then after twice that, and so on.
const FIRST_HELLO_PERIOD: Duration = Duration::from_millis(50);
/// The longest time between two hellos.
const LAST_HELLO_PERIOD: Duration = Duration::from_millis(400);
/// A filter that takes so many hellos one after the other takes all of them.
const FILTERED_TIMES: u32 = 5;

/// What proves that a flow belongs to the trial; see [`linerate_wire::Handshake`].
#[derive(Clone, Copy)]
pub struct Tokens {
    /// What the opening end says.
    pub hello: Token,
    /// What the listening end answers.
    pub answer: Token,
}

/// A socket that waits for the other end to open a flow.
pub struct Waiting {
    socket: Socket,
    flow: Flow,
}

/// An open flow: a connected socket whose far end has said the trial's secret.
pub struct Open {
    /// The socket.
    pub socket: Socket,
    /// The flow.
    pub flow: Flow,
    /// The listening socket too, where each transaction makes a connection of its own and this end answers.
    pub listener: Option<Socket>,
    /// The far end.
    pub peer: SocketAddr,
    /// See [`Adopted::at_most`].
    pub most_octets: Option<u64>,
    /// What may be sent, where the far end has proved nothing.
    pub unproven: Option<UnprovenLimit>,
    /// How frames leave; a stream of frames has it.
    pub frames: Option<Box<FrameLink>>,
}

/// A flow that another tool's protocol has opened.
pub struct Adopted {
    flow: Flow,
    socket: Socket,
    reach: SendPermission,
    connections: Connections,
    most_octets: Option<u64>,
}

/// Where a flow's connections come or go, if each transaction makes one.
enum Connections {
    None,
    /// They come here, at the end that answers.
    At(Socket),
    /// They go there, at the end that asks.
    To(SocketAddr),
}

impl Adopted {
    /// A flow on its connected socket, and why this end may send on it.
    pub fn new(flow: Flow, socket: Socket, reach: SendPermission) -> Adopted {
        Adopted { flow, socket, reach, connections: Connections::None, most_octets: None }
    }

    /// The same, of which this end sends so many octets of a TCP stream at most after the warm-up: where the other end decides
    /// when the test is over.
    pub fn at_most(self, octets: Option<u64>) -> Adopted {
        Adopted { most_octets: octets, ..self }
    }

    /// A flow whose transactions each open a connection here; `control` is open as long as the flow is.
    pub fn answering(flow: Flow, control: Socket, listener: Socket) -> Adopted {
        Adopted { connections: Connections::At(listener), ..Adopted::new(flow, control, SendPermission::Connected) }
    }

    /// A flow whose transactions each open a connection to there; `control` is open as long as the flow is.
    pub fn asking(flow: Flow, control: Socket, at: SocketAddr) -> Adopted {
        Adopted { connections: Connections::To(at), ..Adopted::new(flow, control, SendPermission::Connected) }
    }
}

impl Open {
    /// A flow whose far end has said the secret.
    pub fn new(socket: Socket, flow: Flow, peer: SocketAddr) -> Open {
        Open { socket, flow, listener: None, peer, most_octets: None, unproven: None, frames: None }
    }

    /// A flow that somebody else has opened. Refused where this end would send datagrams to an address that has proved
    /// nothing.
    pub fn adopt(adopted: Adopted, spec: &Spec, end: End) -> Result<Open, TrafficError> {
        let Adopted { flow, socket, reach, connections, most_octets } = adopted;
        let far = socket.peer_addr().map_err(TrafficError::System)?.as_socket();
        let far = far.ok_or_else(|| TrafficError::System(ErrorKind::Unsupported.into()))?;
        let unproven = reach.admit(spec, end, flow, &socket, far)?;
        let (listener, peer) = match connections {
            Connections::None => (None, far),
            Connections::At(listener) => (Some(listener), far),
            Connections::To(at) => (None, at),
        };
        Ok(Open { socket, flow, listener, peer, most_octets, unproven, frames: None })
    }
}

/// A socket on `local`, whose port is 0 for any, that waits for the other end to open `flow`.
pub fn listen(flow: Flow, spec: &Spec, local: SocketAddr) -> Result<Waiting, TrafficError> {
    let at = |error| TrafficError::CannotListen { address: local.ip(), error };
    let socket = make(flow.workload, spec, local.ip())?;
    socket.bind(&local.into()).map_err(at)?;
    if !flow.workload.is_udp() {
        // One connection opens a flow; a connection per transaction needs room for those that come in a burst.
        let backlog = if flow.workload == Workload::TcpCrr { 1024 } else { 4 };
        socket.listen(backlog).map_err(at)?;
    }
    Ok(Waiting { socket, flow })
}

impl Waiting {
    /// The port, for the other end.
    pub fn port(&self) -> Result<u16, TrafficError> {
        let address = self.socket.local_addr().map_err(TrafficError::System)?;
        Ok(address.as_socket().map_or(0, |address| address.port()))
    }

    /// Waits until the other end opens the flow with the trial's secret. Strangers are left standing.
    pub fn accept(self, spec: &Spec, tokens: &Tokens) -> Result<Open, TrafficError> {
        let deadline = Instant::now() + OPENING_TIME;
        if self.flow.workload.is_udp() {
            self.accept_udp(tokens, deadline)
        } else {
            self.accept_tcp(spec, tokens, deadline)
        }
    }

    fn accept_udp(self, tokens: &Tokens, deadline: Instant) -> Result<Open, TrafficError> {
        let Waiting { socket, flow } = self;
        let udp: std::net::UdpSocket = socket.into();
        let mut octets = [0; HANDSHAKE_LEN + 1];
        loop {
            udp.set_read_timeout(Some(remaining(deadline, flow)?)).map_err(TrafficError::System)?;
            let (len, peer) = match udp.recv_from(&mut octets) {
                Ok(received) => received,
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(TrafficError::System(error)),
            };
            if expect(&octets[..len], HandshakeKind::Hello, flow, &tokens.hello).is_some() {
                udp.connect(peer).map_err(TrafficError::System)?;
                match udp.send(&message(HandshakeKind::Answer, flow, &tokens.answer)) {
                    // The other end says it again.
                    Err(error) if !is_filtered(&error) => return Err(TrafficError::System(error)),
                    _ => {}
                }
                return Ok(Open::new(udp.into(), flow, peer));
            }
        }
    }

    fn accept_tcp(self, spec: &Spec, tokens: &Tokens, deadline: Instant) -> Result<Open, TrafficError> {
        let Waiting { socket: listener, flow } = self;
        loop {
            listener.set_read_timeout(Some(remaining(deadline, flow)?)).map_err(TrafficError::System)?;
            // SO_RCVTIMEO bounds accept(2) too (socket(7)).
            let (socket, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(TrafficError::System(error)),
            };
            socket.set_read_timeout(Some(Duration::from_secs(1))).map_err(TrafficError::System)?;
            let stream: std::net::TcpStream = socket.into();
            let mut octets = [0; HANDSHAKE_LEN];
            if io::Read::read_exact(&mut &stream, &mut octets).is_err() {
                continue;
            }
            if expect(&octets, HandshakeKind::Hello, flow, &tokens.hello).is_none() {
                continue;
            }
            let answer = message(HandshakeKind::Answer, flow, &tokens.answer);
            io::Write::write_all(&mut &stream, &answer).map_err(TrafficError::System)?;
            let peer = peer.as_socket().ok_or_else(|| TrafficError::System(ErrorKind::Unsupported.into()))?;
            set_stream_options(&SockRef::from(&stream), spec)?;
            let listener = (flow.workload == Workload::TcpCrr).then_some(listener);
            return Ok(Open { listener, ..Open::new(stream.into(), flow, peer) });
        }
    }
}

/// Opens a flow towards the other end, which waits at `peer`, and returns once it has said the trial's secret.
pub fn open(flow: Flow, spec: &Spec, local: IpAddr, peer: SocketAddr, tokens: &Tokens) -> Result<Open, TrafficError> {
    open_once(flow, spec, local, peer, tokens).map_err(|error| match (&error, neighbour::silent_on(peer.ip())) {
        (TrafficError::Unreachable { .. } | TrafficError::NotOpened { .. }, Some(interface)) => {
            TrafficError::NoNeighbour { address: peer.ip(), interface }
        }
        _ => error,
    })
}

fn open_once(flow: Flow, spec: &Spec, local: IpAddr, peer: SocketAddr, tokens: &Tokens) -> Result<Open, TrafficError> {
    let socket = make(flow.workload, spec, local)?;
    socket
        .bind(&local_towards(local, 0, peer).into())
        .map_err(|error| TrafficError::CannotListen { address: local, error })?;
    let unreachable = |error: io::Error| match is_filtered(&error) {
        true => TrafficError::Filtered { peer },
        false => TrafficError::Unreachable { peer, error },
    };
    let hello = message(HandshakeKind::Hello, flow, &tokens.hello);
    if !flow.workload.is_udp() {
        socket.connect_timeout(&peer.into(), OPENING_TIME).map_err(unreachable)?;
        socket.set_read_timeout(Some(OPENING_TIME)).map_err(TrafficError::System)?;
        let stream: std::net::TcpStream = socket.into();
        io::Write::write_all(&mut &stream, &hello).map_err(unreachable)?;
        let mut octets = [0; HANDSHAKE_LEN];
        io::Read::read_exact(&mut &stream, &mut octets).map_err(unreachable)?;
        expect(&octets, HandshakeKind::Answer, flow, &tokens.answer).ok_or(TrafficError::Stranger { peer })?;
        set_stream_options(&SockRef::from(&stream), spec)?;
        return Ok(Open::new(stream.into(), flow, peer));
    }
    let udp: std::net::UdpSocket = socket.into();
    udp.connect(peer).map_err(unreachable)?;
    let deadline = Instant::now() + OPENING_TIME;
    let mut octets = [0; HANDSHAKE_LEN + 1];
    let mut period = FIRST_HELLO_PERIOD;
    let mut filtered = 0;
    loop {
        remaining(deadline, flow)?;
        // A refusal (the other end is not bound yet) and a full queue pass; the next hello comes soon.
        match udp.send(&hello) {
            Ok(_) => filtered = 0,
            Err(error) if is_passing(&error) || error.kind() == ErrorKind::ConnectionRefused => {}
            // A filter that takes some datagrams lets others pass.
            Err(error) if is_filtered(&error) && filtered < FILTERED_TIMES => filtered += 1,
            Err(error) => return Err(unreachable(error)),
        }
        let next_hello = Instant::now() + period;
        period = (2 * period).min(LAST_HELLO_PERIOD);
        // Whatever else comes is no reason for another hello: something that echoes would be flooded.
        while let Some(left) = next_hello.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            udp.set_read_timeout(Some(left)).map_err(TrafficError::System)?;
            match udp.recv(&mut octets) {
                Ok(len) if expect(&octets[..len], HandshakeKind::Answer, flow, &tokens.answer).is_some() => {
                    return Ok(Open::new(udp.into(), flow, peer));
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                // A refusal comes at once; the rest of the wait is for the other end to be bound.
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(5))),
            }
        }
    }
}

/// Another connection to a far end that is known already, for a transaction of its own.
pub fn connect_again(spec: &Spec, local: IpAddr, peer: SocketAddr) -> io::Result<std::net::TcpStream> {
    let socket = make(Workload::TcpCrr, spec, local).map_err(|error| match error {
        TrafficError::System(error) => error,
        other => io::Error::other(other.to_string()),
    })?;
    socket.bind(&local_towards(local, 0, peer).into())?;
    socket.connect_timeout(&peer.into(), OPENING_TIME)?;
    socket.set_tcp_nodelay(spec.nodelay())?;
    Ok(socket.into())
}

/// The octets of a handshake message without a value.
pub fn message(kind: HandshakeKind, flow: Flow, token: &Token) -> [u8; HANDSHAKE_LEN] {
    Handshake { kind, flow: flow.id, token: *token, value: 0 }.emit()
}

/// The message in these octets, if it is of this kind and belongs to this flow of this trial.
pub fn expect(octets: &[u8], kind: HandshakeKind, flow: Flow, token: &Token) -> Option<Handshake> {
    Handshake::parse(octets)?.expect(kind, flow.id, token)
}

/// EPERM: a packet filter of this machine drops what it sends (nf_hook_slow).
pub fn is_filtered(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}

/// An error that means "not now": a time-out, an interruption, a queue that is full.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

pub fn remaining(deadline: Instant, flow: Flow) -> Result<Duration, TrafficError> {
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(TrafficError::NotOpened { flow: flow.id, workload: flow.workload, after: OPENING_TIME }),
    }
}

fn make(workload: Workload, spec: &Spec, local: IpAddr) -> Result<Socket, TrafficError> {
    let domain = if local.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let (kind, protocol) = if workload.is_udp() { (Type::DGRAM, Protocol::UDP) } else { (Type::STREAM, Protocol::TCP) };
    let socket = Socket::new(domain, kind, Some(protocol)).map_err(TrafficError::System)?;
    let refused = socket_options::set(&socket, spec, workload).next();
    match refused {
        None => Ok(socket),
        Some(("congestion_control", error)) if error.raw_os_error() == Some(libc::ENOENT) => {
            let name = spec.congestion_control.clone().unwrap_or_default();
            Err(TrafficError::NoCongestionControl { name, available: available() })
        }
        Some((option, error)) => Err(TrafficError::Option { option, error }),
    }
}

/// The congestion controls that the kernel has, as its list of words; one in a module that is not loaded is not among them.
fn available() -> String {
    let listed = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let listed: Vec<&str> = listed.split_whitespace().collect();
    if listed.is_empty() { "others".to_owned() } else { listed.join(", ") }
}

fn set_stream_options(socket: &SockRef<'_>, spec: &Spec) -> Result<(), TrafficError> {
    socket.set_tcp_nodelay(spec.nodelay()).map_err(|error| TrafficError::Option { option: "nodelay", error })
}
