//! `linerate search` between two namespaces, with a cable of a known rate.

mod machines;

use std::time::Duration;

use linerate_lab::Shape;
use machines::{Bench, Ran, Running};

/// Longer than any search here.
const LIMIT: Duration = Duration::from_secs(120);
/// The cable's rate: little, so that the machine's other work does not decide what is sent.
const RATE: u64 = 20_000_000;
/// What it carries: 1470 octets of payload in each 1512.
const CARRIED: f64 = RATE as f64 * 1470.0 / 1512.0;

/// Two machines, and a cable that holds eight frames.
fn cable(name: &str) -> Option<Bench> {
    let (rate, rx_queue_octets) = (Some(RATE), 8 * 1514);
    Bench::of(name, &Shape { tx_rate_bps: rate, rx_rate_bps: rate, rx_queue_octets, ..Shape::modest_board() })
}

fn searched(bench: &Bench, more: &[&str]) -> Ran {
    let (target, host) = (bench.target(), bench.host());
    let mut command = bench.linerate(&["search", "--target", &target, "--host", &host]);
    command.args(more);
    Running::start(command).wait(LIMIT)
}

#[test]
fn a_cables_rate_is_found_in_both_directions() {
    let Some(bench) = cable("search-cable") else { return };
    // A machine that others use, too, loses a few: it finds less then, and never more.
    let found = (0..3).any(|_| {
        let options =
            ["--max-rate", "40M", "--goal", "loss=1 %,trial=500ms,width=4 %", "--set", "direction=tx,rx", "--json"];
        let ran = searched(&bench, &options);
        ran.check_done();
        let [said] = &ran.json()[..] else { panic!("{ran:#?}") };
        let searches = said["searches"].as_array().unwrap();
        assert_eq!(searches.len(), 2, "{said:#}");
        searches.iter().all(|one| {
            let found = &one["found"][0];
            let lower = found["lower_bps"].as_f64().unwrap();
            // A sender that is held back in its own socket sends no more: of the cable no upper bound is said then.
            let is_sender = found["limited_by_tester"] == true;
            assert_eq!(found["upper_bps"].is_null(), is_sender, "{said:#}");
            let upper = if is_sender { &one["tester_limit_bps"] } else { &found["upper_bps"] }.as_f64().unwrap();
            println!("{} {lower} to {upper}", one["direction"]);
            let is_near = (upper - lower) / upper <= 0.0401;
            assert!(upper > lower && (is_near || is_sender) && found["regular"] == true, "{said:#}");
            // The sender's socket holds some of what is too much: it is found out from a width on.
            assert!(lower < CARRIED * 1.1, "{said:#}");
            upper > CARRIED * 0.97
        })
    });
    assert!(found, "less than the cable carries, three times");
    bench.check_quiet();
    let records = bench.records();
    assert!(records.iter().all(|record| record.plan == "search" && record.trial.factors.contains_key("rate")));
    for (one, other) in records.iter().flat_map(|one| records.iter().map(move |other| (one, other))) {
        // Within one search the same load is the same configuration, measured once more, and no other is.
        let alike = one.campaign == other.campaign && one.trial.configuration == other.trial.configuration;
        let asked_alike = one.campaign == other.campaign && one.trial.factors == other.trial.factors;
        assert_eq!(alike, asked_alike, "{:?} {:?}", one.trial, other.trial);
        assert!(!alike || one.id == other.id || one.trial.repeat != other.trial.repeat, "{:?}", one.trial);
    }
}

/// What a trial has lost too much of is not carried on: less is measured, and the same is found.
#[test]
fn a_trial_that_is_decided_ends_early() {
    let Some(bench) = cable("search-early") else { return };
    let options = ["--max-rate", "40M", "--goal", "loss=1 %,trial=1s,width=10 %", "--set", "direction=rx", "--json"];
    let is_alike = (0..3).any(|_| {
        let [early, whole] = [&[][..], &["--whole-trials"]].map(|more| {
            let ran = searched(&bench, &[&options[..], more].concat());
            ran.check_done();
            ran.json()[0]["searches"][0].clone()
        });
        let number = |said: &serde_json::Value, name: &str| said[name].as_f64().unwrap();
        println!("{} s of {} s", number(&early, "measured_s"), number(&whole, "measured_s"));
        assert_eq!(whole["ended_early"], 0, "{whole:#}");
        let records = bench.records();
        for record in records.iter().filter(|record| record.ended_early) {
            // What decides has to be missing for 50 ms; on a busy machine it takes a while to be told.
            let (took, loss) = (record.duration_s.unwrap(), record.result.as_ref().unwrap().flow.loss_ratio.unwrap());
            assert!(record.asked["duration"] == "1s" && took < 0.9 && loss > 0.01, "{took} {loss}");
            assert_eq!(record.unaccounted, Some(0), "{:?}", record.loss_budget);
        }
        let bounds = |said: &serde_json::Value| ["lower_bps", "upper_bps"].map(|name| number(&said["found"][0], name));
        let ([lower, upper], [other_lower, other_upper]) = (bounds(&early), bounds(&whole));
        // That early stops change no bound is tested in virtual time; here two searches of a busy machine agree to a width.
        let is_alike = lower < other_upper * 1.1 && other_lower < upper * 1.1;
        is_alike
            && number(&early, "ended_early") >= 1.0
            && number(&early, "measured_s") / number(&early, "trials")
                < 0.95 * number(&whole, "measured_s") / number(&whole, "trials")
    });
    assert!(is_alike, "no trial ended early, no time saved, or other bounds, three times");
    bench.check_quiet();
}

/// `run` and `search` of a plan that searches, with what it has to find.
#[test]
fn a_plan_searches() {
    let Some(bench) = cable("search-plan") else { return };
    let plan = bench.folder.path("carried.toml");
    let text = "format = \"linerate.plan/1\"\nworkload = \"udp-stream\"\n[search]\n\
        goals = \"loss=5 %,trial=200ms\"\nmax_rate = \"4M\"\nmin_rate = \"1M\"\n\
        expect = [\"loss=5 %,trial=200ms >= 3M\"]\n";
    std::fs::write(&plan, text).unwrap();
    let (target, host) = (bench.target(), bench.host());
    let ran = |verb: &str, more: &[&str]| {
        let mut command = bench.linerate(&[verb, &plan, "--target", &target, "--host", &host]);
        command.args(more);
        Running::start(command).wait(LIMIT)
    };
    let shown = ran("run", &["--dry-run"]);
    shown.check_done();
    assert!(shown.stdout.contains("Between 1.000 Mbit/s and 4.000 Mbit/s"), "{}", shown.stdout);
    for verb in ["run", "search"] {
        let ran = ran(verb, &[]);
        ran.check_done();
        for part in ["the limit was not reached", "as expected: loss=5 %,trial=200ms >= 3M"] {
            assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
        }
    }
    let records = bench.records();
    assert!(
        !records.is_empty() && records.iter().all(|record| record.plan == "carried" && record.trial.search.is_some())
    );
    // More than the most that is tried is not found.
    let ran = ran("search", &["--expect", "loss=5 %,trial=200ms >= 5M"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:#?}");
    assert!(ran.stdout.contains("not as expected: loss=5 %,trial=200ms >= 5M"), "{}", ran.stdout);
}

/// Delay, loss from the highest load down, bursts and TCP's windows, each from what was found before it.
#[test]
fn stages_follow_what_was_found() {
    let Some(bench) = cable("search-stages") else { return };
    let goal = ["--max-rate", "40M", "--goal", "loss=2 %,trial=300ms,width=20 %", "--set", "direction=rx"];
    let stages = ["windows", "latency", "loss-rate", "back-to-back"];
    let stages: Vec<&str> = stages.iter().flat_map(|stage| ["--stage", *stage]).collect();
    let ran = searched(&bench, &[&goal[..], &stages, &["--stage-time", "300ms", "--json"]].concat());
    ran.check_done();
    let said = ran.json()[0]["searches"][0].clone();
    let (found, stages) = (&said["found"][0], &said["stages"]);
    let lower = found["lower_bps"].as_f64().unwrap();
    let latency = stages["latency"].as_array().unwrap();
    assert_eq!(latency.len(), 4, "{said:#}");
    for (one, part) in latency.iter().zip([0.1, 0.5, 0.9, 1.0]) {
        let load = one["load_bps"].as_f64().unwrap();
        assert!((load / lower - part).abs() < 1e-9 && one["p50_s"].as_f64().unwrap() > 0.0, "{said:#}");
    }
    let loss: Vec<f64> =
        stages["loss_rate"].as_array().unwrap().iter().map(|one| one["loss_ratio"].as_f64().unwrap()).collect();
    // The cable carries half of the highest load.
    assert!((2..=10).contains(&loss.len()) && loss[0] > 0.4, "{loss:?}");
    let bursts = &stages["back_to_back"];
    let [carried, lost, longest] =
        ["carried_packets", "lost_packets", "longest_packets"].map(|name| bursts[name].as_u64().unwrap());
    // Twelve frames wait at the cable, while half of the load goes on: some 24, and never seconds of it.
    assert!(carried < lost && carried < longest / 10, "{bursts:#}");
    let rfc6349 = &stages["rfc6349"];
    assert!(rfc6349["unfit"].is_null() && rfc6349["path_mtu"] == 1500, "{rfc6349:#}");
    let windows = rfc6349["windows"].as_array().unwrap();
    assert!(!windows.is_empty(), "{rfc6349:#}");
    for window in windows {
        let number = |name: &str| window[name].as_f64().unwrap_or_else(|| panic!("{name}: {window:#}"));
        // The cable's frames have no preamble and no gap, which the ideal has: 2.5 % of a full frame.
        assert!(number("throughput_bps") < 1.2 * CARRIED, "{window:#}");
        assert!(number("transfer_time_ratio") > 0.0 && (0.0..=1.0).contains(&number("efficiency")), "{window:#}");
    }
    // The report has all of it, computed from the records.
    let ran = Running::start(bench.linerate(&["report", "last"])).wait(LIMIT);
    ran.check_done();
    for part in [
        "The most that comes through",
        "Delay beside the stream",
        "The longest burst",
        "RFC 6349",
        "Searched by RFC 9971",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}

#[test]
fn what_carries_all_says_so_for_people() {
    let Some(bench) = cable("search-all") else { return };
    let options = ["--max-rate", "4M", "--min-rate", "1M", "--goal", "loss=5 %,trial=200ms", "--set", "direction=rx"];
    let ran = searched(&bench, &options);
    ran.check_done();
    for part in
        ["All that was tried, up to 4.000 Mbit/s, with at most 5.0 % lost", "the limit was not reached", "conditional"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    // How it is measured again stands in a report.
    let ran = Running::start(bench.linerate(&["report", "last"])).wait(LIMIT);
    ran.check_done();
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["linerate search udp-stream", "--goal 'loss=5 %,trial=200ms' --max-rate 4M"] {
        assert!(said.contains(part), "{part}: {}", ran.stdout);
    }
}

#[test]
fn what_cannot_be_searched_is_a_sentence() {
    let bench = Bench::bare("search-words");
    for (words, sentence) in [
        (&["--set", "rate=5M"][..], "rate is the search's own to choose"),
        (&["tcp-stream"], "only UDP streams and frames are searched"),
        (&["--goal", "best"], "'best' is not a goal"),
        (&["--goal", "loss=2"], "loss cannot be '2'"),
        (&["--max-rate", "fast"], "'fast' is not a load"),
        (&["--max-rate", "900"], "the highest load, 900 bit/s, is less than a packet a second"),
        (&["--expect", "ndr > 5M"], "'ndr > 5M' is not an expectation of a search"),
        (&["--goal", "ndr", "--expect", "pdr >= 5M"], "'pdr >= 5M' is of no goal of this search; its goals are ndr"),
        (
            &["--max-rate", "1M", "--min-rate", "1M"],
            "nothing lies between the lowest load, 1.000 Mbit/s, and the highest, 1.000 Mbit/s",
        ),
    ] {
        let mut command = bench.linerate(&["search", "--target", "local", "--host", "local"]);
        command.args(words);
        let ran = Running::start(command).wait(LIMIT);
        assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
        assert!(ran.stderr.contains(sentence), "{sentence}: {}", ran.stderr);
        assert!(ran.stderr.lines().count() <= 6, "{}", ran.stderr);
    }
}
