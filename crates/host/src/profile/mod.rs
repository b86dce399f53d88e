//! What the CPUs do: samples of every CPU's call chain, taken by the kernel, counted as they come, named at the end.
//! Knows nothing of trials, nor of what functions are for.
//!
//! ```text
//!   Profiler::open ─→ Profiler::start ─→ … ─→ Running::finish ─→ Taken::told ─→ Profile
//!     events are there,    a thread reads them       events off,      symbols are read,
//!     switched off         twenty times a second     rings emptied    which takes its time
//! ```

mod cost;
pub mod elf;
pub(crate) mod kallsyms;
mod maps;
mod nearest;
mod places;
mod record;
mod stacks;

use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

use linerate_machine::channel::{Sender, channel};
use linerate_machine::profile::{Profile, ProfileClock, ProfileScope};

use crate::cpu::StatReading;
use crate::sys::perf::{PerfScope, Sampler, Source};
use crate::sys::thread::{monotonic_ns, thread_use};
use places::Places;
use record::Record;
use stacks::Stacks;

/// Why there is no profile. Each is one sentence that ends in what to try.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the figures of the sentence")]
pub enum ProfileError {
    #[error("this machine's kernel has no perf events; try a kernel with CONFIG_PERF_EVENTS")]
    NoPerf,
    #[error(
        "this machine lets the agent sample nothing{}; run the agent as root, or set kernel.perf_event_paranoid to -1",
        because(*paranoid)
    )]
    NotAllowed { paranoid: Option<i32> },
    #[error(
        "this machine lets the agent sample its own threads only{}; run the agent as root, or set \
         kernel.perf_event_paranoid to -1",
        because(*paranoid)
    )]
    OwnOnly { paranoid: Option<i32> },
    #[error("this machine refused to sample its CPUs: {0}; end other profilers, and try again")]
    Refused(io::Error),
}

fn because(paranoid: Option<i32>) -> String {
    paranoid.map_or(String::new(), |level| format!(" (kernel.perf_event_paranoid is {level}, and it is not root)"))
}

/// How much must be seen for a profile to be worth taking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimumSamples {
    /// Everything.
    Machine,
    /// What the calling thread makes from now on.
    OwnThreads,
}

/// Events that are there, and switched off.
pub struct Profiler {
    samplers: Vec<Sampler>,
    clock: ProfileClock,
    scope: ProfileScope,
    kernel: bool,
    hz: u32,
    cost_us: Option<f64>,
    places: Places,
    notes: Vec<String>,
}

/// Time between two looks at the rings.
const LOOK: Duration = Duration::from_millis(50);
/// The thread holds little on its stack.
const STACK: usize = 256 << 10;

impl Profiler {
    /// Gets ready to sample each CPU `hz` times a second. Where only own threads may be sampled, they are those that the
    /// calling thread makes from now on.
    pub fn open(hz: u32, least: MinimumSamples) -> Result<Profiler, ProfileError> {
        let mut notes = Vec::new();
        let hz = bounded(hz, &mut notes);
        let cpus: Vec<u32> = match StatReading::read() {
            Ok(stat) => stat.cpus.into_keys().collect(),
            Err(_) => crate::sys::thread::allowed_cpus().unwrap_or_default(),
        };
        let opened = open_events(hz, least, &cpus)?;
        let places = Places::new();
        if opened.scope == ProfileScope::Agent {
            let what = if opened.kernel { "the agent's own threads" } else { "the agent's own threads in user mode" };
            notes.push(format!(
                "only {what} were sampled{}; run the agent as root, or set kernel.perf_event_paranoid to -1",
                because(paranoid())
            ));
        }
        if opened.kernel && !places.shows_kernel() {
            notes.push(
                "the kernel's functions have no names, because the kernel hides their addresses; set \
                 kernel.kptr_restrict to 0, or run the agent as root"
                    .to_owned(),
            );
        }
        let Opened { samplers, clock, scope, kernel } = opened;
        Ok(Profiler { samplers, clock, scope, kernel, hz, cost_us: cost::of_a_sample(clock), places, notes })
    }

    /// Samples from now on.
    pub fn start(self) -> io::Result<Running> {
        let (stop, stopped) = channel(1);
        let cpus = self.samplers.len() as u32;
        let thread = std::thread::Builder::new().name("profiler".to_owned()).stack_size(STACK).spawn(move || {
            let mut taking = Taking {
                profiler: self,
                stacks: Stacks::default(),
                frames: Vec::new(),
                samples: 0,
                lost: 0,
                throttled: 0,
            };
            let began_ns = monotonic_ns();
            taking.profiler.samplers.iter().for_each(|sampler| drop(sampler.enable()));
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                taking.read();
            }
            taking.profiler.samplers.iter().for_each(|sampler| drop(sampler.disable()));
            let span_s = monotonic_ns().saturating_sub(began_ns) as f64 / 1e9;
            taking.read();
            let used = thread_use();
            RawSamples { taking, cpus, span_s, reader_cpu_s: used.user_s + used.system_s }
        })?;
        Ok(Running { stop, thread })
    }
}

/// Whether all that the first of its CPUs does may be sampled, the kernel too.
pub fn may_sample_machine() -> bool {
    let first = crate::sys::thread::allowed_cpus().ok().and_then(|cpus| cpus.first().copied());
    first.is_some_and(|cpu| open_each(ProfileClock::CpuClock, ProfileScope::Machine, true, 1, &[cpu]).is_ok())
}

struct Opened {
    samplers: Vec<Sampler>,
    clock: ProfileClock,
    scope: ProfileScope,
    kernel: bool,
}

/// The most that can be had: cycles before the clock, everything before own threads, the kernel too before without.
fn open_events(hz: u32, least: MinimumSamples, cpus: &[u32]) -> Result<Opened, ProfileError> {
    let mut refused = None;
    for (scope, kernel) in [(ProfileScope::Machine, true), (ProfileScope::Agent, true), (ProfileScope::Agent, false)] {
        if scope == ProfileScope::Agent && least == MinimumSamples::Machine {
            break;
        }
        for clock in [ProfileClock::Cycles, ProfileClock::CpuClock] {
            match open_each(clock, scope, kernel, hz, cpus) {
                Ok(samplers) => return Ok(Opened { samplers, clock, scope, kernel }),
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return Err(ProfileError::NoPerf),
                Err(error) => refused = Some(error),
            }
        }
    }
    let paranoid = paranoid();
    match refused {
        Some(error) if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
            Err(ProfileError::Refused(error))
        }
        _ if paranoid.is_none() => Err(ProfileError::NoPerf),
        _ if least == MinimumSamples::Machine && paranoid.is_some_and(|level| level < 3) => {
            Err(ProfileError::OwnOnly { paranoid })
        }
        _ => Err(ProfileError::NotAllowed { paranoid }),
    }
}

fn open_each(
    clock: ProfileClock,
    scope: ProfileScope,
    kernel: bool,
    hz: u32,
    cpus: &[u32],
) -> io::Result<Vec<Sampler>> {
    let source = match clock {
        ProfileClock::Cycles => Source::Cycles,
        ProfileClock::CpuClock => Source::CpuClock,
    };
    // Twice what comes between two looks, at half a KiB a sample; what an unprivileged user may lock is half a MiB
    // (kernel.perf_event_mlock_kb), for all CPUs together in some containers.
    let ring = (hz as usize / 10 * 512).clamp(32 << 10, 512 << 10).next_power_of_two();
    let mut samplers = Vec::new();
    for &cpu in cpus {
        let whose = if scope == ProfileScope::Machine { PerfScope::Cpu(cpu) } else { PerfScope::Mine(cpu) };
        match Sampler::open(source, whose, hz, kernel, ring) {
            Ok(sampler) => samplers.push(sampler),
            // It went offline in the meantime.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    if samplers.is_empty() { Err(io::Error::from_raw_os_error(libc::ENODEV)) } else { Ok(samplers) }
}

/// kernel.perf_event_paranoid (Documentation/admin-guide/sysctl/kernel.rst); absent where there are no perf events.
fn paranoid() -> Option<i32> {
    sysctl("perf_event_paranoid")
}

fn sysctl<T: std::str::FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

/// The kernel refuses more samples than kernel.perf_event_max_sample_rate, which it lowers by itself where they take
/// too long.
fn bounded(hz: u32, notes: &mut Vec<String>) -> u32 {
    match sysctl::<u32>("perf_event_max_sample_rate") {
        Some(most) if most < hz => {
            notes.push(format!(
                "the kernel takes at most {most} samples a second, and not {hz}; raise kernel.perf_event_max_sample_rate"
            ));
            most.max(1)
        }
        _ => hz,
    }
}

/// Events that are on, and the thread that reads them.
pub struct Running {
    stop: Sender<()>,
    thread: JoinHandle<RawSamples>,
}

impl Running {
    /// Samples no more. `None`: the reader broke.
    pub fn finish(self) -> Option<RawSamples> {
        drop(self.stop);
        self.thread.join().ok()
    }
}

/// The reader's own.
struct Taking {
    profiler: Profiler,
    stacks: Stacks,
    frames: Vec<u64>,
    samples: u64,
    lost: u64,
    throttled: u64,
}

impl Taking {
    fn read(&mut self) {
        let Taking { profiler: Profiler { samplers, places, .. }, stacks, frames, samples, lost, throttled } = self;
        for sampler in samplers {
            sampler.read(&mut |octets| match Record::read(octets) {
                Some(Record::Sample(sample)) => {
                    let process = places.of(&sample, frames);
                    stacks.count(process, frames);
                    *samples += 1;
                }
                Some(Record::Lost(count)) => *lost += count,
                Some(Record::Throttled) => *throttled += 1,
                None => {}
            });
        }
    }
}

/// Samples by number, without names yet.
pub struct RawSamples {
    taking: Taking,
    cpus: u32,
    span_s: f64,
    reader_cpu_s: f64,
}

impl RawSamples {
    /// The profile. Reads symbols, which takes a while and disturbs what is measured meanwhile.
    pub fn told(self) -> Profile {
        let Taking { profiler, stacks, samples, lost, throttled, .. } = self.taking;
        let Profiler { clock, scope, kernel, hz, cost_us, places, mut notes, .. } = profiler;
        if throttled > 0 {
            let times = if throttled == 1 { "once".to_owned() } else { format!("{throttled} times") };
            notes.push(format!(
                "the kernel paused sampling {times}, because it took too much of a CPU \
                 (kernel.perf_cpu_time_max_percent); choose fewer samples a second"
            ));
        }
        let told = places.told(&stacks);
        Profile {
            clock,
            scope,
            kernel,
            hz,
            cpus: self.cpus,
            span_s: self.span_s,
            samples,
            lost,
            cut: stacks.cut + told.cut,
            reader_cpu_s: self.reader_cpu_s,
            sample_cost_us: cost_us,
            cpu: None,
            notes,
            processes: told.processes,
            functions: told.functions,
            stacks: told.stacks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_found_busy_where_it_is() {
        let profiler = match Profiler::open(999, MinimumSamples::OwnThreads) {
            Ok(profiler) => profiler,
            Err(error) => return eprintln!("this_machine_is_found_busy: skipped, {error}"),
        };
        let running = profiler.start().unwrap();
        let worker = std::thread::spawn(|| {
            let end = monotonic_ns() + 300_000_000;
            let mut read = 0;
            // System calls that copy: work of the kernel's with a name.
            while monotonic_ns() < end {
                read += fs::read("/proc/self/stat").map_or(0, |octets| octets.len());
            }
            read
        });
        assert!(worker.join().unwrap() > 0);
        let profile = running.finish().unwrap().told();
        assert!(profile.samples > 50, "{profile:?}");
        assert_eq!(profile.stacks.iter().map(|stack| stack.samples).sum::<u64>(), profile.samples);
        let of_agent: u64 = profile
            .stacks
            .iter()
            .filter(|stack| profile.process(stack).is_some_and(|process| process.agent))
            .map(|stack| stack.samples)
            .sum();
        assert!(of_agent > 20, "{:?}", profile.processes);
        assert!(profile.reader_cpu_s < profile.span_s / 4.0, "{}", profile.reader_cpu_s);
        if profile.kernel && profile.notes.is_empty() {
            let is_named = |name: &str| profile.functions.iter().any(|one| one.name.as_deref() == Some(name));
            assert!(is_named("do_syscall_64") || is_named("el0_svc") || profile.functions.len() > 20, "{profile:?}");
        }
    }
}
