//! What `linerate records export --kcidb` prints, as KCIDB's own library (kcidb-io) takes it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::installed;
use crate::machines::{Bench, Running};

const LONG: Duration = Duration::from_secs(60);

/// Reads a report on standard input as a receiver of 5.3 does, and counts its tests.
const READ: &str = "import json, sys\nfrom kcidb_io.schema import V5_3\nreport = json.load(sys.stdin)\n\
                    V5_3.validate_exactly(report)\nprint(len(report['tests']))\n";

fn export(bench: &Bench, more: &[&str]) -> Command {
    let command = ["records", "export", "last", "--kcidb", "--build", "maestro:6650a1", "--origin", "mylab"];
    bench.linerate(&[&command[..], more].concat())
}

#[test]
fn a_campaign_is_a_report_that_kcidb_takes() {
    let Some(bench) = Bench::new("kcidb") else { return };
    let plan = bench.folder.path("bring-up.toml");
    fs::write(
        &plan,
        "format = 'linerate.plan/1'\nworkload = 'udp-stream'\nrepeat = 2\nexpect = ['throughput > 1M', 'loss < 90% with \
         rate=20M', 'throughput > 1G with rate=20M']\n[options]\nduration = '100ms'\nwarmup = '0s'\n[factors]\nrate = '10M,20M'\n",
    )
    .unwrap();
    assert_eq!(bench.run(&plan, &["--quiet"], LONG).status.code(), Some(1), "an expectation is not met");
    let ran = Running::start(export(&bench, &[])).wait(LONG);
    ran.check_done();
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let tests = report["tests"].as_array().unwrap();
    let status = |rate: &str, metric: &str| {
        let is = |test: &&Value| {
            test["path"] == format!("linerate.udp_stream.rx.{metric}").as_str()
                && test["misc"]["configuration"] == format!("rate={rate}").as_str()
        };
        let found: Vec<&Value> = tests.iter().filter(is).collect();
        assert_eq!(found.len(), 1, "{rate} {metric}: {tests:#?}");
        found[0]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status("10M", "throughput"), "PASS");
    assert_eq!(status("20M", "throughput"), "FAIL");
    assert_eq!((status("20M", "loss"), status("10M", "loss")), ("PASS".to_owned(), "DONE".to_owned()));

    // The store has one campaign: the same at the next export.
    let again = Running::start(export(&bench, &[])).wait(LONG);
    assert_eq!(again.stdout, ran.stdout);

    for (build, origin, part) in
        [("6650a1", "mylab", "--build"), ("maestro:6650a1", "My Lab", "--origin"), ("maestro:6650a1", "mylab", "")]
    {
        let words = ["records", "export", "--kcidb", "--build", build, "--origin", origin];
        let ran = Running::start(bench.linerate(&words)).wait(LONG);
        match part {
            "" => drop(ran.check_done()),
            part => drop(ran.check_sentence(&[part, "KCIDB has"])),
        }
    }

    let Some(python) = installed("kcidb-io", "readers", "readers/bin/python3") else { return };
    let mut command = Command::new("/bin/sh");
    fs::write(bench.folder.path("report.json"), &ran.stdout).unwrap();
    let script = format!("'{}' -c \"$1\" < report.json", python.display());
    command.args(["-c", &script, "sh", READ]).current_dir(&bench.folder.0);
    let read = Running::start(command).wait(LONG);
    assert_eq!(read.stdout.trim(), tests.len().to_string(), "{read:#?}");

    // It would say so: a status of our own, and a null.
    for (from, to) in [("\"PASS\"", "\"OK\""), ("\"prefix\":\"metric\"", "\"prefix\":null")] {
        fs::write(bench.folder.path("report.json"), ran.stdout.replace(from, to)).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script, "sh", READ]).current_dir(&bench.folder.0);
        assert_ne!(Running::start(command).wait(LONG).status.code(), Some(0), "{to}");
    }
}
