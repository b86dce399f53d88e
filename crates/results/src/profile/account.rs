//! A machine's time divided into kinds of work.
//! Knows what was sampled, how long the CPUs were busy, and how much work was done; asks nobody.

use linerate_machine::cpu::CpuUse;
use linerate_machine::profile::{Profile, ProfileClock, ProfileScope};

use crate::profile::{Category, CategoryTime, MachineProfile};
use crate::total::Total;

use super::categories::Table;

/// How much work the time was for; what is unknown has no cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Packets of the trial at this end.
    pub packets: Option<f64>,
    /// Payload that arrived.
    pub kib: Option<f64>,
}

/// The profile with its time by kinds of work. Samples divide the time in which the CPUs were busy; how long that was,
/// the kernel's accounting says (`cpu`), for a halted CPU counts no cycles. Where it says nothing, samples of the clock,
/// which runs on while a CPU is idle, stand for equal times.
pub fn account(taken: Profile, cpu: Option<&CpuUse>, driver: Option<&str>, work: Work) -> MachineProfile {
    let counts = counts(&taken, driver);
    let all = counts.iter().map(|(_, samples)| *samples).total();
    let busy = counts.iter().filter(|(one, _)| *one != Category::Idle).map(|(_, samples)| *samples).total();
    let machine_s = f64::from(taken.cpus) * taken.span_s;
    let time_of = |category: Category, samples: u64| -> Option<Time> {
        let fraction = |of: u64| if of == 0 { 0.0 } else { samples as f64 / of as f64 };
        match (taken.scope, cpu) {
            (ProfileScope::Agent, _) => {
                Some(Time { seconds: samples as f64 / f64::from(taken.hz), share: fraction(all) })
            }
            (ProfileScope::Machine, Some(cpu)) => {
                // What a hypervisor took was nobody's here.
                let had = 1.0 - cpu.machine.steal;
                let busy_share = if busy == 0 { 0.0 } else { (cpu.machine.busy / had).clamp(0.0, 1.0) };
                let share = if category == Category::Idle { 1.0 - busy_share } else { fraction(busy) * busy_share };
                Some(Time { seconds: share * had * f64::from(cpu.cpus) * cpu.span_s, share })
            }
            (ProfileScope::Machine, None) if taken.clock == ProfileClock::CpuClock => {
                Some(Time { seconds: fraction(all) * machine_s, share: fraction(all) })
            }
            _ => None,
        }
    };
    let categories = counts
        .iter()
        .map(|&(category, samples)| {
            let time = time_of(category, samples);
            let per = |units: Option<f64>| {
                let units = units.filter(|units| *units > 0.0 && category != Category::Idle)?;
                Some(time.as_ref()?.seconds * 1e6 / units)
            };
            CategoryTime {
                category,
                samples,
                share: time.as_ref().map(|time| time.share),
                us_per_packet: per(work.packets),
                us_per_kib: per(work.kib),
            }
        })
        .collect();
    MachineProfile { taken, categories }
}

struct Time {
    seconds: f64,
    share: f64,
}

/// Samples of each kind, every kind once.
fn counts(profile: &Profile, driver: Option<&str>) -> Vec<(Category, u64)> {
    let reader = Table::shipped().reader(profile, driver);
    let mut counts = Category::ALL.map(|category| (category, 0u64));
    for stack in &profile.stacks {
        let category = reader.of(stack);
        if let Some((_, samples)) = counts.iter_mut().find(|(one, _)| *one == category) {
            // From another machine: no sum may overflow.
            *samples = samples.saturating_add(stack.samples);
        }
    }
    counts.to_vec()
}
