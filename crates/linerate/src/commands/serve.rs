//! `linerate serve`: other tools' clients measure against this machine, and each test of theirs becomes a record.
//! Knows no protocol; crate `peers` does.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Error, Result, anyhow, bail};
use linerate_host::environment;
use linerate_host::sys::machine::raise_open_files;
use linerate_host::sys::memory::return_large_buffers;
use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_machine::end::PerEnd;
use linerate_machine::environment::Environment;
use linerate_machine::sync::Mutex;
use linerate_peers::allow::AllowList;
use linerate_peers::iperf3::authentication::Guard;
use linerate_peers::limits::Limits;
use linerate_peers::served_test::{ServedTest, TestPart};
use linerate_peers::server::{Admits, Server};
use linerate_results::join::{self, EndedTrial, Label, Route};
use linerate_results::record::{Record, TrialPlace};
use linerate_results::store::{Campaign, Store, StoreError};
use linerate_trial::spec::{Ip, Spec};
use linerate_trial::tool::Tool;

use super::store_to_keep;
use crate::cli::{ServeArgs, SharedArgs};
use crate::input_file;
use crate::interrupt;
use crate::measure::ids::{Ids, now};
use crate::output::{out, say};
use crate::render;

/// The plan's name in the records of served tests.
const PLAN: &str = "serve";
/// How long no record is tried after one that could not be kept: a store that another process has locked takes seconds to say so.
const KEEP_AGAIN: Duration = Duration::from_secs(5);
/// Time between two lines about clients that were refused.
const REFUSALS_PERIOD: Duration = Duration::from_secs(1);

/// Serves until Ctrl-C, or one test.
pub(crate) fn serve(arguments: &ServeArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let mut tools = arguments.tool.clone();
    tools.sort();
    tools.dedup();
    let port = |tool: Tool| arguments.port.unwrap_or(tool.row().port);
    for (at, &tool) in tools.iter().enumerate() {
        if let Some(&other) = tools[..at].iter().find(|&&other| port(other) == port(tool) && port(tool) != 0) {
            let port = port(tool);
            bail!(
                "{other} and {tool} would both listen on port {port}; serve one of them by a command of its own: linerate \
                 serve {tool} --port {}",
                port.saturating_add(1)
            );
        }
    }
    let unproven = arguments.allow_unproven_udp.map(|bits_per_second| UnprovenLimit { bits_per_second });
    if unproven.is_some() && !tools.iter().any(|tool| tool.row().asks_unproven) {
        bail!(
            "--allow-unproven-udp is for {} alone: no other tool sends datagrams to who cannot prove its address; leave it out",
            Tool::names(|row| row.asks_unproven)
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
    if guard.is_some() && (tools.len() > 1 || !tools[0].row().has_users) {
        bail!(
            "--authorized-users is for {} alone: no other tool's client says who it is; serve the others apart",
            Tool::names(|row| row.has_users)
        );
    }
    let mut servers = tools.iter().map(|&tool| bind(tool, arguments, &limits)).collect::<Result<Vec<_>>>()?;
    let refusals: Vec<_> = servers.iter().map(|server| Arc::new(Refused::new(server.tool(), shared.quiet))).collect();
    for (server, refused) in servers.iter_mut().zip(&refusals) {
        let refused = refused.clone();
        server.tell_refusals(Box::new(move |peer, what| refused.tell(peer, what)));
        if let Some(guard) = guard.take() {
            server.guard(guard);
        }
    }
    interrupt::listen();
    // A stream takes some descriptors, and many clients may come at once.
    raise_open_files();
    return_large_buffers();
    if !shared.quiet {
        let serving = servers.iter().map(|server| Ok(format!("{} on port {}", server.tool(), server.port()?)));
        let serving = serving.collect::<Result<Vec<_>>>()?.join(", ");
        let at = arguments.bind.map_or("on every address".to_owned(), |address| format!("at {address}"));
        say(format_args!("linerate: serving {serving}, {at}, for {}; Ctrl-C ends it", limits.allow));
    }
    let keeper = Mutex::new(RecordKeeper {
        store: store_to_keep(shared)?,
        ids: Ids::default(),
        campaign: None,
        tests: 0,
        halves: 0,
        allowance: Allowance::new(arguments.max_records, Instant::now()),
        failed_at: None,
    });
    let failure = Mutex::new(None);
    let over = || interrupt::requested() || (arguments.one_off && keeper.lock().is_done()) || failure.lock().is_some();
    let heard = |served: ServedTest| {
        keeper.lock().count(served.half);
        if let Some(what) = served.is_no_test() {
            let refused = refusals.iter().find(|refused| refused.tool == served.tool);
            return refused.into_iter().for_each(|refused| refused.tell(served.peer, &what));
        }
        let mut keeper = keeper.lock();
        if keeper.failed_at.is_some_and(|at| at.elapsed() < KEEP_AGAIN) {
            return;
        }
        match keeper.allowance.take(Instant::now()) {
            Allowed::Yes => {}
            Allowed::No { said } if said || shared.quiet => return,
            Allowed::No { .. } => return say(format_args!("linerate: {}", keeper.allowance.sentence())),
        }
        let sentence = sentence(&served);
        match keeper.keep(served) {
            Ok(record) if arguments.json => out!("{}", render::json::json(std::slice::from_ref(&record))),
            Ok(record) => {
                let summary = match &record.error {
                    Some(why) => format!("It failed: {why}\n"),
                    None => render::summary::summary(std::slice::from_ref(&record)),
                };
                super::show(&format!("{sentence}: {}\n{summary}", record.id), false);
            }
            Err(error) if arguments.one_off => *failure.lock() = Some(error),
            // Once, until a record is kept again.
            Err(error) if keeper.failed_at.replace(Instant::now()).is_none() => say(format_args!(
                "linerate: a test has no record: {}. Tests are served without one until the store can be written, which is \
                 tried again every {} s",
                not_kept(&error),
                KEEP_AGAIN.as_secs()
            )),
            Err(_) => {}
        }
    };
    let served = thread::scope(|scope| {
        let running: Vec<_> = servers.iter().map(|server| scope.spawn(|| server.run(|_| over(), heard))).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))))
    });
    // What was served is closed whatever happened.
    let closed = keeper.lock().close();
    if let Some(error) = failure.lock().take() {
        bail!(not_kept(&error));
    }
    served?;
    closed.map_err(|error| anyhow!(not_kept(&error)))?;
    if arguments.one_off && keeper.lock().tests == 0 {
        bail!("interrupted before a client came");
    }
    Ok(ExitCode::SUCCESS)
}

/// Who may have a test of iperf3's, where that is said.
fn guard(arguments: &ServeArgs) -> Result<Option<Admits>> {
    let (Some(users), Some(key)) = (&arguments.authorized_users, &arguments.rsa_private_key) else { return Ok(None) };
    let in_file = |file: &Path| {
        let file = file.display().to_string();
        move |clause: String| anyhow!("{file} {clause}")
    };
    let known = Guard::users(&input_file::text(users)?).map_err(in_file(users))?;
    let private = Guard::key(&input_file::text(key)?).map_err(in_file(key))?;
    let guard = Guard::new(private, known).map_err(in_file(key))?;
    Ok(Some(Box::new(move |token| {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        guard.user(token, now_s).is_some()
    })))
}

/// A tool's server that listens.
fn bind(tool: Tool, arguments: &ServeArgs, limits: &Limits) -> Result<Server> {
    let port = arguments.port.unwrap_or(tool.row().port);
    Server::bind(tool, arguments.bind, port, limits.clone())
        .map_err(|error| match (error.kind(), arguments.bind) {
            (io::ErrorKind::AddrNotAvailable, Some(address)) => {
                anyhow!("this machine has no address {address} to listen at; 'ip address' shows those it has")
            }
            (io::ErrorKind::AddrInUse, _) => anyhow!(
                "port {port}, for {tool}, is in use: another {tool} server, or another linerate serve, listens there; end it, \
                 or choose another with --port"
            ),
            _ => anyhow!("cannot listen on port {port} for {tool}: {error}; choose another with --port"),
        })
}

/// Says when clients of a tool are refused, once a second at most: anybody can have that done.
struct Refused {
    tool: Tool,
    quiet: bool,
    /// When it was said last, and how many were refused since.
    last: Mutex<(Option<Instant>, u64)>,
}

impl Refused {
    fn new(tool: Tool, quiet: bool) -> Refused {
        Refused { tool, quiet, last: Mutex::default() }
    }

    /// `what` it did, as "asked for …".
    fn tell(&self, peer: SocketAddr, what: &str) {
        let (at, unsaid) = &mut *self.last.lock();
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

/// Why the store did not keep something. What was served cannot be carried on, as a campaign can.
fn not_kept(error: &Error) -> String {
    match error.downcast_ref() {
        Some(StoreError::DiskFull { path, .. }) => {
            format!("the disk of the store {} is full; make room", path.display())
        }
        _ => error.to_string(),
    }
}

fn sentence(served: &ServedTest) -> String {
    let version = served.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let Spec { workload, direction, .. } = served.spec;
    format!("{}{version} from {}, {workload} {direction}", served.tool, served.peer.ip())
}

/// The client, as an endpoint is written: a link-local address with the interface of this machine.
fn endpoint(served: &ServedTest) -> String {
    let ip = served.peer.ip();
    match (&served.interface, ip) {
        (Some(interface), IpAddr::V6(address)) if address.is_unicast_link_local() => {
            format!("{}:[{ip}%{interface}]", served.tool)
        }
        _ => format!("{}:{ip}", served.tool),
    }
}

/// Where tests become records.
struct RecordKeeper {
    store: Store,
    ids: Ids,
    /// Begun with the first test: a server that nobody used leaves nothing.
    campaign: Option<String>,
    tests: u32,
    /// Tests whose second half is yet to come.
    halves: u32,
    allowance: Allowance,
    /// When a record could not be kept, if none was since.
    failed_at: Option<Instant>,
}

impl RecordKeeper {
    /// Whether a test has come, and is over.
    fn is_done(&self) -> bool {
        self.tests > 0 && self.halves == 0
    }

    fn count(&mut self, half: Option<TestPart>) {
        match half {
            Some(TestPart::First) => self.halves += 1,
            Some(TestPart::Second) => self.halves = self.halves.saturating_sub(1),
            None => {}
        }
    }

    fn keep(&mut self, served: ServedTest) -> Result<Record> {
        let host = endpoint(&served);
        let campaign = match &self.campaign {
            Some(campaign) => campaign.clone(),
            None => self.begin(&host)?,
        };
        let (id, started_at) = self.ids.next();
        let (configuration, order_seed, null_side) = (None, None, None);
        let factors = BTreeMap::new();
        let trial =
            TrialPlace { index: self.tests, repeat: 0, factors, configuration, order_seed, null_side, search: None };
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
        self.failed_at = None;
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
fn conducted(served: ServedTest) -> EndedTrial<linerate_peers::error::Error> {
    let ServedTest { peer, local, interface, mut spec, ended, .. } = served;
    spec.ip = Some(if local.is_ipv4() { Ip::V4 } else { Ip::V6 });
    let mut target = environment::describe(interface.as_deref(), &[]);
    target.agent_version = Some(env!("CARGO_PKG_VERSION").to_owned());
    EndedTrial {
        spec,
        route: Some(Route { target: local.ip(), host: peer.ip() }),
        settings: [Vec::new(), Vec::new()],
        overridden: Vec::new(),
        target,
        host: Environment::default(),
        middle: None,
        middle_outcome: None,
        outcomes: ended,
        partial: PerEnd::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_asks_for_room_and_nothing_else() {
        let said = not_kept(&StoreError::DiskFull { path: "x".into(), kept: 2 }.into());
        assert_eq!(said, "the disk of the store x is full; make room");
    }

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
