//! What CI reads of `run` and `compare`: the real program, between two machines, and the examples of docs/ci.md.
//! Reads the forms with readers of its own (machines/case_forms.rs).

mod machines;

use std::fs;
use std::path::Path;
use std::time::Duration;

use machines::case_forms::{self, Read};
use machines::{Bench, Ran, Running};

const LONG: Duration = Duration::from_secs(120);
const SHORT: [&str; 4] = ["--set", "duration=100ms", "--set", "warmup=0s"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().chain(more).copied().collect()
}

/// The files of one command, by form.
struct Files {
    junit: String,
    tap: String,
    summary: String,
}

impl Files {
    fn of(bench: &Bench) -> Files {
        let path = |name: &str| bench.folder.path(name);
        Files { junit: path("cases.xml"), tap: path("cases.tap"), summary: path("cases.md") }
    }

    fn options(&self) -> Vec<&str> {
        vec!["--junit", &self.junit, "--tap", &self.tap, "--summary", &self.summary, "--lava"]
    }

    /// Sees that the forms are valid and have the same cases, and returns them.
    #[track_caller]
    fn check(&self, ran: &Ran) -> Vec<Read> {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}\n{ran:#?}"));
        let (junit, ktap) = (case_forms::junit(&text(&self.junit)), case_forms::ktap(&text(&self.tap)));
        assert_eq!(junit, ktap);
        assert_eq!(case_forms::summary(&text(&self.summary)).1.len(), junit.len().min(50));
        // LAVA reads both off the console.
        let signals = case_forms::lava(&format!("{}{}", ran.stdout, ran.stderr));
        assert_eq!(signals.len(), junit.len(), "{ran:#?}");
        check_nothing_unfinished(Path::new(&self.junit).parent().unwrap());
        junit
    }
}

fn check_nothing_unfinished(folder: &Path) {
    let names = fs::read_dir(folder).unwrap().flatten().map(|one| one.file_name().to_string_lossy().into_owned());
    let left: Vec<String> = names.filter(|name| name.ends_with(".new")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Outcomes by the beginnings of names.
#[track_caller]
fn check_cases(cases: &[Read], wanted: &[(&str, &str)]) {
    let found: Vec<(&str, &str)> = cases.iter().map(|case| (&*case.name, case.outcome)).collect();
    assert_eq!(found.len(), wanted.len(), "{cases:#?}");
    for ((name, outcome), (beginning, wanted)) in found.iter().zip(wanted) {
        assert!(name.starts_with(beginning) && outcome == wanted, "{name} {outcome}: {cases:#?}");
    }
}

#[test]
fn an_expectation_that_fails_one_that_is_met_and_a_trial_that_fails() {
    let Some(bench) = Bench::new("ci") else { return };
    let files = Files::of(&bench);
    let plan = bench.folder.path("bring-up.toml");
    fs::write(
        &plan,
        "format = 'linerate.plan/1'\nworkload = 'tcp-stream'\nexpect = ['throughput > 1M with congestion_control=cubic', \
         'throughput > 100G with congestion_control=cubic']\n[factors]\ncongestion_control = ['cubic', 'nosuch']\n",
    )
    .unwrap();
    // What an earlier run left is not this one's.
    fs::write(&files.junit, "old").unwrap();
    let ran = bench.run(&plan, &with(&files.options()), LONG);
    assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
    let cases = files.check(&ran);
    let wanted = [
        ("throughput > 1M", "passed"),
        ("throughput > 100G", "failed"),
        ("tcp-stream congestion_control=nosuch", "error"),
    ];
    check_cases(&cases, &wanted);
    assert!(cases.iter().all(|case| case.suite == "bring-up"));
    let (number, unit) = cases[0].measurement.clone().unwrap();
    assert!(number.parse::<f64>().unwrap() > 1.0 && unit == "Mbit/s", "{cases:#?}");
    assert!(cases[1].sentence.contains("expected is throughput > 100G"), "{cases:#?}");
    assert!(cases[2].sentence.contains("nosuch"), "{cases:#?}");

    // The status is that of the expectation alone.
    let only = with(&["--set", "congestion_control=cubic", "--summary", "-"]);
    let ran = bench.run(&plan, &only, LONG);
    assert_eq!(ran.status.code(), Some(1), "{ran:#?}");
    let (answer, rows) = case_forms::summary(&ran.stdout);
    assert_eq!((&*answer, rows.len()), ("linerate run bring-up: 1 of 2 cases failed", 2));
    assert!(ran.stderr.contains("1 of 2 expectations is not met."), "{ran:#?}");

    // Of one trial a side nobody can tell; that is no failure.
    let ran = bench.run("tcp-stream", &with(&files.options()), LONG);
    ran.check_done();
    check_cases(&files.check(&ran), &[("tcp-stream", "passed")]);
    bench.run("tcp-stream", &with(&["--quiet"]), LONG).check_done();
    let compared = [&["compare", "last~1", "last", "--fail-if", "throughput worse 3%"][..], &files.options()].concat();
    let ran = Running::start(bench.linerate(&compared)).wait(LONG);
    ran.check_done();
    let cases = files.check(&ran);
    assert_eq!((&*cases[0].name, cases[0].outcome), ("gate: throughput worse 3%", "skipped"), "{cases:#?}");
    assert!(cases.iter().all(|case| case.outcome == "skipped" && case.sentence.contains("cannot tell")), "{cases:#?}");
    assert!(cases.len() > 1 && cases.iter().all(|case| case.suite == "compare last~1 last"), "{cases:#?}");
}

#[test]
fn a_run_that_is_interrupted_and_one_that_cannot_begin_are_red() {
    let Some(bench) = Bench::new("ci-interrupted") else { return };
    let files = Files::of(&bench);
    let arguments =
        [&["--set", "duration=30s", "--repeat", "2", "--expect", "throughput > 1M"][..], &files.options()].concat();
    let running = Running::start(bench.run_command("tcp-stream", &arguments));
    bench.wait_for_traffic(100);
    assert!(!Path::new(&files.junit).exists());
    running.signal("INT");
    let ran = running.wait(Duration::from_secs(20));
    assert_eq!(ran.status.code(), Some(130), "{ran:#?}");
    let cases = files.check(&ran);
    check_cases(&cases, &[("throughput > 1M", "skipped"), ("the command itself", "error")]);
    assert!(cases[1].sentence.contains("interrupted"), "{cases:#?}");

    let gone = format!("netns:{}", bench.folder.path("gone"));
    let arguments = [&["run", "tcp-stream", "--target", "local", "--host", &gone][..], &files.options()].concat();
    let ran = Running::start(bench.linerate(&arguments)).wait(LONG);
    assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
    let cases = files.check(&ran);
    check_cases(&cases, &[("tcp-stream", "skipped"), ("the command itself", "error")]);
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_measured() {
    let bench = Bench::bare("ci-refused");
    let check = |more: &[&str], parts: &[&str]| {
        let arguments = [&["run", "tcp-stream", "--target", "local"][..], more].concat();
        let ran = Running::start(bench.linerate(&arguments)).wait(Duration::from_secs(10));
        ran.check_sentence(parts);
        assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("", 1), "{ran:#?}");
    };
    let nowhere = bench.folder.path("nowhere/cases.xml");
    check(
        &["--junit", &nowhere],
        &["--junit: ", "cannot be written: No such file", "name a file in a folder that is there"],
    );
    check(&["--tap", &bench.folder.path("")], &["--tap: ", "cannot be written: it is a folder"]);
    check(&["--tap", "/dev/null"], &["it is no regular file (- is standard output)"]);
    assert!(Path::new("/dev/null").metadata().is_ok_and(|there| !there.is_file()));
    let both = "both want standard output";
    check(&["--tap", "-", "--junit", "-"], &["--junit -", "--tap -", both]);
    check(&["--tap", "-", "--lava"], &["--tap - and --lava", both]);
    check(&["--lava", "--json"], &["--lava and --json", both]);
    check(&["--summary", "-", "--csv"], &["--summary - and --csv", both]);
    let one = bench.folder.path("one");
    check(&["--tap", &one, "--junit", &one], &["--junit and --tap name the same file"]);
    check(&["--tap", &one, "--dry-run"], &["--dry-run measures nothing, so there are no test cases"]);
    bench.check_nothing_runs(Duration::from_millis(100));
}

#[test]
fn names_forge_neither_a_case_nor_a_signal() {
    let bench = Bench::bare("ci-forged");
    let files = Files::of(&bench);
    let signal = "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=forged RESULT=pass>";
    for name in [signal, "]]><b>|`@everyone`", "a\n  ok 1 forged\u{1b}[2J\u{202e}", "# SKIP x"] {
        let plan = bench.folder.path(&format!("{name}.toml"));
        // The plan's complaint has its name, too.
        for text in ["nonsense", "format = 'linerate.plan/1'\nworkload = 'tcp-stream'\n"] {
            fs::write(&plan, text).unwrap();
            let gone = format!("netns:{}", bench.folder.path(&format!("{name}.gone")));
            let arguments = [&["run", &plan, "--target", &gone, "--host", "local"][..], &files.options()].concat();
            let ran = Running::start(bench.linerate(&arguments)).wait(LONG);
            assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
            let cases = files.check(&ran);
            assert_eq!(cases.last().map(|case| (&*case.name, case.outcome)), Some(("the command itself", "error")));
            assert!(
                !cases.iter().any(|case| case.outcome == "passed" || case.name.contains("forged\u{1b}")),
                "{cases:#?}"
            );
        }
    }
    // What is read of a store is as strange: there is no such campaign, and the sentence says which.
    let arguments = [&["compare", signal, "last"][..], &files.options()].concat();
    let ran = Running::start(bench.linerate(&arguments)).wait(LONG);
    assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
    check_cases(&files.check(&ran), &[("the command itself", "error")]);
}

/// A block of docs/ci.md, and what the comment before it says.
fn examples() -> Vec<(Vec<String>, String)> {
    let page = include_str!("../../../docs/ci.md");
    let (mut lines, mut examples) = (page.lines(), Vec::new());
    while let Some(line) = lines.next() {
        if let Some(notes) = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->")) {
            lines.next().filter(|fence| fence.starts_with("```")).expect("a block follows the comment");
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            examples.push((notes.split("; ").map(str::to_owned).collect(), block.join("\n") + "\n"));
        }
    }
    examples
}

/// The commands of a block: what begins with the program's name behind what a pipeline has before it.
fn commands(block: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.trim().trim_start_matches("- ").trim_start_matches("run: ");
        let command = line.strip_prefix("sh '").and_then(|line| line.strip_suffix('\'')).unwrap_or(line);
        command.starts_with("linerate ").then(|| command.to_owned())
    };
    block.lines().filter_map(line).collect()
}

#[test]
fn the_examples_of_the_page() {
    let Some(bench) = Bench::new("ci-page") else { return };
    let examples = examples();
    assert_eq!(examples.len(), 6);
    for (notes, block) in examples {
        if let Some(name) = notes.iter().find_map(|note| note.strip_prefix("file ")) {
            let short = block.replace("repeat = 5", "repeat = 2").replace("duration = \"5s\"", "duration = \"100ms\"");
            fs::write(bench.folder.path(name), short).unwrap();
            continue;
        }
        let commands = commands(&block);
        assert!(!commands.is_empty(), "{block}");
        let mut console = String::new();
        for command in commands {
            let ends = format!("{} --host {}", bench.target(), bench.host());
            let program = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap().to_owned();
            let path = std::env::join_paths([program, "/usr/bin".into(), "/bin".into()]).unwrap();
            let run = || {
                let mut shell = std::process::Command::new("sh");
                bench.dress(&mut shell);
                shell
                    .args(["-c", &command.replace("root@board", &ends)])
                    .current_dir(&bench.folder.0)
                    .env("PATH", &path);
                Running::start(shell).wait(LONG)
            };
            // What is expected of 100 ms a busy machine may miss: that is judged 1.
            let first = run();
            let ran = if first.status.code() == Some(1) { run() } else { first };
            assert_eq!(ran.status.code(), Some(0), "{command}\n{ran:#?}");
            console += &(ran.stdout + &ran.stderr);
        }
        for note in notes {
            let (form, file) = note.split_once(' ').unwrap_or((&note, ""));
            let text = || fs::read_to_string(bench.folder.path(file)).unwrap();
            let cases = match form {
                "junit" => case_forms::junit(&text()).len(),
                "tap" => case_forms::ktap(&text()).len(),
                "summary" => case_forms::summary(&text()).1.len(),
                "lava" => {
                    let signals = case_forms::lava(&console);
                    // As the page says it is called.
                    let named = "bring-up.throughput-gt-40M-udp-stream-direction-tx-rate-50M";
                    assert!(signals.iter().any(|one| one.id == named), "{console}");
                    signals.len()
                }
                _ => panic!("{note}"),
            };
            // Four configurations and two of a rate; a comparison of that has more.
            assert!(cases >= 6, "{note}: {cases}");
        }
    }
    bench.check_quiet();
}
