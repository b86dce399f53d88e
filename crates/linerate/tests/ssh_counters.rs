//! A target that is iperf3's server, with its counters read over ssh: the loss budget names where datagrams were lost,
//! and its count is that of the fault itself.
//! Knows the target as OpenSSH shows it. Needs root, `nft`, iperf3 and sshd; says so and passes where they are missing.

mod machines;

use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use linerate_lab::{Shape, TARGET_IPV4};
use linerate_path::stage::Stage;
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;
use machines::{Bench, Ran, Running, signal};

const LONG: Duration = Duration::from_secs(40);
const IN_TIME: Duration = Duration::from_secs(15);
const PORT: u16 = 2222;

/// What runs in the target's namespace.
struct Board {
    daemon: Child,
    iperf3: Child,
    /// Where the `ssh` is that knows the keys.
    path: String,
}

impl Board {
    fn start(bench: &Bench) -> Option<Board> {
        let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        if users.split_whitespace().nth(2) == Some("1") {
            eprintln!("SKIPPED ssh_counters: a daemon for logins needs root, not a user namespace");
            return None;
        }
        let needed = ["/usr/bin/ssh", "/usr/sbin/sshd", "/usr/bin/iperf3", "/usr/sbin/nft"];
        if let Some(missing) = needed.iter().find(|path| !Path::new(path).exists()) {
            eprintln!("SKIPPED ssh_counters: {missing} is missing; 'cargo xtask setup' installs it");
            return None;
        }
        let file = |name: &str| bench.folder.path(name);
        for key in ["host_key", "user_key"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]).status();
            assert!(made.unwrap().success());
        }
        let settings = format!(
            "Port {PORT}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n",
            file("host_key"),
            file("user_key.pub")
        );
        fs::write(file("sshd_config"), settings).unwrap();
        let _ = fs::create_dir_all("/run/sshd");
        // /sys shows the namespace that it was mounted in. Mounts of a namespace of its own end with the daemon.
        let script = format!(
            "mount --make-rprivate / && mount -t sysfs sysfs /sys && exec /usr/sbin/sshd -D -e -f {}",
            file("sshd_config")
        );
        let log = || fs::File::options().create(true).append(true).open(file("log")).unwrap();
        let mut daemon = inside(bench, &["unshare", "--mount", "sh", "-c", &script]);
        let daemon = daemon.stdout(log()).stderr(log()).spawn().unwrap();
        let iperf3 = inside(bench, &["iperf3", "-s"]).stdout(log()).stderr(log()).spawn().unwrap();

        let mine = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n",
            file("user_key"),
            file("known_hosts")
        );
        fs::write(file("ssh_config"), mine).unwrap();
        fs::create_dir(file("bin")).unwrap();
        let wrapper = file("bin/ssh");
        fs::write(&wrapper, format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", file("ssh_config"))).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", file("bin"), std::env::var("PATH").unwrap_or_default());
        let board = Board { daemon, iperf3, path };
        for port in [PORT, 5201] {
            bench.wait_until("the target listens", IN_TIME, || {
                bench.lab().host.run(|| Ok(std::net::TcpStream::connect((TARGET_IPV4, port)).is_ok())).unwrap()
            });
        }
        Some(board)
    }

    /// `linerate run udp-stream` from the host's machine, against the target's iperf3.
    fn start_run(&self, bench: &Bench, counters: &str, more: &[&str]) -> Running {
        let target = format!("iperf3:{TARGET_IPV4}");
        let mut command = bench.linerate(&["run", "udp-stream", "--target", &target, "--counters", counters, "--json"]);
        command.args(["--set", "message_size=1000", "--set", "rate=20M", "--set", "warmup=0s"]);
        command.args(more).env("PATH", &self.path);
        bench.lab().host.run(|| Ok(Running::start(command))).unwrap()
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        for child in [&mut self.daemon, &mut self.iperf3] {
            signal(child.id(), "KILL");
            let _ = child.wait();
        }
    }
}

/// A command in the target's network namespace.
fn inside(bench: &Bench, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", bench.lab().target.path().display())).args(words);
    bench.dress(&mut command);
    command.stdin(Stdio::null());
    command
}

fn printed(bench: &Bench, words: &[&str]) -> String {
    String::from_utf8(inside(bench, words).output().unwrap().stdout).unwrap()
}

fn ssh() -> String {
    format!("ssh:root@{TARGET_IPV4}:{PORT}")
}

#[track_caller]
fn record(ran: &Ran) -> Record {
    assert!(ran.status.success(), "{ran:#?}");
    let record: Record = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(record.error, None);
    record
}

/// That the budget has one loss, at this stage, of as many datagrams as the fault counted, and nothing is unexplained.
#[track_caller]
fn check(record: &Record, stage: Stage, counted: RangeInclusive<u64>, evidence: &str) {
    let lines = record.loss_budget.as_ref().unwrap();
    let said = format!("{lines:#?} {:?} {:#?}", record.unaccounted, record.doubts);
    let lost: Vec<(Stage, u64)> =
        lines.iter().filter(|line| line.packets > 0).map(|line| (line.stage, line.packets)).collect();
    let [(at, packets)] = lost[..] else { panic!("{said}") };
    assert!(at == stage && counted.contains(&packets), "{counted:?} {said}");
    assert!(packets > 10 && lines.iter().any(|line| line.evidence().contains(evidence)), "{said}");
    assert_eq!(record.unaccounted, Some(0), "{said}");
    assert_eq!(record.result.as_ref().unwrap().flow.packets_lost, Some(packets), "{said}");
    assert!(!record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::CountersMissing), "{said}");
}

#[test]
fn what_a_target_without_an_agent_lost_is_found_by_its_counters() {
    let Some(bench) = Bench::of("ssh-counters", &Shape::unshaped()) else { return };
    let Some(board) = Board::start(&bench) else { return };

    // A packet filter, whose rule counts.
    let rules = "table ip t {\nchain c {\ntype filter hook input priority 0;\n\
                 udp length 1008 numgen inc mod 4 0 counter drop;\n}\n}\n";
    fs::write(bench.folder.path("rules"), rules).unwrap();
    assert!(inside(&bench, &["nft", "-f", &bench.folder.path("rules")]).status().unwrap().success());
    let ran = board.start_run(&bench, &ssh(), &["--set", "duration=1s"]).wait(LONG);
    let text = printed(&bench, &["nft", "list", "ruleset"]);
    let counted: u64 = text.split("counter packets ").nth(1).expect(&text).split(' ').next().unwrap().parse().unwrap();
    let filtered = record(&ran);
    // If the filter drops the very last one, it counts as on its way at the end.
    check(&filtered, Stage::ReceiverStack, counted - 1..=counted, "target: Ip InReceives");
    let environment = &filtered.target.environment;
    assert_eq!(environment.nic.as_ref().map(|nic| (nic.name.as_str(), nic.mtu)), Some(("eth0", Some(1500))));
    assert!(environment.kernel.is_some() && filtered.target.cpu.is_none());
    assert!(inside(&bench, &["nft", "flush", "ruleset"]).status().unwrap().success());

    // A server that does not read for a while.
    let errors = || -> u64 {
        let text = printed(&bench, &["cat", "/proc/net/snmp"]);
        let values = text.lines().filter(|line| line.starts_with("Udp:")).nth(1).unwrap();
        values.split_whitespace().nth(5).unwrap().parse().unwrap()
    };
    let before = errors();
    let running = board.start_run(&bench, &ssh(), &["--set", "duration=2s"]);
    bench.wait_for_traffic(500);
    signal(board.iperf3.id(), "STOP");
    thread::sleep(Duration::from_millis(700));
    signal(board.iperf3.id(), "CONT");
    let ran = running.wait(LONG);
    let counted = errors() - before;
    check(&record(&ran), Stage::ReceiverSocket, counted..=counted, "target: Udp RcvbufErrors");

    // Nobody who lets people in; and what is no target for it.
    let ran = board.start_run(&bench, &format!("ssh:root@{TARGET_IPV4}:2"), &[]).wait(LONG);
    ran.check_sentence(&["the target (ssh:root@", "cannot be reached", "see that 'ssh -p 2 -l root"]);
    let log = fs::read_to_string(bench.folder.path("log")).unwrap();
    assert_eq!(log.matches("Accepted publickey").count(), 2, "one connection a run: {log}");
    let target = bench.target();
    let ran = Running::start(bench.linerate(&["run", "udp-stream", "--target", &target, "--counters", &ssh()]));
    ran.wait(LONG).check_sentence(&["--counters is for a target that is another tool's server"]);
}
