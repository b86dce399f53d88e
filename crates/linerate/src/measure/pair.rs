//! The machines of a measurement: their agents reached, and the lease of each held.
//! Knows no trials.

use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{Address, HOLDER, Holder, PROBE, Reply, Request};
use linerate_control::{Client, ConnectOptions, ControlError, Endpoint, Place, SILENCE, hold_places, noise};
use linerate_machine::end::{End, PerEnd};
use linerate_machine::sync::Mutex;
use linerate_results::join::Route;
use linerate_trial::spec::Ip;

use super::foreign::ForeignTarget;
use super::middle::Middle;
use super::route::{self, GivenAddress, Reachability};
use super::ssh_counters::{Reading, SshCounters};

/// How long an agent has for what needs no network.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(8);

/// Two agents, each with the lease of its machine. Dropping it gives both back and ends both agents.
pub(crate) struct Pair {
    pub(crate) target: Client,
    pub(crate) host: Client,
    /// The agent in the machine between the two, where there is one.
    pub(crate) middle: Option<Middle>,
    holder: Holder,
    reach: PerEnd<Reachability>,
    /// The interfaces that routes take where the address's own does not say it, as far as they were asked for.
    left_by: Mutex<Vec<(End, Route, String)>>,
    /// How the agents are reached, as the user wrote it; for records and sentences.
    pub(crate) names: PerEnd<String>,
    /// Kernel modules of each machine whose builds its records tell, beside that of the interface's driver.
    pub(crate) modules: PerEnd<Vec<String>>,
    /// The target, where it is another tool's server.
    pub(crate) foreign: Option<ForeignTarget>,
    /// Its machine, where its counters are read over ssh.
    ssh_counters: Option<Mutex<SshCounters>>,
    endpoints: PerEnd<Endpoint>,
    options: ConnectOptions,
    /// Places of a lab, which are held also while a machine boots. Given back after its agents have ended.
    places: Vec<Arc<Place>>,
}

/// What the user said about the addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenAddresses {
    pub(crate) target: Option<GivenAddress>,
    pub(crate) host: Option<GivenAddress>,
}

impl Pair {
    /// Reaches both agents at the same time, and takes both leases, one after the other.
    pub(crate) fn connect(
        target: &Endpoint,
        host: &Endpoint,
        given: GivenAddresses,
        options: &ConnectOptions,
    ) -> Result<Pair, ControlError> {
        let foreign = ForeignTarget::of(target)?;
        let places = hold_places([(End::Target.name(), target), (End::Host.name(), host)], options)?;
        // Two at once, except where both may ask their user for a password on the same terminal.
        let (target_client, host_client) = std::thread::scope(|scope| {
            let other = scope.spawn(|| Client::connect(host, End::Host.name(), options));
            let target_client = match &foreign {
                Some(foreign) => foreign.stand_in(target, options),
                None => Client::connect(target, End::Target.name(), options),
            };
            let host_client = other.join().expect("connecting does not panic");
            (target_client, host_client)
        });
        let (target_client, host_client) = (target_client?, host_client?);
        wait_for_last(&[&target_client, &host_client], options)?;
        let holder = holder(options);
        let asked = [target_client.send(Request::Addresses), host_client.send(Request::Addresses)];
        let [of_target, of_host] = asked.map(|addresses| addresses.wait(ANSWER_TIME));
        let (of_target, of_host) = (of_target?, of_host?);
        let mut machines = [(&of_target, &target_client), (&of_host, &host_client)];
        machines.sort_by_cached_key(|(addresses, _)| place_in_order(addresses));
        for (_, client) in machines {
            client.request(Request::Lease { holder: holder.clone() }, ANSWER_TIME)?;
        }
        // Two namespaces of one machine have a loopback each.
        let is_one = target == host && matches!(target, Endpoint::Local | Endpoint::Netns(_));
        let mut reach = PerEnd {
            target: reach(of_target, target, given.target, is_one),
            host: reach(of_host, host, given.host, is_one),
        };
        if let Some(foreign) = &foreign {
            reach.target.addresses = foreign.as_seen_from(&reach.host.addresses);
            let is_one = foreign.addresses.iter().any(IpAddr::is_loopback);
            reach.target.reached_at = foreign.addresses.first().copied().filter(|_| !is_one);
            (reach.target.is_one, reach.host.is_one) = (is_one, is_one);
        }
        Ok(Pair {
            target: target_client,
            host: host_client,
            middle: None,
            holder,
            reach,
            left_by: Mutex::default(),
            names: PerEnd { target: target.to_string(), host: host.to_string() },
            modules: PerEnd::default(),
            foreign,
            ssh_counters: None,
            endpoints: PerEnd { target: target.clone(), host: host.clone() },
            options: options.clone(),
            places,
        })
    }

    /// From now on the target's counters are read there, over ssh: it is another tool's server.
    pub(crate) fn read_counters_by_ssh(&mut self, endpoint: &Endpoint) -> Result<(), ControlError> {
        self.ssh_counters = Some(Mutex::new(SshCounters::reach(endpoint, &self.options)?));
        Ok(())
    }

    /// The target's counters over ssh; `None`: they are not read so. The error is one sentence.
    pub(crate) fn look(&self, address: IpAddr) -> Option<Result<Reading, String>> {
        let mut counters = self.ssh_counters.as_ref()?.lock();
        Some(counters.look(address))
    }

    /// Tries once to reach the agent of an end anew, for about so long at most.
    pub(crate) fn reconnect(&self, end: End, time: Duration) -> Result<Client, ControlError> {
        let time = time.max(Duration::from_secs(1));
        let options = ConnectOptions {
            connect_timeout: self.options.connect_timeout.min(time),
            typing: self.options.typing.min(time),
            ..self.options.clone()
        };
        Client::connect(&self.endpoints[end], end.name(), &options)
    }

    /// Goes on with this agent of an end, whose lease it takes.
    pub(crate) fn adopt(&mut self, end: End, client: Client) -> Result<(), ControlError> {
        client.request(Request::Lease { holder: holder(&self.options) }, ANSWER_TIME)?;
        match end {
            End::Target => self.target = client,
            End::Host => self.host = client,
        }
        self.look_up_addresses(end)
    }

    /// Asks a machine which addresses it has now.
    pub(crate) fn look_up_addresses(&mut self, end: End) -> Result<(), ControlError> {
        let reply = self.client(end).request(Request::Addresses, ANSWER_TIME)?;
        self.left_by.lock().clear();
        let known = &mut self.reach[end];
        *known = reach(reply, &self.endpoints[end], known.given.clone(), known.is_one);
        Ok(())
    }

    /// The place in which the machine of an end is, if it is in one.
    pub(super) fn place(&self, end: End) -> Option<&Place> {
        let Endpoint::Labgrid { place, .. } = &self.endpoints[end] else { return None };
        self.places.iter().find(|held| held.is(place)).map(|held| &**held)
    }

    /// Ends all agents at the same time: one that does not hear has a second before it is killed.
    pub(crate) fn end(self) {
        let Pair { target, host, middle, .. } = self;
        std::thread::scope(|scope| {
            scope.spawn(|| drop(target));
            scope.spawn(|| drop(middle));
            drop(host);
        });
    }

    /// What its agents were reached with.
    pub(super) fn options(&self) -> &ConnectOptions {
        &self.options
    }

    /// Whether the two addresses of a route are in one subnet, so that no router need be between them.
    pub(crate) fn is_one_subnet(&self, route: Route) -> bool {
        route::is_one_subnet(&self.reach.target, &self.reach.host, route)
    }

    /// Whether both ends are one machine, and in one network namespace of it, as far as that is known.
    pub(crate) fn is_one(&self) -> bool {
        self.reach.target.is_one && self.reach.host.is_one
    }

    /// The client of one end.
    pub(crate) fn client(&self, end: End) -> &Client {
        match end {
            End::Target => &self.target,
            End::Host => &self.host,
        }
    }

    /// The addresses that test traffic of this protocol uses.
    pub(crate) fn route(&self, ip: Option<Ip>) -> Result<Route, String> {
        let link_local = self.foreign.as_ref().and_then(|foreign| foreign.link_local_route(&self.reach.host, ip));
        link_local.unwrap_or_else(|| {
            let (target, host) = (&self.reach.target, &self.reach.host);
            let through = || route::through(target, host, self.middle.as_ref()?.addresses(), ip);
            route::find(target, host, ip).or_else(|sentence| through().ok_or(sentence))
        })
    }

    /// The interface of an end that its link-local address is meant at; `None` for other addresses.
    pub(crate) fn link_local_interface(&self, end: End, address: IpAddr) -> Option<&str> {
        let link = route::on_one_link(&self.reach.target, &self.reach.host)?.ok()?;
        let meant = |one: &&Address| one.address == address && one.interface == link.interfaces[end];
        self.reach[end].addresses.iter().find(meant).map(|one| one.interface.as_str())
    }

    /// The interface of an end that packets of this route leave by.
    pub(crate) fn interface(&self, end: End, route: Route) -> Option<String> {
        let address = route[end];
        let (addresses, both) = (&self.reach[end].addresses, [route.target, route.host]);
        let has_both =
            |end: End| both.iter().all(|wanted| self.reach[end].addresses.iter().any(|one| one.address == *wanted));
        // What is for an address of its own, a machine takes the shortest way.
        if End::BOTH.into_iter().all(has_both) {
            return addresses.iter().find(|one| one.address.is_loopback()).map(|one| one.interface.clone());
        }
        // Several interfaces may have the same link-local address.
        if let Some(interface) = self.link_local_interface(end, address) {
            return Some(interface.to_owned());
        }
        if let Some(interface) = self.routed_interface(end, route) {
            return Some(interface);
        }
        let at = self.foreign.as_ref().and_then(|foreign| foreign.interface.as_deref()).filter(|_| end == End::Host);
        let has_it = |one: &&Address| one.address == address && at.is_none_or(|at| one.interface == at);
        addresses.iter().find(has_it).map(|one| one.interface.clone())
    }

    /// The interface by which packets leave to the other end, where the address is of no link: a router's at its loopback, or one
    /// that is alone in its subnet. `None`: the address is at a link, or the agent does not say.
    pub(crate) fn routed_interface(&self, end: End, route: Route) -> Option<String> {
        let local = route[end];
        if !self.reach[end].addresses.iter().any(|one| one.address == local && is_of_no_link(one)) {
            return None;
        }
        let mut known = self.left_by.lock();
        if let Some((.., interface)) = known.iter().find(|(of, there, _)| (*of, *there) == (end, route)) {
            return Some(interface.clone());
        }
        let client = self.client(end);
        client.hello().capabilities.iter().find(|one| *one == PROBE)?;
        let request = Request::Way { local, peer: route[end.other()], interface: None };
        let Reply::Way(way) = client.request(request, ANSWER_TIME).ok()? else { return None };
        let interface = way.routes.first().filter(|route| route.kind.leads_somewhere())?.interface.clone()?;
        known.push((end, route, interface.clone()));
        Some(interface)
    }
}

/// Whether no link is known by this address.
fn is_of_no_link(one: &Address) -> bool {
    let bits = if one.address.is_ipv4() { 32 } else { 128 };
    !one.address.is_loopback() && (one.loopback || one.prefix_len == bits)
}

/// Leases are taken in the order of this, whichever end a machine is: of two controllers that begin at once, the one that
/// is first at the first machine has both.
fn place_in_order(reply: &Reply) -> Vec<IpAddr> {
    let Reply::Addresses { addresses, .. } = reply else { return Vec::new() };
    let mut known: Vec<IpAddr> = addresses.iter().filter(|one| !one.loopback).map(|one| one.address).collect();
    known.sort_unstable();
    known
}

fn reach(reply: Reply, endpoint: &Endpoint, given: Option<GivenAddress>, is_one: bool) -> Reachability {
    let (addresses, told) = match reply {
        Reply::Addresses { addresses, reached_at } => (addresses, reached_at),
        _ => (Vec::new(), None),
    };
    let reached_at = told.or_else(|| match endpoint {
        Endpoint::Tcp { host, port } => (host.as_str(), *port).to_socket_addrs().ok()?.next().map(|at| at.ip()),
        _ => None,
    });
    Reachability { addresses, reached_at, given, is_one }
}

/// Beside its silence: its trial ends, and settings are put back.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Waits until no earlier controller of this bench has one of these machines. The queue has given the bench to another since, so what is there
/// are agents whose controller is dead or stands still, and they end when they have not heard it for [`SILENCE`]: on one machine sooner than on the
/// other. No lease is taken before, for it is the bench that has one controller, not each of its machines.
pub(super) fn wait_for_last(clients: &[&Client], options: &ConnectOptions) -> Result<(), ControlError> {
    let Some(fence) = &options.fence else { return Ok(()) };
    let is_held = |client: &Client| -> Result<bool, ControlError> {
        if !client.hello().capabilities.iter().any(|one| one == HOLDER) {
            return Ok(false);
        }
        let Reply::Holder { holder, .. } = client.request(Request::Holder, ANSWER_TIME)? else { return Ok(false) };
        let last = holder.and_then(|holder| holder.fence);
        Ok(last.is_some_and(|last| last.bench == fence.bench && last.number < fence.number))
    };
    let deadline = Instant::now() + SILENCE + ENDS_WITHIN;
    // A controller that is still there at the deadline is named by the refusal of the lease.
    while Instant::now() < deadline && !(options.interrupted)() {
        let held: Vec<bool> = clients.iter().map(|client| is_held(client)).collect::<Result<_, _>>()?;
        if !held.contains(&true) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Who holds the leases of this pair.
pub(super) fn holder_of(pair: &Pair) -> Holder {
    pair.holder.clone()
}

/// Who measures: a random name for agents, and one for people.
pub(crate) fn holder(options: &ConnectOptions) -> Holder {
    let process = std::process::id();
    // Without chance there is still the process, which no other controller of this machine has.
    let controller = format!("{}-{process}", noise::draw(&mut [0; 16]).unwrap_or_default());
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".to_owned());
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = if machine.trim().is_empty() { "an unnamed machine" } else { machine.trim() };
    let name = format!("{user} on {machine} (linerate, process {process})");
    Holder { controller, name, fence: options.fence.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_have_one_order_for_all_controllers() {
        let reply = |addresses: &[&str]| {
            let address = |text: &&str| {
                let address: IpAddr = text.parse().unwrap();
                let loopback = address.is_loopback();
                Address { interface: "eth0".to_owned(), address, prefix_len: 24, up: true, loopback }
            };
            Reply::Addresses { addresses: addresses.iter().map(address).collect(), reached_at: None }
        };
        // Every machine has the first, and many have the second.
        let one = place_in_order(&reply(&["127.0.0.1", "172.17.0.1", "192.0.2.1"]));
        let other = place_in_order(&reply(&["192.0.2.2", "172.17.0.1", "127.0.0.1"]));
        assert!(one < other);
        assert_eq!(one, place_in_order(&reply(&["192.0.2.1", "127.0.0.1", "172.17.0.1"])));
    }

    #[test]
    fn a_router_s_own_address_is_of_no_link() {
        let of = |text: &str, prefix_len, loopback| {
            let (interface, address) = ("any".to_owned(), text.parse().unwrap());
            is_of_no_link(&Address { interface, address, prefix_len, up: true, loopback })
        };
        assert!(of("192.0.2.1", 32, true) && of("192.0.2.1", 24, true) && of("192.0.2.1", 32, false));
        assert!(of("2001:db8::1", 128, false) && !of("2001:db8::1", 64, false));
        assert!(!of("192.0.2.1", 24, false) && !of("127.0.0.1", 8, true) && !of("::1", 128, true));
    }
}
