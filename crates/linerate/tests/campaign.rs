//! A campaign's order, its A/A trials, what it expects and how long it goes on: between two machines, by the real program.
//! Knows no figures but a load that any machine carries.

mod machines;

use std::time::Duration;

use linerate_results::record::{NullSide, Record};
use linerate_results::store::Store;
use machines::{Bench, Ran, Running};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// Trials of 50 ms at a load that arrives everywhere.
const SHORT: [&str; 6] = ["--set", "duration=50ms", "--set", "warmup=0s", "--set", "message_size=200"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().chain(more).copied().collect()
}

/// What was measured in each round, in the order of time.
fn rounds(records: &[Record]) -> Vec<Vec<String>> {
    let mut rounds: Vec<Vec<String>> = Vec::new();
    for record in records {
        let round = record.trial.repeat as usize;
        rounds.resize(rounds.len().max(round + 1), Vec::new());
        let side = record.trial.null_side.map_or("", NullSide::name);
        rounds[round].push(format!("{}{side}", record.trial.factors["rate"]));
    }
    rounds
}

#[track_caller]
fn check_status(ran: &Ran, status: i32) {
    assert_eq!(ran.status.code(), Some(status), "{}", ran.stderr);
}

#[test]
fn the_order_is_by_chance_and_a_seed_gives_it_again_also_after_a_stop() {
    let Some(bench) = Bench::new("order") else { return };
    let asked = with(&["--set", "rate=1M,2M,3M,4M,5M", "--repeat", "4", "--seed", "77"]);
    let foreseen = bench.run("udp-stream", &[&asked[..], &["--dry-run"]].concat(), LONG);
    foreseen.check_done();
    assert!(foreseen.stdout.contains("--seed 77 gives this one again"), "{foreseen:#?}");
    let foreseen: Vec<String> = foreseen
        .stdout
        .lines()
        .filter_map(|line| Some(line.split_once("rate=")?.1.split(' ').next()?.to_owned()))
        .collect();

    let running = Running::start(bench.run_command("udp-stream", &asked));
    bench.wait_until("half a round is there", LONG, || bench.finished() >= 7);
    running.signal("INT");
    running.wait(Duration::from_secs(10));
    bench.run("udp-stream", &["--resume", "--seed", "78"], LONG).check_sentence(&["begun with other settings"]);
    bench.run("udp-stream", &["--resume"], LONG).check_done();
    let records: Vec<Record> = bench.records().into_iter().filter(|record| record.error.is_none()).collect();
    let rounds = rounds(&records);
    assert_eq!(rounds.concat(), foreseen);
    assert_eq!(rounds.len(), 4);
    for pair in rounds.chunks(2) {
        let turned: Vec<&String> = pair[1].iter().rev().collect();
        assert_eq!(pair[0].iter().collect::<Vec<_>>(), turned);
    }
    assert_ne!(rounds[0], ["1M", "2M", "3M", "4M", "5M"], "seed 77 does not happen to give the plan's order");
    assert!(records.iter().all(|record| record.trial.order_seed == Some(77)));
    assert!(
        records
            .iter()
            .all(|record| { record.trial.factors["rate"] == format!("{}M", record.trial.configuration.unwrap() + 1) })
    );
}

#[test]
fn without_repeats_or_when_told_so_the_order_is_the_plans() {
    let Some(bench) = Bench::new("plan-order") else { return };
    for more in [&["--set", "rate=3M,1M,2M"][..], &["--set", "rate=3M,1M,2M", "--repeat", "2", "--order", "plan"]] {
        bench.run("udp-stream", &with(more), LONG).check_done();
    }
    let records = bench.records();
    assert_eq!(rounds(&records[..3]), [["3M", "1M", "2M"]]);
    assert_eq!(rounds(&records[3..]), [["3M", "1M", "2M"], ["3M", "1M", "2M"]]);
    assert!(records.iter().all(|record| record.trial.order_seed.is_none()));
}

#[test]
fn a_plan_is_a_test() {
    let Some(bench) = Bench::new("expect") else { return };
    let load = ["--set", "rate=2M,4M"];
    let good = with(&[&load[..], &["--expect", "throughput > 100k", "--expect", "loss <= 50% with rate=4M"]].concat());
    let ran = bench.run("udp-stream", &good, LONG);
    check_status(&ran, 0);
    assert!(ran.stdout.contains("All 3 expectations are met."), "{ran:#?}");
    // For a program, standard output has the records and nothing else.
    let bad = with(&[&load[..], &["--expect", "throughput > 1G with rate=4M", "--json"]].concat());
    let ran = bench.run("udp-stream", &bad, LONG);
    check_status(&ran, 1);
    assert!(ran.stdout.lines().count() == 2 && ran.stdout.lines().all(|line| line.starts_with('{')));
    assert!(ran.stderr.contains("The expectation is not met."), "{}", ran.stderr);
    let before = bench.records().len();
    let absent = with(&["--set", "rate=2M", "--expect", "transactions > 1"]);
    bench
        .run("udp-stream", &absent, LONG)
        .check_sentence(&["a trial of udp-stream rx has no transactions; it has throughput"]);
    assert_eq!(bench.records().len(), before, "nothing was measured");
    let nonsense = with(&["--expect", "thruput > 3M"]);
    bench.run("udp-stream", &nonsense, LONG).check_sentence(&["--expect", "did you mean 'throughput'?"]);
}

#[test]
fn alike_sides_are_measured_in_turns_and_held_against_each_other() {
    let Some(bench) = Bench::new("a-a") else { return };
    let ran = bench.run("udp-stream", &with(&["--set", "rate=2M,4M", "--repeat", "6", "--null"]), LONG);
    ran.check_done();
    assert!(ran.stdout.contains("\nA/A trials: "), "{ran:#?}");
    let records = bench.records();
    assert_eq!(records.len(), 24);
    for round in rounds(&records) {
        let mut round = round;
        round.sort();
        assert_eq!(round, ["2Ma", "2Mb", "4Ma", "4Mb"]);
    }
    let compare = |arguments: &[&str]| {
        let ran = Running::start(bench.linerate(&[&["compare"], arguments].concat())).wait(LONG);
        check_status(&ran, 0);
        ran.stdout
    };
    let text = compare(&["last:rate=2M", "last:rate=4M", "--metric", "throughput"]);
    assert!(text.contains("A/A trials of the baseline: ") && text.contains("A/A trials of the candidate: "), "{text}");
    assert!(text.contains("6 trials") || text.contains("6 records"), "side b counts for nothing else: {text}");
    let text = compare(&["--null", "last", "--metric", "throughput"]);
    assert!(text.contains("last, side a of its A/A trials"), "{text}");
}

#[test]
fn repeats_go_on_until_the_median_is_known() {
    let Some(bench) = Bench::new("precision") else { return };
    let asked = with(&["--set", "rate=2M,4M", "--precision", "100%", "--max-repeats", "12", "--quiet"]);
    let running = Running::start(bench.run_command("udp-stream", &asked));
    bench.wait_until("some trials are there", LONG, || bench.finished() >= 5);
    running.signal("INT");
    running.wait(Duration::from_secs(10));
    let ran = bench.run("udp-stream", &["--resume"], LONG);
    ran.check_done();
    assert!(ran.stdout.contains("Every median is known to within 100 %."), "{ran:#?}");
    for rate in ["2M", "4M"] {
        let of_it = bench.records();
        let of_it = of_it.iter().filter(|record| record.error.is_none() && record.trial.factors["rate"] == rate);
        // Seven values of at most twelve are the first of which 95 % can be said (sequential.json has the rule).
        let count = of_it.count();
        assert!((6..=12).contains(&count), "{count} of {rate}");
    }
    let store = Store::open(&bench.store_path()).unwrap();
    assert!(store.latest_campaign().unwrap().unwrap().finished_at.is_some());

    // What limits itself is never twice the same; a set rate may well be.
    let never = ["--set", "duration=50ms", "--set", "warmup=0s", "--precision", "0.000001%", "--max-repeats", "7"];
    let ran = bench.run("tcp-stream", &never, LONG);
    ran.check_done();
    assert!(ran.stdout.contains("1 of 1 medians are not known to within 0.000001 % after 7 repeats"), "{ran:#?}");
    bench
        .run("udp-stream", &["--precision", "1%", "--max-repeats", "5"], LONG)
        .check_sentence(&["--max-repeats: 5 is not allowed", "6 to"]);
}

#[test]
fn what_a_machine_cannot_be_set_to_is_known_before() {
    let Some(bench) = Bench::new("foreseen") else { return };
    let asked = ["--set", "target.mtu=1500,66", "--set", "host.ring.rx=512,1024", "--dry-run"];
    let ran = bench.run("udp-stream", &asked, LONG);
    ran.check_done();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    // A veth takes 68 at least and has no rings (drivers/net/veth.c).
    assert!(lines.iter().filter(|line| line.contains("mtu cannot be 66")).count() == 2, "{ran:#?}");
    assert!(lines.iter().filter(|line| line.contains("host: ring.rx is not there")).count() == 2, "{ran:#?}");
    assert!(ran.stdout.contains("4 trials, 4 of them skipped") && ran.stdout.contains("an estimate"), "{ran:#?}");
    assert_eq!(bench.records().len(), 0);
}

#[test]
fn events_are_lines_and_a_reader_that_is_gone_is_no_matter() {
    let Some(bench) = Bench::new("campaign-events") else { return };
    let file = bench.folder.path("events.jsonl");
    let sets = ["--set", "rate=20M", "--set", "duration=1200ms", "--set", "direction=rx", "--repeat", "2", "--events"];
    let run = |more: &[&str]| bench.run("udp-stream", &[&sets[..], more].concat(), LONG);
    run(&[&file]).check_done();
    let records = bench.records();
    let text = std::fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let without: Vec<&str> = names.iter().copied().filter(|name| *name != "passed").collect();
    let trial = ["trial_began", "trial_ended", "narrowed"];
    assert_eq!(without, [&["began"][..], &trial, &trial, &["ended"]].concat());
    assert!(names.contains(&"passed"), "{names:?}");
    assert!((1..).zip(&events).all(|(n, event)| event["n"] == n), "{text}");
    let of = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    let measured = records[0].result.as_ref().unwrap().flow.throughput_bps;
    assert_eq!(of("trial_ended")["record"]["id"], records[0].id.as_str());
    assert_eq!(of("trial_ended")["record"]["result"]["throughput_bps"].as_f64(), measured);
    assert_eq!((&of("trial_began")["offered_bps"], &of("trial_began")["expected_s"]), (&20e6.into(), &1.2.into()));
    assert_eq!(of("narrowed")["median"].as_f64(), measured);
    // Standard output has events and nothing else, or one form.
    let ran = run(&["-"]);
    assert!(ran.check_done().stdout.lines().all(|line| line.starts_with("{\"n\":")), "{}", ran.stdout);
    // A command that can do nothing leaves an earlier campaign's events, and no file where there was none.
    for wrong in [&["no-such-plan"][..], &["udp-stream", "--set", "rate=x"], &["udp-stream", "--repeat", "0"]] {
        for (file, want) in [(&file, Some(&text)), (&bench.folder.path("none.jsonl"), None)] {
            let ran = bench.run(wrong[0], &[&wrong[1..], &["--events", file]].concat(), LONG);
            assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
            assert_eq!(std::fs::read_to_string(file).ok().as_ref(), want, "{wrong:?}");
        }
    }
    run(&["-", "--json"]).check_sentence(&["--events -", "--json"]);
    run(&["-", "--junit", "-"]).check_sentence(&["--events -", "--junit -"]);
    run(&["/nowhere/x"]).check_sentence(&["--events", "cannot be written"]);
    // Nothing that is written there arrives: the trials are had, and at the end it is said.
    let full = run(&["/dev/full"]);
    full.check_sentence_of_many(&["--events: /dev/full could not be written to its end", "make room"]);
    assert!(full.stdout.contains("Mbit/s"), "{}", full.stdout);
}
