//! The commands of docs/cookbook.md, each as it stands there, between two namespaces and with shorter trials. What needs
//! a board's driver runs on emulated boards (boards.rs).

mod machines;

use linerate_lab::{Forwards, MiddleLab, Privilege, privilege};
use machines::Bench;
use machines::cookbook::{Ends, recipes};

#[track_caller]
fn check(report: u32) {
    let name = format!("report_{report}");
    let Some(bench) = Bench::new(&name) else { return };
    let ends =
        Ends { board: bench.target(), host: Some(bench.host()), middle: None, duration: "200ms", variable: None };
    let all = recipes(report);
    let shown: usize = all
        .iter()
        .filter(|one| !one.notes.iter().any(|note| note.starts_with("file ")))
        .map(|one| one.commands().len())
        .sum();
    assert!((1..=3).contains(&shown), "report {report} is redone by {shown} commands");
    for recipe in all {
        if recipe.says("board") {
            eprintln!("SKIPPED a part of {name}: it needs a board's driver; boards.rs runs it");
            continue;
        }
        recipe.run(&bench, &ends);
    }
    bench.check_quiet();
}

#[test]
fn report_1() {
    check(1);
}

#[test]
fn report_2() {
    check(2);
}

#[test]
fn report_3() {
    check(3);
}

#[test]
fn report_4() {
    check(4);
}

/// The board is between the two ends there, and an agent observes it.
#[test]
fn report_5() {
    let has = |tool: &str| std::process::Command::new(tool).arg("--version").output().is_ok();
    if privilege() != Privilege::Root || !has("nsenter") {
        eprintln!("SKIPPED report_5: it needs root");
        return;
    }
    let (bench, lab) = (Bench::bare("report_5"), MiddleLab::up(Forwards::Bridge).expect("three machines"));
    let [target, host, middle] =
        [lab.target.path(), lab.host.path(), lab.middle.path()].map(|path| format!("netns:{}", path.display()));
    let ends = Ends { board: target, host: Some(host), middle: Some(middle), duration: "200ms", variable: None };
    let all = recipes(5);
    let shown: usize = all.iter().map(|one| one.commands().len()).sum();
    assert!((1..=3).contains(&shown), "report 5 is redone by {shown} commands");
    all.iter().for_each(|recipe| recipe.run(&bench, &ends));
}
