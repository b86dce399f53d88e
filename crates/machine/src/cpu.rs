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
    /// The span begins before the measured part: another tool's server measures from its start, warm-up included.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub includes_warmup: bool,
}

/// How /proc/stat is told apart in [`CpuUse::method`].
pub const PROC_STAT: &str = "/proc/stat";

/// A clock tick of /proc/stat, seconds: USER_HZ is 100 wherever agents run (include/asm-generic/param.h).
pub const TICK_S: f64 = 0.01;

/// A figure from fewer clock ticks is none: one tick more or less, which chance decides, is a tenth of it or more.
const FEWEST_TICKS: f64 = 10.0;
/// From fewer on each CPU, fractions of time are too coarse to trust: one tick of 50 is 2 %.
const TRUSTED_TICKS: f64 = 50.0;

/// How few clock ticks a CPU figure rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FewTicks {
    /// On each CPU.
    pub ticks: f64,
    /// In which a CPU was busy, of all CPUs.
    pub busy_ticks: f64,
    /// What they are too few for.
    pub lacking: MissingFigure,
}

/// What too few clock ticks do not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingFigure {
    /// Any figure of the CPUs.
    Cpu,
    /// A fine one.
    Precision,
    /// Service demand.
    ServiceDemand,
}

impl std::fmt::Display for FewTicks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ticks, busy, least_s) = (self.ticks, self.busy_ticks, TRUSTED_TICKS * TICK_S);
        match self.lacking {
            MissingFigure::Cpu => write!(
                f,
                "CPU use would rest on {ticks:.0} clock ticks on each CPU, so it and service demand are left out; measure \
                 for at least {least_s:.1} s"
            ),
            MissingFigure::Precision => write!(
                f,
                "CPU use rests on {ticks:.0} clock ticks on each CPU, of which one alone is {:.1} %; measure for at least \
                 {least_s:.1} s",
                100.0 / ticks
            ),
            MissingFigure::ServiceDemand => write!(
                f,
                "the CPUs were busy for {busy:.0} clock ticks in all, too few for service demand; measure for longer, or \
                 with more load"
            ),
        }
    }
}

/// Whether a span of so many seconds has the clock ticks that a figure needs.
pub fn is_long_enough(method: &str, span_s: f64) -> bool {
    method != PROC_STAT || (span_s / TICK_S).round() >= FEWEST_TICKS
}

impl CpuUse {
    /// Clock ticks on each CPU that the fractions rest on; `None` of a method that counts in no ticks.
    pub fn ticks(&self) -> Option<f64> {
        (self.method == PROC_STAT).then(|| (self.span_s / TICK_S).round())
    }

    /// Clock ticks that service demand rests on: those in which a CPU was busy.
    pub fn busy_ticks(&self) -> Option<f64> {
        self.ticks().map(|_| (self.busy_seconds() / TICK_S).round())
    }

    /// Whether it rests on enough clock ticks to be a figure.
    pub fn is_told(&self) -> bool {
        is_long_enough(&self.method, self.span_s)
    }

    /// Whether it rests on so few clock ticks that no conclusion is to rest on it.
    pub fn is_coarse(&self) -> bool {
        self.ticks().is_some_and(|ticks| ticks < TRUSTED_TICKS)
    }

    /// Why its figures are coarse, or absent; `None` where enough clock ticks passed.
    pub fn few_ticks(&self) -> Option<FewTicks> {
        let (ticks, busy) = (self.ticks()?, self.busy_ticks()?);
        let lacking = match () {
            () if !self.is_told() => MissingFigure::Cpu,
            () if self.is_coarse() => MissingFigure::Precision,
            () if busy < FEWEST_TICKS => MissingFigure::ServiceDemand,
            () => return None,
        };
        Some(FewTicks { ticks, busy_ticks: busy, lacking })
    }

    /// CPU seconds the machine spent, over all its CPUs.
    pub fn busy_seconds(&self) -> f64 {
        self.machine.busy * f64::from(self.cpus) * self.span_s
    }

    /// Service demand: microseconds of CPU time for each of `units` (KiB or packets) of the same span; `None` without
    /// units, or where too few clock ticks passed to tell.
    pub fn demand_us(&self, units: f64) -> Option<f64> {
        let is_told = self.busy_ticks().is_none_or(|ticks| ticks >= FEWEST_TICKS);
        (units > 0.0 && is_told).then(|| self.busy_seconds() * 1e6 / units)
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
        let use_ = CpuUse {
            machine: half,
            cpus: 2,
            per_cpu: vec![half; 2],
            method: PROC_STAT.to_owned(),
            span_s: 10.0,
            includes_warmup: false,
        };
        // Half of two CPUs for ten seconds is ten CPU seconds.
        assert_eq!(use_.busy_seconds(), 10.0);
        assert_eq!(use_.demand_us(1e6), Some(10.0));
        assert_eq!(use_.demand_us(0.0), None);
    }

    #[test]
    fn service_demand_rests_on_ten_ticks_or_is_absent() {
        let of = |busy, method: &str| CpuUse {
            machine: CpuShares { busy, ..CpuShares::default() },
            cpus: 2,
            per_cpu: Vec::new(),
            method: method.to_owned(),
            span_s: 2.0,
            includes_warmup: false,
        };
        // 400 ticks on two CPUs.
        assert_eq!((of(0.02, PROC_STAT).ticks(), of(0.02, PROC_STAT).busy_ticks()), (Some(200.0), Some(8.0)));
        assert_eq!(of(0.02, PROC_STAT).demand_us(100.0), None);
        assert_eq!(of(0.025, PROC_STAT).demand_us(100.0), Some(1000.0));
        // Soaking threads count in microseconds.
        assert_eq!(of(0.02, "soak").demand_us(100.0), Some(800.0));
    }

    #[test]
    fn few_ticks_are_doubted_and_fewer_are_no_figure() {
        let check = |span_s: f64, busy: f64, told: bool, want: &str| {
            let machine = CpuShares { busy, ..CpuShares::default() };
            let (per_cpu, method) = (vec![machine; 2], PROC_STAT.to_owned());
            let used = CpuUse { machine, cpus: 2, per_cpu, method, span_s, includes_warmup: false };
            let detail = used.few_ticks().map_or(String::new(), |few| few.to_string());
            assert_eq!((used.is_told(), detail.as_str()), (told, want), "{span_s} s, {busy}");
            assert_eq!(used.is_coarse(), span_s < 0.5);
            assert_eq!(CpuUse { method: "soak".to_owned(), ..used }.few_ticks(), None);
        };
        check(2.0, 0.5, true, "");
        check(
            0.1,
            1.0,
            true,
            "CPU use rests on 10 clock ticks on each CPU, of which one alone is 10.0 %; measure for at least 0.5 s",
        );
        check(
            0.09,
            1.0,
            false,
            "CPU use would rest on 9 clock ticks on each CPU, so it and service demand are left out; measure for at least \
             0.5 s",
        );
        check(
            2.0,
            0.02,
            true,
            "the CPUs were busy for 8 clock ticks in all, too few for service demand; measure for longer, or with more load",
        );
    }
}
