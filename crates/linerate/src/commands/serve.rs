//! `linerate serve`: other tools' clients measure against this machine, and each test of theirs becomes a record.
//! Knows no protocol; crate `peers` does.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use anyhow::{Context, Result, bail};
use linerate_host::environment;
use linerate_peers::served::{Limits, Served};
use linerate_peers::{iperf2, iperf3, netperf, nuttcp, ttcp};
use linerate_results::record::{Record, TrialPlace};
use linerate_results::store::{Campaign, Store};
use linerate_trial::environment::Environment;
use linerate_trial::spec::{Ip, Spec};

use super::open_store;
use crate::cli::{ServeArgs, Tool};
use crate::interrupt;
use crate::measure::conduct::{Conducted, TrialError};
use crate::measure::ids::{Ids, now};
use crate::measure::join::{self, Label};
use crate::measure::route::Route;
use crate::output::{out, say};
use crate::render;

/// The plan's name in the records of served tests.
const PLAN: &str = "serve";

/// Serves until Ctrl-C, or one test.
pub(crate) fn serve(arguments: &ServeArgs) -> Result<ExitCode> {
    let mut tools = arguments.tool.clone();
    tools.sort();
    tools.dedup();
    if tools.len() > 1 && arguments.port.is_some() {
        bail!("--port is for one tool; leave it out, or serve the others with a command of their own");
    }
    let limits = Limits { tests: arguments.max_tests, rate: arguments.max_rate, time_s: arguments.max_time.as_secs() };
    let servers = tools.iter().map(|&tool| Server::bind(tool, arguments.bind, arguments.port, limits));
    let servers = servers.collect::<Result<Vec<_>>>()?;
    interrupt::listen();
    if !arguments.quiet {
        let serving = servers.iter().map(|server| Ok(format!("{} on port {}", server.name(), server.port()?)));
        say(format_args!("linerate: serving {}; Ctrl-C ends it", serving.collect::<Result<Vec<_>>>()?.join(", ")));
    }
    let desk = Mutex::new(Desk { store: open_store(&arguments.store)?, ids: Ids::default(), campaign: None, tests: 0 });
    let trouble = Mutex::new(None);
    let over = || {
        interrupt::requested()
            || (arguments.one_off && lock(&desk).tests > 0)
            || trouble.lock().is_ok_and(|trouble| trouble.is_some())
    };
    let heard = |served: Served| {
        let sentence = sentence(&served);
        match lock(&desk).keep(served) {
            Ok(record) if arguments.json => out!("{}", render::json::json(std::slice::from_ref(&record))),
            Ok(record) => {
                out!("{sentence}: {}\n{}", record.id, render::summary::summary(std::slice::from_ref(&record)))
            }
            Err(error) => *lock(&trouble) = Some(error),
        }
    };
    thread::scope(|scope| {
        let running: Vec<_> = servers.iter().map(|server| scope.spawn(|| server.run(&over, &heard))).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))))
    })?;
    if let Some(error) = lock(&trouble).take() {
        return Err(error);
    }
    lock(&desk).close()?;
    if arguments.one_off && lock(&desk).tests == 0 {
        bail!("interrupted before a client came");
    }
    Ok(ExitCode::SUCCESS)
}

/// A tool's server.
enum Server {
    Iperf3(iperf3::server::Server),
    Iperf2(iperf2::server::Server),
    Netperf(netperf::server::Server),
    Nuttcp(nuttcp::server::Server),
    Ttcp(ttcp::server::Server),
}

impl Server {
    fn bind(tool: Tool, address: Option<IpAddr>, port: Option<u16>, limits: Limits) -> Result<Server> {
        let port = port.unwrap_or(match tool {
            Tool::Iperf3 => iperf3::server::PORT,
            Tool::Iperf2 => iperf2::server::PORT,
            Tool::Netperf => netperf::server::PORT,
            Tool::Nuttcp => nuttcp::server::PORT,
            Tool::Ttcp => ttcp::server::PORT,
        });
        match tool {
            Tool::Iperf3 => iperf3::server::Server::bind(address, port, limits).map(Server::Iperf3),
            Tool::Iperf2 => iperf2::server::Server::bind(address, port, limits).map(Server::Iperf2),
            Tool::Netperf => netperf::server::Server::bind(address, port, limits).map(Server::Netperf),
            Tool::Nuttcp => nuttcp::server::Server::bind(address, port, limits).map(Server::Nuttcp),
            Tool::Ttcp => ttcp::server::Server::bind(address, port, limits).map(Server::Ttcp),
        }
        .with_context(|| format!("cannot listen on port {port}; end what listens there, or choose another with --port"))
    }

    fn name(&self) -> &'static str {
        match self {
            Server::Iperf3(_) => "iperf3",
            Server::Iperf2(_) => "iperf2",
            Server::Netperf(_) => "netperf",
            Server::Nuttcp(_) => "nuttcp",
            Server::Ttcp(_) => "ttcp",
        }
    }

    fn port(&self) -> io::Result<u16> {
        match self {
            Server::Iperf3(server) => server.port(),
            Server::Iperf2(server) => server.port(),
            Server::Netperf(server) => server.port(),
            Server::Nuttcp(server) => server.port(),
            Server::Ttcp(server) => server.port(),
        }
    }

    fn run(&self, over: &(impl Fn() -> bool + Sync), heard: &(impl Fn(Served) + Sync)) -> io::Result<()> {
        match self {
            Server::Iperf3(server) => server.run(|_| over(), heard),
            Server::Iperf2(server) => server.run(|_| over(), heard),
            Server::Netperf(server) => server.run(|_| over(), heard),
            Server::Nuttcp(server) => server.run(|_| over(), heard),
            Server::Ttcp(server) => server.run(|_| over(), heard),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn sentence(served: &Served) -> String {
    let version = served.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let Spec { workload, direction, .. } = served.spec;
    format!("{}{version} from {}, {workload} {direction}", served.tool, served.peer.ip())
}

/// Where tests become records.
struct Desk {
    store: Store,
    ids: Ids,
    /// Begun with the first test: a server that nobody used leaves nothing.
    campaign: Option<String>,
    tests: u32,
}

impl Desk {
    fn keep(&mut self, served: Served) -> Result<Record> {
        let host = format!("{}:{}", served.tool, served.peer.ip());
        let campaign = match &self.campaign {
            Some(campaign) => campaign.clone(),
            None => self.begin(&host)?,
        };
        let (id, started_at) = self.ids.next();
        let (configuration, order_seed, null_side) = (None, None, None);
        let factors = BTreeMap::new();
        let trial = TrialPlace { index: self.tests, repeat: 0, factors, configuration, order_seed, null_side };
        self.tests += 1;
        let label =
            Label { id, started_at, campaign, plan: PLAN.to_owned(), trial, endpoints: ["local".to_owned(), host] };
        let record = join::record(label, conducted(served));
        self.store.insert(&record)?;
        Ok(record)
    }

    fn begin(&mut self, host: &str) -> Result<String> {
        let (id, started_at) = self.ids.next();
        self.store.campaign_begin(&Campaign {
            id: id.clone(),
            plan: PLAN.to_owned(),
            plan_text: String::new(),
            target: "local".to_owned(),
            host: host.to_owned(),
            started_at,
            planned: 0,
            finished_at: None,
        })?;
        self.campaign = Some(id.clone());
        Ok(id)
    }

    fn close(&mut self) -> Result<()> {
        if let Some(campaign) = &self.campaign {
            self.store.campaign_finish(campaign, &now().to_string())?;
        }
        Ok(())
    }
}

/// A test as if two agents had conducted it: of the client's machine nothing is known.
fn conducted(served: Served) -> Conducted {
    let Served { peer, local, interface, mut spec, ended, .. } = served;
    spec.ip = Some(if local.is_ipv4() { Ip::V4 } else { Ip::V6 });
    let mut target = environment::describe(interface.as_deref(), &[]);
    target.agent_version = Some(env!("CARGO_PKG_VERSION").to_owned());
    Conducted {
        spec,
        route: Some(Route { target: local.ip(), host: peer.ip() }),
        settings: [Vec::new(), Vec::new()],
        target,
        host: Environment::default(),
        outcomes: ended.map_err(TrialError::Traffic),
    }
}
