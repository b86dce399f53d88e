//! What a fleet in virtual time costs, by its size: a line of JSON for each. `cargo xtask bench work` starts it.

#[path = "../tests/fleet/mod.rs"]
mod world;

use world::{Shape, run};

/// What is the same at every size.
const GUARDED: Shape = Shape {
    seed: 1,
    benches: 0,
    workers: 0,
    jobs: 0,
    trials: 0,
    trial_ms: 0,
    faults: 0,
    only_freezes: false,
    peace_ms: 60_000,
    is_fenced: true,
    is_guarded: true,
};

/// Time on a CPU so far, seconds: what runs beside it is not in it (proc_pid_schedstat, the first number).
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a kernel with schedstat");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn main() {
    let largest: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    for jobs in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|jobs| *jobs <= largest) {
        let (benches, workers) = ((jobs / 100).clamp(10, 10_000), (jobs / 1000).clamp(4, 1000));
        let (faults, trials, trial_ms) = (jobs / 50, 4, 5000);
        let size = Shape { seed: 1, benches, workers, jobs, trials, trial_ms, faults, ..GUARDED };
        let began_s = cpu_s();
        let report = run(size);
        assert_eq!((report.stored_twice, report.overlaps), (0, 0), "{report:?}");
        println!(
            "{{\"jobs\":{jobs},\"benches\":{benches},\"workers\":{workers},\"faults\":{},\"done\":{},\"dead\":{},\"cancelled\":{},\
             \"virtual_s\":{},\"steps\":{},\"cpu_s\":{:.2}}}",
            report.faults,
            report.done,
            report.dead,
            report.cancelled,
            report.virtual_ms / 1000,
            report.steps,
            cpu_s() - began_s
        );
    }
}
