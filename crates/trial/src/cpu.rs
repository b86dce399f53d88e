//! CPU time of a machine over a span of time, as fractions, and service demand.
//! Knows no /proc; ticks are arguments.

use serde::{Deserialize, Serialize};

/// Time that one CPU spent in each state, in any unit, since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// User mode, niced or not.
    pub user: u64,
    /// Kernel mode outside interrupts.
    pub system: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Software interrupts, which is where received packets are handled.
    pub softirq: u64,
    /// Idle, or waiting for a disk.
    pub idle: u64,
    /// Taken by a hypervisor for others.
    pub steal: u64,
}

impl CpuTimes {
    /// What passed since `before`; a field that went backwards (the kernel's idle time may) counts as none.
    pub fn since(&self, before: &CpuTimes) -> CpuTimes {
        CpuTimes {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            irq: self.irq.saturating_sub(before.irq),
            softirq: self.softirq.saturating_sub(before.softirq),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.user + self.system + self.irq + self.softirq + self.idle + self.steal
    }

    /// As fractions of the whole; `None` when no time passed.
    pub fn shares(&self) -> Option<CpuShares> {
        let total = self.total();
        let share = |part: u64| part as f64 / total as f64;
        (total > 0).then(|| CpuShares {
            busy: share(total - self.idle - self.steal),
            user: share(self.user),
            system: share(self.system),
            irq: share(self.irq),
            softirq: share(self.softirq),
            steal: share(self.steal),
        })
    }
}

impl std::ops::Add for CpuTimes {
    type Output = CpuTimes;

    fn add(self, other: CpuTimes) -> CpuTimes {
        CpuTimes {
            user: self.user + other.user,
            system: self.system + other.system,
            irq: self.irq + other.irq,
            softirq: self.softirq + other.softirq,
            idle: self.idle + other.idle,
            steal: self.steal + other.steal,
        }
    }
}

/// Fractions of a CPU's, or a machine's, time: 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShares {
    /// Not idle and not stolen.
    pub busy: f64,
    /// User mode.
    pub user: f64,
    /// Kernel mode outside interrupts.
    pub system: f64,
    /// Hardware interrupts.
    pub irq: f64,
    /// Software interrupts.
    pub softirq: f64,
    /// Taken by a hypervisor.
    pub steal: f64,
}

/// CPU use of one machine during the measured part of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Fractions of the whole machine. With the soak method only `busy` is known to differ from /proc/stat's.
    #[serde(flatten)]
    pub machine: CpuShares,
    /// How many CPUs the machine had online.
    pub cpus: u32,
    /// Each CPU by itself, in the kernel's order; one whose clock did not tick in the span is left out.
    pub per_cpu: Vec<CpuShares>,
    /// How it was measured: `/proc/stat` or `soak`.
    pub method: String,
    /// The span it covers, seconds.
    pub span_s: f64,
}

impl CpuUse {
    /// CPU seconds the machine spent, over all its CPUs.
    pub fn busy_seconds(&self) -> f64 {
        self.machine.busy * f64::from(self.cpus) * self.span_s
    }

    /// Service demand: microseconds of CPU time for each of `units` (KiB or packets); `None` without units.
    pub fn demand_us(&self, units: f64) -> Option<f64> {
        (units > 0.0).then(|| self.busy_seconds() * 1e6 / units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_whole_and_stolen_time_is_not_busy() {
        let times = CpuTimes { user: 10, system: 20, irq: 5, softirq: 15, idle: 40, steal: 10 };
        let shares = times.shares().unwrap();
        assert_eq!(shares.busy, 0.5);
        assert_eq!(shares.softirq, 0.15);
        assert_eq!(CpuTimes::default().shares(), None);
    }

    #[test]
    fn service_demand_is_cpu_time_by_unit() {
        let half = CpuShares { busy: 0.5, ..CpuShares::default() };
        let use_ =
            CpuUse { machine: half, cpus: 2, per_cpu: vec![half; 2], method: "/proc/stat".to_owned(), span_s: 10.0 };
        // Half of two CPUs for ten seconds is ten CPU seconds.
        assert_eq!(use_.busy_seconds(), 10.0);
        assert_eq!(use_.demand_us(1e6), Some(10.0));
        assert_eq!(use_.demand_us(0.0), None);
    }
}
