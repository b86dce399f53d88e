//! What a fleet in virtual time costs, by its size: a line of JSON for each. `cargo xtask bench work` starts it.

#[path = "../tests/fleet/mod.rs"]
mod world;

use std::time::Instant;

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

fn main() {
    let largest: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    for jobs in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|jobs| *jobs <= largest) {
        let (benches, workers) = ((jobs / 100).clamp(10, 10_000), (jobs / 1000).clamp(4, 1000));
        let (faults, trials, trial_ms) = (jobs / 50, 4, 5000);
        let size = Shape { seed: 1, benches, workers, jobs, trials, trial_ms, faults, ..GUARDED };
        let began = Instant::now();
        let report = run(size);
        assert_eq!((report.stored_twice, report.overlaps), (0, 0), "{report:?}");
        println!(
            "{{\"jobs\":{jobs},\"benches\":{benches},\"workers\":{workers},\"faults\":{},\"done\":{},\"dead\":{},\"cancelled\":{},\
             \"virtual_s\":{},\"steps\":{},\"seconds\":{:.2}}}",
            report.faults,
            report.done,
            report.dead,
            report.cancelled,
            report.virtual_ms / 1000,
            report.steps,
            began.elapsed().as_secs_f64()
        );
    }
}
