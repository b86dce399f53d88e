//! What `linerate predict` says of real traffic, whose truth is measured afterwards, and of the reports' baselines.
//! Knows the truth because it made it: a token bucket, and a size that was kept from the fit.
//!
//! `LINERATE_PREDICTIONS` says how many campaigns of each kind are predicted (CI: 10).

mod machines;

use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_lab::Shape;
use machines::{Bench, Running, met};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

fn campaigns(name: &str) -> Option<u64> {
    let count = std::env::var("LINERATE_PREDICTIONS").ok().and_then(|text| text.parse().ok());
    if count.is_none() {
        eprintln!("SKIPPED {name}: it takes its time; LINERATE_PREDICTIONS=10 runs it");
    }
    count
}

/// Runs a campaign of this plan, as a user would.
#[track_caller]
fn campaign(bench: &Bench, plan: &str) {
    let path = bench.folder.path("predict.toml");
    fs::write(&path, format!("format = \"linerate.plan/1\"\n{plan}")).unwrap();
    bench.run(&path, &["--quiet"], LIMIT).check_done();
}

/// What is predicted of the last campaign's records with one level of a factor, from those with the others.
struct Told {
    /// Mbit/s, where it is not refused.
    median: Option<f64>,
    inside: bool,
    measured: f64,
    null: f64,
}

#[track_caller]
fn predicted(bench: &Bench, factor: &str, known: &[String], asked: &str) -> Told {
    let known: Vec<String> = known.iter().map(|level| format!("last:{factor}={level}")).collect();
    let check = format!("last:{factor}={asked}");
    let mut words = vec!["predict", "--json", "--check", &check];
    words.extend(known.iter().map(String::as_str));
    let ran = Running::start(bench.linerate(&words)).wait(LIMIT);
    let told: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr));
    let mbps = |value: &Value| value.as_f64().map(|bps| bps / 1e6);
    let (one, checked) = (&told["predictions"][0], &told["checked"][0]);
    println!("{check}: {one} {checked}");
    Told {
        median: mbps(&one["median_bps"]),
        inside: checked["inside"].as_bool().unwrap_or(false) && one["refused"].is_null(),
        measured: mbps(&checked["throughput_bps"]).expect("it was measured"),
        null: mbps(&one["null_bps"]).unwrap_or(f64::INFINITY),
    }
}

/// Of ten links of other rates, calibrated on loads below the knee and the first one that loses, a load beyond it is inside the interval eight times, and the
/// medians miss it by no more than half of what the null does: that nothing more is lost, or that no more arrives than below the knee.
#[test]
fn loads_beyond_the_knee_of_a_shaped_link() {
    let name = "loads_beyond_the_knee_of_a_shaped_link";
    let Some(count) = campaigns(name) else { return };
    let Some(mut bench) = Bench::new(name) else { return };
    let (mut inside, mut ours, mut nulls, mut flat) = (0, 0.0, 0.0, 0.0);
    for nth in 0..count {
        // From 60 to 240 Mbit/s, so that the CPUs have time for the rest; either direction in turns.
        let frames_mbps = 60 + 20 * (nth * 7 % 10);
        let direction = if nth % 2 == 0 { "rx" } else { "tx" };
        let rate = Some(frames_mbps * 1_000_000);
        bench.lab_mut().set_rx_rate(rate).unwrap();
        bench.lab_mut().set_tx_rate(rate).unwrap();
        // 1470 octets of payload are 1512 of frame.
        let knee = frames_mbps as f64 * 1470.0 / 1512.0;
        // As a record has them: no more zeros than needed.
        let load = |share: f64| match (knee * share * 1000.0).round() as u64 {
            kbps if kbps.is_multiple_of(1000) => format!("{}M", kbps / 1000),
            kbps => format!("{kbps}K"),
        };
        let known: Vec<String> = [0.4, 0.7, 0.9, 1.15].map(load).into();
        let beyond = load(1.4 + 0.1 * (nth % 8) as f64);
        campaign(
            &bench,
            &format!(
                "workload = 'udp-stream'\nrepeat = 5\n[options]\ndirection = '{direction}'\nduration = '400ms'\n\
                 warmup = '100ms'\n[factors]\nrate = {:?}\n",
                known.iter().chain([&beyond]).collect::<Vec<_>>()
            ),
        );
        let told = predicted(&bench, "rate", &known, &beyond);
        inside += u32::from(told.inside);
        // Where nothing is predicted there is nothing to be off by.
        let Some(median) = told.median else { continue };
        ours += (median - told.measured).abs();
        nulls += (told.null - told.measured).abs();
        flat += (0.9 * knee - told.measured).abs();
    }
    println!(
        "{inside} of {count} inside; off by {ours:.1} Mbit/s in all, the null by {nulls:.1}, what arrived below the knee by {flat:.1}"
    );
    met(10 * u64::from(inside) >= 8 * count, &format!("{inside} of {count} inside"));
    met(ours <= nulls / 2.0 && ours <= flat / 2.0, &format!("off by {ours}, the nulls by {nulls} and {flat}"));
}

/// Repeats of one size, half of which differ from their median by more, say nothing of what a model does: the machine has other
/// things to do.
const QUIET: f64 = 0.05;

/// Whether the repeats of each of these sizes in the newest campaign agree.
fn is_quiet(bench: &Bench, sizes: &[&str]) -> bool {
    let records = bench.records();
    let newest = records.last().expect("a campaign was run").campaign.clone();
    sizes.iter().all(|size| {
        let of_size = records.iter().filter(|record| {
            record.campaign == newest && record.trial.factors.get("message_size").is_some_and(|level| level == size)
        });
        let values: Vec<f64> = of_size.filter_map(|record| record.result.as_ref()?.flow.throughput_bps).collect();
        let middle = median(values.clone());
        median(values.iter().map(|value| (value / middle - 1.0).abs()).collect()) <= QUIET
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The plan packet-cost over a veth pair: each size in turns is kept from the fit, and predicted from the others within 10 %.
/// A campaign whose own repeats do not agree is not counted.
#[test]
fn a_size_that_was_not_measured() {
    let name = "a_size_that_was_not_measured";
    let Some(count) = campaigns(name) else { return };
    let Some(bench) = Bench::of(name, &Shape::unshaped()) else { return };
    const SIZES: [&str; 5] = ["64", "256", "512", "1K", "1470"];
    let (mut near, mut inside, mut tried) = (0, 0, 0);
    for nth in 0..count.div_ceil(3) {
        let sets = ["direction=tx", "rate=unlimited", "duration=400ms", "warmup=100ms"];
        let sets = sets.iter().flat_map(|set| ["--set", *set]);
        let more: Vec<&str> = ["--quiet", "--repeat", "5"].into_iter().chain(sets).collect();
        bench.run("packet-cost", &more, LIMIT).check_done();
        let quiet = is_quiet(&bench, &SIZES);
        for kept in &SIZES[1..4] {
            let known: Vec<String> = SIZES.iter().filter(|size| *size != kept).map(|size| (*size).to_owned()).collect();
            let told = predicted(&bench, "message_size", &known, kept);
            let off = told.median.map(|median| (median / told.measured - 1.0).abs());
            println!("campaign {nth}, {kept} octets: {:.0} Mbit/s, off by {off:.3?}, quiet: {quiet}", told.measured);
            if quiet {
                tried += 1;
                near += u32::from(off.is_some_and(|off| off <= 0.1));
                inside += u32::from(told.inside);
            }
        }
    }
    println!("{near} of {tried} within 10 %, {inside} inside the interval");
    if tried == 0 {
        eprintln!("SKIPPED {name}: the machine was so noisy that no campaign's repeats agreed within 5 %");
    }
    met(10 * near >= 8 * tried, &format!("{near} of {tried} within 10 %"));
}

const TABLES: [(&str, &str); 5] = [
    ("000", "Report 000: i.MX 6, ENET"),
    ("002-atstk1000", "Report 002: ATSTK1000, MACB"),
    ("002-atngw100", "Report 002: ATNGW100, MACB"),
    ("003", "Report 003: ML405, PLB_TEMAC"),
    ("004", "Report 004: AP135, arge"),
];

/// No figure in docs/predictions.md is typed: the commands that it names say each.
#[test]
fn a_table_may_be_of_a_machine_that_has_a_file_beside_it() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model");
    let bench = Bench::bare("a_table_of_a_machine_s_file");
    let machine = fs::read_to_string(models.join("machines/ap135.toml")).unwrap();
    fs::write(bench.folder.path("mine.toml"), machine.replacen("\"ap135\"", "\"mine\"", 1)).unwrap();
    let table = fs::read_to_string(models.join("tables/004.toml")).unwrap();
    for (name, says) in [("mine.toml", "mine: AP135"), ("none.toml", "none.toml cannot be read")] {
        let path = bench.folder.path("table.toml");
        fs::write(&path, table.replacen("\"ap135\"", &format!("\"{name}\""), 1)).unwrap();
        let ran = Running::start(bench.linerate(&["predict", "--table", &path])).wait(LIMIT);
        assert!(ran.stdout.starts_with(says) || ran.stderr.contains(says), "{ran:#?}");
    }
}

#[test]
fn the_published_predictions_are_what_the_commands_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/predictions.md");
    let page = fs::read_to_string(&path).unwrap();
    let (lead, _) = page.split_once("## ").unwrap();
    let bench = Bench::bare("the_published_predictions");
    let mut written = lead.trim_end().to_owned();
    for (table, title) in TABLES {
        let ran = Running::start(bench.linerate(&["predict", "--table", table, "--markdown"])).wait(LIMIT);
        assert_eq!(ran.stderr, "");
        written += &format!("\n\n## {title}\n\n{}", ran.stdout.trim());
    }
    written.push('\n');
    if std::env::var_os("LINERATE_UPDATE_DOCS").is_some() {
        fs::write(&path, &written).unwrap();
    }
    assert!(
        page == written,
        "docs/predictions.md is of another time; LINERATE_UPDATE_DOCS=1 cargo test --test predict writes it"
    );
}
