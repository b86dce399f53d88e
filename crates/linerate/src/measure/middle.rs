//! The agent in the machine between the two ends: reached, its interfaces on the way found, and what it saw fetched.
//! Knows no traffic; the ends make it.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{Address, EndAddress, OBSERVE, Observe, ProbeOrder, Reply, Request, Secret};
use linerate_control::{Client, ConnectOptions, ControlError, Endpoint};
use linerate_machine::end::{End, Party, PerEnd};
use linerate_machine::environment::{Environment, Nic};
use linerate_machine::sync::Mutex;
use linerate_registers::around;
use linerate_results::join::Route;
use linerate_results::middle::{self as told, Port};
use linerate_results::record::Machine;
use linerate_trial::middle::MiddleOutcome;
use linerate_trial::spec::Spec;

use super::error::{TrialError, of_control};
use super::pair::{ANSWER_TIME, Pair, holder_of, wait_for_last};

/// Reading counters, drop reasons and registers once more, and naming what a profile has found.
const CONCLUDE_TIME: Duration = Duration::from_secs(20);
/// Between two looks at what a bridge has learnt.
const TURN_TIME: Duration = Duration::from_millis(3);
const TURNS_TIME: Duration = Duration::from_millis(200);
/// A handful of echo requests and their answers.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// What the user said of the machine between the ends.
#[derive(Clone, Debug)]
pub(crate) struct AskedMiddle {
    pub(crate) endpoint: Endpoint,
    pub(crate) interfaces: Option<GivenPorts>,
}

/// The interfaces of the middle that carry the traffic, as the user gives them: `p1,p0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenPorts(pub(crate) PerEnd<String>);

impl FromStr for GivenPorts {
    type Err = String;

    fn from_str(text: &str) -> Result<GivenPorts, String> {
        match text.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [target, host] if !target.is_empty() && !host.is_empty() => {
                Ok(GivenPorts(PerEnd { target: target.to_owned(), host: host.to_owned() }))
            }
            _ => Err("write two interfaces, the one towards the target first: eth1,eth0".to_owned()),
        }
    }
}

/// The third agent, with the lease of its machine. Dropping it gives that back and ends the agent.
pub(crate) struct Middle {
    pub(crate) client: Client,
    /// How it is reached, as the user wrote it.
    pub(crate) name: String,
    given: Option<GivenPorts>,
    addresses: Vec<Address>,
    /// Its interfaces on the way between two addresses, once they were found.
    found: Mutex<Vec<(Route, PerEnd<String>)>>,
}

impl Middle {
    /// Reaches the agent and takes its lease.
    pub(crate) fn connect(
        asked: &AskedMiddle,
        lease: Request,
        options: &ConnectOptions,
    ) -> Result<Middle, ControlError> {
        let client = Client::connect(&asked.endpoint, Party::Middle.name(), options)?;
        if !client.hello().capabilities.iter().any(|one| one == OBSERVE) {
            return Err(ControlError::Unreachable {
                machine: client.machine().clone(),
                why: format!(
                    "its agent ({}) cannot observe what passes; install the same version of linerate there",
                    client.hello().program
                ),
            });
        }
        wait_for_last(&[&client], options)?;
        let (lease, addresses) = (client.send(lease), client.send(Request::Addresses));
        lease.wait(ANSWER_TIME)?;
        let addresses = match addresses.wait(ANSWER_TIME)? {
            Reply::Addresses { addresses, .. } => addresses,
            _ => Vec::new(),
        };
        Ok(Middle {
            client,
            name: asked.endpoint.to_string(),
            given: asked.interfaces.clone(),
            addresses,
            found: Mutex::default(),
        })
    }

    /// The addresses of all its interfaces.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Its interfaces on the way between these addresses. The error is one sentence.
    pub(crate) fn ports(&self, pair: &Pair, route: Route) -> Result<PerEnd<String>, TrialError> {
        self.find_ports(pair, route)?.map_err(|found| {
            let known = |port: Option<String>| port.unwrap_or_else(|| "unknown".to_owned());
            TrialError::Refused(format!(
                "the interfaces by which {} forwards between {} and {} were not found (towards the target: {}, towards the \
                 host: {}); name them with --middle-interfaces, the one towards the target first",
                self.client.machine(),
                route.target,
                route.host,
                known(found.target),
                known(found.host)
            ))
        })
    }

    /// The same; where one was not found, what was.
    pub(crate) fn find_ports(&self, pair: &Pair, route: Route) -> Result<FoundPorts, TrialError> {
        if let Some(GivenPorts(given)) = &self.given {
            return Ok(Ok(given.clone()));
        }
        let known = || self.found.lock();
        if let Some((_, ports)) = known().iter().find(|(of, _)| *of == route) {
            return Ok(Ok(ports.clone()));
        }
        let towards = PerEnd { target: towards(pair, End::Target, route)?, host: towards(pair, End::Host, route)? };
        let bridged = pair.is_one_subnet(route);
        let mut found = self.ask_ports(&towards, bridged)?;
        if bridged && !is_whole(&found) {
            // A bridge learns from what passes, and nothing may have passed for a while.
            let order = ProbeOrder { echo: true, ..ProbeOrder::between(route.host, route.target, Secret([0; 16])) };
            // Whether anything answers is not asked here.
            let _ = pair.host.request(Request::Probe(Box::new(order)), PROBE_TIME);
            found = self.ask_ports(&towards, bridged)?;
        }
        let PerEnd { target: Some(target), host: Some(host) } = found else { return Ok(Err(found)) };
        let ports = PerEnd { target, host };
        known().push((route, ports.clone()));
        Ok(Ok(ports))
    }

    /// Behind which ports its bridge finds both ends' Ethernet addresses while they send what `send` has them send, and what that
    /// gave.
    pub(crate) fn ports_by_turns<S>(
        &self,
        pair: &Pair,
        route: Route,
        send: impl FnOnce() -> S,
    ) -> Result<(PerEnd<BTreeSet<String>>, S), TrialError> {
        let towards = PerEnd { target: towards(pair, End::Target, route)?, host: towards(pair, End::Host, route)? };
        let mut seen = PerEnd::<BTreeSet<String>>::default();
        let sent = send();
        let until = Instant::now() + TURNS_TIME;
        while Instant::now() < until {
            let PerEnd { target, host } = self.ask_ports(&towards, true)?;
            seen.target.extend(target);
            seen.host.extend(host);
            thread::sleep(TURN_TIME);
        }
        Ok((seen, sent))
    }

    fn ask_ports(&self, towards: &PerEnd<EndAddress>, bridged: bool) -> Result<PerEnd<Option<String>>, TrialError> {
        let request = Request::Ports { towards: towards.clone(), bridged };
        match self.client.request(request, ANSWER_TIME).map_err(of_control)? {
            Reply::Ports { interfaces } => Ok(interfaces),
            _ => Ok(PerEnd::default()),
        }
    }

    /// The machine and its interfaces as they are, as a record has them; nothing is measured there yet.
    pub(crate) fn describe(&self, ports: &PerEnd<String>, modules: &[String]) -> Result<told::Middle, TrialError> {
        let ask = |interface: &String| {
            let request = Request::Describe { interface: Some(interface.clone()), modules: modules.to_vec() };
            self.client.send(request)
        };
        let [target, host] = [ask(&ports.target), ask(&ports.host)].map(|pending| pending.wait(ANSWER_TIME));
        let described = |reply: Result<Reply, ControlError>| match reply.map_err(of_control)? {
            Reply::Environment(environment) => Ok::<Environment, TrialError>(*environment),
            _ => Ok(Environment::default()),
        };
        let (mut environment, other) = (described(target)?, described(host)?);
        environment.modules.extend(other.modules);
        let port = |interface: &String, nic: Option<Nic>| Port { interface: interface.clone(), nic, ..Port::default() };
        let ports = PerEnd { target: port(&ports.target, environment.nic.take()), host: port(&ports.host, other.nic) };
        Ok(told::Middle { machine: Machine::of(self.name.clone(), environment), ports })
    }

    /// Gets ready to observe the trial: its counters are read.
    pub(crate) fn observe(&self, spec: Spec, interfaces: PerEnd<String>) -> Result<(), TrialError> {
        let registers = spec.registers.then(around::wanted);
        let observe = Observe { spec, interfaces, registers };
        self.client.request(Request::Observe(Box::new(observe)), ANSWER_TIME).map_err(of_control)?;
        Ok(())
    }

    /// What it saw of the trial.
    pub(crate) fn conclude(&self) -> Result<Option<Box<MiddleOutcome>>, TrialError> {
        match self.client.request(Request::Conclude, CONCLUDE_TIME).map_err(of_control)? {
            Reply::Observed(outcome) => Ok(Some(outcome)),
            _ => Ok(None),
        }
    }
}

fn is_whole(found: &PerEnd<Option<String>>) -> bool {
    found.target.is_some() && found.host.is_some()
}

/// An end as the middle can know it.
/// The interfaces towards both ends, or those of them that were found.
type FoundPorts = Result<PerEnd<String>, PerEnd<Option<String>>>;

fn towards(pair: &Pair, end: End, route: Route) -> Result<EndAddress, TrialError> {
    let address = route[end];
    let interface = pair.interface(end, route);
    let described = pair.client(end).request(Request::Describe { interface, modules: Vec::new() }, ANSWER_TIME);
    let mac = match described.map_err(of_control)? {
        Reply::Environment(environment) => environment.nic.and_then(|nic| nic.mac),
        _ => None,
    };
    Ok(EndAddress { address, mac })
}

impl Pair {
    /// Reaches the agent of the machine between the two, where there is to be one.
    pub(crate) fn reach_middle(&mut self, asked: Option<&AskedMiddle>) -> Result<(), ControlError> {
        if let Some(asked) = asked {
            let lease = Request::Lease { holder: holder_of(self) };
            self.middle = Some(Middle::connect(asked, lease, self.options())?);
        }
        Ok(())
    }

    /// All agents.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        [&self.target, &self.host].into_iter().chain(self.middle.as_ref().map(|middle| &middle.client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_interfaces_are_given() {
        let ports = |text: &str| text.parse::<GivenPorts>();
        let two = PerEnd { target: "p1".to_owned(), host: "p0".to_owned() };
        assert_eq!(ports("p1,p0"), Ok(GivenPorts(two.clone())));
        assert_eq!(ports("p1, p0"), Ok(GivenPorts(two)));
        for wrong in ["", "p0", "p0,", ",p0", "p0,p1,p2"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
