//! Two machines for a test, and the real program run between them with its own store and a limit of time.
//! Knows no figures: what is measured is for the tests to judge.
#![allow(dead_code, reason = "each test file uses another part of it")]

pub mod audit;
pub mod browser;
pub mod case_forms;
pub mod chance;
pub mod cookbook;
pub mod kept;
#[cfg(feature = "nats")]
pub mod queue;
pub mod relay;
pub mod row;
pub mod served;
pub mod sshd;

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_lab::{Lab, Privilege, Shape, privilege};
use linerate_results::record::Record;
use linerate_results::select::Filter;
use linerate_results::store::Store;

/// In the environment of everything that a test starts, so that it is found again.
const MARK: &str = "LINERATE_TEST_MARK";

/// A folder of one test, the programs it starts, and, if it wants them, two machines.
pub struct Bench {
    /// The two machines; `None` for tests that need no network.
    pub lab: Option<Lab>,
    /// Goes away with the test.
    pub folder: Folder,
    mark: String,
}

impl Bench {
    /// A test without machines.
    pub fn bare(name: &str) -> Bench {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{name}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Bench { lab: None, folder: Folder::new(&mark), mark }
    }

    /// A test with two machines of this shape; `None`, and a line that says so, where this process may not make them.
    pub fn of(name: &str, shape: &Shape) -> Option<Bench> {
        if privilege() != Privilege::Root {
            eprintln!("SKIPPED {name}: it needs root, or 'unshare --user --map-root-user cargo test'");
            return None;
        }
        let mut bench = Bench::bare(name);
        bench.lab = Some(Lab::up(shape).expect("two machines"));
        Some(bench)
    }

    /// A test with two machines and a cable of 200 Mbit/s each way: traffic that leaves the CPUs time for the rest.
    pub fn new(name: &str) -> Option<Bench> {
        Bench::of(
            name,
            &Shape { tx_rate_bps: Some(200_000_000), rx_rate_bps: Some(200_000_000), ..Shape::modest_board() },
        )
    }

    pub fn lab(&self) -> &Lab {
        self.lab.as_ref().expect("this test has machines")
    }

    pub fn lab_mut(&mut self) -> &mut Lab {
        self.lab.as_mut().expect("this test has machines")
    }

    /// `netns:PATH` of the target.
    pub fn target(&self) -> String {
        format!("netns:{}", self.lab().target.path().display())
    }

    /// `netns:PATH` of the host.
    pub fn host(&self) -> String {
        format!("netns:{}", self.lab().host.path().display())
    }

    /// The program, with the environment of this test; its store is [`Bench::store_path`].
    pub fn linerate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(arguments);
        self.dress(&mut command);
        command
    }

    /// Gives any command the environment of this test.
    pub fn dress(&self, command: &mut Command) {
        // What one test leaves changed is not for another one's agents to find.
        let journals = self.folder.0.join("journals");
        command.env("XDG_DATA_HOME", &self.folder.0).env("LINERATE_JOURNALS", journals);
        // Sentences are looked for whole.
        command.env("COLUMNS", "1000").env(MARK, &self.mark).stdin(Stdio::null());
        // Nor are the defaults of whoever runs the tests.
        for key in ["TARGET", "HOST", "MIDDLE", "STORE", "PSK_FILE"] {
            command.env_remove(format!("LINERATE_{key}"));
        }
    }

    /// `linerate run PLAN` between the two machines, with more arguments.
    pub fn run_command(&self, plan: &str, more: &[&str]) -> Command {
        let (target, host) = (self.target(), self.host());
        let mut command = self.linerate(&["run", plan, "--target", &target, "--host", &host]);
        command.args(more);
        command
    }

    /// Runs to the end; fails the test when it takes longer than `limit`.
    pub fn run(&self, plan: &str, more: &[&str], limit: Duration) -> Ran {
        Running::start(self.run_command(plan, more)).wait(limit)
    }

    /// Where the program keeps its records when it is not told otherwise.
    pub fn store_path(&self) -> PathBuf {
        self.folder.0.join("linerate/records.sqlite")
    }

    /// Every record in the store, in order; none if there is no store yet.
    pub fn records(&self) -> Vec<Record> {
        records_in(&self.store_path())
    }

    /// How many records without an error are in the store.
    pub fn finished(&self) -> usize {
        self.records().iter().filter(|record| record.error.is_none()).count()
    }

    /// Waits until `done`, at most `limit`.
    #[track_caller]
    pub fn wait_until(&self, what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + limit;
        while !done() {
            assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Packets that passed the target's link so far, both ways.
    pub fn packets(&self) -> u64 {
        let dev = self.lab().target.run(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        let line = dev.lines().find_map(|line| line.trim().strip_prefix("eth0:")).expect("the target has eth0");
        let figures: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        figures[1] + figures[9]
    }

    /// Waits until a trial's traffic passes: `packets` more than now.
    #[track_caller]
    pub fn wait_for_traffic(&self, packets: u64) {
        let before = self.packets();
        self.wait_until("traffic passes", Duration::from_secs(20), || self.packets() > before + packets);
    }

    /// Sees that the link is quiet and no connection is left: a few packets of IPv6's own are nobody's traffic.
    #[track_caller]
    pub fn check_quiet(&self) {
        let (target, host) = (self.lab().target.run(connections), self.lab().host.run(connections));
        assert_eq!((target.unwrap(), host.unwrap()), (Vec::new(), Vec::new()), "target and host");
        self.check_quiet_but_for_listener();
    }

    /// Sees that the link is quiet.
    #[track_caller]
    pub fn check_quiet_but_for_listener(&self) {
        // What the kernel holds until a neighbour answers goes out, or is given up, within three seconds (arp(7)).
        self.wait_until("the link is quiet", Duration::from_secs(4), || {
            let before = self.packets();
            thread::sleep(Duration::from_millis(300));
            self.packets() - before < 10
        });
    }

    /// Every live process that this test's programs have started, and they themselves: number and command line.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let wanted = format!("{MARK}={}", self.mark);
        let here = std::process::id();
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers
            .filter(|number| *number != here)
            .filter_map(|number| {
                let read = |name: &str| fs::read(format!("/proc/{number}/{name}")).unwrap_or_default();
                let environment = read("environ");
                let marked = environment.split(|octet| *octet == 0).any(|one| one == wanted.as_bytes());
                let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
                // What ssh has started has another environment, and the test's folder in its command.
                let named = command.contains(&*self.folder.0.to_string_lossy());
                (marked || named).then_some((number, command))
            })
            .collect()
    }

    /// The agent process that works in this namespace.
    #[track_caller]
    pub fn agent_of(&self, netns: &Path) -> u32 {
        let path = netns.display().to_string();
        let is_agent = |command: &str| command.contains(" agent ") && command.contains(&path);
        let found: Vec<_> = self.processes().into_iter().filter(|(_, command)| is_agent(command)).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].0
    }

    /// Sees that every process is gone, within `limit`.
    #[track_caller]
    pub fn check_nothing_runs(&self, limit: Duration) {
        self.check_nothing_runs_but(&[], limit);
    }

    /// The same, but for those whose command line begins so.
    #[track_caller]
    pub fn check_nothing_runs_but(&self, others: &[&str], limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let mut left = self.processes();
            left.retain(|(_, command)| !others.iter().any(|other| command.starts_with(other)));
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still there: {left:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Bench {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        for (number, _) in self.processes() {
            signal(number, "KILL");
            signal(number, "CONT");
        }
    }
}

/// The TCP sockets of this thread's network namespace, but for those that only remember (TIME_WAIT, state 06 in
/// proc_net_tcp.rst).
fn connections() -> std::io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/thread-self/net/tcp")?;
    let is_alive = |line: &&str| line.split_whitespace().nth(3) != Some("06");
    Ok(table.lines().skip(1).filter(is_alive).map(str::to_owned).collect())
}

/// Every record in this store; none if there is no store yet.
pub fn records_in(path: &Path) -> Vec<Record> {
    if !path.exists() {
        return Vec::new();
    }
    Store::open(path).and_then(|store| store.select(&Filter::default())).unwrap_or_default()
}

/// The process that started this one: the fourth field of proc_pid_stat(5).
pub fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A number that the environment says, such as `LINERATE_SEED`.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// What a busy machine may not meet: a failure, unless `LINERATE_NOT_MET` is set, as where CI runs; then it is told. Whatever else
/// breaks in such a test fails it in any case.
#[track_caller]
pub fn met(is: bool, what: &str) {
    if !is && std::env::var_os("LINERATE_NOT_MET").is_some() {
        println!("NOT MET on this machine: {what}");
    } else {
        assert!(is, "{what}");
    }
}

/// Sends a signal; a process that is gone already is no error.
pub fn signal(process: u32, name: &str) {
    let kill = format!("kill -{name} {process}");
    let _ = Command::new("/bin/sh").args(["-c", &kill]).stderr(Stdio::null()).status();
}

/// The same of a process group.
pub fn signal_group(group: u32, name: &str) {
    let kill = format!("kill -{name} -{group}");
    let _ = Command::new("/bin/sh").args(["-c", &kill]).stderr(Stdio::null()).status();
}

/// A folder that goes away with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    fn new(mark: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("linerate-test-{mark}"));
        fs::create_dir_all(&path).expect("a folder in the folder for temporary files");
        Folder(path)
    }

    /// A path in it, as text.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program under way. It is killed with the value.
pub struct Running {
    child: Child,
    began: Instant,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// Since the start.
    pub took: Duration,
}

impl Running {
    /// Starts it, in a process group of its own as a shell would.
    pub fn start(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the program can be started");
        let (stdout, stderr) = (child.stdout.take().map(collect), child.stderr.take().map(collect));
        Running { child, began: Instant::now(), stdout, stderr }
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end; fails the test when that takes longer than `limit` from now.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Ran {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                let said = self.stderr.take().map(|stderr| stderr.join().unwrap());
                panic!("it had not ended after {limit:?}; it said {said:?}");
            }
            thread::sleep(Duration::from_millis(2));
        };
        let took = self.began.elapsed();
        let text = |stream: Option<JoinHandle<String>>| stream.map(|s| s.join().unwrap()).unwrap_or_default();
        Ran { status, stdout: text(self.stdout.take()), stderr: text(self.stderr.take()), took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    /// Sees that it ended well.
    #[track_caller]
    pub fn check_done(&self) -> &Ran {
        assert_eq!(self.status.code(), Some(0), "{self:#?}");
        self
    }

    /// Sees that it gave up as it should: exit status 2, and sentences on standard error with these parts. The last
    /// may only count the trials that the one before it is about.
    #[track_caller]
    pub fn check_sentence(&self, parts: &[&str]) -> &Ran {
        self.check_ended(2, parts)
    }

    /// Sees that it ended as it should after Ctrl-C.
    #[track_caller]
    pub fn check_interrupted(&self, parts: &[&str]) -> &Ran {
        self.check_ended(130, parts)
    }

    /// The same of any exit status.
    #[track_caller]
    pub fn check_ended(&self, status: i32, parts: &[&str]) -> &Ran {
        assert_eq!((self.status.code(), self.status.signal()), (Some(status), None), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        let sentences = self.sentences();
        assert!(sentences.len() <= 2, "{self:#?}");
        assert!(sentences.iter().all(|line| line.starts_with("linerate: ")), "{self:#?}");
        for part in parts {
            assert!(self.stderr.contains(part), "'{part}' is not in: {}\n{self:#?}", self.stderr);
        }
        self
    }

    /// Sees that it failed in sentences with these parts, however many: a campaign that went on has one for each trial.
    #[track_caller]
    pub fn check_sentence_of_many(&self, parts: &[&str]) -> &Ran {
        assert!(matches!(self.status.code(), Some(2 | 130)), "{self:#?}");
        assert!(self.sentences().iter().all(|line| line.starts_with("linerate: ")), "{self:#?}");
        assert!(parts.iter().all(|part| self.stderr.contains(part)), "{parts:?} {self:#?}");
        self
    }

    /// What it said on standard error beside how far it was: that begins with a number.
    pub fn sentences(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| !line.trim_start().starts_with(|c: char| c.is_ascii_digit())).collect()
    }

    /// The records that it printed as JSON Lines.
    #[track_caller]
    pub fn json(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut octets = Vec::new();
        let _ = stream.read_to_end(&mut octets);
        String::from_utf8_lossy(&octets).into_owned()
    })
}
