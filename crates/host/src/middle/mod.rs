//! The machine in the middle of a trial: its counters, CPUs and registers while others' traffic passes through it.
//! Knows no flow, and sends nothing.
//!
//! ```text
//!   Observation::begin ─→ start ─→ … ─→ finish ─→ MiddleOutcome
//!   counters read         CPUs, once   counters read again
//!                         it is warm
//! ```

mod ports;

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_machine::channel::{Receiver, Sender, channel};
use linerate_machine::cpu::CpuUse;
use linerate_machine::end::{End, PerEnd};
use linerate_machine::registers::{AroundTrial, RegisterRequest};
use linerate_path::stage::Stage;
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::middle::{MiddleOutcome, PortOutcome};
use linerate_trial::outcome::CpuSlice;
use linerate_trial::spec::{CpuMethod, Extent, Spec};

use crate::counters::{self, Snapshot};
use crate::cpu::{CpuMeter, accounts_irq_by_ticks, doubt_irq_by_ticks};
use crate::drop_reasons::{self, Tracing};
use crate::profile::{MinimumSamples, Profiler, RawSamples, Running};
use crate::registers;
use crate::soak::Soak;

pub use ports::{EndAddress, find};

/// A trial that is observed. Dropping it ends that.
pub struct Observation {
    machine: Snapshot,
    ports: PerEnd<Port>,
    drops: Option<Result<Tracing, String>>,
    /// Why there is no profile, though one was asked for.
    no_profile: Option<String>,
    go: Sender<()>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Sampled>>,
}

/// An interface, before the traffic.
struct Port {
    interface: String,
    before: Snapshot,
    registers: Option<AroundTrial>,
}

/// What the CPUs did in the measured part.
#[derive(Default)]
struct Sampled {
    cpu: Option<CpuUse>,
    cpu_slices: Vec<CpuSlice>,
    profile: Option<RawSamples>,
    doubts: Vec<Doubt>,
}

/// The thread sleeps, and reads a few files.
const STACK: usize = 256 << 10;
/// Share of a machine's time from which what a hypervisor takes is worth a doubt.
const MUCH_STOLEN: f64 = 0.01;

impl Observation {
    /// Reads what there is to read before the traffic.
    pub fn begin(spec: &Spec, interfaces: PerEnd<String>, wanted: Option<RegisterRequest>) -> io::Result<Observation> {
        let soak = (spec.cpu_method == CpuMethod::Soak).then(Soak::start).transpose()?;
        // Registers first: reading them takes longer, and counters are to be read next to the traffic.
        let port = |end: End| {
            let interface = interfaces[end].clone();
            let before = |wanted: &RegisterRequest| registers::read(&interface, wanted);
            let registers =
                wanted.clone().map(|wanted| AroundTrial { before: before(&wanted), wanted, ..AroundTrial::default() });
            Port { interface, before: Snapshot::default(), registers }
        };
        let mut ports = PerEnd::of(port);
        let mut no_profile = None;
        let profiler = spec.profile.and_then(|hz| {
            let opened = Profiler::open(hz, MinimumSamples::Machine);
            opened.map_err(|error| no_profile = Some(format!("there is no profile of the middle: {error}"))).ok()
        });
        let ((go, gone), (stop, stopped)) = (channel(1), channel(1));
        let times = Times {
            warmup: spec.warmup,
            whole: match spec.extent {
                Extent::Time(time) => Some(time),
                Extent::Octets(_) => None,
            },
            slice: spec.interval,
        };
        let thread = std::thread::Builder::new()
            .name("observer".to_owned())
            .stack_size(STACK)
            .spawn(move || sample(&gone, &stopped, times, profiler, soak))?;
        let drops = spec.drop_reasons.then(Tracing::start);
        let machine = counters::snapshot_of_machine();
        for end in End::BOTH {
            ports[end].before = counters::snapshot_of_interface(&ports[end].interface);
        }
        Ok(Observation { machine, ports, drops, no_profile, go, stop: Some(stop), thread: Some(thread) })
    }

    /// The traffic begins.
    pub fn start(&self) {
        // A thread that has ended was stopped.
        let _ = self.go.send(());
    }

    /// The traffic has ended: what was seen of it.
    pub fn finish(mut self) -> MiddleOutcome {
        let sampled = self.end();
        let mut outcome = MiddleOutcome {
            cpu: sampled.cpu,
            cpu_slices: sampled.cpu_slices,
            doubts: sampled.doubts,
            ..MiddleOutcome::default()
        };
        let mut missing = Vec::new();
        let mut octets = 0;
        for end in End::BOTH {
            let Port { interface, before, registers } = &mut self.ports[end];
            let after = counters::snapshot_of_interface(interface);
            // An interface's octets have 64 bits on every kernel since 2.6.35.
            let growth = after.counters.since(&before.counters);
            let of = |stage, name| growth.get(stage, name).unwrap_or(0);
            let passed = of(Stage::DriverRxRing, "link rx_bytes").max(of(Stage::DriverTxRing, "link tx_bytes"));
            octets = octets.max(passed);
            let registers = registers
                .take()
                .map(|around| AroundTrial { after: registers::read(interface, &around.wanted), ..around });
            outcome.ports[end] = PortOutcome { counters: after.since(before, passed), registers };
            missing.extend(after.missing);
        }
        let after = counters::snapshot_of_machine();
        outcome.counters = after.since(&self.machine, octets);
        missing.extend(after.missing);
        missing.dedup();
        if !missing.is_empty() {
            outcome.doubts.push(Doubted::CountersMissing { missing }.into());
        }
        outcome.drop_reasons = self.drops.take().and_then(|drops| drop_reasons::told(drops, &mut outcome.doubts));
        outcome.profile = sampled.profile.map(|taken| Box::new(taken.told()));
        let notes = outcome.profile.as_ref().map(|profile| profile.notes.clone()).unwrap_or_default();
        let missing = self.no_profile.take().map_or(notes, |why| vec![why]);
        if !missing.is_empty() {
            outcome.doubts.push(Doubted::ProfileReduced { missing }.into());
        }
        outcome
    }

    fn end(&mut self) -> Sampled {
        self.stop = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for the start and through the warm-up, and looks at the CPUs until the measured part is over, or all of it.
fn sample(
    gone: &Receiver<()>,
    stopped: &Receiver<()>,
    times: Times,
    profiler: Option<Profiler>,
    soak: Option<Soak>,
) -> Sampled {
    let mut sampled = Sampled::default();
    // To give up the observation, both are dropped.
    while gone.recv_timeout(LOOK).is_err() {
        if is_over_after(stopped, Instant::now()) {
            return sampled;
        }
    }
    let _ = stopped.recv_timeout(times.warmup);
    let profile = profiler.and_then(|profiler| profiler.start().ok());
    let (mark, meter) = (soak.as_ref().and_then(|soak| soak.mark().ok()), CpuMeter::start().ok());
    sampled.cpu_slices = slices(stopped, &times, soak.as_ref());
    let by_stat = meter.and_then(|meter| meter.read().ok());
    sampled.profile = profile.and_then(Running::finish);
    match soak.as_ref().zip(mark).and_then(|(soak, mark)| soak.read(&mark).ok()) {
        Some(reading) => {
            sampled.cpu = Some(reading.usage);
            sampled.doubts.extend(reading.doubts);
        }
        None => {
            sampled.doubts.extend((accounts_irq_by_ticks() == Some(true)).then(doubt_irq_by_ticks));
            sampled.cpu = by_stat;
        }
    }
    let steal = sampled.cpu.as_ref().map(|cpu| cpu.machine.steal).filter(|steal| *steal > MUCH_STOLEN);
    sampled.doubts.extend(steal.map(|steal| Doubted::NoisyMachine { steal }.into()));
    sampled
}

/// How long the parts of a trial are.
struct Times {
    warmup: Duration,
    /// The measured part; `None` where octets decide.
    whole: Option<Duration>,
    slice: Duration,
}

/// What the CPUs did in each slice, until the measured part is over or the observation ends. A slice that ends with it may be
/// shorter.
fn slices(stopped: &Receiver<()>, times: &Times, soak: Option<&Soak>) -> Vec<CpuSlice> {
    let began = Instant::now();
    let until = times.whole.map(|whole| began + whole);
    let (mut slices, mut start_ns, mut next) = (Vec::new(), 0, began);
    let (mut mark, mut meter) = (soak.and_then(|soak| soak.mark().ok()), CpuMeter::start().ok());
    loop {
        next += times.slice;
        let end = until.map_or(next, |until| until.min(next));
        let is_over = is_over_after(stopped, end) || until.is_some_and(|until| end >= until);
        let end_ns = began.elapsed().as_nanos() as u64;
        let usage = match (soak, &mut mark, &mut meter) {
            // While soaking threads fill the idle time, /proc/stat sees a busy machine.
            (Some(soak), mark, _) => {
                let reading = mark.as_ref().and_then(|mark| soak.read(mark).ok());
                *mark = soak.mark().ok();
                reading.map(|reading| reading.usage)
            }
            (None, _, meter) => meter.as_mut().and_then(|meter| meter.read_and_restart().ok()),
        };
        if let Some(usage) = usage.filter(|_| slices.len() < MOST_SLICES) {
            slices.push(CpuSlice { start_ns, end_ns, machine: usage.machine });
        }
        start_ns = end_ns;
        if is_over {
            return slices;
        }
    }
}

/// Waits until then; whether the observation has ended before.
fn is_over_after(stopped: &Receiver<()>, until: Instant) -> bool {
    let heard = stopped.recv_timeout(until.saturating_duration_since(Instant::now()));
    heard == Err(RecvTimeoutError::Disconnected)
}

/// As many as a record has.
const MOST_SLICES: usize = linerate_trial::spec::MAX_SLICES as usize;
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use linerate_trial::spec::Workload;

    use super::*;

    fn observation(spec: &Spec) -> Observation {
        let lo = || "lo".to_owned();
        Observation::begin(spec, PerEnd { target: lo(), host: lo() }, None).unwrap()
    }

    #[test]
    fn an_observation_ends_when_it_is_told_to() {
        let mut spec = Spec::new(Workload::UdpStream);
        (spec.warmup, spec.extent) = (Duration::ZERO, Extent::Time(Duration::from_secs(3600)));
        // Never begun.
        drop(observation(&spec));
        let observed = observation(&spec);
        observed.start();
        std::thread::sleep(Duration::from_millis(50));
        let outcome = observed.finish();
        assert!(outcome.counters.get(Stage::SoftirqBacklog, "softnet processed").is_some());
        assert!(outcome.counters.iter().all(|(_, name, _)| !name.starts_with("link ")));
        for end in End::BOTH {
            let counters = &outcome.ports[end].counters;
            assert!(counters.get(Stage::DriverRxRing, "link rx_packets").is_some());
            assert!(counters.iter().all(|(_, name, _)| !name.starts_with("softnet ")));
        }
        assert!(outcome.cpu.is_some_and(|cpu| (0.0..=1.0).contains(&cpu.machine.busy)));
    }

    #[test]
    fn the_measured_part_is_cut_into_slices() {
        let ms = Duration::from_millis;
        let mut spec = Spec::new(Workload::UdpStream);
        (spec.warmup, spec.extent, spec.interval) = (ms(20), Extent::Time(ms(250)), ms(100));
        let observed = observation(&spec);
        observed.start();
        std::thread::sleep(ms(400));
        let slices = observed.finish().cpu_slices;
        assert_eq!(slices.len(), 3, "{slices:?}");
        assert!(slices.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns) && slices[0].start_ns == 0);
        let length = |slice: &CpuSlice| (slice.end_ns - slice.start_ns) / 1_000_000;
        assert!(length(&slices[0]) >= 99 && slices[2].end_ns >= 250_000_000, "{slices:?}");
    }
}
