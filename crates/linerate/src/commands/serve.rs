//! `linerate serve`: other tools' clients measure against this machine, and each test of theirs becomes a record.
//! Knows no protocol; crate `peers` does.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use linerate_host::environment;
use linerate_host::sys::machine::raise_open_files;
use linerate_host::sys::memory::return_large_buffers;
use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_peers::allow::AllowList;
use linerate_peers::iperf3::authentication::Guard;
use linerate_peers::iperf3::server::Admits;
use linerate_peers::served::{Limits, Served};
use linerate_peers::{iperf2, iperf3, netperf, nuttcp, ttcp};
use linerate_results::record::{Record, TrialPlace};
use linerate_results::store::{Campaign, Store};
use linerate_trial::environment::Environment;
use linerate_trial::flow::PerEnd;
use linerate_trial::spec::{Ip, Spec};

use super::open_store;
use crate::cli::{ServeArgs, Tool};
use crate::interrupt;
use crate::measure::conduct::Conducted;
use crate::measure::error::TrialError;
use crate::measure::ids::{Ids, now};
use crate::measure::join::{self, Label};
use crate::measure::route::Route;
use crate::output::{out, say};
use crate::render;

/// The plan's name in the records of served tests.
const PLAN: &str = "serve";
/// Time between two lines about clients that were refused.
const REFUSALS_PERIOD: Duration = Duration::from_secs(1);

/// Serves until Ctrl-C, or one test.
pub(crate) fn serve(arguments: &ServeArgs) -> Result<ExitCode> {
    let mut tools = arguments.tool.clone();
    tools.sort();
    tools.dedup();
    if tools.len() > 1 && arguments.port.is_some() {
        bail!("--port is for one tool; leave it out, or serve the others with a command of their own");
    }
    let unproven = arguments.allow_unproven_udp.map(|bits_per_second| UnprovenLimit { bits_per_second });
    if unproven.is_some() && !tools.contains(&Tool::Iperf2) {
        bail!(
            "--allow-unproven-udp is for iperf2 alone: no other tool sends datagrams to who cannot prove its address"
        );
    }
    let limits = Limits {
        tests: arguments.max_tests,
        rate: arguments.max_rate,
        time_s: arguments.max_time.as_secs(),
        unproven,
        allow: AllowList::new(arguments.allow.clone()),
        ..Limits::default()
    };
    let mut guard = guard(arguments)?;
    if guard.is_some() && tools != [Tool::Iperf3] {
        bail!("--authorized-users is for iperf3 alone: no other tool's client says who it is; serve the others apart");
    }
    let servers = tools.iter().map(|&tool| Server::bind(tool, arguments.bind, arguments.port, limits.clone()));
    let mut servers = servers.collect::<Result<Vec<_>>>()?;
    let refusals: Vec<_> =
        servers.iter().map(|server| Arc::new(Refused::new(server.name(), arguments.quiet))).collect();
    for (server, refused) in servers.iter_mut().zip(&refusals) {
        server.tell_refusals(refused.clone());
        if let (Server::Iperf3(server), Some(guard)) = (server, guard.take()) {
            server.guard(guard);
        }
    }
    interrupt::listen();
    // A stream takes some descriptors, and many clients may come at once.
    raise_open_files();
    return_large_buffers();
    if !arguments.quiet {
        let serving = servers.iter().map(|server| Ok(format!("{} on port {}", server.name(), server.port()?)));
        let serving = serving.collect::<Result<Vec<_>>>()?.join(", ");
        let at = arguments.bind.map_or("on every address".to_owned(), |address| format!("at {address}"));
        say(format_args!("linerate: serving {serving}, {at}, for {}; Ctrl-C ends it", limits.allow));
    }
    let desk = Mutex::new(Desk {
        store: open_store(&arguments.store)?,
        ids: Ids::default(),
        campaign: None,
        tests: 0,
        allowance: Allowance::new(arguments.max_records, Instant::now()),
    });
    let trouble = Mutex::new(None);
    let over = || {
        interrupt::requested()
            || (arguments.one_off && lock(&desk).tests > 0)
            || trouble.lock().is_ok_and(|trouble| trouble.is_some())
    };
    let heard = |served: Served| {
        if let Some(what) = served.is_no_test() {
            let refused = refusals.iter().find(|refused| refused.tool == served.tool);
            return refused.into_iter().for_each(|refused| refused.tell(served.peer, &what));
        }
        let mut desk = lock(&desk);
        match desk.allowance.take(Instant::now()) {
            Allowed::Yes => {}
            Allowed::No { said } if said || arguments.quiet => return,
            Allowed::No { .. } => return say(format_args!("linerate: {}", desk.allowance.sentence())),
        }
        let sentence = sentence(&served);
        match desk.keep(served) {
            Ok(record) if arguments.json => out!("{}", render::json::json(std::slice::from_ref(&record))),
            Ok(record) => {
                out!("{sentence}: {}\n{}", record.id, render::summary::summary(std::slice::from_ref(&record)))
            }
            Err(error) => *lock(&trouble) = Some(error),
        }
    };
    let served = thread::scope(|scope| {
        let running: Vec<_> = servers.iter().map(|server| scope.spawn(|| server.run(&over, &heard))).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))))
    });
    // What was served is closed whatever happened.
    let closed = lock(&desk).close();
    if let Some(error) = lock(&trouble).take() {
        return Err(error);
    }
    served?;
    closed?;
    if arguments.one_off && lock(&desk).tests == 0 {
        bail!("interrupted before a client came");
    }
    Ok(ExitCode::SUCCESS)
}

/// Who may have a test of iperf3's, where that is said.
fn guard(arguments: &ServeArgs) -> Result<Option<Admits>> {
    let (Some(users), Some(key)) = (&arguments.authorized_users, &arguments.rsa_private_key) else { return Ok(None) };
    let read = |file: &Path| std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
    let in_file = |file: &Path| {
        let file = file.display().to_string();
        move |clause: String| anyhow!("{file} {clause}")
    };
    let known = Guard::users(&read(users)?).map_err(in_file(users))?;
    let private = Guard::key(&read(key)?).map_err(in_file(key))?;
    let guard = Guard::new(private, known).map_err(in_file(key))?;
    Ok(Some(Box::new(move |token| {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        guard.user(token, now_s).is_some()
    })))
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

    /// Has the user here told of clients that are refused.
    fn tell_refusals(&mut self, refused: Arc<Refused>) {
        let tell = move |peer: SocketAddr, what: &str| refused.tell(peer, what);
        match self {
            Server::Iperf3(server) => server.tell_refusals(Box::new(tell)),
            Server::Iperf2(server) => server.tell_refusals(Box::new(tell)),
            Server::Netperf(server) => server.tell_refusals(Box::new(tell)),
            Server::Nuttcp(server) => server.tell_refusals(Box::new(tell)),
            Server::Ttcp(server) => server.tell_refusals(Box::new(tell)),
        }
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

/// Says when clients of a tool are refused, once a second at most: anybody can have that done.
struct Refused {
    tool: &'static str,
    quiet: bool,
    /// When it was said last, and how many were refused since.
    last: Mutex<(Option<Instant>, u64)>,
}

impl Refused {
    fn new(tool: &'static str, quiet: bool) -> Refused {
        Refused { tool, quiet, last: Mutex::default() }
    }

    /// `what` it did, as "asked for …".
    fn tell(&self, peer: SocketAddr, what: &str) {
        let (at, unsaid) = &mut *lock(&self.last);
        if self.quiet || at.is_some_and(|at| at.elapsed() < REFUSALS_PERIOD) {
            *unsaid += 1;
            return;
        }
        let before = if *unsaid > 0 { format!(" ({unsaid} before it were, too)") } else { String::new() };
        say(format_args!("linerate: a client of {} at {} was refused{before}: it {what}", self.tool, peer.ip()));
        (*at, *unsaid) = (Some(Instant::now()), 0);
    }
}

/// How many records a run may make: so many in all, and of these a number in reserve that grows by one a second, so that
/// nobody uses them up, and the disk, at once.
struct Allowance {
    most: u64,
    made: u64,
    reserve: f64,
    at: Instant,
    said: Option<Stopped>,
}

/// Why there is no record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// There are as many as may be.
    Count,
    /// Many tests came in a short time.
    Rate,
}

enum Allowed {
    Yes,
    /// `said`: for the same reason as the one before.
    No {
        said: bool,
    },
}

/// Records that may be made without a pause.
const RESERVE: f64 = 300.0;
/// How many more in a second.
const RECORDS_PER_S: f64 = 1.0;

impl Allowance {
    fn new(most: u64, now: Instant) -> Allowance {
        Allowance { most, made: 0, reserve: RESERVE, at: now, said: None }
    }

    /// Whether this test becomes a record.
    fn take(&mut self, now: Instant) -> Allowed {
        self.reserve = RESERVE.min(self.reserve + RECORDS_PER_S * (now - self.at).as_secs_f64());
        self.at = now;
        let stopped = if self.made >= self.most {
            Stopped::Count
        } else if self.reserve < 1.0 {
            Stopped::Rate
        } else {
            self.made += 1;
            self.reserve -= 1.0;
            return Allowed::Yes;
        };
        let said = self.said == Some(stopped);
        self.said = Some(stopped);
        Allowed::No { said }
    }

    /// What a user here reads, once for each reason.
    fn sentence(&self) -> String {
        match self.said {
            Some(Stopped::Rate) => format!(
                "more than {RESERVE} tests came faster than one a second: beyond that they are served without a record, \
                 while they do; --allow serves those alone whom you name"
            ),
            _ => format!(
                "{} tests have a record, which is as many as --max-records allows: those to come are served without one; \
                 start again for more, and with --allow if you do not know who they are",
                self.made
            ),
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

/// The client, as an endpoint is written: a link-local address with the interface of this machine.
fn endpoint(served: &Served) -> String {
    let ip = served.peer.ip();
    match (&served.interface, ip) {
        (Some(interface), IpAddr::V6(address)) if address.is_unicast_link_local() => {
            format!("{}:[{ip}%{interface}]", served.tool)
        }
        _ => format!("{}:{ip}", served.tool),
    }
}

/// Where tests become records.
struct Desk {
    store: Store,
    ids: Ids,
    /// Begun with the first test: a server that nobody used leaves nothing.
    campaign: Option<String>,
    tests: u32,
    allowance: Allowance,
}

impl Desk {
    fn keep(&mut self, served: Served) -> Result<Record> {
        let host = endpoint(&served);
        let campaign = match &self.campaign {
            Some(campaign) => campaign.clone(),
            None => self.begin(&host)?,
        };
        let (id, started_at) = self.ids.next();
        let (configuration, order_seed, null_side) = (None, None, None);
        let factors = BTreeMap::new();
        let trial = TrialPlace { index: self.tests, repeat: 0, factors, configuration, order_seed, null_side };
        self.tests += 1;
        let label = Label {
            id,
            started_at,
            campaign,
            plan: PLAN.to_owned(),
            trial,
            endpoints: PerEnd { target: "local".to_owned(), host },
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_run_are_bounded_in_number_and_in_time() {
        let mut now = Instant::now();
        let mut allowance = Allowance::new(400, now);
        let mut take = |allowance: &mut Allowance, more: Duration| {
            now += more;
            match allowance.take(now) {
                Allowed::Yes => "yes",
                Allowed::No { said: false } => "no",
                Allowed::No { said: true } => "no, as said",
            }
        };
        for _ in 0..300 {
            assert_eq!(take(&mut allowance, Duration::ZERO), "yes");
        }
        assert_eq!(take(&mut allowance, Duration::ZERO), "no");
        assert!(allowance.sentence().contains("one a second"), "{}", allowance.sentence());
        assert_eq!(take(&mut allowance, Duration::from_millis(500)), "no, as said");
        for _ in 0..100 {
            assert_eq!(take(&mut allowance, Duration::from_secs(1)), "yes");
        }
        assert_eq!(take(&mut allowance, Duration::from_secs(1000)), "no");
        assert!(allowance.sentence().starts_with("400 tests"), "{}", allowance.sentence());
        assert_eq!(take(&mut allowance, Duration::from_secs(1000)), "no, as said");
    }
}
