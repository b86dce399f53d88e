//! `cargo xtask bench work`: what a team's queue costs by the size of the fleet, in virtual time and with faults; and what a worker takes
//! of a CPU while it waits.
//! Knows how the simulation and the programs are started; what must hold, they assert themselves.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::services::Nats;

use super::target_folder;
use crate::program::{cargo, must};

/// A worker has so many benches, and so many campaigns wait, of a bench that is kept from them.
const BENCHES: usize = 200;
const WAITING: usize = 1000;
/// For so long it is watched.
const WATCHED: Duration = Duration::from_secs(60);

/// Runs both; returns the text. `largest`: campaigns of the largest fleet.
pub fn run(largest: usize) -> Result<String, String> {
    must(&mut cargo(&["build", "--release", "--package", "linerate-work", "--example", "fleet"]))?;
    let mut fleet = Command::new(target_folder().join("release/examples/fleet"));
    let output = fleet.arg(largest.to_string()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("the fleet cannot be started: {error}"))?;
    if !output.status.success() {
        return Err("the fleet failed; what it says stands above".to_owned());
    }
    let mut text = "Leases of 30 s, campaigns of 4 trials of 5 s; a fault for every 50 campaigns, of nine kinds.\n\n\
                    | campaigns | benches | workers | faults | done | dead | taken back | virtual time h | steps | seconds |\n\
                    |--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let row: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let number = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        let hours = number("virtual_s") / 3600.0;
        let counts = ["jobs", "benches", "workers", "faults", "done", "dead", "cancelled"]
            .map(|field| format!("{:.0}", number(field)));
        text +=
            &format!("| {} | {hours:.1} | {:.0} | {:.1} |\n", counts.join(" | "), number("steps"), number("seconds"));
    }
    Ok(text + "\n" + &idle()?)
}

/// What a worker that waits takes of a CPU.
fn idle() -> Result<String, String> {
    if !Nats::is_installed() {
        return Ok("What a waiting worker costs was not measured: nats-server is not installed.\n".to_owned());
    }
    must(&mut cargo(&["build", "--release", "--package", "linerate", "--features", "nats"]))?;
    let folder = Folder::new()?;
    let server = Nats::start(&folder.0.join("nats")).map_err(|error| error.to_string())?;
    let mut words = vec!["worker".to_owned()];
    for at in 0..BENCHES {
        let file = folder.0.join(format!("b{at}.toml"));
        let text = format!("name = \"b{at}\"\ntarget = \"local\"\ntags = {{ all = \"yes\" }}\n");
        fs::write(&file, text).map_err(|error| error.to_string())?;
        words.extend(["--bench".to_owned(), file.display().to_string()]);
    }
    let linerate = |words: &[String]| {
        let mut command = Command::new(target_folder().join("release/linerate"));
        command.args(words).args(["--queue", &server.url()]).env("XDG_DATA_HOME", &folder.0).stdin(Stdio::null());
        command.stdout(Stdio::null());
        command
    };
    let one = |words: &[&str]| must(&mut linerate(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()));
    words.push("--quiet".to_owned());
    let worker = Killed(linerate(&words).spawn().map_err(|error| error.to_string())?);
    let began = Instant::now();
    while one(&["jobs", "maintenance", &format!("b{}", BENCHES - 1), "on"]).is_err() {
        if began.elapsed() > Duration::from_secs(30) {
            return Err("the worker's benches do not come".to_owned());
        }
        thread::sleep(Duration::from_millis(500));
    }
    for at in 0..BENCHES {
        one(&["jobs", "maintenance", &format!("b{at}"), "on"])?;
    }
    for _ in 0..WAITING / BENCHES {
        one(&["submit", "tcp", "--on", "all=yes"])?;
    }
    thread::sleep(Duration::from_secs(5));
    let before = cpu_ms(worker.0.id())?;
    thread::sleep(WATCHED);
    let took = cpu_ms(worker.0.id())? - before;
    let percent = took / WATCHED.as_millis() as f64 * 100.0;
    Ok(format!(
        "A worker with {BENCHES} benches while {WAITING} campaigns wait for them, all kept from it (`maintenance`): {percent:.2} % of a \
         core over {} s.\n",
        WATCHED.as_secs()
    ))
}

/// What a process has taken, milliseconds: fields 14 and 15 of proc_pid_stat(5), in ticks of 10 ms.
fn cpu_ms(process: u32) -> Result<f64, String> {
    let stat =
        fs::read_to_string(format!("/proc/{process}/stat")).map_err(|error| format!("the worker is gone: {error}"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at - 3).and_then(|text| text.parse::<f64>().ok()).unwrap_or(f64::NAN);
    Ok((ticks(14) + ticks(15)) * 10.0)
}

/// Ends with the value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("linerate-work-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
