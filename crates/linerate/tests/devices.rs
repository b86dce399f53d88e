//! Ethernet frames through devices, with the real program: a double whose limit is known is found by a search, and what a
//! bridge and a router drop is found there, as their own counters have it. Needs root, `tc`, `nft` and `nsenter`; says so and
//! passes where they are missing.

mod machines;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use linerate_host::xdp::attach::PassProgram;
use linerate_host::xdp::double::{Double, DoubleOptions};
use linerate_host::xdp::generator::Pace;
use linerate_lab::Forwards;
use linerate_path::budget::DropCause;
use linerate_path::stage::Stage;
use linerate_results::findings::findings;
use machines::row::{Row, lost_in_middle};
use machines::{Ran, Running};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
/// A noisy machine spoils a search now and then.
const TRIES: usize = 3;

fn linerate(row: &Row, words: &[&str]) -> Ran {
    Running::start(row.command(words, &[])).wait(LIMIT)
}

/// What a search says of its only configuration; a machine that others use, too, may spoil one.
#[track_caller]
fn searched(row: &Row, words: &[&str]) -> Value {
    let mut said = Value::Null;
    for _ in 0..TRIES {
        let ran = linerate(row, &[&["search", "frames", "--set", "direction=rx"][..], words].concat());
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", ran.stderr);
        said = ran.json()[0]["searches"][0].clone();
        if said["found"][0]["regular"] == true || said["found"][0]["unlimited"] == true {
            break;
        }
    }
    said
}

/// Forwards from the host to the target as told, and back all that comes. Both ends take what XDP sends them.
struct Doubled {
    there: Double,
    _back: Double,
    _ends: [PassProgram; 2],
}

impl Doubled {
    fn of(row: &Row, test: &str, frames_per_s: u64, depth: u64) -> Option<Doubled> {
        let attach = |from: &str, to: &str, capacity, depth| {
            Double::attach(from, to, DoubleOptions { capacity, depth, hold_ns: 0 }).map_err(io::Error::other)
        };
        let made = || -> io::Result<Doubled> {
            let pass = || PassProgram::attach("eth0").map_err(io::Error::other);
            Ok(Doubled {
                there: row.lab.middle.run(|| attach("p0", "p1", Pace::per_second(frames_per_s), depth))?,
                _back: row.lab.middle.run(|| attach("p1", "p0", Pace::per_second(1_000_000), 10_000))?,
                _ends: [row.lab.host.run(pass)?, row.lab.target.run(pass)?],
            })
        };
        made().inspect_err(|lacking| eprintln!("SKIPPED {test}: {lacking}")).ok()
    }
}

fn number(said: &Value, name: &str) -> f64 {
    said[name].as_f64().unwrap_or_else(|| panic!("{name}: {said:#}"))
}

/// The double's rate c is known exactly, and a trial of T seconds passes its depth B besides: c + B / T.
#[test]
fn a_search_finds_the_limit_of_a_double() {
    const TEST: &str = "a_search_finds_the_limit_of_a_double";
    const CAPACITY: f64 = 2000.0;
    const DEPTH: f64 = 20.0;
    let Some(row) = Row::of(TEST, Forwards::Bridge, &["nsenter"]) else { return };
    let Some(double) = Doubled::of(&row, TEST, CAPACITY as u64, DEPTH as u64) else { return };
    let goal = ["--max-rate", "4kpps", "--min-rate", "1kpps", "--goal", "loss=0,trial=1s,width=1 %"];
    let found = (0..TRIES).any(|_| {
        let said = searched(&row, &goal);
        let found = &said["found"][0];
        let [lower, upper] = ["lower_bps", "upper_bps"].map(|name| number(found, name) / 8.0 / 64.0);
        println!("{lower} to {upper} frames/s");
        assert!((number(found, "lower_packets_per_s") - lower).abs() < 1.0 && found["regular"] == true, "{said:#}");
        // More than it has tokens for is never found.
        assert!(lower <= (CAPACITY + DEPTH) * 1.0005, "{said:#}");
        upper >= CAPACITY * 0.9995 && upper / lower < 1.0101
    });
    assert!(found, "less than the double carries, {TRIES} times");
    // All that was sent over it came, or is in its own count, to the frame.
    let (mut sent, mut received) = (0, 0);
    for record in row.bench.records() {
        let flow = &record.result.as_ref().unwrap().flow;
        (sent, received) = (sent + flow.packets_sent.unwrap(), received + flow.packets_received.unwrap());
        assert_eq!(flow.packets_sent.unwrap() - flow.packets_received.unwrap(), flow.packets_lost.unwrap());
    }
    let counts = double.there.counts().unwrap();
    // Handshakes and end marks of each trial pass it, too, and may be dropped.
    let marks = counts.received - sent;
    println!("{sent} sent, {received} received; of the double {counts:?}");
    assert!(counts.dropped.abs_diff(sent - received) <= marks && marks < 100 * row.bench.records().len() as u64);
}

/// Closed form: a burst of N at load L fills B where N (1 - c / L) = B.
#[test]
fn the_longest_burst_tells_the_depth_of_a_double() {
    const TEST: &str = "the_longest_burst_tells_the_depth_of_a_double";
    if machines::number("LINERATE_DOUBLE").is_none() {
        eprintln!("SKIPPED {TEST}: it takes long; set LINERATE_DOUBLE=1");
        return;
    }
    let Some(row) = Row::of(TEST, Forwards::Bridge, &["nsenter"]) else { return };
    let Some(_double) = Doubled::of(&row, TEST, 15_000, 3_000) else { return };
    // The search itself is over at once: what the double has saved up passes whole. It has saved up again when the next burst comes.
    let words = ["--max-rate", "30kpps", "--min-rate", "29kpps", "--goal", "loss=10 %,trial=100ms,width=5 %"];
    let longest = 3_000.0 / (1.0 - 15_000.0 / 30_000.0);
    let found = (0..TRIES).any(|_| {
        let said = searched(&row, &[&words[..], &["--stage", "back-to-back"]].concat());
        let bursts = &said["stages"]["back_to_back"];
        let [carried, lost] = ["carried_packets", "lost_packets"].map(|name| number(bursts, name));
        println!("{carried} to {lost} frames, {longest} by the closed form");
        (carried / longest - 1.0).abs() <= 0.02 && (lost / longest - 1.0).abs() <= 0.02
    });
    machines::met(found, &format!("the double's depth: another burst than it allows, {TRIES} times"));
}

/// What the tester carries is found once, kept, and never called the device's.
#[test]
fn a_calibration_is_kept_and_held_against_what_is_found() {
    const TEST: &str = "a_calibration_is_kept_and_held_against_what_is_found";
    let Some(row) = Row::of(TEST, Forwards::Bridge, &["nsenter"]) else { return };
    let words = ["--max-rate", "4kpps", "--min-rate", "500pps", "--goal", "loss=1 %,trial=200ms,width=20 %"];
    let limited = |fps, words: &[&str]| {
        let double = Doubled::of(&row, TEST, fps, 5)?;
        let said = searched(&row, words);
        drop(double);
        Some(said)
    };
    if Doubled::of(&row, TEST, 2_000, 5).is_none() {
        return;
    }
    let is_held_against = (0..TRIES).any(|_| {
        let calibration = limited(2_000, &[&words[..], &["--calibrate"]].concat()).unwrap();
        assert!(calibration["calibrates"] == true && calibration["found"][0]["limited_by_tester"] == false);
        let Some(limit) = calibration["found"][0]["lower_bps"].as_f64() else { return false };
        // The same again: the device carries as much, and no more is said of it. Half of it is the device's own.
        let [same, less] = [2_000, 1_000].map(|fps| limited(fps, &words).unwrap());
        for said in [&same, &less] {
            let found = &said["found"][0];
            assert!(number(said, "tester_limit_bps") <= limit && !said["calibration"].is_null(), "{said:#}");
            assert!(found["limited_by_tester"] == false || found["upper_bps"].is_null(), "{said:#}");
        }
        let is_limited = |said: &Value| said["found"][0]["limited_by_tester"] == true;
        println!("{limit} bit/s by calibration, {} and {}", same["found"][0], less["found"][0]);
        is_limited(&same) && !is_limited(&less)
    });
    assert!(is_held_against, "a calibration is not held against what is found, {TRIES} times");
    // Of other traffic, nothing is known.
    let shown = |more: &[&str]| {
        let endpoint = |path: PathBuf| format!("netns:{}", path.display());
        let (target, host) = (endpoint(row.lab.target.path()), endpoint(row.lab.host.path()));
        let mut command = row.bench.linerate(&["search", "frames", "--target", &target, "--host", &host]);
        command.args(words).args(["--set", "direction=rx", "--dry-run"]).args(more);
        let ran = Running::start(command).wait(LIMIT);
        ran.check_done().stdout.clone()
    };
    assert!(shown(&[]).contains("The tester carries") && shown(&[]).contains("(calibration "), "{}", shown(&[]));
    assert!(!shown(&["--set", "frame_size=128"]).contains("The tester carries"));
    let records = row.bench.records();
    assert!(
        records.iter().any(|record| record.plan == "calibration")
            && records.iter().any(|record| record.plan == "search")
    );
}

/// A double has nothing to recover from: its bucket fills at once. What resets it takes away what it says.
#[test]
fn a_device_recovers_from_an_overload_and_from_a_reset() {
    const TEST: &str = "a_device_recovers_from_an_overload_and_from_a_reset";
    let Some(row) = Row::of(TEST, Forwards::Bridge, &["nsenter"]) else { return };
    let middle = row.lab.middle.path().display().to_string();
    let goal = ["--max-rate", "4kpps", "--min-rate", "1kpps", "--goal", "loss=2 %,trial=200ms,width=5 %"];
    let Some(double) = Doubled::of(&row, TEST, 2_000, 10) else { return };
    let has_recovered = (0..TRIES).any(|_| {
        let said = searched(&row, &[&goal[..], &["--stage", "recovery", "--stage-time", "600ms"]].concat());
        let recovery = &said["stages"]["recovery"];
        let [seconds, lost] = ["recovery_s", "loss_ratio"].map(|name| number(recovery, name));
        println!("recovered after {seconds} s, {lost} lost");
        lost > 0.01 && lost < 0.2 && seconds < 0.02
    });
    assert!(has_recovered, "lost frames long after the overload, {TRIES} times");
    drop(double);
    // The bridge itself, which carries all that is tried.
    let away = format!("nsenter --net={middle} sh -c 'ip link set p1 nomaster; sleep 0.3; ip link set p1 master br0'");
    let is_away = (0..TRIES).any(|_| {
        let said = searched(&row, &[&goal[..], &["--reset", &away, "--stage-time", "1500ms"]].concat());
        let blocked = number(&said["stages"]["reset"], "blocked_s");
        println!("away for {blocked} s");
        (0.28..0.6).contains(&blocked)
    });
    assert!(is_away, "away for another time than 0.3 s, {TRIES} times");
    // A command that fails is the trial's error, and its words are the user's.
    let ran = linerate(
        &row,
        &[&["search", "frames"][..], &goal, &["--reset", "echo no power >&2; exit 3", "--stage-time", "300ms"]]
            .concat(),
    );
    assert_eq!(ran.status.code(), Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("exit status: 3: no power"), "{}", ran.stderr);
}

/// A fifth of a second, 1000 frames.
const FRAMES: [&str; 4] = ["frame_size=1000", "rate=5kpps", "duration=200ms", "warmup=0s"];

#[test]
fn frames_that_a_bridge_drops_are_found_in_it_both_ways() {
    let Some(row) = Row::of("frames-bridge", Forwards::Bridge, &["nsenter", "tc"]) else { return };
    for (direction, port, kind) in [("rx", "p1", "raw"), ("tx", "p0", "udp4")] {
        row.tc(&format!("qdisc add dev {port} root tbf rate 6mbit burst 5k limit 10k"));
        let kind = format!("frame_kind={kind}");
        let record = row.trial("frames", &[&FRAMES[..], &[&format!("direction={direction}"), &kind]].concat(), &[]);
        let counted = row.tc(&format!("-s qdisc show dev {port}"));
        let dropped = counted.split("dropped ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        row.tc(&format!("qdisc del dev {port} root"));
        let lost = record.losses[0].lost();
        assert!(lost > 100, "{lost}");
        let want = [(Stage::Qdisc, Some(DropCause::Qdisc), lost)];
        assert_eq!(lost_in_middle(&record), want, "{:#?}", record.loss_budget);
        assert_eq!(record.unaccounted, Some(0));
        let line = &record.loss_budget.as_ref().unwrap()[0];
        assert_eq!((line.interface.as_deref(), &*line.counters[0].value.to_string()), (Some(port), dropped));
        assert_eq!(findings(&record)[0].name, "middle-drops");
    }
}

/// In short what takes hours in long: a bridge that forgets an address after a second, where others do after 300, and an end that
/// shows its own each 300 ms, where it else does each 100 s.
#[test]
fn an_end_that_only_receives_is_not_forgotten_by_a_bridge() {
    let Some(row) = Row::of("frames-learning", Forwards::Bridge, &["nsenter", "ip"]) else { return };
    let ip = |words: &str| row.in_middle("ip", &words.split(' ').collect::<Vec<_>>());
    ip("link set br0 type bridge ageing_time 100");
    // A third port, to which goes what the bridge knows no way for.
    ip("link add p2 type veth peer name p3");
    ip("link set p2 master br0 up");
    ip("link set p3 up");
    let flooded = || -> u64 {
        let said = ip("-s link show p2");
        said.lines().last().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let run = |learning: &str| {
        let before = flooded();
        let learning = format!("learning={learning}");
        let record =
            row.trial("frames", &["rate=200pps", "duration=3500ms", "frame_size=200", "direction=rx", &learning], &[]);
        assert_eq!(record.losses[0].lost(), 0, "{:#?}", record.loss_budget);
        (flooded() - before, record.losses[0].sent)
    };
    let (forgotten, sent) = run("1h");
    assert!(forgotten > sent / 10, "of {sent} frames {forgotten} went to all ports");
    let (known, sent) = run("300ms");
    assert!(known < 50, "of {sent} frames {known} went to all ports");
}

#[test]
fn frames_with_ip_pass_a_router_that_counts_what_it_drops() {
    let Some(row) = Row::of("frames-router", Forwards::Router, &["nsenter", "nft"]) else { return };
    for direction in ["rx", "tx"] {
        let way = format!("direction={direction}");
        let record = row.trial("frames", &[&FRAMES[..], &["frame_kind=udp4", "flows=16", &way]].concat(), &[]);
        let losses = &record.losses[0];
        assert!(losses.sent >= 900 && losses.lost() == 0, "{} sent: {:#?}", losses.sent, record.loss_budget);
    }
    // One in four of them, by their length.
    row.in_middle(
        "nft",
        &["add table ip f; add chain ip f c { type filter hook forward priority 0; }; \
           add rule ip f c ip length 982 numgen inc mod 4 0 counter drop"],
    );
    let record = row.trial("frames", &[&FRAMES[..], &["frame_kind=udp4", "direction=rx"]].concat(), &[]);
    let rules = row.in_middle("nft", &["list", "table", "ip", "f"]);
    let words: Vec<&str> = rules.split_whitespace().collect();
    let dropped: u64 = words.windows(2).find(|pair| pair[0] == "packets").unwrap()[1].parse().unwrap();
    assert!(dropped > 100, "{rules}");
    let want = (Stage::ReceiverStack, Some(DropCause::NotForwarded), dropped);
    assert_eq!(lost_in_middle(&record), [want], "{:#?}", record.loss_budget);
    assert_eq!((record.losses[0].lost(), record.unaccounted), (dropped, Some(0)));
    // Frames without IP are nothing that a router forwards.
    let ran = linerate(&row, &["run", "frames", "--middle", &row.middle(), "--set", "duration=100ms"]);
    assert!(ran.stderr.contains("raw frames pass no router"), "{}", ran.stderr);
}
