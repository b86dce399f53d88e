//! One random campaign, from the world that it is in to what it left behind.
//! Knows what must hold; the world, the settings and the faults are others'.

use std::fmt::{self, Display};
use std::fs;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::fault::{Fault, Interface, Moment};
use crate::machines::chance::Chance;
use crate::machines::{Bench, Ran, Running};
use crate::snapshot::Snapshot;
use crate::wanted::{self, Sysctls, Wanted};
use crate::world::{self, Step, World};

/// Where journals are.
const JOURNALS: &str = "/run/linerate";
/// A campaign that hangs has failed.
const LIMIT: Duration = Duration::from_secs(60);
/// A controller waits a minute for a link that is gone. So long it may go on without; then it is interrupted.
const WITHOUT_LINK: Duration = Duration::from_secs(7);
/// Agents bear a silence of ten seconds, and a watchdog has as much to do.
const PROCESSES_LIMIT: Duration = Duration::from_secs(20);
/// What settles by itself (carriers, addresses that are checked) has done so by then.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// How the two ends are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Two namespaces, from outside.
    Namespaces,
    /// The controller is in the host's namespace.
    LocalHost,
    /// The controller is in the target's.
    LocalTarget,
    /// Both in one namespace, which has one lease: refused.
    One,
    /// The host is the machine itself, in the namespace that it began with.
    Outside,
}

/// A campaign, all of it from a seed. Parts can be taken away to see which of them matter.
#[derive(Clone, Debug)]
pub struct Spec {
    pub seed: u64,
    pub steps: Vec<Step>,
    pub ends: Ends,
    pub workload: &'static [&'static str],
    pub wanted: Vec<Wanted>,
    /// Set by hand before, to stay, and restored after.
    pub kept: Vec<Wanted>,
    pub fault: Fault,
    pub moment: Moment,
}

/// Keys of a plan.
const WORKLOADS: [&[&str]; 5] = [
    &["workload = 'tcp-rr'", "options.duration = '40ms'"],
    &["workload = 'udp-rr'", "options.duration = '40ms'", "options.rate = '500pps'"],
    &["workload = 'udp-stream'", "options.duration = '100ms'", "options.rate = '5M'"],
    &["workload = 'tcp-stream'", "options.bytes = '300K'"],
    &["workload = 'tcp-stream'", "options.duration = '100ms'", "options.rate = '20M'", "options.direction = 'tx'"],
];

impl Spec {
    pub fn of(seed: u64, sysctls: &Sysctls) -> Spec {
        let mut chance = Chance(seed);
        let ends = match chance.below(12) {
            0 | 1 => Ends::LocalHost,
            2 => Ends::LocalTarget,
            3 if chance.one_in(4) => Ends::One,
            3 | 4 => Ends::Outside,
            _ => Ends::Namespaces,
        };
        let fault = match Fault::any(&mut chance) {
            // There it is another link that the traffic takes.
            Fault::Interface(_) if ends == Ends::Outside => Fault::None,
            fault => fault,
        };
        // Apart, so that what a seed was stays what it is.
        let mut rare = Chance(!seed);
        let fault = if rare.one_in(4) { Fault::rare(&mut rare) } else { fault };
        let kept = if fault == Fault::None && chance.one_in(4) {
            let mut kept = wanted::settings(&mut chance, sysctls);
            kept.retain(|one| one.end == "target" && !one.name.starts_with("custom."));
            kept
        } else {
            Vec::new()
        };
        let mut wanted = wanted::settings(&mut chance, sysctls);
        if ends == Ends::Outside {
            wanted::outside(&mut chance, &mut wanted);
        }
        Spec {
            seed,
            steps: world::steps(&mut chance),
            ends,
            workload: chance.of::<&[&str]>(&WORKLOADS),
            wanted,
            kept,
            fault,
            moment: Moment::any(&mut chance),
        }
    }

    fn plan(&self) -> String {
        let mut options: Vec<String> = self.workload.iter().map(|line| (*line).to_owned()).collect();
        options.push("options.warmup = '0s'".to_owned());
        options.push("options.interval = '10ms'".to_owned());
        let mut factors = Vec::new();
        for Wanted { end, name, levels } in &self.wanted {
            let quoted: Vec<String> = levels.iter().map(|level| format!("'{level}'")).collect();
            let key = key_of(end, name);
            match quoted.as_slice() {
                [one] => options.push(format!("options.{key} = {one}")),
                several => factors.push(format!("factors.{key} = [{}]", several.join(", "))),
            }
        }
        let order = if self.seed.is_multiple_of(2) { "plan" } else { "random" };
        let mut lines = vec!["format = 'linerate.plan/1'".to_owned(), format!("order = '{order}'")];
        lines.extend(options);
        lines.extend(factors);
        lines.push("custom.word.file = '/run/rig/word'".to_owned());
        lines.push("custom.number.get = ['cat', '/run/rig/number']".to_owned());
        lines.push("custom.number.set = ['sh', '-c', 'echo {value} >/run/rig/number']".to_owned());
        lines.join("\n") + "\n"
    }

    fn trials(&self) -> usize {
        self.wanted.iter().map(|one| one.levels.len()).product()
    }

    fn endpoints(&self) -> [&'static str; 2] {
        let (target, host) = ("netns:/run/netns/target", "netns:/run/netns/host");
        match self.ends {
            Ends::Namespaces => [target, host],
            Ends::LocalHost | Ends::Outside => [target, "local"],
            Ends::LocalTarget => ["local", host],
            Ends::One => [target, target],
        }
    }
}

/// `target.'sysctl.net.core.x'`: dots separate in TOML, and belong to names here; each part may have other characters.
fn key_of(end: &str, name: &str) -> String {
    format!("'{end}.{name}'")
}

/// As text to be pasted: the world's script, the plan and the command.
impl Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [target, host] = self.endpoints();
        writeln!(f, "seed {}: {:?}, {:?} at {:?}", self.seed, self.ends, self.fault, self.moment)?;
        writeln!(f, "  LINERATE_CAMPAIGNS=1 LINERATE_SEED={} cargo test -p linerate --test restoration", self.seed)?;
        for step in &self.steps {
            writeln!(f, "  in {}: {}", step.namespace, step.lines.replace('\n', "\n      "))?;
        }
        for Wanted { name, levels, .. } in &self.kept {
            writeln!(f, "  linerate target {target} set '{name}={}'", levels[0])?;
        }
        write!(f, "  linerate run PLAN --target {target} --host {host}  # where PLAN is")?;
        self.plan().lines().try_for_each(|line| write!(f, "\n      {line}"))
    }
}

/// The machine's own namespace, of which there is one: a campaign in it is alone, and whatever it leaves is put back.
struct Outside {
    before: Vec<(&'static str, String)>,
    _alone: MutexGuard<'static, ()>,
}

impl Outside {
    fn alone() -> Outside {
        static ONE: Mutex<()> = Mutex::new(());
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = ["busy_poll", "busy_read", "rps_sock_flow_entries"];
        let read = |name| (name, fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default());
        Outside { before: paths.map(read).into(), _alone: alone }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        for (name, text) in &self.before {
            let _ = fs::write(format!("/proc/sys/net/core/{name}"), text);
        }
    }
}

/// What a campaign came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Why it failed, each a few lines.
    pub failures: Vec<String>,
    /// Trials that were measured.
    pub measured: usize,
    /// The program's own status; `None` for a signal.
    pub status: Option<i32>,
    /// The fault came while settings were changed.
    pub was_changed: bool,
    pub stderr: String,
}

/// Carries it out in a world of its own.
pub fn run(spec: &Spec) -> Outcome {
    let mut outcome = Outcome::default();
    let bench = Bench::bare("restoration");
    let outside = (spec.ends == Ends::Outside).then(Outside::alone);
    let world = if outside.is_some() { World::with_cable_out(&spec.steps) } else { World::build(&spec.steps) };
    let program = std::env::var("LINERATE_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_linerate").to_owned());
    let linerate = |namespace: Option<&str>, words: &[&str]| {
        let mut command = world.command(namespace, &program);
        command.args(words);
        bench.dress(&mut command);
        // Where a machine has them: each world is one.
        command.env("LINERATE_JOURNALS", JOURNALS);
        command
    };
    if spec.fault.mounts() {
        let pages = if let Fault::Full { pages } = spec.fault { pages } else { 1000 };
        let size = format!("{}k", pages * 4 + 4);
        let _ = fs::create_dir(world.path(JOURNALS));
        let mount = ["-t", "tmpfs", "-o", &format!("mode=700,size={size}"), "none", JOURNALS];
        let status = world.command(None, "mount").args(mount).status().unwrap();
        assert!(status.success(), "a small tmpfs");
    }
    let before = Snapshot::of(&world);

    let [target, host] = spec.endpoints();
    for Wanted { name, levels, .. } in &spec.kept {
        let set = format!("{name}={}", levels[0]);
        done(&mut outcome, linerate(None, &["target", "netns:/run/netns/target", "set", &set]));
    }
    let found = if spec.kept.is_empty() { before.clone() } else { Snapshot::of(&world) };

    let plan = bench.folder.path("plan.toml");
    fs::write(&plan, spec.plan()).unwrap();
    let namespace = match spec.ends {
        Ends::LocalHost => Some("host"),
        Ends::LocalTarget => Some("target"),
        Ends::Namespaces | Ends::One | Ends::Outside => None,
    };
    let mut running =
        Running::start(linerate(namespace, &["run", &plan, "--target", target, "--host", host, "--quiet"]));
    if spec.fault != Fault::None {
        outcome.was_changed = wait_for(spec.moment, &world, &mut running);
        spec.fault.strike(&bench, &world, running.id());
    }
    if matches!(spec.fault, Fault::Interface(_)) {
        let deadline = Instant::now() + WITHOUT_LINK;
        while !running.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        if !running.has_ended() {
            running.signal("INT");
        }
    }
    let Some(ran) = end_of(running, &mut outcome) else { return outcome };
    outcome.status = ran.status.code();
    outcome.stderr.clone_from(&ran.stderr);
    if ran.stderr.contains("panicked") {
        outcome.failures.push("it panicked".to_owned());
    }
    if !nothing_runs(&bench, PROCESSES_LIMIT) {
        outcome.failures.push(format!("processes are left: {:?}", bench.processes()));
    }
    let _ = fs::remove_file(world.path("/run/linerate/filler"));
    if spec.fault == Fault::ReadOnly {
        world.shell_outside("mount -o remount,rw /run/linerate");
    }
    if spec.fault.wants_next_agent() {
        next_agents(spec, &world, &before, &mut outcome, &linerate);
    }
    if let Fault::Interface(of) = spec.fault
        && let Some(undo) = of.undo()
    {
        world.shell("target", undo);
    }
    let wanted = expected(spec, found);
    compare("after the campaign", &wanted, &world, |line| is_exempt(spec, line), &mut outcome);
    if !spec.kept.is_empty() {
        done(&mut outcome, linerate(None, &["target", "netns:/run/netns/target", "restore"]));
        compare("after restore", &before, &world, |_| false, &mut outcome);
    }
    // One without a change is of an agent that was killed before it made the first: the next agent deletes it.
    let journals: Vec<String> = journals(&world).into_iter().filter(|text| text.contains("\"change\"")).collect();
    if !journals.is_empty() {
        outcome.failures.push(format!("journals are left:\n{}", journals.join("\n")));
    }

    let records = bench.records();
    outcome.measured = records.iter().filter(|record| record.error.is_none()).count();
    if outcome.status == Some(0) && outcome.measured != spec.trials() {
        let failure = format!("status 0, and {} of {} trials are in the store", outcome.measured, spec.trials());
        outcome.failures.push(failure);
    }
    outcome
}

/// Waits for the moment; tells whether settings were changed then, or soon to be.
fn wait_for(moment: Moment, world: &World, running: &mut Running) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !moment.from_start && journals(world).is_empty() && Instant::now() < deadline && !running.has_ended() {
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(moment.after);
    !journals(world).is_empty()
}

fn end_of(mut running: Running, outcome: &mut Outcome) -> Option<Ran> {
    let deadline = Instant::now() + LIMIT;
    while !running.has_ended() {
        if Instant::now() >= deadline {
            outcome.failures.push(format!("it had not ended after {LIMIT:?}"));
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
    Some(running.wait(LIMIT))
}

/// Runs a command that must not hang; what it refuses is its affair.
fn done(outcome: &mut Outcome, command: Command) -> Option<Ran> {
    end_of(Running::start(command), outcome)
}

fn nothing_runs(bench: &Bench, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while !bench.processes().is_empty() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// The next agent of any namespace puts the machine's settings back, and that of each namespace its own.
fn next_agents(
    spec: &Spec,
    world: &World,
    before: &Snapshot,
    outcome: &mut Outcome,
    linerate: &dyn Fn(Option<&str>, &[&str]) -> Command,
) {
    let mut look = |namespace: &str| {
        let endpoint = format!("netns:/run/netns/{namespace}");
        let ran = done(outcome, linerate(None, &["target", &endpoint, "get", "queue_length", "--interface", "lo"]));
        outcome.stderr.push_str(&ran.map(|ran| ran.stderr).unwrap_or_default());
    };
    if spec.seed.is_multiple_of(3) {
        look("other");
        let now = Snapshot::of_machine(world);
        let left = before.without(|line| !line.starts_with("machine ")).difference(&now);
        if !left.is_empty() {
            outcome.failures.push(format!("an agent in another namespace left of the machine:\n{}", left.join("\n")));
        }
    }
    let mut look = |namespace: &str| {
        let endpoint = format!("netns:/run/netns/{namespace}");
        let ran = done(outcome, linerate(None, &["target", &endpoint, "get", "queue_length", "--interface", "lo"]));
        outcome.stderr.push_str(&ran.map(|ran| ran.stderr).unwrap_or_default());
    };
    look("target");
    look("host");
    if spec.ends == Ends::Outside {
        let ran = done(outcome, linerate(None, &["target", "local", "get", "queue_length", "--interface", "lo"]));
        outcome.stderr.push_str(&ran.map(|ran| ran.stderr).unwrap_or_default());
    }
}

/// What must be there afterwards.
fn expected(spec: &Spec, found: Snapshot) -> Snapshot {
    let Fault::Interface(of) = spec.fault else { return found };
    // The same without any campaign: what else goes with an interface is the kernel's business.
    let twin = World::build(&spec.steps);
    twin.shell("target", of.lines());
    if let Some(undo) = of.undo() {
        twin.shell("target", undo);
    }
    thread::sleep(Duration::from_millis(50));
    Snapshot::of(&twin)
}

/// Whether a line speaks of what no agent could have put back.
fn is_exempt(spec: &Spec, line: &str) -> bool {
    match spec.fault {
        Fault::Interface(Interface::Moved) => {
            // It took its MTU and its features along, and is out of reach of an agent of its old namespace.
            line.starts_with("other ") && line.contains("eth0")
                // Whether its peer has a carrier then is veth's own affair: a change of channels turns it on
                // (veth_set_channels in drivers/net/veth.c).
                || ["host link ", "other link mv8 "].iter().any(|of| line.starts_with(of))
                    && [" flags ", " operstate "].iter().any(|key| line.contains(key))
                // What stays behind on it has the offloads that it has, and a moved one keeps what was set on it.
                || ["target", "other"].iter().any(|end| line.starts_with(&format!("{end} ethtool -k mv")))
                // And nexthops go when there is none (nexthop_netdev_event in net/ipv4/nexthop.c), with their routes.
                || line.starts_with("host nexthop ")
                || line.starts_with("host route") && line.contains("\"nhid\":")
        }
        // A change of the new one's channels, which a later trial makes, turns its carrier on although its peer is down
        // (veth_set_channels), and with a carrier it gets its link-local address.
        Fault::Interface(Interface::Replaced)
            if spec.wanted.iter().any(|one| one.name.contains("channels."))
                && line.starts_with("target ")
                && line.contains("eth0")
                && [" flags ", " operstate ", "\"fe80::", "ff02::1:ff", "ff00::/8", "linkdown"]
                    .iter()
                    .any(|key| line.contains(key)) =>
        {
            true
        }
        _ => false,
    }
}

fn compare(when: &str, wanted: &Snapshot, world: &World, is_exempt: impl Fn(&str) -> bool, outcome: &mut Outcome) {
    let deadline = Instant::now() + SETTLE_LIMIT;
    let wanted = wanted.without(&is_exempt);
    loop {
        let difference = wanted.difference(&Snapshot::of(world).without(&is_exempt));
        if difference.is_empty() {
            return;
        }
        if Instant::now() >= deadline {
            const MOST: usize = 14;
            let more = difference.len().saturating_sub(MOST);
            let mut text = difference[..difference.len().min(MOST)].join("\n");
            if more > 0 {
                text.push_str(&format!("\n… and {more} more"));
            }
            outcome.failures.push(format!("{when} the machine is another:\n{text}"));
            return;
        }
        thread::sleep(Duration::from_millis(300));
    }
}

/// What is written down and not put back.
fn journals(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.path(JOURNALS)).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "journal"));
    entries
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            format!("{}: {}", entry.file_name().to_string_lossy(), text.trim())
        })
        .collect()
}
