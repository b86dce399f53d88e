//! What is kept when a campaign is broken off: by kill -9, by Ctrl-C, by a full disk; and clocks that step meanwhile.
//! Knows how records are stored only through the store itself.

mod machines;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linerate_results::store::Store;
use machines::{Bench, Running, records_in};

const LONG: Duration = Duration::from_secs(60);

/// Trials of a tenth of a second: so many that a machine which is slow to send a signal does not come to their end.
const TWELVE: [&str; 8] = ["--set", "duration=100ms", "--set", "warmup=0s", "--set", "rate=20M", "--repeat", "12"];

/// The numbers of the trials in the store that have figures.
fn indices(bench: &Bench) -> Vec<u32> {
    let records = bench.records();
    records.iter().filter(|record| record.error.is_none()).map(|record| record.trial.index).collect()
}

#[track_caller]
fn check_broken_off(name: &str, end: &str) {
    let Some(bench) = Bench::new(name) else { return };
    let mut before = 0;
    // Again and again, each time a little later in a trial, until nothing is left to carry on.
    for round in 0..4 {
        let mut arguments = TWELVE.to_vec();
        if round > 0 {
            arguments = vec!["--resume"];
        }
        let running = Running::start(bench.run_command("udp-stream", &arguments));
        bench.wait_until("one more trial ends", LONG, || bench.finished() > before);
        std::thread::sleep(Duration::from_millis(70 * round));
        running.signal(end);
        let status = running.wait(Duration::from_secs(10)).status;
        assert_ne!(status.code(), Some(0), "round {round}");
        bench.check_nothing_runs(Duration::from_secs(3));
        let store = Store::open(&bench.store_path()).expect("the store opens");
        assert_eq!(store.latest_campaign().unwrap().unwrap().finished_at, None);
        before = bench.finished();
        assert!(before > round as usize && before < 12, "{before} after round {round}");
        if before == 11 {
            break;
        }
    }
    let kept = bench.records();
    bench.run("udp-stream", &["--resume"], LONG).check_done();
    assert_eq!(indices(&bench), Vec::from_iter(0..12), "each trial once, in order");
    assert_eq!(bench.records()[..kept.len()], kept, "what was finished is as it was");
    let store = Store::open(&bench.store_path()).unwrap();
    assert!(store.latest_campaign().unwrap().unwrap().finished_at.is_some());
    bench.run("udp-stream", &["--resume"], LONG).check_sentence(&["no unfinished campaign"]);
}

/// As by a bad sector.
#[test]
fn a_damaged_record_is_told_and_its_trial_measured_again() {
    let Some(bench) = Bench::new("damaged-record") else { return };
    let running = Running::start(bench.run_command("udp-stream", &TWELVE));
    bench.wait_until("two trials end", LONG, || bench.finished() >= 2);
    running.signal("INT");
    running.wait(Duration::from_secs(10));
    let bad = &bench.records()[1].id;
    let change =
        format!("DROP TRIGGER records_are_never_changed; UPDATE records SET packed = x'00' WHERE id = '{bad}'");
    rusqlite::Connection::open(bench.store_path()).unwrap().execute_batch(&change).unwrap();
    let ran = bench.run("udp-stream", &["--resume"], LONG);
    let told: Vec<&str> = ran.check_done().stderr.lines().filter(|line| line.contains(bad)).collect();
    assert_eq!(told.len(), 1, "{}", ran.stderr);
    assert!(told[0].contains("cannot be read") && told[0].ends_with("its trial counts as not measured"), "{told:?}");
    let store = Store::open(&bench.store_path()).unwrap();
    let (records, unreadable) = store.records_of(&store.latest_campaign().unwrap().unwrap().id).unwrap();
    let indices: Vec<u32> = records.iter().filter(|one| one.error.is_none()).map(|one| one.trial.index).collect();
    assert_eq!((indices, unreadable.len()), (Vec::from_iter(0..12), 1));
}

#[test]
fn a_killed_campaign_is_carried_on() {
    check_broken_off("killed", "KILL");
}

#[test]
fn an_interrupted_campaign_is_carried_on() {
    check_broken_off("interrupted", "INT");
}

#[test]
fn a_full_disk_is_named_and_what_was_finished_is_kept() {
    let Some(bench) = Bench::new("full-disk") else { return };
    let (disk, copy) = (bench.folder.path("disk"), bench.folder.path("copy"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&copy).unwrap();
    // A disk of its own in a mount namespace of its own: nothing of it is left, however this ends.
    let script = "mount -t tmpfs -o size=400k none \"$1\" || exit 77; disk=$1; copy=$2; shift 2; \"$@\"; status=$?; \
                  cp \"$disk\"/* \"$copy\"; exit $status";
    let arguments = ["--set", "duration=20ms", "--set", "warmup=0s", "--set", "rate=20M", "--repeat", "300"];
    let program = bench.run_command("udp-stream", &arguments);
    let mut command = Command::new("unshare");
    bench.dress(&mut command);
    command.args(["--mount", "--", "sh", "-c", script, "sh", &disk, &copy]);
    command.arg(program.get_program()).args(program.get_args());
    command.args(["--store", &format!("{disk}/records.sqlite")]);
    let ran = Running::start(command).wait(LONG);
    if ran.status.code() == Some(77) {
        eprintln!("SKIPPED a full disk: a tmpfs cannot be mounted here");
        return;
    }
    let store = format!("{copy}/records.sqlite");
    let kept = records_in(store.as_ref());
    assert!(kept.len() > 2, "{ran:#?}");
    let count = format!("{} finished trials of this campaign are kept", kept.len());
    ran.check_sentence(&["the disk of the store", "records.sqlite is full", &count, "--resume"]);
    bench.check_nothing_runs(Duration::from_millis(500));
    bench.check_quiet();
    // Elsewhere, where there is room, it is carried on; three hundred trials are too many for a test.
    let running = Running::start(bench.run_command("udp-stream", &["--resume", "--store", &store]));
    bench.wait_until("it goes on", LONG, || records_in(store.as_ref()).len() > kept.len() + 1);
    running.signal("INT");
    running.wait(Duration::from_secs(5)).check_interrupted(&["interrupted"]);
    let indices: Vec<u32> = records_in(store.as_ref()).iter().map(|record| record.trial.index).collect();
    let each_once: Vec<u32> = (0..indices.len() as u32).collect();
    assert_eq!(indices, each_once);
}

/// A wall clock that steps by three hours, there and back, every 50 ms: what `clock_gettime` tells of CLOCK_REALTIME.
const MAD_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += now->tv_nsec / 50000000 % 2 ? 10800 : -10800;
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return now ? *now = time.tv_sec : time.tv_sec;
}
"#;

/// The machine's own clock is left alone; only what this test's programs read of it steps.
#[test]
fn a_wall_clock_that_steps_changes_no_figure() {
    let Some(bench) = Bench::new("clock") else { return };
    let (source, library) = (bench.folder.path("clock.c"), bench.folder.path("clock.so"));
    fs::write(&source, MAD_CLOCK).unwrap();
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o", &library, &source]).stderr(Stdio::null()).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED a stepping wall clock: there is no C compiler here");
        return;
    }
    // It is mad indeed, or the test would prove nothing.
    let read = || {
        let mut command = Command::new("date");
        command.arg("+%s").env("LD_PRELOAD", &library);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse::<i64>().unwrap()
    };
    let (first, deadline) = (read(), Instant::now() + Duration::from_secs(10));
    while (read() - first).abs() < 10_000 {
        assert!(Instant::now() < deadline, "the clock does not step");
    }
    for (plan, rate) in [("udp-stream", "20M"), ("tcp-stream", "20M")] {
        let set = format!("rate={rate}");
        let mut command =
            bench.run_command(plan, &["--set", "duration=1s", "--set", "warmup=200ms", "--set", &set, "--repeat", "4"]);
        command.env("LD_PRELOAD", &library);
        let running = Running::start(command);
        let ran = running.wait(LONG);
        ran.check_done();
        assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
    }
    let records = bench.records();
    assert_eq!(records.len(), 8);
    for plan in ["udp-stream", "tcp-stream"] {
        // The store gives records in the order of their identifiers.
        let indices = records.iter().filter(|record| record.plan == plan).map(|record| record.trial.index);
        assert_eq!(indices.collect::<Vec<_>>(), [0, 1, 2, 3], "identifiers of a campaign sort by time");
    }
    for record in &records {
        let duration_s = record.duration_s.unwrap();
        assert!((duration_s - 1.0).abs() < 0.05, "{duration_s}");
        let bps = record.result.as_ref().unwrap().flow.throughput_bps.unwrap();
        // A step of a second in the clock would be a factor; what a busy machine does is less.
        assert!((0.5..2.0).contains(&(bps / 20e6)), "{bps}");
        assert!(record.intervals.iter().all(|slice| (0.0..1.2).contains(&slice.start_s)), "{:?}", record.intervals);
    }
}

/// Damages what the target's agent tells, once, by a word of sed's: that trial fails alone.
#[track_caller]
fn check_damaged(name: &str, workload: [&str; 2], damage: &str, contains: &str) {
    let Some(bench) = Bench::new(name) else { return };
    let agent =
        format!("{} agent --stdio --netns {}", env!("CARGO_BIN_EXE_linerate"), bench.lab().target.path().display());
    let damaged = format!(r#"exec:sh -c '{agent} | sed -u "{damage}"'"#);
    let host = bench.host();
    let words = ["run", workload[0], "--target", &damaged, "--host", &host, "--set", workload[1], "--repeat", "2"];
    let more = ["--set", "duration=200ms", "--set", "warmup=0s"];
    let ran = Running::start(bench.linerate(&[&words[..], &more].concat())).wait(LONG);
    ran.check_sentence_of_many(&[contains, "one trial failed"]);
    let failed: Vec<bool> = bench.records().iter().map(|record| record.error.is_some()).collect();
    assert_eq!(failed, [true, false], "{ran:#?}");
}

#[test]
fn a_figure_that_nothing_can_be_fails_its_trial_alone() {
    check_damaged(
        "absurd-figure",
        ["tcp-stream", "direction=tx"],
        r#"0,/\"rtt_s\":[0-9.e-]*/s//\"rtt_s\":1e300/"#,
        "a number that nothing measured can be, 1e+300",
    );
}

#[test]
fn a_count_that_cannot_be_fails_its_trial_alone() {
    check_damaged(
        "absurd-count",
        ["udp-stream", "rate=20M"],
        r#"0,/\"arrivals\":{\"received\":[0-9]*/s//\"arrivals\":{\"received\":18446744073709551615/"#,
        "the target told that it received 18446744073709551615 datagrams, of ",
    );
    check_damaged(
        "absurd-jitter",
        ["udp-stream", "rate=20M"],
        r#"0,/\"jitter_s\":[0-9.e-]*/s//\"jitter_s\":-1.0/"#,
        "the target told a jitter below 0 or above 1000000 s, which cannot be; install the same version",
    );
}

/// Processes that stand still until this goes.
#[cfg(feature = "postgres")]
struct Stopped(Vec<u32>);

#[cfg(feature = "postgres")]
impl Stopped {
    fn with_children(process: u32) -> Stopped {
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let all: Vec<u32> = numbers.filter(|one| *one == process || machines::parent(*one) == Some(process)).collect();
        all.iter().for_each(|one| machines::signal(*one, "STOP"));
        Stopped(all)
    }
}

#[cfg(feature = "postgres")]
impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.iter().for_each(|one| machines::signal(*one, "CONT"));
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_record_that_a_silent_server_does_not_take_is_kept_here() {
    use linerate_lab::services::Postgres;
    let Some(bench) = Bench::new("silent-server") else { return };
    if !Postgres::is_installed() {
        return println!("SKIPPED: PostgreSQL is not installed (cargo xtask setup servers)");
    }
    let postgres = Postgres::start(&bench.folder.0.join("postgres")).unwrap();
    let url = postgres.url();
    let there = || Store::open(std::path::Path::new(&url)).unwrap();
    let running = Running::start(bench.run_command("udp-stream", &[&TWELVE[..], &["--store", &url]].concat()));
    bench.wait_until("a trial ends", LONG, || !there().identifiers(&Default::default()).unwrap().is_empty());
    let stopped = Stopped::with_children(postgres.pid());
    let ran = running.wait(LONG);
    drop(stopped);
    ran.check_sentence(&["no answer within 10 s", "is kept in", "linerate records push postgres://"]);
    let here = bench.records();
    assert_eq!(here.len(), 1, "{here:#?}");
    assert!(!there().identifiers(&Default::default()).unwrap().contains(&here[0].id));
    let pushed = Running::start(bench.linerate(&["records", "push", &url])).wait(LONG);
    pushed.check_done();
    assert!(there().identifiers(&Default::default()).unwrap().contains(&here[0].id));
    bench.run("udp-stream", &["--resume", "--store", &url], LONG).check_done();
}
