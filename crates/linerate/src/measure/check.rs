//! Whether anything comes through between two machines, from the bottom up: links, addresses, then requests of both
//! transports, small and as large as the links allow. Measures nothing, and keeps no record.

use linerate_control::message::{Reply, Request};
use linerate_machine::end::{Direction, End, PerEnd};
use linerate_machine::environment::Nic;
use linerate_path::budget::{LossLine, Seen, drops_seen};
use linerate_path::stage::Counters;
use linerate_results::join::Route;
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::{Spec, Workload};

use super::conduct::conduct;
use super::error::TrialError;
use super::pair::{ANSWER_TIME, Pair};
use super::settings::Settings;

/// Requests that are asked in a probe, and for how long; each waits for the answer to the one before.
const RATE: &str = "500pps";
const TIME: &str = "100ms";
/// Octets of payload that pass wherever IP does (RFC 791 demands 68 octets a packet, RFC 8200 1280).
const SMALL: u32 = 32;
/// The headers of IP and UDP.
const HEADERS: PerVersion = PerVersion { v4: 28, v6: 48 };

struct PerVersion {
    v4: u32,
    v6: u32,
}

/// Something that was tried.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) probe: Probe,
    pub(crate) came: Result<Passed, Failed>,
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The interface of an end.
    Link(End),
    /// Whether the ends have addresses that reach each other.
    Addresses,
    /// Requests over this transport, asked by this end, in packets of so many octets each way.
    Requests { transport: Workload, asker: End, there: u32, back: u32 },
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Passed {
    /// The interface is as the machine says.
    Link(Option<Box<Nic>>),
    /// These are used.
    Addresses(Route),
    /// So many were answered, half of them within this time, seconds.
    Requests { answered: u64, median_s: Option<f64> },
}

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The link is down.
    NoCarrier { interface: String },
    /// One sentence.
    Said(String),
    /// Nothing was answered. What counters of both ends saw dropped meanwhile, and the largest packet that did pass, if
    /// smaller ones were tried.
    Nothing { said: Option<String>, drops: Vec<LossLine>, largest: Option<u32> },
}

/// Tries everything that makes sense after what came before; `heard` gets each step as it is done.
pub(crate) fn check(pair: &Pair, heard: &mut dyn FnMut(&Step)) -> Result<(), TrialError> {
    let mut checker = Checker { pair, heard };
    let route = match pair.route(None) {
        Ok(route) => route,
        Err(sentence) => {
            checker.tell(Probe::Addresses, Err(Failed::Said(sentence)));
            return Ok(());
        }
    };
    let Some(mtu) = checker.links(route) else { return Ok(()) };
    checker.tell(Probe::Addresses, Ok(Passed::Addresses(route)));
    let headers = if route.target.is_ipv4() { HEADERS.v4 } else { HEADERS.v6 };
    let small = SMALL + headers;
    let askers = [End::Host, End::Target];
    for asker in askers {
        checker.requests(route, Workload::TcpRr, asker, small, small, headers)?;
    }
    let mut small_pass = true;
    for asker in askers {
        small_pass &= checker.requests(route, Workload::UdpRr, asker, small, small, headers)?;
    }
    if let Some(full) = mtu.filter(|mtu| small_pass && *mtu > small) {
        checker.requests(route, Workload::UdpRr, End::Host, full, small, headers)?;
        checker.requests(route, Workload::UdpRr, End::Host, small, full, headers)?;
    }
    Ok(())
}

struct Checker<'a> {
    pair: &'a Pair,
    heard: &'a mut dyn FnMut(&Step),
}

impl Checker<'_> {
    fn tell(&mut self, probe: Probe, came: Result<Passed, Failed>) {
        (self.heard)(&Step { probe, came });
    }

    /// Both links; the largest packet that both carry, where both say so. `None`: one is down.
    fn links(&mut self, route: Route) -> Option<Option<u32>> {
        let asked = [(End::Target, route.target), (End::Host, route.host)].map(|(end, address)| {
            let interface = self.pair.interface(end, address).map(str::to_owned);
            let request = Request::Describe { interface, modules: Vec::new() };
            (end, self.pair.client(end).send(request))
        });
        let (mut mtus, mut up) = (Vec::new(), true);
        for (end, pending) in asked {
            let nic = match pending.wait(ANSWER_TIME) {
                Ok(Reply::Environment(environment)) => environment.nic,
                _ => None,
            };
            mtus.push(nic.as_ref().and_then(|nic| nic.mtu));
            let came = match nic {
                Some(nic) if nic.link_detected == Some(false) => Err(Failed::NoCarrier { interface: nic.name }),
                nic => Ok(Passed::Link(nic.map(Box::new))),
            };
            up &= came.is_ok();
            self.tell(Probe::Link(end), came);
        }
        // The loopback's packets are larger than any that a trial sends.
        up.then(|| mtus.into_iter().min().flatten().map(|mtu| mtu.min(65_000)))
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
        let probe = Probe::Requests { transport, asker, there, back };
        let before = self.counters(route);
        let tried = self.answered(transport, asker, there - headers, back - headers)?;
        let said = match tried {
            Ok((answered, median_s)) if answered > 0 => {
                self.tell(probe, Ok(Passed::Requests { answered, median_s }));
                return Ok(true);
            }
            Ok(_) => None,
            Err(sentence) => Some(sentence),
        };
        let drops = self.drops(before, self.counters(route));
        let largest = if there.max(back) > SMALL + headers { self.largest(asker, there, back, headers)? } else { None };
        self.tell(probe, Err(Failed::Nothing { said, drops, largest }));
        Ok(false)
    }

    /// How many requests were answered in a short while, and how soon; or why none could be asked.
    fn answered(
        &self,
        transport: Workload,
        asker: End,
        there: u32,
        back: u32,
    ) -> Result<Result<(u64, Option<f64>), String>, TrialError> {
        let mut spec = Spec::new(transport);
        spec.direction = if asker == End::Host { Direction::Rx } else { Direction::Tx };
        let (there, back) = (there.to_string(), back.to_string());
        let options =
            [("rate", RATE), ("duration", TIME), ("warmup", "0s"), ("request_size", &there), ("response_size", &back)];
        for (name, text) in options {
            spec.set(name, text).map_err(|error| TrialError::Refused(error.to_string()))?;
        }
        match conduct(self.pair, &spec, &[], &mut Settings::default(), &|_| {}).outcomes {
            Ok(outcomes) => {
                let flows = outcomes.iter().flat_map(|outcome| &outcome.flows);
                let asked = |flow: &&FlowOutcome| flow.latency.is_some();
                let flow = flows.filter(asked).max_by_key(|flow| flow.messages);
                let median = |flow: &FlowOutcome| Some(flow.latency.as_ref()?.percentile_ns(50.0)? as f64 / 1e9);
                Ok(Ok(flow.map_or((0, None), |flow| (flow.messages, median(flow)))))
            }
            Err(TrialError::Traffic(sentence) | TrialError::Refused(sentence)) => Ok(Err(sentence)),
            Err(error) => Err(error),
        }
    }

    /// The largest packet that is answered, when one of this size is not and a small one is.
    fn largest(&self, asker: End, there: u32, back: u32, headers: u32) -> Result<Option<u32>, TrialError> {
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

    fn counters(&self, route: Route) -> PerEnd<Counters> {
        let asked = [(End::Target, route.target), (End::Host, route.host)].map(|(end, address)| {
            let interface = self.pair.interface(end, address).unwrap_or_default().to_owned();
            self.pair.client(end).send(Request::Counters { interface })
        });
        let [target, host] = asked.map(|pending| match pending.wait(ANSWER_TIME) {
            Ok(Reply::Counters { counters, .. }) => counters,
            _ => Counters::default(),
        });
        PerEnd { target, host }
    }

    /// What both ends saw dropped in between, whichever way it went.
    fn drops(&self, before: PerEnd<Counters>, after: PerEnd<Counters>) -> Vec<LossLine> {
        let seen = |end: End| Seen::new(end, &after[end].since(&before[end]), None);
        let (target, host) = (seen(End::Target), seen(End::Host));
        let mut lines = drops_seen(false, &host, &target);
        let back = drops_seen(false, &target, &host);
        lines.lines.extend(back.lines);
        lines.lines.extend(lines.benign_drops);
        lines.lines.extend(back.benign_drops);
        lines.lines.dedup();
        lines.lines
    }
}
