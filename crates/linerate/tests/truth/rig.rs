//! A lab, the program run over it, and the kernel's own counters of both ends by another way than the program's.
//! Knows no figure.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_lab::{LINK_NAME, Lab, Privilege, Shape, privilege};
use linerate_machine::end::End;
use linerate_path::stage::Stage;
use linerate_results::record::{FlowFigures, Record};

/// One test at a time: rates are measured, and a second flood would take the CPU from the first.
static ALONE: Mutex<()> = Mutex::new(());

/// Two machines, and the right to use this one.
pub struct Rig {
    pub lab: Lab,
    store: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

fn endpoint(netns: PathBuf) -> String {
    format!("netns:{}", netns.display())
}

impl Rig {
    /// `None`, and a sentence, where this machine cannot make labs as it is.
    pub fn up(test: &str, shape: &Shape) -> Option<Rig> {
        if privilege() != Privilege::Root {
            eprintln!("{test}: skipped, needs root");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let store = std::env::temp_dir().join(format!("linerate-truth-{}-{test}", std::process::id()));
        fs::create_dir_all(&store).unwrap();
        Some(Rig { lab: Lab::up(shape).unwrap(), store, _alone: alone })
    }

    /// Runs one trial and returns its record.
    #[track_caller]
    pub fn trial(&self, workload: &str, options: &[(&str, &str)]) -> Record {
        let mut records = self.run(workload, options, &[]);
        assert_eq!(records.len(), 1, "one trial, one record");
        records.remove(0)
    }

    /// Runs a plan and returns its records, each of which has figures.
    #[track_caller]
    pub fn run(&self, plan: &str, options: &[(&str, &str)], more: &[&str]) -> Vec<Record> {
        self.run_with(&endpoint(self.lab.target.path()), plan, options, more)
    }

    /// The same with a target of another endpoint.
    #[track_caller]
    pub fn run_with(&self, target: &str, plan: &str, options: &[(&str, &str)], more: &[&str]) -> Vec<Record> {
        // timeout(1) of coreutils: a test that hangs tells nobody why.
        let mut command = Command::new("timeout");
        command.args(["90", env!("CARGO_BIN_EXE_linerate"), "run", plan, "--json", "--quiet"]);
        command.args(["--target", target, "--host", &endpoint(self.lab.host.path())]);
        command.arg("--store").arg(self.store.join("records.sqlite"));
        for (name, value) in options {
            command.args(["--set", &format!("{name}={value}")]);
        }
        let output = command.args(more).stdin(Stdio::null()).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{plan} {options:?}: {complaint}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .map(|line| {
                let record: Record = serde_json::from_str(line).unwrap();
                assert_eq!(record.error, None, "{plan} {options:?}");
                record
            })
            .collect()
    }

    /// What the end's link has counted until now, from /proc/net/dev, where the program asks over netlink.
    pub fn link(&self, end: End) -> Link {
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let text = match end {
            End::Target => self.lab.target.run(read),
            End::Host => self.lab.host.run(read),
        };
        Link::parse(&text.unwrap())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.store);
    }
}

/// Counters of one end's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub rx_octets: u64,
    pub rx_packets: u64,
    pub tx_octets: u64,
    pub tx_packets: u64,
}

impl Link {
    /// proc_net_dev of Documentation/networking/statistics.rst: eight columns of receive, eight of transmit.
    fn parse(text: &str) -> Link {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{LINK_NAME}:"))).unwrap();
        let columns: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        Link { rx_octets: columns[0], rx_packets: columns[1], tx_octets: columns[8], tx_packets: columns[9] }
    }

    /// What passed since `before`.
    pub fn since(self, before: Link) -> Link {
        Link {
            rx_octets: self.rx_octets - before.rx_octets,
            rx_packets: self.rx_packets - before.rx_packets,
            tx_octets: self.tx_octets - before.tx_octets,
            tx_packets: self.tx_packets - before.tx_packets,
        }
    }

    /// The same four, as the record has them.
    #[track_caller]
    pub fn of(record: &Record, end: End) -> Link {
        let counters = match end {
            End::Target => &record.target.counters,
            End::Host => &record.host.counters,
        };
        let get = |stage, name| counters.get(stage, name).unwrap_or_else(|| panic!("{end} has no counter {name}"));
        Link {
            rx_octets: get(Stage::DriverRxRing, "link rx_bytes"),
            rx_packets: get(Stage::DriverRxRing, "link rx_packets"),
            tx_octets: get(Stage::DriverTxRing, "link tx_bytes"),
            tx_packets: get(Stage::DriverTxRing, "link tx_packets"),
        }
    }
}

/// The figures of a trial's traffic.
#[track_caller]
pub fn flow(record: &Record) -> &FlowFigures {
    &record.result.as_ref().unwrap().flow
}

/// Lost packets by stage.
pub fn losses(record: &Record) -> BTreeMap<Stage, u64> {
    let mut by_stage = BTreeMap::new();
    for line in record.loss_budget.iter().flatten() {
        *by_stage.entry(line.stage).or_default() += line.packets;
    }
    by_stage
}

/// Fails unless `value` lies within `share` of `want`.
#[track_caller]
pub fn assert_near(what: &str, value: f64, want: f64, share: f64) {
    let off = value / want - 1.0;
    assert!(
        off.abs() <= share,
        "{what}: {value}, {:+.2} % off {want}; at most {:.2} % is allowed",
        100.0 * off,
        100.0 * share
    );
}

/// Whether other programs want this machine's CPUs too. A figure that needs a CPU to itself then proves nothing.
///
/// By the load of the last minute, and, as that comes late, by threads that ask for every CPU for a fifth of a second
/// and see how long they waited (the second figure of schedstat, Documentation/scheduler/sched-stats.rst).
pub fn is_crowded() -> bool {
    const ASK: Duration = Duration::from_millis(200);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = load.split_whitespace().next().unwrap().parse().unwrap();
    let waited_ns = || -> Option<u64> {
        fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().nth(1)?.parse().ok()
    };
    let ask = || {
        let (began, before) = (Instant::now(), waited_ns());
        while began.elapsed() < ASK {
            std::hint::spin_loop();
        }
        waited_ns().zip(before).map_or(0, |(after, before)| after - before)
    };
    let stolen_before = stolen_ticks();
    let waited_ns: u64 = thread::scope(|scope| {
        (0..cpus).map(|_| scope.spawn(ask)).collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).sum()
    });
    let waited = waited_ns as f64 / (ASK.as_nanos() as f64 * cpus as f64);
    // Of a virtual machine's CPUs, other machines may have had some of that time.
    let stolen = (stolen_ticks() - stolen_before) as f64 / 100.0 / (ASK.as_secs_f64() * cpus as f64);
    // The trial's own two threads may be in the load.
    let crowded = load > cpus as f64 + 0.5 || waited > 0.05 || stolen >= 0.05;
    if crowded {
        eprintln!(
            "others use this machine (load {load}, {waited:.2} of the time waiting, {stolen:.2} stolen): wide bounds only"
        );
    }
    crowded
}

/// Time of all CPUs that the hypervisor gave to other machines, in ticks of a hundredth of a second (proc_stat(5)).
fn stolen_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// A thread that sleeps a little and sees how late it is woken, for as long as it lives.
///
/// A bucket's timer is as late, and what its burst does not cover is rate that nobody gets.
pub struct TimerWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl TimerWatch {
    /// Counts what each sleep takes longer than `allowed`.
    pub fn start(allowed: Duration) -> TimerWatch {
        const SLEEP: Duration = Duration::from_micros(500);
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (began, mut late) = (Instant::now(), Duration::ZERO);
            while !asked.load(Ordering::Relaxed) {
                let slept = Instant::now();
                thread::sleep(SLEEP);
                late += slept.elapsed().saturating_sub(SLEEP + allowed);
            }
            late.as_secs_f64() / began.elapsed().as_secs_f64()
        });
        TimerWatch { stop, thread }
    }

    /// The share of the time by which timers were late.
    pub fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
