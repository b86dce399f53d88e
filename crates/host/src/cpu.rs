//! CPU time as the kernel accounts it: /proc/stat, read at the ends of a span.
//! Knows nothing of trials; the fractions and service demand are `machine::cpu`.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::{fs, io};

use linerate_machine::cpu::{CpuShares, CpuTimes, CpuUse, PROC_STAT};
use linerate_machine::map::map_of;
use linerate_trial::doubt::{Doubt, Doubted};

use crate::sys::thread::monotonic_ns;

/// CPU use over a span that begins when the meter is started. A meter can be read many times.
#[derive(Clone, Debug)]
pub struct CpuMeter {
    at_ns: u64,
    before: StatReading,
}

impl CpuMeter {
    /// Begins a span now.
    pub fn start() -> io::Result<CpuMeter> {
        Ok(CpuMeter { before: StatReading::read()?, at_ns: monotonic_ns() })
    }

    /// CPU use since the start. The machine is the sum of the CPUs that were online at both ends of the span. Fails
    /// when /proc/stat cannot be read, or no clock tick has passed yet.
    pub fn read(&self) -> io::Result<CpuUse> {
        let now = StatReading::read()?;
        let span_s = monotonic_ns().saturating_sub(self.at_ns) as f64 / 1e9;
        let growth = now.since(&self.before);
        let machine = growth.machine().shares().ok_or_else(|| io::Error::other("no clock tick has passed yet"))?;
        let per_cpu = growth.shares().into_values().collect();
        let cpus = growth.cpus.len() as u32;
        Ok(CpuUse { machine, cpus, per_cpu, method: PROC_STAT.to_owned(), span_s, includes_warmup: false })
    }

    /// Ends the span and begins the next, for time slices.
    pub fn read_and_restart(&mut self) -> io::Result<CpuUse> {
        let result = self.read();
        *self = CpuMeter::start()?;
        result
    }
}

/// What /proc/stat said at one moment, in clock ticks (proc_stat(5)), or what its figures grew by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatReading {
    /// Each CPU that was online, by number. A kernel for one CPU may list none: then the machine is CPU 0.
    pub cpus: BTreeMap<u32, StatTimes>,
}

/// The file, kept open for frequent reads.
#[derive(Debug)]
pub struct StatFile {
    file: fs::File,
    octets: Vec<u8>,
}

impl StatFile {
    /// Opens it.
    pub fn open() -> io::Result<StatFile> {
        Ok(StatFile { file: fs::File::open("/proc/stat")?, octets: vec![0; 16 << 10] })
    }

    /// Reads it from its beginning.
    pub fn read(&mut self) -> io::Result<StatReading> {
        // One read, as a rule: the lines of CPU times come first, and what follows is long on a machine of many interrupts.
        let (octets, mut len) = (&mut self.octets, 0);
        loop {
            let read = self.file.read_at(&mut octets[len..], len as u64)?;
            len += read;
            if read == 0 || octets[..len].windows(5).any(|five| five == b"\nintr") {
                break;
            }
            octets.resize(octets.len().max(2 * len), 0);
        }
        let text = String::from_utf8_lossy(&octets[..len]);
        StatReading::parse(&text).ok_or_else(|| io::Error::other("/proc/stat has no line of CPU times"))
    }
}

/// One CPU's times. Linux 2.4 has no columns for interrupts and counts their time as system time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatTimes {
    /// As trials know them. `user` includes niced time and, as the kernel counts them, virtual machines' (guest) time.
    pub times: CpuTimes,
    /// Niced user time alone, which is part of `user`.
    pub nice: u64,
}

impl StatReading {
    /// Reads the file.
    pub fn read() -> io::Result<StatReading> {
        StatFile::open()?.read()
    }

    /// Reads the file's text; `None` when it holds no CPU times. Lines that make no sense are left out.
    pub fn parse(text: &str) -> Option<StatReading> {
        let mut machine = None;
        let mut cpus = BTreeMap::new();
        for line in text.lines() {
            let Some((name, times)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
            let Some(times) = parse_times(times) else { continue };
            match name.parse() {
                Ok(cpu) => drop(cpus.insert(cpu, times)),
                Err(_) if name.is_empty() => machine = Some(times),
                Err(_) => {}
            }
        }
        if cpus.is_empty() {
            cpus.insert(0, machine?);
        }
        Some(StatReading { cpus })
    }

    /// What each CPU's times grew by, of the CPUs that both readings have. A figure that fell, as a CPU's may when it
    /// comes back online, grew by nothing.
    pub fn since(&self, before: &StatReading) -> StatReading {
        let growth = |(cpu, now): (&u32, &StatTimes)| {
            let before = before.cpus.get(cpu)?;
            let times = now.times.since(&before.times);
            Some((*cpu, StatTimes { times, nice: now.nice.saturating_sub(before.nice) }))
        };
        StatReading { cpus: map_of(self.cpus.iter().filter_map(growth)) }
    }

    /// All CPUs together. Not the file's own first line: that is of all CPUs there could be, and its idle time leaps
    /// when one goes offline (fs/proc/stat.c takes the idle time of online and of offline CPUs from different clocks).
    pub fn machine(&self) -> CpuTimes {
        self.cpus.values().fold(CpuTimes::default(), |sum, cpu| sum + cpu.times)
    }

    /// Each CPU's fractions; a CPU whose ticks did not move has none.
    pub fn shares(&self) -> BTreeMap<u32, CpuShares> {
        map_of(self.cpus.iter().filter_map(|(cpu, stat)| Some((*cpu, stat.times.shares()?))))
    }
}

/// `user nice system idle` in all kernels, then `iowait irq softirq` (2.6.0), `steal` (2.6.11), `guest` (2.6.24) and
/// `guest_nice` (2.6.33), of which the last two are counted in user and nice already.
fn parse_times(text: &str) -> Option<StatTimes> {
    let mut columns = text.split_ascii_whitespace().map(|column| column.parse::<u64>().ok());
    let mut first = || columns.next()?;
    let (user, nice, system, idle) = (first()?, first()?, first()?, first()?);
    // A column that is not there was not counted apart: its time is in the ones before.
    let mut later = || columns.next().map_or(Some(0), |column| column);
    let (iowait, irq, softirq, steal) = (later()?, later()?, later()?, later()?);
    let times =
        CpuTimes { user: user.checked_add(nice)?, system, irq, softirq, idle: idle.checked_add(iowait)?, steal };
    // Ticks of ninety thousand years are garbage, and the sum of all CPUs' must fit.
    let sum = [times.user, system, irq, softirq, times.idle, steal].iter().try_fold(0u64, |sum, t| sum.checked_add(*t));
    sum.filter(|sum| *sum < 1 << 48).map(|_| StatTimes { times, nice })
}

/// Whether this kernel finds the time of interrupts by sampling at the clock tick, which misses or overstates what
/// happens in step with it; `None` when that cannot be known. It is told by the kernel's configuration, looked for
/// where distributions put it and in the kernel itself; no counter shows it without a load.
pub fn accounts_irq_by_ticks() -> Option<bool> {
    // A kernel does not change while an agent runs, and unpacking takes some milliseconds.
    static ANSWER: OnceLock<Option<bool>> = OnceLock::new();
    *ANSWER.get_or_init(look_for_irq_accounting)
}

fn look_for_irq_accounting() -> Option<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let release = release.trim();
    // The running kernel's own first: a file may be of another build with the same name.
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    own_configuration()
        .or_else(|| files.iter().find_map(|path| fs::read_to_string(path).ok()))
        .and_then(|text| irq_by_ticks_in(&text, &fs::read_to_string("/proc/cmdline").unwrap_or_default()))
}

/// The running kernel's configuration, from /proc/config.gz.
fn own_configuration() -> Option<String> {
    unpacked(&fs::read("/proc/config.gz").ok()?)
}

/// The text in a file of gzip's (RFC 1952), as the kernel's build makes it: one member, without a name or another field
/// (kernel/Makefile). Its checksum is not compared: what came through a line would need that, and its tables are 20 KiB.
fn unpacked(file: &[u8]) -> Option<String> {
    /// A configuration is near 200 KiB.
    const LONGEST: usize = 4 << 20;
    const HEADER: usize = 10;
    const TRAILER: usize = 8;
    let [0x1f, 0x8b, 8, 0, ..] = file else { return None };
    let deflated = file.get(HEADER..file.len().checked_sub(TRAILER)?)?;
    String::from_utf8(miniz_oxide::inflate::decompress_to_vec_with_limit(deflated, LONGEST).ok()?).ok()
}

/// The same, from a configuration's text and the kernel's command line (kernel/sched/cputime.c and init/Kconfig say
/// what the options do).
fn irq_by_ticks_in(config: &str, command_line: &str) -> Option<bool> {
    let set = |name: &str| config.lines().any(|line| line.strip_prefix(name) == Some("=y"));
    let told = |start: &str| command_line.split_whitespace().any(|word| word.starts_with(start));
    if set("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE")
        || (set("CONFIG_IRQ_TIME_ACCOUNTING") && !told("tsc=noirqtime"))
        // Built in, it is at work only where CPUs run without a tick.
        || (set("CONFIG_VIRT_CPU_ACCOUNTING_GEN") && told("nohz_full="))
    {
        return Some(false);
    }
    // Kernels before 3.9 have no TICK_CPU_ACCOUNTING; any configuration that was read has one of the others unset.
    (set("CONFIG_TICK_CPU_ACCOUNTING") || config.contains("CONFIG_HZ=")).then_some(true)
}

/// The doubt where [`accounts_irq_by_ticks`] is true; for both ends of the path, as this is where packets are handled.
pub fn doubt_irq_by_ticks() -> Doubt {
    Doubted::IrqTimeByTicks.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX_2_4: &str = "cpu  1034 5 2004 90000\ncpu0 1034 5 2004 90000\npage 5741 1808\nswap 1 0\nintr 1462898\n";
    const LINUX_2_6: &str = "cpu  130 50 220 7000 300 4 60\ncpu0 70 30 120 3500 100 3 40\ncpu1 60 20 100 3500 200 1 20\n\
        intr 114930548 113199788 3\nctxt 1990473\nbtime 1062191376\nprocesses 2915\n";
    const LINUX_6: &str = "cpu  7486 10 4480 295039 584 0 46 23 900 7\ncpu0 3267 4 1761 148772 33 0 15 8 500 4\n\
        cpu3 4219 6 2719 146267 551 2 31 15 400 3\nintr 246528 0\nsoftirq 1 2 3\n";

    #[track_caller]
    fn check(text: &str, cpu: u32, want: [u64; 6], nice: u64) {
        let [user, system, irq, softirq, idle, steal] = want;
        let times = CpuTimes { user, system, irq, softirq, idle, steal };
        assert_eq!(StatReading::parse(text).unwrap().cpus.get(&cpu), Some(&StatTimes { times, nice }));
    }

    #[test]
    fn each_age_of_kernel_is_read() {
        check(LINUX_2_4, 0, [1039, 2004, 0, 0, 90_000, 0], 5);
        check(LINUX_2_6, 1, [80, 100, 1, 20, 3700, 0], 20);
        check(LINUX_6, 3, [4225, 2719, 2, 31, 146_818, 15], 6);
        // A kernel for one CPU that lists none.
        check("cpu  1 2 3 4\n", 0, [3, 3, 0, 0, 4, 0], 2);
    }

    #[test]
    fn a_configuration_is_unpacked() {
        // By gzip -n -9.
        let file = [
            31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 115, 246, 247, 115, 243, 116, 143, 247, 136, 178, 53, 52, 48, 224, 2, 0,
            254, 50, 68, 21, 14, 0, 0, 0,
        ];
        assert_eq!(unpacked(&file).as_deref(), Some("CONFIG_HZ=100\n"));
        for length in 0..file.len() {
            assert_eq!(unpacked(&file[..length]), None, "cut off behind {length} octets");
        }
        // With a name in the header.
        assert_eq!(unpacked(&[&[31, 139, 8, 8], &file[4..]].concat()), None);
    }

    #[test]
    fn garbage_is_left_out() {
        for text in ["", "cpu", "cpu \n", "cpu  1 2 3\n", "cpu  1 2 3 x\n", "cpu0 -1 2 3 4\n", "intr 5 6 7 8\n"] {
            assert_eq!(StatReading::parse(text), None, "{text:?}");
        }
        let max = u64::MAX;
        assert_eq!(StatReading::parse(&format!("cpu0 {max} 0 0 {max}\ncpu1 {max} 1 0 0\n")), None);
        let partly = StatReading::parse("cpu0 1 2 3 4\ncpu1 1 2 three 4\ncpux 1 2 3 4\ncpufreq 1 2 3 4\n").unwrap();
        assert_eq!(partly.cpus.keys().collect::<Vec<_>>(), [&0]);
    }

    #[test]
    fn a_cpu_that_goes_offline_is_left_out_of_the_machine() {
        let before = StatReading::parse("cpu  0 0 0 0\ncpu0 100 0 0 500\ncpu1 900 0 0 0\ncpu2 50 0 0 50\n").unwrap();
        let after = StatReading::parse("cpu  9 9 9 9\ncpu0 130 0 0 570\ncpu2 40 0 0 150\ncpu3 7 7 7 7\n").unwrap();
        let growth = after.since(&before);
        assert_eq!(growth.cpus.keys().collect::<Vec<_>>(), [&0, &2]);
        // CPU 2's user time fell: it grew by nothing, rather than by 2^64.
        assert_eq!(growth.machine(), CpuTimes { user: 30, idle: 170, ..CpuTimes::default() });
        assert_eq!(growth.shares()[&0].busy, 0.3);
    }

    #[test]
    fn the_configuration_tells_how_interrupts_are_timed() {
        let ticks = "CONFIG_HZ=250\nCONFIG_TICK_CPU_ACCOUNTING=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n";
        let precise = "CONFIG_TICK_CPU_ACCOUNTING=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n";
        let full = "CONFIG_VIRT_CPU_ACCOUNTING_GEN=y\nCONFIG_HZ=250\n";
        for (config, command_line, want) in [
            (ticks, "", Some(true)),
            (precise, "quiet", Some(false)),
            (precise, "tsc=noirqtime", Some(true)),
            ("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y\n", "", Some(false)),
            (full, "", Some(true)),
            (full, "nohz_full=1-3", Some(false)),
            ("CONFIG_HZ=100\n", "", Some(true)),
            ("not a configuration", "", None),
        ] {
            assert_eq!(irq_by_ticks_in(config, command_line), want, "{config} {command_line}");
        }
    }

    #[test]
    fn the_kernels_own_configuration_is_understood_where_it_has_one() {
        if fs::exists("/proc/config.gz").unwrap() {
            let text = own_configuration().unwrap();
            assert!(text.contains("\nCONFIG_IKCONFIG_PROC=y\n"));
            let command_line = fs::read_to_string("/proc/cmdline").unwrap();
            println!("this kernel: {:?}", accounts_irq_by_ticks());
            assert_eq!(accounts_irq_by_ticks(), irq_by_ticks_in(&text, &command_line));
        }
    }

    #[test]
    fn a_busy_thread_is_seen() {
        let meter = CpuMeter::start().unwrap();
        let end = monotonic_ns() + 300_000_000;
        while monotonic_ns() < end {}
        let usage = meter.read().unwrap();
        assert!(usage.span_s >= 0.3);
        // One CPU's worth, less what other work on this machine may take from this thread.
        assert!(usage.busy_seconds() > 0.15, "{usage:?}");
        assert!(usage.machine.busy <= 1.0);
    }
}
