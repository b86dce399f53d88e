//! What goes wrong in the field, done for real: each fault ends in time, in a sentence, and leaves nothing behind.
//! Knows no figures of the measurement.

mod machines;

use std::time::{Duration, Instant};

use machines::{Bench, Ran, Running, signal};

/// Every fault is told within this time.
const IN_TIME: Duration = Duration::from_secs(10);

/// A trial that finishes, and a long one in which the fault comes.
const SHORT_AND_LONG: [&str; 4] = ["--set", "duration=300ms,30s", "--set", "warmup=0s"];

/// Runs one finished trial and half of another, does the fault, and sees that the program ends in time in a
/// sentence with these parts, keeps what was finished, and leaves nothing behind.
#[track_caller]
fn check(bench: &mut Bench, plan: &str, more: &[&str], fault: impl FnOnce(&mut Bench), parts: &[&str]) -> Ran {
    let running = begin(bench, plan, more);
    let began = Instant::now();
    fault(bench);
    let ran = running.wait(IN_TIME);
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    ran.check_sentence(parts);
    bench.check_nothing_runs(Duration::from_millis(500));
    bench.lab_mut().set_carrier(true).unwrap();
    bench.check_quiet();
    assert_eq!(bench.finished(), 1, "{:#?}", bench.records());
    ran
}

/// Starts a campaign and waits until it is in the midst of its second trial.
#[track_caller]
fn begin(bench: &Bench, plan: &str, more: &[&str]) -> Running {
    let mut arguments = SHORT_AND_LONG.to_vec();
    arguments.extend(more);
    let running = Running::start(bench.run_command(plan, &arguments));
    bench.wait_until("the first trial ends", Duration::from_secs(20), || bench.finished() == 1);
    bench.wait_for_traffic(500);
    running
}

#[test]
fn the_target_s_agent_is_killed() {
    let Some(mut bench) = Bench::new("target-killed") else { return };
    let kill = |bench: &mut Bench| signal(bench.agent_of(&bench.lab().target_netns()), "KILL");
    check(
        &mut bench,
        "tcp-stream",
        &[],
        kill,
        &["the target (netns:", "was lost", "SIGKILL", "1 trial", "start again"],
    );
}

#[test]
fn the_host_s_agent_is_killed() {
    let Some(mut bench) = Bench::new("host-killed") else { return };
    let kill = |bench: &mut Bench| signal(bench.agent_of(&bench.lab().host_netns()), "KILL");
    check(&mut bench, "udp-stream", &["--set", "rate=50M"], kill, &["the host (netns:", "was lost", "SIGKILL"]);
}
