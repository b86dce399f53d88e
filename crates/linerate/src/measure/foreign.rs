//! Another tool's server as the target: it has no agent, so one stands in for it here that knows nothing of its machine.
//! Knows no protocol of theirs; the host's agent speaks it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_control::message::{Address, Foreign, RefusalKind, Reply, Request, RequestLine};
use linerate_control::{Client, ConnectOptions, ControlError, Endpoint, Link, Machine, Outbox, Server, serve};
use linerate_machine::prefix::Prefix;
use linerate_peers::iperf3::authentication::Credentials;
use linerate_results::join::Route;
use linerate_trial::spec::Ip;
use linerate_trial::tool::Tool;

use super::route::Reachability;

/// The other tool's server.
#[derive(Clone, Debug)]
pub(crate) struct ForeignTarget {
    pub(crate) tool: Tool,
    /// Its addresses, in the resolver's order.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) port: u16,
    /// The host's interface at which it is, where its address is link-local.
    pub(crate) interface: Option<String>,
    /// Who asks, where the server wants to know.
    pub(crate) credentials: Option<Credentials>,
    /// Bits per second that may be sent there though nothing answers.
    pub(crate) unanswered: Option<u64>,
}

impl ForeignTarget {
    /// `None`: the endpoint is of an agent. An error where the name has no address.
    pub(crate) fn of(endpoint: &Endpoint) -> Result<Option<ForeignTarget>, ControlError> {
        let Endpoint::Foreign { tool, host, port } = endpoint else { return Ok(None) };
        let port = port.unwrap_or(tool.row().port);
        let unreachable = |why: String| ControlError::Unreachable { machine: machine(endpoint), why };
        let (literal, interface) = match host.split_once('%') {
            Some((address, interface)) => (address, Some(interface.to_owned())),
            None => (host.as_str(), None),
        };
        let is_link_local = literal.parse::<Ipv6Addr>().is_ok_and(|address| address.is_unicast_link_local());
        if is_link_local && interface.is_none() {
            return Err(unreachable(format!(
                "{host} means something at an interface only; say which of the host's, as {tool}:[{host}%eth0]"
            )));
        }
        if interface.is_some() && !is_link_local {
            return Err(unreachable(format!("only a link-local address has an interface; write {literal}")));
        }
        let found = (literal, port).to_socket_addrs();
        let found = found.map_err(|error| unreachable(format!("{host} has no address: {error}; check the name")))?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found.map(|at| at.ip()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let tool = *tool;
        Ok(Some(ForeignTarget { tool, addresses, port, interface, credentials: None, unanswered: None }))
    }

    /// What the host's agent needs to know, of the address that the route leads to. Who asks it learns as the server will:
    /// encrypted, and for some seconds.
    pub(crate) fn at(&self, address: IpAddr) -> Result<Foreign, String> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let tokens = self.credentials.as_ref().map(|credentials| credentials.tokens(now_s)).transpose()?;
        Ok(Foreign {
            tool: self.tool,
            server: SocketAddr::new(address, self.port),
            interface: self.interface.clone(),
            unanswered: self.unanswered,
            tokens: tokens.unwrap_or_default(),
        })
    }

    /// The stand-in, in a thread of this process. It ends with the client.
    pub(crate) fn stand_in(&self, endpoint: &Endpoint, options: &ConnectOptions) -> Result<Client, ControlError> {
        let unreachable = |error: std::io::Error| ControlError::Unreachable {
            machine: machine(endpoint),
            why: format!("this process can open no more: {error}; close what it has open"),
        };
        let (near, far) = UnixStream::pair().map_err(unreachable)?;
        let of = |stream: UnixStream| Ok(Link::of(stream.try_clone()?, stream));
        let (near, far) = (of(near).map_err(unreachable)?, of(far).map_err(unreachable)?);
        let tool = self.tool;
        let stand_in = move || drop(serve(far, &Server::new(tool.name()), |line, outlet| answer(tool, line, outlet)));
        thread::Builder::new().name("stand-in".to_owned()).spawn(stand_in).map_err(unreachable)?;
        Client::over(near, machine(endpoint), options)
    }

    /// The addresses of the test traffic, where its own is link-local: the host's is that of the same interface.
    pub(crate) fn link_local_route(&self, host: &Reachability, ip: Option<Ip>) -> Option<Result<Route, String>> {
        let (interface, target) = self.interface.as_deref().zip(self.addresses.first().copied())?;
        if ip == Some(Ip::V4) {
            return Some(Err(format!("{target} is an address of IPv6; leave ip out, or choose ip=6")));
        }
        let is_it = |one: &&Address| {
            let is_link_local = matches!(one.address, IpAddr::V6(address) if address.is_unicast_link_local());
            is_link_local
                && one.up
                && one.interface == interface
                && host.given.as_ref().is_none_or(|given| given.address == one.address)
        };
        let found = host.addresses.iter().find(is_it).map(|own| Route { target, host: own.address });
        Some(found.ok_or_else(|| {
            format!(
                "the host has no link-local address at an interface {interface} that is up; see what 'ip -6 address' says \
                 there"
            )
        }))
    }

    /// Its addresses as if it had told them: each in the subnet that the host has it in, so that the host's address of that
    /// subnet is chosen.
    pub(crate) fn as_seen_from(&self, host: &[Address]) -> Vec<Address> {
        let seen = |&address: &IpAddr| {
            let near = host.iter().find(|one| one.up && Prefix::new(one.address, one.prefix_len).contains(address));
            Address {
                interface: self.tool.name().to_owned(),
                address,
                prefix_len: near.map_or(if address.is_ipv4() { 32 } else { 128 }, |one| one.prefix_len),
                up: true,
                loopback: address.is_loopback(),
            }
        };
        self.addresses.iter().map(seen).collect()
    }
}

fn machine(endpoint: &Endpoint) -> Machine {
    Machine { name: "target".to_owned(), endpoint: endpoint.to_string() }
}

/// What the stand-in knows.
fn answer(tool: Tool, line: RequestLine, outlet: &Outbox) {
    let reply = match line.request {
        Request::Describe { .. } => Reply::Environment(Box::default()),
        Request::Addresses => Reply::Addresses { addresses: Vec::new(), reached_at: None },
        Request::Prepare(_) => Reply::Prepared { ports: Vec::new(), interface: None, mac: None, silenced: Vec::new() },
        Request::Lease { .. }
        | Request::Release
        | Request::Connect { .. }
        | Request::Start
        | Request::Stop
        | Request::Confirm
        | Request::Ping => Reply::Done,
        Request::Get { ref names, .. } if names.is_empty() => {
            Reply::Settings { settings: Vec::new(), kept: Vec::new() }
        }
        Request::Restore { .. } => Reply::Restored { settings: Vec::new() },
        other => {
            let what = other.name();
            let sentence = format!(
                "the {tool} server knows nothing of its machine, so '{what}' is not to be had; leave it out, or reach the \
                 machine as ssh:host"
            );
            return outlet.refuse(line.id, RefusalKind::Failed, sentence);
        }
    };
    outlet.reply(line.id, reply);
}
