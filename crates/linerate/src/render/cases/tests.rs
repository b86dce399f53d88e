//! Every form has every case, under its name and with its outcome; what a stranger named stays in its place.
//! Reads the forms with strict readers that know nothing of the writers.

use linerate_machine::end::Direction;
use linerate_plan::{Changes, Plan, PlannedTrial, judged};
use linerate_results::compare::gate::Gate;
use linerate_results::compare::{CompareOptions, compare};
use linerate_results::observation::Observation;
use linerate_results::record::Record;
use linerate_results::sample;
use linerate_trial::pace::SplitMix64;

use super::*;
use crate::render::hostile_text::hostile;

#[path = "../../../tests/machines/case_forms.rs"]
#[allow(dead_code, reason = "the end-to-end tests use other parts of it")]
mod case_forms;

/// Sees that each form is valid, and that they have the same cases.
#[track_caller]
fn check(cases: &Cases) {
    let names = |all: &[case_forms::Read]| -> Vec<(String, String, &str)> {
        all.iter().map(|case| (case.suite.clone(), case.name.clone(), case.outcome)).collect()
    };
    let wanted: Vec<(String, String, &str)> =
        cases.cases.iter().map(|case| (case.suite.clone(), case.name.clone(), case.outcome.name())).collect();
    let (junit, ktap) = (case_forms::junit(&cases.junit()), case_forms::ktap(&cases.ktap()));
    assert_eq!(names(&junit), wanted);
    assert_eq!(names(&ktap), wanted);
    let told = |all: &[case_forms::Read]| -> Vec<_> {
        all.iter().map(|case| (case.sentence.clone(), case.measurement.clone())).collect()
    };
    assert_eq!(told(&junit), told(&ktap));
    let lava = case_forms::lava(&cases.lava());
    assert_eq!(lava.len(), wanted.len());
    for (signal, case) in lava.iter().zip(&junit) {
        let wanted = match case.outcome {
            "failed" | "error" => "fail",
            "skipped" => "skip",
            _ => "pass",
        };
        assert_eq!(signal.result, wanted);
        assert_eq!(signal.measurement.as_ref().map(|one| &one.0), case.measurement.as_ref().map(|one| &one.0));
    }
    let (answer, rows) = case_forms::summary(&cases.summary());
    assert_eq!(rows.len(), wanted.len().min(50));
    assert_eq!(cases.is_red(), answer.contains("failed") && !answer.contains("nothing failed"), "{answer}");
    let bold = rows.iter().filter(|row| row[0].starts_with("**")).count();
    assert_eq!(bold, (cases.count(Outcome::Failed) + cases.count(Outcome::Error)).min(50));
}

fn forms(cases: &Cases) -> String {
    [cases.junit(), cases.ktap(), cases.lava(), cases.summary()].join("──\n")
}

const PLAN: &str = "format = 'linerate.plan/1'\nworkload = 'udp-stream'\nrepeat = 2\nexpect = ['loss < 1%', 'throughput > \
                    1G with rate=100M']\n[factors]\nrate = '100M,600M'\n";

/// What a run comes to, with these records.
fn run(source: &str, is_whole: bool, records: impl Fn(&[PlannedTrial]) -> Vec<Record>) -> Cases {
    let plan = Plan::parse(source, "bring-up.toml", "bring-up").unwrap();
    // A level that no trial has: of a run that was resumed after its plan had changed, say.
    let expect = if source == PLAN { vec!["throughput > 1M with rate=7M".to_owned()] } else { Vec::new() };
    let changes = Changes { expect, ..Changes::default() };
    let trials = plan.trials_of(&changes).unwrap();
    let records = records(&trials);
    let expected = judged(&plan, &changes, &trials, if is_whole { &records } else { &[] });
    let (plan, repeats_until) = (&*plan.name, false);
    of_run(&Run { plan, trials: &trials, expected: &expected, records: &records, is_whole, repeats_until })
}

fn records(trials: &[PlannedTrial]) -> Vec<Record> {
    let record = |trial: &PlannedTrial| {
        let rate = if trial.configuration == 0 { 100 } else { 600 };
        let mut record = sample::udp(trial.index, Direction::Rx, rate, if rate == 100 { 200.0 } else { 400.0 });
        record.doubts.clear();
        if trial.index == 3 {
            record = sample::failed(3);
        }
        if trial.index == 0 {
            record.doubts = sample::full().doubts;
        }
        record.trial.configuration = Some(trial.configuration);
        record
    };
    trials.iter().map(record).collect()
}

#[test]
fn expectations_and_failed_trials() {
    let cases = run(PLAN, true, records);
    check(&cases);
    insta::assert_snapshot!(forms(&cases));
    let outcomes: Vec<Outcome> = cases.cases.iter().map(|case| case.outcome).collect();
    use Outcome::{Error, Failed, Passed, Skipped};
    assert_eq!(outcomes, [Passed, Failed, Failed, Skipped, Error]);
}

#[test]
fn where_nothing_is_expected_each_trial_is_a_case() {
    let plan = "format = 'linerate.plan/1'\nworkload = 'udp-stream'\nrepeat = 2\n[factors]\nrate = '100M,600M'\n";
    let cases = run(plan, true, records);
    check(&cases);
    insta::assert_snapshot!(cases.ktap());
    // Broken off: what was not measured is not told, and what ended it is red.
    let mut cases = run(plan, false, |trials| records(trials)[..1].to_vec());
    assert!(!cases.is_red());
    cases.broke_off("interrupted; the trial that finished before is kept");
    check(&cases);
    insta::assert_snapshot!("broken_off", cases.ktap());
}

#[test]
fn what_was_expected_of_a_run_that_was_broken_off_cannot_be_told() {
    let mut cases = run(PLAN, false, |trials| records(trials)[..1].to_vec());
    assert_eq!(cases.count(Outcome::Skipped), cases.cases.len());
    cases.broke_off("the target does not answer");
    check(&cases);
    assert!(cases.is_red());
    let (answer, _) = case_forms::summary(&cases.summary());
    assert_eq!(answer, "linerate run bring-up: 1 of 5 cases failed, 4 cannot be told");
}

/// Two campaigns of repeats; the second receives so much of what the first did, and as noisily.
fn compared(part: f64, noise: f64, gates: &[&str]) -> Cases {
    compared_of(part, noise, gates, 0)
}

/// The same, of which the first so many of the second failed.
fn compared_of(part: f64, noise: f64, gates: &[&str], failed: usize) -> Cases {
    let side = |part: f64| -> Vec<Observation> {
        let one = |repeat: u32| {
            let wobble = 1.0 + noise * f64::from(repeat * 3 % 8) / 8.0;
            let mut record = sample::tcp(repeat, Direction::Rx, 900.0 * part * wobble, false);
            (record.trial.repeat, record.target.cpu, record.host.cpu) = (repeat, None, None);
            record.result.as_mut().unwrap().service_demand = None;
            record.doubts.clear();
            Observation::of(&record)
        };
        (0..8).map(one).collect()
    };
    let (baseline, mut candidate) = (side(1.0), side(part));
    candidate.iter_mut().take(failed).for_each(|one| one.failed = true);
    let all = |side: &[Observation]| -> Vec<Observation> { side.to_vec() };
    let (baseline, candidate) = (all(&baseline), all(&candidate));
    let (baseline, candidate): (Vec<_>, Vec<_>) = (baseline.iter().collect(), candidate.iter().collect());
    let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
    of_comparison("last~1 last", &compare(&baseline, &candidate, &CompareOptions::default()), &gates)
}

#[track_caller]
fn check_compared(cases: &Cases, want: &[(&str, Outcome)]) {
    check(cases);
    for (name, outcome) in want {
        let case = cases.cases.iter().find(|case| case.name.starts_with(name));
        assert_eq!(case.map(|case| case.outcome), Some(*outcome), "{name}: {cases:#?}");
    }
}

#[test]
fn a_comparison_is_red_where_a_gate_is() {
    use Outcome::{Failed, Passed, Skipped};
    let worse = compared(0.9, 0.01, &["throughput worse 3%"]);
    check_compared(&worse, &[("gate: throughput worse 3%", Failed), ("throughput", Failed)]);
    insta::assert_snapshot!(forms(&worse));
    let allowed = compared(0.9, 0.01, &["throughput worse 20%"]);
    check_compared(&allowed, &[("gate: throughput worse 20%", Passed), ("throughput", Passed)]);
    assert!(allowed.ktap().contains("less than its gate allows"), "{}", allowed.ktap());
    let unsure = compared(0.97, 0.5, &["throughput worse 3%"]);
    check_compared(&unsure, &[("gate: throughput worse 3%", Skipped), ("throughput", Skipped)]);
    assert!(!unsure.is_red() && unsure.ktap().contains("# SKIP cannot tell: the noise hides it"), "{}", unsure.ktap());
    let unmeasured = compared(1.0, 0.01, &["latency_p99 worse 3%"]).ktap();
    assert!(unmeasured.contains("# SKIP cannot tell: no configuration has it on both sides"), "{unmeasured}");
    let half = compared_of(1.0, 0.01, &["throughput worse 3%"], 4);
    check_compared(&half, &[("gate: throughput worse 3%", Skipped), ("trials of the candidate", Outcome::Error)]);
    assert!(half.is_red() && half.ktap().contains("4 of 8 trials of the candidate failed"), "{}", half.ktap());
    let one = compared_of(1.0, 0.01, &["throughput worse 3%"], 1);
    check_compared(&one, &[("gate: throughput worse 3%", Passed)]);
    assert!(!one.is_red() && one.ktap().contains("1 of 8 trials of the candidate failed"), "{}", one.ktap());
    // Without a gate, as --bisect has it.
    check_compared(&compared(0.9, 0.01, &[]), &[("throughput", Failed)]);
    check_compared(&compared(1.1, 0.01, &[]), &[("throughput", Passed)]);
}

#[test]
fn a_gate_says_what_makes_two_sides_no_comparison() {
    let side = |message_size: &str| -> Vec<Observation> {
        let one = |repeat: u32| {
            let mut record = sample::tcp(repeat, Direction::Rx, 900.0, false);
            record.asked.insert("message_size".to_owned(), message_size.to_owned());
            Observation::of(&record)
        };
        (0..8).map(one).collect()
    };
    let [baseline, candidate] = [side("1470"), side("1000")];
    let [baseline, candidate] = [&baseline, &candidate].map(|side| side.iter().collect::<Vec<_>>());
    let comparison = compare(&baseline, &candidate, &CompareOptions::default());
    let ktap = of_comparison("udp-sweep mine", &comparison, &["throughput worse 3%".parse().unwrap()]).ktap();
    assert!(ktap.contains("# SKIP cannot tell: not comparable: the size of messages is 1470 against 1000"), "{ktap}");
}

#[test]
fn what_a_stranger_named_stays_in_its_place() {
    // LINERATE_SEED=… gives the same texts again.
    let seed = std::env::var("LINERATE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    let mut random = SplitMix64::new(seed);
    let more = [
        "</script>",
        "]]>",
        "<!--",
        "&lt;&#0;&amp;",
        "\u{fffe}\u{ffff}",
        "# SKIP x",
        "\n  ok 1 fine\n",
        "# Subtest: y",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=x RESULT=pass>",
        "@everyone #1 !2 https://evil.example www.evil.example ![x](y)",
        "=\"'><svg onload=alert(1)>",
        "\\|\\",
        "1..9",
        "",
        " ",
        "...",
    ];
    let text = |random: &mut SplitMix64| {
        let mut text = if random.below(2) == 0 { hostile(random) } else { String::new() };
        for _ in 0..random.below(4) {
            text += more[random.below(more.len() as u64) as usize];
        }
        text
    };
    for round in 0..300 {
        let mut cases = Cases::new(&format!("run {}", text(&mut random)), &text(&mut random));
        for _ in 0..random.below(70) {
            let outcomes = [Outcome::Passed, Outcome::Failed, Outcome::Error, Outcome::Skipped];
            let outcome = outcomes[random.below(4) as usize];
            let values = [0.0, -0.0, 941.23, 1e-12, 123_456_789.123, 9e12, -3.5];
            let value = values[random.below(7) as usize];
            let measurement = (random.below(2) == 0).then_some(Measurement { value, unit: "µs/KiB" });
            let measurement = measurement.filter(|one| one.value < 1e10);
            cases.add(&text(&mut random), outcome, &text(&mut random), measurement, Some(random.below(9) as f64));
        }
        let told = format!("seed {seed}, round {round}");
        // What a reader complains of does not name the seed.
        assert!(std::panic::catch_unwind(|| check(&cases)).is_ok(), "{told}");
        let summary = cases.summary();
        for bad in ["<svg", "<script", "</script", "@every", "#1 ", "https://", "www.", "]("] {
            let tame = summary.replace("\\<", "").replace("\\]", "");
            assert!(!tame.contains(bad), "{told}: {bad} in\n{summary}");
        }
    }
}

#[test]
fn numbers_for_programs_have_no_exponent() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "0"),
        (941.2, "941.2"),
        (1e-12, "0"),
        (0.000_123_456_789_9, "0.0001234568"),
        (1_234_567_890_123.0, "1234567890000"),
        (-2.5, "-2.5"),
        (100.0, "100"),
    ] {
        assert_eq!(Measurement { value, unit: "x" }.number(), text);
    }
}
