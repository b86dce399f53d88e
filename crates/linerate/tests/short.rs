//! What a person sees: lines as wide as asked in a pipe, in ASCII where nothing else can be shown, and each trial's as it
//! ends. By the real program; knows no figures.

mod machines;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use machines::{Bench, Ran, Running};

const LONG: Duration = Duration::from_secs(120);

/// With this many columns, in a locale of ASCII or on a terminal that knows nothing.
fn shown(bench: &Bench, arguments: &[&str], columns: usize, plain: Option<(&str, &str)>) -> Ran {
    let mut command = bench.linerate(arguments);
    command.env("COLUMNS", columns.to_string()).env_remove("LC_ALL").env("LANG", "C.UTF-8").env("TERM", "xterm");
    command.envs(plain);
    Running::start(command).wait(LONG)
}

#[track_caller]
fn check(ran: &Ran, columns: usize, is_plain: bool) {
    let wide: Vec<&str> = ran.stdout.lines().filter(|line| line.chars().count() > columns).collect();
    assert_eq!(wide, [""; 0], "wider than {columns}: {ran:#?}");
    assert!(ran.stdout.ends_with('\n') && !ran.stdout.ends_with("\n\n"), "{ran:#?}");
    assert!(!is_plain || ran.stdout.is_ascii(), "{ran:#?}");
}

#[test]
fn the_demo_fits_a_page_and_every_answer_its_width() {
    if Bench::new("short-privilege").is_none() {
        return;
    }
    let bench = Bench::bare("short");
    let store = bench.store_path();
    std::fs::create_dir_all(store.parent().unwrap()).unwrap();
    let demo = shown(&bench, &["demo", "--store", store.to_str().unwrap()], 100, None);
    check(demo.check_done(), 100, false);
    // With the three notes that a quiet machine has, 60 lines; a busy one has more to doubt and to explain.
    let lines = demo.stdout.lines().filter(|line| !line.starts_with('[')).count();
    let most = if demo.stdout.contains("busy-machine") { 62 } else { 57 };
    assert!(lines <= most, "{lines} lines: {}", demo.stdout);
    assert_eq!(demo.stdout.matches("█ received").count(), 1, "a picture: {}", demo.stdout);
    assert_eq!(demo.stdout.matches("shared-machine").count(), 1, "{}", demo.stdout);
    assert_eq!(demo.stdout.matches(" target ").count(), 0, "CPU use stands once: {}", demo.stdout);
    assert!(demo.stderr.is_empty(), "{}", demo.stderr);
    let answers: [&[&str]; 7] = [
        &["records", "list"],
        &["records", "show"],
        &["records", "show", "--all"],
        &["explain"],
        &["history", "throughput"],
        &["plans"],
        &["lab", "list"],
    ];
    for columns in [80, 100, 200] {
        for plain in [None, Some(("LC_ALL", "C")), Some(("TERM", "dumb"))] {
            for arguments in answers {
                check(shown(&bench, arguments, columns, plain).check_done(), columns, plain.is_some());
            }
        }
    }
}

#[test]
fn a_trial_has_a_line_the_moment_it_ends() {
    let Some(bench) = Bench::new("short-lines") else { return };
    let asked = ["--set", "rate=1M,2M", "--set", "duration=600ms", "--set", "warmup=0s"];
    let mut command = bench.run_command("udp-stream", &asked);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let told: Vec<(std::time::Instant, String)> =
        stderr.lines().map(|line| (std::time::Instant::now(), line.unwrap())).collect();
    let ran = child.wait_with_output().unwrap();
    assert!(ran.status.success());
    let lines: Vec<&str> = told.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], "2 trials, about 2 s");
    assert!(
        lines[1].starts_with("1/2  udp-stream rate=1M: ") && lines[1].ends_with(" Mbit/s, lost 0.0 %"),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("2/2  udp-stream rate=2M: "), "{lines:?}");
    assert!(told[2].0 - told[1].0 > Duration::from_millis(500), "the first was told before the second began");
    let quiet = bench.run("udp-stream", &[&asked[..], &["--quiet"]].concat(), LONG);
    assert!(quiet.check_done().stderr.is_empty(), "{}", quiet.stderr);
    assert!(quiet.stdout.contains("udp-stream"), "{}", quiet.stdout);

    let live = bench.run("udp-stream", &["--live", "--set", "rate=1M", "--set", "duration=2500ms"], LONG);
    let seconds: Vec<&str> = live.check_done().stderr.lines().filter(|line| line.contains(" s  rx ")).collect();
    assert!(seconds.len() >= 2 && seconds.iter().all(|line| line.ends_with(" Mbit/s")), "{}", live.stderr);
}
