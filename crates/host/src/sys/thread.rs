//! What a thread asks of the scheduler and the clock: CPUs, priority, sleep, its own use of time.

use std::io;

use linerate_machine::setting::Scheduling;
use linerate_trial::outcome::ThreadUse;

/// The CPUs that this thread may run on, rising (sched_getaffinity(2)).
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let mut mask = CpuMask::default();
    // SAFETY: the kernel writes at most the given number of octets into the mask, which is that long and lives on.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<CpuMask>(), (&raw mut mask).cast()) };
    check(result)?;
    Ok((0..MAX_CPUS).filter(|&cpu| mask.0[word_of(cpu)] & bit_of(cpu) != 0).collect())
}

/// Keeps this thread on one CPU from now on (sched_setaffinity(2)). Refused where the CPU is offline, or not
/// given to this process.
pub fn pin_to_cpu(cpu: u32) -> io::Result<()> {
    if cpu >= MAX_CPUS {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut mask = CpuMask::default();
    mask.0[word_of(cpu)] = bit_of(cpu);
    // SAFETY: the kernel reads at most the given number of octets from the mask, which is that long.
    check(unsafe { libc::sched_setaffinity(0, size_of::<CpuMask>(), (&raw const mask).cast()) })
}

/// Gives this thread the lowest priority there is: nice 19, and SCHED_IDLE (sched(7)), "for running very low
/// priority background jobs", where the kernel has it (2.6.23). Needs no privilege; there is no way back without.
///
/// Nice 19 as well as SCHED_IDLE, because the kernel accounts a thread's time as niced by its nice value alone.
pub fn lowest_priority() -> io::Result<LowestPriority> {
    // SAFETY: takes numbers only. On Linux `who` 0 is the calling thread, not the process (setpriority(2), notes).
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, 19) })?;
    let priority: libc::c_int = 0;
    // The system call itself, because musl's sched_setscheduler always refuses: POSIX wants it for processes.
    // SAFETY: the kernel reads its struct sched_param, which is one int, from a live int.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority) };
    Ok(if result == 0 { LowestPriority::Idle } else { LowestPriority::Nice })
}

/// Schedules this thread so from now on (sched_setscheduler(2), setpriority(2)). More than others have wants
/// CAP_SYS_NICE.
pub fn set_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let (class, priority, nice) = match scheduling {
        Scheduling::Other { nice } => (libc::SCHED_OTHER, 0, Some(nice)),
        Scheduling::Fifo(priority) => (libc::SCHED_FIFO, priority, None),
        Scheduling::RoundRobin(priority) => (libc::SCHED_RR, priority, None),
    };
    let priority = libc::c_int::from(priority);
    // The system call itself, for musl's sake as above. Thread 0 is the calling one.
    // SAFETY: the kernel reads its struct sched_param, which is one int, from a live int.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, class, &raw const priority) };
    check(result as libc::c_int)?;
    match nice {
        // SAFETY: takes numbers only.
        Some(nice) => check(unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, nice.into()) }),
        None => Ok(()),
    }
}

/// How this thread is scheduled (sched_getscheduler(2), sched_getparam(2), getpriority(2)).
pub fn scheduling() -> io::Result<Scheduling> {
    // SAFETY: takes numbers only.
    let class = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as libc::c_int;
    check(class)?;
    let mut priority: libc::c_int = 0;
    // SAFETY: the kernel writes its struct sched_param, which is one int, into a live int.
    check(unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) } as libc::c_int)?;
    let priority = u8::try_from(priority).unwrap_or(0);
    match class {
        libc::SCHED_FIFO => Ok(Scheduling::Fifo(priority)),
        libc::SCHED_RR => Ok(Scheduling::RoundRobin(priority)),
        _ => {
            // The system call tells 20 less the nice value, so that -1 is an error alone (getpriority(2), "C
            // library/kernel differences").
            // SAFETY: takes numbers only.
            let told = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS as libc::c_long, 0) };
            check(told as libc::c_int)?;
            Ok(Scheduling::Other { nice: i8::try_from(20 - told).unwrap_or(0) })
        }
    }
}

/// What [`lowest_priority`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowestPriority {
    /// SCHED_IDLE: runs when nobody else wants to, all but a 340th of a CPU.
    Idle,
    /// Nice 19 only: takes up to 1.5 % of a CPU from others that want all of it.
    Nice,
}

/// How late the kernel may wake this thread so as to wake others with it (prctl(2), PR_SET_TIMERSLACK; 50 µs
/// unless told). 1 is the least; 0 means the default.
pub fn set_timer_slack_ns(slack_ns: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns as libc::c_ulong) })
}

/// Whether a child of this process has ended. It is not reaped (waitid(2), WNOWAIT), so its number, and that of its
/// group, stay its own.
pub fn has_ended(child: u32) -> io::Result<bool> {
    // SAFETY: a struct of integers and unions of them, for which all zeroes is a value.
    let mut status: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills the struct, which lives on.
    check(unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &raw mut status, options) })?;
    // Nothing to tell leaves it zero.
    Ok(status.si_signo != 0)
}

/// Ends a process group, such as that of a command with what it started (kill(2)). `leader` must be a child of this
/// process that made its own group.
pub fn kill_group(leader: u32) -> io::Result<()> {
    // kill(2) takes 0 and -1 for many processes that are none of ours.
    let leader = libc::pid_t::try_from(leader).ok().filter(|&leader| leader > 1);
    let leader = leader.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(-leader, libc::SIGKILL) })
}

/// What this thread has used so far (getrusage(2), RUSAGE_THREAD); nothing where the kernel is older than 2.6.26.
pub fn thread_use() -> ThreadUse {
    // SAFETY: a struct of integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the struct, which lives on. A refusal leaves it zero.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD as _, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    ThreadUse {
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        major_faults: usage.ru_majflt as u64,
        minor_faults: usage.ru_minflt as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        run_delay_s: run_delay_s(),
    }
}

/// How long this thread has waited for a CPU while it could have run: the second figure of schedstat
/// (Documentation/scheduler/sched-stats.rst, nanoseconds). Linux has the path since 3.17.
fn run_delay_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut figures = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (ran_ns, waited_ns) = (figures.next()??, figures.next()??);
    // A kernel without CONFIG_SCHED_INFO shows three zeros; a thread that asks has run.
    (ran_ns > 0).then_some(waited_ns as f64 / 1e9)
}

/// The monotonic clock, which nobody steps: nanoseconds since some moment (clock_gettime(2), CLOCK_MONOTONIC).
#[inline]
pub fn monotonic_ns() -> u64 {
    // SAFETY: a struct of integers, for which all zeroes is a value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the struct, which lives on. This clock always exists, so there is no failure to handle.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// Sleeps until [`monotonic_ns`] is `until_ns`; not at all when it is past (clock_nanosleep(2), TIMER_ABSTIME, so that
/// a signal or a preemption on the way does not add up).
pub fn sleep_until_ns(until_ns: u64) {
    // SAFETY: a struct of integers, for which all zeroes is a value. It has padding on some 32-bit targets.
    let mut until: libc::timespec = unsafe { std::mem::zeroed() };
    until.tv_sec = (until_ns / NS_PER_S) as _;
    until.tv_nsec = (until_ns % NS_PER_S) as _;
    loop {
        // SAFETY: the kernel reads a live struct; with TIMER_ABSTIME it writes no remaining time, so null is allowed.
        let error = unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
        };
        if error != libc::EINTR {
            return;
        }
    }
}

/// The most CPUs that a mask speaks of: NR_CPUS of the largest kernels. The kernel refuses a shorter mask than its own.
const MAX_CPUS: u32 = 8192;
const WORD_BITS: u32 = libc::c_ulong::BITS;
const NS_PER_S: u64 = 1_000_000_000;

/// As the kernel has it: an array of long, the lowest bit of the first for CPU 0, whatever the order of octets.
#[repr(C)]
struct CpuMask([libc::c_ulong; (MAX_CPUS / WORD_BITS) as usize]);

impl Default for CpuMask {
    fn default() -> Self {
        CpuMask([0; (MAX_CPUS / WORD_BITS) as usize])
    }
}

fn word_of(cpu: u32) -> usize {
    (cpu / WORD_BITS) as usize
}

fn bit_of(cpu: u32) -> libc::c_ulong {
    1 << (cpu % WORD_BITS)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_pinned_thread_has_one_cpu() {
        let all = allowed_cpus().unwrap();
        let last = *all.last().unwrap();
        let now = thread::spawn(move || pin_to_cpu(last).and_then(|()| allowed_cpus())).join().unwrap();
        assert_eq!(now.unwrap(), [last]);
        assert_eq!(allowed_cpus().unwrap(), all, "only the one thread was pinned");
        assert!(pin_to_cpu(MAX_CPUS - 1).is_err());
        assert!(pin_to_cpu(u32::MAX).is_err());
    }

    #[test]
    fn the_lowest_priority_needs_no_privilege() {
        let lowest = thread::spawn(lowest_priority).join().unwrap();
        assert_eq!(lowest.unwrap(), LowestPriority::Idle);
    }

    #[test]
    fn sleep_ends_after_its_time_and_a_past_time_is_no_sleep() {
        set_timer_slack_ns(1).unwrap();
        let start = monotonic_ns();
        sleep_until_ns(start + 5_000_000);
        let woke = monotonic_ns();
        assert!(woke >= start + 5_000_000);
        sleep_until_ns(start);
        assert!(monotonic_ns() - woke < 1_000_000_000);
    }

    #[test]
    fn a_busy_thread_uses_time_of_its_own() {
        let before = thread_use();
        let end = monotonic_ns() + 50_000_000;
        while monotonic_ns() < end {}
        let after = thread_use();
        assert!(after.user_s + after.system_s > before.user_s + before.system_s);
    }

    #[test]
    fn a_thread_that_shares_its_cpu_waits_for_it() {
        let cpu = allowed_cpus().unwrap()[0];
        let busy = move || {
            pin_to_cpu(cpu).unwrap();
            let end = monotonic_ns() + 200_000_000;
            while monotonic_ns() < end {}
            thread_use().run_delay_s
        };
        let delays = [thread::spawn(busy), thread::spawn(busy)].map(|thread| thread.join().unwrap());
        // A kernel that does not tell says nothing rather than 0.
        if let [Some(one), Some(other)] = delays {
            assert!(one + other > 0.1, "of 0.2 s each has half: {delays:?}");
        }
    }
}
