//! Why nothing comes through between two machines, from the bottom up: each end says what it knows of the way, both send
//! a handful of probes and hear the other's, and what each saw is put together.
//! Knows no sentences; steps are facts.

mod evidence;
mod sizes;

use std::time::{Duration, Instant};

use linerate_control::message::{PROBE, ProbeOrder, Reply, Request, Secret};
use linerate_control::{ControlError, Pending};
use linerate_machine::end::{Direction, End, PerEnd};
use linerate_machine::environment::{Environment, Nic};
use linerate_machine::probe::{FLOWS, ProbeReport, Protocol, RouteInfo, WitnessReport};
use linerate_path::stage::Counters;
use linerate_results::examination::{
    Examination, Failed, MiddleFault, Passed, PerEndMtu, Probe, Step, StepResult, Unknown, is_routed,
};
use linerate_results::join::{EndedTrial, Route};
use linerate_trial::event::{Event, EventKind};
use linerate_trial::frames::FrameKind;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Ip, MAX_STREAMS, Spec, Workload};

use evidence::{EcnProbes, Evidence, Plain, WrongChecksums};
use sizes::Search;

use super::attempts::{self, drops};
use super::conduct::secret;
use super::error::{TrialError, of_control};
use super::pair::Pair;
use crate::interrupt;

/// How long an agent has to look at its own machine, and for probes.
const LOOK_TIME: Duration = Duration::from_secs(3);
const PROBE_TIME: Duration = Duration::from_secs(10);
/// No further size is tried after this time, or three times what one round has.
const SIZES_TIME: Duration = Duration::from_secs(3);
/// How long the answers to packets of one size are waited for: the least, and the most.
const SIZE_TIME: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(900)];
/// Where answers take longer than this, or nothing is answered, more may come late.
const SLOW: Duration = Duration::from_millis(250);
/// How long what is late is waited for: since the last that came, and in all.
const LATE_TIME: [Duration; 2] = [Duration::from_millis(1500), Duration::from_secs(5)];
/// So often it is looked whether something came.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// No answer is waited for longer.
const MOST_PATIENCE: Duration = Duration::from_secs(4);
/// Connections of one that is no trial's: as many as people often measure with.
const AT_ONCE: u16 = 8;
/// The loopback's packets are larger than any that a trial sends.
const LARGEST: u32 = 65_000;
/// What a trial needed: of all that does not pass, what explains its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// `None`: frames go below IP, whatever sockets hear of each other.
    transport: Option<Protocol>,
    asker: End,
    direction: Direction,
    is_stream: bool,
    hops: Option<u8>,
    dscp: u8,
    /// Over TCP, at once.
    connections: u16,
    /// Two of them are one stream's.
    is_doubled: bool,
    /// Over any transport, at once.
    streams: u16,
}

impl Scope {
    /// Whether an end sends large packets in the trial, or may.
    fn has_sender(self, end: End) -> bool {
        let way = if end == End::Target { Direction::Tx } else { Direction::Rx };
        !self.is_stream || [way, Direction::Both].contains(&self.direction)
    }

    pub(crate) fn of(spec: &Spec) -> Scope {
        let of_requests = matches!(spec.workload, Workload::TcpRr | Workload::UdpRr | Workload::TcpCrr);
        Scope {
            transport: match spec.workload {
                Workload::Frames => (spec.frame_kind() != FrameKind::Raw).then_some(Protocol::Udp),
                workload if workload.is_udp() => Some(Protocol::Udp),
                _ => Some(Protocol::Tcp),
            },
            // The target listens for streams, whichever way they go.
            asker: if of_requests && spec.direction == Direction::Tx { End::Target } else { End::Host },
            direction: spec.direction,
            is_stream: !of_requests,
            hops: spec.ttl,
            dscp: spec.dscp,
            connections: match spec.workload {
                // One that opens the flow and stays, and that of the transaction.
                Workload::TcpCrr => spec.streams.saturating_mul(2).min(MAX_STREAMS),
                Workload::Frames => 0,
                workload if workload.is_udp() => 0,
                _ => spec.streams,
            },
            is_doubled: spec.workload == Workload::TcpCrr,
            streams: spec.streams,
        }
    }
}

/// What examinations of a campaign have found: the same failure is examined once.
#[derive(Default)]
pub(crate) struct Examined {
    known: Vec<(Scope, Option<Route>, Examination)>,
}

impl Examined {
    /// Examines why nothing came through, where nothing did and it is not known why. The first step that explains it becomes
    /// the trial's error.
    pub(crate) fn of(&mut self, pair: &Pair, conducted: &mut EndedTrial<TrialError>) -> Option<Examination> {
        let why = match &conducted.outcomes {
            Ok(outcomes) if nothing_arrived(outcomes) => None,
            // Whether something stopped coming is seen in the record.
            Ok(_) => return None,
            Err(error @ (TrialError::NotOpened(_) | TrialError::Traffic(_))) => Some(error.clone()),
            // Of what is refused, only that there are no addresses is the network's doing.
            Err(error @ TrialError::Refused(_)) if conducted.route.is_none() => {
                pair.route(conducted.spec.ip).is_err().then(|| error.clone())?.into()
            }
            Err(_) => return None,
        };
        let not_opened = match &why {
            Some(TrialError::NotOpened(sentence)) => Some(sentence.as_str()),
            _ => None,
        };
        let examination = match self.once(pair, &conducted.spec, conducted.route, not_opened)? {
            Ok(examination) => examination,
            Err(error) => {
                // A machine that is lost meanwhile is the news.
                conducted.outcomes = Err(error);
                return None;
            }
        };
        if let (Some(why), Some(cause)) = (why, examination.cause()) {
            conducted.outcomes = Err(match why {
                TrialError::NotOpened(_) => TrialError::NotOpened(cause.sentence()),
                // What was said when it died says already that a link is down, or what another tool's server said.
                TrialError::Traffic(sentence) if !matches!(cause.probe, Probe::Link { .. } | Probe::Stream { .. }) => {
                    TrialError::Traffic(format!("{} ({sentence})", cause.sentence()))
                }
                why => why,
            });
        }
        Some(examination)
    }

    /// Examines why a flow stopped coming in mid-trial. A trial in which all came ends what is known of those before it.
    pub(crate) fn of_deaths(
        &mut self,
        pair: &Pair,
        spec: &Spec,
        route: Option<Route>,
        events: &[Event],
    ) -> Option<Examination> {
        if !events.iter().any(|event| matches!(event.what, EventKind::FlowDied { .. })) {
            self.known.clear();
            return None;
        }
        // A machine that is lost meanwhile is the next trial's news: this one has its figures.
        self.once(pair, spec, route, None)?.ok()
    }

    /// An examination, or what one of the same came to; `None` where the user wants an end. `not_opened`: why the ends did
    /// not find each other.
    fn once(
        &mut self,
        pair: &Pair,
        spec: &Spec,
        route: Option<Route>,
        not_opened: Option<&str>,
    ) -> Option<Result<Examination, TrialError>> {
        if interrupt::requested() {
            return None;
        }
        let scope = Scope::of(spec);
        if let Some((.., known)) = self.known.iter().find(|(other, there, _)| (*other, *there) == (scope, route)) {
            return Some(Ok(known.clone()));
        }
        let mut examination = examine(pair, spec.ip, Some(scope), &mut |_| {});
        // Of another tool's server its protocol tells what passes, unless it is one that answers nothing.
        if let Some(foreign) = pair.foreign.as_ref().filter(|foreign| foreign.unanswered.is_none())
            && let (Some(route), Some(transport)) = (route, scope.transport)
            && let Ok(found) = &mut examination
            && found.cause().is_none()
        {
            let began = Instant::now();
            let from = if spec.direction == Direction::Tx { End::Target } else { End::Host };
            let steps = match not_opened {
                Some(sentence) => Ok(attempts::of_no_server(foreign.tool, (transport, from), sentence)),
                None => attempts::streams(pair, route, transport, from),
            };
            let steps = match steps {
                Ok(steps) => steps,
                Err(error) => return Some(Err(error)),
            };
            found.cause = steps.first().filter(|step| step.has_failed()).map(|_| found.steps.len());
            found.steps.extend(steps);
            found.seconds = ((found.seconds + began.elapsed().as_secs_f64()) * 1e3).round() / 1e3;
        }
        if let Ok(examination) = &examination {
            self.known.push((scope, route, examination.clone()));
        }
        Some(examination)
    }
}

/// Whether a flow that should have carried something carried nothing at all.
fn nothing_arrived(outcomes: &[Outcome; 2]) -> bool {
    let flows = || outcomes.iter().flat_map(|outcome| &outcome.flows);
    let at_receiver = |flow: &FlowOutcome| flows().find(|other| other.id == flow.id && other.role == Role::Receiver);
    flows().any(|flow| match flow.role {
        Role::Sender => {
            let has_tried = flow.messages_total > 0 || flow.send_retries > 0;
            has_tried && at_receiver(flow).is_some_and(|other| other.octets_total == 0)
        }
        Role::Requester => flow.requests.is_some_and(|asked| asked > 0) && flow.messages_total == 0,
        Role::Receiver | Role::Responder => false,
    })
}

/// Whether an end's agent can look and probe.
pub(crate) fn is_able(pair: &Pair, end: End) -> bool {
    let is_agent = end == End::Host || pair.foreign.is_none();
    is_agent && pair.client(end).hello().capabilities.iter().any(|one| one == PROBE)
}

/// Tries it all; `heard` gets each step. The error is that of a machine that is lost, or of an interrupt.
pub(crate) fn examine(
    pair: &Pair,
    ip: Option<Ip>,
    scope: Option<Scope>,
    heard: &mut dyn FnMut(&Step),
) -> Result<Examination, TrialError> {
    let mut examiner = Examiner {
        pair,
        scope,
        began: Instant::now(),
        steps: Vec::new(),
        heard,
        able: PerEnd::of(|end| is_able(pair, end)),
        interfaces: PerEnd::default(),
        drivers: PerEnd::default(),
    };
    match pair.route(ip) {
        Ok(route) => examiner.run(route)?,
        Err(sentence) => examiner.say(Probe::Addresses, StepResult::Failed(Failed::NoAddresses { sentence })),
    }
    let cause = examiner.cause();
    let seconds = (examiner.began.elapsed().as_secs_f64() * 1e3).round() / 1e3;
    Ok(Examination { seconds, steps: examiner.steps, cause })
}

struct Examiner<'a> {
    pair: &'a Pair,
    scope: Option<Scope>,
    began: Instant,
    steps: Vec<Step>,
    heard: &'a mut dyn FnMut(&Step),
    /// Which ends look and probe.
    able: PerEnd<bool>,
    /// By which packets leave.
    interfaces: PerEnd<Option<String>>,
    /// Of these.
    drivers: PerEnd<Option<String>>,
}

impl Examiner<'_> {
    fn say(&mut self, probe: Probe, came: StepResult) {
        let step = Step { probe, came };
        (self.heard)(&step);
        self.steps.push(step);
    }

    /// Asks both ends at the same time.
    fn ask(&self, make: impl Fn(End) -> Option<Request>) -> PerEnd<Option<Pending>> {
        PerEnd::of(|end| make(end).map(|request| self.pair.client(end).send(request)))
    }

    /// A reply, or `None` where the agent refuses.
    fn wait(pending: Option<Pending>, time: Duration) -> Result<Option<Reply>, TrialError> {
        let Some(pending) = pending else { return Ok(None) };
        match pending.wait_unless(time, interrupt::requested) {
            Ok(reply) => Ok(Some(reply)),
            Err(ControlError::Refused { .. } | ControlError::Timeout { .. }) => Ok(None),
            Err(error) => Err(of_control(error)),
        }
    }

    /// What both ends reply.
    fn told<T>(
        asked: PerEnd<Option<Pending>>,
        time: Duration,
        of: impl Fn(Option<Reply>) -> T,
    ) -> Result<PerEnd<T>, TrialError> {
        let [target, host] = [asked.target, asked.host].map(|one| Self::wait(one, time));
        Ok(PerEnd { target: of(target?), host: of(host?) })
    }

    fn run(&mut self, route: Route) -> Result<(), TrialError> {
        self.interfaces = PerEnd::of(|end| self.pair.interface(end, route));
        let (able, interfaces) = (self.able, self.interfaces.clone());
        let described =
            self.ask(|end| Some(Request::Describe { interface: interfaces[end].clone(), modules: Vec::new() }));
        let looked = self.ask(|end| able[end].then(|| self.look(route, end, interfaces[end].clone())));
        let ways = Self::told(looked, LOOK_TIME, way_of)?;
        let nics = Self::told(described, LOOK_TIME, nic_of)?;
        self.drivers = PerEnd::of(|end| nics[end].as_ref()?.driver.clone());
        let mut links_are_up = true;
        for end in End::BOTH {
            let came = self.link(end, &ways[end], &nics[end]);
            links_are_up &= !matches!(came, StepResult::Failed(_));
            self.say(Probe::Link { end }, came);
        }
        if !links_are_up {
            return Ok(());
        }
        if route.target == route.host && !self.pair.is_one() {
            self.say(Probe::Addresses, StepResult::Failed(Failed::SameAddress { address: route.target }));
            return Ok(());
        }
        self.say(Probe::Addresses, StepResult::Passed(Passed::Addresses { target: route.target, host: route.host }));
        for end in End::BOTH {
            let gone = ways[end].as_ref().is_some_and(|way| way.has_address == Some(false));
            if let (true, Some(interface)) = (gone, interfaces[end].clone()) {
                let address = route[end];
                self.say(Probe::Address { end }, StepResult::Failed(Failed::AddressGone { address, interface }));
                return Ok(());
            }
        }
        let mut evidence = self.probe(route, ways)?;
        self.conclude(&evidence)?;
        if able.target && able.host {
            self.transports(&evidence, Protocol::Udp);
            self.sizes(&evidence)?;
            for asker in [End::Host, End::Target] {
                if let Some(came) = evidence.of_ecn(asker) {
                    self.say(Probe::Ecn { asker }, came);
                }
            }
            // Last, for a connection moves full segments too.
            evidence.full_passes = PerEnd::of(|from| self.passes_full(from));
            self.transports(&evidence, Protocol::Tcp);
            self.connections(&evidence);
            for asker in [End::Host, End::Target] {
                if let Some(came) = evidence.of_closing(asker) {
                    self.say(Probe::Closing { asker }, came);
                }
            }
        }
        // Witnesses end.
        Self::told(self.ask(|end| able[end].then_some(Request::Stop)), LOOK_TIME, drop).map(drop)
    }

    fn look(&self, route: Route, end: End, interface: Option<String>) -> Request {
        let (local, peer) = (route[end], route[end.other()]);
        Request::Way { local, peer, interface }
    }

    fn link(&self, end: End, way: &Option<RouteInfo>, nic: &Option<Nic>) -> StepResult {
        let state = way.as_ref().and_then(|way| way.interface.as_ref());
        match (state, nic) {
            (Some(state), _) if !state.up => StepResult::Failed(Failed::SetDown { interface: state.name.clone() }),
            (Some(state), _) if state.carrier == Some(false) => {
                StepResult::Failed(Failed::NoCarrier { interface: state.name.clone() })
            }
            (_, Some(nic)) if nic.link_detected == Some(false) => {
                StepResult::Failed(Failed::NoCarrier { interface: nic.name.clone() })
            }
            (_, Some(nic)) => StepResult::Passed(Passed::Link {
                interface: nic.name.clone(),
                driver: nic.driver.clone(),
                speed_mbps: nic.speed_mbps,
                duplex: nic.duplex.clone(),
                mtu: nic.mtu,
            }),
            (_, None) if end == End::Target && self.pair.foreign.is_some() => {
                StepResult::Unknown(Unknown::NoAgent { end })
            }
            _ => StepResult::Unknown(Unknown::NotTold),
        }
    }

    /// Both ends listen, then both probe; all at the same time.
    fn probe(&mut self, route: Route, ways: PerEnd<Option<RouteInfo>>) -> Result<Evidence, TrialError> {
        let both = self.able.target && self.able.host;
        let mut evidence = Evidence {
            route,
            ways,
            reports: PerEnd::default(),
            heard: PerEnd::default(),
            ports: PerEnd::default(),
            drops: Vec::new(),
            wrong_checksums: PerEnd::default(),
            flows: PerEnd::default(),
            around_flows: <[PerEnd<WitnessReport>; 2]>::default(),
            capable: None,
            refused: Vec::new(),
            plain: None,
            secret: secret()?,
            patience: Duration::ZERO,
            is_late: false,
            full_passes: PerEnd::default(),
        };
        let mut listening = false;
        if both {
            let witnesses = self.ask(|end| {
                let (local, peer) = (route[end], route[end.other()]);
                Some(Request::Witness { local, peer, interface: self.interfaces[end].clone(), secret: evidence.secret })
            });
            for (end, witness) in [(End::Target, witnesses.target), (End::Host, witnesses.host)] {
                let Some(witness) = witness else { continue };
                match witness.wait_unless(LOOK_TIME, interrupt::requested) {
                    Ok(Reply::Witnessing { udp, tcp }) => evidence.ports = replaced(evidence.ports, end, (udp, tcp)),
                    Ok(_) | Err(ControlError::Timeout { .. }) => {}
                    Err(ControlError::Refused { message, .. }) => evidence.refused.push((end, message)),
                    Err(error) => return Err(of_control(error)),
                }
            }
            listening = evidence.ports.target.0 != 0 && evidence.ports.host.0 != 0;
        }
        let began = Instant::now();
        self.usual(&mut evidence, listening)?;
        if listening && let Some(patience) = self.more_patience(&evidence, began)? {
            (evidence.patience, evidence.is_late) = (patience, true);
            // What needed no more than is usual tells the same.
            if !evidence.is_all_filled() {
                self.usual(&mut evidence, listening)?;
            }
        }
        let dscp = self.scope.map_or(0, |scope| scope.dscp);
        if listening {
            // Packets and drops are counted until here: these are others.
            let before = self.heard()?;
            evidence.flows = self.flows(&evidence)?;
            evidence.around_flows = [before, self.heard()?];
        }
        let has_ecn = |end: End| evidence.reports[end].tcp.as_ref().is_some_and(|tcp| tcp.ecn == Some(true));
        if listening && End::BOTH.into_iter().any(has_ecn) {
            evidence.capable = Some(self.capable(&evidence)?);
        }
        if listening && dscp != 0 && !evidence.is_all_answered() {
            evidence.plain = Some(self.plain(&evidence, dscp)?);
        }
        Ok(evidence)
    }

    /// Requests over each transport from both ends, and what was heard of them and counted meanwhile.
    fn usual(&self, evidence: &mut Evidence, listening: bool) -> Result<(), TrialError> {
        let before = self.counters()?;
        let probes = self.ask(|end| {
            self.able[end].then(|| {
                let (udp, tcp) = evidence.ports[end.other()];
                let ports = listening.then_some((udp, tcp));
                let order = ProbeOrder {
                    echo: true,
                    arp: !self.pair.is_one(),
                    udp: ports.map(|ports| ports.0),
                    tcp: ports.map(|ports| ports.1),
                    connections: Some(self.at_once()).filter(|(asker, _)| *asker == end).map_or(0, |(_, many)| many),
                    hops: self.scope.and_then(|scope| scope.hops),
                    dscp: self.scope.map_or(0, |scope| scope.dscp),
                    ..self.order(evidence, end, evidence.secret)
                };
                Request::Probe(Box::new(order))
            })
        });
        evidence.reports = Self::told(probes, evidence.probe_time(), report_of)?;
        if listening {
            evidence.heard = self.heard()?;
        }
        let after = self.counters()?;
        evidence.drops = drops(&before, &after, &self.drivers);
        evidence.wrong_checksums = PerEnd::of(|end| WrongChecksums::of(&after[end].since(&before[end])));
        Ok(())
    }

    /// How long answers are to be waited for, where that is longer than is usual: by those that took long, or by what came since the
    /// probes began, where none was answered.
    fn more_patience(&self, evidence: &Evidence, began: Instant) -> Result<Option<Duration>, TrialError> {
        if let Some(slowest) = evidence.slowest() {
            return Ok((slowest >= SLOW).then(|| (4 * slowest).min(MOST_PATIENCE)));
        }
        let mut passed = requests(&evidence.heard);
        let (mut last, mut late) = (began.elapsed(), None);
        while began.elapsed() < (last + LATE_TIME[0]).min(LATE_TIME[1]) && !interrupt::requested() {
            std::thread::sleep(LOOK_AGAIN);
            let now = requests(&self.heard()?);
            if now != passed {
                (last, passed) = (began.elapsed(), now);
                late = Some(last);
            }
        }
        Ok(late.map(|late| (late + late / 4).min(MOST_PATIENCE)))
    }

    /// Whether packets as large as the link's pass whole.
    fn passes_full(&self, end: End) -> bool {
        let is_full = |step: &Step| match (step.probe, &step.came) {
            (Probe::Size { from, octets }, StepResult::Passed(Passed::Size { octets: most, .. })) => {
                from == end && *most == octets
            }
            _ => false,
        };
        self.steps.iter().any(is_full)
    }

    /// How many datagrams from each of several ports are answered: something on the way may go by the port.
    fn flows(&self, evidence: &Evidence) -> Result<PerEnd<Vec<u32>>, TrialError> {
        let probes = self.ask(|end| {
            let (udp, _) = evidence.ports[end.other()];
            let order = self.order(evidence, end, evidence.secret);
            Some(Request::Probe(Box::new(ProbeOrder { udp: Some(udp), flows: FLOWS, ..order })))
        });
        Self::told(probes, evidence.probe_time(), |reply| report_of(reply).flows)
    }

    /// Datagrams that say that they are ECN-capable, as TCP's data does here: something on the way may go by it.
    fn capable(&self, evidence: &Evidence) -> Result<EcnProbes, TrialError> {
        let before = self.heard()?;
        let probes = self.ask(|end| {
            let (udp, _) = evidence.ports[end.other()];
            let order = self.order(evidence, end, evidence.secret);
            Some(Request::Probe(Box::new(ProbeOrder { udp: Some(udp), ecn: true, ..order })))
        });
        let tried = Self::told(probes, evidence.probe_time(), |reply| report_of(reply).udp)?;
        Ok(EcnProbes { tried, around: [before, self.heard()?] })
    }

    /// The same without the trial's code point: something on the way may go by it.
    fn plain(&self, evidence: &Evidence, dscp: u8) -> Result<Plain, TrialError> {
        let probes = self.ask(|end| {
            let (udp, tcp) = evidence.ports[end.other()];
            let order = self.order(evidence, end, evidence.secret);
            Some(Request::Probe(Box::new(ProbeOrder { udp: Some(udp), tcp: Some(tcp), ..order })))
        });
        Ok(Plain { dscp, reports: Self::told(probes, evidence.probe_time(), report_of)? })
    }

    fn order(&self, evidence: &Evidence, end: End, secret: Secret) -> ProbeOrder {
        let (local, peer) = (evidence.route[end], evidence.route[end.other()]);
        let patience_s = evidence.patience.as_secs_f64();
        ProbeOrder { interface: self.interfaces[end].clone(), patience_s, ..ProbeOrder::between(local, peer, secret) }
    }

    fn heard(&self) -> Result<PerEnd<WitnessReport>, TrialError> {
        Self::told(self.ask(|_| Some(Request::Heard)), LOOK_TIME, |reply| match reply {
            Some(Reply::Heard(report)) => *report,
            _ => WitnessReport::default(),
        })
    }

    fn counters(&self) -> Result<PerEnd<Counters>, TrialError> {
        let interface = |end| self.interfaces[end].clone().unwrap_or_default();
        let asked = self.ask(|end| Some(Request::Counters { interface: interface(end) }));
        Self::told(asked, LOOK_TIME, |reply| match reply {
            Some(Reply::Counters { counters, .. }) => counters,
            _ => Counters::default(),
        })
    }

    /// Makes the steps of what is known, from the bottom up.
    fn conclude(&mut self, evidence: &Evidence) -> Result<(), TrialError> {
        let able = self.able;
        let both = able.target && able.host;
        let is_one = self.pair.is_one();
        if let Some(came) = self.middle(evidence)? {
            self.say(Probe::Middle, came);
        }
        for end in End::BOTH.into_iter().filter(|end| !is_one && able[*end]) {
            if let Some(came) = evidence.of_address(end) {
                self.say(Probe::Address { end }, came);
            }
        }
        for from in End::BOTH.into_iter().filter(|end| able[*end]) {
            self.say(Probe::Route { from }, evidence.of_route(from, both));
        }
        for end in End::BOTH.into_iter().filter(|_| !is_one && both) {
            if let Some(came) = self.arrivals(evidence, end)? {
                self.say(Probe::Arrivals { end }, came);
            }
        }
        for from in End::BOTH.into_iter().filter(|end| !is_one && able[*end]) {
            if let Some(came) = evidence.of_neighbour(from, able[from.other()]) {
                self.say(Probe::Neighbour { from }, came);
            }
        }
        for end in End::BOTH.into_iter().filter(|end| able[*end]) {
            let streams = self.scope.map_or(0, |scope| scope.streams);
            if let Some(came) = evidence.of_room(end, both, streams) {
                self.say(Probe::Room { end }, came);
            }
        }
        let asked = self.scope.and_then(|scope| scope.hops).is_some();
        for from in End::BOTH.into_iter().filter(|_| !is_one && both) {
            if let Some(came) = evidence.of_hops(from, asked) {
                self.say(Probe::Hops { from }, came);
            }
        }
        for asker in [End::Host, End::Target] {
            if let Some((flows, came)) = evidence.of_flows(asker) {
                self.say(Probe::Flows { asker, flows }, came);
            }
        }
        for asker in [End::Host, End::Target].into_iter().filter(|end| able[*end]) {
            let came = evidence.of_echo(asker, both);
            self.say(Probe::Echo { asker }, came);
        }
        Ok(())
    }

    /// Whether the machine in the middle lets pass what comes, as far as it knows.
    fn middle(&self, evidence: &Evidence) -> Result<Option<StepResult>, TrialError> {
        let Some(middle) = &self.pair.middle else { return Ok(None) };
        let route = evidence.route;
        let ports = match middle.find_ports(self.pair, route)? {
            Ok(ports) => ports,
            Err(PerEnd { target, host }) => return Ok(Some(StepResult::Unknown(Unknown::NoPorts { target, host }))),
        };
        let told = middle.describe(&ports, &[])?;
        let is_bridged = self.pair.is_one_subnet(route);
        if let Some(fault) = evidence.of_middle(&told, is_bridged) {
            return Ok(Some(StepResult::Failed(Failed::Middle { fault })));
        }
        if is_bridged && !evidence.has_same_mac() {
            // A bridge learns by what the ends send.
            let (seen, probes) = middle.ports_by_turns(self.pair, route, || {
                self.ask(|end| {
                    let order = self.order(evidence, end, evidence.secret);
                    let udp = Some(evidence.ports[end.other()].0).filter(|port| *port != 0);
                    let (echo, flows) = (udp.is_none(), if udp.is_some() { FLOWS } else { 0 });
                    self.able[end].then(|| Request::Probe(Box::new(ProbeOrder { echo, udp, flows, ..order })))
                })
            })?;
            Self::told(probes, evidence.probe_time(), drop)?;
            if let Some(end) = End::BOTH.into_iter().find(|end| seen[*end].len() > 1) {
                let fault = MiddleFault::Moves { end, interfaces: seen[end].iter().cloned().collect() };
                return Ok(Some(StepResult::Failed(Failed::Middle { fault })));
            }
        }
        Ok(Some(StepResult::Passed(Passed::Middle { target: ports.target, host: ports.host })))
    }

    fn transports(&mut self, evidence: &Evidence, transport: Protocol) {
        for asker in [End::Host, End::Target] {
            let came = evidence.of_transport(transport, asker);
            self.say(Probe::Transport { transport, asker }, came);
        }
    }

    /// How many connections are to be open at once, and from where: as many as the trial has, or a few.
    fn at_once(&self) -> (End, u16) {
        self.scope.map_or((End::Host, AT_ONCE), |scope| (scope.asker, scope.connections))
    }

    /// Whether as many connections pass at once as the trial has.
    fn connections(&mut self, evidence: &Evidence) {
        let (asker, connections) = self.at_once();
        let open = evidence.reports[asker].tcp.as_ref().and_then(|tcp| tcp.at_once);
        let Some(open) = open.filter(|_| connections > 1) else { return };
        let refusal = evidence.reports[asker].tcp.as_ref().and_then(|tcp| tcp.at_once_refusal.clone());
        let came = match open >= connections {
            true => StepResult::Passed(Passed::Connections { open }),
            false => {
                let doubled = self.scope.is_some_and(|scope| scope.is_doubled);
                StepResult::Failed(Failed::Connections { open, refusal, doubled })
            }
        };
        self.say(Probe::Connections { asker, connections }, came);
    }

    /// Whether the kernel of an end takes what comes from the other end, at the interface where it comes.
    fn arrivals(&self, evidence: &Evidence, end: End) -> Result<Option<StepResult>, TrialError> {
        let Some(way) = &evidence.ways[end] else { return Ok(None) };
        let passes = evidence.arrives(end);
        let mut way = way.clone();
        let mut interface = self.interfaces[end].clone();
        if let Some(at) = evidence.arrives_at(end).filter(|at| !passes && Some(at) != interface.as_ref()) {
            let look = self.pair.client(end).send(self.look(evidence.route, end, Some(at.clone())));
            way = way_of(Self::wait(Some(look), LOOK_TIME)?).unwrap_or(way);
            interface = Some(at);
        }
        let Some(takes) = way.takes_arrivals else { return Ok(None) };
        let interface = interface.unwrap_or_default();
        let filter = way.reverse_path_filter;
        Ok(Some(match takes || passes {
            true => StepResult::Passed(Passed::Arrivals { filter }),
            false => {
                let route = way.routes.first().filter(|route| route.kind.leads_somewhere());
                let back_by = route.and_then(|route| route.interface.clone()).filter(|back| *back != interface);
                StepResult::Failed(Failed::Arrivals { interface, filter, back_by })
            }
        }))
    }

    /// The largest packets that pass each way.
    fn sizes(&mut self, evidence: &Evidence) -> Result<(), TrialError> {
        let passes_small = |end: End| evidence.reports[end].udp.as_ref().is_some_and(|udp| udp.answered > 0);
        let mtu = |end: End| evidence.ways[end].as_ref()?.interface.as_ref()?.mtu;
        let mtus = PerEndMtu { target: mtu(End::Target), host: mtu(End::Host) };
        let small = if evidence.route.target.is_ipv4() { 68 } else { 88 };
        let mut searches = PerEnd::of(|from| {
            let full = mtu(from).map(|mtu| mtu.min(LARGEST)).filter(|full| passes_small(from) && *full > small)?;
            Some(Search::new(small, full))
        });
        let rtt = evidence.reports.host.udp.iter().chain(&evidence.reports.target.udp);
        let rtt = rtt.filter_map(|udp| udp.median_ns).max().map_or(Duration::ZERO, Duration::from_nanos);
        let size_time = (3 * rtt + SIZE_TIME[0]).min(SIZE_TIME[1].max(2 * evidence.patience));
        let secret = secret()?;
        // A new secret, so that late packets of the round before are ignored.
        let witnesses = self.ask(|end| {
            let (local, peer) = (evidence.route[end], evidence.route[end.other()]);
            Some(Request::Witness { local, peer, interface: self.interfaces[end].clone(), secret })
        });
        let port_of = |reply| if let Some(Reply::Witnessing { udp, .. }) = reply { Some(udp) } else { None };
        let PerEnd { target: Some(target), host: Some(host) } = Self::told(witnesses, LOOK_TIME, port_of)? else {
            return Ok(());
        };
        let ports = PerEnd { target, host };
        let before = self.counters()?;
        let mut heard = PerEnd::<WitnessReport>::default();
        let sizes_began = Instant::now();
        while sizes_began.elapsed() < SIZES_TIME.max(3 * size_time) {
            let wanted = PerEnd::of(|from| searches[from].as_ref().and_then(Search::round));
            if wanted.target.is_none() && wanted.host.is_none() {
                break;
            }
            let probes = self.ask(|from| {
                let sizes = wanted[from].clone()?;
                let udp = Some(ports[from.other()]);
                let order = self.order(evidence, from, secret);
                let size_time_s = size_time.as_secs_f64();
                Some(Request::Probe(Box::new(ProbeOrder { sizes, udp, size_time_s, ..order })))
            });
            let reports = Self::told(probes, PROBE_TIME + size_time, report_of)?;
            heard = self.heard()?;
            searches = PerEnd::of(|from| {
                let mut search = searches[from].clone()?;
                search.learn(&reports[from], &heard[from.other()]);
                Some(search)
            });
            // More would queue behind what is still on its way.
            if rtt >= SLOW / 5 {
                self.settle(&mut searches, &mut heard)?;
            }
        }
        self.settle(&mut searches, &mut heard)?;
        let drops = drops(&before, &self.counters()?, &self.drivers);
        let routed = is_routed(&self.steps);
        for from in [End::Host, End::Target] {
            let Some(search) = &searches[from] else { continue };
            let came = search.came(from, &heard, mtus, &drops, &self.interfaces, routed);
            self.say(Probe::Size { from, octets: search.full }, came);
        }
        Ok(())
    }

    /// Waits for what a slow way is late with, where not all has passed.
    fn settle(
        &self,
        searches: &mut PerEnd<Option<Search>>,
        heard: &mut PerEnd<WitnessReport>,
    ) -> Result<(), TrialError> {
        let (mut passed, began) = (requests(heard), Instant::now());
        let mut last = began;
        let is_full = |search: &Option<Search>| search.as_ref().is_none_or(Search::is_full);
        while !(is_full(&searches.target) && is_full(&searches.host))
            && last.elapsed() < LATE_TIME[0] / 3
            && began.elapsed() < LATE_TIME[1]
            && !interrupt::requested()
        {
            std::thread::sleep(LOOK_AGAIN);
            *heard = self.heard()?;
            if requests(heard) != passed {
                (passed, last) = (requests(heard), Instant::now());
            }
            for (from, search) in [(End::Target, &mut searches.target), (End::Host, &mut searches.host)] {
                if let Some(search) = search {
                    search.learn_late(&heard[from.other()]);
                }
            }
        }
        Ok(())
    }

    /// The first step that has failed, of those that matter to the trial.
    fn cause(&self) -> Option<usize> {
        let failed = |(at, step): (usize, &Step)| step.has_failed().then_some(at);
        let Some(scope) = self.scope else { return self.steps.iter().enumerate().find_map(failed) };
        let is_of = |transport: Protocol| scope.transport == Some(transport);
        let matters = |step: &Step| match (step.probe, &step.came) {
            (Probe::Transport { transport, asker }, _) => is_of(transport) && asker == scope.asker,
            (_, StepResult::Failed(Failed::Route { protocol: Some(protocol), .. })) => is_of(*protocol),
            (Probe::Echo { .. }, _) => false,
            (Probe::Size { from, .. }, _) => scope.has_sender(from),
            (Probe::Closing { .. }, _) => is_of(Protocol::Tcp),
            (Probe::Ecn { asker }, _) => is_of(Protocol::Tcp) && scope.has_sender(asker),
            (Probe::Arrivals { .. } | Probe::Room { .. } | Probe::Flows { .. }, _) => scope.transport.is_some(),
            _ => true,
        };
        let first = |matters: &dyn Fn(&Step) -> bool| {
            self.steps.iter().enumerate().filter(|(_, step)| matters(step)).find_map(failed)
        };
        // What the trial needed most of all; then what else does not pass of its transport.
        let is_transport = |step: &&Step| matches!(step.probe, Probe::Transport { .. });
        // Where nothing passes, frames do not either.
        let is_dead = scope.transport.is_none() && self.steps.iter().filter(is_transport).all(Step::has_failed);
        let of_transport = |step: &Step| match step.probe {
            Probe::Transport { transport, .. } => is_of(transport) || is_dead,
            _ => false,
        };
        first(&matters).or_else(|| first(&of_transport))
    }
}

/// How many requests and answers each end heard.
fn requests(heard: &PerEnd<WitnessReport>) -> [u64; 2] {
    End::BOTH.map(|end| heard[end].requests())
}

fn replaced<T: Copy>(of: PerEnd<T>, end: End, value: T) -> PerEnd<T> {
    PerEnd::of(|one| if one == end { value } else { of[one] })
}

fn way_of(reply: Option<Reply>) -> Option<RouteInfo> {
    match reply {
        Some(Reply::Way(way)) => Some(*way),
        _ => None,
    }
}

fn nic_of(reply: Option<Reply>) -> Option<Nic> {
    match reply {
        Some(Reply::Environment(environment)) => {
            let Environment { nic, .. } = *environment;
            nic
        }
        _ => None,
    }
}

fn report_of(reply: Option<Reply>) -> ProbeReport {
    match reply {
        Some(Reply::Probed(report)) => *report,
        _ => ProbeReport::default(),
    }
}
