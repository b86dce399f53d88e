//! What a machine knows of its way to another, and what came of a handful of probes between the two.
//! Knows not how it is found out, nor what it means.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a machine knows of its way to an address, without sending anything there. Absent means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteInfo {
    /// The interface that has this machine's address; or, where that is no link, the one that packets leave by.
    pub interface: Option<InterfaceState>,
    /// This machine has the address at that interface, or at one that is no link.
    pub has_address: Option<bool>,
    /// The Ethernet addresses of all its interfaces.
    pub hardware_addresses: Vec<String>,
    /// Duplicate address detection has found another machine with this address (IFA_F_DADFAILED), or is still looking
    /// (IFA_F_TENTATIVE).
    pub detection: Option<Detection>,
    /// How packets leave for the other end: in general, then by protocol.
    pub routes: Vec<Route>,
    /// The kernel would take packets from the other end that arrive at the interface.
    pub takes_arrivals: Option<bool>,
    /// rp_filter as it works at the interface: the larger one of its own and that of all.
    pub reverse_path_filter: Option<u8>,
    /// Who answers for the next hop.
    pub neighbour: Option<Neighbour>,
    /// Which requests of ARP it leaves unanswered at the interface (arp_ignore): the larger one of its own and that of all.
    pub arp_ignore: Option<u8>,
    /// TTL or hop limit of what it sends, unless a program says otherwise.
    pub hops: Option<u8>,
    /// Echo requests are not answered (icmp_echo_ignore_all).
    pub ignores_echo: Option<bool>,
    /// Connections that are tracked, and how many may be.
    pub tracked_connections: Option<Usage>,
    /// Descriptors that the agent has open, and may have.
    pub descriptors: Option<Usage>,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceState {
    /// Its name.
    pub name: String,
    /// It is set up (IFF_UP).
    pub up: bool,
    /// It has a carrier.
    pub carrier: Option<bool>,
    /// The largest packet.
    pub mtu: Option<u32>,
    /// Its Ethernet address.
    pub mac: Option<String>,
    /// It asks nobody for Ethernet addresses, and answers nobody who does (IFF_NOARP): it has none, or is set so.
    pub no_arp: Option<bool>,
}

/// What duplicate address detection says of an address (RFC 4862, section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detection {
    /// Another machine has it.
    Failed,
    /// It is not finished: the address is not used yet.
    Tentative,
}

/// What is tried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// ICMP's echo.
    Echo,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl Protocol {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Echo => "ICMP",
            Protocol::Udp => "UDP",
            Protocol::Tcp => "TCP",
        }
    }
}

/// How packets leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Those of this protocol; absent: those that no rule tells apart.
    pub protocol: Option<Protocol>,
    /// What becomes of them.
    pub kind: RouteKind,
    /// By this interface.
    pub interface: Option<String>,
    /// To this machine first.
    pub gateway: Option<IpAddr>,
    /// The largest packet that the route says or has learnt.
    pub mtu: Option<u32>,
}

/// What a route does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteKind {
    /// They leave.
    Unicast,
    /// They stay on this machine.
    Local,
    /// They are swallowed.
    Blackhole,
    /// They are refused: the host is unreachable.
    Unreachable,
    /// They are refused: it is prohibited.
    Prohibit,
    /// There is none.
    None,
}

impl RouteKind {
    /// Whether packets get anywhere.
    pub const fn leads_somewhere(self) -> bool {
        matches!(self, RouteKind::Unicast | RouteKind::Local)
    }
}

/// An entry of the table of neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Whose: the other end, or the router on the way there.
    pub address: IpAddr,
    /// At this interface.
    pub interface: String,
    /// The Ethernet address that answers for it; absent: nobody does.
    pub mac: Option<String>,
    /// The entry was made by hand and is not asked for again.
    #[serde(default)]
    pub permanent: bool,
}

/// How much is used, and how much may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Used.
    pub used: u64,
    /// At most.
    pub of: u64,
}

/// Of six requests so many answers are enough: where a part is lost by chance, so many are seldom had of each of many flows.
pub const ENOUGH: u32 = 3;
/// Ports that datagrams come from at once: of two ways that flows are spread over, each has some of them but once in 30,000 times.
pub const FLOWS: u16 = 16;
/// A handshake that takes so long has waited for its SYN to be sent again (RFC 6298, section 2.1: after a second).
pub const SYN_AGAIN: Duration = Duration::from_millis(900);

/// What came of the probes that an end sent. Absent: not tried, or the machine does not permit it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeReport {
    /// ICMP echo requests.
    pub echo: Option<ProbeResult>,
    /// Datagrams that ask for an answer.
    pub udp: Option<ProbeResult>,
    /// The same from several ports at once: how many of each one's were answered, of six at most; three are enough.
    pub flows: Vec<u32>,
    /// A connection.
    pub tcp: Option<TcpTried>,
    /// Datagrams that may not be fragmented, by size.
    pub sizes: Vec<SizeTried>,
    /// Ethernet addresses that answered for the next hop (ARP).
    pub answer_for_next_hop: Vec<String>,
    /// Ethernet addresses that answered for this machine's own address.
    pub answer_for_own: Vec<String>,
    /// ARP was asked.
    pub asked_arp: bool,
    /// The entry of the table of neighbours for the next hop, after all that.
    pub neighbour: Option<Neighbour>,
}

/// Requests over ICMP or UDP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeResult {
    /// Handed to the kernel.
    pub sent: u32,
    /// Answered.
    pub answered: u32,
    /// The middle one of the times until an answer came.
    pub median_ns: Option<u64>,
    /// Why the kernel would not send, or what it says became of what it sent.
    pub refusal: Option<Refusal>,
    /// What ICMP said of them.
    pub icmp: Vec<IcmpReport>,
    /// TTL or hop limit of what was sent.
    pub hops_sent: Option<u8>,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpTried {
    /// How far it came.
    pub reached: TcpReached,
    /// What ended it.
    pub refusal: Option<Refusal>,
    /// The time of the handshake.
    pub handshake_ns: Option<u64>,
    /// The local port, where there was one.
    pub port: Option<u16>,
    /// How many were open at once beside this one, of which the other end has closed its half, when all were, or one more was not to be had; absent: no more were tried, or
    /// there was no time for it.
    pub at_once: Option<u16>,
    /// Why no more than these were to be had.
    pub at_once_refusal: Option<Refusal>,
    /// Both ends agreed on explicit congestion notification.
    pub ecn: Option<bool>,
    /// How many segments of data this end sent until all had passed, with those that it retransmitted.
    pub segments: Option<u32>,
    /// How many it retransmitted.
    pub retransmitted: Option<u32>,
    /// Octets of the full segments that the other end acknowledged, where not all were in time.
    pub acknowledged: Option<u64>,
    /// Whether the other end's FIN came, once all had been said; absent: it did not come to that.
    pub closed: Option<bool>,
}

/// How far a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpReached {
    /// Not opened.
    Nothing,
    /// Opened.
    Open,
    /// A few octets went there and back.
    Answered,
    /// Full segments went there too.
    Filled,
}

/// A size that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeTried {
    /// Of the packet, IP's header included.
    pub octets: u32,
    /// Handed to the kernel.
    pub sent: u32,
    /// The kernel would not: larger than the interface's MTU, or than what it has learnt of the path.
    #[serde(default)]
    pub too_large: bool,
    /// Somebody says by ICMP that packets may have so many octets at most.
    pub told_mtu: Option<ReportedMtu>,
}

/// A "fragmentation needed" or "packet too big".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedMtu {
    /// At most.
    pub octets: u32,
    /// Who says so.
    pub by: Option<IpAddr>,
}

/// An ICMP error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IcmpReport {
    /// Who says so.
    pub by: Option<IpAddr>,
    /// What.
    pub what: IcmpError,
}

/// What an ICMP error says (RFC 792, RFC 1812, RFC 4443).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IcmpError {
    /// Nobody there has this port.
    PortUnreachable,
    /// Nobody there has this protocol.
    ProtocolUnreachable,
    /// The router finds no host of this address.
    HostUnreachable,
    /// The router has no route.
    NetUnreachable,
    /// A filter says so.
    Prohibited,
    /// Too many routers on the way.
    TimeExceeded,
    /// The packet is larger than the next link takes.
    TooBig,
    /// Another one.
    Other,
}

impl IcmpError {
    /// In the words of the standards.
    pub const fn words(self) -> &'static str {
        match self {
            IcmpError::PortUnreachable => "port unreachable",
            IcmpError::ProtocolUnreachable => "protocol unreachable",
            IcmpError::HostUnreachable => "host unreachable",
            IcmpError::NetUnreachable => "network unreachable",
            IcmpError::Prohibited => "administratively prohibited",
            IcmpError::TimeExceeded => "time exceeded",
            IcmpError::TooBig => "packet too big",
            IcmpError::Other => "an error",
        }
    }
}

/// Why the kernel did not send, or says that it was in vain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// EPERM: the machine's own filter.
    NotPermitted,
    /// ECONNREFUSED: nobody listens, or a filter says so.
    Refused,
    /// EHOSTUNREACH.
    HostUnreachable,
    /// ENETUNREACH.
    NetUnreachable,
    /// EACCES: a route or a filter prohibits it.
    Prohibited,
    /// EINVAL: a blackhole, where a route was looked for.
    Invalid,
    /// ECONNRESET.
    Reset,
    /// Nothing came in time.
    TimedOut,
    /// EMFILE, ENFILE.
    NoDescriptors,
    /// EADDRINUSE, EADDRNOTAVAIL.
    NoPort,
    /// Another error, in the system's words.
    Other(String),
}

/// What a machine heard while the other end probed, and on the interface what it sent itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WitnessReport {
    /// Datagrams that came to the socket: octets of the packet and how many.
    pub datagrams: Vec<(u32, u32)>,
    /// Connections that came to the listening socket.
    pub connections: u32,
    /// A connection that the other end began waits for its last handshake packet.
    pub half_open: bool,
    /// Why this machine did not send the answer to a datagram.
    pub answer_refusal: Option<Refusal>,
    /// TTL or hop limit that a datagram came with.
    pub hops: Option<u8>,
    /// Packets at the interfaces; absent: the machine lets the agent see none.
    pub packets: Option<Vec<SeenPackets>>,
}

impl WitnessReport {
    /// How many requests of echo and of datagrams, and how many answers to them, came or left.
    pub fn requests(&self) -> u64 {
        let is_one = |seen: &&SeenPackets| {
            use Packet::{Datagram, DatagramAnswer, EchoReply, EchoRequest};
            matches!(seen.what, EchoRequest | EchoReply | Datagram { .. } | DatagramAnswer)
        };
        let packets = self.packets.iter().flatten().filter(is_one).map(|seen| u64::from(seen.count));
        let datagrams = self.datagrams.iter().map(|(_, count)| u64::from(*count));
        packets.chain(datagrams).fold(0, u64::saturating_add)
    }
}

/// Packets of one kind at an interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeenPackets {
    /// Where.
    pub interface: String,
    /// They left; else they came.
    pub left: bool,
    /// What they are.
    pub what: Packet,
    /// Their TTL or hop limit.
    pub hops: u8,
    /// They are addressed to another Ethernet address than the interface's.
    #[serde(default)]
    pub for_another: bool,
    /// This machine sent them, and somebody sent them back to it.
    #[serde(default)]
    pub back: bool,
    /// How many.
    pub count: u32,
}

/// What a packet between the two ends is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packet {
    /// An echo request of a probe.
    EchoRequest,
    /// The answer to it.
    EchoReply,
    /// A datagram of a probe, of so many octets with IP's header.
    Datagram {
        /// With IP's header.
        octets: u32,
    },
    /// The answer to one.
    DatagramAnswer,
    /// A SYN to this port.
    Syn {
        /// Of the listening socket.
        port: u16,
    },
    /// A SYN and ACK from this port.
    SynAck {
        /// Of the listening socket.
        port: u16,
    },
    /// A RST from this port.
    Reset {
        /// Of its sender.
        port: u16,
    },
    /// An ICMP error about a packet of this protocol that this machine sent.
    Error {
        /// Its sender.
        by: IpAddr,
        /// What it says.
        what: IcmpError,
        /// Of what.
        about: Option<Protocol>,
    },
}
