//! Why nothing came through: what was tried between two machines, from the bottom up, and what came of each step.
//! Facts, and the sentences that say them; tries nothing.

mod sentence;

use std::net::IpAddr;

use linerate_machine::end::End;
use linerate_machine::probe::{Detection, IcmpReport, Protocol, Refusal, RouteKind, TcpReached};
use linerate_path::budget::LossLine;
use linerate_trial::spec::Workload;
use serde::{Deserialize, Serialize};

/// What was tried, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// How long it took.
    pub seconds: f64,
    /// Each step, from the bottom up.
    pub steps: Vec<Step>,
    /// Which of them explains the trial's failure; absent where none does.
    pub cause: Option<usize>,
}

/// Something that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What.
    pub probe: Probe,
    /// What came of it.
    pub came: StepResult,
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Probe {
    /// The interface of an end.
    Link {
        /// Whose.
        end: End,
    },
    /// Whether the ends have addresses that reach each other.
    Addresses,
    /// Whether nobody else has the address of an end.
    Address {
        /// Whose.
        end: End,
    },
    /// The route of an end to the other.
    Route {
        /// Whose.
        from: End,
    },
    /// The machine in the middle, at its interfaces towards both ends.
    Middle,
    /// Who answers for the other end, or for the router on the way there.
    Neighbour {
        /// Who asks.
        from: End,
    },
    /// Whether an end takes what comes from the other.
    Arrivals {
        /// Who takes it.
        end: End,
    },
    /// Whether an end has room for more connections and descriptors.
    Room {
        /// Whose.
        end: End,
    },
    /// ICMP echo requests.
    Echo {
        /// Who asks.
        asker: End,
    },
    /// Whether small requests over this transport are answered.
    Transport {
        /// Over which.
        transport: Protocol,
        /// Who asks.
        asker: End,
    },
    /// Datagrams from several ports.
    Flows {
        /// Who asks.
        asker: End,
        /// From so many.
        flows: u16,
    },
    /// Whether requests that say that they are ECN-capable are answered as others are.
    Ecn {
        /// Who asks.
        asker: End,
    },
    /// Connections of TCP at once.
    Connections {
        /// Who asks.
        asker: End,
        /// How many.
        connections: u16,
    },
    /// Whether a connection that carried what was sent over it closes.
    Closing {
        /// Who asks.
        asker: End,
    },
    /// Packets as large as the sender's link allows.
    Size {
        /// Who sends.
        from: End,
        /// How large.
        octets: u32,
    },
    /// Routers between the two.
    Hops {
        /// Who sends.
        from: End,
    },
    /// All of this over IPv6, where it passes over IPv4.
    Ipv6,
    /// A stream by the protocol of another tool's server.
    Stream {
        /// Over TCP or UDP.
        workload: Workload,
        /// Who sends.
        from: End,
    },
    /// Requests of the traffic engine, in packets of so many octets each way: where an end cannot send single probes.
    Requests {
        /// Over TCP or UDP.
        workload: Workload,
        /// Who asks.
        asker: End,
        /// Octets of a request's packet.
        there: u32,
        /// Octets of an answer's.
        back: u32,
    },
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    /// It is as it should be.
    Passed(Passed),
    /// It is not.
    Failed(Failed),
    /// It is not known, and nothing shows that it matters.
    Unknown(Unknown),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Passed {
    /// The interface is up.
    Link {
        interface: String,
        driver: Option<String>,
        speed_mbps: Option<u32>,
        duplex: Option<String>,
        mtu: Option<u32>,
    },
    /// These are used.
    Addresses { target: IpAddr, host: IpAddr },
    /// By these interfaces, towards the target and towards the host.
    Middle { target: String, host: String },
    /// Nobody else answers for it.
    Address { address: IpAddr },
    /// By this interface, over this router.
    Route { interface: Option<String>, gateway: Option<IpAddr>, local: bool },
    /// This Ethernet address answers.
    Neighbour { address: IpAddr, mac: String },
    /// What comes is taken.
    Arrivals { filter: Option<u8> },
    /// There is room.
    Room,
    /// How many were answered, the median time, and how many were not; absent where the last may still have been on their way.
    Answered {
        answered: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        lost: Option<u64>,
        median_s: Option<f64>,
    },
    /// A connection opens in this time, and full segments pass, so many of them when they are retransmitted.
    Connected {
        handshake_s: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        retransmitted: Option<u32>,
    },
    /// Of each of so many flows.
    Flows { flows: u16 },
    /// How many connections were open at once.
    Connections { open: u16 },
    /// The other end's FIN came.
    Closed,
    /// So large a packet passes; where it is smaller than what the link allows, by this machine's word.
    Size { octets: u32, told_by: Option<IpAddr> },
    /// How much of a stream arrived.
    Carried { octets: u64 },
    /// How many routers.
    Hops { routers: u8 },
    /// Over IPv6 all of it passes too, between these.
    Ipv6 { target: IpAddr, host: IpAddr },
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Failed {
    /// The interface is set down.
    SetDown { interface: String },
    /// The interface has no carrier.
    NoCarrier { interface: String },
    /// There are no addresses to use, one sentence says why.
    NoAddresses { sentence: String },
    /// The address is gone from its interface.
    AddressGone { address: IpAddr, interface: String },
    /// The machine in the middle does not let pass what comes.
    Middle { fault: MiddleFault },
    /// Others answer for the address.
    Duplicate { address: IpAddr, others: Vec<String> },
    /// Duplicate address detection says so.
    Detection { address: IpAddr, detection: Detection },
    /// Both ends have the same address.
    SameAddress { address: IpAddr },
    /// Packets go nowhere.
    Route { to: IpAddr, kind: RouteKind, protocol: Option<Protocol> },
    /// Packets leave by another interface than the one that has the address, and do not arrive.
    Astray { to: IpAddr, interface: String, expected: String },
    /// Nobody answers for the next hop; whether that is the other end.
    NoNeighbour {
        address: IpAddr,
        interface: String,
        is_router: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        silent: Option<Silent>,
    },
    /// Another Ethernet address than the other end's answers.
    WrongNeighbour { address: IpAddr, interface: String, mac: String, permanent: bool, right: Vec<String> },
    /// The next hop has the Ethernet address of this end's own interface.
    SameMac { address: IpAddr, interface: String, mac: String },
    /// The kernel refuses what comes from the other end at this interface.
    Arrivals { interface: String, filter: Option<u8>, back_by: Option<String> },
    /// As many connections are tracked, or descriptors open, as there may be.
    Full {
        room: Exhausted,
        used: u64,
        of: u64,
        /// How many more the trial's streams need.
        #[serde(skip_serializing_if = "Option::is_none")]
        needs: Option<u64>,
    },
    /// Nothing was answered: what was sent by `from` was lost there; with this code point, where what has none is answered.
    Lost {
        from: End,
        is_answer: bool,
        place: Place,
        everything: bool,
        drops: Vec<LossLine>,
        #[serde(skip_serializing_if = "Option::is_none")]
        dscp: Option<u8>,
    },
    /// How many flows pass, where the others never do; where most of what they lost was, as far as both ends saw it.
    Flows {
        pass: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        lost: Option<LostAt>,
    },
    /// How many connections were open when no more could be opened; why, in the asker's kernel's word. A stream of transactions that
    /// each open one has two, `doubled`.
    Connections {
        open: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        refusal: Option<Refusal>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        doubled: bool,
    },
    /// What was sent over a connection passed, and the other end's FIN did not come.
    NotClosed,
    /// Each connection opens only when its first SYN has been sent again, after this time; half of the datagrams are answered within that
    /// one.
    FirstSyn { handshake_s: f64, answer_s: f64 },
    /// What is ECN-capable is not answered, and other datagrams are.
    Ecn { lost: Option<LostAt> },
    /// Each segment of a connection passes when it is retransmitted only, where no datagram is lost.
    Retransmitted { segments: u32, retransmitted: u32 },
    /// Packets up to this size pass, larger ones do not; and nobody says so.
    Size {
        largest: u32,
        mtus: PerEndMtu,
        place: Option<Place>,
        drops: Vec<LossLine>,
        /// A router is between, which has to say so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        routed: bool,
    },
    /// Packets with so many hops to live do not get over so many routers.
    Hops { sent: u8, routers: u8, asked: bool },
    /// Over IPv6 this fails first.
    Ipv6 { step: Box<Step> },
    /// The agent got no socket for the other end's probes, in its words.
    NoSocket { sentence: String },
    /// Not one request of the engine was answered, or nothing of a stream arrived.
    Requests { sentence: Option<String>, largest: Option<u32>, drops: Vec<LossLine> },
}

/// Why the other end answers no ARP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Silent {
    /// Its interface is set to do without (IFF_NOARP).
    NoArp { interface: String },
    /// It is set to leave all requests unanswered.
    ArpIgnore { interface: String, value: u8 },
}

/// Why the machine in the middle does not let pass what comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum MiddleFault {
    /// This interface has no carrier.
    NoCarrier { interface: String },
    /// A router's switch for forwarding is off.
    Off { sysctl: String },
    /// A bridge's port is not in STP's forwarding state.
    Blocked { interface: String },
    /// Both ports of a bridge are isolated.
    Isolated { interfaces: [String; 2] },
    /// A bridge sends no broadcasts to this port, such as ARP's.
    NoBroadcasts { interface: String },
    /// A bridge does not learn at this port, and sends nothing there that it has not learnt.
    Unlearnt { interface: String },
    /// A bridge finds an end's Ethernet address behind one port and another by turns.
    Moves { end: End, interfaces: Vec<String> },
}

/// Where packets of some of the probes are lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LostAt {
    /// Who sent what is lost.
    pub from: End,
    /// These are answers.
    pub is_answer: bool,
    pub place: Place,
}

/// What has no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exhausted {
    /// The table of tracked connections.
    TrackedConnections,
    /// The agent's descriptors.
    Descriptors,
}

/// The MTUs of both interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PerEndMtu {
    pub target: Option<u32>,
    pub host: Option<u32>,
}

/// Where packets were lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Place {
    /// The sender's kernel refused to send.
    Refused { refusal: Refusal },
    /// They were sent, and none left the sender's interface.
    NotOut { interface: Option<String> },
    /// They were sent, and wait for the next hop's Ethernet address, for which nobody answers.
    NoNeighbour { address: IpAddr },
    /// Its kernel does not let the sender use its address, for duplicate address detection says so.
    Unused { address: IpAddr },
    /// An ICMP error came back; from an end, or from somebody on the way.
    Icmp { said: IcmpReport, end: Option<End> },
    /// The connection was reset, though the port is open; by the end itself, or by somebody on the way.
    Reset { end: Option<End> },
    /// They left one end's interfaces and did not arrive at the other's.
    Between { left_by: Vec<String>, expected: Option<String>, arrives_at: Option<String> },
    /// They left, and came back to their sender.
    Back { interface: String },
    /// They arrived at the interface, where a program or a filter dropped them before the stack.
    Program { interface: String },
    /// They arrived, addressed to another Ethernet address.
    ForAnother { interface: String },
    /// They arrived at the interface with a wrong checksum, for which the stack dropped them.
    WrongChecksum { interface: String },
    /// They arrived at the interface, and did not come to the open socket.
    NotUp { interface: String, expected: Option<String> },
    /// The connection opened, and what was sent over it did not pass.
    Stalled {
        reached: TcpReached,
        /// Somebody reset it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reset: bool,
        /// Octets of full segments that were acknowledged, of more.
        #[serde(skip_serializing_if = "Option::is_none")]
        acknowledged: Option<u64>,
        /// Datagrams as large as the link's packets pass.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        full_datagrams: bool,
    },
    /// They, or answers to them, come later than this.
    Late { within_s: f64 },
    /// It was lost by chance, as it seems: of datagrams and echo requests, which came through, so many were lost, too.
    Lossy { lost: u64, sent: u64 },
    /// The machines let the agents see no packets.
    Unseen,
}

/// Why it is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unknown {
    /// The agent of an end is of an older version.
    OldAgent { end: End },
    /// There is no agent at this end.
    NoAgent { end: End },
    /// The machine does not let the agent.
    NotPermitted { end: End },
    /// This interface has no ARP.
    NoArp { end: End, interface: String },
    /// Echo is not answered, as its machine is told; other traffic passes, or may.
    EchoIgnored { end: End },
    /// Echo is not answered, and other traffic passes.
    EchoFiltered,
    /// Echo is not answered, and it is not known what else passes.
    NotAnswered,
    /// What comes before does not pass.
    NotTried,
    /// The kernel does not say.
    NotTold,
    /// What had passed before was lost, too.
    Lossy,
    /// The other tool's server is not to be asked for it, or was perhaps not started for it, in a sentence.
    NotSpoken { sentence: String },
    /// Of the machine in the middle not both of these interfaces were found.
    NoPorts { target: Option<String>, host: Option<String> },
}

/// Whether a router is between the two ends, as far as these steps found one.
pub fn is_routed(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.came {
        StepResult::Passed(Passed::Route { gateway, .. }) => gateway.is_some(),
        StepResult::Passed(Passed::Hops { routers }) | StepResult::Failed(Failed::Hops { routers, .. }) => *routers > 0,
        _ => false,
    })
}

impl Examination {
    /// The step that explains the failure.
    pub fn cause(&self) -> Option<&Step> {
        self.steps.get(self.cause?)
    }

    /// Whether traffic was tried, and passed or did not.
    pub fn has_tried_traffic(&self) -> bool {
        let is_traffic =
            |probe| matches!(probe, Probe::Transport { .. } | Probe::Requests { .. } | Probe::Stream { .. });
        self.steps.iter().any(|step| is_traffic(step.probe) && !matches!(step.came, StepResult::Unknown(_)))
    }
}

impl LostAt {
    /// The end whose doing it is; `None`: something between the two.
    pub fn end(&self) -> Option<End> {
        match self.place {
            Place::NotUp { .. } => Some(self.from.other()),
            Place::NotOut { .. } => Some(self.from),
            _ => None,
        }
    }
}

impl Step {
    /// Whether something is wrong.
    pub fn has_failed(&self) -> bool {
        matches!(self.came, StepResult::Failed(_))
    }

    /// A few words for what was tried.
    pub fn name(&self) -> String {
        match self.probe {
            Probe::Link { end } => format!("link of the {end}"),
            Probe::Addresses => "addresses".to_owned(),
            Probe::Address { end } => format!("address of the {end}"),
            Probe::Route { from } => format!("route, {from} to {}", from.other()),
            Probe::Neighbour { from } => format!("neighbour of the {from}"),
            Probe::Arrivals { end } => format!("arrivals at the {end}"),
            Probe::Room { end } => format!("limits of the {end}"),
            Probe::Echo { asker } => format!("ICMP echo, {asker} asks"),
            Probe::Transport { transport, asker } => format!("{}, {asker} asks", transport.name()),
            Probe::Flows { asker, flows } => format!("UDP, {flows} flows, {asker} asks"),
            Probe::Ecn { asker } => format!("ECN, {asker} asks"),
            Probe::Connections { asker, connections } => format!("TCP, {connections} at once, {asker} asks"),
            Probe::Closing { asker } => format!("TCP closes, {asker} asks"),
            Probe::Size { from, octets } => format!("UDP, {octets} bytes to {}", from.other()),
            Probe::Middle => "middle".to_owned(),
            Probe::Ipv6 => "IPv6".to_owned(),
            Probe::Hops { from } => format!("hops, {from} to {}", from.other()),
            Probe::Stream { workload, from } => {
                let transport = if workload.is_tcp() { "TCP" } else { "UDP" };
                format!("{transport} stream, {from} sends")
            }
            Probe::Requests { workload, asker, there, back } => {
                let transport = if workload == Workload::TcpRr { "TCP" } else { "UDP" };
                match there.max(back) {
                    _ if there == back => format!("{transport}, {asker} asks"),
                    size if there > back => format!("{transport}, {size} bytes to {}", asker.other()),
                    size => format!("{transport}, {size} bytes to {asker}"),
                }
            }
        }
    }

    /// What came of it, in a sentence without a full stop.
    pub fn sentence(&self) -> String {
        match &self.came {
            StepResult::Passed(passed) => passed.sentence(),
            StepResult::Failed(failed) => failed.sentence(self.probe),
            StepResult::Unknown(unknown) => unknown.sentence(),
        }
    }
}

impl Probe {
    /// The end that it is about, or that begins.
    pub fn end(self) -> Option<End> {
        match self {
            Probe::Link { end } | Probe::Address { end } | Probe::Arrivals { end } | Probe::Room { end } => Some(end),
            Probe::Route { from }
            | Probe::Neighbour { from }
            | Probe::Size { from, .. }
            | Probe::Stream { from, .. }
            | Probe::Hops { from } => Some(from),
            Probe::Echo { asker }
            | Probe::Transport { asker, .. }
            | Probe::Flows { asker, .. }
            | Probe::Ecn { asker }
            | Probe::Connections { asker, .. }
            | Probe::Closing { asker }
            | Probe::Requests { asker, .. } => Some(asker),
            Probe::Addresses | Probe::Middle | Probe::Ipv6 => None,
        }
    }
}
