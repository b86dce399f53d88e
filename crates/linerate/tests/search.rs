//! `linerate search` between two namespaces, with a cable of a known rate.

mod machines;

use std::time::Duration;

use machines::{Bench, Ran, Running};

/// Longer than any search here.
const LIMIT: Duration = Duration::from_secs(120);
/// What 200 Mbit/s of frames carry: 1470 octets of payload in each 1512.
const CARRIED: f64 = 200e6 * 1470.0 / 1512.0;

fn searched(bench: &Bench, more: &[&str]) -> Ran {
    let (target, host) = (bench.target(), bench.host());
    let mut command = bench.linerate(&["search", "--target", &target, "--host", &host]);
    command.args(more);
    Running::start(command).wait(LIMIT)
}

#[test]
fn a_cables_rate_is_found_in_both_directions() {
    let Some(bench) = Bench::new("search-cable") else { return };
    // A machine that others use, too, loses a few: it finds less then, and never more.
    let found = (0..3).any(|_| {
        let options =
            ["--max-rate", "400M", "--goal", "loss=1 %,trial=300ms,width=4 %", "--set", "direction=tx,rx", "--json"];
        let ran = searched(&bench, &options);
        ran.check_done();
        let [said] = &ran.json()[..] else { panic!("{ran:#?}") };
        let searches = said["searches"].as_array().unwrap();
        assert_eq!(searches.len(), 2, "{said:#}");
        searches.iter().all(|one| {
            let found = &one["found"][0];
            let [lower, upper] = ["lower_bps", "upper_bps"].map(|name| found[name].as_f64().unwrap());
            println!("{} {lower} to {upper}", one["direction"]);
            assert!(upper > lower && (upper - lower) / upper <= 0.0401 && found["regular"] == true, "{said:#}");
            assert!(lower < CARRIED * 1.05, "{said:#}");
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

#[test]
fn what_carries_all_says_so_for_people() {
    let Some(bench) = Bench::new("search-all") else { return };
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
    for part in ["linerate search udp-stream", "--goal 'loss=5 %,trial=200ms' --max-rate 4000000"] {
        assert!(said.contains(part), "{part}: {}", ran.stdout);
    }
}

#[test]
fn what_cannot_be_searched_is_a_sentence() {
    let bench = Bench::bare("search-words");
    for (words, sentence) in [
        (&["--set", "rate=5M"][..], "rate is the search's own to choose"),
        (&["tcp-stream"], "only UDP streams are searched"),
        (&["--goal", "best"], "'best' is no goal"),
        (&["--goal", "loss=2"], "loss cannot be '2'"),
        (&["--max-rate", "fast"], "'fast' is no rate"),
        (
            &["--max-rate", "1M", "--min-rate", "1M"],
            "nothing lies between the lowest load, 1 Mbit/s, and the highest, 1 Mbit/s",
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
