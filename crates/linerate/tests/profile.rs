//! What CPUs did, by the real program on this machine's kernel: in a trial, and at any time.
//! Knows no figures but that a stream copies and that all of the time is accounted for.

mod machines;

use std::time::Duration;

use linerate_lab::Shape;
use linerate_results::profile::Category;
use machines::{Bench, Running};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Whether this kernel lets root sample it; where not, a line that says so.
fn has_perf(name: &str) -> bool {
    let there = paranoid().is_some();
    if !there {
        eprintln!("SKIPPED {name}: this kernel has no perf events");
    }
    there
}

#[test]
fn a_profiled_stream_copies_and_all_of_the_time_is_told() {
    let name = "a_profiled_stream_copies";
    if !has_perf(name) {
        return;
    }
    let Some(bench) = Bench::of(name, &Shape::unshaped()) else { return };
    let set = ["--set", "duration=1s", "--set", "warmup=0s", "--set", "profile=999"];
    bench.run("tcp-stream", &set, LONG).check_done();
    let record = bench.records().pop().expect("a record");
    let Some(profile) = &record.target.profile else {
        return eprintln!("SKIPPED {name}: this machine refuses: {:?}", record.doubts);
    };
    assert_eq!(profile.taken.hz, 999);
    assert!(record.host.profile.is_none(), "one machine was sampled twice");
    assert!(profile.taken.samples > 100, "{:?}", profile.categories);
    for category in [Category::Copy, Category::Protocol] {
        let time = profile.of(category).unwrap_or_else(|| panic!("no {category:?} in {:?}", profile.categories));
        assert!(time.samples > 0 && time.us_per_packet.is_some_and(|us| us > 0.0), "{time:?}");
    }
    let whole: f64 = profile.categories.iter().filter_map(|one| one.share).sum();
    assert!((whole - 1.0).abs() < 1e-6, "{whole}: {:?}", profile.categories);

    let shown = Running::start(bench.linerate(&["records", "profile", "--end", "target"])).wait(LONG);
    shown.check_done();
    assert!(["copy", "protocol", "100.0"].iter().all(|kind| shown.stdout.contains(kind)), "{}", shown.stdout);
}

#[test]
fn this_machine_is_profiled_for_a_second() {
    let name = "this_machine_is_profiled";
    let bench = Bench::of(name, &Shape::unshaped());
    let Some(bench) = bench.filter(|_| has_perf(name)) else { return };
    let picture = bench.folder.path("machine.svg");
    let command = bench.linerate(&["target", "local", "profile", "1", "--json", "--svg", &picture]);
    let ran = Running::start(command).wait(LONG);
    ran.check_done();
    let profile: Value = serde_json::from_str(&ran.stdout).expect("one JSON object");
    assert_eq!(profile["scope"], "machine", "{}", ran.stdout);
    let shares =
        profile["categories"].as_array().expect("kinds of work").iter().filter_map(|one| one["share"].as_f64());
    let whole: f64 = shares.sum();
    assert!((whole - 1.0).abs() < 1e-6, "{whole}");
    assert!(std::fs::read_to_string(&picture).unwrap().contains("<svg"));
}
