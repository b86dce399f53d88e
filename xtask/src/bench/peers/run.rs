//! One run of one tool between the two machines, and what was seen of it from outside.
//! Knows how tools are started and watched, and nothing of what their figures are for.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use linerate_lab::{LINK_NAME, TARGET_IPV4};

use super::capture::{Capture, Evenness};
use super::tool::{Account, Heard, Load, Peer, Server};
use super::{linerate, procfs};
use crate::bench::process::{Running, signal};
use crate::bench::{Bench, records};

/// Who runs.
#[derive(Clone)]
pub(super) enum Who {
    /// linerate, with these options more.
    Linerate(Vec<(&'static str, String)>),
    Peer(&'static Peer),
    /// This tool's client, served by linerate.
    Served(&'static Peer),
    /// linerate against this tool's server; the target receives, or sends.
    Against(&'static Peer, Direction),
}

/// As the target sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Direction {
    Rx,
    Tx,
}

/// What is looked at besides the tool's own figures.
#[derive(Clone, Copy, Default)]
pub(super) struct Look {
    /// Every departure, at the sender's link.
    pub departures: bool,
    /// The CPU time of the sender's processes, and of the sampling threads.
    pub processes: bool,
}

/// What one run gave.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub account: Account,
    /// CPU seconds of the whole machine from the tool's start to its end, less what it takes while nothing runs;
    /// `None` on a machine that others use: whose time it was cannot be told.
    pub busy_s: Option<f64>,
    /// Share of one core that the processes at the sending end took while they sent.
    pub sender_cpu: Option<f64>,
    /// CPU seconds of the sending thread, by linerate's own record.
    pub recorded_cpu_s: Option<f64>,
    /// Share of one core that the busier agent's sampler took.
    pub sampler: Option<f64>,
    pub evenness: Option<Evenness>,
}

/// CPUs that may be busy while nothing runs, for a difference to mean something.
pub(super) const MOST_IDLE: f64 = 0.1;

/// Beyond the load's own time, for a tool to start and to end.
const PATIENCE: Duration = Duration::from_secs(8);

impl Run {
    /// Runs it once. `idle` is the machine's busy share while nothing runs, in CPUs.
    pub(super) fn once(
        bench: &Bench,
        who: &Who,
        load: Load,
        seconds: u32,
        look: Look,
        idle: f64,
    ) -> Result<Run, String> {
        let capture = look.departures.then(|| Capture::start(bench)).transpose()?;
        let server = match who {
            Who::Peer(peer) | Who::Against(peer, _) => Some(started(bench, peer, load)?),
            Who::Served(peer) => Some(served(bench, peer, load)?),
            Who::Linerate(_) => None,
        };
        let sent_before = sent(bench)?;
        let (began, busy_before) = (Instant::now(), procfs::busy_s()?);
        let mut client = client(bench, who, load, seconds)?;
        let watch = match look.processes {
            true => Some(Watch::start(bench, capture.as_ref().map(Capture::pid), seconds)?),
            false => None,
        };
        client.wait(Duration::from_secs(seconds.into()) + PATIENCE)?;
        let busy_s = procfs::busy_s()? - busy_before - idle * began.elapsed().as_secs_f64();
        let busy_s = (idle <= MOST_IDLE).then_some(busy_s);
        let sent = sent(bench)? - sent_before;
        let seen = watch.map(Watch::finish).unwrap_or_default();
        let server = server.map(ended).unwrap_or_default();
        let times = match (capture, load) {
            (Some(capture), Load::Udp { octets, .. }) => Some(capture.finish(octets)?),
            _ => None,
        };

        let said = client.said();
        let (account, recorded_cpu_s) = match who {
            Who::Peer(peer) => ((peer.read)(load, &Heard { client: &said, server: &server })?, None),
            Who::Served(peer) => {
                // Of what it received linerate knows more than its client; of what the client received, the client.
                let own = last_record(&server).and_then(|record| linerate::read(&record));
                let theirs = || (peer.read)(load, &Heard { client: &said, server: "" });
                (if peer.receives { theirs()? } else { own.or_else(|_| theirs())? }, None)
            }
            Who::Linerate(_) | Who::Against(..) => {
                let record = last_record(&said)?;
                (linerate::read(&record)?, linerate::host_threads_s(&record))
            }
        };
        let evenness = match (times, load) {
            (Some(times), Load::Udp { octets, rate_bps: Some(rate_bps) }) => {
                same_count(times.len() as u64, sent)?;
                Evenness::of(&times, f64::from(octets) * 8.0 / rate_bps as f64)
            }
            _ => None,
        };
        Ok(Run { account, busy_s, sender_cpu: seen.sender_cpu, recorded_cpu_s, sampler: seen.sampler, evenness })
    }
}

/// The record in what linerate printed.
fn last_record(said: &str) -> Result<serde_json::Value, String> {
    let found = records(said.lines().find(|line| line.starts_with('{')).ok_or(said.trim())?)?;
    found.into_iter().next().ok_or("linerate made no record".to_owned())
}

/// The link's own counter has the tool's control conversation too, and a few packets of neighbour discovery.
fn same_count(captured: u64, sent: u64) -> Result<(), String> {
    let others = 500;
    if (captured..=captured + others).contains(&sent) {
        return Ok(());
    }
    Err(format!("tcpdump saw {captured} packets leave, and the link's counter says {sent}"))
}

/// Packets that the host's link sent so far.
fn sent(bench: &Bench) -> Result<u64, String> {
    // Of the thread, because the thread is what is in the namespace.
    let text = bench.lab.host.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let text = text.map_err(|error| format!("/proc/net/dev: {error}"))?;
    let counts = procfs::link_packets(&text, LINK_NAME).ok_or("/proc/net/dev does not have the link")?;
    Ok(counts.0)
}

fn client(bench: &Bench, who: &Who, load: Load, seconds: u32) -> Result<Running, String> {
    match who {
        Who::Against(peer, direction) => {
            let (plan, mut options) = linerate::plan(load, seconds);
            if *direction == Direction::Tx {
                options.retain(|(name, _)| name != "direction");
                options.push(("direction".to_owned(), "tx".to_owned()));
            }
            // A server's report knows no warm-up of every tool's.
            options.push(("warmup".to_owned(), "0s".to_owned()));
            let options: Vec<(&str, &str)> = options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let target = format!("{}:{TARGET_IPV4}:{}", peer.endpoint, (peer.serve)(load).port);
            Running::of("linerate", bench.command_against(&target, plan, &options))
        }
        Who::Peer(peer) | Who::Served(peer) => {
            let words = (peer.ask)(load, seconds, &TARGET_IPV4.to_string());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Running::start(&bench.lab.host.path(), peer.program, &words)
        }
        Who::Linerate(more) => {
            let (plan, mut options) = linerate::plan(load, seconds);
            options.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            let options: Vec<(&str, &str)> = options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            Running::of("linerate", bench.command(plan, &options))
        }
    }
}

/// A server for one run. A new one each time, because iperf's crashes now and then after the first.
fn started(bench: &Bench, peer: &Peer, load: Load) -> Result<Running, String> {
    let server = (peer.serve)(load);
    let words: Vec<&str> = server.arguments.iter().map(String::as_str).collect();
    listening(Running::start(&bench.lab.target.path(), peer.program, &words)?, peer.name, &server)
}

/// linerate as this tool's server, for one test.
fn served(bench: &Bench, peer: &Peer, load: Load) -> Result<Running, String> {
    let server = (peer.serve)(load);
    let (program, port) = (bench.program.display().to_string(), server.port.to_string());
    let store = bench.store.display().to_string();
    let words = ["serve", peer.endpoint, "--port", &port, "--one-off", "--json", "--quiet", "--store", &store];
    listening(Running::start(&bench.lab.target.path(), &program, &words)?, "linerate", &server)
}

fn listening(mut running: Running, name: &str, server: &Server) -> Result<Running, String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        // Between start and nsenter's work the process is not in the target yet, where nobody else listens.
        if procfs::listens(running.pid(), server.udp, server.port) {
            break;
        }
        if running.has_ended() || Instant::now() > deadline {
            return Err(format!("{name}'s server does not listen: {}", running.said().trim()));
        }
        sleep(Duration::from_millis(10));
    }
    // sockperf binds first and gets ready after.
    sleep(Duration::from_millis(100));
    Ok(running)
}

/// Asks a server to end, waits for its last words, and returns all of them.
fn ended(mut server: Running) -> String {
    // iperf writes its report some milliseconds after the client has gone.
    sleep(Duration::from_millis(100));
    if !server.has_ended() {
        let _ = signal(server.pid(), "INT");
        let _ = server.wait(Duration::from_millis(500));
    }
    server.said()
}

/// Looks at the processes at the sending end, and at the agents' samplers, a few times a second.
struct Watch {
    done: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sender_cpu: Option<f64>,
    sampler: Option<f64>,
}

impl Watch {
    /// When to look who is there: tools start within this.
    const SETTLED: Duration = Duration::from_millis(300);
    const PERIOD: Duration = Duration::from_millis(100);

    fn start(bench: &Bench, but: Option<u32>, seconds: u32) -> Result<Watch, String> {
        let (host, target): (PathBuf, PathBuf) = (bench.host_namespace()?, bench.target_namespace()?);
        let (done, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let (told, tell) = (done.clone(), seen.clone());
        // A tool that sends for so long, and started after this, is still sending then.
        let until = Instant::now() + Duration::from_secs(seconds.into());
        let thread = std::thread::spawn(move || {
            sleep(Watch::SETTLED);
            let senders: Vec<u32> = procfs::processes_in(&host).into_iter().filter(|&pid| Some(pid) != but).collect();
            let receivers = procfs::processes_in(&target);
            let agents: Vec<u32> =
                senders.iter().chain(&receivers).copied().filter(|&pid| procfs::name_of(pid) == "linerate").collect();
            let sending = || senders.iter().map(|&pid| procfs::process_cpu_s(pid)).sum::<Option<f64>>();
            let sampling = || agents.iter().map(|&pid| procfs::thread_cpu_s(pid, "sampler")).collect::<Vec<_>>();
            let (began, first_sending, first_sampling) = (Instant::now(), sending(), sampling());
            while !told.load(Ordering::Relaxed) && Instant::now() + Watch::PERIOD < until {
                sleep(Watch::PERIOD);
                let span_s = began.elapsed().as_secs_f64();
                let share = |first: Option<f64>, now: Option<f64>| Some((now? - first?) / span_s);
                let sampler = first_sampling.iter().zip(sampling()).filter_map(|(first, now)| share(*first, now));
                let sampler = sampler.reduce(f64::max);
                let sender_cpu = if senders.is_empty() { None } else { share(first_sending, sending()) };
                let mut seen = tell.lock().expect("nobody panics with it");
                // Those that have ended keep the last that was seen of them.
                *seen = Seen { sender_cpu: sender_cpu.or(seen.sender_cpu), sampler: sampler.or(seen.sampler) };
            }
        });
        Ok(Watch { done, seen, thread })
    }

    fn finish(self) -> Seen {
        self.done.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        *self.seen.lock().expect("nobody panics with it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_counter_and_the_capture_agree() {
        assert_eq!(same_count(1000, 1003), Ok(()));
        assert!(same_count(1000, 999).is_err() && same_count(1000, 2000).is_err());
    }
}
