//! A thread's time on CPUs and in their queues, from the schedstat of /proc, kept open.
//! Knows no trials.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The thread's file.
pub(crate) struct SchedStat(File);

/// Since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scheduled {
    /// It ran for so long, nanoseconds.
    pub(crate) run_ns: u64,
    /// It could have run and had no CPU, nanoseconds.
    pub(crate) delay_ns: u64,
}

impl SchedStat {
    /// Of the thread whose file this is.
    pub(crate) fn new(file: File) -> SchedStat {
        SchedStat(file)
    }

    /// The calling thread's.
    pub(crate) fn own() -> Option<SchedStat> {
        File::open("/proc/thread-self/schedstat").ok().map(SchedStat)
    }

    /// Now; `None` once the thread has ended, and of kernels that do not tell.
    pub(crate) fn read(&self) -> Option<Scheduled> {
        let mut octets = [0; 80];
        let len = self.0.read_at(&mut octets, 0).ok()?;
        parse(&octets[..len])
    }
}

/// Time on a CPU, time in its queue, and how often (Documentation/scheduler/sched-stats.rst). A kernel without
/// CONFIG_SCHED_INFO shows three zeros; a thread that is there has run.
fn parse(text: &[u8]) -> Option<Scheduled> {
    let text = std::str::from_utf8(text).ok()?;
    let mut figures = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let (run_ns, delay_ns) = (figures.next()??, figures.next()??);
    (run_ns > 0).then_some(Scheduled { run_ns, delay_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_seen_by_another_and_gone_when_it_ends() {
        assert_eq!(parse(b"339922 199943 1\n"), Some(Scheduled { run_ns: 339_922, delay_ns: 199_943 }));
        for nothing in [&b""[..], b"0 0 0\n", b"7\n", b"x 1 2", &[0xff]] {
            assert_eq!(parse(nothing), None);
        }
        let Some(own) = SchedStat::own() else { return };
        let now = crate::sys::thread::monotonic_ns;
        // A thread that has just begun has no time yet, for all that the scheduler has written down.
        let patience = now() + 1_000_000_000;
        while own.read().is_none() && now() < patience {}
        let (before, end) = (own.read().unwrap(), now() + 50_000_000);
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| own.read().unwrap()).join().unwrap();
            assert!(seen.run_ns >= before.run_ns);
        });
        while now() < end {}
        assert!(own.read().unwrap().run_ns > before.run_ns);
        let ended = std::thread::spawn(SchedStat::own).join().unwrap().unwrap();
        assert_eq!(ended.read(), None);
    }
}
