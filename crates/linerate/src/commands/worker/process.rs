//! A campaign as a process: `linerate run`, its events heard, its lease told, ended when it must.
//! Knows words of a command line; what is to be started, the worker's core says.
//!
//! A process of its own, for the same reasons as the web's (docs/decisions/0075), and for one more: a worker that dies closes the
//! pipe by which the campaign hears of its lease, and the campaign ends.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linerate_host::sys::signals::ask_to_end;
use linerate_machine::printable::in_line;
use linerate_machine::sync::Mutex;
use linerate_work::{CampaignEnd, EventPublisher, Start};

use crate::BUSY_STATUS;
use crate::child_lines::child_lines;
use crate::commands::leased;
use crate::default_store::session_folder;
use crate::measure::events::CampaignEvent;

/// The longest line of events: a record of ten thousand time slices has a megabyte.
const LINE: u64 = 64 << 20;
/// What a server takes in one message, with room; of what is longer, watchers miss the record.
const LONGEST_EVENT: usize = 512 << 10;
const SENTENCE: usize = 1000;
/// For the last lines of one that has ended.
const READ_TIME: Duration = Duration::from_millis(500);
/// Of the environment, what would say something else than the job does.
const NOT_INHERITED: [&str; 7] = [
    "LINERATE_TARGET",
    "LINERATE_HOST",
    "LINERATE_MIDDLE",
    "LINERATE_STORE",
    "LINERATE_QUEUE",
    "LINERATE_QUEUE_CREDENTIALS",
    "LINERATE_QUEUE_AUTHORITIES",
];

/// What every campaign of a worker is started with.
pub(super) struct WorkerContext {
    /// How machines are reached, and where records go.
    pub(super) words: Vec<String>,
    /// Where plans are written.
    pub(super) folder: Folder,
    /// For how long a campaign may hear nothing.
    pub(super) alone_s: f64,
    pub(super) teller: EventPublisher,
}

/// One that runs.
pub(super) struct Campaign {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Arc<Mutex<Heard>>,
    threads: Vec<JoinHandle<()>>,
    folder: PathBuf,
    was_asked: bool,
}

/// What it said.
#[derive(Default)]
struct Heard {
    /// How many trials have no figures, or why it broke off.
    ended: Option<Result<usize, String>>,
    last: Option<String>,
    /// How many settings could not be put back.
    not_put_back: u64,
}

impl Campaign {
    /// Starts it.
    pub(super) fn start(start: &Start, around: &WorkerContext) -> Result<Campaign> {
        let Start { job, bench, fence, .. } = start;
        let folder = around.folder.path.join(&job.id);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let plan = folder.join(format!("{}.toml", job.plan));
        fs::write(&plan, &job.source).with_context(|| format!("cannot write {}", plan.display()))?;
        // The program that runs, also when its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("linerate").args(&around.words).arg("run").arg(&plan);
        command.args([format!("--target={}", bench.target), format!("--host={}", bench.host)]);
        command.args(bench.middle.iter().map(|middle| format!("--middle={middle}")));
        command.args(bench.addresses.iter().map(|(end, address)| format!("--{end}-address={address}")));
        command.args(job.sets.iter().map(|(name, value)| format!("--set={name}={value}")));
        command.args(job.repeat.map(|repeat| format!("--repeat={repeat}")));
        command.arg(job.seed.map_or_else(|| "--order=plan".to_owned(), |seed| format!("--seed={seed}")));
        command.arg(format!("--campaign={}", job.id));
        command.arg(format!("--lease={},{fence},{}", bench.name, around.alone_s));
        command.args(["--quiet", "--events=-"]);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        // Its folder has no linerate.toml. A group of its own: Ctrl-C comes through the worker, and once.
        command.current_dir(&folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("linerate could not be started once more")?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut threads = Vec::new();
        if let Some(stdout) = stdout {
            let (heard, teller, id) = (Arc::clone(&heard), around.teller.clone(), job.id.clone());
            let hear = move |line: Vec<u8>| hear(&line, &heard, &teller, &id);
            threads.push(thread::spawn(move || child_lines(stdout, LINE).for_each(hear)));
        }
        if let Some(stderr) = stderr {
            let heard = Arc::clone(&heard);
            threads.push(thread::spawn(move || {
                for line in child_lines(stderr, LINE) {
                    heard.lock().last = Some(in_line(&String::from_utf8_lossy(&line), SENTENCE).into_owned());
                }
            }));
        }
        let stdin = child.stdin.take();
        Ok(Campaign { child, stdin, heard, threads, folder, was_asked: false })
    }

    /// Tells it that its lease was renewed. It reads at once; one that does not has ended.
    pub(super) fn renewed(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(b".\n");
        }
    }

    /// Asks it to end in good order.
    pub(super) fn stop(&mut self) {
        self.was_asked = true;
        ask_to_end(self.child.id());
    }

    /// Ends it. Its agents see the end of their input, and put settings back.
    pub(super) fn kill(&mut self) {
        self.was_asked = true;
        let _ = self.child.kill();
    }

    /// How many settings it could not put back, as it said at its end.
    pub(super) fn not_put_back(&self) -> u64 {
        self.heard.lock().not_put_back
    }

    /// How it ended, if it has. `is_store_there` is asked where it broke off.
    pub(super) fn ended(&mut self, is_store_there: &dyn Fn() -> Result<(), String>) -> Option<CampaignEnd> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status,
            Err(error) => return Some(CampaignEnd::Failed(error.to_string())),
        };
        // What stands in the pipes is read to its end, unless somebody else holds them open.
        let deadline = Instant::now() + READ_TIME;
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = fs::remove_dir_all(&self.folder);
        let heard = self.heard.lock();
        Some(match (&heard.ended, status.code()) {
            (Some(Ok(failed_trials)), _) => CampaignEnd::Done { failed_trials: *failed_trials },
            _ if self.was_asked => CampaignEnd::Stopped,
            // By itself.
            (_, Some(leased::STATUS)) => {
                CampaignEnd::HandedBack("its campaign heard nothing of its lease, and ended".to_owned())
            }
            (ended, code) => {
                let why = match (ended, &heard.last, code) {
                    (Some(Err(sentence)), _, _) | (_, Some(sentence), _) => sentence.clone(),
                    (_, None, Some(code)) => format!("the campaign ended with status {code} and no word"),
                    (_, None, None) => "the campaign was killed".to_owned(),
                };
                let is_no_fault =
                    code.is_some_and(|code| [BUSY_STATUS, leased::STORE_STATUS].map(i32::from).contains(&code));
                match is_store_there() {
                    Ok(()) if is_no_fault => CampaignEnd::HandedBack(why),
                    Ok(()) => CampaignEnd::Failed(why),
                    Err(store) => CampaignEnd::HandedBack(format!("the store cannot be reached: {store}")),
                }
            }
        })
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn hear(line: &[u8], heard: &Mutex<Heard>, teller: &EventPublisher, id: &str) {
    let Ok(event) = serde_json::from_slice::<CampaignEvent>(line) else { return };
    if line.len() <= LONGEST_EVENT {
        teller.tell(id, line);
    }
    if let CampaignEvent::Ended { failed, error, not_put_back } = event {
        let mut heard = heard.lock();
        heard.not_put_back = not_put_back as u64;
        heard.ended = match (failed, error) {
            (Some(failed), None) => Some(Ok(failed)),
            (_, error) => error.map(|sentence| Err(in_line(&sentence, SENTENCE).into_owned())),
        };
    }
}

/// A folder of this user's alone for plans, that goes with the value.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Held as long as it is used, and let go by a kernel whose process was killed.
    _used: File,
}

impl Folder {
    pub(super) fn make() -> Result<Folder> {
        Folder::make_in(&session_folder().unwrap_or_else(std::env::temp_dir))
    }

    /// Those of workers that were killed go first.
    fn make_in(within: &Path) -> Result<Folder> {
        use std::os::unix::fs::DirBuilderExt;
        remove_left(within);
        let path = within.join(format!("{FOLDER}{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path).and_then(|()| {
            let used = File::open(&path)?;
            used.lock().map(|()| used)
        });
        let used =
            made.with_context(|| format!("cannot make the folder {}; set XDG_RUNTIME_DIR to another", path.display()))?;
        Ok(Folder { path, _used: used })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What the folders of workers are called, before the number of the process.
const FOLDER: &str = "linerate-worker-";

/// Removes folders of this user's workers that are gone. Of a worker in a container with this folder the number says nothing, and
/// what it holds does.
fn remove_left(within: &Path) {
    let Ok(ours) = fs::metadata("/proc/self").map(|of_self| of_self.uid()) else { return };
    let own = std::process::id();
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.parse::<u32>().ok());
        let is_gone = |process: u32| process == own || !Path::new(&format!("/proc/{process}")).exists();
        // Not through a symbolic link.
        let is_ours = entry.metadata().is_ok_and(|of_it| of_it.is_dir() && of_it.uid() == ours);
        if is_ours && process.is_some_and(is_gone) && File::open(entry.path()).is_ok_and(|it| it.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_workers_that_are_gone_are_removed() {
        let within = std::env::temp_dir().join(format!("linerate-left-{}", std::process::id()));
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let (dead, alive) = (dead.id(), std::os::unix::process::parent_id());
        let made = |name: String| {
            let path = within.join(name);
            fs::create_dir_all(path.join("job")).unwrap();
            fs::write(path.join("job/plan.toml"), "").unwrap();
            path
        };
        let left = [dead, std::process::id()].map(|process| made(format!("{FOLDER}{process}")));
        let stay = [made(format!("{FOLDER}{alive}")), made(format!("{FOLDER}{dead}x")), made("other".to_owned())];
        // As of a process that has another number there.
        let elsewhere = made(format!("{FOLDER}{}", u32::MAX));
        let used = File::open(&elsewhere).unwrap();
        used.lock().unwrap();
        let link = within.join(format!("{FOLDER}{}", u32::MAX - 1));
        std::os::unix::fs::symlink(&stay[2], &link).unwrap();

        let folder = Folder::make_in(&within).unwrap();
        assert!(!left[0].exists() && stay.iter().chain([&elsewhere, &link]).all(|path| path.exists()));
        assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 0, "it is a new one");
        // A folder in use is not removed.
        remove_left(&within);
        assert!(folder.path.exists());
        let path = folder.path.clone();
        drop((folder, used));
        assert!(!path.exists());
        remove_left(&within);
        assert!(!elsewhere.exists() && stay[0].exists());
        fs::remove_dir_all(within).unwrap();
    }
}
