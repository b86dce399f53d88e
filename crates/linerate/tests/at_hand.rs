//! What is at hand: records by the words that pick them, what is taken where the command line says nothing, completions.
//! Knows no traffic: records are made up, and machines are not there.

mod machines;

use std::fs;
use std::process::Command;
use std::time::Duration;

use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_results::store::{Campaign, Store};
use linerate_results::{id, sample};
use machines::{Bench, Ran, Running};

/// Nothing here has to wait for anything.
const SOON: Duration = Duration::from_secs(10);
/// Between the campaigns that are made up.
const HOUR: u64 = 3_600_000;

/// Two campaigns, an hour apart: `tcp` of two records each way, and `udp-sweep` of three rates.
fn fill(bench: &Bench) {
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    let mut store = Store::open(&bench.store_path()).unwrap();
    let directions = [Direction::Rx, Direction::Tx, Direction::Rx, Direction::Tx];
    let tcp: Vec<Record> =
        (0..).zip(directions).map(|(at, direction)| sample::tcp(at, direction, 900.0, false)).collect();
    let udp: Vec<Record> = (0..3).map(|at| sample::udp(at, Direction::Tx, 100 * (at + 1), 90.0)).collect();
    for (number, plan, records) in [(1, "tcp", tcp), (2, "udp-sweep", udp)] {
        let campaign = id::id(number * HOUR, [0; 10]);
        for (at, mut record) in (1..).zip(records) {
            record.id = id::id(number * HOUR + at * 10_000, [1; 10]);
            (record.campaign, record.plan) = (campaign.clone(), plan.to_owned());
            store.insert(&record).unwrap();
        }
        let begun = Campaign {
            id: campaign,
            plan: plan.to_owned(),
            plan_text: String::new(),
            target: "root@board".to_owned(),
            host: "local".to_owned(),
            started_at: format!("2026-11-21T0{number}:00:00Z"),
            planned: 4,
            finished_at: None,
        };
        store.campaign_begin(&begun).unwrap();
    }
}

fn linerate(bench: &Bench, arguments: &[&str]) -> Ran {
    Running::start(bench.linerate(arguments)).wait(SOON)
}

/// How many records the words pick, as `records export` says.
#[track_caller]
fn check_picks(bench: &Bench, words: &str, count: usize) {
    let ran = linerate(bench, &["records", "export", words, "--json"]);
    assert_eq!(ran.check_done().json().len(), count, "{words}");
    let listed = linerate(bench, &["records", "list", words, "--csv"]);
    assert_eq!(listed.check_done().stdout.lines().count(), count + 1, "{words}: {listed:?}");
}

#[test]
fn the_same_words_pick_records_in_every_command() {
    let bench = Bench::bare("words");
    fill(&bench);
    check_picks(&bench, "last", 3);
    check_picks(&bench, "last~1", 4);
    check_picks(&bench, "tcp", 4);
    check_picks(&bench, "last~1:direction=tx", 2);
    check_picks(&bench, "last:rate=200M", 1);
    check_picks(&bench, "last:rate=200000K", 1);
    check_picks(&bench, ":direction=tx", 5);
    check_picks(&bench, &id::id(HOUR, [0; 10])[..8].to_lowercase(), 4);
    check_picks(&bench, &id::id(HOUR + 10_000, [1; 10])[..10], 1);

    let shown = |words: &[&str]| {
        let ran = linerate(&bench, &[&["records", "show", "--json"], words].concat());
        let record = ran.check_done().json().remove(0);
        (record["trial"]["factors"].clone(), ran.stderr)
    };
    let (factors, note) = shown(&[]);
    assert_eq!(factors["rate"], "300M");
    for part in ["'last' picks 3 records, and this is the newest", "'last:rate=200M'"] {
        assert!(note.contains(part), "{note}");
    }
    let (factors, note) = shown(&["last:rate=100M"]);
    assert_eq!((factors["rate"].as_str(), note.as_str()), (Some("100M"), ""));
    let explained = linerate(&bench, &["explain", "last~1:direction=rx"]);
    assert!(explained.check_done().stdout.contains("tcp-stream rx"), "{explained:?}");
    linerate(&bench, &["compare", "last:rate=100M", "last:rate=200M", "--json"]).check_done();
    for command in [&["explain"][..], &["records", "show"], &["records", "list"], &["cost"], &["history", "throughput"]]
    {
        let refused = |words: &str, parts: &[&str]| {
            linerate(&bench, &[command, &[words]].concat()).check_sentence(parts);
        };
        refused("last:rate=7M", &["'last:rate=7M' picks no records: none has rate=7M; choose from 100M, 200M, 300M"]);
        refused("last:mtu=1500", &["none has a mtu; their factors are "]);
        refused("last:target=local", &["none has a target; did you mean target.endpoint=local?"]);
        refused("last~2", &["there is no last~2: there are 2 campaigns with records"]);
        refused("zebra", &["no campaign, record or plan 'zebra'"]);
        refused("0", &["2 campaigns begin with '0': ", "(tcp)", "(udp-sweep)", "give more of it"]);
    }
    linerate(&bench, &["cost", ":direction=tx"]).check_sentence(&["several campaigns"]);
    let listed = linerate(&bench, &["records", "campaigns"]);
    for part in ["4/4", "3/4", "direction×2", "rate×3", "root@board", "11-21 01:00"] {
        assert!(listed.check_done().stdout.contains(part), "{part}: {}", listed.stdout);
    }
    assert_eq!(linerate(&bench, &["records", "campaigns", "--plan", "tcp", "--json"]).json()[0]["done"], 4);
}

/// Runs a plan in this folder, and sees which target it was for, or what it was refused for.
#[track_caller]
fn check_target(bench: &Bench, folder: &str, words: &[&str], environment: &[(&str, &str)], parts: &[&str]) {
    let mut command = bench.linerate(&[&["run"], words].concat());
    command.current_dir(folder).envs(environment.iter().copied());
    Running::start(command).wait(SOON).check_sentence(parts);
}

#[test]
fn what_is_not_said_has_defaults() {
    let bench = Bench::bare("defaults");
    let (here, beside) = (bench.folder.path("here"), bench.folder.path("beside"));
    [&here, &beside].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let plan = format!("{beside}/mine.toml");
    fs::write(&plan, "format = \"linerate.plan/1\"\nworkload = \"tcp-rr\"\n").unwrap();
    let check = |words: &[&str], environment: &[(&str, &str)], parts: &[&str]| {
        check_target(&bench, &here, words, environment, parts);
    };
    let variable = [("LINERATE_TARGET", "netns:variable")];
    check(
        &["tcp"],
        &[],
        &["which machine is the target?", "--target", "LINERATE_TARGET", "linerate.toml", "board:NAME"],
    );
    fs::write(format!("{here}/linerate.toml"), "# ours\ntarget = \"netns:here\"\n").unwrap();
    check(&["tcp"], &[], &["the target (netns:here)"]);
    check(&[&plan], &[], &["the target (netns:here)"]);
    let of_beside = |store: &str| {
        let text = format!("target = \"netns:beside\"\nstore = \"{store}\"\n");
        fs::write(format!("{beside}/linerate.toml"), text).unwrap();
    };
    // A path is of the file's folder.
    of_beside("gone/own.sqlite");
    check(&[&plan], &[], &[&format!("there is no folder {beside}/gone for the store")]);
    of_beside("own.sqlite");
    check(&[&plan], &[], &["the target (netns:beside)"]);
    check(&["tcp"], &[], &["the target (netns:here)"]);
    check(&[&plan], &variable, &["the target (netns:variable)"]);
    check(&[&plan, "--target", "netns:line"], &variable, &["the target (netns:line)"]);
    check(&["tcp"], &[("LINERATE_TARGET", "a b")], &["LINERATE_TARGET: 'a b' is not an endpoint"]);
    check(&["tcp"], &[("LINERATE_TARGET", "")], &["the target (netns:here)"]);
    let store = bench.folder.path("elsewhere/its.sqlite");
    check(&["tcp"], &[("LINERATE_STORE", &store)], &["there is no folder", "elsewhere"]);

    let file = |text: &str, parts: &[&str]| {
        fs::write(format!("{here}/linerate.toml"), text).unwrap();
        check(&["tcp"], &[], parts);
        let mut command = bench.linerate(&["records", "list"]);
        command.current_dir(&here);
        Running::start(command).wait(SOON).check_sentence(parts);
    };
    file("\ntraget = \"local\"\n", &["linerate.toml:2: there is no 'traget' here; did you mean 'target'?", "psk_file"]);
    file("target = 5\n", &["linerate.toml:1: target is a text in quotes"]);
    file("target = \"a b\"\n", &["linerate.toml:1: 'a b' is not an endpoint"]);
    file("host = \"local\"\ntarget = local\n", &["linerate.toml:2: this is not TOML"]);
    // Whose file it is, nobody knows.
    let ran_it = bench.folder.path("ran");
    for key in ["target", "host"] {
        let option = format!("--{key}");
        file(&format!("{key} = \"exec:touch {ran_it}\"\n"), &["linerate.toml:1: exec: is not followed", &option]);
    }
    assert!(!fs::exists(&ran_it).unwrap());
    // Who does not measure is not held up.
    let mut command = bench.linerate(&["plans"]);
    command.current_dir(&here);
    Running::start(command).wait(SOON).check_done();
}

/// What could follow these words.
fn completed(bench: &Bench, words: &[&str]) -> Vec<String> {
    let mut command = bench.linerate(&[]);
    command.env("LINERATE_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).args(["--", "linerate"]).args(words);
    Running::start(command).wait(SOON).check_done().stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_is_told_what_could_follow() {
    let bench = Bench::bare("completions");
    let check = |words: &[&str], want: &[&str]| {
        let found = completed(&bench, words);
        for one in want {
            assert!(found.iter().any(|other| other == one), "{words:?}: {one} is missing: {found:?}");
        }
        let begun = words.last().unwrap();
        assert!(found.iter().all(|one| one.starts_with(begun)), "{words:?}: {found:?}");
    };
    check(&["rec"], &["records"]);
    check(&["run", "udp-"], &["udp-sweep", "udp-stream", "udp-rr"]);
    check(&["run", "tcp", "--set", "dur"], &["duration="]);
    check(&["run", "tcp", "--set", "direction="], &["direction=tx", "direction=rx", "direction=both"]);
    check(&["run", "tcp", "--set", "direction=tx,"], &["direction=tx,rx"]);
    check(&["run", "tcp", "--set", "target.gr"], &["target.gro="]);
    check(&["run", "tcp", "--set", "target.gro="], &["target.gro=on", "target.gro=off"]);
    check(&["run", "tcp", "--target", "board:"], &["board:sabrelite"]);
    check(&["run", "tcp", "--target", "iperf"], &["iperf3:", "iperf2:"]);
    check(&["target", "local", "set", "mt"], &["mtu="]);
    check(&["lab", "up", "sab"], &["sabrelite"]);
    check(&["history", "thr"], &["throughput"]);
    check(&["compare", "last", "last", "--metric", "lo"], &["loss"]);
    check(&["explain", "--finding", "receive"], &["receive-ring"]);
    assert_eq!(completed(&bench, &["explain", "l"]), [""; 0], "there is no store yet");
    fill(&bench);
    check(&["explain", "l"], &["last", "last~1"]);
    check(&["compare", "ud"], &["udp-sweep"]);
    check(&["records", "list", "last:"], &["last:rate=", "last:direction="]);
    check(&["records", "list", "last:rate="], &["last:rate=100M", "last:rate=300M"]);
    check(&["records", "list", "last:direction=tx,ra"], &["last:direction=tx,rate="]);
    let ids = completed(&bench, &["records", "show", "0"]);
    assert_eq!(ids.len(), 2, "{ids:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = linerate(&bench, &["completions", shell]);
        assert!(script.check_done().stdout.contains("LINERATE_COMPLETE"), "{shell}: {script:?}");
    }
}

/// Bash cuts words at `=` and `:`; what comes back is what it puts behind the last cut.
#[test]
fn bash_completes_behind_a_sign_of_equality() {
    if Command::new("bash").arg("--version").output().is_err() {
        eprintln!("SKIPPED bash_completes_behind_a_sign_of_equality: there is no bash");
        return;
    }
    let bench = Bench::bare("bash");
    let script = bench.folder.path("complete.bash");
    fs::write(&script, linerate(&bench, &["completions", "bash"]).stdout).unwrap();
    let check = |line: &str, cut: &str, want: &str| {
        let ask = format!(
            "source {script}; COMP_LINE='{line}'; COMP_WORDS=({cut}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); \
             cur=\"${{COMP_WORDS[-1]}}\"; [[ $cur == [=:] ]] && cur=; _linerate linerate \"$cur\" x 2> /dev/null; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let mut command = Command::new("bash");
        bench.dress(&mut command);
        command.args(["--norc", "-c", &ask]);
        let ran = Running::start(command).wait(SOON);
        assert_eq!(ran.check_done().stdout.trim(), want, "{line}: {ran:?}");
    };
    check("linerate run udp-sw", "linerate run udp-sw", "udp-sweep");
    check("linerate run tcp --set direction=", "linerate run tcp --set direction =", "tx rx both");
    check("linerate run tcp --set direction=r", "linerate run tcp --set direction = r", "rx");
    check("linerate run tcp --target board:sab", "linerate run tcp --target board : sab", "sabrelite sabrelite-bare");
    check("linerate lab up sabre", "linerate lab up sabre", "sabrelite sabrelite-bare");
}
