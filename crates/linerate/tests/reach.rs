//! Every way to reach an agent, end to end, and what its user is told when it does not work.
//! Knows no figures: that a trial has one is enough here.

mod machines;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use linerate_control::message::{
    AgentLine, Foreign, Hello, Holder, PROTOCOL, Prepare, RefusalKind, Request, RequestLine, Secret,
};
use linerate_lab::{HOST_IPV4, TARGET_IPV4};
use linerate_machine::end::{Direction, End};
use linerate_trial::spec::{Spec, Workload};
use linerate_trial::tool::Tool;
use machines::sshd::{Helper, Sshd};
use machines::{Bench, Ran, Running, signal};

const LONG: Duration = Duration::from_secs(30);
const IN_TIME: Duration = Duration::from_secs(10);

/// One trial that leaves the CPUs in peace.
const ONE: [&str; 4] = ["--set", "warmup=0s", "--set", "rate=20M"];
/// One that is soon over, and one that is not.
const QUICK: [&str; 2] = ["--set", "duration=200ms"];
const ENDLESS: [&str; 2] = ["--set", "duration=60s"];

/// `linerate run udp-stream` as the user of the host's machine does it, inside the host's namespace.
fn run_in_host(bench: &Bench, arguments: &[&str]) -> Running {
    let mut command = bench.linerate(&["run", "udp-stream"]);
    command.args(arguments);
    bench.lab().host.run(|| Ok(Running::start(command))).unwrap()
}

/// Sees that one trial was measured.
#[track_caller]
fn check_measured(ran: &Ran) {
    ran.check_done();
    let records = ran.json();
    assert_eq!(records.len(), 1, "{ran:#?}");
    let bps = records[0]["result"]["throughput_bps"].as_f64().unwrap();
    assert!(bps > 0.0, "{bps}");
}

#[test]
fn an_agent_behind_any_command() {
    let Some(bench) = Bench::new("exec") else { return };
    let program = env!("CARGO_BIN_EXE_linerate");
    let agent = |netns: &Path| format!("exec:'{program}' agent --stdio --netns {}", netns.display());
    let (target, host) = (agent(&bench.lab().target.path()), agent(&bench.lab().host.path()));
    let mut command = bench.linerate(&["run", "udp-stream", "--target", &target, "--host", &host, "--json"]);
    command.args(ONE).args(QUICK);
    check_measured(&Running::start(command).wait(LONG));
    bench.check_nothing_runs(Duration::from_millis(100));
}

#[test]
fn an_agent_of_another_version() {
    let Some(bench) = Bench::new("version") else { return };
    let later = "exec:echo '{\"linerate\":3,\"program\":\"linerate-agent 9.1.0\"}'; sleep 60";
    let mut command = bench.linerate(&["run", "tcp-stream", "--target", later, "--host", &bench.host()]);
    command.args(ONE).args(QUICK);
    let ran = Running::start(command).wait(IN_TIME);
    ran.check_sentence(&[
        "the target (exec:echo",
        "linerate-agent 9.1.0, which speaks version 3",
        "install the same version",
    ]);
    bench.check_nothing_runs(Duration::from_millis(500));
}

/// A key file, and an agent in the target that listens with it: its address.
fn listening(bench: &Bench) -> (Helper, SocketAddr, String) {
    let key = bench.folder.path("key");
    Running::start(bench.linerate(&["agent", "--new-psk", &key])).wait(IN_TIME).check_done();
    let listen = format!("{TARGET_IPV4}:0");
    let netns = bench.lab().target.path().display().to_string();
    let mut command = bench.linerate(&["agent", "--listen", &listen, "--psk-file", &key, "--netns", &netns]);
    command.stderr(Stdio::piped());
    let mut child = Helper(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.rsplit(' ').next().unwrap().trim().parse().expect(&line);
    (child, address, key)
}

#[test]
fn an_agent_that_listens() {
    let Some(bench) = Bench::new("listen") else { return };
    let (_agent, address, key) = listening(&bench);
    let target = format!("tcp:{address}");
    let base = ["--target", &target, "--psk-file", &key, "--json"];
    let arguments = |more: &[&'static str]| -> Vec<String> {
        base.iter().chain(&ONE).chain(more).map(|word| (*word).to_owned()).collect()
    };
    let run = |arguments: &[String]| {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run_in_host(&bench, &words)
    };
    check_measured(&run(&arguments(&QUICK)).wait(LONG));

    let other = bench.folder.path("other");
    Running::start(bench.linerate(&["agent", "--new-psk", &other])).wait(IN_TIME).check_done();
    let ran = run_in_host(&bench, &["--target", &target, "--psk-file", &other]).wait(IN_TIME);
    ran.check_sentence(&["the target (tcp:", "key is another", "copy the same key file"]);
    let ran = run_in_host(&bench, &["--target", &target]).wait(IN_TIME);
    ran.check_sentence(&["the target (tcp:", "--psk-file"]);

    // While one measures, another is told who and since when, and strangers disturb nothing.
    let first = run(&arguments(&["--set", "duration=4s"]));
    bench.wait_for_traffic(500);
    std::thread::sleep(Duration::from_millis(1100));
    let ran = run(&arguments(&QUICK)).wait(IN_TIME);
    let holder = format!("(linerate, process {}) has been measuring here for", first.id());
    // Both machines are: it is said of the one that was asked first.
    ran.check_ended(75, &["is busy", &holder, "wait until it is done"]);
    assert!(!ran.stderr.contains("for 0 s"), "{ran:#?}");
    let strangers: Vec<TcpStream> = bench
        .lab()
        .host
        .run(|| {
            let visit = |number: u32| {
                let mut socket = TcpStream::connect(address)?;
                // Some say nothing, some say a lot; a refused one is no concern of theirs.
                if number.is_multiple_of(2) {
                    let _ = socket.write_all(&[number as u8; 3000]);
                }
                Ok(socket)
            };
            (0..40).map(visit).collect()
        })
        .unwrap();
    let ran = first.wait(LONG);
    check_measured(&ran);
    drop(strangers);
    // Sooner or later there is room again.
    bench.wait_until("the agent serves again", LONG, || run(&arguments(&QUICK)).wait(IN_TIME).status.success());
    bench.check_quiet_but_for_listener();
}

/// The controller's cable to a listening agent is the one under test; when it goes, both ends notice.
#[test]
fn a_listening_agent_is_lost_with_its_cable() {
    let Some(mut bench) = Bench::new("listen-cable") else { return };
    let (_agent, address, key) = listening(&bench);
    let target = format!("tcp:{address}");
    let running = run_in_host(&bench, &["--target", &target, "--psk-file", &key, "--set", "duration=60s"]);
    bench.wait_for_traffic(500);
    let began = Instant::now();
    bench.lab_mut().set_carrier(false).unwrap();
    let ran = running.wait(IN_TIME);
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    ran.check_sentence(&["the target (tcp:", "lost", "check the cable"]);
    // The agent lives on, and measures again once the cable is back and it has missed the first controller.
    bench.lab_mut().set_carrier(true).unwrap();
    let mut arguments = vec!["--target", &target, "--psk-file", &key, "--json"];
    arguments.extend(ONE);
    arguments.extend(QUICK);
    bench.wait_until("the agent serves again", LONG, || run_in_host(&bench, &arguments).wait(LONG).status.success());
}

/// Speaks with an agent by hand.
struct ByHand {
    child: Helper,
    lines: mpsc::Receiver<String>,
}

impl ByHand {
    fn start(bench: &Bench, netns: &Path) -> ByHand {
        let mut command = bench.linerate(&["agent", "--stdio", "--netns", &netns.display().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = Helper(command.spawn().unwrap());
        let stdout = BufReader::new(child.0.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line).map_err(drop))
        });
        let mut hand = ByHand { child, lines };
        let hello =
            Hello { linerate: PROTOCOL, program: "by hand".to_owned(), capabilities: Vec::new(), notes: Vec::new() };
        hand.say(&serde_json::to_string(&hello).unwrap());
        assert!(hand.hear().contains(&format!("\"linerate\":{PROTOCOL}")));
        hand
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, id: u64, request: Request) -> AgentLine {
        self.say(&serde_json::to_string(&RequestLine { id, request }).unwrap());
        serde_json::from_str(&self.hear()).unwrap()
    }

    #[track_caller]
    fn hear(&mut self) -> String {
        self.lines.recv_timeout(IN_TIME).expect("the agent answers")
    }
}

/// An agent that is told to send to an address which knows nothing of the trial says hello there, and no more, even
/// where everything it says comes back to it.
#[test]
fn nobody_can_point_an_agent_at_a_stranger() {
    let Some(bench) = Bench::new("stranger") else { return };
    let socket = bench.lab().target.run(|| UdpSocket::bind((TARGET_IPV4, 0))).unwrap();
    let port = socket.local_addr().unwrap().port();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let echo = std::thread::spawn(move || {
        let (mut count, mut octets, mut buffer) = (0, 0, [0; 2000]);
        let deadline = Instant::now() + Duration::from_secs(7);
        while Instant::now() < deadline {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                (count, octets) = (count + 1, octets + len);
                let _ = socket.send_to(&buffer[..len], from);
            }
        }
        (count, octets)
    });
    let mut agent = ByHand::start(&bench, &bench.lab().host.path());
    let holder = Holder { controller: "by hand".to_owned(), name: "a test".to_owned(), fence: None };
    assert!(matches!(agent.ask(1, Request::Lease { holder }), AgentLine::Reply { .. }));
    let mut spec = Spec { direction: Direction::Rx, ..Spec::new(Workload::UdpStream) };
    spec.set("duration", "1s").unwrap();
    let local: IpAddr = HOST_IPV4.into();
    let prepare = || Prepare {
        spec: spec.clone(),
        end: End::Host,
        hello: Secret([1; 16]),
        answer: Secret([2; 16]),
        local,
        foreign: None,
        registers: None,
        interface: None,
        stop_at_loss: None,
        silent_s: None,
    };
    assert!(matches!(agent.ask(2, Request::Prepare(Box::new(prepare()))), AgentLine::Reply { .. }));
    let group: IpAddr = [224, 0, 0, 1].into();
    let foreign = Foreign {
        tool: Tool::Iperf3,
        server: SocketAddr::new(group, 5201),
        interface: None,
        unanswered: None,
        tokens: Vec::new(),
    };
    for request in [
        Request::Connect { peer: group, ports: vec![(0, port)], mac: None },
        Request::Witness { local, peer: group, interface: None, secret: Secret([1; 16]) },
        Request::Prepare(Box::new(Prepare { foreign: Some(foreign), ..prepare() })),
    ] {
        let AgentLine::Refusal { kind, message, .. } = agent.ask(5, request) else { panic!("it sends to a group") };
        assert_eq!((kind, message.contains("no address of one machine")), (RefusalKind::BadRequest, true), "{message}");
    }
    assert!(matches!(agent.ask(6, Request::Prepare(Box::new(prepare()))), AgentLine::Reply { .. }));
    let connect = Request::Connect { peer: TARGET_IPV4.into(), ports: vec![(0, port)], mac: None };
    let AgentLine::Refusal { message, .. } = agent.ask(3, connect) else { panic!("it sends to a stranger") };
    assert!(message.contains("was not opened within 5 s") || message.contains("no test traffic"), "{message}");
    assert!(matches!(agent.ask(4, Request::Start), AgentLine::Refusal { .. }), "there is nothing to start");
    let (count, octets) = echo.join().unwrap();
    assert!((2..=16).contains(&count), "a hello after 50 ms, 100 ms, and at last each 400 ms for 5 s: {count}");
    assert!(octets <= count * 40, "hellos are small: {octets} octets in {count}");
}

#[test]
fn a_holder_that_others_could_not_be_told_gets_no_lease() {
    let Some(bench) = Bench::new("holder") else { return };
    let mut agent = ByHand::start(&bench, &bench.lab().host.path());
    let holder = Holder { controller: "x".repeat(200_000), name: "a test".to_owned(), fence: None };
    let AgentLine::Refusal { kind, message, .. } = agent.ask(1, Request::Lease { holder }) else {
        panic!("it has the lease")
    };
    assert_eq!((kind, message.contains("200000 bytes")), (RefusalKind::BadRequest, true), "{message}");
}

/// `linerate run udp-stream` to a machine behind this sshd.
fn run_over(sshd: &Sshd, bench: &Bench, target: &str, agent: &str, more: &[&str]) -> Running {
    let target = format!("ssh:{target}:{}", sshd.port);
    let host = bench.host();
    let mut command = bench.linerate(&["run", "udp-stream", "--target", &target, "--host", &host, "--json"]);
    command.args(["--remote-agent", agent]).args(ONE).args(more).env("PATH", &sshd.path);
    Running::start(command)
}

#[test]
fn an_agent_over_ssh() {
    let Some(bench) = Bench::new("session") else { return };
    let Some(sshd) = Sshd::start(&bench) else { return };
    // A name in this test's folder, by which the agent is found among the processes.
    let name = bench.folder.path("linerate-agent");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linerate"), &name).unwrap();
    let agent = format!("{name} agent --netns {}", bench.lab().target.path().display());
    let is_agent = |(_, command): &(u32, String)| command.contains(" agent ") && !command.contains("ssh");
    let agents = || bench.processes().into_iter().filter(is_agent).map(|(number, _)| number).collect::<Vec<_>>();

    check_measured(&run_over(&sshd, &bench, "127.0.0.1", &agent, &QUICK).wait(LONG));
    assert_eq!(agents(), [0; 0], "the agent ends with the session");

    let parts = ["the target (ssh:127.0.0.1:", "/nowhere/agent", "--remote-agent"];
    run_over(&sshd, &bench, "127.0.0.1", "/nowhere/agent", &QUICK).wait(IN_TIME).check_sentence(&parts);
    let parts = ["the target (ssh:no-such-user@127.0.0.1:", "Permission denied", "ssh"];
    run_over(&sshd, &bench, "no-such-user@127.0.0.1", &agent, &QUICK).wait(IN_TIME).check_sentence(&parts);
    let parts = ["the target (ssh:no-such-machine.invalid:", "resolve"];
    run_over(&sshd, &bench, "no-such-machine.invalid", &agent, &QUICK).wait(IN_TIME).check_sentence(&parts);

    // The agent is killed there; then the controller is killed here.
    let running = run_over(&sshd, &bench, "127.0.0.1", &agent, &ENDLESS);
    bench.wait_for_traffic(500);
    let far: Vec<u32> = agents().into_iter().filter(|number| !is_child(*number, running.id())).collect();
    assert!(!far.is_empty(), "the agent is found: {:?}", bench.processes());
    far.iter().for_each(|number| signal(*number, "KILL"));
    running.wait(IN_TIME).check_sentence(&["the target (ssh:127.0.0.1:", "was lost", "works by hand"]);
    bench.wait_until("no agent is left", IN_TIME, || agents().is_empty());
    bench.check_quiet();

    let running = run_over(&sshd, &bench, "127.0.0.1", &agent, &ENDLESS);
    bench.wait_for_traffic(500);
    running.signal("KILL");
    bench.wait_until("no agent is left", IN_TIME, || agents().is_empty());
    bench.check_quiet();
}

/// Whether `parent` has started this process.
fn is_child(process: u32, parent: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|id| id.trim() == parent.to_string()))
}

#[test]
fn a_machine_that_goes_on_and_on_about_itself_is_given_up() {
    let bench = Bench::bare("endless");
    let ssh = bench.folder.path("ssh");
    fs::write(&ssh, "#!/bin/sh\necho linerate-bare\nwhile echo Features: fp; do sleep 0.1; done\n").unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bench.folder.0.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = bench.linerate(&["target", "root@endless", "info"]);
    command.env("PATH", path);
    Running::start(command).wait(LONG).check_sentence(&["root@endless", "it goes on and on about itself"]);
}

#[test]
fn link_local_addresses_with_and_without_their_interface() {
    let Some(bench) = Bench::new("link-local") else { return };
    let add = |address: &'static str| {
        move || Command::new("ip").args(["-6", "addr", "add", address, "dev", "eth0", "nodad"]).status()
    };
    assert!(bench.lab().target.run(add("fe80::2/64")).unwrap().success());
    assert!(bench.lab().host.run(add("fe80::1/64")).unwrap().success());
    let measure = |plan: &str, more: &[&str]| {
        let more = [&["--set", "duration=300ms"], more].concat();
        let ran = bench.run(plan, &more, Duration::from_secs(20));
        ran.check_done();
        let record = bench.records().pop().unwrap();
        assert_eq!(record.target.address.as_deref(), Some("fe80::2%eth0"), "{more:?}");
        assert_eq!(record.host.address.as_deref(), Some("fe80::1%eth0"), "{more:?}");
        assert!(record.result.is_some(), "{more:?}: {:?}", record.error);
    };
    measure("tcp-stream", &["--target-address", "fe80::2"]);
    measure("udp-stream", &["--target-address", "fe80::2%eth0", "--set", "rate=10M", "--set", "direction=tx"]);
    measure("tcp-crr", &["--host-address", "fe80::1"]);
    measure("udp-rr", &["--target-address", "fe80::2", "--host-address", "fe80::1%eth0"]);
    let refused = |address: &str, part: &str| {
        let ran = bench.run("tcp-stream", &["--target-address", address], Duration::from_secs(20));
        assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
        assert!(ran.stderr.contains(part), "{ran:#?}");
    };
    refused("fe80::2%eth7", "neither end has a link-local address at an interface eth7");
    refused("fe80::77", "the target has no address fe80::77");
}
