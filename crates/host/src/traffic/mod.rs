//! One end of one trial: its flows opened, run, sampled, and accounted for.
//! Knows nothing of the other end but its address and the trial's secret.
//!
//! ```text
//!   Trial::prepare ─→ ports ─→ Trial::connect ─→ Trial::start ─→ … ─→ Trial::join ─→ Outcome
//!     listens               every flow is open,    senders go          every thread has ended,
//!                           receivers wait,                            counters read again
//!                           counters read
//! ```
//! [`Trial::stop`] ends it at any point. Dropping a trial stops it and waits for its threads.

mod api;
mod buffer;
mod clock;
mod connections;
mod events;
pub(crate) mod frames;
mod framing;
mod ledger;
mod neighbour;
mod pacing;
mod presence;
pub mod reachability;
mod requests;
mod run;
mod sampler;
mod segments;
pub mod socket_options;
mod sockets;
mod task;
mod tcp_counts;
mod tcp_info;
mod tcp_stream;
mod timeline;
mod udp_stream;
mod wait;

use std::fs;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::panic;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_machine::channel::{Receiver, channel};
use linerate_machine::end::End;
use linerate_machine::mac::MacAddress;
use linerate_machine::registers::{AroundTrial, RegisterRequest};
use linerate_machine::setting::Scheduling;
use linerate_machine::sync::Mutex;
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::early_stop::EarlyStop;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::flow::Flow;
use linerate_trial::frames::FrameKind;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{CpuMethod, Spec, Workload};

use crate::counters::{self, Snapshot};
use crate::drop_reasons::{self, Tracing};
use crate::interfaces;
use crate::profile::{MinimumSamples, Profiler};
use crate::registers;
use crate::scheduling;
use crate::soak::Soak;
use crate::text_of;

use clock::TrialClock;
use frames::{Hop, Port};
use ledger::{Ledger, Reader};
use presence::Presence;
use sampler::{Sampled, Sampler};
use sockets::{Open, Waiting};
use task::Task;

pub use framing::{Codec, Early, Exchange, Framing};
pub use sampler::Progress;
pub use sockets::{Adopted, Tokens};

/// Why a trial could not be made, or not go on. Each is one sentence that ends in what to try.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the figures of the sentence")]
pub enum TrafficError {
    #[error("cannot use the address {address} for test traffic: {error}; check that the machine has it and is up")]
    CannotListen { address: IpAddr, error: io::Error },
    #[error("cannot reach {peer}: {error}; check the cable, the addresses and firewalls between the two ends")]
    Unreachable { peer: SocketAddr, error: io::Error },
    #[error(
        "this machine refuses to send to {peer} (EPERM): a rule of its own output filter does; see it there (nft list ruleset, \
         iptables or ip6tables -nvL OUTPUT)"
    )]
    Filtered { peer: SocketAddr },
    #[error(
        "nobody on {interface} answers for {address} (ARP): the machine that has it is off, is at another cable, or its \
         link is down; check the cable and the addresses of both ends"
    )]
    NoNeighbour { address: IpAddr, interface: String },
    #[error(
        "frames need an interface, and none has the address {address}; give one that has it (--target-address, --host-address)"
    )]
    NoInterface { address: IpAddr },
    #[error(
        "frames need an Ethernet, and {interface} is none; choose addresses of an Ethernet interface at both ends \
         (--target-address, --host-address), or two network namespaces (linerate lab up)"
    )]
    NoEthernet { interface: String },
    #[error(
        "frames of {octets} bytes are more than {interface} takes; choose a smaller frame_size, or raise the MTU of both ends \
         (target.mtu, host.mtu)"
    )]
    FrameTooLarge { octets: u32, interface: String },
    #[error(
        "frames need the right to raw sockets (CAP_NET_RAW); run the agent as root, or give it that right with setcap(8)"
    )]
    NoRawSockets,
    #[error("the other end did not tell the Ethernet address of {peer}; its agent is older than frames, update it")]
    NoPeerAddress { peer: IpAddr },
    #[error(
        "{kind} frames pass no router, and {router} is one on the way to {peer}; choose --set frame_kind={fit}, or connect both \
         ends by a bridge or a cable"
    )]
    NotRouted { kind: FrameKind, peer: IpAddr, router: IpAddr, fit: FrameKind },
    #[error(
        "the router {router} does not answer for its Ethernet address, which frames need; check the cable and its link"
    )]
    NoRouter { router: IpAddr },
    #[error("no datagrams go to {peer}, which has not shown that it takes part; let the other end send, or use TCP")]
    Unproven { peer: SocketAddr },
    #[error(
        "{peer}, or a machine on the way there, refuses datagrams ({error}), so no more were sent; start what is to receive them"
    )]
    Refused { peer: SocketAddr, error: io::Error },
    #[error("what answered at {peer} does not know this trial's secret; no test traffic was sent there")]
    Stranger { peer: SocketAddr },
    #[error(
        "{workload} flow {flow} was not opened within {} s; check the cable, the addresses and firewalls between the \
         two ends",
        after.as_secs()
    )]
    NotOpened { flow: u16, workload: Workload, after: Duration },
    #[error("this machine does not accept the option {option}: {error}; leave it out or choose another value")]
    Option { option: &'static str, error: io::Error },
    #[error(
        "this kernel has no congestion control '{name}'; choose one of {available}, or load its module there: \
         modprobe tcp_{name}"
    )]
    NoCongestionControl { name: String, available: String },
    #[error("{option} {name} is not to be had here: {why}")]
    Api { option: &'static str, name: &'static str, why: String },
    #[error("receiver_scheduling cannot be {scheduling}: {why}")]
    Scheduling { scheduling: Scheduling, why: String },
    #[error(
        "{peer} refused a connection ({before} before it were answered): a filter there, or on the way, rejects some with a RST \
         (nft list ruleset, iptables -S), or what listened has ended; let the test traffic through, and try again"
    )]
    Rejected { peer: SocketAddr, before: u64 },
    #[error("{what}: {error}; check the cable and the other end, and try again")]
    Moving { what: String, error: io::Error },
    #[error(
        "the connection was reset while receiving ({0}): the other end broke it off, or something between the two did; see the \
         other end, and firewalls and middleboxes between, and try again"
    )]
    Reset(io::Error),
    #[error("the connection broke while sending: {0}; check the cable and the other end, and try again")]
    Broke(io::Error),
    #[error(
        "no test traffic passed for {silent_s:.0} s{}; check the cable and the other end",
        no_carrier.as_ref().map_or(String::new(), |(end, interface)| {
            format!("; the {end}'s interface {interface} has no carrier")
        })
    )]
    Stalled { silent_s: f64, no_carrier: Option<(End, String)> },
    #[error("the trial was stopped")]
    Stopped,
    #[error("{}", refused_by_system(.0))]
    System(io::Error),
}

impl TrafficError {
    /// Whether a RST came.
    fn is_reset(&self) -> bool {
        match self {
            TrafficError::Reset(error) | TrafficError::Broke(error) | TrafficError::Moving { error, .. } => {
                error.raw_os_error() == Some(libc::ECONNRESET)
            }
            _ => false,
        }
    }
}

/// A trial that failed.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: TrafficError,
    /// What this end saw until then; of its flows no more than their slices tell.
    pub seen: Box<Outcome>,
}

/// Why the kernel gave no socket or thread, and what to do about it; one sentence.
pub fn refused_by_system(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "the agent has no descriptor left for another socket (EMFILE); raise the limit there (ulimit -n), \
                               or take fewer streams"
                .to_owned()
        }
        Some(libc::EAGAIN) => {
            "the agent may have no further thread (EAGAIN); raise the limit there (ulimit -u, the pids limit of its \
                               cgroup, systemd's TasksMax), or take fewer streams"
                .to_owned()
        }
        Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL) => {
            let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
            let range = range.split_whitespace().collect::<Vec<_>>().join(" to ");
            format!(
                "this machine has no local port left for another socket, or not this address ({}); see \
                 net.ipv4.ip_local_port_range ({range}) and `ss -s` there, or take fewer streams",
                text_of(error)
            )
        }
        _ => format!("the system refused a socket or a thread: {error}"),
    }
}

/// One end of a trial.
pub struct Trial {
    spec: Arc<Spec>,
    framing: Framing,
    end: End,
    local: IpAddr,
    tokens: Tokens,
    interface: Option<String>,
    clock: Arc<TrialClock>,
    /// By flow, in their order.
    waiting: Vec<(u16, Waits)>,
    /// Where frames leave and arrive; a trial of them has it.
    port: Option<Port>,
    /// Where the other end's frames arrive.
    peer_mac: Option<MacAddress>,
    running: Vec<(Flow, JoinHandle<Result<FlowOutcome, TrafficError>>)>,
    /// Whose other ends are in the threads of the flows: none is left when all have ended.
    going: Mutex<Receiver<()>>,
    /// Weak: a flow whose thread is gone is told by its ledger's being nobody's.
    ledgers: Vec<Weak<Ledger>>,
    sampler: Option<JoinHandle<Sampled>>,
    before: Option<Arc<Snapshot>>,
    /// What the kernel drops, where that is asked for: counting, or why it cannot be.
    drops: Option<Box<Result<Tracing, String>>>,
    /// Why there is no profile, though one was asked for.
    no_profile: Option<String>,
    registers: Option<Box<AroundTrial>>,
    receivers: Option<Scheduling>,
    early_stop: Option<EarlyStop>,
    silence: Duration,
}

/// The interface of a trial whose flows were open before it.
pub struct CountedInterface {
    /// Its name.
    pub name: String,
    /// What its counters showed before the first packet, where that came before the trial is adopted.
    pub before: Option<Arc<Snapshot>>,
}

impl From<String> for CountedInterface {
    fn from(name: String) -> CountedInterface {
        CountedInterface { name, before: None }
    }
}

/// What waits for the other end to open a flow.
enum Waits {
    Socket(Waiting),
    Frames(Box<frames::Waiting>),
}

/// How late a thread that a reset ended is noticed, seconds.
const RESET_WITHIN_S: f64 = 0.1;

/// A device may be rebooted meanwhile.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);

/// Threads move data through buffers on the heap and hold little else.
const STACK: usize = 256 << 10;

impl Trial {
    /// Gets ready: listens for the flows that the other end opens. `interface` is the one that has `local`.
    pub fn prepare(
        spec: Spec,
        end: End,
        local: IpAddr,
        interface: Option<String>,
        tokens: Tokens,
    ) -> Result<Trial, TrafficError> {
        let at = interfaces::at(local, 0, interface.as_deref());
        let is_frames = spec.workload == Workload::Frames;
        let find = || Port::find(interface.as_deref(), local).and_then(|port| port.arm(&spec, end, &tokens));
        let port = is_frames.then(find).transpose()?;
        let waiting = Flow::of(&spec)
            .into_iter()
            .filter(|flow| flow.listener() == end)
            .map(|flow| {
                let waits = match &port {
                    Some(port) => Waits::Frames(Box::new(frames::listen(flow, &spec, port, tokens)?)),
                    None => Waits::Socket(sockets::listen(flow, &spec, at)?),
                };
                Ok((flow.id, waits))
            })
            .collect::<Result<Vec<_>, TrafficError>>()?;
        let mut trial = Trial::new(spec, end, local, interface);
        (trial.waiting, trial.tokens, trial.port) = (waiting, tokens, port);
        Ok(trial)
    }

    /// A trial without flows.
    fn new(spec: Spec, end: End, local: IpAddr, interface: Option<String>) -> Trial {
        Trial {
            clock: Arc::new(TrialClock::new(&spec)),
            spec: Arc::new(spec),
            framing: Framing::new(framing::LinerateFraming),
            end,
            local,
            // Never sent: an end that opens flows with a handshake has tokens of the trial's own.
            tokens: Tokens { hello: [0; 16], answer: [0; 16] },
            interface,
            waiting: Vec::new(),
            port: None,
            peer_mac: None,
            running: Vec::new(),
            going: Mutex::new(channel(1).1),
            ledgers: Vec::new(),
            sampler: None,
            before: None,
            drops: None,
            no_profile: None,
            registers: None,
            receivers: None,
            early_stop: None,
            silence: Duration::ZERO,
        }
    }

    /// Has the trial end before its time once a larger part of the datagrams than this is lost, whatever still comes.
    pub fn stop_at_loss(&mut self, forgiven: f64) {
        self.early_stop = EarlyStop::of(&self.spec, forgiven);
    }

    /// Has traffic that stands still for so many seconds more than usual go on.
    pub fn bear_silence(&mut self, seconds: f64) {
        self.silence = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO).min(LONGEST_SILENCE);
    }

    /// Has registers read too, before and after the traffic.
    pub fn watch_registers(&mut self, wanted: RegisterRequest) {
        self.registers = Some(Box::new(AroundTrial { wanted, ..AroundTrial::default() }));
    }

    /// Has the threads that receive, or answer, scheduled so. Refused where they could lock the machine up.
    pub fn schedule_receivers(&mut self, scheduling: Scheduling) -> Result<(), TrafficError> {
        let threads = Flow::of(&self.spec).iter().filter(|flow| flow.source != self.end).count();
        scheduling::bearable(scheduling, threads).map_err(|why| TrafficError::Scheduling { scheduling, why })?;
        self.receivers = Some(scheduling);
        Ok(())
    }

    /// The ports on which this end listens: (flow, port).
    pub fn ports(&self) -> Result<Vec<(u16, u16)>, TrafficError> {
        self.waiting
            .iter()
            .filter_map(|(id, waits)| match waits {
                Waits::Socket(socket) => Some(socket.port().map(|port| (*id, port))),
                Waits::Frames(_) => None,
            })
            .collect()
    }

    /// The Ethernet address at which frames for this end arrive; of a trial of frames.
    pub fn mac(&self) -> Option<MacAddress> {
        self.port.as_ref().map(Port::mac)
    }

    /// Where the other end's frames are to go; before [`Trial::connect`], of a trial of frames.
    pub fn frames_go_to(&mut self, mac: Option<MacAddress>) {
        self.peer_mac = mac;
    }

    /// Opens every flow, this end's and the other's, and starts the threads; the senders among them wait for
    /// [`Trial::start`]. `notify` hears about once a second how far the trial is.
    pub fn connect(
        &mut self,
        peer: IpAddr,
        ports: &[(u16, u16)],
        notify: impl Fn(Progress) + Send + 'static,
    ) -> Result<(), TrafficError> {
        let soak = self.soak()?;
        let hop = self.port.as_ref().map(|_| Hop::find(&self.spec, self.local, peer)).transpose()?.unwrap_or(Hop::NONE);
        let open = self.open_all(peer, ports, hop)?;
        self.run(open, soak, notify)
    }

    /// Both ends open the first flow first, by which the way learns its neighbours; then all others at once, so that neither a
    /// long way nor lost handshakes add up.
    fn open_all(&mut self, peer: IpAddr, ports: &[(u16, u16)], hop: Hop) -> Result<Vec<Open>, TrafficError> {
        let mut waiting = mem::take(&mut self.waiting).into_iter().peekable();
        let mut flows = Flow::of(&self.spec).into_iter().map(|flow| {
            let waits = waiting.next_if(|(id, _)| *id == flow.id).map(|(_, waits)| waits);
            (flow, waits)
        });
        let trial = &*self;
        let open = |(flow, waits)| trial.open_flow(flow, waits, peer, ports, hop);
        let mut opened = Vec::new();
        if let Some(first) = flows.next() {
            opened.push(open(first)?);
        }
        // Frames are told apart by one socket.
        if trial.port.is_some() {
            opened.extend(flows.map(open).collect::<Result<Vec<_>, _>>()?);
            return Ok(opened);
        }
        thread::scope(|scope| {
            let start = |flow| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || open(flow));
            // Started before the first is waited for.
            let opening: Vec<_> = flows.map(start).collect();
            for flow in opening {
                let flow = flow.map_err(TrafficError::System)?;
                opened.push(flow.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))?);
            }
            Ok(opened)
        })
    }

    /// One end of a trial whose other end is another tool: the flows are open by that tool's protocol, and end by it (see
    /// [`StopHandle::finish`]). `flows` are as [`Flow::of`] the spec has them, each with its connected socket and
    /// why this end may send on it.
    pub fn adopt(
        spec: Spec,
        framing: Framing,
        end: End,
        local: IpAddr,
        interface: Option<CountedInterface>,
        flows: Vec<Adopted>,
        notify: impl Fn(Progress) + Send + 'static,
    ) -> Result<Trial, TrafficError> {
        let (interface, before) = interface.map(|one| (one.name, one.before)).unzip();
        let mut trial = Trial::new(spec, end, local, interface);
        trial.before = before.flatten();
        trial.clock = Arc::new(TrialClock::with_end(&trial.spec, framing.ends_itself()));
        trial.framing = framing;
        let open = flows.into_iter().map(|flow| Open::adopt(flow, &trial.spec, end));
        let open = open.collect::<Result<Vec<_>, _>>()?;
        let soak = trial.soak()?;
        trial.run(open, soak, notify)?;
        Ok(trial)
    }

    fn soak(&self) -> Result<Option<Soak>, TrafficError> {
        (self.spec.cpu_method == CpuMethod::Soak).then(Soak::start).transpose().map_err(TrafficError::System)
    }

    /// Starts the threads of the open flows.
    fn run(
        &mut self,
        open: Vec<Open>,
        soak: Option<Soak>,
        notify: impl Fn(Progress) + Send + 'static,
    ) -> Result<(), TrafficError> {
        if let Some(interface) = &self.interface {
            // Registers first: reading them takes longer, and counters are to be read next to the traffic.
            if let Some(around) = &mut self.registers {
                around.before = registers::read(interface, &around.wanted);
            }
            self.before.get_or_insert_with(|| Arc::new(counters::snapshot(interface)));
        }
        self.port.iter().for_each(Port::handle_start);
        self.drops = self.spec.drop_reasons.then(|| Box::new(Tracing::start()));
        let (alive, all_ended) = channel::<()>(1);
        let (goes, going) = channel(1);
        self.going = Mutex::new(going);
        // Before any thread: where only own threads may be sampled, they are those made from here on.
        let profiler = self.spec.profile.and_then(|hz| match Profiler::open(hz, MinimumSamples::OwnThreads) {
            Ok(profiler) => Some(profiler),
            Err(error) => {
                self.no_profile = Some(format!("there is no profile: {error}"));
                None
            }
        });
        let mut sampler =
            Sampler::new(&self.spec, self.clock.clone(), self.end, soak, profiler, self.interface.clone());
        if !self.framing.is_own() {
            sampler = sampler.of_served();
        }
        sampler.early_stop = self.early_stop;
        sampler.bear_silence(self.silence);
        for (index, open) in open.into_iter().enumerate() {
            let flow = open.flow;
            let ledger = Arc::new(Ledger::default());
            self.ledgers.push(Arc::downgrade(&ledger));
            let chosen = api::choose(&self.spec, self.end, &open, self.interface.as_deref())?;
            let paced = pacing::choose(&self.spec, self.end, &open, self.interface.as_deref())?;
            let presence = Arc::new(Presence::default());
            let watched = sampler.watch(flow, &open.socket, ledger.clone(), presence.clone());
            watched.map_err(TrafficError::System)?;
            let task = Task {
                spec: self.spec.clone(),
                framing: self.framing.clone(),
                end: self.end,
                local: self.local,
                tokens: self.tokens,
                clock: self.clock.clone(),
                ledger,
                presence,
                open,
                chosen,
                paced,
                receivers: self.receivers,
                index,
            };
            let alive = (alive.clone(), goes.clone());
            let thread = std::thread::Builder::new()
                .name(format!("flow {}", flow.id))
                .stack_size(STACK)
                .spawn(move || {
                    let outcome = run::run(task);
                    drop(alive);
                    outcome
                })
                .map_err(TrafficError::System)?;
            self.running.push((flow, thread));
        }
        drop(alive);
        let sampling = std::thread::Builder::new()
            .name("sampler".to_owned())
            .stack_size(STACK)
            .spawn(move || sampler.run(&all_ended, &notify))
            .map_err(TrafficError::System)?;
        self.sampler = Some(sampling);
        Ok(())
    }

    fn open_flow(
        &self,
        flow: Flow,
        waits: Option<Waits>,
        peer: IpAddr,
        ports: &[(u16, u16)],
        hop: Hop,
    ) -> Result<Open, TrafficError> {
        match waits {
            Some(Waits::Socket(waiting)) => return waiting.accept(&self.spec, &self.tokens),
            Some(Waits::Frames(waiting)) => return waiting.accept(peer, hop),
            None => {}
        }
        if let Some(port) = &self.port {
            let mac = self.peer_mac.filter(|mac| mac.is_of_one()).ok_or(TrafficError::NoPeerAddress { peer })?;
            return frames::open(flow, &self.spec, port, peer, mac, hop, &self.tokens);
        }
        let port = ports.iter().find(|(id, _)| *id == flow.id).map(|(_, port)| *port);
        let port =
            port.ok_or(TrafficError::NotOpened { flow: flow.id, workload: flow.workload, after: Duration::ZERO })?;
        let peer = interfaces::at(peer, port, self.interface.as_deref());
        sockets::open(flow, &self.spec, self.local, peer, &self.tokens)
    }

    /// Lets the senders go.
    pub fn start(&self) {
        self.clock.start();
    }

    /// Ends the trial now; [`Trial::join`] then returns soon.
    pub fn stop(&self) {
        self.clock.stop();
    }

    /// What was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether every flow has ended; [`Trial::join`] then returns at once.
    pub fn has_ended(&self) -> bool {
        self.running.iter().all(|(_, thread)| thread.is_finished())
    }

    /// Waits until every flow has ended, at most for this long; whether they have.
    pub fn ends_within(&self, time: Duration) -> bool {
        let going = self.going.lock();
        matches!(going.recv_timeout(time), Err(RecvTimeoutError::Disconnected))
    }

    /// Since the start; nothing before it.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Whether data has arrived at this end.
    pub fn has_received(&self) -> bool {
        self.clock.receiving_so_far().is_some()
    }

    /// The running totals of all flows, for reports during the trial.
    pub fn totals(&self) -> FlowTotals {
        FlowTotals(self.ledgers.iter().map(|ledger| (ledger.clone(), Reader::default())).collect())
    }

    /// A handle by which another thread can stop this trial.
    pub fn stopper(&self) -> StopHandle {
        StopHandle(self.clock.clone())
    }

    /// Waits until this end has finished, and tells what it saw. The first flow that failed fails the trial.
    pub fn join(self) -> Result<Outcome, TrafficError> {
        self.finish().map_err(|failed| failed.error)
    }

    /// The same; of a trial that failed, with what was seen of it until then.
    pub fn finish(mut self) -> Result<Outcome, Failed> {
        let mut flows = Vec::new();
        let mut failed = None;
        let mut reset = None;
        for (flow, thread) in self.running.drain(..) {
            let error = match thread.join() {
                Ok(Ok(outcome)) => {
                    flows.push(outcome);
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_) => TrafficError::System(io::Error::other("a thread of the trial panicked")),
            };
            if error.is_reset() && reset.is_none() {
                let at_s = self.clock.elapsed().as_secs_f64() - self.spec.warmup.as_secs_f64();
                let (end, what) = (Some(self.end), EventKind::ConnectionReset);
                reset =
                    Some(Event { at_s: (at_s * 1e3).round() / 1e3, for_s: None, within_s: RESET_WITHIN_S, end, what });
            }
            // The others would run to their end for nothing.
            self.clock.stop();
            // The others are stopped, and do not know why.
            if matches!(failed, None | Some(TrafficError::Stopped)) {
                failed = Some(error);
            }
            flows.push(FlowOutcome::new(flow.id, flow.role(self.end)));
        }
        let mut sampled = match self.sampler.take() {
            Some(sampler) => sampler.join().unwrap_or_default(),
            None => Sampled::default(),
        };
        let stopped = || self.clock.aborted().then_some(TrafficError::Stopped);
        let error = sampled.stalled.take().or(failed).or_else(stopped);
        for (flow, seen) in flows.iter_mut().zip(sampled.flows) {
            if error.is_some() {
                flow.handle_unfinished(&seen.slices, seen.octets, seen.messages);
            }
            flow.slices = seen.slices;
            flow.tcp.iter_mut().for_each(|summary| seen.tcp_counts.carry_on(summary));
        }
        if let Some(port) = &self.port
            && let Some(first) = flows.iter_mut().find(|flow| flow.role == Role::Sender)
            && let Some(frames) = &mut first.frames
        {
            frames.unsent = port.unsent();
        }
        let mut doubts = sampled.doubts;
        let mut counters = linerate_path::stage::Counters::default();
        if let Some(interface) = &self.interface {
            let after = counters::snapshot(interface);
            let octets = flows.iter().map(|flow| flow.octets_total).sum();
            counters = self.before.as_ref().map(|before| after.since(before, octets)).unwrap_or_default();
            if !after.missing.is_empty() {
                doubts.push(Doubted::CountersMissing { missing: after.missing }.into());
            }
        }
        let drop_reasons = self.drops.take().and_then(|drops| drop_reasons::told(*drops, &mut doubts));
        let profile = sampled.profile.map(|taken| Box::new(taken.told()));
        let notes = || profile.as_ref().map(|profile| profile.notes.clone()).unwrap_or_default();
        let missing = self.no_profile.take().map_or_else(notes, |why| vec![why]);
        if !missing.is_empty() {
            doubts.push(Doubted::ProfileReduced { missing }.into());
        }
        for flow in &flows {
            doubts.extend(self.doubts_of(flow));
        }
        let mut registers = self.registers.take().map(|around| *around);
        if let (Some(around), Some(interface)) = (&mut registers, &self.interface) {
            around.after = registers::read(interface, &around.wanted);
        }
        let outcome = Outcome {
            end: self.end,
            flows,
            ended_early: sampled.ended_early,
            cpu: sampled.cpu,
            cpu_slices: sampled.cpu_slices,
            timeline: sampled.timeline,
            events: sampled.events.into_iter().chain(reset).collect(),
            counters,
            drop_reasons,
            registers,
            doubts,
            profile,
            told: None,
        };
        match error {
            None => Ok(outcome),
            Some(error) => Err(Failed { error, seen: Box::new(outcome) }),
        }
    }

    /// What can be doubted of a flow by looking at this end alone.
    fn doubts_of(&self, flow: &FlowOutcome) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        // The kernel doubles what it is asked, for its own bookkeeping, and clamps at net.core.[rw]mem_max
        // (socket(7)).
        if let (Some(asked), Some(given)) = (self.spec.socket_buffer, flow.socket_buffer)
            && given < u64::from(asked)
        {
            doubts.push(Doubt::of(self.end, Doubted::SocketBufferClamped { asked, given }));
        }
        let is_udp_receiver = flow.arrivals.is_some();
        let own = self.framing.is_own();
        if own && is_udp_receiver && flow.arrivals.as_ref().is_some_and(|a| a.sent_by_end_mark.is_none()) {
            doubts.push(Doubted::EndMarkLost { flow: flow.id }.into());
        }
        doubts
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.clock.stop();
        for (_, thread) in self.running.drain(..) {
            let _ = thread.join();
        }
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
    }
}

/// What all flows of an end have moved so far. Must be read every second (see `ledger.rs`).
pub struct FlowTotals(Vec<(Weak<Ledger>, Reader)>);

/// What flows have moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowProgress {
    /// Octets.
    pub octets: u64,
    /// Messages.
    pub messages: u64,
    /// Datagrams missing now.
    pub missing: u64,
}

impl FlowTotals {
    /// Up to now.
    pub fn read(&mut self) -> FlowProgress {
        let mut moved = FlowProgress::default();
        for (ledger, reader) in &mut self.0 {
            if let Some(ledger) = ledger.upgrade() {
                reader.catch_up(&ledger);
            }
            moved.octets += reader.octets;
            moved.messages += reader.messages;
            moved.missing += reader.missing;
        }
        moved
    }
}

/// Stops a trial from another thread.
#[derive(Clone)]
pub struct StopHandle(Arc<TrialClock>);

impl StopHandle {
    /// Ends the trial now.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Has this end send no more, as if its time were over.
    pub fn end_sending(&self) {
        self.0.curtail();
    }

    /// Ends the trial now because the other end says that it is over: what was done counts.
    pub fn finish(&self) {
        self.0.finish();
    }
}
