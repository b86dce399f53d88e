//! Short trials as probes: requests of the traffic engine, or streams by another tool's protocol, where an agent sends no probes.
//! Knows no order of steps, and keeps no record.

use linerate_control::message::{Reply, Request};
use linerate_machine::end::{Direction, End, PerEnd};
use linerate_machine::probe::Protocol;
use linerate_path::budget::{Chain, LossLine, MachineAccount, drops_of_any};
use linerate_path::stage::Counters;
use linerate_results::examination::{Failed, Passed, Probe, Step, StepResult, Unknown};
use linerate_results::join::Route;
use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::spec::{Ip, Spec, Workload};
use linerate_trial::tool::Tool;
use linerate_trial::wire::IpVersion;

use super::conduct::{TrialExtras, conduct};
use super::error::TrialError;
use super::pair::{ANSWER_TIME, Pair};
use super::settings::Settings;

/// Requests that are asked in a probe, and for how long; each waits for the answer to the one before.
const RATE: &str = "500pps";
const TIME: &str = "100ms";
/// Octets of payload that pass wherever IP does (RFC 791 demands 68 octets a packet, RFC 8200 1280).
const SMALL: u32 = 32;
/// A stream to another tool's server, or from it: these count in whole seconds.
const STREAM: [(&str, &str); 4] = [("rate", "500k"), ("duration", "1s"), ("warmup", "0s"), ("message_size", "1000")];
/// A stream over this transport from an end, by the protocol of another tool's server; and, where datagrams do not pass, one over TCP.
pub(crate) fn streams(pair: &Pair, route: Route, transport: Protocol, from: End) -> Result<Vec<Step>, TrialError> {
    let heard: &mut dyn FnMut(&Step) = &mut |_| {};
    let mut attempts = Attempts::new(pair, heard);
    if transport == Protocol::Udp {
        attempts.stream(route, Workload::UdpStream, from)?;
    }
    if attempts.steps.iter().all(Step::has_failed) {
        attempts.stream(route, Workload::TcpStream, from)?;
    }
    Ok(attempts.steps)
}

/// The same where a trial has shown that what answers there is no server, or hangs: trying again takes as long, and shows
/// nothing else.
pub(crate) fn of_no_server(tool: Tool, scope: (Protocol, End), sentence: &str) -> Vec<Step> {
    // Some serve TCP or datagrams, whichever they were started for.
    if !tool.row().start_udp.is_empty() {
        return Vec::new();
    }
    let (transport, from) = scope;
    let workload = if transport == Protocol::Udp { Workload::UdpStream } else { Workload::TcpStream };
    let failed = Failed::Requests { sentence: Some(sentence.to_owned()), largest: None, drops: Vec::new() };
    vec![Step { probe: Probe::Stream { workload, from }, came: StepResult::Failed(failed) }]
}

/// Attempts of one examination.
pub(super) struct Attempts<'a> {
    pair: &'a Pair,
    heard: &'a mut dyn FnMut(&Step),
    pub(super) steps: Vec<Step>,
    /// The last trial was refused, and nothing was sent.
    is_refused: bool,
}

impl<'a> Attempts<'a> {
    /// `heard` gets each step as it is done.
    pub(super) fn new(pair: &'a Pair, heard: &'a mut dyn FnMut(&Step)) -> Attempts<'a> {
        Attempts { pair, heard, steps: Vec::new(), is_refused: false }
    }

    pub(super) fn tell(&mut self, probe: Probe, came: StepResult) {
        let step = Step { probe, came };
        (self.heard)(&step);
        self.steps.push(step);
    }

    /// Requests over both transports, each end asking, and of the sizes that full packets have; streams where requests are not spoken.
    pub(super) fn all(&mut self, route: Route, mtu: Option<u32>) -> Result<(), TrialError> {
        let version = if route.target.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        let headers = version.udp_headers();
        let small = SMALL + headers;
        let mut small_pass = true;
        for (requests, stream) in [(Workload::TcpRr, Workload::TcpStream), (Workload::UdpRr, Workload::UdpStream)] {
            for asker in [End::Host, End::Target] {
                let passes = self.requests(route, requests, asker, small, small, headers)?;
                small_pass &= passes || requests == Workload::TcpRr;
                if self.is_unspoken() {
                    self.stream(route, stream, asker)?;
                }
            }
        }
        if let Some(full) = mtu.filter(|mtu| small_pass && *mtu > small) {
            self.requests(route, Workload::UdpRr, End::Host, full, small, headers)?;
            self.requests(route, Workload::UdpRr, End::Host, small, full, headers)?;
        }
        Ok(())
    }

    /// Whether requests of this kind are answered.
    fn requests(
        &mut self,
        route: Route,
        transport: Workload,
        asker: End,
        there: u32,
        back: u32,
        headers: u32,
    ) -> Result<bool, TrialError> {
        let probe = Probe::Requests { workload: transport, asker, there, back };
        let before = self.counters(route);
        let tried = self.answered(transport, asker, there - headers, back - headers)?;
        let said = match tried {
            // Nothing is wrong with the way.
            Err(_) if self.is_unspoken() => return Ok(false),
            Ok((answered, median_s)) if answered > 0 => {
                self.tell(probe, StepResult::Passed(Passed::Answered { answered, lost: None, median_s }));
                return Ok(true);
            }
            Ok(_) => None,
            Err(sentence) => Some(sentence),
        };
        let drops = self.drops_since(&before, route);
        let largest = if there.max(back) > SMALL + headers { self.largest(asker, there, back, headers)? } else { None };
        self.tell(probe, StepResult::Failed(Failed::Requests { sentence: said, largest, drops }));
        Ok(false)
    }

    /// The last trial was of a kind that another tool's server does not know.
    fn is_unspoken(&self) -> bool {
        self.pair.foreign.is_some() && self.is_refused
    }

    /// Whether anything of a stream arrives, by the protocol of another tool's server.
    fn stream(&mut self, route: Route, workload: Workload, from: End) -> Result<(), TrialError> {
        let probe = Probe::Stream { workload, from };
        let tool = self.pair.foreign.as_ref().map(|foreign| foreign.tool.row());
        if tool.is_some_and(|tool| tool.tool == Tool::Ttcp) {
            let sentence = "a ttcp ends with its first test, which is left for a trial".to_owned();
            self.tell(probe, StepResult::Unknown(Unknown::NotSpoken { sentence }));
            return Ok(());
        }
        // Some serve TCP or datagrams, whichever they were started for.
        let may_lack = tool.is_some_and(|tool| !tool.start_udp.is_empty());
        let mut spec = spec_of(workload, from, &STREAM)?;
        spec.ip = Some(if route.target.is_ipv4() { Ip::V4 } else { Ip::V6 });
        let before = self.counters(route);
        let outcomes = conduct(self.pair, &spec, TrialExtras::default(), &mut Settings::default(), &|_| {}).outcomes;
        let fails = |sentence| {
            let drops = self.drops_since(&before, route);
            StepResult::Failed(Failed::Requests { sentence, largest: None, drops })
        };
        let came = match outcomes {
            Ok(outcomes) => {
                let flows = outcomes.iter().flat_map(|outcome| &outcome.flows);
                let octets = flows.filter(|flow| flow.role == Role::Receiver).map(|flow| flow.octets_total).sum();
                if octets > 0 { StepResult::Passed(Passed::Carried { octets }) } else { fails(None) }
            }
            Err(TrialError::Refused(sentence)) => StepResult::Unknown(Unknown::NotSpoken { sentence }),
            Err(TrialError::NotOpened(sentence) | TrialError::Traffic(sentence)) if may_lack => {
                StepResult::Unknown(Unknown::NotSpoken { sentence })
            }
            Err(TrialError::NotOpened(sentence) | TrialError::Traffic(sentence)) => fails(Some(sentence)),
            Err(error) => return Err(error),
        };
        self.tell(probe, came);
        Ok(())
    }

    /// How many requests were answered in a short while, and how soon; or why none could be asked.
    fn answered(
        &mut self,
        transport: Workload,
        asker: End,
        there: u32,
        back: u32,
    ) -> Result<Result<(u64, Option<f64>), String>, TrialError> {
        let (there, back) = (there.to_string(), back.to_string());
        let options =
            [("rate", RATE), ("duration", TIME), ("warmup", "0s"), ("request_size", &there), ("response_size", &back)];
        let spec = spec_of(transport, asker, &options)?;
        let outcomes = conduct(self.pair, &spec, TrialExtras::default(), &mut Settings::default(), &|_| {}).outcomes;
        self.is_refused = matches!(outcomes, Err(TrialError::Refused(_)));
        match outcomes {
            Ok(outcomes) => {
                let flows = outcomes.iter().flat_map(|outcome| &outcome.flows);
                let asked = |flow: &&FlowOutcome| flow.latency.is_some();
                let flow = flows.filter(asked).max_by_key(|flow| flow.messages);
                let median = |flow: &FlowOutcome| Some(flow.latency.as_ref()?.percentile_ns(50.0)? as f64 / 1e9);
                Ok(Ok(flow.map_or((0, None), |flow| (flow.messages, median(flow)))))
            }
            Err(TrialError::NotOpened(sentence) | TrialError::Traffic(sentence) | TrialError::Refused(sentence)) => {
                Ok(Err(sentence))
            }
            Err(error) => Err(error),
        }
    }

    /// The largest packet that is answered, when one of this size is not and a small one is.
    fn largest(&mut self, asker: End, there: u32, back: u32, headers: u32) -> Result<Option<u32>, TrialError> {
        let (mut passes, mut fails) = (SMALL + headers, there.max(back));
        while fails - passes > 1 {
            // Sizes that are usual come first: tunnels and switches take from these.
            let usual = [1500, 1492, 1480, 1472, 1450, 1420, 1400, 1280, 576];
            let middle = passes + (fails - passes) / 2;
            let size = usual.into_iter().find(|size| (passes + 1..fails).contains(size)).unwrap_or(middle);
            let [there, back] = [there, back].map(|of| of.min(size) - headers);
            match self.answered(Workload::UdpRr, asker, there, back)? {
                Ok((answered, _)) if answered > 0 => passes = size,
                _ => fails = size,
            }
        }
        Ok((passes > SMALL + headers).then_some(passes))
    }

    fn drops_since(&self, before: &PerEnd<Counters>, route: Route) -> Vec<LossLine> {
        drops(before, &self.counters(route), &PerEnd::default())
    }

    fn counters(&self, route: Route) -> PerEnd<Counters> {
        let asked = End::BOTH.map(|end| {
            let interface = self.pair.interface(end, route).unwrap_or_default();
            self.pair.client(end).send(Request::Counters { interface })
        });
        let [target, host] = asked.map(|pending| match pending.wait(ANSWER_TIME) {
            Ok(Reply::Counters { counters, .. }) => counters,
            _ => Counters::default(),
        });
        PerEnd { target, host }
    }
}

/// A trial that this end sends, or asks, with these options.
fn spec_of(workload: Workload, from: End, options: &[(&str, &str)]) -> Result<Spec, TrialError> {
    let mut spec = Spec::new(workload);
    spec.direction = if from == End::Host { Direction::Rx } else { Direction::Tx };
    for (name, text) in options {
        spec.set(name, text).map_err(|error| TrialError::Refused(error.to_string()))?;
    }
    Ok(spec)
}

/// What both ends saw dropped in between, whichever way it went.
pub(super) fn drops(
    before: &PerEnd<Counters>,
    after: &PerEnd<Counters>,
    drivers: &PerEnd<Option<String>>,
) -> Vec<LossLine> {
    let grown = PerEnd::of(|end| after[end].since(&before[end]));
    let seen = |end: End| MachineAccount::new(end, &grown[end], drivers[end].as_deref());
    let (target, host) = (seen(End::Target), seen(End::Host));
    let mut lines = drops_of_any(Chain::direct(&host, &target));
    lines.extend(drops_of_any(Chain::direct(&target, &host)));
    lines.dedup();
    lines
}
