//! The scheduling class and priority of the threads that receive.
//! Knows no traffic; threads end with their trial, so there is nothing to put back.

use std::io;
use std::thread;

use linerate_machine::setting::Scheduling;

use crate::sys::thread as kernel;
use crate::text_of;

/// How this agent's threads are scheduled unless told otherwise: as the calling one.
pub fn usual() -> Result<Scheduling, String> {
    kernel::scheduling().map_err(|error| format!("it cannot be read: {}", text_of(&error)))
}

/// What a receiving thread would get: the kernel is asked for it, for a thread that does nothing else. The error is half
/// a sentence that ends in what to try.
pub fn try_out(wanted: Scheduling) -> Result<Scheduling, String> {
    let trial = thread::Builder::new().stack_size(64 << 10).spawn(move || apply(wanted));
    let trial = trial.map_err(|error| format!("no thread could be started ({}); try again", text_of(&error)))?;
    trial.join().unwrap_or_else(|_| Err("the thread that tried it died; try again".to_owned()))
}

/// Schedules this thread so, and reads back what became of it.
pub(crate) fn apply(wanted: Scheduling) -> Result<Scheduling, String> {
    kernel::set_scheduling(wanted).map_err(|error| refusal(wanted, &error))?;
    kernel::scheduling().map_err(|error| format!("it cannot be read back: {}", text_of(&error)))
}

/// Whether threads of this class could keep everything else from running, the agent and its watchdog with it: as many
/// of them as there are CPUs, on a machine that lets them. The error is half a sentence.
pub(crate) fn bearable(wanted: Scheduling, threads: usize) -> Result<(), String> {
    let runtime = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
    let cpus = kernel::allowed_cpus().map_or(1, |cpus| cpus.len());
    bearable_with(wanted, threads, cpus, runtime.trim())
}

/// sched(7), "Limiting the CPU usage of real-time and deadline processes": of each second, real-time threads have
/// `sched_rt_runtime_us`; -1 is all of it.
fn bearable_with(wanted: Scheduling, threads: usize, cpus: usize, runtime: &str) -> Result<(), String> {
    if wanted.is_real_time() && threads >= cpus && runtime == "-1" {
        return Err(format!(
            "{threads} real-time threads could take all {cpus} CPUs for themselves, since kernel.sched_rt_runtime_us is \
             -1; set it to 950000"
        ));
    }
    Ok(())
}

fn refusal(wanted: Scheduling, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if wanted.is_real_time() => format!(
            "real-time scheduling is not allowed here ({}): it wants CAP_SYS_NICE or RLIMIT_RTPRIO, and a control group \
             with a share of it (cpu.rt_runtime_us); run the agent as root",
            text_of(error)
        ),
        Some(libc::EPERM | libc::EACCES) => {
            format!("it wants CAP_SYS_NICE ({}); run the agent as root", text_of(error))
        }
        _ => format!("{}; choose another", text_of(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_what_it_asks_for_or_hears_why_not() {
        let before = usual().unwrap();
        for wanted in [
            Scheduling::Other { nice: 0 },
            Scheduling::Other { nice: 5 },
            Scheduling::Other { nice: -5 },
            Scheduling::Fifo(10),
            Scheduling::RoundRobin(5),
        ] {
            match try_out(wanted) {
                Ok(got) => assert_eq!(got, wanted),
                Err(sentence) => {
                    // To be nicer needs no right.
                    assert!(sentence.contains("CAP_SYS_NICE") && wanted != Scheduling::Other { nice: 5 }, "{sentence}");
                    eprintln!("SKIPPED {wanted}: {sentence}");
                }
            }
        }
        assert_eq!(usual().unwrap(), before, "only the one thread was changed");
    }

    #[test]
    fn threads_that_could_lock_a_machine_up_are_refused() {
        let fifo = Scheduling::Fifo(1);
        let refused = |wanted, threads, cpus, runtime| bearable_with(wanted, threads, cpus, runtime).is_err();
        assert!(
            refused(fifo, 1, 1, "-1") && refused(fifo, 4, 4, "-1") && refused(Scheduling::RoundRobin(1), 1, 1, "-1")
        );
        assert!(!refused(fifo, 1, 1, "950000") && !refused(fifo, 1, 2, "-1") && !refused(fifo, 1, 1, ""));
        assert!(!refused(Scheduling::Other { nice: -20 }, 9, 1, "-1"));
    }
}
