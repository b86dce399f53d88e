//! A case carried out: its world, its faults at their time, the trial, and what every witness says afterwards.
//! Judges nothing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use linerate_machine::end::End;
use serde_json::Value;

use super::case::{Action, Case, What, Witness, way_of};
use super::world::World;

/// What came of a case.
pub(super) struct Outcome {
    /// What linerate says of it: `explain --json`; `Null` where there is no record.
    pub(super) explanation: Value,
    /// The record.
    pub(super) record: Value,
    /// What linerate said on standard error.
    pub(super) said: String,
    /// Each witness's figure, for the table, and whether it is enough.
    pub(super) bites: Vec<(String, bool)>,
    /// What the relay did.
    pub(super) account: Value,
    /// The part of a CPU that programs other than the case's had, and other virtual machines.
    pub(super) others_cpu: f64,
}

/// Longest that a trial of a few seconds may take, with all that is examined after it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets over the target's link that are more than a handshake and neighbours' questions.
const BEGUN: u64 = 30;
/// As often the traffic is looked at.
const GLANCE: Duration = Duration::from_millis(4);

/// Carries a case out; `folder` is for its files, and is removed by who made it.
pub(super) fn carry_out(case: &Case, program: &Path, folder: &Path) -> Result<Outcome, String> {
    let mut world = World::up(case)?;
    let mut kept = Kept::default();
    let (before_cpu, began) = (Cpu::now(), Instant::now());
    for action in case.actions.iter().filter(|action| action.after_ms.is_none()) {
        kept.handle(action, &world)?;
    }
    let shell_figure = |witness: &Witness, world: &World| match witness {
        Witness::Shell(place, lines, ..) => {
            let said = world.shell(*place, lines).unwrap_or_default();
            said.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum()
        }
        _ => 0,
    };
    let before: Vec<u64> = case.witnesses.iter().map(|witness| shell_figure(witness, &world)).collect();
    let groups = [End::Target, End::Host].map(|end| match case.starts[way_of(end)].quota {
        Some(percent) => Group::new(percent, &format!("{}-{}", case.number, way_of(end))).map(Some),
        None => Ok(None),
    });
    let [target_group, host_group] = groups;
    let groups = [target_group?, host_group?];

    let mut run = linerate(program, folder);
    run.args(["run", case.plan, "--json", "--quiet"]);
    for (end, option) in [(End::Target, "--target"), (End::Host, "--host")] {
        run.args([option, &endpoint(case, end, &world, program, groups[way_of(end)].as_ref())]);
        if let Some(address) = world.address(end) {
            run.args([format!("{option}-address"), address]);
        }
    }
    for set in &case.set {
        run.args(["--set", set]);
    }
    run.stdout(file(folder, "out")?).stderr(file(folder, "err")?);
    let quiet = world.packets();
    let mut running = Running(run.spawn().map_err(|error| format!("{}: {error}", program.display()))?);

    let mut later: Vec<&Action> = case.actions.iter().filter(|action| action.after_ms.is_some()).collect();
    later.sort_by_key(|action| action.after_ms);
    let (started, mut begun) = (Instant::now(), None);
    while running.0.try_wait().map_err(|error| error.to_string())?.is_none() {
        if started.elapsed() > PATIENCE {
            return Err(format!("linerate has not ended after {} s", PATIENCE.as_secs()));
        }
        if begun.is_none() && !later.is_empty() && world.packets() > quiet + BEGUN {
            begun = Some(Instant::now());
        }
        let since = begun.map_or(0, |begun| begun.elapsed().as_millis() as u64);
        while begun.is_some() && later.first().is_some_and(|action| action.after_ms <= Some(since)) {
            kept.handle(later.remove(0), &world)?;
        }
        kept.wake();
        sleep(GLANCE);
    }
    let said = fs::read_to_string(folder.join("err")).unwrap_or_default();
    let records = fs::read_to_string(folder.join("out")).unwrap_or_default();
    let record = records.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null);
    let after: Vec<u64> = case.witnesses.iter().map(|witness| shell_figure(witness, &world)).collect();
    let stopped_ms = kept.seen_stopped_ms;
    drop(kept);
    let account = world.account()?;
    let others_cpu = Cpu::now().others_since(before_cpu, began.elapsed());

    let mut explain = linerate(program, folder);
    explain.args(["explain", "last", "--json"]);
    let explained = explain.output().map_err(|error| error.to_string())?;
    let explanation = serde_json::from_slice(&explained.stdout).unwrap_or(Value::Null);
    let failed = record["result"].is_null() || !record["error"].is_null();
    let figures = before.iter().zip(&after).map(|(before, after)| after.saturating_sub(*before));
    let bites = case.witnesses.iter().zip(figures).map(|(witness, figure)| match witness {
        Witness::Stopped(least) => (format!("stopped {stopped_ms} ms"), stopped_ms >= *least),
        witness => bite(witness, figure, &account, failed),
    });
    Ok(Outcome { explanation, record, said, bites: bites.collect(), account, others_cpu })
}

fn bite(witness: &Witness, figure: u64, account: &Value, failed: bool) -> (String, bool) {
    match witness {
        Witness::Relay(way, counts, least) => {
            let done: u64 = counts.iter().filter_map(|count| account[super::relay::WAYS[*way]][*count].as_u64()).sum();
            (format!("{} {done}", counts.join("+")), done >= *least)
        }
        Witness::Shell(.., least, name) => (format!("{name} {figure}"), figure >= *least),
        Witness::Stopped(_) => (String::new(), false),
        Witness::Failed => (if failed { "failed" } else { "did not fail" }.to_owned(), failed),
    }
}

/// The program, with a store and journals of the case's own, and none of the defaults of whoever runs this.
fn linerate(program: &Path, folder: &Path) -> Command {
    // setpriv(1): it dies with this program, however that ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.env("XDG_DATA_HOME", folder).env("LINERATE_JOURNALS", folder.join("journals")).env("COLUMNS", "1000");
    for key in ["TARGET", "HOST", "STORE", "PSK_FILE"] {
        command.env_remove(format!("LINERATE_{key}"));
    }
    command.stdin(Stdio::null()).current_dir(folder);
    command
}

fn endpoint(case: &Case, end: End, world: &World, program: &Path, group: Option<&Group>) -> String {
    let namespace = world.namespace(end).path();
    let words = &case.starts[way_of(end)].words;
    if words.is_empty() && group.is_none() {
        return format!("netns:{}", namespace.display());
    }
    let enter = group.map(|group| format!("echo $$ >{} && ", group.folder.join("cgroup.procs").display()));
    let (enter, program) = (enter.unwrap_or_default(), program.display());
    format!("exec:{enter}exec {words} {program} agent --stdio --netns {}", namespace.display())
}

fn file(folder: &Path, name: &str) -> Result<File, String> {
    File::create(folder.join(name)).map_err(|error| format!("{}/{name}: {error}", folder.display()))
}

/// The program under way; it is ended with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was done outside the world's namespaces, and is undone with the value.
#[derive(Default)]
struct Kept {
    hogs: Vec<Child>,
    stopped: Vec<(u32, Instant)>,
    /// For so many milliseconds an agent was seen stopped (proc_pid_stat(5), state T).
    seen_stopped_ms: u64,
    glanced: Option<Instant>,
    guardians: Vec<Child>,
}

impl Kept {
    fn handle(&mut self, action: &Action, world: &World) -> Result<(), String> {
        match &action.what {
            What::Shell(place, lines) => world.shell(*place, lines).map(drop)?,
            What::Hog(cpu, words) => {
                let mut hog = Command::new("setpriv");
                hog.args(["--pdeathsig", "KILL", "--", "taskset", "-c", &cpu.to_string()]);
                hog.args(words.split_whitespace()).args(["sh", "-c", "while :; do :; done"]);
                self.hogs.push(hog.spawn().map_err(|error| format!("setpriv(1): {error}"))?);
            }
            What::Stop(end, for_ms) => {
                let path = world.namespace(*end).path().display().to_string();
                let agent = agent_of(&path).ok_or_else(|| format!("there is no agent in {path}"))?;
                signal(agent, "STOP");
                self.stopped.push((agent, Instant::now() + Duration::from_millis(*for_ms)));
            }
            What::Machine(path, value) => {
                let old = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
                // The shell's standard input ends with this value and with this program, however that ends.
                let mut shell = Command::new("setsid");
                shell.args(["sh", "-c", &format!("cat >/dev/null; echo {} >{path}", old.trim())]);
                self.guardians
                    .push(shell.stdin(Stdio::piped()).spawn().map_err(|error| format!("setsid(1): {error}"))?);
                fs::write(path, value.to_string()).map_err(|error| format!("{path}: {error}"))?;
            }
        }
        Ok(())
    }

    /// Lets those run on whose time has come.
    fn wake(&mut self) {
        let now = Instant::now();
        let passed = self.glanced.replace(now).map_or(0, |before| (now - before).as_millis() as u64);
        let is_stopped = |(process, _): &(u32, Instant)| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
        };
        self.seen_stopped_ms += if self.stopped.iter().any(is_stopped) { passed } else { 0 };
        self.stopped.retain(|(process, until)| {
            if *until <= now {
                signal(*process, "CONT");
            }
            *until > now
        });
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            let _ = hog.kill();
            let _ = hog.wait();
        }
        self.stopped.iter().for_each(|(process, _)| signal(*process, "CONT"));
        for guardian in &mut self.guardians {
            drop(guardian.stdin.take());
            let _ = guardian.wait();
        }
    }
}

/// The agent process that works in this namespace.
fn agent_of(netns: &str) -> Option<u32> {
    let numbers = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|number: &u32| {
        let command = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = command.split(|octet| *octet == 0).collect();
        words.contains(&b"agent".as_slice()) && words.contains(&netns.as_bytes())
    })
}

/// The shell's own kill(1), because the program is a package of its own.
fn signal(process: u32, name: &str) {
    let _ = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).stderr(Stdio::null()).status();
}

/// A control group with a share of one CPU. What an earlier run left is removed with the next.
struct Group {
    folder: PathBuf,
}

/// Where control groups of CPU time are made: of version 2, or 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
const GROUP: &str = "linerate-faults-";

impl Group {
    fn new(percent: u32, name: &str) -> Result<Group, String> {
        let is_v2 = Path::new(GROUPS[0]).join("cgroup.subtree_control").exists();
        let top = Path::new(GROUPS[usize::from(!is_v2)]);
        for old in fs::read_dir(top).into_iter().flatten().flatten() {
            let name = old.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix(GROUP).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
                let _ = fs::remove_dir(old.path());
            }
        }
        let folder = top.join(format!("{GROUP}{}-{name}", std::process::id()));
        let no = |error: std::io::Error| format!("{}: {error}", folder.display());
        let write = |file: PathBuf, text: String| fs::write(&file, text).map_err(no);
        if is_v2 {
            write(top.join("cgroup.subtree_control"), "+cpu".to_owned())?;
        }
        fs::create_dir(&folder).map_err(no)?;
        let group = Group { folder: folder.clone() };
        // Of 100 ms, which is what systemd and Kubernetes give.
        let quota = u64::from(percent) * 1000;
        if is_v2 {
            write(folder.join("cpu.max"), format!("{quota} 100000"))?;
        } else {
            write(folder.join("cpu.cfs_quota_us"), quota.to_string())?;
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process in it may still be ending.
        let deadline = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
    }
}

/// CPU time in ticks of a hundredth of a second: that of all programs, stolen, and of this one's children that ended.
#[derive(Clone, Copy)]
struct Cpu {
    all: u64,
    ours: u64,
}

impl Cpu {
    fn now() -> Cpu {
        let words = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, own) = (words("/proc/stat"), words("/proc/self/stat"));
        // proc_stat(5): user, nice, then system, idle, iowait, irq, softirq, steal.
        let of = |at: usize| stat.split_whitespace().nth(at).and_then(|word| word.parse().ok()).unwrap_or(0);
        let all: u64 = of(1) + of(2) + of(8);
        // proc_pid_stat(5), field 16: user time of children that were waited for; two fields stand before the state.
        let rest = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ours = rest.split_whitespace().nth(13).and_then(|word| word.parse().ok()).unwrap_or(0);
        Cpu { all, ours }
    }

    fn others_since(self, before: Cpu, time: Duration) -> f64 {
        let all = self.all.saturating_sub(before.all) as f64;
        let ours = self.ours.saturating_sub(before.ours) as f64;
        (all - ours).max(0.0) / 100.0 / time.as_secs_f64()
    }
}
