//! What a sample costs: the same work with and without samples, timed.
//! Knows that the kernel's part of a profile is nowhere accounted for, so it is measured here.

use std::sync::OnceLock;

use linerate_machine::profile::ProfileClock;

use crate::sys::perf::{PerfScope, Sampler, Source};
use crate::sys::thread::{allowed_cpus, monotonic_ns, pin_to_cpu};

/// Samples a second while it is measured: many, so that little time shows them.
const HZ: u32 = 20_000;
/// Length of one run of the loop, and how often each kind is run. A run is short, so that some find the CPU alone even
/// on a busy machine.
const RUN_NS: u64 = 1_000_000;
const RUNS: usize = 24;
/// How far the three quickest runs of a kind may lie apart, for the quickest to be believed.
const AGREE: f64 = 1.1;

/// Microseconds of a CPU that the kernel takes for one sample of a short chain; `None` where it cannot be told. Takes
/// some fifty milliseconds, once in this process's life.
pub fn of_a_sample(clock: ProfileClock) -> Option<f64> {
    static COST: OnceLock<Option<f64>> = OnceLock::new();
    // In a thread of its own, because it stays on one CPU.
    let measured = || std::thread::Builder::new().spawn(move || measure(clock)).ok()?.join().ok().flatten();
    *COST.get_or_init(measured)
}

fn measure(clock: ProfileClock) -> Option<f64> {
    let cpu = *allowed_cpus().ok()?.first()?;
    pin_to_cpu(cpu).ok()?;
    let source = match clock {
        ProfileClock::Cycles => Source::Cycles,
        ProfileClock::CpuClock => Source::CpuClock,
    };
    let mut sampler = Sampler::open(source, PerfScope::Mine(cpu), HZ, false, 64 << 10)
        .or_else(|_| Sampler::open(source, PerfScope::Mine(cpu), HZ / 10, false, 64 << 10))
        .ok()?;
    let turns = turns_of(RUN_NS);
    let (mut plain, mut sampled, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    // Turn about, so that whatever else goes on hits both alike.
    for _ in 0..RUNS {
        plain.push(work(turns) as f64);
        sampler.enable().ok()?;
        let time = work(turns) as f64;
        sampler.disable().ok()?;
        let mut samples = 0u32;
        sampler.read(&mut |_| samples += 1);
        sampled.push(time);
        taken.push(samples);
    }
    taken.sort_unstable();
    let samples = taken[RUNS / 2];
    let cost_us = (quickest(&mut sampled)? - quickest(&mut plain)?) / 1e3 / f64::from(samples);
    (samples >= 5 && cost_us > 0.0).then_some(cost_us)
}

/// The quickest runs are those that nothing else interrupted; they are believed where three agree.
fn quickest(times: &mut [f64]) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    (times[2] < AGREE * times[0]).then_some(times[0])
}

/// Turns of the loop that take so long here.
fn turns_of(ns: u64) -> u64 {
    const FEW: u64 = 10_000;
    let took = (0..3).map(|_| work(FEW)).min().unwrap_or(1).max(1);
    (FEW * ns / took).max(FEW)
}

/// Nanoseconds that so many turns take.
fn work(turns: u64) -> u64 {
    let began = monotonic_ns();
    let mut value = turns;
    for turn in 0..turns {
        value = std::hint::black_box(value ^ turn);
    }
    std::hint::black_box(value);
    monotonic_ns() - began
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_costs_something_and_not_much() {
        match of_a_sample(ProfileClock::CpuClock) {
            Some(cost_us) => assert!((0.05..500.0).contains(&cost_us), "{cost_us} µs"),
            None => eprintln!("a_sample_costs: this machine does not tell, or is too busy"),
        }
    }
}
