//! Whether datagrams may be sent to an address: only to one that has proved that it takes part, or within a permission.
//! Knows no protocol, and sends nothing itself.
//!
//! A datagram's source address can be forged, so what it asks for would go to the machine that has it. A TCP connection cannot
//! be opened in another's name: its client repeats a random number that only its own address gets (RFC 9293, section 3.4.1).
//!
//! ```text
//!   TCP connection ─────────────→ ProvenPeer ─┐
//!   our random number, repeated → ProvenPeer ─┴→ Reach ─→ Adopted ─→ a flow that sends
//!   a permission of the user ───→ UnprovenLimit ─┘
//! ```

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use linerate_machine::end::End;
use linerate_trial::flow::Flow;
use linerate_trial::spec::{Extent, Spec};
use socket2::{SockRef, Socket, TcpKeepalive, Type};

use super::TrafficError;
use crate::sys::socket_state::report_icmp_errors;

/// How long a control connection may be silent before the kernel asks whether its other end is still there, and how often
/// and how many times it asks. A path that the test itself fills loses most of what is asked.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);
const KEEPALIVE_PERIOD: Duration = Duration::from_secs(3);
const KEEPALIVE_TIMES: u32 = 40;

/// An address, of one interface where it is link-local, that has proved that it takes part. Only a proof makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenPeer {
    /// Without a port: two connections of one machine prove the same.
    at: SocketAddr,
}

impl ProvenPeer {
    fn new(mut at: SocketAddr) -> ProvenPeer {
        at.set_port(0);
        ProvenPeer { at }
    }

    /// The far end of a TCP connection. From now on the connection breaks when its far end is gone, even if neither sends:
    /// its observer learns that the address may be another's now.
    pub fn by_connection(connection: &impl AsFd) -> io::Result<ProvenPeer> {
        let socket = SockRef::from(connection);
        if socket.r#type()? != Type::STREAM {
            return Err(ErrorKind::InvalidInput.into());
        }
        let at = socket.peer_addr()?.as_socket().ok_or(ErrorKind::Unsupported)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_PERIOD);
        socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_TIMES))?;
        Ok(ProvenPeer::new(at))
    }

    /// An address that repeated what this end drew at random and said to it alone; `None` where it repeated something else.
    pub fn by_echo<T: PartialEq>(peer: SocketAddr, said: &T, repeated: &T) -> Option<ProvenPeer> {
        (said == repeated).then_some(ProvenPeer::new(peer))
    }

    /// A port of this address.
    pub fn at(self, port: u16) -> SocketAddr {
        let mut at = self.at;
        at.set_port(port);
        at
    }

    /// Whether this is the same address, at whatever port.
    pub fn is(self, other: SocketAddr) -> bool {
        self.at.ip().to_canonical() == other.ip().to_canonical() && interface(self.at) == interface(other)
    }
}

/// The number of the interface of a link-local address; 0 for others, which need none.
fn interface(at: SocketAddr) -> u32 {
    match at {
        SocketAddr::V6(at) if at.ip().is_unicast_link_local() => at.scope_id(),
        _ => 0,
    }
}

/// The address of this machine at a port, for a socket that is to reach `peer`: link-local addresses share an interface.
pub fn local_towards(local: IpAddr, port: u16, peer: SocketAddr) -> SocketAddr {
    let mut at = SocketAddr::new(local, port);
    if let (SocketAddr::V6(at), SocketAddr::V6(peer)) = (&mut at, peer)
        && at.ip().is_unicast_link_local()
    {
        at.set_scope_id(peer.scope_id());
    }
    at
}

/// What the user of this machine allows to be sent to an address that has proved nothing. It ends at the first ICMP message
/// that refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenLimit {
    /// Of all flows of a trial together.
    pub bits_per_second: u64,
}

impl UnprovenLimit {
    /// The longest that is sent.
    pub const LONGEST: Duration = Duration::from_secs(60);

    /// What may have been sent after so long a time.
    pub fn allowed_bits(self, time: Duration) -> u64 {
        (self.bits_per_second as f64 * time.as_secs_f64()) as u64
    }

    /// Whether what one end sends in this trial stays within the limit; else what is beyond it.
    pub fn check(self, spec: &Spec, end: End) -> Result<(), ExceededLimit> {
        let flows = Flow::of(spec).iter().filter(|flow| flow.source == end).count() as f64;
        let size = spec.message_octets();
        let rate = spec.rate.bits_per_second(size.into()).map(|bits| bits * flows);
        let Some(rate) = rate.filter(|rate| *rate <= self.bits_per_second as f64) else {
            return Err(ExceededLimit::Rate);
        };
        let time = match spec.extent {
            Extent::Time(time) => (spec.warmup + time).as_secs_f64(),
            Extent::Octets(octets) => octets as f64 * 8.0 * flows.max(1.0) / rate,
        };
        if time > UnprovenLimit::LONGEST.as_secs_f64() { Err(ExceededLimit::Time) } else { Ok(()) }
    }
}

/// What a trial asks for beyond an [`UnprovenLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// A higher rate, or none named.
    Rate,
    /// A longer time.
    Time,
}

/// Why this end may send on a flow's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPermission {
    /// Its far end has proved its address.
    Proven(ProvenPeer),
    /// The user allows so much without a proof.
    Unproven(UnprovenLimit),
    /// It is a connection of TCP, whose handshake is the proof.
    Connected,
    /// It does not: it only receives.
    Silent,
}

impl SendPermission {
    /// Whether a trial may have this flow on this socket, which is connected to `peer`: the limit that holds for what it
    /// sends, if one does.
    pub fn admit(
        self,
        spec: &Spec,
        end: End,
        flow: Flow,
        socket: &Socket,
        peer: SocketAddr,
    ) -> Result<Option<UnprovenLimit>, TrafficError> {
        let answers = !flow.workload.is_stream();
        let sends = flow.source == end || answers;
        match self {
            SendPermission::Proven(proven) if proven.is(peer) => Ok(None),
            _ if !sends => Ok(None),
            SendPermission::Connected if socket.r#type().map_err(TrafficError::System)? == Type::STREAM => Ok(None),
            SendPermission::Unproven(limit) if !answers => {
                limit.check(spec, end).map_err(|_| TrafficError::Unproven { peer })?;
                // Without this, of ICMP's refusals a socket hears "port unreachable" alone.
                report_icmp_errors(socket, peer.is_ipv4()).map_err(TrafficError::System)?;
                Ok(Some(limit))
            }
            SendPermission::Proven(_)
            | SendPermission::Unproven(_)
            | SendPermission::Connected
            | SendPermission::Silent => Err(TrafficError::Unproven { peer }),
        }
    }
}

/// How much may be answered to an address that has proved nothing: no more octets than came from there.
#[derive(Clone, Copy, Debug)]
pub struct AmplificationLimit {
    left: u64,
}

impl AmplificationLimit {
    /// To somebody from whom so many octets came, at the least.
    pub fn to(received: u64) -> AmplificationLimit {
        AmplificationLimit { left: received }
    }

    /// More came.
    pub fn received(&mut self, octets: u64) {
        self.left = self.left.saturating_add(octets);
    }

    /// Sends an answer on a connected socket. `false`: it is longer than what came.
    pub fn send(&mut self, socket: &Socket, octets: &[u8]) -> io::Result<bool> {
        let Some(left) = self.left.checked_sub(octets.len() as u64) else { return Ok(false) };
        self.left = left;
        socket.send(octets).map(|_| true)
    }
}

/// Whether this error of sending says that the far end, or somebody on the way, refuses datagrams.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EACCES
                | libc::EPERM
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EOPNOTSUPP
                | libc::EPROTO
        )
    )
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use linerate_machine::end::Direction;
    use linerate_trial::spec::Workload;

    use super::*;

    #[test]
    fn a_connection_proves_its_address_and_a_socket_of_datagrams_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, from) = listener.accept().unwrap();
        let proven = ProvenPeer::by_connection(&near).unwrap();
        assert!(proven.is(from) && proven.is(SocketAddr::new(from.ip(), 1)));
        assert!(!proven.is("127.0.0.2:1".parse().unwrap()));
        assert_eq!(proven.at(7), "127.0.0.1:7".parse().unwrap());
        assert_eq!(ProvenPeer::by_echo(from, &1, &1), Some(proven), "at whatever port");
        drop((listener, far));
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect(from).unwrap();
        assert!(ProvenPeer::by_connection(&udp).is_err());
        assert!(ProvenPeer::by_connection(&TcpListener::bind("127.0.0.1:0").unwrap()).is_err());
        assert_eq!(ProvenPeer::by_echo(from, &1, &2), None);
    }

    #[test]
    fn a_link_local_address_is_one_of_its_interface() {
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let proven = ProvenPeer { at: at("[fe80::1%3]:9") };
        assert!(proven.is(at("[fe80::1%3]:7")) && !proven.is(at("[fe80::1%4]:7")));
        assert_eq!(proven.at(7), at("[fe80::1%3]:7"));
        assert!(ProvenPeer { at: at("[2001:db8::1%3]:9") }.is(at("[2001:db8::1]:9")));
        let towards = |local: &str, peer| local_towards(local.parse().unwrap(), 5, at(peer));
        assert_eq!(towards("fe80::2", "[fe80::1%3]:9"), at("[fe80::2%3]:5"));
        assert_eq!(towards("2001:db8::2", "[2001:db8::1%3]:9"), at("[2001:db8::2]:5"));
        assert_eq!(towards("10.0.0.1", "10.0.0.2:9"), at("10.0.0.1:5"));
    }

    #[test]
    fn datagrams_go_nowhere_without_a_proof_or_beyond_a_permission() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = far.local_addr().unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(peer).unwrap();
        let socket = Socket::from(near);
        let mut spec = Spec::new(Workload::UdpStream);
        (spec.rate, spec.extent) = ("10M".parse().unwrap(), Extent::Time(Duration::from_secs(60)));
        let admit = |reach: SendPermission, spec: &Spec, end| reach.admit(spec, end, Flow::of(spec)[0], &socket, peer);
        let proven = |text: &str| SendPermission::Proven(ProvenPeer { at: text.parse().unwrap() });
        assert_eq!(admit(proven("127.0.0.1:0"), &spec, End::Host).unwrap(), None);
        let limit = |bits_per_second| SendPermission::Unproven(UnprovenLimit { bits_per_second });
        assert!(admit(limit(10_000_000), &spec, End::Host).unwrap().is_some());
        assert_eq!(admit(SendPermission::Silent, &spec, End::Target).unwrap(), None, "this end receives");
        let longer = Spec { extent: Extent::Time(Duration::from_secs(61)), ..spec.clone() };
        let unlimited = Spec { rate: "unlimited".parse().unwrap(), ..spec.clone() };
        let many = Spec { streams: 2, ..spec.clone() };
        let octets = Spec { extent: Extent::Octets(100_000_000), ..spec.clone() };
        let asked = Spec { direction: Direction::Rx, ..Spec::new(Workload::UdpRr) };
        for (reach, spec) in [
            (proven("127.0.0.2:0"), &spec),
            (SendPermission::Silent, &spec),
            (SendPermission::Connected, &spec),
            (limit(9_999_999), &spec),
            (limit(10_000_000), &longer),
            (limit(u64::MAX), &unlimited),
            (limit(10_000_000), &many),
            (limit(10_000_000), &octets),
            (limit(u64::MAX), &asked),
        ] {
            let error = admit(reach, spec, End::Host).unwrap_err();
            assert!(matches!(error, TrafficError::Unproven { .. }), "{reach:?} {error}");
        }
        // Who answers datagrams sends them, too.
        assert!(admit(SendPermission::Silent, &asked, End::Target).is_err());
    }

    #[test]
    fn no_more_is_answered_than_came() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let socket = Socket::from(near);
        let mut answers = AmplificationLimit::to(99);
        assert!(!answers.send(&socket, &[0; 100]).unwrap());
        assert!(answers.send(&socket, &[0; 60]).unwrap());
        assert!(!answers.send(&socket, &[0; 60]).unwrap());
        answers.received(21);
        assert!(answers.send(&socket, &[0; 60]).unwrap());
        far.set_nonblocking(true).unwrap();
        let arrived = std::iter::from_fn(|| far.recv(&mut [0; 100]).ok()).sum::<usize>();
        assert_eq!(arrived, 120);
    }
}
