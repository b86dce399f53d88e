//! Plans, records and stores of somebody else: what is looked at runs none of their programs.
//! Knows no traffic.

mod machines;

use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_results::store::{Campaign, Store};
use linerate_results::{id, sample};
use machines::{Bench, Running};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_dry_run_names_a_plans_programs_and_runs_none() {
    let bench = Bench::bare("theirs-dry");
    let [got, set, file] = ["got", "set", "file"].map(|name| bench.folder.path(name));
    let plan = bench.folder.path("theirs.toml");
    let text = format!(
        "format = 'linerate.plan/1'\nworkload = 'tcp-rr'\n[options]\nduration = '1s'\n[factors]\n\
         target.custom.x = ['1', '2']\nhost.custom.y = ['1']\n\
         [custom.x]\nget = ['touch', '{got}']\nset = ['touch', '{set}', '{{value}}']\n[custom.y]\nfile = '{file}'\n"
    );
    fs::write(&plan, text).unwrap();
    let run = ["run", plan.as_str(), "--target", "local", "--host", "local", "--dry-run"];
    let ran = Running::start(bench.linerate(&run)).wait(SOON);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(!Path::new(&got).exists() && !Path::new(&set).exists(), "a dry run has run a program: {ran:?}");
    for part in [
        format!("target.custom.x: read by touch {got}, set by touch {set} {{value}}"),
        format!("host.custom.y: read by the file {file}, set by the file {file}"),
    ] {
        assert!(ran.stdout.contains(&part), "'{part}' is missing: {ran:?}");
    }
    let ran = Running::start(bench.linerate(&[&run[..], &["--csv"]].concat())).wait(SOON);
    assert!(ran.stderr.contains("target.custom.x: read by touch"), "{ran:?}");
}

#[test]
fn a_record_starts_no_program() {
    let bench = Bench::bare("theirs-record");
    let path = bench.folder.path("theirs.sqlite");
    let ran_it = bench.folder.path("ran");
    let mut store = Store::open(path.as_ref()).unwrap();
    let case = linerate_results::findings::cases::cases().into_iter().find(|case| case.name.starts_with("fec: FIFO"));
    for (at, place) in [0, 1].into_iter().enumerate() {
        let mut record = case.as_ref().unwrap().record.clone();
        (record.id, record.trial.index) = (id::id(1_795_230_000_000 + at as u64, [3; 10]), at as u32);
        let machine = if place == 0 { &mut record.target } else { &mut record.host };
        machine.endpoint = format!("exec:touch {ran_it}");
        store.insert(&record).unwrap();
    }
    drop(store);
    for at in 0..2 {
        let one = id::id(1_795_230_000_000 + at, [3; 10]);
        let arguments = ["explain", one.as_str(), "--try", "--store", &path];
        let ran = Running::start(bench.linerate(&arguments)).wait(SOON);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        assert!(!Path::new(&ran_it).exists(), "the record's command has run: {ran:?}");
        assert!(ran.stderr.contains("--allow-exec"), "{ran:?}");
    }
    // The other machine of the first is this one, which it may be.
    let one = id::id(1_795_230_000_000, [3; 10]);
    let ran = Running::start(bench.linerate(&["explain", &one, "--try", "--allow-exec", "--store", &path])).wait(SOON);
    assert!(Path::new(&ran_it).exists() && ran.stderr.contains("exec:touch"), "{ran:?}");
}

#[test]
fn what_is_resumed_has_the_programs_of_the_plan_that_is_named() {
    let bench = Bench::bare("theirs-resume");
    let path = bench.folder.path("theirs.sqlite");
    let ran_it = bench.folder.path("ran");
    let theirs = format!(
        "format = 'linerate.plan/1'\nname = 'mine'\nworkload = 'tcp-rr'\n[options]\nduration = '1s'\n[factors]\n\
         target.custom.x = ['1', '2']\n[custom.x]\nget = ['touch', '{ran_it}']\nset = ['touch', '{ran_it}']\n"
    );
    let mine = bench.folder.path("mine.toml");
    fs::write(&mine, "format = 'linerate.plan/1'\nname = 'mine'\nworkload = 'tcp-rr'\n[options]\nduration = '1s'\n")
        .unwrap();
    let mut store = Store::open(path.as_ref()).unwrap();
    let plan_text =
        serde_json::json!({"name": "mine", "source": theirs, "overrides": [], "repeat": null, "seed": null});
    store
        .campaign_begin(&Campaign {
            id: sample::failed(0).campaign,
            plan: "mine".to_owned(),
            plan_text: plan_text.to_string(),
            target: "local".to_owned(),
            host: "local".to_owned(),
            started_at: "2026-11-21T03:00:00Z".to_owned(),
            planned: 2,
            finished_at: None,
        })
        .unwrap();
    drop(store);
    let arguments = ["run", mine.as_str(), "--target", "local", "--host", "local", "--resume", "--store", &path];
    let ran = Running::start(bench.linerate(&arguments)).wait(SOON);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(!Path::new(&ran_it).exists(), "the store's program has run: {ran:?}");
    assert!(ran.stderr.contains("other programs"), "{ran:?}");
}
