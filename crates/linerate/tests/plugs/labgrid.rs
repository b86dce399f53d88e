//! A labgrid place as an endpoint: with labgrid itself, and with a program that prints what labgrid-client 26 does.
//! Knows no figures: that a trial has one is enough here.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::installed;
use crate::machines::sshd::{Helper, Sshd};
use crate::machines::{Bench, Ran, Running};

const LONG: Duration = Duration::from_secs(60);
const IN_TIME: Duration = Duration::from_secs(20);
const QUICK: [&str; 6] = ["--set", "duration=200ms", "--set", "warmup=0s", "--set", "rate=20M"];
const ENDLESS: [&str; 6] = ["--set", "duration=60s", "--set", "warmup=0s", "--set", "rate=20M"];

/// labgrid-client, of places that are files with their holder in them.
const FAKE: &str = r#"#!/bin/sh
cd "$(dirname "$0")/../places" || exit 1
echo "$*${LG_PLACE:+ of $LG_PLACE}" >>../calls
fail() { echo "labgrid-client: Error: $1" >&2; exit 1; }
place=$LG_PLACE
if [ "$1" = -p ]; then place=$2; shift 2; fi
case $place in +*) [ -e "../allocated" ] || fail "reservation token ${place#+} matches nothing"; place=$(cat ../allocated);; esac
case $1 in
acquire)
  [ -e "$place" ] || fail "place pattern $place matches nothing"
  case $(cat "$place") in
  "") echo us >"$place"; echo "acquired place $place";;
  us) fail "You have already acquired place $place.";;
  *) fail "Place $place is already acquired by $(cat "$place"). To work simultaneously, ask.";;
  esac;;
release) [ -s "$place" ] || fail "place $place is not acquired"; : >"$place"; echo "released place $place";;
show)
  echo "Place '$place':"
  echo "Acquired resource 'power' (lab/$place/NetworkPowerPort/power):"
  echo "  {'cls': 'NetworkPowerPort', 'params': {'host': 'pdu'}}"
  echo "Acquired resource 'target' (lab/$place/NetworkService/target):"
  echo "  {'acquired': '$place',"
  echo "   'cls': 'NetworkService',"
  echo "   'params': {'address': '127.0.0.1', 'extra': {'proxy': 'x', 'proxy_required': False},"
  echo "              'port': $(cat ../port), 'username': 'root'}}";;
reserve) echo "export LG_TOKEN=T0KEN";;
wait) while [ ! -e ../allocated ]; do sleep 0.1; done;;
cancel-reservation|power) ;;
*) fail "no such command";;
esac
"#;

/// A bench with places of a lab, of which each reaches the same sshd.
struct Labgrid {
    bench: Bench,
    sshd: Sshd,
    agent: String,
    path: String,
}

impl Labgrid {
    fn new(name: &str, places: &[&str]) -> Option<Labgrid> {
        let bench = Bench::new(name)?;
        let sshd = Sshd::start(&bench)?;
        let folder = |name: &str| bench.folder.0.join(name);
        fs::create_dir(folder("places")).unwrap();
        places.iter().for_each(|place| fs::write(folder("places").join(place), "").unwrap());
        fs::write(folder("port"), sshd.port.to_string()).unwrap();
        let program = folder("bin").join("labgrid-client");
        fs::write(&program, FAKE).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let agent = agent(&bench);
        let path = sshd.path.clone();
        Some(Labgrid { bench, sshd, agent, path })
    }

    fn start(&self, target: &str, host: &str, more: &[&str]) -> Running {
        let words = ["run", "udp-stream", "--target", target, "--host", host, "--json", "--remote-agent", &self.agent];
        let mut command = self.bench.linerate(&[&words[..], more].concat());
        command.env("PATH", &self.path);
        Running::start(command)
    }

    fn run(&self, target: &str, more: &[&str]) -> Ran {
        self.start(target, &self.bench.host(), more).wait(LONG)
    }

    /// What labgrid-client was asked, and forgets it.
    fn calls(&self) -> Vec<String> {
        let file = self.bench.folder.0.join("calls");
        let calls = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(file);
        calls.lines().map(str::to_owned).collect()
    }

    fn place(&self, name: &str) -> PathBuf {
        self.bench.folder.0.join("places").join(name)
    }

    fn holder(&self, name: &str) -> String {
        fs::read_to_string(self.place(name)).unwrap().trim().to_owned()
    }

    /// Sees that the place is free, and that nobody keeps it.
    #[track_caller]
    fn check_released(&self, name: &str, limit: Duration) {
        self.bench.wait_until("the place is released", limit, || self.holder(name).is_empty());
        self.bench.check_nothing_runs_but(&["/usr/sbin/sshd", "sshd:"], IN_TIME);
        self.bench.check_quiet();
    }
}

/// An agent that works in the target's namespace, by a name in the test's folder.
fn agent(bench: &Bench) -> String {
    let name = bench.folder.path("linerate-agent");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linerate"), &name).unwrap();
    format!("{name} agent --netns {}", bench.lab().target.path().display())
}

#[track_caller]
fn check_measured(ran: &Ran) {
    ran.check_done();
    assert!(ran.json()[0]["result"]["throughput_bps"].as_f64().unwrap() > 0.0, "{ran:#?}");
}

#[test]
fn a_place_is_acquired_before_and_released_in_every_end() {
    let Some(lab) = Labgrid::new("labgrid", &["imx6"]) else { return };
    let ran = lab.run("labgrid:imx6", &QUICK);
    check_measured(&ran);
    assert_eq!(ran.json()[0]["target"]["endpoint"], "labgrid:imx6");
    assert_eq!(lab.calls(), ["-p imx6 acquire", "-p imx6 show", "-p imx6 release"]);
    lab.check_released("imx6", Duration::ZERO);

    // Ctrl-C, and a kill that nobody can hear.
    for (name, limit) in [("INT", Duration::from_millis(100)), ("KILL", Duration::from_secs(10))] {
        let running = lab.start("labgrid:imx6,target", &lab.bench.host(), &ENDLESS);
        lab.bench.wait_for_traffic(500);
        assert_eq!(lab.holder("imx6"), "us");
        running.signal(name);
        let ran = running.wait(LONG);
        assert_eq!(ran.status.code(), (name == "INT").then_some(130), "{ran:#?}");
        lab.check_released("imx6", limit);
    }
    lab.calls();

    // What its user has acquired by hand stays so.
    fs::write(lab.place("imx6"), "us\n").unwrap();
    check_measured(&lab.run("labgrid:imx6", &QUICK));
    assert_eq!(lab.calls(), ["-p imx6 acquire", "-p imx6 show"]);
    assert_eq!(lab.holder("imx6"), "us");
    fs::write(lab.place("imx6"), "pc/ann\n").unwrap();
    let parts = ["the target (labgrid:imx6) cannot be reached", "already acquired by pc/ann", "labgrid-client who"];
    lab.run("labgrid:imx6", &QUICK).check_sentence(&parts);
    assert_eq!(lab.holder("imx6"), "pc/ann");
    lab.run("labgrid:nosuch", &QUICK).check_sentence(&["labgrid:nosuch", "matches nothing"]);

    // A machine that is not there: the place is given back all the same.
    fs::write(lab.place("imx6"), "").unwrap();
    lab.run("labgrid:imx6,lamp", &QUICK).check_sentence(&["has no NetworkService 'lamp'; it has target"]);
    lab.check_released("imx6", Duration::ZERO);
    fs::remove_file(lab.bench.folder.0.join("bin/labgrid-client")).unwrap();
    lab.run("labgrid:imx6", &QUICK).check_sentence(&["labgrid-client was not found here", "pip install labgrid"]);
    drop(lab.sshd);
}

#[test]
fn two_places_in_one_order_or_none() {
    let Some(lab) = Labgrid::new("labgrid-two", &["a", "b"]) else { return };
    // Both are the same machine here, which is for the trial to refuse or not: the order is what counts.
    lab.start("labgrid:b", "labgrid:a", &QUICK).wait(LONG);
    let acquired: Vec<String> = lab.calls().into_iter().filter(|call| call.ends_with(" acquire")).collect();
    assert_eq!(acquired, ["-p a acquire", "-p b acquire"]);
    lab.check_released("a", Duration::ZERO);
    lab.check_released("b", Duration::ZERO);

    fs::write(lab.place("b"), "pc/ann").unwrap();
    lab.start("labgrid:b", "labgrid:a", &QUICK).wait(LONG).check_sentence(&["(labgrid:b)", "acquired by pc/ann"]);
    assert_eq!((lab.holder("a"), lab.holder("b")), (String::new(), "pc/ann".to_owned()));

    // One place with both machines is acquired once.
    fs::write(lab.place("b"), "").unwrap();
    lab.calls();
    lab.start("labgrid:b,target", "labgrid:b", &QUICK).wait(LONG);
    assert_eq!(lab.calls(), ["-p b acquire", "-p b show", "-p b release"]);
}

#[test]
fn any_place_with_a_tag_is_waited_for() {
    let Some(lab) = Labgrid::new("labgrid-tag", &["imx6"]) else { return };
    let allocated = lab.bench.folder.0.join("allocated");
    let running = lab.start("labgrid:board=imx6+lab=a", &lab.bench.host(), &QUICK);
    let is_waiting =
        || fs::read_to_string(lab.bench.folder.0.join("calls")).is_ok_and(|calls| calls.contains("wait T0KEN"));
    lab.bench.wait_until("it waits", IN_TIME, is_waiting);
    fs::write(&allocated, "imx6").unwrap();
    check_measured(&running.wait(LONG));
    let wanted = [
        "reserve --shell board=imx6 lab=a",
        "wait T0KEN",
        "-p +T0KEN acquire",
        "-p imx6 show",
        "-p imx6 release",
        "cancel-reservation T0KEN",
    ];
    assert_eq!(lab.calls(), wanted);
    lab.check_released("imx6", Duration::ZERO);

    // Whoever waits no longer leaves no reservation.
    fs::remove_file(&allocated).unwrap();
    for name in ["INT", "KILL"] {
        let running = lab.start("labgrid:board=imx6", &lab.bench.host(), &QUICK);
        lab.bench.wait_until("it waits", IN_TIME, is_waiting);
        running.signal(name);
        running.wait(IN_TIME);
        let mut calls = Vec::new();
        lab.bench.wait_until("the reservation is cancelled", IN_TIME, || {
            calls.extend(lab.calls());
            calls.last().is_some_and(|call| call == "cancel-reservation T0KEN")
        });
        lab.bench.check_nothing_runs_but(&["/usr/sbin/sshd", "sshd:"], IN_TIME);
    }
}

#[test]
fn a_boot_command_knows_its_place() {
    let Some(lab) = Labgrid::new("labgrid-boot", &["imx6"]) else { return };
    let plan = lab.bench.folder.path("boot.toml");
    fs::write(
        &plan,
        "format = 'linerate.plan/1'\nworkload = 'udp-stream'\n[options]\nduration = '100ms'\n[factors]\ntarget.boot = \
         ['cycled']\n[boot.cycled]\ncommand = 'labgrid-client power cycle'\nwait = '2s'\n",
    )
    .unwrap();
    let mut command = lab.bench.linerate(&["run", &plan, "--target", "labgrid:imx6", "--host", &lab.bench.host()]);
    command.args(["--remote-agent", &lab.agent]).env("PATH", &lab.path);
    // Nothing reboots here, which is what it says; the place was held meanwhile, and is released.
    let ran = Running::start(command).wait(LONG);
    assert!(ran.stderr.contains("boot.cycled"), "{ran:#?}");
    assert_eq!(lab.calls(), ["-p imx6 acquire", "-p imx6 show", "power cycle of imx6", "-p imx6 release"]);
    lab.check_released("imx6", Duration::ZERO);
}

/// labgrid's own coordinator, exporter and client.
#[test]
fn labgrid_itself() {
    let Some(client) = installed("labgrid", "labgrid", "labgrid/bin/labgrid-client") else { return };
    let Some(bench) = Bench::new("labgrid-itself") else { return };
    let Some(sshd) = Sshd::start(&bench) else { return };
    let programs = client.parent().unwrap().to_owned();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let exported =
        format!("bench:\n  NetworkService:\n    address: 127.0.0.1\n    port: {}\n    username: root\n", sshd.port);
    let resources = bench.folder.path("exporter.yaml");
    fs::write(&resources, exported).unwrap();
    let path = format!("{}:{}", sshd.path, programs.display());
    let start = |words: &[&str]| {
        let mut command = Command::new(programs.join(words[0]));
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // labgrid's coordinator keeps its places where it is started.
        command.current_dir(&bench.folder.0).env("LG_COORDINATOR", &address);
        Helper(command.spawn().unwrap())
    };
    let labgrid = |words: &[&str]| {
        let mut command = Command::new(&client);
        command.args(words).env("LG_COORDINATOR", &address);
        let ran = Running::start(command).wait(LONG);
        (ran.status.code() == Some(0), ran.stdout + &ran.stderr)
    };
    let _coordinator = start(&["labgrid-coordinator", "--listen", &address]);
    bench.wait_until("the coordinator listens", LONG, || TcpStream::connect(&address).is_ok());
    let _exporter = start(&["labgrid-exporter", "--name", "lab", "--hostname", "127.0.0.1", &resources]);
    bench.wait_until("the exporter is there", LONG, || labgrid(&["resources"]).1.contains("lab/bench/NetworkService"));
    for words in [["create", ""], ["add-match", "lab/bench/*"], ["set-tags", "board=imx6"]] {
        let words: Vec<&str> = ["-p", "imx6"].into_iter().chain(words).filter(|word| !word.is_empty()).collect();
        assert!(labgrid(&words).0, "{words:?}");
    }
    let holder = || {
        let shown = labgrid(&["-p", "imx6", "show"]).1;
        shown.lines().find_map(|line| line.trim().strip_prefix("acquired: ").map(str::to_owned)).unwrap_or(shown)
    };
    let agent = agent(&bench);
    let run = |target: &str, more: &[&str]| {
        let words =
            ["run", "udp-stream", "--target", target, "--host", &bench.host(), "--json", "--remote-agent", &agent];
        let mut command = bench.linerate(&[&words[..], more].concat());
        command.env("PATH", &path).env("LG_COORDINATOR", &address);
        Running::start(command)
    };
    let ran = run("labgrid:imx6", &QUICK).wait(LONG);
    check_measured(&ran);
    assert_eq!(holder(), "None");
    check_measured(&run("labgrid:board=imx6", &QUICK).wait(LONG));
    assert_eq!(holder(), "None");
    assert!(!labgrid(&["reservations"]).1.contains("state: "), "{}", labgrid(&["reservations"]).1);

    let running = run("labgrid:imx6", &ENDLESS);
    bench.wait_for_traffic(500);
    assert_ne!(holder(), "None");
    running.signal("KILL");
    bench.wait_until("the place is released", LONG, || holder() == "None");

    // By hand, by this user: used, and left. And what is not there, in labgrid's words.
    assert!(labgrid(&["-p", "imx6", "acquire"]).0);
    check_measured(&run("labgrid:imx6", &QUICK).wait(LONG));
    assert_ne!(holder(), "None");
    assert!(labgrid(&["-p", "imx6", "release"]).0);
    run("labgrid:nosuch", &QUICK).wait(LONG).check_sentence(&["labgrid:nosuch", "matches nothing"]);
}
