//! What `linerate compare` says of real traffic: nothing where there is nothing, and the truth where there is something.
//! Knows the truth because it made it: levels that change nothing, an MTU, a token bucket.
//!
//! `LINERATE_PROOFS` says how many campaigns of nothing there are (CI: 20), and has the slow ones run at all.

mod machines;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use linerate_lab::Shape;
use machines::{Bench, Running};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// Two machines joined by a veth pair that nothing limits.
fn bench(name: &str) -> Option<Bench> {
    Bench::of(name, &Shape::unshaped())
}

fn proofs(name: &str) -> Option<usize> {
    let count = std::env::var("LINERATE_PROOFS").ok().and_then(|text| text.parse().ok());
    if count.is_none() {
        eprintln!("SKIPPED {name}: it takes its time; LINERATE_PROOFS=20 runs it");
    }
    count
}

/// Runs a campaign of this plan, as a user would.
#[track_caller]
fn campaign(bench: &Bench, plan: &str) {
    let path = bench.folder.path("proof.toml");
    fs::write(&path, format!("format = \"linerate.plan/1\"\n{plan}")).unwrap();
    bench.run(&path, &["--quiet"], LIMIT).check_done();
}

/// Compares two levels of the last campaign, and returns what is judged of each metric.
#[track_caller]
fn compare(bench: &Bench, baseline: &str, candidate: &str, more: &[&str]) -> Vec<Value> {
    let sides = [format!("last:{baseline}"), format!("last:{candidate}")];
    let mut words = vec!["compare", &sides[0], &sides[1], "--json"];
    words.extend(more);
    let ran = Running::start(bench.linerate(&words)).wait(LIMIT);
    let comparison: Value = serde_json::from_str(&ran.check_done().stdout).unwrap();
    let judged = comparison["judged"].as_array().unwrap();
    assert!(!judged.is_empty(), "{comparison:#}");
    judged.clone()
}

fn verdict(judged: &Value) -> &str {
    judged["verdict"]["is"].as_str().unwrap()
}

/// Levels that change nothing, interleaved on a machine that is as noisy as it is: of all campaigns, at most two have
/// findings. Those of one campaign are one: throughput and the CPU time for it differ together.
#[test]
fn nothing_is_found_where_there_is_nothing() {
    let name = "nothing_is_found_where_there_is_nothing";
    let Some(count) = proofs(name) else { return };
    let Some(bench) = bench(name) else { return };
    let workloads = ["workload = 'tcp-stream'", "workload = 'udp-stream'", "workload = 'tcp-rr'"];
    let mut found = BTreeMap::new();
    let mut judged = 0;
    for number in 0..count {
        let workload = workloads[number % workloads.len()];
        let rate = if workload.contains("udp") { "rate = '100M'\n" } else { "" };
        // Nothing is left to chance in these but the order, and the seed is not that of the order.
        campaign(
            &bench,
            &format!("{workload}\nrepeat = 10\n[options]\nduration = '200ms'\n{rate}[factors]\nseed = [1, 2]\n"),
        );
        for one in compare(&bench, "seed=1", "seed=2", &[]) {
            judged += 1;
            println!("campaign {number}: {}: {}", one["metric"], verdict(&one));
            if matches!(verdict(&one), "better" | "worse") {
                found.entry(number).or_insert_with(Vec::new).push(format!("{workload}: {one}"));
            }
        }
    }
    println!("{count} campaigns, {judged} judgements, {} campaigns with findings", found.len());
    assert!(judged >= 2 * count && found.len() <= 2, "{found:#?}");
}

/// Without segments that are cut late, a larger packet is less work for each octet.
#[test]
fn a_larger_mtu_is_found_faster() {
    let name = "a_larger_mtu_is_found_faster";
    let Some(bench) = proofs(name).and_then(|_| bench(name)) else { return };
    campaign(
        &bench,
        "workload = 'tcp-stream'\nrepeat = 10\n[options]\nduration = '300ms'\nhost.mtu = 'as target.mtu'\n\
         host.tso = 'off'\nhost.gso = 'off'\n[factors]\ntarget.mtu = [1500, 9000]\n",
    );
    let judged = compare(&bench, "target.mtu=1500", "target.mtu=9000", &["--metric", "throughput"]);
    println!("{:#}", judged[0]);
    assert_eq!(verdict(&judged[0]), "better", "{judged:#?}");
}

/// Two buckets, 400 and 410 Mbit/s: 2.5 % more is found, and so is its size. A campaign beside a noisy neighbour may not tell,
/// if it says that it would not have seen so little; eleven give five that tell. An interval of 95 % misses the truth once in
/// twenty and, of those campaigns alone that tell, once in ten: at most two of five may.
#[test]
fn a_token_bucket_of_2_5_percent_more_is_found_and_so_is_its_size() {
    const TRUTH: f64 = 0.025;
    const CAMPAIGNS: u32 = 11;
    const TELL: u32 = 5;
    let name = "a_token_bucket_of_2_5_percent_more_is_found_and_so_is_its_size";
    let Some(bench) = proofs(name).and_then(|_| bench(name)) else { return };
    let [smaller, larger] = ["400M", "410M"].map(|rate| format!("tbf rate {rate} burst 128K limit 512K"));
    let (mut told, mut right) = (0, 0);
    for _ in 0..CAMPAIGNS {
        if told == TELL {
            break;
        }
        campaign(
            &bench,
            &format!(
                "workload = 'tcp-stream'\nrepeat = 10\n[options]\nduration = '300ms'\nwarmup = '100ms'\n[factors]\n\
                 host.qdisc = ['{smaller}', '{larger}']\n"
            ),
        );
        let sides = (format!("host.qdisc={smaller}"), format!("host.qdisc={larger}"));
        let judged = compare(&bench, &sides.0, &sides.1, &["--metric", "throughput"]);
        println!("{:#}", judged[0]);
        match verdict(&judged[0]) {
            "better" => {
                told += 1;
                let interval: Vec<f64> = serde_json::from_value(judged[0]["relative_interval"].clone()).unwrap();
                right += u32::from(interval[0] <= TRUTH && TRUTH <= interval[1]);
            }
            "cannot-tell" => assert!(judged[0]["detectable"].as_f64().unwrap() > TRUTH / 2.0, "{judged:#?}"),
            _ => panic!("{judged:#?}"),
        }
    }
    if told < TELL {
        eprintln!(
            "SKIPPED the size in {name}: the machine was so noisy that {told} of {CAMPAIGNS} campaigns could tell"
        );
    }
    assert!(right + 2 >= told, "{right} of {told} intervals hold 2.5 %");
}
