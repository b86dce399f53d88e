//! `git bisect run` finds the commit that made something slow, with nothing between git and linerate but a line of shell.
//! Knows which commit it is.

mod machines;

use std::fs;
use std::process::Command;
use std::time::Duration;

use linerate_lab::Shape;
use machines::{Bench, Ran, Running};

const LIMIT: Duration = Duration::from_secs(120);

/// What each commit says of how fast the link may be, so far apart that a busy machine does not hide it; `broken` is none. Of eight after the first, one is in the middle.
const COMMITS: [&str; 9] = ["10M", "10M", "10M", "10M", "broken", "10M", "3M", "3M", "3M"];
const SLOW: usize = 6;

/// A repository with these commits, and what measures one of them.
struct Repository<'b> {
    bench: &'b Bench,
    path: String,
}

impl Repository<'_> {
    fn git(&self, words: &[&str]) -> Command {
        let mut command = Command::new("git");
        self.bench.dress(&mut command);
        let identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"];
        command.args(["-C", &self.path]).args(identity).args(words);
        // Nothing of whoever runs this test.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command
    }

    #[track_caller]
    fn done(&self, words: &[&str]) -> Ran {
        let ran = Running::start(self.git(words)).wait(LIMIT);
        ran.check_done();
        ran
    }
}

#[test]
fn git_bisect_run_finds_the_commit_that_slowed_things_down() {
    let name = "git_bisect_run_finds_the_commit_that_slowed_things_down";
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("SKIPPED {name}: there is no git");
        return;
    }
    let Some(bench) = Bench::of(name, &Shape::unshaped()) else { return };
    let repository = Repository { bench: &bench, path: bench.folder.path("repository") };
    fs::create_dir(&repository.path).unwrap();
    repository.done(&["init", "--quiet"]);
    for (number, rate) in COMMITS.iter().enumerate() {
        fs::write(format!("{}/rate", repository.path), rate).unwrap();
        fs::write(format!("{}/number", repository.path), number.to_string()).unwrap();
        repository.done(&["add", "."]);
        repository.done(&["commit", "--quiet", "--message", &format!("commit {number}: {rate}")]);
    }
    let commit = |number: usize| {
        let name = format!("HEAD~{}", COMMITS.len() - 1 - number);
        repository.done(&["rev-parse", &name]).stdout.trim().to_owned()
    };
    let [first, slow, last] = [0, SLOW, COMMITS.len() - 1].map(commit);

    let plan = bench.folder.path("plan.toml");
    let text = "format = \"linerate.plan/1\"\nname = \"port\"\nworkload = \"tcp-stream\"\nrepeat = 6\n[options]\n\
                duration = \"200ms\"\nwarmup = \"100ms\"\n";
    fs::write(&plan, text).unwrap();
    let linerate = env!("CARGO_BIN_EXE_linerate");
    let run = format!(
        "{linerate} run {plan} --target {} --host {} --quiet --set \"host.qdisc=tbf rate $(cat rate) burst 16K limit 64K\"",
        bench.target(),
        bench.host()
    );
    // The good one, as whoever looks for the bad one has it already.
    repository.done(&["checkout", "--quiet", &first]);
    let mut command = Command::new("/bin/sh");
    bench.dress(&mut command);
    command.args(["-c", &run]).current_dir(&repository.path);
    Running::start(command).wait(LIMIT).check_done();
    let baseline = bench.records()[0].campaign.clone();

    let start = repository.done(&["bisect", "start", &last, &first]);
    assert!(start.stdout.contains("commit 4: broken"), "in the middle, so it is looked at first: {start:#?}");
    // A commit that cannot be measured is none that can be judged.
    let script = format!(
        "{run} > /dev/null || exit 125; {linerate} compare {baseline} last --fail-if 'throughput worse 40%' --bisect"
    );
    let ran = repository.done(&["bisect", "run", "sh", "-c", &script]);
    assert!(ran.stdout.contains(&format!("{slow} is the first bad commit")), "{ran:#?}");
    repository.done(&["bisect", "reset"]);
    let campaigns: std::collections::BTreeSet<String> =
        bench.records().iter().map(|record| record.campaign.clone()).collect();
    assert!(campaigns.len() < COMMITS.len(), "bisecting takes fewer looks than there are commits: {campaigns:?}");
}
