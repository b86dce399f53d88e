//! Times in which an agent did not run: stopped, without a CPU by its quota, or merely on a busy machine.
//! Knows the agent by its process, as whoever plants such a time does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use linerate_lab::Shape;
use linerate_machine::end::End;
use linerate_results::record::Record;
use linerate_trial::event::Event;

use super::rig::Rig;

/// Runs a trial of four seconds, and `plant` with the target's agent when it has begun a second ago. Returns the
/// record, and how long the planting took, seconds.
#[track_caller]
fn trial_with(rig: &Rig, workload: &str, options: &[(&str, &str)], plant: impl FnOnce(u32)) -> (Record, f64) {
    let options = [&[("duration", "4s"), ("direction", "rx")], options].concat();
    let netns = rig.lab.target.path();
    thread::scope(|scope| {
        let running = scope.spawn(|| rig.trial(workload, &options));
        let deadline = Instant::now() + Duration::from_secs(20);
        let agent = loop {
            match agent_in(&netns) {
                Some(agent) => break agent,
                None => assert!(Instant::now() < deadline, "no agent has begun"),
            }
            thread::sleep(Duration::from_millis(10));
        };
        thread::sleep(Duration::from_millis(1500));
        let began = Instant::now();
        plant(agent);
        let took_s = began.elapsed().as_secs_f64();
        (running.join().unwrap(), took_s)
    })
}

/// The process that is this program as an agent in that namespace.
fn agent_in(netns: &Path) -> Option<u32> {
    let wanted = netns.to_str()?;
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let words: Vec<&str> = line.split('\0').collect();
        (words.contains(&"agent") && words.contains(&wanted)).then(|| entry.file_name().to_str()?.parse().ok())?
    })
}

fn events<'a>(record: &'a Record, kind: &str) -> Vec<&'a Event> {
    let is_it = |event: &&Event| event.what.name() == kind && event.end == Some(End::Target);
    record.events.iter().filter(is_it).collect()
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn a_stopped_agent_is_told_with_its_time() {
    let Some(rig) = Rig::up("stopped", &Shape::unshaped()) else { return };
    let (record, took_s) = trial_with(&rig, "udp-stream", &[("rate", "20M")], |agent| {
        signal(agent, "-STOP");
        thread::sleep(Duration::from_millis(500));
        signal(agent, "-CONT");
    });
    let stopped = events(&record, "agent-stopped");
    assert_eq!(stopped.len(), 1, "{:?}", record.events);
    let for_s = stopped[0].for_s.unwrap();
    assert!((for_s - took_s).abs() < 0.05 + stopped[0].within_s, "{:?}, {took_s}", stopped[0]);
    assert!(events(&record, "throttled").is_empty());
}

#[test]
fn a_busy_machine_stops_nobody() {
    let Some(rig) = Rig::up("busy", &Shape::unshaped()) else { return };
    let (record, _) = trial_with(&rig, "udp-stream", &[("rate", "20M")], |_| {
        let hogs = 4 * thread::available_parallelism().map_or(1, usize::from);
        let end = Instant::now() + Duration::from_secs(1);
        thread::scope(|scope| (0..hogs).for_each(|_| drop(scope.spawn(move || while Instant::now() < end {}))));
    });
    assert!(events(&record, "agent-stopped").is_empty(), "{:?}", record.events);
}

/// A control group with a CPU quota; it goes away with the value.
struct Group {
    folder: PathBuf,
    is_second: bool,
}

impl Group {
    fn make() -> io::Result<Group> {
        let name = format!("linerate-truth-{}", std::process::id());
        let mut error = io::Error::from(io::ErrorKind::NotFound);
        for (root, quota) in [("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")] {
            let folder = Path::new(root).join(&name);
            match fs::create_dir(&folder) {
                Ok(()) if folder.join(quota).exists() => return Ok(Group { folder, is_second: quota == "cpu.max" }),
                Ok(()) => drop(fs::remove_dir(&folder)),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    /// A tenth of a CPU, or as much as there is.
    fn limit(&self, is_limited: bool) {
        let (file, text) = match (self.is_second, is_limited) {
            (true, true) => ("cpu.max", "10000 100000"),
            (true, false) => ("cpu.max", "max 100000"),
            (false, true) => ("cpu.cfs_quota_us", "10000"),
            (false, false) => ("cpu.cfs_quota_us", "-1"),
        };
        fs::write(self.folder.join(file), text).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_quota_that_is_used_up_is_one_event() {
    let Some(rig) = Rig::up("quota", &Shape::unshaped()) else { return };
    let Ok(group) = Group::make() else {
        println!("SKIPPED a_quota_that_is_used_up_is_one_event: no control group can be made here");
        return;
    };
    let (record, _) = trial_with(&rig, "tcp-stream", &[], |agent| {
        fs::write(group.folder.join("cgroup.procs"), agent.to_string()).unwrap();
        // The agent notices within a second or so that it has moved.
        thread::sleep(Duration::from_millis(1200));
        group.limit(true);
        thread::sleep(Duration::from_millis(800));
        group.limit(false);
    });
    let throttled = events(&record, "throttled");
    assert_eq!(throttled.len(), 1, "{:?}", record.events);
    // Told when a period of 100 ms is over, and in slices.
    let for_s = throttled[0].for_s.unwrap();
    assert!((for_s - 0.8).abs() < 0.25 + 2.0 * throttled[0].within_s, "{:?}", throttled[0]);
    assert!(events(&record, "agent-stopped").is_empty(), "{:?}", record.events);
}
