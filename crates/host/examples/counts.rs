//! One end of a trial, or one pure piece of it, for `cargo xtask bench counts` to count the instructions of.
//! Knows no count: callgrind runs this. The other end of a trial is a process of its own, which callgrind leaves alone.
//!
//! `counts WORK COUNT [OPTION=VALUE…]`: COUNT datagrams, writes, requests or steps of WORK.

use std::env;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use linerate_host::traffic::{Tokens, Trial};
use linerate_trial::arrivals::Tracker;
use linerate_trial::flow::End;
use linerate_trial::histogram::Histogram;
use linerate_trial::pace::Pacer;
use linerate_trial::spec::{Direction, Extent, Spacing, Spec, Workload};
use linerate_wire::Probe;

type Failure = Box<dyn std::error::Error>;

const TOKENS: Tokens = Tokens { hello: *b"hello to the end", answer: *b"answer to begin." };
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The word before a work that makes a process its other end.
const OTHER: &str = "other-end-of";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &words[..] {
        [other, work, count, options @ ..] if other == OTHER => {
            let (spec, end) = trial(work, count.parse()?, options)?;
            let other = if end == End::Host { End::Target } else { End::Host };
            run(spec, other, io::stdin().lock(), io::stdout()).map(drop)
        }
        [work, count, ..] if pure(work, count.parse()?) => Ok(()),
        [work, count, options @ ..] => {
            let (mut spec, end) = trial(work, count.parse()?, options)?;
            if end == End::Target && spec.workload == Workload::UdpStream {
                // How many messages a call brings would be the kernel's choice.
                spec.batch = Some(1);
            }
            let mut other = Command::new(env::current_exe()?);
            let mut other = other.arg(OTHER).args(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (said, hears) = (other.stdout.take().expect("piped"), other.stdin.take().expect("piped"));
            let result = run(spec, end, BufReader::new(said), hears);
            if result.is_err() {
                let _ = other.kill();
            }
            other.wait()?;
            println!("calls {}", result?);
            Ok(())
        }
        _ => Err("it is: counts WORK COUNT [OPTION=VALUE…]".into()),
    }
}

/// Steps that ask nothing of the kernel; `false`: no such piece.
fn pure(piece: &str, count: u64) -> bool {
    const GAP_NS: u64 = 11_760;
    let probe = |sequence| Probe { sequence, measured: true, sent_at_ns: sequence * GAP_NS };
    match piece {
        "pacer" => {
            // No build may know beforehand how this one is spaced.
            let mut pacer = black_box(Pacer::new(GAP_NS as f64, 1, Spacing::Even, 1, 0));
            for _ in 0..count {
                pacer.handle_now(black_box(pacer.next_departure_ns()));
                pacer.handle_sent();
            }
            black_box(pacer);
        }
        "tracker" => {
            let mut tracker = Tracker::new();
            for sequence in 0..count {
                tracker.handle_datagram(black_box(&probe(sequence)), sequence * GAP_NS);
            }
            black_box(tracker);
        }
        "probe" => {
            let mut payload = [0; 64];
            for sequence in 0..count {
                black_box(probe(sequence)).emit(&mut payload);
                black_box(Probe::parse(black_box(&payload)));
            }
        }
        "histogram" => {
            let mut histogram = Histogram::default();
            for step in 0..count {
                histogram.record(black_box(step * 7 % 1_000_000));
            }
            black_box(histogram);
        }
        _ => return false,
    }
    true
}

/// What to run, and which end of it is counted. In all of them the host sends, or asks.
fn trial(work: &str, count: u64, options: &[String]) -> Result<(Spec, End), Failure> {
    let (workload, octets, end) = match work {
        "udp-send" => (Workload::UdpStream, 1470, End::Host),
        "udp-receive" => (Workload::UdpStream, 1470, End::Target),
        "tcp-send" => (Workload::TcpStream, 128 << 10, End::Host),
        "tcp-receive" => (Workload::TcpStream, 128 << 10, End::Target),
        _ => return Err(format!("there is no work '{work}'").into()),
    };
    let mut spec = Spec::new(workload);
    spec.direction = Direction::Rx;
    spec.message_size = Some(octets);
    spec.extent = Extent::Octets(count * u64::from(octets));
    for option in options {
        let (name, value) = option.split_once('=').ok_or("write OPTION=VALUE")?;
        spec.set(name, value)?;
    }
    Ok((spec, end))
}

/// One end, from its beginning to its end; the other one is told the ports, and tells its own. Returns the system calls
/// that moved data.
fn run(spec: Spec, end: End, hear: impl BufRead, mut tell: impl Write) -> Result<u64, Failure> {
    let mut trial = Trial::prepare(spec, end, LOOPBACK, Some("lo".to_owned()), TOKENS)?;
    for (flow, port) in trial.ports()? {
        writeln!(tell, "{flow} {port}")?;
    }
    writeln!(tell, "ready")?;
    tell.flush()?;
    let mut ports = Vec::new();
    for line in hear.lines() {
        match line?.split_once(' ') {
            Some((flow, port)) => ports.push((flow.parse()?, port.parse()?)),
            None => break,
        }
    }
    trial.connect(LOOPBACK, &ports, |_| {})?;
    trial.start();
    Ok(trial.join()?.flows.iter().map(|flow| flow.calls).sum())
}
