//! CPU use by idle capacity: threads of the lowest priority soak up what is left, and count how much that was.
//! Knows nothing of trials; what netperf calls a looper.
//!
//! The kernel's own accounting may see interrupts at clock ticks only. A soaker needs no accounting: what anyone else
//! takes, interrupts included, is missing from its count. Its price: CPUs never sleep nor slow down meanwhile, so
//! delays are those of a machine without idle states; a soaker slows its sibling on a CPU with hardware threads; and
//! what shares a cache or memory with others slows without being busy.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use linerate_machine::cpu::{CpuShares, CpuUse};
use linerate_machine::sync::Mutex;
use linerate_machine::thread;
use linerate_trial::doubt::{Doubt, Doubted, NotIdle};

use crate::cpu::StatReading;
use crate::sys::thread::{allowed_cpus, lowest_priority, monotonic_ns, pin_to_cpu, sleep_until_ns};

/// Soaking threads, one pinned to each CPU that this process may use. They stop, and are joined, on drop.
///
/// Order of calls: [`start`](Soak::start) on the idle machine, then [`mark`](Soak::mark) and [`read`](Soak::read) for
/// each span; spans may overlap. At least one call in ten hours, as the threads' counters are of 32 bits: boards
/// without 64-bit atomics are supported.
#[derive(Debug)]
pub struct Soak {
    soakers: Vec<Soaker>,
    stop: Arc<AtomicBool>,
    /// Each soaker's rounds so far, carried on beyond 32 bits.
    rounds: Mutex<Vec<u64>>,
    /// Rounds per nanosecond of each soaker on the idle machine.
    calibrated: Vec<f64>,
    doubt: Option<Doubt>,
}

/// A moment from which CPU use is measured.
#[derive(Clone, Debug)]
pub struct SoakMark {
    at_ns: u64,
    rounds: Vec<u64>,
    stat: StatReading,
}

/// CPU use over a span, with what is to be doubted about it.
#[derive(Clone, Debug)]
pub struct SoakReading {
    /// Of the CPUs that this process may use. `busy` is by soaking; `user` (without niced time, which is the soakers'),
    /// `system`, `irq`, `softirq` and `steal` are the kernel's.
    pub usage: CpuUse,
    /// Reasons not to trust it.
    pub doubts: Vec<Doubt>,
}

#[derive(Debug)]
struct Soaker {
    cpu: u32,
    rounds: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

/// How long the idle machine is measured.
const CALIBRATION_NS: u64 = 200_000_000;
/// Threads settle on their CPUs, and the CPUs reach their frequency, before that.
const SETTLE_NS: u64 = 30_000_000;
/// Iterations of the loop in a round: some tens of microseconds on a fast CPU, so that 2^32 rounds last a day.
const ROUND: u32 = 16_384;
/// Others' share of the machine from which it is not idle.
const IDLE_BELOW: f64 = 0.05;
/// Going faster than calibrated by this much is noise.
const FASTER_ABOVE: f64 = 0.03;
/// A soaking thread calls nothing deep; boards have little memory.
const STACK: usize = 64 << 10;

impl Soak {
    /// Starts the threads and takes 0.23 s to learn how fast they run when nobody else does.
    pub fn start() -> io::Result<Soak> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut soak =
            Soak { soakers: Vec::new(), stop, rounds: Mutex::default(), calibrated: Vec::new(), doubt: None };
        for cpu in allowed_cpus()? {
            // On a failure the drop of `soak` ends those that run already.
            let soaker = Soaker::start(cpu, soak.stop.clone())?;
            soak.soakers.push(soaker);
        }
        soak.rounds = Mutex::new(vec![0; soak.soakers.len()]);
        sleep_until_ns(monotonic_ns() + SETTLE_NS);
        let before = soak.mark()?;
        sleep_until_ns(before.at_ns + CALIBRATION_NS);
        let after = soak.mark()?;
        let span_ns = (after.at_ns - before.at_ns) as f64;
        soak.calibrated =
            after.rounds.iter().zip(&before.rounds).map(|(after, before)| (after - before) as f64 / span_ns).collect();
        soak.doubt = soak.doubt_calibration(&after.stat.since(&before.stat));
        Ok(soak)
    }

    /// Begins a span now.
    pub fn mark(&self) -> io::Result<SoakMark> {
        let stat = StatReading::read()?;
        let mut rounds = self.rounds.lock();
        for (sum, soaker) in rounds.iter_mut().zip(&self.soakers) {
            let low = soaker.rounds.load(Ordering::Relaxed);
            *sum += u64::from(low.wrapping_sub(*sum as u32));
        }
        Ok(SoakMark { at_ns: monotonic_ns(), rounds: rounds.clone(), stat })
    }

    /// CPU use since a mark: on each CPU 1 less the soaker's speed by its calibrated one, less what a hypervisor took.
    pub fn read(&self, since: &SoakMark) -> io::Result<SoakReading> {
        let now = self.mark()?;
        let span_ns = now.at_ns.saturating_sub(since.at_ns) as f64;
        if span_ns <= 0.0 {
            return Err(io::Error::other("no time has passed yet"));
        }
        let growth = now.stat.since(&since.stat);
        let mut doubts: Vec<Doubt> = self.doubt.iter().cloned().collect();
        let mut per_cpu = Vec::new();
        let mut fastest = 0.0f64;
        for (k, soaker) in self.soakers.iter().enumerate() {
            let speed = (now.rounds[k] - since.rounds[k]) as f64 / span_ns / self.calibrated[k];
            // A calibrated speed of zero gives no number; then nothing is known to be idle.
            let speed = if speed.is_finite() { speed } else { 0.0 };
            fastest = fastest.max(speed);
            let stat = growth.cpus.get(&soaker.cpu).copied().unwrap_or_default();
            let kernel = stat.times.shares().unwrap_or_default();
            let niced = if stat.times.total() > 0 { stat.nice as f64 / stat.times.total() as f64 } else { 0.0 };
            let busy = (1.0 - speed - kernel.steal).clamp(0.0, 1.0);
            per_cpu.push(CpuShares { busy, user: (kernel.user - niced).max(0.0), ..kernel });
        }
        if fastest > 1.0 + FASTER_ABOVE {
            doubts.push(Doubted::SoakNotCalibrated { sign: NotIdle::Faster { by: fastest - 1.0 } }.into());
        }
        let mean = |part: fn(&CpuShares) -> f64| per_cpu.iter().map(part).sum::<f64>() / per_cpu.len() as f64;
        let machine = CpuShares {
            busy: mean(|cpu| cpu.busy),
            user: mean(|cpu| cpu.user),
            system: mean(|cpu| cpu.system),
            irq: mean(|cpu| cpu.irq),
            softirq: mean(|cpu| cpu.softirq),
            steal: mean(|cpu| cpu.steal),
        };
        let cpus = per_cpu.len() as u32;
        let (method, span_s) = ("soak".to_owned(), span_ns / 1e9);
        let usage = CpuUse { machine, cpus, per_cpu, method, span_s, includes_warmup: false };
        Ok(SoakReading { usage, doubts })
    }

    /// The kernel's account of the calibration: all but idle and niced time is someone else's.
    fn doubt_calibration(&self, growth: &StatReading) -> Option<Doubt> {
        let total = growth.machine().total();
        let niced: u64 = growth.cpus.values().map(|cpu| cpu.nice).sum();
        let others = total.saturating_sub(niced + growth.machine().idle) as f64 / total as f64;
        if let Some((soaker, _)) = self.soakers.iter().zip(&self.calibrated).find(|(_, speed)| **speed <= 0.0) {
            return Some(Doubted::SoakNotCalibrated { sign: NotIdle::SilentThread { cpu: soaker.cpu } }.into());
        }
        let sign = NotIdle::Others { share: others };
        (others > IDLE_BELOW).then(|| Doubted::SoakNotCalibrated { sign }.into())
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.soakers.iter_mut().filter_map(|soaker| soaker.thread.take()) {
            // A soaker that panicked is as gone as one that ended.
            let _ = thread.join();
        }
    }
}

impl Soaker {
    fn start(cpu: u32, stop: Arc<AtomicBool>) -> io::Result<Soaker> {
        let rounds = Arc::new(AtomicU32::new(0));
        let counter = rounds.clone();
        let thread = thread::start(&format!("soak-{cpu}"), STACK, move || {
            // Never soak at a priority at which it would take time from those who are measured.
            if pin_to_cpu(cpu).and_then(|()| lowest_priority()).is_err() {
                return;
            }
            let mut state = cpu;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..ROUND {
                    // One xorshift step (Marsaglia 2003): a chain of dependent operations that leaves memory alone, so
                    // that its speed is that of the clock.
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    state = std::hint::black_box(state);
                }
                counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            }
        })?;
        Ok(Soaker { cpu, rounds, thread: Some(thread) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_with_the_soak() {
        let soak = Soak::start().unwrap();
        let rounds: Vec<_> = soak.soakers.iter().map(|soaker| soaker.rounds.clone()).collect();
        drop(soak);
        assert!(rounds.iter().all(|rounds| Arc::strong_count(rounds) == 1), "the threads let go of their counters");
    }

    #[test]
    fn counters_carry_on_beyond_32_bits() {
        let mut soak = Soak {
            soakers: vec![Soaker { cpu: 0, rounds: Arc::new(AtomicU32::new(u32::MAX - 5)), thread: None }],
            stop: Arc::default(),
            rounds: Mutex::new(vec![0]),
            calibrated: vec![1.0],
            doubt: None,
        };
        assert_eq!(soak.mark().unwrap().rounds, [u64::from(u32::MAX) - 5]);
        soak.soakers[0].rounds.store(10, Ordering::Relaxed);
        assert_eq!(soak.mark().unwrap().rounds, [(1 << 32) + 10]);
        soak.calibrated = vec![0.0];
        assert!(soak.doubt_calibration(&StatReading::default()).unwrap().to_string().contains("CPU 0 did not run"));
    }
}
