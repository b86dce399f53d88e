//! Soaking against threads of known duty. Alone in its file, so that no other test of this crate runs beside it.
//! Knows no internals of the soak; what else the machine does meanwhile it reads from the kernel's account.

use std::thread;
use std::time::Duration;

use linerate_host::soak::Soak;
use linerate_host::sys::thread::{allowed_cpus, monotonic_ns, sleep_until_ns};

/// CPUs' worth that soaking, and the kernel, find busy while `threads` spin for `duty` of each 10 ms.
fn measure(soak: &Soak, threads: usize, duty: f64) -> (f64, f64, bool) {
    const PERIOD_NS: u64 = 10_000_000;
    let start = monotonic_ns();
    let end = start + 100 * PERIOD_NS;
    let mark = soak.mark().unwrap();
    let spin = move || {
        for period in (start..end).step_by(PERIOD_NS as usize) {
            sleep_until_ns(period);
            while monotonic_ns() < period + (duty * PERIOD_NS as f64) as u64 {}
        }
    };
    let spinning: Vec<_> = (0..threads).map(|_| thread::spawn(spin)).collect();
    sleep_until_ns(end);
    let reading = soak.read(&mark).unwrap();
    spinning.into_iter().for_each(|thread| thread.join().unwrap());
    let (machine, cpus) = (reading.usage.machine, reading.usage.per_cpu.len() as f64);
    assert_eq!(reading.usage.method, "soak");
    assert_eq!(reading.usage.per_cpu.len(), allowed_cpus().unwrap().len());
    let kernel = (machine.user + machine.system + machine.irq + machine.softirq) * cpus;
    println!(
        "{threads} threads of duty {duty}: soak {:.3}, kernel {kernel:.3}; {:?}",
        machine.busy * cpus,
        reading.doubts
    );
    (machine.busy * cpus, kernel, reading.doubts.is_empty())
}

#[test]
fn soaking_finds_what_threads_of_known_duty_take() {
    // The machine may have other work to do: a trusted round is awaited for a while, and the bounds are generous. Only
    // a lower bound holds when others work too, so the kernel's account (of which the soakers are no part) is the upper.
    for attempt in 0.. {
        let soak = Soak::start().unwrap();
        let rounds = [(0, 0.0), (1, 1.0), (1, 0.5)].map(|(threads, duty)| {
            let (soaked, kernel, trusted) = measure(&soak, threads, duty);
            let known = threads as f64 * duty;
            (trusted, soaked > known - 0.25 && soaked < known.max(kernel) + 0.35)
        });
        if rounds.iter().all(|(_, within)| *within) {
            return;
        }
        assert!(rounds.iter().any(|(trusted, _)| !trusted), "wrong, and without a doubt");
        if attempt == 4 {
            println!("the machine was never idle enough to calibrate, and each reading said so");
            return;
        }
        thread::sleep(Duration::from_millis(300));
    }
}
