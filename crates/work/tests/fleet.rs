//! Many benches, workers and campaigns in virtual time, with faults by a seed; a few here, a million by `cargo xtask bench work`.

#[path = "fleet/mod.rs"]
mod world;

use world::{Report, Shape, run};

const SMALL: Shape = Shape {
    seed: 1,
    benches: 24,
    workers: 8,
    jobs: 240,
    trials: 6,
    trial_ms: 4000,
    faults: 0,
    only_freezes: false,
    peace_ms: 0,
    is_fenced: true,
    is_guarded: true,
};

/// So many worlds with faults; `LINERATE_FLEETS` says how many more.
fn worlds() -> u64 {
    std::env::var("LINERATE_FLEETS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

fn check(report: Report, shape: Shape) {
    assert_eq!((report.stored_twice, report.overlaps), (0, 0), "seed {}: {report:?}", shape.seed);
    assert_eq!(report.done + report.dead + report.cancelled, shape.jobs, "seed {}: {report:?}", shape.seed);
}

#[test]
fn without_faults_every_job_is_done_once() {
    let report = run(SMALL);
    check(report, SMALL);
    assert_eq!(report.done, SMALL.jobs, "{report:?}");
}

#[test]
fn with_faults_no_trial_is_lost_or_stored_twice() {
    let (mut done, mut faults) = (0, 0);
    for seed in 0..worlds() {
        let shape = Shape { seed, faults: 60, ..SMALL };
        println!("seed {seed}");
        let report = run(shape);
        check(report, shape);
        (done, faults) = (done + report.done, faults + report.faults);
    }
    println!("{done} jobs done under {faults} faults");
    assert!(done as u64 > worlds() * SMALL.jobs as u64 * 8 / 10, "{done}");
}

/// Each guard is needed: without both, what must not happen does; and the fence alone prevents it.
#[test]
fn a_controller_that_wakes_up_late_is_refused() {
    let worlds = |is_fenced| {
        let of_seed = |seed| run(Shape { seed, faults: 60, only_freezes: true, is_fenced, is_guarded: false, ..SMALL });
        (0..6).map(of_seed).collect::<Vec<Report>>()
    };
    let bad = |all: &[Report]| all.iter().map(|one| one.stored_twice + one.overlaps).sum::<usize>();
    let (with, without) = (worlds(true), worlds(false));
    assert_eq!(bad(&with), 0, "{with:?}");
    assert!(with.iter().any(|one| one.refused_by_fence > 0), "nobody woke up late: {with:?}");
    assert!(bad(&without) > 0, "without a fence nothing bad happened, so this shows nothing");
}
