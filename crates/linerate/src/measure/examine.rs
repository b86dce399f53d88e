//! Why nothing comes through between two machines, from the bottom up: each end says what it knows of the way, both send
//! a handful of probes and hear the other's, and what each saw is put together.
//! Knows no sentences; steps are facts.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use linerate_control::message::{PROBE, ProbeOrder, Reply, Request, Secret};
use linerate_control::{ControlError, Pending};
use linerate_machine::end::{Direction, End, PerEnd};
use linerate_machine::environment::{Environment, Nic};
use linerate_machine::probe::{
    IcmpError, IcmpSaid, Packet, ProbeReport, Protocol, Refusal, Route as KernelRoute, RouteKind, Seen, TcpReached,
    TcpTried, Tried, Way, WitnessReport,
};
use linerate_path::budget::{LossLine, Seen as SeenDrops, drops_seen};
use linerate_path::stage::Counters;
use linerate_results::examination::{
    Came, Examination, Failed, FullRoom, Passed, PerEndMtu, Place, Probe, Step, Unknown,
};
use linerate_results::join::{Conducted, Route};
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Ip, Spec, Workload};

use super::error::{TrialError, of_control};
use super::pair::Pair;
use crate::interrupt;

/// How long an agent has to look at its own machine, and for probes.
const LOOK_TIME: Duration = Duration::from_secs(3);
const PROBE_TIME: Duration = Duration::from_secs(5);
/// No further size is tried after this time.
const SIZES_END: Duration = Duration::from_millis(4200);
/// How long the answers to packets of one size are waited for: the least, and the most.
const SIZE_TIME: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(900)];
/// Sizes that links, tunnels and switches usually have.
const USUAL: [u32; 16] =
    [9000, 8000, 4352, 4000, 2000, 1500, 1496, 1492, 1480, 1472, 1450, 1420, 1400, 1380, 1280, 576];
/// Sizes at once.
const AT_ONCE: u32 = 18;
/// The loopback's packets are larger than any that a trial sends.
const LARGEST: u32 = 65_000;
/// Where answers come within this time, those of ARP would have come too.
const SOON_NS: u64 = 100_000_000;
/// An agent that has fewer descriptors left cannot open what a trial needs.
const SPARE_DESCRIPTORS: u64 = 12;

/// What a trial needed: of all that does not pass, what explains its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    transport: Protocol,
    asker: End,
    direction: Direction,
    is_stream: bool,
    hops: Option<u8>,
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
            transport: if spec.workload.is_udp() { Protocol::Udp } else { Protocol::Tcp },
            // The target listens for streams, whichever way they go.
            asker: if of_requests && spec.direction == Direction::Tx { End::Target } else { End::Host },
            direction: spec.direction,
            is_stream: !of_requests,
            hops: spec.ttl,
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
    pub(crate) fn of(&mut self, pair: &Pair, conducted: &mut Conducted<TrialError>) -> Option<Examination> {
        let why = match &conducted.outcomes {
            Ok(outcomes) if nothing_arrived(outcomes) => None,
            Ok(_) => {
                self.known.clear();
                return None;
            }
            Err(error @ (TrialError::NotOpened(_) | TrialError::Traffic(_))) => Some(error.clone()),
            // Of what is refused, only that there are no addresses is the network's doing.
            Err(error @ TrialError::Refused(_)) if conducted.route.is_none() => {
                pair.route(conducted.spec.ip).is_err().then(|| error.clone())?.into()
            }
            Err(_) => return None,
        };
        if interrupt::requested() {
            return None;
        }
        let (scope, route) = (Scope::of(&conducted.spec), conducted.route);
        let known = self.known.iter().find(|(other, there, _)| (*other, *there) == (scope, route));
        let examination = match known {
            Some((.., examination)) => examination.clone(),
            None => {
                match examine(pair, conducted.spec.ip, Some(scope), &mut |_| {}) {
                    Ok(examination) => examination,
                    Err(error) => {
                        // A machine that is lost meanwhile is the news.
                        conducted.outcomes = Err(error);
                        return None;
                    }
                }
            }
        };
        if known.is_none() {
            self.known.push((scope, route, examination.clone()));
        }
        if let (Some(why), Some(cause)) = (why, examination.cause()) {
            conducted.outcomes = Err(match why {
                TrialError::NotOpened(_) => TrialError::NotOpened(cause.sentence()),
                // What was said when it died says already that a link is down.
                TrialError::Traffic(sentence) if !matches!(cause.probe, Probe::Link { .. }) => {
                    TrialError::Traffic(format!("{sentence}; {}", cause.sentence()))
                }
                why => why,
            });
        }
        Some(examination)
    }
}

/// Whether a flow that should have carried something carried nothing at all.
fn nothing_arrived(outcomes: &[Outcome; 2]) -> bool {
    let flows = || outcomes.iter().flat_map(|outcome| &outcome.flows);
    let sends = |flow: &&FlowOutcome| matches!(flow.role, Role::Sender | Role::Requester) && flow.messages_total > 0;
    let is_other = |one: &FlowOutcome, other: &FlowOutcome| {
        one.id == other.id && matches!(other.role, Role::Receiver | Role::Responder)
    };
    flows().filter(sends).any(|flow| {
        let unanswered = flow.role == Role::Requester && flow.messages_total == flow.timeouts.unwrap_or(0);
        unanswered || flows().filter(|other| is_other(flow, other)).any(|other| other.octets_total == 0)
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
    let mut examiner = Examiner { pair, scope, began: Instant::now(), steps: Vec::new(), heard };
    match pair.route(ip) {
        Ok(route) => examiner.run(route)?,
        Err(sentence) => examiner.say(Probe::Addresses, Came::Failed(Failed::NoAddresses { sentence })),
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
}

/// Everything that both ends know and saw.
struct Evidence {
    route: Route,
    ways: PerEnd<Option<Way>>,
    reports: PerEnd<ProbeReport>,
    heard: PerEnd<WitnessReport>,
    ports: PerEnd<(u16, u16)>,
    drops: Vec<LossLine>,
    /// Ends that have no socket for the other's probes, and why.
    refused: Vec<(End, String)>,
}

impl Examiner<'_> {
    fn say(&mut self, probe: Probe, came: Came) {
        let step = Step { probe, came };
        (self.heard)(&step);
        self.steps.push(step);
    }

    fn address(route: Route, end: End) -> IpAddr {
        if end == End::Target { route.target } else { route.host }
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

    fn run(&mut self, route: Route) -> Result<(), TrialError> {
        let able = PerEnd::of(|end| is_able(self.pair, end));
        let interfaces = PerEnd::of(|end| self.pair.interface(end, Self::address(route, end)).map(str::to_owned));
        let described =
            self.ask(|end| Some(Request::Describe { interface: interfaces[end].clone(), modules: Vec::new() }));
        let looked = self.ask(|end| able[end].then(|| self.look(route, end, interfaces[end].clone())));
        let described = [described.target, described.host].map(|one| Self::wait(one, LOOK_TIME));
        let looked = [looked.target, looked.host].map(|one| Self::wait(one, LOOK_TIME));
        let [target, host] = looked;
        let ways = PerEnd { target: way_of(target?), host: way_of(host?) };
        let [target, host] = described;
        let nics = PerEnd { target: nic_of(target?), host: nic_of(host?) };
        let mut links_are_up = true;
        for end in End::BOTH {
            let came = self.link(end, &ways[end], &nics[end]);
            links_are_up &= !matches!(came, Came::Failed(_));
            self.say(Probe::Link { end }, came);
        }
        if !links_are_up {
            return Ok(());
        }
        if route.target == route.host && !self.pair.is_one() {
            self.say(Probe::Addresses, Came::Failed(Failed::SameAddress { address: route.target }));
            return Ok(());
        }
        self.say(Probe::Addresses, Came::Passed(Passed::Addresses { target: route.target, host: route.host }));
        for end in End::BOTH {
            let gone = ways[end].as_ref().is_some_and(|way| way.has_address == Some(false));
            if let (true, Some(interface)) = (gone, interfaces[end].clone()) {
                let address = Self::address(route, end);
                self.say(Probe::Address { end }, Came::Failed(Failed::AddressGone { address, interface }));
                return Ok(());
            }
        }
        let evidence = self.probe(route, ways, &interfaces, &able)?;
        self.conclude(&evidence, &interfaces, &able)?;
        if able.target && able.host {
            self.transports(&evidence, Protocol::Udp);
            self.sizes(&evidence, &interfaces)?;
            // Last, for a connection moves full segments too.
            self.transports(&evidence, Protocol::Tcp);
        }
        // Witnesses end.
        for stop in End::BOTH.map(|end| able[end].then(|| self.pair.client(end).send(Request::Stop))) {
            Self::wait(stop, LOOK_TIME)?;
        }
        Ok(())
    }

    fn look(&self, route: Route, end: End, interface: Option<String>) -> Request {
        let (local, peer) = (Self::address(route, end), Self::address(route, end.other()));
        Request::Way { local, peer, interface }
    }

    fn link(&self, end: End, way: &Option<Way>, nic: &Option<Nic>) -> Came {
        let state = way.as_ref().and_then(|way| way.interface.as_ref());
        match (state, nic) {
            (Some(state), _) if !state.up => Came::Failed(Failed::SetDown { interface: state.name.clone() }),
            (Some(state), _) if state.carrier == Some(false) => {
                Came::Failed(Failed::NoCarrier { interface: state.name.clone() })
            }
            (_, Some(nic)) if nic.link_detected == Some(false) => {
                Came::Failed(Failed::NoCarrier { interface: nic.name.clone() })
            }
            (_, Some(nic)) => Came::Passed(Passed::Link {
                interface: nic.name.clone(),
                driver: nic.driver.clone(),
                speed_mbps: nic.speed_mbps,
                duplex: nic.duplex.clone(),
                mtu: nic.mtu,
            }),
            (_, None) if end == End::Target && self.pair.foreign.is_some() => Came::Unknown(Unknown::NoAgent { end }),
            _ => Came::Unknown(Unknown::NotTold),
        }
    }

    /// Both ends listen, then both probe; all at the same time.
    fn probe(
        &mut self,
        route: Route,
        ways: PerEnd<Option<Way>>,
        interfaces: &PerEnd<Option<String>>,
        able: &PerEnd<bool>,
    ) -> Result<Evidence, TrialError> {
        let both = able.target && able.host;
        let mut evidence = Evidence {
            route,
            ways,
            reports: PerEnd::default(),
            heard: PerEnd::default(),
            ports: PerEnd::default(),
            drops: Vec::new(),
            refused: Vec::new(),
        };
        let secret = secret()?;
        let mut listening = false;
        if both {
            let witnesses = self.ask(|end| {
                let (local, peer) = (Self::address(route, end), Self::address(route, end.other()));
                Some(Request::Witness { local, peer, interface: interfaces[end].clone(), secret })
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
        let before = self.counters(interfaces)?;
        let probes = self.ask(|end| {
            able[end].then(|| {
                let (udp, tcp) = evidence.ports[end.other()];
                let ports = listening.then_some((udp, tcp));
                let order = ProbeOrder {
                    echo: true,
                    arp: !self.pair.is_one(),
                    udp: ports.map(|ports| ports.0),
                    tcp: ports.map(|ports| ports.1),
                    hops: self.scope.and_then(|scope| scope.hops),
                    ..self.order(&evidence, end, interfaces, secret)
                };
                Request::Probe(Box::new(order))
            })
        });
        let [target, host] = [probes.target, probes.host].map(|one| Self::wait(one, PROBE_TIME));
        evidence.reports = PerEnd { target: report_of(target?), host: report_of(host?) };
        if listening {
            evidence.heard = self.heard()?;
        }
        evidence.drops = drops(&before, &self.counters(interfaces)?);
        Ok(evidence)
    }

    fn order(&self, evidence: &Evidence, end: End, interfaces: &PerEnd<Option<String>>, secret: Secret) -> ProbeOrder {
        ProbeOrder {
            local: Self::address(evidence.route, end),
            peer: Self::address(evidence.route, end.other()),
            interface: interfaces[end].clone(),
            secret,
            echo: false,
            arp: false,
            udp: None,
            tcp: None,
            sizes: Vec::new(),
            size_time_s: 0.0,
            hops: None,
        }
    }

    fn heard(&self) -> Result<PerEnd<WitnessReport>, TrialError> {
        let asked = self.ask(|_| Some(Request::Heard));
        let [target, host] = [asked.target, asked.host].map(|one| Self::wait(one, LOOK_TIME));
        let of = |reply: Option<Reply>| match reply {
            Some(Reply::Heard(report)) => *report,
            _ => WitnessReport::default(),
        };
        Ok(PerEnd { target: of(target?), host: of(host?) })
    }

    fn counters(&self, interfaces: &PerEnd<Option<String>>) -> Result<PerEnd<Counters>, TrialError> {
        let asked = self.ask(|end| Some(Request::Counters { interface: interfaces[end].clone().unwrap_or_default() }));
        let [target, host] = [asked.target, asked.host].map(|one| Self::wait(one, LOOK_TIME));
        let of = |reply: Option<Reply>| match reply {
            Some(Reply::Counters { counters, .. }) => counters,
            _ => Counters::default(),
        };
        Ok(PerEnd { target: of(target?), host: of(host?) })
    }

    /// Makes the steps of what is known, from the bottom up.
    fn conclude(
        &mut self,
        evidence: &Evidence,
        interfaces: &PerEnd<Option<String>>,
        able: &PerEnd<bool>,
    ) -> Result<(), TrialError> {
        let both = able.target && able.host;
        let is_one = self.pair.is_one();
        for end in End::BOTH.into_iter().filter(|end| !is_one && able[*end]) {
            if let Some(came) = evidence.of_address(end) {
                self.say(Probe::Address { end }, came);
            }
        }
        for from in End::BOTH.into_iter().filter(|end| able[*end]) {
            self.say(Probe::Route { from }, evidence.of_route(from, both));
        }
        for end in End::BOTH.into_iter().filter(|_| !is_one && both) {
            if let Some(came) = self.arrivals(evidence, end, interfaces)? {
                self.say(Probe::Arrivals { end }, came);
            }
        }
        for from in End::BOTH.into_iter().filter(|end| !is_one && able[*end]) {
            if let Some(came) = evidence.of_neighbour(from, able[from.other()]) {
                self.say(Probe::Neighbour { from }, came);
            }
        }
        for end in End::BOTH.into_iter().filter(|end| able[*end]) {
            if let Some(came) = evidence.of_room(end, both) {
                self.say(Probe::Room { end }, came);
            }
        }
        let asked = self.scope.and_then(|scope| scope.hops).is_some();
        for from in End::BOTH.into_iter().filter(|_| !is_one && both) {
            if let Some(came) = evidence.of_hops(from, asked) {
                self.say(Probe::Hops { from }, came);
            }
        }
        for asker in [End::Host, End::Target].into_iter().filter(|end| able[*end]) {
            let came = evidence.of_echo(asker, both);
            self.say(Probe::Echo { asker }, came);
        }
        Ok(())
    }

    fn transports(&mut self, evidence: &Evidence, transport: Protocol) {
        for asker in [End::Host, End::Target] {
            let came = evidence.of_transport(transport, asker);
            self.say(Probe::Transport { transport, asker }, came);
        }
    }

    /// Whether the kernel of an end takes what comes from the other end, at the interface where it comes.
    fn arrivals(
        &self,
        evidence: &Evidence,
        end: End,
        interfaces: &PerEnd<Option<String>>,
    ) -> Result<Option<Came>, TrialError> {
        let Some(way) = &evidence.ways[end] else { return Ok(None) };
        let passes = evidence.arrives(end);
        let mut way = way.clone();
        let mut interface = interfaces[end].clone();
        if let Some(at) = evidence.arrives_at(end).filter(|at| !passes && Some(at) != interface.as_ref()) {
            let look = self.pair.client(end).send(self.look(evidence.route, end, Some(at.clone())));
            way = way_of(Self::wait(Some(look), LOOK_TIME)?).unwrap_or(way);
            interface = Some(at);
        }
        let Some(takes) = way.takes_arrivals else { return Ok(None) };
        let interface = interface.unwrap_or_default();
        let filter = way.reverse_path_filter;
        Ok(Some(match takes || passes {
            true => Came::Passed(Passed::Arrivals { filter }),
            false => {
                let route = way.routes.first().filter(|route| route.kind.leads_somewhere());
                let back_by = route.and_then(|route| route.interface.clone()).filter(|back| *back != interface);
                Came::Failed(Failed::Arrivals { interface, filter, back_by })
            }
        }))
    }

    /// The largest packets that pass each way.
    fn sizes(&mut self, evidence: &Evidence, interfaces: &PerEnd<Option<String>>) -> Result<(), TrialError> {
        let passes_small = |end: End| evidence.reports[end].udp.as_ref().is_some_and(|udp| udp.answered > 0);
        let mtu = |end: End| evidence.ways[end].as_ref()?.interface.as_ref()?.mtu;
        let mtus = PerEndMtu { target: mtu(End::Target), host: mtu(End::Host) };
        let small = if evidence.route.target.is_ipv4() { 68 } else { 88 };
        let mut searches = PerEnd::of(|from| {
            let full = mtu(from).map(|mtu| mtu.min(LARGEST)).filter(|full| passes_small(from) && *full > small)?;
            Some(Search { full, passes: small, fails: full + 1, told: None, sizes: vec![full] })
        });
        let rtt = evidence.reports.host.udp.iter().chain(&evidence.reports.target.udp);
        let rtt = rtt.filter_map(|udp| udp.median_ns).max().map_or(Duration::ZERO, Duration::from_nanos);
        let size_time = (3 * rtt + SIZE_TIME[0]).clamp(SIZE_TIME[0], SIZE_TIME[1]);
        let secret = secret()?;
        // A new secret, so that what is late from before is nobody's.
        let witnesses = self.ask(|end| {
            let (local, peer) = (Self::address(evidence.route, end), Self::address(evidence.route, end.other()));
            Some(Request::Witness { local, peer, interface: interfaces[end].clone(), secret })
        });
        let [target, host] = [witnesses.target, witnesses.host].map(|one| Self::wait(one, LOOK_TIME));
        let (Some(Reply::Witnessing { udp: of_target, .. }), Some(Reply::Witnessing { udp: of_host, .. })) =
            (target?, host?)
        else {
            return Ok(());
        };
        let ports = PerEnd { target: of_target, host: of_host };
        let before = self.counters(interfaces)?;
        let mut heard = PerEnd::<WitnessReport>::default();
        while self.began.elapsed() < SIZES_END {
            let wanted = PerEnd::of(|from| searches[from].as_ref().map(|search| search.sizes.clone()));
            let is_wanted = |sizes: &Option<Vec<u32>>| sizes.as_ref().is_some_and(|sizes| !sizes.is_empty());
            if !is_wanted(&wanted.target) && !is_wanted(&wanted.host) {
                break;
            }
            let probes = self.ask(|from| {
                let sizes = wanted[from].clone().filter(|sizes| !sizes.is_empty())?;
                let udp = Some(ports[from.other()]);
                let order = self.order(evidence, from, interfaces, secret);
                let size_time_s = size_time.as_secs_f64();
                Some(Request::Probe(Box::new(ProbeOrder { sizes, udp, size_time_s, ..order })))
            });
            let [target, host] = [probes.target, probes.host].map(|one| Self::wait(one, PROBE_TIME));
            let reports = PerEnd { target: report_of(target?), host: report_of(host?) };
            heard = self.heard()?;
            searches = PerEnd::of(|from| {
                let mut search = searches[from].clone()?;
                search.learn(&reports[from], &heard[from.other()]);
                Some(search)
            });
        }
        let drops = drops(&before, &self.counters(interfaces)?);
        for from in [End::Host, End::Target] {
            let Some(search) = &searches[from] else { continue };
            let came = search.came(from, &heard, mtus, &drops, interfaces);
            self.say(Probe::Size { from, octets: search.full }, came);
        }
        Ok(())
    }

    /// The first step that has failed, of those that matter to the trial.
    fn cause(&self) -> Option<usize> {
        let failed = |(at, step): (usize, &Step)| step.has_failed().then_some(at);
        let Some(scope) = self.scope else { return self.steps.iter().enumerate().find_map(failed) };
        let matters = |step: &Step| match (step.probe, &step.came) {
            (Probe::Transport { transport, asker }, _) => transport == scope.transport && asker == scope.asker,
            (_, Came::Failed(Failed::Route { protocol: Some(protocol), .. })) => *protocol == scope.transport,
            (Probe::Echo { .. }, _) => false,
            (Probe::Size { from, .. }, _) => scope.has_sender(from),
            _ => true,
        };
        let first = |matters: &dyn Fn(&Step) -> bool| {
            self.steps.iter().enumerate().filter(|(_, step)| matters(step)).find_map(failed)
        };
        // What the trial needed most of all; then what else does not pass of its transport.
        let of_transport =
            |step: &Step| matches!(step.probe, Probe::Transport { transport, .. } if transport == scope.transport);
        first(&matters).or_else(|| first(&of_transport))
    }
}

fn replaced<T: Copy>(of: PerEnd<T>, end: End, value: T) -> PerEnd<T> {
    PerEnd::of(|one| if one == end { value } else { of[one] })
}

fn secret() -> Result<Secret, TrialError> {
    let mut octets = [0; 16];
    getrandom::fill(&mut octets)
        .map_err(|error| TrialError::Refused(format!("this machine gives no random numbers ({error}); try again")))?;
    Ok(Secret(octets))
}

fn way_of(reply: Option<Reply>) -> Option<Way> {
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

/// What both ends saw dropped in between, whichever way it went.
pub(crate) fn drops(before: &PerEnd<Counters>, after: &PerEnd<Counters>) -> Vec<LossLine> {
    let grown = PerEnd::of(|end| after[end].since(&before[end]));
    let seen = |end: End| SeenDrops::new(end, &grown[end], None);
    let (target, host) = (seen(End::Target), seen(End::Host));
    let mut lines = drops_seen(false, None, &host, &target);
    let back = drops_seen(false, None, &target, &host);
    lines.lines.extend(back.lines);
    lines.lines.extend(lines.benign_drops);
    lines.lines.extend(back.benign_drops);
    lines.lines.dedup();
    lines.lines
}

/// The search for the largest packet that passes one way.
#[derive(Clone)]
struct Search {
    full: u32,
    passes: u32,
    fails: u32,
    /// What ICMP says, and who.
    told: Option<(u32, Option<IpAddr>)>,
    /// To try next; none: it is known.
    sizes: Vec<u32>,
}

impl Search {
    fn learn(&mut self, report: &ProbeReport, heard: &WitnessReport) {
        let arrived = |octets: u32| heard.datagrams.iter().any(|(one, _)| *one == octets);
        for one in &report.sizes {
            if arrived(one.octets) {
                self.passes = self.passes.max(one.octets);
            } else if one.sent > 0 || one.too_large {
                self.fails = self.fails.min(one.octets);
            }
            self.told = self.told.or(one.told_mtu.map(|told| (told.octets, told.by)));
        }
        // Packets of one size may be lost by chance; what passes decides.
        self.fails = self.fails.max(self.passes + 1);
        let tried = |size: &u32| report.sizes.iter().any(|one| one.octets == *size);
        self.sizes = match self.told {
            _ if self.fails - self.passes <= 1 => Vec::new(),
            Some((told, _)) if told > self.passes && told < self.fails && !tried(&told) => vec![told],
            _ => self.between(),
        };
        if report.sizes.is_empty() {
            self.sizes.clear();
        }
        // What ICMP says is the answer, once that much has passed.
        if self.told.is_some_and(|(told, _)| told == self.passes) {
            self.sizes.clear();
        }
    }

    /// Usual sizes first, then evenly between.
    fn between(&self) -> Vec<u32> {
        let inside = self.passes + 1..self.fails;
        let usual: Vec<u32> = USUAL.into_iter().filter(|size| inside.contains(size)).collect();
        let is_first = self.fails == self.full && self.passes < USUAL[USUAL.len() - 1];
        if is_first && !usual.is_empty() {
            return usual;
        }
        let room = self.fails - self.passes;
        let parts = room.min(AT_ONCE + 1);
        (1..parts).map(|part| self.passes + (u64::from(room) * u64::from(part) / u64::from(parts)) as u32).collect()
    }

    fn came(
        &self,
        from: End,
        heard: &PerEnd<WitnessReport>,
        mtus: PerEndMtu,
        drops: &[LossLine],
        interfaces: &PerEnd<Option<String>>,
    ) -> Came {
        if self.passes >= self.full {
            return Came::Passed(Passed::Size { octets: self.full, told_by: None });
        }
        if let Some((told, Some(by))) = self.told
            && self.passes >= told
        {
            return Came::Passed(Passed::Size { octets: self.passes, told_by: Some(by) });
        }
        let full = |end: End, left: bool| {
            let packets = heard[end].packets.as_ref()?;
            let is_it = |what: Packet| matches!(what, Packet::Datagram { octets } if octets == self.full);
            Some(packets.iter().find(|seen| seen.left == left && is_it(seen.what)))
        };
        let place = match (full(from, true), full(from.other(), false)) {
            (Some(None), _) => Some(Place::NotOut { interface: interfaces[from].clone() }),
            (_, Some(Some(seen))) => Some(Place::NotUp { interface: seen.interface.clone(), expected: None }),
            _ => None,
        };
        Came::Failed(Failed::Size { largest: self.passes, mtus, place, drops: drops.to_vec() })
    }
}

impl Evidence {
    fn address(&self, end: End) -> IpAddr {
        Examiner::address(self.route, end)
    }

    fn interface(&self, end: End) -> Option<String> {
        self.ways[end].as_ref()?.interface.as_ref().map(|interface| interface.name.clone())
    }

    /// Anything at all came from the other end to a socket of this one.
    fn arrives(&self, end: End) -> bool {
        let heard = &self.heard[end];
        let report = &self.reports[end];
        let answered = |tried: &Option<_>| tried.as_ref().is_some_and(|tried: &Tried| tried.answered > 0);
        !heard.datagrams.is_empty()
            || heard.connections > 0
            || answered(&report.udp)
            || answered(&report.echo)
            || report.tcp.as_ref().is_some_and(|tcp| tcp.reached > TcpReached::Nothing)
    }

    /// How many packets of a kind an end saw; `None`: it sees none.
    fn seen(&self, end: End, left: bool, is: impl Fn(Packet) -> bool) -> Option<Vec<&Seen>> {
        let packets = self.heard[end].packets.as_ref()?;
        Some(packets.iter().filter(|seen| seen.left == left && is(seen.what)).collect())
    }

    /// The interface at which packets from the other end come in, where that is not the usual one only.
    fn arrives_at(&self, end: End) -> Option<String> {
        let came = self.seen(end, false, |what| !matches!(what, Packet::Error { .. }))?;
        let own = self.interface(end);
        let usual = came.iter().any(|seen| Some(&seen.interface) == own.as_ref());
        came.first().filter(|_| !usual).map(|seen| seen.interface.clone())
    }

    fn of_address(&self, end: End) -> Option<Came> {
        let address = self.address(end);
        let way = self.ways[end].as_ref()?;
        if let Some(detection) = way.detection.filter(|_| !self.arrives(end)) {
            return Some(Came::Failed(Failed::Detection { address, detection }));
        }
        let report = &self.reports[end];
        let mut others: Vec<String> = Vec::new();
        let foreign = |mac: &&String| !way.hardware_addresses.contains(mac);
        others.extend(report.answer_for_own.iter().filter(foreign).cloned());
        // The other end asked for this one's address too, unless a router is between.
        let theirs = &self.reports[end.other()];
        let asked_for_it = theirs.neighbour.as_ref().is_some_and(|neighbour| neighbour.address == address);
        let answers = &theirs.answer_for_next_hop;
        if asked_for_it && answers.iter().any(|mac| !foreign(&mac)) {
            others.extend(answers.iter().filter(foreign).cloned());
        }
        others.sort();
        others.dedup();
        match (others.is_empty(), report.asked_arp) {
            (false, _) => Some(Came::Failed(Failed::Duplicate { address, others })),
            (true, true) => Some(Came::Passed(Passed::Address { address })),
            (true, false) if address.is_ipv6() => Some(Came::Passed(Passed::Address { address })),
            (true, false) => Some(Came::Unknown(Unknown::NotPermitted { end })),
        }
    }

    fn of_route(&self, from: End, both: bool) -> Came {
        let Some(way) = &self.ways[from] else { return Came::Unknown(Unknown::NotTold) };
        let to = self.address(from.other());
        let passes = both && self.arrives(from.other());
        let fails = |route: &&KernelRoute| match route.protocol {
            _ if route.kind.leads_somewhere() => false,
            None => !passes,
            Some(Protocol::Echo) => self.reports[from].echo.as_ref().is_none_or(|echo| echo.answered == 0),
            Some(Protocol::Udp) => {
                !both || self.heard[from.other()].datagrams.is_empty() || !self.is_answered(from.other(), Protocol::Udp)
            }
            Some(Protocol::Tcp) => {
                !both || !self.is_answered(from, Protocol::Tcp) || !self.is_answered(from.other(), Protocol::Tcp)
            }
        };
        let general = way.routes.iter().find(|route| route.protocol.is_none());
        if let Some(route) = way.routes.iter().find(fails) {
            return Came::Failed(Failed::Route { to, kind: route.kind, protocol: route.protocol });
        }
        let own = self.interface(from).filter(|_| both && !passes);
        let astray = general.and_then(|route| Some((route.interface.clone()?, own?)));
        if let Some((interface, expected)) = astray.filter(|(by, own)| by != own) {
            return Came::Failed(Failed::Astray { to, interface, expected });
        }
        match general {
            Some(route) => Came::Passed(Passed::Route {
                interface: route.interface.clone(),
                gateway: route.gateway,
                local: route.kind == RouteKind::Local,
            }),
            None => Came::Unknown(Unknown::NotTold),
        }
    }

    fn is_answered(&self, asker: End, transport: Protocol) -> bool {
        let report = &self.reports[asker];
        match transport {
            Protocol::Echo => report.echo.as_ref().is_some_and(|echo| echo.answered > 0),
            Protocol::Udp => report.udp.as_ref().is_some_and(|udp| udp.answered > 0),
            Protocol::Tcp => report.tcp.as_ref().is_some_and(|tcp| tcp.reached >= TcpReached::Answered),
        }
    }

    fn of_neighbour(&self, from: End, knows_other: bool) -> Option<Came> {
        let neighbour = self.reports[from].neighbour.as_ref()?;
        let (address, interface) = (neighbour.address, neighbour.interface.clone());
        let is_router = address != self.address(from.other());
        let passes = self.arrives(from.other()) || self.is_answered(from, Protocol::Echo);
        let silent = || Some(Came::Failed(Failed::NoNeighbour { address, interface: interface.clone(), is_router }));
        let Some(mac) = neighbour.mac.clone() else { return (!passes).then(silent).flatten() };
        // The entry may be there because the other end has asked: it does not last if nobody answers.
        let report = &self.reports[from];
        let soon = report.echo.as_ref().and_then(|echo| echo.median_ns).is_some_and(|ns| ns < SOON_NS);
        let unanswered = report.asked_arp && report.answer_for_next_hop.is_empty();
        let is_here = self.interface(from).as_ref() == Some(&interface);
        if unanswered && soon && is_here && !neighbour.permanent {
            return silent();
        }
        let right = self.ways[from.other()].as_ref().map(|way| &way.hardware_addresses);
        let right = right.filter(|_| knows_other && !is_router && !passes);
        match right.filter(|right| !right.is_empty() && !right.contains(&mac)) {
            None => Some(Came::Passed(Passed::Neighbour { address, mac })),
            Some(all) => {
                let own = self.ways[from.other()].as_ref().and_then(|way| way.interface.as_ref()?.mac.clone());
                let right = own.map_or_else(|| all.clone(), |own| vec![own]);
                let permanent = neighbour.permanent;
                Some(Came::Failed(Failed::WrongNeighbour { address, interface, mac, permanent, right }))
            }
        }
    }

    fn of_room(&self, end: End, both: bool) -> Option<Came> {
        let way = self.ways[end].as_ref()?;
        let all_pass = both
            && End::BOTH
                .iter()
                .all(|asker| self.is_answered(*asker, Protocol::Udp) && self.is_answered(*asker, Protocol::Tcp));
        if let Some(room) = way.descriptors.filter(|room| room.used + SPARE_DESCRIPTORS > room.of) {
            return Some(Came::Failed(Failed::Full { room: FullRoom::Descriptors, used: room.used, of: room.of }));
        }
        if let Some(room) = way.tracked_connections.filter(|room| room.used >= room.of && !all_pass) {
            return Some(Came::Failed(Failed::Full {
                room: FullRoom::TrackedConnections,
                used: room.used,
                of: room.of,
            }));
        }
        if let Some((_, sentence)) = self.refused.iter().find(|(one, _)| *one == end) {
            return Some(Came::Failed(Failed::NoSocket { sentence: sentence.clone() }));
        }
        way.descriptors.map(|_| Came::Passed(Passed::Room))
    }

    fn of_echo(&self, asker: End, both: bool) -> Came {
        let answerer = asker.other();
        let Some(echo) = &self.reports[asker].echo else { return Came::Unknown(Unknown::NotPermitted { end: asker }) };
        if echo.answered > 0 {
            let median_s = echo.median_ns.map(|ns| ns as f64 / 1e9);
            return Came::Passed(Passed::Answered { answered: echo.answered.into(), median_s });
        }
        if self.ways[answerer].as_ref().is_some_and(|way| way.ignores_echo == Some(true)) {
            return Came::Unknown(Unknown::EchoIgnored { end: answerer });
        }
        let passes = [Protocol::Udp, Protocol::Tcp].into_iter().any(|one| self.is_answered(asker, one));
        if passes {
            return Came::Unknown(Unknown::EchoFiltered);
        }
        if !both {
            return Came::Unknown(Unknown::NotAnswered);
        }
        let (from, is_answer, place) = self.lost_echo(asker, echo);
        self.lost(from, is_answer, place, Protocol::Echo)
    }

    fn of_transport(&self, transport: Protocol, asker: End) -> Came {
        let report = &self.reports[asker];
        let found = match transport {
            Protocol::Tcp => report.tcp.as_ref().map(|tcp| {
                if tcp.reached == TcpReached::Filled {
                    return Ok((0, tcp.handshake_ns));
                }
                Err(self.lost_tcp(asker, tcp))
            }),
            _ => report.udp.as_ref().map(|udp| {
                if udp.answered > 0 {
                    return Ok((udp.answered, udp.median_ns));
                }
                Err(self.lost_udp(asker, udp))
            }),
        };
        match found {
            None => Came::Unknown(Unknown::NotTried),
            Some(Ok((0, ns))) => Came::Passed(Passed::Connected { handshake_s: ns.map(|ns| ns as f64 / 1e9) }),
            Some(Ok((answered, ns))) => {
                Came::Passed(Passed::Answered { answered: answered.into(), median_s: ns.map(|ns| ns as f64 / 1e9) })
            }
            Some(Err((from, is_answer, place))) => self.lost(from, is_answer, place, transport),
        }
    }

    fn lost(&self, from: End, is_answer: bool, place: Place, of: Protocol) -> Came {
        let everything = self.is_everything(from, &place, of);
        let drops = self.drops.clone();
        Came::Failed(Failed::Lost { from, is_answer, place, everything, drops })
    }

    /// Whether all that goes this way is lost in the same kind of place.
    fn is_everything(&self, from: End, place: &Place, of: Protocol) -> bool {
        let same = |(end, _, other): (End, bool, Place)| {
            end == from && std::mem::discriminant(&other) == std::mem::discriminant(place)
        };
        let report = &self.reports[from];
        let udp = report.udp.as_ref().filter(|udp| udp.answered == 0).is_some_and(|udp| same(self.lost_udp(from, udp)));
        let tcp = report.tcp.as_ref().filter(|tcp| tcp.reached == TcpReached::Nothing);
        let tcp = tcp.is_some_and(|tcp| same(self.lost_tcp(from, tcp)));
        let echo = report.echo.as_ref().is_none_or(|echo| echo.answered == 0);
        match of {
            _ if !echo => false,
            _ => udp && tcp,
        }
    }

    /// Who sent an ICMP error.
    fn sayer(&self, by: Option<IpAddr>) -> Option<End> {
        End::BOTH.into_iter().find(|end| Some(self.address(*end)) == by)
    }

    /// An ICMP error that an end saw about its packets of this protocol; or, of what is no matter of protocols, about any of
    /// them: routers send few such errors a second (RFC 1812, section 4.3.2.8).
    fn icmp_about(&self, end: End, protocol: Protocol) -> Option<Place> {
        let of_routing =
            |what| matches!(what, IcmpError::NetUnreachable | IcmpError::HostUnreachable | IcmpError::TimeExceeded);
        let is_about = |packet: Packet| match packet {
            Packet::Error { about, what, .. } => about == Some(protocol) || of_routing(what),
            _ => false,
        };
        let errors = self.seen(end, false, is_about)?;
        errors.iter().find_map(|seen| match seen.what {
            Packet::Error { by, what, .. } => {
                let said = IcmpSaid { by: Some(by), what };
                Some(Place::Icmp { end: self.sayer(Some(by)), said })
            }
            _ => None,
        })
    }

    fn icmp_said(&self, tried: &Tried) -> Option<Place> {
        let said = tried.icmp.first()?.clone();
        Some(Place::Icmp { end: self.sayer(said.by), said })
    }

    /// Where packets were lost that one end sent and the other did not get, by what both saw of them.
    fn place(&self, from: End, is: impl Fn(Packet) -> bool + Copy) -> Place {
        let to = from.other();
        let (left, came) = (self.seen(from, true, is), self.seen(to, false, is));
        match (left, came) {
            (Some(left), _) if left.is_empty() => {
                let by = self.ways[from].as_ref().and_then(|way| way.routes.first()?.interface.clone());
                Place::NotOut { interface: by.or_else(|| self.interface(from)) }
            }
            (_, Some(came)) if came.is_empty() => {
                let mut left_by: Vec<String> =
                    self.seen(from, true, is).unwrap_or_default().iter().map(|seen| seen.interface.clone()).collect();
                left_by.sort();
                left_by.dedup();
                if left_by.is_empty() {
                    return Place::Unseen;
                }
                Place::Between { left_by, expected: self.interface(from), arrives_at: self.interface(to) }
            }
            (_, Some(came)) if came.iter().all(|seen| seen.for_another) => {
                Place::ForAnother { interface: came[0].interface.clone() }
            }
            (_, Some(came)) => {
                let own = self.interface(to);
                let at = came.iter().find(|seen| Some(&seen.interface) == own.as_ref()).unwrap_or(&came[0]);
                Place::NotUp { interface: at.interface.clone(), expected: own }
            }
            (_, None) => Place::Unseen,
        }
    }

    fn lost_udp(&self, asker: End, udp: &Tried) -> (End, bool, Place) {
        let answerer = asker.other();
        if !self.heard[answerer].datagrams.is_empty() {
            if let Some(refusal) = self.heard[answerer].answer_refusal.clone() {
                return (answerer, true, Place::Refused { refusal });
            }
            let icmp = self.icmp_about(answerer, Protocol::Udp);
            let place = icmp.unwrap_or_else(|| self.place(answerer, |what| what == Packet::DatagramAnswer));
            return (answerer, true, place);
        }
        if let Some(refusal @ (Refusal::NotPermitted | Refusal::NoDescriptors | Refusal::NoPort)) = udp.refusal.clone()
        {
            return (asker, false, Place::Refused { refusal });
        }
        let icmp = self.icmp_said(udp).or_else(|| self.icmp_about(asker, Protocol::Udp));
        let place = match (icmp, udp.refusal.clone()) {
            (Some(place), _) => place,
            (None, Some(refusal)) => Place::Refused { refusal },
            (None, None) => self.place(asker, |what| matches!(what, Packet::Datagram { .. })),
        };
        (asker, false, place)
    }

    fn lost_tcp(&self, asker: End, tcp: &TcpTried) -> (End, bool, Place) {
        let answerer = asker.other();
        let port = self.ports[answerer].1;
        if tcp.reached > TcpReached::Nothing {
            return (asker, false, Place::Stalled { reached: tcp.reached });
        }
        let icmp = self.icmp_about(asker, Protocol::Tcp);
        let refusal = tcp.refusal.clone().filter(|refusal| *refusal != Refusal::TimedOut);
        if let Some(refusal @ (Refusal::NotPermitted | Refusal::NoDescriptors | Refusal::NoPort)) = refusal {
            return (asker, false, Place::Refused { refusal });
        }
        if let Some(icmp) = icmp {
            return (asker, false, icmp);
        }
        let is_reset = |what: Packet| what == Packet::Reset { port };
        if matches!(refusal, Some(Refusal::Refused | Refusal::Reset)) {
            let sees = self.seen(answerer, true, is_reset);
            let end = match sees {
                Some(resets) => (!resets.is_empty()).then_some(answerer),
                None => Some(answerer),
            };
            return (asker, false, Place::Reset { end });
        }
        if let Some(refusal) = refusal {
            return (asker, false, Place::Refused { refusal });
        }
        let answers = self.seen(answerer, true, |what| what == Packet::SynAck { port });
        if answers.is_some_and(|answers| !answers.is_empty()) {
            let icmp = self.icmp_about(answerer, Protocol::Tcp);
            let place = icmp.unwrap_or_else(|| self.place(answerer, move |what| what == Packet::SynAck { port }));
            return (answerer, true, place);
        }
        if self.heard[answerer].half_open {
            let interface = self.ways[answerer].as_ref().and_then(|way| way.routes.first()?.interface.clone());
            return (answerer, true, Place::NotOut { interface });
        }
        (asker, false, self.place(asker, move |what| what == Packet::Syn { port }))
    }

    fn lost_echo(&self, asker: End, echo: &Tried) -> (End, bool, Place) {
        let answerer = asker.other();
        let replies = self.seen(answerer, true, |what| what == Packet::EchoReply);
        if replies.is_some_and(|replies| !replies.is_empty()) {
            let icmp = self.icmp_about(answerer, Protocol::Echo);
            return (answerer, true, icmp.unwrap_or_else(|| self.place(answerer, |what| what == Packet::EchoReply)));
        }
        let icmp = self.icmp_said(echo).or_else(|| self.icmp_about(asker, Protocol::Echo));
        let place = match (icmp, echo.refusal.clone()) {
            (Some(place), _) => place,
            (None, Some(refusal)) => Place::Refused { refusal },
            (None, None) => self.place(asker, |what| what == Packet::EchoRequest),
        };
        (asker, false, place)
    }

    /// Routers between, and whether what an end sends gets over them; `None`: it is not known.
    fn of_hops(&self, from: End, asked: bool) -> Option<Came> {
        let to = from.other();
        let udp = self.reports[from].udp.as_ref()?;
        let by_udp = udp.hops_sent.zip(self.heard[to].hops).map(|(sent, left)| sent.saturating_sub(left));
        // Echo requests have TTL enough, whatever the trial asks.
        let by_echo = || {
            let sent = self.reports[from].echo.as_ref()?.hops_sent?;
            let seen = self.seen(to, false, |what| what == Packet::EchoRequest)?;
            Some(sent.saturating_sub(seen.first()?.hops))
        };
        let routers = by_udp.or_else(by_echo)?;
        let sent = udp.hops_sent?;
        if by_udp.is_none() && sent <= routers {
            return Some(Came::Failed(Failed::Hops { sent, routers, asked }));
        }
        Some(Came::Passed(Passed::Hops { routers }))
    }
}
