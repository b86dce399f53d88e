//! One conversation with one controller: each request carried out on this machine.
//! Knows no transport; [`linerate_control::server`] holds the conversation.
//!
//! ```text
//!            Prepare          Connect            Start           its threads end
//!   nothing ────────→ ready ─────────→ ready ───────────→ runs ────────────────→ nothing
//!      ↑________________|________________|   Stop, or the end of the conversation, from anywhere
//! ```

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_control::message::{
    Address, CUSTOM_SETTINGS, DEVICE_MEMORY, Event, FOREIGN, Failure, HOLDER, MACHINE_PROFILE, OBSERVE, Observe, PROBE,
    Prepare, REGISTERS, RefusalKind, Reply, Request, RequestLine, SCREENS, SETTINGS,
};
use linerate_control::{Lease, LeaseError, Link, Outbox, Server, serve};
use linerate_host::guard::{FenceError, Passed, Recovery};
use linerate_host::middle::{self, Observation};
use linerate_host::probe::await_detection;
use linerate_host::profile::may_sample_machine;
use linerate_host::sys::local;
use linerate_host::traffic::{Failed, Progress, Tokens, TrafficError, Trial};
use linerate_host::{counters, environment, guard, interfaces};
use linerate_machine::end::{End, PerEnd};
use linerate_machine::mac::MacAddress;
use linerate_machine::thread;
use linerate_trial::frames::FrameKind;
use linerate_trial::spec::Workload;

use crate::foreign;
use crate::probe::Probing;
use crate::profile::Profiling;
use crate::refusal::{Refusal, check_of_one_machine, failed, out_of_order};
use crate::registers::{self, DeviceMemory};
use crate::screens;
use crate::settings::{Commands, SettingsOf};

/// How long duplicate address detection is waited for: a second by default, more with net.ipv6.conf.*.dad_transmits.
const DETECTION: Duration = Duration::from_secs(4);

/// How long a lease request waits while settings that dead agents left changed are restored; its controller waits a little longer.
const LAST_OF_RECOVERY: Duration = Duration::from_millis(6500);

/// What a controller may have done here beside measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Commands of its own.
    pub commands: Commands,
    /// Registers in physical memory.
    pub memory: DeviceMemory,
    /// Datagrams to another tool's server that does not answer, in bits per second; `None`: none.
    pub unanswered: Option<u64>,
}

impl Permissions {
    /// For a user who can run commands here anyway.
    pub const ALL: Permissions =
        Permissions { commands: Commands::Allowed, memory: DeviceMemory::Allowed, unanswered: Some(u64::MAX) };
}

/// Holds one conversation to its end. Traffic ends with it, and settings are put back.
pub fn converse(link: Link, program: &str, permissions: Permissions) {
    let Permissions { commands, memory, unanswered } = permissions;
    let settings = SettingsOf::new(program, commands, "somebody");
    let mut session = Session {
        // Before anything is read: what a dead agent has left is no state to measure in, nor to take for the original.
        recovery: guard::recover(),
        passed: None,
        lease: None,
        trial: TrialState::None,
        profile: None,
        probing: Probing::default(),
        settings,
        memory,
        unanswered,
    };
    let mut server = Server::new(concat!("linerate-agent ", env!("CARGO_PKG_VERSION")));
    server.capabilities.push(SETTINGS.to_owned());
    if commands == Commands::Allowed {
        server.capabilities.push(CUSTOM_SETTINGS.to_owned());
    }
    server.capabilities.push(REGISTERS.to_owned());
    server.capabilities.push(PROBE.to_owned());
    server.capabilities.push(OBSERVE.to_owned());
    server.capabilities.push(SCREENS.to_owned());
    server.capabilities.push(HOLDER.to_owned());
    if may_sample_machine() {
        server.capabilities.push(MACHINE_PROFILE.to_owned());
    }
    if cfg!(feature = "peers") {
        server.capabilities.push(FOREIGN.to_owned());
    }
    if memory == DeviceMemory::Allowed {
        server.capabilities.push(DEVICE_MEMORY.to_owned());
    }
    server.notes = std::mem::take(&mut session.recovery.notes);
    serve(link, &server, |line, outlet| session.handle(line, outlet));
    session.end_trial();
    session.profile = None;
    session.probing.end();
    session.settings.end();
}

struct Session {
    recovery: Recovery,
    // Before the lease, so that it goes first.
    passed: Option<Passed>,
    lease: Option<Lease>,
    trial: TrialState,
    profile: Option<Profiling>,
    probing: Probing,
    settings: SettingsOf,
    memory: DeviceMemory,
    unanswered: Option<u64>,
}

enum TrialState {
    None,
    Ready {
        trial: Box<Trial>,
        connected: bool,
    },
    /// The other end is another tool's server.
    Foreign(Box<foreign::Test>),
    /// Others send, and this machine forwards.
    Observes(Box<Observation>),
    Runs {
        stop: Stop,
        /// Ends what is sent, in good order; another tool's client ends as its protocol has it.
        end_sending: Option<Stop>,
        thread: JoinHandle<()>,
    },
}

/// Ends a trial that runs, or a part of it.
type Stop = Box<dyn Fn() + Send>;

impl Session {
    fn handle(&mut self, line: RequestLine, outlet: &Outbox) {
        match self.carry_out(line.request, outlet) {
            Ok(reply) => outlet.reply(line.id, reply),
            Err(Refusal(kind, message)) => outlet.refuse(line.id, kind, message),
        }
    }

    fn carry_out(&mut self, request: Request, outlet: &Outbox) -> Result<Reply, Refusal> {
        if matches!(request, Request::Way { .. } | Request::Witness { .. } | Request::Probe(_)) {
            // To find the other end, neighbour discovery has to work.
            self.settings.speak();
        }
        match request {
            Request::Lease { holder } => {
                self.recovery.wait(LAST_OF_RECOVERY);
                let lease = Lease::take(&holder, local::connect).map_err(|error| match error {
                    LeaseError::Busy { .. } => Refusal(RefusalKind::Busy, error.to_string()),
                    LeaseError::TooLong { .. } => Refusal(RefusalKind::BadRequest, error.to_string()),
                    other => failed(other),
                })?;
                // Under the lease, so that a controller whose request for the lease is refused fences nobody off.
                let passed = holder.fence.as_ref().map(|fence| guard::pass(&fence.bench, fence.number)).transpose();
                let passed = passed.map_err(|error| match error {
                    FenceError::Stale { .. } => Refusal(RefusalKind::Stale, error.to_string()),
                    FenceError::BadName(_) => Refusal(RefusalKind::BadRequest, error.to_string()),
                    other => failed(other),
                })?;
                // The note of a controller's end stands in the log before another can have the lease.
                self.passed = passed;
                self.lease = Some(lease);
                self.settings.by = holder.name;
                Ok(Reply::Done)
            }
            Request::Release => {
                self.end_trial();
                self.probing.end();
                self.settings.end();
                self.passed = None;
                self.lease = None;
                Ok(Reply::Done)
            }
            Request::Holder => {
                let (holder, since_s) = Lease::holder(local::connect).map_err(failed)?.unzip();
                Ok(Reply::Holder { holder, since_s })
            }
            Request::Describe { interface, modules } => {
                let mut environment = environment::describe(interface.as_deref(), &modules);
                environment.agent_version = Some(env!("CARGO_PKG_VERSION").to_owned());
                Ok(Reply::Environment(Box::new(environment)))
            }
            Request::Addresses => {
                let addresses = interfaces::addresses().map_err(failed)?;
                Ok(Reply::Addresses {
                    addresses: addresses.into_iter().map(address).collect(),
                    reached_at: reached_at(),
                })
            }
            Request::Counters { interface } => {
                let snapshot = counters::snapshot(&interface);
                Ok(Reply::Counters { counters: snapshot.counters, missing: snapshot.missing })
            }
            Request::Screen { screen, interface } => {
                Ok(Reply::Screen(Box::new(screens::read(screen, interface.as_deref()))))
            }
            Request::Registers { interface, wanted } => registers::read(&interface, &wanted, self.memory),
            Request::Prepare(prepare) => self.prepare(*prepare),
            Request::Connect { peer, ports, mac } => self.connect(peer, &ports, mac, outlet),
            Request::Start => self.start(outlet),
            Request::EndSending => match &self.trial {
                TrialState::Runs { end_sending: Some(end_sending), .. } => {
                    end_sending();
                    Ok(Reply::Done)
                }
                _ => Err(out_of_order("there is no trial that sends; start one first")),
            },
            Request::Stop => {
                self.end_trial();
                self.probing.end();
                if let Some(profile) = &self.profile {
                    profile.stop();
                }
                Ok(Reply::Done)
            }
            Request::Profile { hz, seconds } => {
                if self.profile.as_ref().is_some_and(Profiling::runs) {
                    return Err(out_of_order("a profile is being taken already; stop it, or wait for its end"));
                }
                self.profile = Some(Profiling::begin(hz, seconds, outlet)?);
                Ok(Reply::Done)
            }
            Request::Get { interface, names, custom, values } => {
                let settings = self.settings.get(interface.as_deref(), &names, &custom, &values)?;
                Ok(Reply::Settings { settings, kept: guard::kept(interface.as_deref()) })
            }
            Request::Set { .. } | Request::Confirm | Request::Keep | Request::Restore { .. }
                if self.lease.is_none() =>
            {
                Err(out_of_order("settings need the lease; ask for it first"))
            }
            Request::Set { interface, changes, confirm_within_s } => {
                let settings = self.settings.set(interface.as_deref(), &changes, confirm_within_s)?;
                Ok(Reply::Changed { settings })
            }
            Request::Confirm => self.settings.confirm(),
            Request::Keep => self.settings.keep(),
            Request::Restore { names, kept } => Ok(Reply::Restored { settings: self.settings.restore(&names, kept) }),
            Request::Way { local, peer, interface } => {
                Ok(Reply::Way(Box::new(linerate_host::probe::route_info(local, peer, interface.as_deref()))))
            }
            Request::Witness { .. } | Request::Probe(_) if self.lease.is_none() => {
                Err(out_of_order("probes need the lease; ask for it first"))
            }
            Request::Witness { local, peer, interface, secret } => {
                self.probing.witness(local, peer, interface.as_deref(), secret)
            }
            Request::Probe(order) => self.probing.probe(&order),
            Request::Heard => self.probing.heard(),
            Request::Ports { towards, bridged } => {
                let of = |end: End| middle::EndAddress { address: towards[end].address, mac: towards[end].mac.clone() };
                Ok(Reply::Ports { interfaces: middle::find(&PerEnd::of(of), bridged) })
            }
            Request::Observe(observe) => self.observe(*observe),
            Request::Conclude => match std::mem::replace(&mut self.trial, TrialState::None) {
                TrialState::Observes(observation) => Ok(Reply::Observed(Box::new(observation.finish()))),
                other => {
                    self.trial = other;
                    Err(out_of_order("no trial is observed; ask for that first"))
                }
            },
            Request::Ping => Ok(Reply::Done),
        }
    }

    fn prepare(&mut self, prepare: Prepare) -> Result<Reply, Refusal> {
        if self.lease.is_none() {
            return Err(out_of_order("a trial needs the lease; ask for it first"));
        }
        self.end_trial();
        prepare.spec.validate().map_err(|error| Refusal(RefusalKind::BadRequest, error.to_string()))?;
        if prepare.spec.is_of_line() {
            let sentence =
                "a rate in per cent and the frame size z are for the controller to make numbers of; update it";
            return Err(Refusal(RefusalKind::BadRequest, sentence.to_owned()));
        }
        if let Some(wanted) = &prepare.registers {
            registers::allow(wanted, self.memory)?;
        }
        let interface = prepare.interface.or_else(|| interfaces::with_address(SocketAddr::new(prepare.local, 0)));
        if let Some(foreign) = prepare.foreign {
            // Several interfaces may have the same link-local address.
            let interface = foreign.interface.clone().or(interface);
            let test =
                foreign::Test::prepare(foreign, prepare.spec, prepare.local, interface.clone(), self.unanswered)?;
            self.trial = TrialState::Foreign(Box::new(test));
            return Ok(Reply::Prepared { ports: Vec::new(), interface, mac: None, silenced: Vec::new() });
        }
        let silenced = match &interface {
            Some(interface) if prepare.spec.workload == Workload::Frames => {
                // Frames with IP may go by a router.
                let is_routed = prepare.spec.frame_kind() != FrameKind::Raw;
                self.settings.silence(interface, prepare.local, is_routed)
            }
            _ => {
                self.settings.speak();
                Vec::new()
            }
        };
        let tokens = Tokens { hello: prepare.hello.0, answer: prepare.answer.0 };
        if let Some(interface) = &interface {
            await_detection(prepare.local, interface, DETECTION);
        }
        let mut trial =
            Trial::prepare(prepare.spec, prepare.end, prepare.local, interface.clone(), tokens).map_err(refusal_of)?;
        if let Some(wanted) = prepare.registers {
            trial.watch_registers(wanted);
        }
        if let Some(forgiven) = prepare.stop_at_loss {
            trial.stop_at_loss(forgiven);
        }
        if let Some(seconds) = prepare.silent_s {
            trial.bear_silence(seconds);
        }
        if let Some(scheduling) = self.settings.receivers() {
            trial.schedule_receivers(scheduling).map_err(failed)?;
        }
        let ports = trial.ports().map_err(failed)?;
        let mac = trial.mac();
        self.trial = TrialState::Ready { trial: Box::new(trial), connected: false };
        Ok(Reply::Prepared { ports, interface, mac, silenced })
    }

    fn observe(&mut self, observe: Observe) -> Result<Reply, Refusal> {
        if self.lease.is_none() {
            return Err(out_of_order("a trial needs the lease; ask for it first"));
        }
        self.end_trial();
        observe.spec.validate().map_err(|error| Refusal(RefusalKind::BadRequest, error.to_string()))?;
        if let Some(wanted) = &observe.registers {
            registers::allow(wanted, self.memory)?;
        }
        let Observe { spec, interfaces, registers } = observe;
        let observation = Observation::begin(&spec, interfaces, registers).map_err(failed)?;
        self.trial = TrialState::Observes(Box::new(observation));
        Ok(Reply::Done)
    }

    fn connect(
        &mut self,
        peer: IpAddr,
        ports: &[(u16, u16)],
        mac: Option<MacAddress>,
        outlet: &Outbox,
    ) -> Result<Reply, Refusal> {
        check_of_one_machine(peer)?;
        if matches!(self.trial, TrialState::Foreign(_)) {
            // The tool's own protocol opens the flows, and data may come at once.
            return Ok(Reply::Done);
        }
        let TrialState::Ready { trial, connected } = &mut self.trial else {
            return Err(out_of_order("there is no trial to connect; prepare one first"));
        };
        if *connected {
            return Err(out_of_order("the trial is connected already; start it"));
        }
        trial.frames_go_to(mac);
        match trial.connect(peer, ports, notify(outlet)) {
            Ok(()) => {
                *connected = true;
                Ok(Reply::Done)
            }
            Err(error) => {
                self.trial = TrialState::None;
                Err(refusal_of(error))
            }
        }
    }

    fn start(&mut self, outlet: &Outbox) -> Result<Reply, Refusal> {
        let trial = match std::mem::replace(&mut self.trial, TrialState::None) {
            TrialState::Ready { trial, connected: true } => trial,
            TrialState::Foreign(test) => return self.start_foreign(*test, outlet),
            TrialState::Observes(observation) => {
                observation.start();
                self.trial = TrialState::Observes(observation);
                return Ok(Reply::Done);
            }
            other => {
                self.trial = other;
                return Err(out_of_order("there is no connected trial to start; prepare and connect one first"));
            }
        };
        let (stopper, sender) = (trial.stopper(), trial.stopper());
        trial.start();
        let outlet = outlet.clone();
        let thread = thread::start("trial", 256 << 10, move || {
            let event = match trial.finish() {
                Ok(outcome) => Event::Finished(Box::new(outcome)),
                Err(Failed { error, seen }) => {
                    Event::TrialFailed { message: error.to_string(), failure: failure_of(&error), seen: Some(seen) }
                }
            };
            outlet.event(event);
        })
        .map_err(failed)?;
        self.trial = TrialState::Runs {
            stop: Box::new(move || stopper.stop()),
            end_sending: Some(Box::new(move || sender.end_sending())),
            thread,
        };
        Ok(Reply::Done)
    }

    fn start_foreign(&mut self, test: foreign::Test, outlet: &Outbox) -> Result<Reply, Refusal> {
        let stopped = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stopped);
        let outlet = outlet.clone();
        let thread = thread::start("trial", 256 << 10, move || {
            let event = match test.run(notify(&outlet), &|| asked.load(Ordering::Relaxed)) {
                Ok([other, own]) => Event::FinishedWith { own: Box::new(own), other: Box::new(other) },
                Err((message, failure)) => Event::TrialFailed { message, failure, seen: None },
            };
            outlet.event(event);
        })
        .map_err(failed)?;
        self.trial = TrialState::Runs {
            stop: Box::new(move || stopped.store(true, Ordering::Relaxed)),
            end_sending: None,
            thread,
        };
        Ok(Reply::Done)
    }

    /// Ends the trial, if there is one, and waits for its threads.
    fn end_trial(&mut self) {
        match std::mem::replace(&mut self.trial, TrialState::None) {
            TrialState::None | TrialState::Ready { .. } | TrialState::Foreign(_) | TrialState::Observes(_) => {}
            TrialState::Runs { stop, thread, .. } => {
                stop();
                let _ = thread.join();
            }
        }
    }
}

/// A trial that cannot be made or not be connected.
fn refusal_of(error: TrafficError) -> Refusal {
    let kind = match &error {
        TrafficError::CannotListen { .. } => RefusalKind::NoAddress,
        // These fail whether or not the other end answers.
        TrafficError::Api { .. }
        | TrafficError::FrameTooLarge { .. }
        | TrafficError::NoCongestionControl { .. }
        | TrafficError::NoEthernet { .. }
        | TrafficError::NoRawSockets
        | TrafficError::NotRouted { .. }
        | TrafficError::Option { .. }
        | TrafficError::Scheduling { .. } => RefusalKind::BadRequest,
        _ => RefusalKind::Failed,
    };
    Refusal(kind, error.to_string())
}

/// What a controller needs to know of an error besides its sentence.
fn failure_of(error: &TrafficError) -> Option<Failure> {
    match error {
        TrafficError::Broke(_) => Some(Failure::ConnectionBroke),
        TrafficError::Stalled { no_carrier: Some(_), .. } => Some(Failure::NoCarrier),
        _ => None,
    }
}

/// Tells the controller how far the trial is.
fn notify(outlet: &Outbox) -> impl Fn(Progress) + Send + 'static {
    let outlet = outlet.clone();
    move |so_far| {
        if so_far.lost_too_much {
            outlet.event(Event::LostTooMuch);
        }
        outlet.event(Event::Progress {
            elapsed_ns: so_far.elapsed_ns,
            octets_sent: so_far.octets_sent,
            octets_received: so_far.octets_received,
        });
    }
}

fn address(one: interfaces::InterfaceAddress) -> Address {
    Address {
        interface: one.interface,
        address: one.address,
        prefix_len: one.prefix_len,
        up: one.up,
        loopback: one.loopback,
    }
}

/// The address at which an SSH client reached this machine: the third word of SSH_CONNECTION (ssh(1)).
fn reached_at() -> Option<IpAddr> {
    std::env::var("SSH_CONNECTION").ok()?.split_whitespace().nth(2)?.parse().ok()
}
