//! `cargo xtask agent-size`: the agent's file and memory, measured and held against their limits.
//! Knows the limits and how the figures are shown; `conversation` makes the agents work.
//!
//! Boards with 32 MiB of memory exist, and with 8 MiB of flash. The limits are the project's promise to them.

mod conversation;

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use linerate_control::{ConnectOptions, Endpoint};
use linerate_lab::{HOST_IPV4, Lab, Privilege, Shape, TARGET_IPV4, enter_user_namespace, privilege};
use linerate_trial::spec::Workload;

use crate::agents::{self, FILE_LIMIT, IDLE_LIMIT};
use crate::measured::write_part;
use conversation::{Machine, Pair};

const MIB: f64 = 1024.0 * 1024.0;
const TRIAL_LIMIT: f64 = 16.0 * MIB;

/// Long enough for every buffer to have been used, and for three time slices.
const TRIAL: Duration = Duration::from_secs(3);

/// The document and its part that `--write` replaces.
const DOCUMENT: &str = "docs/benchmarks/README.md";
const PART: &str = "agent-size";

/// Builds, measures, prints; fails when a figure is over its limit.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let write = match words.map(|word| word.into_string()).collect::<Result<Vec<_>, _>>().as_deref() {
        Ok([]) => false,
        Ok([word]) if word == "--write" => true,
        _ => return Err("it is: cargo xtask agent-size [--write]".to_owned()),
    };
    let agent = agents::build_one()?;
    let file = fs::metadata(&agent).map_err(|error| format!("{}: {error}", agent.display()))?.len();
    let mut figures = vec![Figure::new("file, static and stripped", file, FILE_LIMIT)];

    // Without root the machines are made in a user namespace, which a process enters before its first thread.
    let privilege = privilege();
    if privilege == Privilege::UserNamespace {
        enter_user_namespace().map_err(|error| error.to_string())?;
    }
    let lab = match privilege {
        Privilege::None { why } => {
            eprintln!("xtask: over the loopback instead of between namespaces: {why}");
            None
        }
        _ => Some(Lab::up(&Shape::unshaped()).map_err(|error| error.to_string())?),
    };
    let options = ConnectOptions {
        program: concat!("xtask ", env!("CARGO_PKG_VERSION")).to_owned(),
        agent_program: Some(agent),
        ..ConnectOptions::default()
    };
    let machines = match &lab {
        Some(lab) => {
            let endpoint = |path: std::path::PathBuf| Endpoint::Netns(path.display().to_string());
            [
                Machine { endpoint: endpoint(lab.target.path()), address: TARGET_IPV4.into() },
                Machine { endpoint: endpoint(lab.host.path()), address: HOST_IPV4.into() },
            ]
        }
        None => [(); 2].map(|()| Machine { endpoint: Endpoint::Local, address: [127, 0, 0, 1].into() }),
    };
    for workload in [Workload::TcpStream, Workload::UdpStream, Workload::TcpRr] {
        // New agents for each, because the highest use of a process never falls.
        let pair = Pair::start(&machines, &options)?;
        if workload == Workload::TcpStream {
            figures.push(Figure::new("memory, idle after the greeting", pair.idle()?, IDLE_LIMIT));
        }
        let [target, host] = pair.measure(workload, TRIAL)?;
        let (sends, receives) = if workload.is_stream() { ("sends", "receives") } else { ("asks", "answers") };
        figures.push(Figure::new(format!("memory, {receives} one {workload}"), target, TRIAL_LIMIT));
        figures.push(Figure::new(format!("memory, {sends} one {workload}"), host, TRIAL_LIMIT));
        figures.push(Figure::new(format!("memory, idle after {workload}"), pair.idle()?, IDLE_LIMIT));
    }

    let table = table(&figures);
    print!("{table}");
    if write {
        write_part(DOCUMENT, PART, &table)?;
    }
    let over: Vec<String> = figures.iter().filter(|figure| figure.is_over()).map(Figure::to_string).collect();
    if over.is_empty() { Ok(()) } else { Err(format!("the agent is over its limits: {}", over.join("; "))) }
}

/// A size beside its limit, both in octets.
struct Figure {
    name: String,
    octets: u64,
    limit: f64,
}

impl Figure {
    fn new(name: impl Into<String>, octets: u64, limit: f64) -> Figure {
        Figure { name: name.into(), octets, limit }
    }

    fn is_over(&self) -> bool {
        self.octets as f64 > self.limit
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:.2} MiB of {}", self.name, self.octets as f64 / MIB, self.limit / MIB)
    }
}

fn table(figures: &[Figure]) -> String {
    let mut table = "| the agent | MiB | at most |\n|---|--:|--:|\n".to_owned();
    for Figure { name, octets, limit } in figures {
        table += &format!("| {name} | {:.2} | {} |\n", *octets as f64 / MIB, limit / MIB);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::with_part;
    use crate::program::root;

    #[test]
    fn a_limit_is_met_exactly_and_not_by_one_octet_more() {
        let limit = FILE_LIMIT as u64;
        assert!(!Figure::new("x", limit, FILE_LIMIT).is_over());
        assert!(Figure::new("x", limit + 1, FILE_LIMIT).is_over());
    }

    #[test]
    fn the_document_has_its_place() {
        let text = fs::read_to_string(root().join(DOCUMENT)).unwrap();
        assert!(with_part(&text, PART, "").is_some(), "{DOCUMENT}");
    }
}
