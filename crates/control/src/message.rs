//! What controller and agent say to each other: one JSON object a line.
//! Knows no streams and no limits; [`crate::line`] frames and bounds what is said here.
//!
//! The first line each way is a [`Hello`]. Then the controller sends [`RequestLine`]s, and the agent answers each
//! with a [`AgentLine::Reply`] or a [`AgentLine::Refusal`] of the same number, and sends [`Event`]s in between.
//! Unknown fields are ignored; an unknown message is refused by its name.

use std::net::{IpAddr, SocketAddr};

use linerate_machine::change::{Change, Changed, Custom, PutBack, Reading};
use linerate_machine::end::{End, PerEnd};
use linerate_machine::environment::Environment;
use linerate_machine::mac::MacAddress;
use linerate_machine::probe::{ProbeReport, RouteInfo, WitnessReport};
use linerate_machine::profile::Profile;
use linerate_machine::registers::{Readings, RegisterRequest};
use linerate_machine::screen::{Screen, View};
use linerate_path::stage::Counters;
use linerate_trial::middle::MiddleOutcome;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;
use linerate_trial::tool::Tool;
use serde::{Deserialize, Serialize};

/// The version of the conversation. A peer of another version is told so and left.
pub const PROTOCOL: u32 = 2;

/// The first line each way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the speaker.
    pub linerate: u32,
    /// The speaker's program and version, for people: `linerate-agent 0.1.0`.
    pub program: String,
    /// What the speaker can do beyond what every one of its version can.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// What an agent has to tell before it is asked: a sentence for each setting that it found changed and put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The longest that one request samples, seconds.
pub const LONGEST_PROFILE_S: f64 = 3600.0;

/// The capability to change settings and put them back.
pub const SETTINGS: &str = "settings";
/// The capability to speak other tools' protocols.
pub const FOREIGN: &str = "foreign";
/// The capability to change settings of the user's own: to run the controller's commands.
pub const CUSTOM_SETTINGS: &str = "custom-settings";

/// The capability to sample what the whole machine does, and not the agent's own threads alone.
pub const MACHINE_PROFILE: &str = "machine-profile";

/// The capability to read registers by the driver's dump and the PHY's bus.
pub const REGISTERS: &str = "registers";
/// The capability to read registers in physical memory too, for this controller.
pub const DEVICE_MEMORY: &str = "device-memory";

/// The capability to look at the way to the other end, to send it a handful of probes, and to hear the other end's.
pub const PROBE: &str = "probe";

/// The capability to be the machine in the middle of a trial: to find its interfaces on the way, and to observe.
pub const OBSERVE: &str = "observe";
/// The capability of an agent that answers [`Request::Holder`].
pub const HOLDER: &str = "holder";

/// The capability to show utility screens.
pub const SCREENS: &str = "screens";

impl Hello {
    /// Reads a first line of any version: only [`Hello::linerate`] is certain to keep its meaning.
    pub fn read(line: &str) -> Option<Hello> {
        #[derive(Deserialize)]
        struct AnyVersion {
            linerate: u32,
        }
        serde_json::from_str(line).ok().or_else(|| {
            let AnyVersion { linerate } = serde_json::from_str(line).ok()?;
            let program = "another linerate".to_owned();
            Some(Hello { linerate, program, capabilities: Vec::new(), notes: Vec::new() })
        })
    }
}

/// A numbered request, from the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestLine {
    /// The number that the answer repeats.
    pub id: u64,
    /// What is wanted.
    pub request: Request,
}

/// What a controller can want.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// To be the one controller that measures. Until [`Request::Release`] or the end of the conversation.
    Lease {
        /// Who asks.
        holder: Holder,
    },
    /// To give the lease back.
    Release,
    /// Who has the lease, and for how long. Takes nothing.
    Holder,
    /// The machine as it is.
    Describe {
        /// The interface that test traffic will use; `None`: the machine only.
        interface: Option<String>,
        /// Kernel modules whose builds are wanted, beside that of the interface's driver.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        modules: Vec<String>,
    },
    /// The machine's addresses.
    Addresses,
    /// The machine's counters, now.
    Counters {
        /// The interface whose counters are wanted beside the machine's.
        interface: String,
    },
    /// A utility screen, as it is now.
    Screen {
        /// Which.
        screen: Screen,
        /// The interface that it is about, where it is about one; by default the first that is up and no loopback.
        #[serde(skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Raw words of an interface's registers, now. Reading clears some registers; the caller takes that into account.
    Registers {
        /// The interface.
        interface: String,
        /// Which words.
        wanted: RegisterRequest,
    },
    /// To get ready for a trial. Needs the lease.
    Prepare(Box<Prepare>),
    /// To open the flows towards the other end, and wait until every flow is open. Needs a prepared trial.
    Connect {
        /// The other end's address.
        peer: IpAddr,
        /// The ports on which the other end listens: (flow, port).
        ports: Vec<(u16, u16)>,
        /// Where frames for the other end arrive; of a trial of frames.
        #[serde(skip_serializing_if = "Option::is_none")]
        mac: Option<MacAddress>,
    },
    /// To start. Needs a connected trial.
    Start,
    /// To send no more, as if the time were over: the trial ends in good order. Needs one that runs.
    EndSending,
    /// To end the trial now, whatever its state.
    Stop,
    /// The machine's settings as they are.
    Get {
        /// The interface that they belong to, unless they are the machine's.
        interface: Option<String>,
        /// Which; all that the machine has, when none is named.
        names: Vec<String>,
        /// How those among them are read that are the user's own: (name, how).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        custom: Vec<(String, Custom)>,
        /// Values that they might be given, in the order of the names: the error of one that could not have it says
        /// why, as far as the machine knows that without changing anything.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<String>,
    },
    /// To change settings: all of these, or none. They are put back when the conversation ends, however it ends.
    /// Needs the lease.
    Set {
        /// The interface that they belong to, unless they are the machine's.
        interface: Option<String>,
        /// In this order.
        changes: Vec<Change>,
        /// The changes may cut the conversation: unless [`Request::Confirm`] comes within this time, seconds, the
        /// agent takes them back by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        confirm_within_s: Option<f64>,
    },
    /// The last changes did not cut the conversation: they may stay. Needs the lease.
    Confirm,
    /// What this conversation has changed stays when it ends, until [`Request::Restore`] of what is kept. Needs the
    /// lease.
    Keep,
    /// To put settings back. Needs the lease.
    Restore {
        /// Which; all that this conversation has changed, when none is named.
        #[serde(default)]
        names: Vec<String>,
        /// Also what conversations before this one have changed to stay.
        #[serde(default)]
        kept: bool,
    },
    /// What the CPUs do from now on, for a while. Answered when it has begun; [`Event::Profiled`] tells what was seen.
    Profile {
        /// Samples a second of each CPU.
        hz: u32,
        /// For so long; [`Request::Stop`] ends it before.
        seconds: f64,
    },
    /// What this machine knows of its way to an address. Sends nothing.
    Way {
        /// The address of this machine.
        local: IpAddr,
        /// The other end's.
        peer: IpAddr,
        /// The interface that has the address, or at which packets from the other end arrive.
        interface: Option<String>,
    },
    /// To listen for probes of the other end, and to watch what passes the interfaces, for 20 s or until [`Request::Stop`].
    /// Needs the lease.
    Witness {
        /// The address of this machine.
        local: IpAddr,
        /// The other end's: nobody else is heard.
        peer: IpAddr,
        /// The interface that has the address.
        interface: Option<String>,
        /// What probes have to say.
        secret: Secret,
    },
    /// To send probes. Needs the lease.
    Probe(Box<ProbeOrder>),
    /// What the witness has heard until now. Needs one.
    Heard,
    /// By which of its interfaces this machine forwards to these two others. Sends nothing.
    Ports {
        /// The target and the host.
        towards: PerEnd<EndAddress>,
        /// The two are in one subnet, so that this machine is a bridge between them; else it is a router.
        bridged: bool,
    },
    /// To get ready to observe a trial that others make, and to read the counters from which it begins. Needs the lease;
    /// [`Request::Start`] says when it begins.
    Observe(Box<Observe>),
    /// What was observed. Ends it.
    Conclude,
    /// A sign of life; answered at once.
    Ping,
}

impl Request {
    /// The names of all requests, as [`Request::name`] gives them.
    pub const NAMES: [&str; 27] = [
        "lease",
        "release",
        "describe",
        "addresses",
        "counters",
        "prepare",
        "connect",
        "start",
        "stop",
        "ping",
        "get",
        "set",
        "confirm",
        "keep",
        "restore",
        "profile",
        "registers",
        "way",
        "witness",
        "probe",
        "heard",
        "end-sending",
        "ports",
        "observe",
        "conclude",
        "screen",
        "holder",
    ];

    /// The request's name, as the line says it.
    pub const fn name(&self) -> &'static str {
        match self {
            Request::Lease { .. } => Request::NAMES[0],
            Request::Release => Request::NAMES[1],
            Request::Describe { .. } => Request::NAMES[2],
            Request::Addresses => Request::NAMES[3],
            Request::Counters { .. } => Request::NAMES[4],
            Request::Prepare(_) => Request::NAMES[5],
            Request::Connect { .. } => Request::NAMES[6],
            Request::Start => Request::NAMES[7],
            Request::Stop => Request::NAMES[8],
            Request::Ping => Request::NAMES[9],
            Request::Get { .. } => Request::NAMES[10],
            Request::Set { .. } => Request::NAMES[11],
            Request::Confirm => Request::NAMES[12],
            Request::Keep => Request::NAMES[13],
            Request::Restore { .. } => Request::NAMES[14],
            Request::Profile { .. } => Request::NAMES[15],
            Request::Registers { .. } => Request::NAMES[16],
            Request::Way { .. } => Request::NAMES[17],
            Request::Witness { .. } => Request::NAMES[18],
            Request::Probe(_) => Request::NAMES[19],
            Request::Heard => Request::NAMES[20],
            Request::EndSending => Request::NAMES[21],
            Request::Ports { .. } => Request::NAMES[22],
            Request::Observe(_) => Request::NAMES[23],
            Request::Conclude => Request::NAMES[24],
            Request::Screen { .. } => Request::NAMES[25],
            Request::Holder => Request::NAMES[26],
        }
    }
}

/// Who measures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// A random name; agents on one machine grant the lease to one controller at a time by it. It is the right to the lease, so
    /// others are told its digest.
    pub controller: String,
    /// For people: user, machine and process.
    pub name: String,
    /// Of a worker: the bench that it was given, and which giving of it this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<FencingToken>,
}

/// Which giving of a bench a controller has: a later one has a greater number, and an agent refuses a smaller one than it has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FencingToken {
    /// The bench.
    pub bench: String,
    /// Grows with each giving.
    pub number: u64,
}

/// What an agent needs to know of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// Everything asked.
    pub spec: Spec,
    /// Which end this agent is.
    pub end: End,
    /// What the opening end of a flow says to prove that it belongs to this trial.
    pub hello: Secret,
    /// What the listening end answers. The opening end sends nothing else to an address that did not say it.
    pub answer: Secret,
    /// The address of this machine that the test traffic uses.
    pub local: IpAddr,
    /// The other end is another tool's server, and this agent speaks its protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Foreign>,
    /// Registers to read before and after the traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<RegisterRequest>,
    /// The interface that `local` is meant at, where it is link-local: several interfaces may have it. Where its own is no link, the one
    /// that packets leave by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The part of the datagrams, 0 to 1, that may be lost: with more the trial is decided, and a receiver says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_at_loss: Option<f64>,
    /// For so long, in seconds, traffic may stand still beyond what ends other trials: a device on the way is reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<f64>,
}

/// An end, as the machine in the middle can know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAddress {
    /// Its address of the test traffic.
    pub address: IpAddr,
    /// Its Ethernet address, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// What the machine in the middle needs to know of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observe {
    /// Everything asked.
    pub spec: Spec,
    /// Its interfaces towards the target and towards the host.
    pub interfaces: PerEnd<String>,
    /// Registers to read before and after the traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<RegisterRequest>,
}

/// Which probes an agent is to send to the other end: a handful of packets, all at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeOrder {
    /// The address of this machine.
    pub local: IpAddr,
    /// The other end's.
    pub peer: IpAddr,
    /// The interface that has the address.
    pub interface: Option<String>,
    /// Known to the other end's witness.
    pub secret: Secret,
    /// Echo requests.
    #[serde(default)]
    pub echo: bool,
    /// ARP: who answers for the next hop, and for this machine's own address.
    #[serde(default)]
    pub arp: bool,
    /// The witness's port for datagrams.
    pub udp: Option<u16>,
    /// Instead of from one port of this machine, from so many, 16 at most.
    #[serde(default)]
    pub flows: u16,
    /// The witness's port for connections.
    pub tcp: Option<u16>,
    /// Connections that are to be open at once, where the first one's secret was answered.
    #[serde(default)]
    pub connections: u16,
    /// Instead of a few small datagrams: packets of so many octets that may not be fragmented, 20 sizes at most. Only to an
    /// address that has answered small ones.
    #[serde(default)]
    pub sizes: Vec<u32>,
    /// How long to wait for answers to these, seconds.
    #[serde(default)]
    pub size_time_s: f64,
    /// How long to wait for any other answer at least, seconds: a way may take longer than is usual.
    #[serde(default)]
    pub patience_s: f64,
    /// TTL or hop limit of datagrams and of the connection.
    pub hops: Option<u8>,
    /// Their differentiated services code point (RFC 2474).
    #[serde(default)]
    pub dscp: u8,
    /// Datagrams say that they are ECN-capable: ECT(0) of RFC 3168.
    #[serde(default)]
    pub ecn: bool,
}

impl ProbeOrder {
    /// No probe yet, between these addresses.
    pub const fn between(local: IpAddr, peer: IpAddr, secret: Secret) -> ProbeOrder {
        ProbeOrder {
            local,
            peer,
            interface: None,
            secret,
            echo: false,
            arp: false,
            udp: None,
            flows: 0,
            tcp: None,
            connections: 0,
            sizes: Vec::new(),
            size_time_s: 0.0,
            patience_s: 0.0,
            hops: None,
            dscp: 0,
            ecn: false,
        }
    }
}

/// Another tool's server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// Whose.
    pub tool: Tool,
    /// Where it listens.
    pub server: SocketAddr,
    /// The interface of the agent's machine that a link-local server is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Bits per second that the user lets the agent send there though nothing answers; `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
    /// Who asks, encrypted for that server: the likeliest form first. Debug output hides them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
}

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foreign").field("tool", &self.tool).field("server", &self.server).finish_non_exhaustive()
    }
}

/// 128 random bits, written as 32 hexadecimal digits. Debug output hides them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

/// The name of a message, whatever else it says: a text, or an object's first key.
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        struct Named;

        impl<'de> serde::de::Visitor<'de> for Named {
            type Value = Name;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a message's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(Name(name.to_owned()))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut fields: A) -> Result<Name, A::Error> {
                let first = fields.next_entry::<String, serde::de::IgnoredAny>()?;
                while fields.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
                let (name, _) = first.ok_or_else(|| serde::de::Error::custom("a message has a name"))?;
                Ok(Name(name))
            }
        }

        deserializer.deserialize_any(Named)
    }
}

/// A line from the agent, after its [`Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentLine {
    /// A request was carried out.
    Reply {
        /// Its number.
        re: u64,
        /// What came of it.
        reply: Reply,
    },
    /// A request was not carried out.
    Refusal {
        /// Its number; absent when the line could not even be read so far.
        re: Option<u64>,
        /// Why.
        kind: RefusalKind,
        /// One sentence, ending in what to try.
        message: String,
    },
    /// Something happened.
    Event(Event),
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It was done, and there is nothing to tell.
    Done,
    /// To [`Request::Describe`].
    Environment(Box<Environment>),
    /// To [`Request::Addresses`].
    Addresses {
        /// Every address of every interface.
        addresses: Vec<Address>,
        /// The address by which the controller reached this machine over SSH (SSH_CONNECTION), if it did.
        reached_at: Option<IpAddr>,
    },
    /// To [`Request::Counters`].
    Counters {
        /// The counters since the machine started.
        counters: Counters,
        /// Sources that could not be read, a sentence each.
        missing: Vec<String>,
    },
    /// To [`Request::Screen`].
    Screen(Box<View>),
    /// To [`Request::Registers`].
    Registers(Box<Readings>),
    /// To [`Request::Way`].
    Way(Box<RouteInfo>),
    /// To [`Request::Witness`].
    Witnessing {
        /// The port for datagrams.
        udp: u16,
        /// The port for connections.
        tcp: u16,
    },
    /// To [`Request::Probe`].
    Probed(Box<ProbeReport>),
    /// To [`Request::Heard`].
    Heard(Box<WitnessReport>),
    /// To [`Request::Ports`]: those that are known.
    Ports {
        /// Towards the target, and towards the host.
        interfaces: PerEnd<Option<String>>,
    },
    /// To [`Request::Holder`].
    Holder {
        /// Absent: nobody has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        holder: Option<Holder>,
        /// For so long, seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        since_s: Option<u64>,
    },
    /// To [`Request::Conclude`].
    Observed(Box<MiddleOutcome>),
    /// To [`Request::Prepare`].
    Prepared {
        /// The ports on which this end listens: (flow, port).
        ports: Vec<(u16, u16)>,
        /// The interface that has the local address.
        interface: Option<String>,
        /// Where frames for this end arrive; of a trial of frames.
        #[serde(skip_serializing_if = "Option::is_none")]
        mac: Option<MacAddress>,
        /// What was changed so that the port is silent of the kernel's own traffic, until a trial of other traffic or the end of
        /// the conversation; of a trial of frames.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        silenced: Vec<Changed>,
    },
    /// To [`Request::Get`].
    Settings {
        /// One for each name, in the order asked for.
        settings: Vec<Reading>,
        /// What is changed to stay: (name, value before the first change).
        #[serde(default)]
        kept: Vec<(String, String)>,
    },
    /// To [`Request::Set`].
    Changed {
        /// One for each change, in the order asked for.
        settings: Vec<Changed>,
    },
    /// To [`Request::Restore`].
    Restored {
        /// In the order in which they were put back. One that could not be says why.
        settings: Vec<PutBack>,
    },
}

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// Another controller holds the lease.
    Busy,
    /// The controller's fence is smaller than one that was here before: its bench is another's.
    Stale,
    /// The message is not known to this version.
    UnknownMessage,
    /// The message is known and cannot be read, or its values cannot be met.
    BadRequest,
    /// The request does not fit the state, such as a start without a trial.
    OutOfOrder,
    /// The machine cannot use the address that it was told to.
    NoAddress,
    /// The machine could not do it.
    Failed,
}

/// Something that happened on the agent's machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The trial is under way; about once a second.
    Progress {
        /// Since the start, nanoseconds.
        elapsed_ns: u64,
        /// Octets that this end sent, over all flows.
        octets_sent: u64,
        /// Octets that this end received, over all flows.
        octets_received: u64,
    },
    /// More is lost than [`Prepare::stop_at_loss`], whatever still comes: this end sends no more, nor need the other.
    LostTooMuch,
    /// This end of the trial has finished.
    Finished(Box<Outcome>),
    /// This end of the trial has finished; the other is another tool's server, of whose end this is what it told.
    FinishedWith {
        /// This end's.
        own: Box<Outcome>,
        /// The server's.
        other: Box<Outcome>,
    },
    /// What was seen since [`Request::Profile`].
    Profiled(Box<Profile>),
    /// This end of the trial could not go on.
    TrialFailed {
        /// One sentence, ending in what to try.
        message: String,
        /// What is known of it besides.
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
        /// What this end saw until then.
        #[serde(skip_serializing_if = "Option::is_none")]
        seen: Option<Box<Outcome>>,
    },
}

/// What a controller needs to know of a trial's failure, besides its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The connection of a flow broke: the other end knows why.
    ConnectionBroke,
    /// Nothing passed, and this end's interface has no carrier, as the sentence says.
    NoCarrier,
    /// What answers in another tool's place is no server of it, or hangs: asked again, it does the same.
    NoServer,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The interface's name.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Length of the subnet's prefix.
    pub prefix_len: u8,
    /// The interface is up.
    pub up: bool,
    /// The interface is the loopback.
    pub loopback: bool,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|octet| format!("{octet:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let number =
            (digits.len() == 32 && !digits.starts_with('+')).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
        match number {
            Some(number) => Ok(Secret(number.to_be_bytes())),
            None => Err(serde::de::Error::custom("a secret is 32 hexadecimal digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_a_person_can_read() {
        let line = RequestLine { id: 7, request: Request::Ping };
        assert_eq!(serde_json::to_string(&line).unwrap(), r#"{"id":7,"request":"ping"}"#);
        let line = AgentLine::Refusal { re: Some(7), kind: RefusalKind::Busy, message: "in use".to_owned() };
        assert_eq!(serde_json::to_string(&line).unwrap(), r#"{"refusal":{"re":7,"kind":"busy","message":"in use"}}"#);
    }

    #[test]
    fn a_request_is_called_what_its_line_says() {
        let holder = Holder { controller: String::new(), name: String::new(), fence: None };
        for request in [
            Request::Lease { holder },
            Request::Release,
            Request::Holder,
            Request::Describe { interface: None, modules: Vec::new() },
            Request::Addresses,
            Request::Counters { interface: String::new() },
            Request::Registers { interface: String::new(), wanted: RegisterRequest::default() },
            Request::Connect { peer: [127, 0, 0, 1].into(), ports: Vec::new(), mac: None },
            Request::Start,
            Request::Stop,
            Request::Ping,
            Request::Get { interface: None, names: Vec::new(), custom: Vec::new(), values: Vec::new() },
            Request::Set { interface: None, changes: Vec::new(), confirm_within_s: None },
            Request::Confirm,
            Request::Keep,
            Request::Restore { names: Vec::new(), kept: false },
            Request::Profile { hz: 999, seconds: 1.0 },
            Request::Screen { screen: Screen::Tcp, interface: None },
        ] {
            let value = serde_json::to_value(&request).unwrap();
            assert_eq!(serde_json::from_value::<Name>(value).unwrap().0, request.name());
        }
    }

    #[test]
    fn an_outcome_survives_the_conversation() {
        let mut arrivals = linerate_trial::arrivals::Arrivals::default();
        arrivals.loss_bursts.insert(17, 3);
        arrivals.gaps.record(1234);
        let text = format!(
            r#"{{"event":{{"finished":{{"end":"host","flows":[{{"id":0,"role":"receiver",
            "octets":0,"messages":0,"octets_total":0,"messages_total":0,"elapsed_ns":0,"slices":[],"calls":0,
            "thread":{{"user_s":0,"system_s":0,"major_faults":0,"minor_faults":0,"voluntary_switches":0,
            "involuntary_switches":0}},"arrivals":{},"send_errors":0}}],"cpu_slices":[],"counters":{{}},
            "doubts":[]}}}}}}"#,
            serde_json::to_string(&arrivals).unwrap()
        );
        let line: AgentLine = serde_json::from_str(&text).unwrap();
        let again: AgentLine = serde_json::from_str(&serde_json::to_string(&line).unwrap()).unwrap();
        assert_eq!(again, line);
        let AgentLine::Event(Event::Finished(outcome)) = again else { panic!("another message") };
        assert_eq!(outcome.flows[0].arrivals, Some(arrivals));
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let line = r#"{"id":7,"later":1,"request":{"describe":{"interface":null,"later":true}}}"#;
        let read: RequestLine = serde_json::from_str(line).unwrap();
        assert_eq!(read.request, Request::Describe { interface: None, modules: Vec::new() });
    }

    #[test]
    fn a_secret_survives_and_does_not_show() {
        let secret = Secret(*b"0123456789abcdef");
        let text = serde_json::to_string(&secret).unwrap();
        assert_eq!(serde_json::from_str::<Secret>(&text).unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(serde_json::from_str::<Secret>("\"+0\"").is_err());
        assert!(serde_json::from_str::<Secret>(&format!("\"+{}\"", "0".repeat(31))).is_err());
    }
}
