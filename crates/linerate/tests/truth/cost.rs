//! CPU use against a thread that is known to spin, service demand against its own arithmetic, and what linerate adds
//! to a trial's time.
//! Knows no traffic.

use std::fs;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use linerate_lab::Shape;
use linerate_results::record::Record;

use super::rig::{Rig, assert_near, flow};

/// Ticks that this machine's CPUs spent neither idle nor stolen, all of them, and the stolen ones (proc_stat(5)).
fn ticks() -> (u64, u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let fields: Vec<u64> =
        text.lines().next().unwrap().split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
    let total: u64 = fields[..8].iter().sum();
    (total - fields[3] - fields[4] - fields[7], total, fields[7])
}

/// This thread's time on a CPU: the first figure of schedstat (Documentation/scheduler/sched-stats.rst).
fn on_cpu_ns() -> u64 {
    fs::read_to_string("/proc/thread-self/schedstat").unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn busy(record: &Record) -> f64 {
    record.target.cpu.as_ref().unwrap().machine.busy
}

#[test]
fn a_thread_that_spins_is_seen() {
    let Some(rig) = Rig::up("a_thread_that_spins", &Shape::unshaped()) else { return };
    let options = [("rate", "5M"), ("duration", "1s")];
    let quiet = rig.trial("udp-stream", &options);
    let stop = AtomicBool::new(false);
    let (spun, of_kernel, share) = std::thread::scope(|scope| {
        let spinner = scope.spawn(|| {
            let (began, before) = (Instant::now(), on_cpu_ns());
            while !stop.load(Ordering::Relaxed) {
                spin_loop();
            }
            (on_cpu_ns() - before) as f64 / began.elapsed().as_nanos() as f64
        });
        let before = ticks();
        let record = rig.trial("udp-stream", &options);
        let after = ticks();
        stop.store(true, Ordering::Relaxed);
        let stolen = (after.2 - before.2) as f64 / (after.1 - before.1) as f64;
        let cpus = record.target.cpu.as_ref().unwrap().per_cpu.len() as f64;
        // A thread's own time holds what the hypervisor took from it.
        let share = spinner.join().unwrap() - stolen * cpus;
        (record, (after.0 - before.0) as f64 / (after.1 - before.1) as f64, share)
    });
    let cpus = spun.target.cpu.as_ref().unwrap().per_cpu.len() as f64;
    println!(
        "busy {:.3}, with a thread that spun for {share:.3} of the time {:.3}; /proc/stat says {of_kernel:.3}",
        busy(&quiet),
        busy(&spun)
    );
    // What one thread got is there, whatever else runs.
    assert!(busy(&spun) > 0.8 * share / cpus, "{}", busy(&spun));
    if busy(&quiet) < 0.3 {
        assert!(busy(&spun) >= busy(&quiet) + 0.7 * share / cpus, "{} after {}", busy(&spun), busy(&quiet));
    }
    // The whole run of the program, its start included, cannot be far from its second of trial.
    assert!((busy(&spun) - of_kernel).abs() < 0.25, "{} and {of_kernel}", busy(&spun));
    let machine = spun.target.cpu.as_ref().unwrap();
    let mean = machine.per_cpu.iter().map(|cpu| cpu.busy).sum::<f64>() / cpus;
    assert!((mean - machine.machine.busy).abs() < 0.05, "the CPUs are {mean}, the machine {}", machine.machine.busy);
}

#[test]
fn service_demand_is_cpu_time_by_work() {
    let Some(rig) = Rig::up("service_demand", &Shape::unshaped()) else { return };
    for (workload, options) in [
        // As much as goes through: below ten clock ticks there is no service demand.
        ("udp-stream", vec![("duration", "1s")]),
        ("tcp-stream", vec![("duration", "1s")]),
        ("tcp-rr", vec![("duration", "1s")]),
    ] {
        let record = rig.trial(workload, &options);
        let figures = record.result.as_ref().unwrap();
        let told = figures.service_demand.as_ref().unwrap();
        for (machine, us_per_kib, us_per_packet) in [
            (&record.target, told.target_us_per_kib, told.target_us_per_packet),
            (&record.host, told.host_us_per_kib, told.host_us_per_packet),
        ] {
            let cpu = machine.cpu.as_ref().unwrap();
            let us = cpu.machine.busy * cpu.per_cpu.len() as f64 * cpu.span_s * 1e6;
            match flow(&record).octets {
                Some(octets) => assert_near("µs/KiB", us_per_kib.unwrap(), us / (octets as f64 / 1024.0), 0.001),
                None => assert_eq!(us_per_kib, None),
            }
            let packets = match workload {
                "udp-stream" if machine.endpoint == record.host.endpoint => flow(&record).packets_sent,
                "udp-stream" => flow(&record).packets_received,
                "tcp-rr" => Some((figures.transactions_per_s.unwrap() * record.duration_s.unwrap()).round() as u64),
                // Of the kernel's segments there is the sender's count only.
                _ if machine.endpoint == record.host.endpoint => figures.flow.tcp.as_ref().unwrap().segments_sent,
                _ => None,
            };
            if let Some(packets) = packets {
                assert_near("µs/packet", us_per_packet.unwrap(), us / packets as f64, 0.03);
            }
        }
    }
}

/// The bound of a timed figure on a busy machine is generous; `cargo xtask bench overhead` measures it.
#[test]
fn little_is_added_to_a_trial() {
    const TRIALS: u32 = 20;
    let Some(rig) = Rig::up("little_is_added", &Shape::unshaped()) else { return };
    let began = Instant::now();
    let repeat = TRIALS.to_string();
    let options = [("duration", "150ms"), ("warmup", "50ms"), ("rate", "10M")];
    let records = rig.run("udp-stream", &options, &["--repeat", &repeat]);
    let added = began.elapsed().as_secs_f64() / f64::from(TRIALS) - 0.2;
    println!("linerate adds {:.0} ms to each of {TRIALS} trials, its own start included", added * 1e3);
    assert_eq!(records.len(), TRIALS as usize);
    assert!(added < 1.0, "{added} s");
}
