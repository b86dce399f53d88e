//! The same link measured by iperf3: what it finds, linerate finds.
//! Knows iperf3's JSON (its `-J`) and nothing of its protocol.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linerate_lab::{Shape, TARGET_IPV4};
use serde_json::Value;

use super::rig::{Rig, flow, is_crowded};

/// iperf3's server in the target, ended with this.
struct Server(Child);

impl Server {
    /// `None`, and a sentence, where iperf3 is not installed.
    fn start(rig: &Rig, test: &str) -> Option<Server> {
        if Command::new("iperf3").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("{test}: skipped, iperf3 is not installed (apt-get install iperf3)");
            return None;
        }
        let child = iperf3(rig.lab.target.path(), &["-s"]).stdout(Stdio::null()).spawn().unwrap();
        Some(Server(child))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn iperf3(namespace: PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", namespace.display())).arg("iperf3").args(arguments);
    command
}

/// A client's run in the host: the sums of its end.
fn client(rig: &Rig, arguments: &[&str]) -> Value {
    let address = TARGET_IPV4.to_string();
    let arguments = [&["-J", "-c", &address], arguments].concat();
    let mut said = String::new();
    for _ in 0..30 {
        let output = iperf3(rig.lab.host.path(), &arguments).output().unwrap();
        said = String::from_utf8_lossy(&output.stdout).into_owned();
        // With -J it may end with status 0 and an error, and a UDP run without an answer has no sums.
        if let Ok(mut report) = serde_json::from_str::<Value>(&said)
            && report["error"].is_null()
            && report["end"]["sum_received"]["bits_per_second"]
                .as_f64()
                .or(report["end"]["sum"]["packets"].as_f64())
                .is_some()
        {
            return report["end"].take();
        }
        // The server may not listen yet, or not again.
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("iperf3 {arguments:?} fails: {said}");
}

fn shape() -> Shape {
    Shape {
        tx_rate_bps: Some(100_000_000),
        rx_rate_bps: Some(100_000_000),
        rx_queue_octets: 256 * 1514,
        segmentation_offload: false,
        ..Shape::unshaped()
    }
}

/// Tries to agree three times, for a busy machine lowers one figure and not the other; then only nearly.
fn agree(what: &str, near: f64, wide: f64, mut compare: impl FnMut() -> f64) {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        best = best.min(compare().abs());
        if best <= near {
            return;
        }
    }
    assert!(best <= wide && is_crowded(), "{what}: {best} apart; at most {near} is allowed");
}

#[test]
fn tcp_as_iperf3_sees_it() {
    let Some(rig) = Rig::up("tcp_as_iperf3", &shape()) else { return };
    let Some(_server) = Server::start(&rig, "tcp_as_iperf3_sees_it") else { return };
    for (direction, more) in [("rx", vec![]), ("tx", vec!["-R"])] {
        agree(direction, 0.1, 0.5, || {
            let theirs = client(&rig, &[&["-t", "1", "-O", "1"], more.as_slice()].concat());
            let theirs = theirs["sum_received"]["bits_per_second"].as_f64().unwrap();
            let record = rig.trial("tcp-stream", &[("direction", direction), ("duration", "1s"), ("warmup", "500ms")]);
            let ours = flow(&record).throughput_bps.unwrap();
            println!("tcp {direction}: iperf3 {:.2} Mbit/s, linerate {:.2}", theirs / 1e6, ours / 1e6);
            ours / theirs - 1.0
        });
    }
}

#[test]
fn loss_as_iperf3_sees_it() {
    let Some(rig) = Rig::up("loss_as_iperf3", &shape()) else { return };
    let Some(_server) = Server::start(&rig, "loss_as_iperf3_sees_it") else { return };
    // Twice the rate of the link: one of two is lost.
    agree("lost", 0.03, 0.3, || {
        let theirs = client(&rig, &["-u", "-b", "200M", "-l", "1470", "-t", "2"]);
        let (lost, sent) = (&theirs["sum"]["lost_packets"], &theirs["sum"]["packets"]);
        let theirs = lost.as_f64().unwrap() / sent.as_f64().unwrap();
        let record = rig.trial("udp-stream", &[("rate", "200M"), ("duration", "2s")]);
        let figures = flow(&record);
        let (our_lost, our_sent) = (figures.packets_lost.unwrap(), figures.packets_sent.unwrap());
        let ours = our_lost as f64 / our_sent as f64;
        println!("iperf3 lost {lost} of {sent} ({theirs:.3}), linerate {our_lost} of {our_sent} ({ours:.3})");
        assert!((ours - figures.loss_ratio.unwrap()).abs() < 1e-9);
        ours - theirs
    });
}
