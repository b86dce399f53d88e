//! `linerate check` between two namespaces: all well, and with one thing broken, which it has to name.

mod machines;

use std::process::Command;
use std::time::Duration;

use linerate_lab::Shape;
use linerate_results::examination::{Examination, Probe};
use machines::{Bench, Ran, Running};

fn bench(name: &str) -> Option<Bench> {
    Bench::of(name, &Shape::unshaped())
}

/// Runs shell lines in the host's or the target's namespace.
#[track_caller]
fn shell(netns: &std::path::Path, lines: &str) {
    let status = Command::new("nsenter").arg(format!("--net={}", netns.display())).args(["sh", "-ec", lines]).status();
    assert!(status.unwrap().success(), "{lines}");
}

fn run_check(bench: &Bench, more: &[&str]) -> Ran {
    let (target, host) = (bench.target(), bench.host());
    let mut command = bench.linerate(&[&["check", "--target", &target, "--host", &host], more].concat());
    command.env("COLUMNS", "100");
    Running::start(command).wait(Duration::from_secs(60))
}

fn check(bench: &Bench) -> Ran {
    let ran = run_check(bench, &[]);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ran.stdout);
    ran
}

/// Sees that exactly these were tried and failed, the first of them first, and that all of `parts` is said.
#[track_caller]
fn check_failed(ran: &Ran, failed: &[&str], parts: &[&str]) {
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<&str> = ran.stdout.lines().filter_map(|line| line.strip_prefix("FAILED ")).collect();
    assert!(
        lines.len() == failed.len() && lines.iter().zip(failed).all(|(line, name)| line.starts_with(name)),
        "{}\nwanted {failed:?}",
        ran.stdout
    );
    assert_eq!(ran.status.code(), Some(i32::from(!failed.is_empty())), "{ran:#?}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
}

#[test]
fn all_is_well() {
    let Some(bench) = bench("check-well") else { return };
    let ran = check(&bench);
    check_failed(
        &ran,
        &[],
        &["link of the target", "eth0 (veth) is up", "MTU 1500", "TCP, host asks", "UDP, target asks"],
    );
    check_failed(&ran, &[], &["UDP, 1500 bytes to target", "UDP, 1500 bytes to host", "All of it passes"]);
    // Echo and UDP, either way.
    assert_eq!(ran.stdout.matches("requests answered").count(), 4, "{}", ran.stdout);
    assert!(bench.records().is_empty(), "it keeps no record");
}

#[test]
fn a_link_that_is_down() {
    let Some(bench) = bench("check-link") else { return };
    // The other end's interface loses its carrier with it.
    shell(&bench.lab().target.path(), "ip link set eth0 down");
    let ran = check(&bench);
    check_failed(&ran, &["addresses"], &["eth0 (down)", "bring the target's eth0 up there: ip link set eth0 up"]);
    // The same for programs: an object, and nothing else.
    let ran = run_check(&bench, &["--json"]);
    let said = &ran.json()[0];
    assert_eq!((ran.status.code(), &said["format"]), (Some(1), &"linerate.check/1".into()), "{ran:#?}");
    assert_eq!(said["target"], bench.target().as_str());
    let examination: Examination = serde_json::from_value(said["examination"].clone()).unwrap();
    assert_eq!(examination.cause().map(|step| step.probe), Some(Probe::Addresses), "{said}");
}

#[test]
fn a_hole_for_large_packets() {
    let Some(bench) = bench("check-hole") else { return };
    // A bucket that no packet of more than 1000 octets fits into, Ethernet's header included.
    shell(&bench.lab().host.path(), "tc qdisc replace dev eth0 root tbf rate 100mbit burst 1000 limit 100000");
    let ran = check(&bench);
    let parts = [
        "packets of up to 986 bytes pass, and the links say 1500",
        "dropped at the host's",
        "Look at what fails first",
    ];
    check_failed(&ran, &["UDP, 1500 bytes to target", "TCP, host asks"], &parts);
}

#[test]
fn tcp_that_goes_nowhere() {
    let Some(bench) = bench("check-tcp") else { return };
    // What the target answers over TCP goes nowhere, and no counter says so.
    shell(&bench.lab().target.path(), "ip rule add ipproto tcp blackhole");
    let ran = check(&bench);
    check_failed(
        &ran,
        &["route, target to host", "TCP, host asks", "TCP, target asks"],
        &["UDP, 1500 bytes to host", "Look at what fails first: route, target to host"],
    );
}

#[test]
fn a_server_of_another_tool_without_udp() {
    let Some(bench) = bench("check-iperf3") else { return };
    let netns = bench.lab().target.path();
    let mut serve = Command::new("nsenter");
    serve.arg(format!("--net={}", netns.display())).arg(env!("CARGO_BIN_EXE_linerate")).args(["serve", "iperf3"]);
    bench.dress(&mut serve);
    let _serving = Running::start(serve);
    std::thread::sleep(Duration::from_secs(2));
    let run = || {
        let mut command = bench.linerate(&["check", "--target", "iperf3:198.18.0.2", "--host", &bench.host()]);
        command.env("COLUMNS", "100");
        Running::start(command).wait(Duration::from_secs(60))
    };
    check_failed(&run(), &[], &["ok UDP stream, host sends", "bytes arrive", "All of it passes"]);
    let filter = "nft add table ip t; nft 'add chain ip t c { type filter hook input priority 0; }'
        nft add rule ip t c meta l4proto udp drop";
    shell(&netns, filter);
    check_failed(
        &run(),
        &["UDP stream, host sends", "UDP stream, target sends"],
        &[
            "ok TCP stream, host sends",
            "takes part over TCP, and UDP does not pass: nothing answered the first datagram",
        ],
    );
}
