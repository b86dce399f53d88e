//! What `linerate check` tried, a line each, and what to do about the first that failed.

use std::fmt::Write as _;

use linerate_machine::environment::Nic;
use linerate_path::budget::LossLine;
use linerate_trial::spec::Workload;

use super::{sentence, wrapped};
use crate::measure::check::{Failed, Passed, Probe, Step};

/// How far sentences are indented below the name of what was tried.
const NAMES: usize = 34;

/// The line, or lines, of a step.
pub(crate) fn text(step: &Step, width: usize) -> String {
    let (word, said) = match &step.came {
        Ok(passed) => ("ok", of_passed(passed)),
        Err(failed) => ("FAILED", of_failed(step.probe, failed)),
    };
    let name = format!("{word:7}{}", name(step.probe));
    let room = u16::try_from(width.saturating_sub(NAMES).max(30)).ok();
    let mut text = String::new();
    for (number, line) in wrapped(&sentence(&said), room).lines().enumerate() {
        let _ = writeln!(text, "{:NAMES$}{line}", if number == 0 { name.as_str() } else { "" });
    }
    text
}

fn name(probe: Probe) -> String {
    match probe {
        Probe::Link(end) => format!("link of the {end}"),
        Probe::Addresses => "addresses".to_owned(),
        Probe::Requests { transport, asker, there, back } => {
            let transport = if transport == Workload::TcpRr { "TCP" } else { "UDP" };
            let answerer = asker.other();
            match there.max(back) {
                _ if there == back => format!("{transport}, {asker} asks"),
                size if there > back => format!("{transport}, {size} bytes to {answerer}"),
                size => format!("{transport}, {size} bytes to {asker}"),
            }
        }
    }
}

fn of_passed(passed: &Passed) -> String {
    match passed {
        Passed::Link(None) => "not told: the target has no agent, or the address no interface".to_owned(),
        Passed::Link(Some(nic)) => of_nic(nic),
        Passed::Addresses(route) => format!("target {}, host {}", route.target, route.host),
        Passed::Requests { answered, median_s } => {
            let median = median_s.map(|median| format!(", half of them within {:.0} µs", median * 1e6));
            format!("{answered} requests answered{}", median.unwrap_or_default())
        }
    }
}

fn of_nic(nic: &Nic) -> String {
    let speed = nic.speed_mbps.map(|speed| format!(", {speed} Mbit/s"));
    let duplex = nic.duplex.as_deref().map(|duplex| format!(" {duplex} duplex"));
    let mtu = nic.mtu.map(|mtu| format!(", MTU {mtu}"));
    let parts = [speed, duplex, mtu].map(Option::unwrap_or_default).concat();
    let driver = nic.driver.as_deref().map(|driver| format!(" ({driver})")).unwrap_or_default();
    format!("{}{driver} is up{parts}", nic.name)
}

fn of_failed(probe: Probe, failed: &Failed) -> String {
    match failed {
        Failed::NoCarrier { interface } => {
            format!("{interface} has no carrier: see the cable, the other end's port, and `ip link set {interface} up`")
        }
        Failed::Said(sentence) => sentence.clone(),
        Failed::Nothing { said, drops, largest } => {
            let mut text = said.clone().unwrap_or_else(|| "not one request was answered".to_owned());
            match (probe, largest) {
                (Probe::Requests { there, back, .. }, Some(largest)) => {
                    let _ = write!(
                        text,
                        "; packets of up to {largest} bytes pass, and the links say {}: something on the way has a smaller \
                         MTU and drops what is larger without a word; find it, or set the MTU of both ends to {largest}",
                        there.max(back)
                    );
                }
                (Probe::Requests { .. }, None) if drops.is_empty() => text.push_str(
                    "; no counter of either end saw a drop: see firewalls, and what is between the two machines",
                ),
                _ => {}
            }
            for line in drops {
                let _ = write!(text, "; {}", of_drops(line));
            }
            text
        }
    }
}

fn of_drops(line: &LossLine) -> String {
    format!("meanwhile {} packets were dropped at the {}'s {}: {}", line.packets, line.end, line.stage, line.evidence())
}

/// The closing line.
pub(crate) fn conclusion(first_failed: Option<Probe>) -> String {
    match first_failed {
        None => "All of it passes; linerate run tcp measures how fast.\n".to_owned(),
        Some(probe) => format!("Look at what fails first: {}.\n", name(probe)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_machine::end::{Direction, End};
    use linerate_path::stage::Stage;
    use linerate_results::join::Route;

    #[test]
    fn a_line_each() {
        let nic = Nic { name: "eth0".to_owned(), driver: Some("fec".to_owned()), mtu: Some(1500), ..Nic::default() };
        let requests = |transport, there, back| Probe::Requests { transport, asker: End::Host, there, back };
        let drop = LossLine {
            stage: Stage::ReceiverStack,
            direction: Direction::Rx,
            end: End::Target,
            packets: 3,
            cause: None,
            counters: Vec::new(),
            counted_again: Vec::new(),
            adjustments: Vec::new(),
            reasons: Vec::new(),
        };
        let route = Route { target: "10.0.0.2".parse().unwrap(), host: "10.0.0.1".parse().unwrap() };
        let nothing = |drops, largest| Err(Failed::Nothing { said: None, drops, largest });
        let steps = [
            Step { probe: Probe::Link(End::Target), came: Ok(Passed::Link(Some(Box::new(nic)))) },
            Step { probe: Probe::Link(End::Host), came: Err(Failed::NoCarrier { interface: "eth1".to_owned() }) },
            Step { probe: Probe::Addresses, came: Ok(Passed::Addresses(route)) },
            Step {
                probe: requests(Workload::TcpRr, 60, 60),
                came: Ok(Passed::Requests { answered: 50, median_s: Some(0.000_123) }),
            },
            Step { probe: requests(Workload::UdpRr, 60, 60), came: nothing(vec![drop], None) },
            Step { probe: requests(Workload::UdpRr, 60, 60), came: nothing(Vec::new(), None) },
            Step { probe: requests(Workload::UdpRr, 1500, 60), came: nothing(Vec::new(), Some(1400)) },
        ];
        let text: String = steps.iter().map(|step| text(step, 80)).collect();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
