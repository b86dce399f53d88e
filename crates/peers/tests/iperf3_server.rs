//! The real iperf3 as client of our server, over loopback: every mode, and its figures beside ours.
//! Knows no records. Says so and passes where iperf3 is missing.

use std::net::IpAddr;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use linerate_peers::iperf3::server::Server;
use linerate_peers::served::{Limits, Served};
use serde_json::Value;

/// What clients were refused for.
static REFUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs iperf3 against a server of ours, and returns what it printed, and what we saw.
fn serve(address: &str, arguments: &[&str], limits: Limits) -> Option<(Value, Vec<Served>)> {
    let served = Mutex::new(Vec::new());
    let over = AtomicBool::new(false);
    let mut server = Server::bind(Some(address.parse::<IpAddr>().unwrap()), 0, limits).unwrap();
    server.tell_refusals(Box::new(|_, what| REFUSED.lock().unwrap().push(what.to_owned())));
    let port = server.port().unwrap().to_string();
    let printed = thread::scope(|scope| {
        let serving =
            scope.spawn(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)));
        let output = Command::new("iperf3").args(["-c", address, "-p", &port, "-J"]).args(arguments).output();
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        output
    });
    match printed {
        Ok(output) => {
            let printed = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
                panic!(
                    "{error}: {} {}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                )
            });
            Some((printed, served.into_inner().unwrap()))
        }
        Err(error) => {
            println!("SKIPPED: iperf3 cannot be run here ({error}); apt-get install iperf3");
            None
        }
    }
}

#[track_caller]
fn check(address: &str, arguments: &str) -> Option<(Value, Served)> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let (printed, mut served) = serve(address, &words, Limits::default())?;
    assert_eq!(printed["error"], Value::Null, "{arguments}");
    assert_eq!(served.len(), 1, "{arguments}");
    let served = served.remove(0);
    let [ours, theirs] = served.ended.as_ref().unwrap().as_ref();
    assert_eq!(ours.flows.len(), theirs.flows.len(), "{arguments}");
    for (flow, other) in ours.flows.iter().zip(&theirs.flows) {
        assert!(flow.octets > 0 && other.octets > 0, "{arguments}: {flow:?}");
    }
    Some((printed, served))
}

#[test]
fn every_mode_over_both_protocols() {
    const OVER_IPV6_TOO: [&str; 4] = ["-t 1 --bidir", "-n 20M", "-u -t 1 -b 20M", "-u -t 1 -b 10M --bidir"];
    const MODES: [&str; 18] = [
        "-t 1",
        "-t 1 -R",
        "-t 1 --bidir",
        "-t 1 -P 3",
        "-t 1 -P 2 -R -l 8K",
        "-n 20M",
        "-n 20M -R",
        "-k 100",
        "-t 1 -O 1",
        "-t 1 -w 256K -M 1000 -N",
        "-t 1 -b 50M",
        "-t 1 --get-server-output",
        "-u -t 1 -b 20M",
        "-u -t 1 -b 20M -R",
        "-u -t 1 -b 10M --bidir",
        "-u -t 1 -b 10M -P 2",
        "-u -t 1 -b 10M --udp-counters-64bit",
        "-u -n 1M -b 50M",
    ];
    let over_ipv4 = MODES.iter().map(|mode| ("127.0.0.1", mode));
    for (address, mode) in over_ipv4.chain(OVER_IPV6_TOO.iter().map(|mode| ("::1", mode))) {
        println!("{address} {mode}");
        if check(address, mode).is_none() {
            return;
        }
    }
}

#[test]
fn its_figures_are_ours() {
    for mode in ["-t 2 -b 100M", "-t 2 -b 100M -R", "-u -t 2 -b 20M", "-u -t 2 -b 20M -R"] {
        let Some((printed, served)) = check("127.0.0.1", mode) else { return };
        let [ours, theirs] = served.ended.unwrap().as_ref().clone();
        let rate = |flow: &linerate_trial::outcome::FlowOutcome| flow.octets as f64 * 8e9 / flow.elapsed_ns as f64;
        let received = printed["end"]["sum_received"]["bits_per_second"].as_f64();
        let theirs_printed = received.or(printed["end"]["sum"]["bits_per_second"].as_f64()).unwrap();
        let receiver = if mode.contains("-R") { &theirs.flows[0] } else { &ours.flows[0] };
        assert!((rate(receiver) / theirs_printed - 1.0).abs() < 0.02, "{mode}: {} {theirs_printed}", rate(receiver));
        if mode.contains("-u") {
            let sum = &printed["end"]["sum"];
            let arrivals = receiver.arrivals.as_ref().unwrap();
            assert_eq!(sum["lost_packets"], 0, "{sum}");
            assert_eq!(sum["packets"].as_u64().unwrap(), arrivals.received_total, "{mode}: {sum}");
        }
    }
}

#[test]
fn what_is_above_the_limits_is_refused_in_iperf3s_words() {
    let limits = Limits { rate: Some(10_000_000), ..Limits::default() };
    let Some((printed, served)) = serve("127.0.0.1", &["-t", "1", "-b", "20M"], limits) else { return };
    let error = printed["error"].as_str().unwrap_or_default();
    assert!(error.contains("total required bandwidth is larger than server limit"), "{error}");
    assert!(served.is_empty());
    assert_eq!(*REFUSED.lock().unwrap(), ["asked for a higher rate than is allowed"]);
}
