//! The controller's side of a conversation in a few lines: for a test that is started at the board itself.
//! Knows what an answer may hold, as far as the menu shows it.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use linerate_control::line::{LONGEST_FROM_AGENT, LineReader};
use linerate_control::message::PROTOCOL;
use linerate_control::{Guard, Psk, noise};
use linerate_host::sys::child;
use serde::Deserialize;

use crate::arguments::address_and_port;

/// How long an answer may take; opening flows takes longest.
const ANSWER: Duration = Duration::from_secs(15);
/// Between two signs of life; an agent bears ten times as long.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a machine may take to be reached.
const REACH: Duration = Duration::from_secs(8);

/// What an agent says, as far as it is of interest here.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    linerate: Option<u32>,
    #[serde(default)]
    reply: Option<Reply>,
    #[serde(default)]
    refusal: Option<Refusal>,
    #[serde(default)]
    event: Option<Event>,
}

#[derive(Deserialize)]
struct Reply {
    re: u64,
    reply: Body,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    ports: Vec<(u16, u16)>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    flows: Vec<Flow>,
    #[serde(default)]
    message: String,
}

/// One flow, from one end.
#[derive(Deserialize)]
pub(super) struct Flow {
    role: String,
    octets: u64,
    messages: u64,
    elapsed_ns: u64,
    #[serde(default)]
    arrivals: Option<Arrivals>,
}

#[derive(Deserialize)]
struct Arrivals {
    received: u64,
}

/// An agent at one end of the test.
pub(super) struct Peer {
    name: &'static str,
    lines: Receiver<String>,
    writer: Option<Box<dyn Write + Send>>,
    asked: u64,
    spoke: Instant,
    carrier: Carrier,
}

/// What is ended with the conversation.
enum Carrier {
    Child(Child),
    Socket(Guard),
}

impl Peer {
    /// An agent of this machine: a child, which ends with this. `first` stands before its options.
    pub(super) fn here(first: &[String]) -> Result<Peer, String> {
        let mut command = Command::new("/proc/self/exe");
        command.args(first).arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
        child::end_with_us(&mut command);
        let cannot = |why: &str| format!("An agent could not be started here: {why}; try again.");
        let mut child = command.spawn().map_err(|error| cannot(&error.to_string()))?;
        let (Some(writer), Some(reader)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(cannot("it has no streams"));
        };
        Peer::greet("this machine", Box::new(reader), Box::new(writer), Carrier::Child(child))
    }

    /// The agent that listens there, and the two addresses of the way to it: this machine's first.
    pub(super) fn at(address: &str, key: &str) -> Result<(Peer, [std::net::IpAddr; 2]), String> {
        let psk = Psk::read(key.as_ref()).map_err(|error| error.to_string())?;
        let cannot = |why: String| {
            format!("{address} cannot be reached: {why}; see that linerate agent --listen runs there, with this key.")
        };
        let to = address_and_port(address)?;
        let socket = TcpStream::connect_timeout(&to, REACH).map_err(|error| cannot(error.to_string()))?;
        let way = socket.local_addr().and_then(|local| Ok([local.ip(), socket.peer_addr()?.ip()]));
        let way = way.map_err(|error| cannot(error.to_string()))?;
        let link = noise::initiate(socket, &psk).map_err(|error| cannot(error.to_string()))?;
        Ok((Peer::greet("the host", link.reader, link.writer, Carrier::Socket(link.guard))?, way))
    }

    fn greet(
        name: &'static str,
        reader: Box<dyn std::io::Read + Send>,
        writer: Box<dyn Write + Send>,
        carrier: Carrier,
    ) -> Result<Peer, String> {
        let (sent, lines) = mpsc::sync_channel(64);
        let read = move || {
            let mut lines = LineReader::new(reader, LONGEST_FROM_AGENT);
            while let Ok(Some(line)) = lines.next_line() {
                if sent.send(line).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("peer".to_owned()).stack_size(256 << 10).spawn(read);
        thread.map_err(|error| format!("No thread could be started: {error}; try again."))?;
        let mut peer = Peer { name, lines, writer: Some(writer), asked: 0, spoke: Instant::now(), carrier };
        peer.write(&format!("{{\"linerate\":{PROTOCOL},\"program\":\"linerate-agent --menu\"}}"))?;
        let hello = peer.said(Instant::now() + ANSWER)?.ok_or_else(|| peer.silent())?;
        match hello.linerate {
            Some(PROTOCOL) => Ok(peer),
            _ => Err(format!("On {name} another version answers; install the same one on both machines.")),
        }
    }

    /// Asks, without waiting.
    pub(super) fn ask(&mut self, request: &str) -> Result<u64, String> {
        self.asked += 1;
        let id = self.asked;
        self.write(&format!("{{\"id\":{id},\"request\":{request}}}"))?;
        Ok(id)
    }

    /// The answer to that: ports, where it has some.
    pub(super) fn answer(&mut self, id: u64) -> Result<Vec<(u16, u16)>, String> {
        let until = Instant::now() + ANSWER;
        loop {
            match self.said(until)? {
                Some(Said { reply: Some(Reply { re, reply }), .. }) if re == id => return Ok(reply.ports),
                Some(_) => {}
                None => return Err(self.silent()),
            }
        }
    }

    /// Whether the end of the trial has been told within this time: what its flows were.
    pub(super) fn finished(&mut self, within: Duration) -> Result<Option<Vec<Flow>>, String> {
        if self.spoke.elapsed() >= HEARTBEAT {
            self.ask("{\"type\":\"ping\"}")?;
        }
        match self.said(Instant::now() + within)? {
            Some(Said { event: Some(event), .. }) => match event.kind.as_str() {
                "finished" => Ok(Some(event.flows)),
                "trial-failed" => Err(format!("On {}: {}.", self.name, event.message)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The next that is said; `None`: nothing until then. A refusal is an error.
    fn said(&mut self, until: Instant) -> Result<Option<Said>, String> {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let said: Said = serde_json::from_str(&line)
                    .map_err(|_| format!("What {} says cannot be read; install the same version there.", self.name))?;
                match said.refusal {
                    Some(refusal) => Err(format!("On {}: {}.", self.name, refusal.message)),
                    None => Ok(Some(said)),
                }
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(format!("The conversation with {} has ended; see that its agent runs.", self.name))
            }
        }
    }

    fn write(&mut self, line: &str) -> Result<(), String> {
        self.spoke = Instant::now();
        let writer = self.writer.as_mut();
        let written =
            writer.map(|writer| writer.write_all(format!("{line}\n").as_bytes()).and_then(|()| writer.flush()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(format!("The conversation with {} has ended; see that its agent runs.", self.name)),
        }
    }

    fn silent(&self) -> String {
        format!("From {} nothing came within {} s; see whether it is busy, and try again.", self.name, ANSWER.as_secs())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input is the end of the agent, of its traffic and its settings.
        self.writer = None;
        match &mut self.carrier {
            Carrier::Child(child) => drop(child.wait()),
            Carrier::Socket(guard) => guard.end(),
        }
    }
}

/// What a test gave, in a sentence: what the receiver got, and of datagrams what was lost.
pub(super) fn told(flows: &[Flow]) -> String {
    let receivers = || flows.iter().filter(|flow| flow.role == "receiver");
    let rate = |flow: &Flow| if flow.elapsed_ns == 0 { 0.0 } else { flow.octets as f64 * 8e3 / flow.elapsed_ns as f64 };
    let mbps: f64 = receivers().map(rate).sum();
    let arrived: Option<u64> = receivers().map(|flow| flow.arrivals.as_ref().map(|one| one.received)).sum();
    let mut sentence = format!("{mbps:.1} Mbit/s of payload at the receiver");
    if let Some(arrived) = arrived {
        let sent: u64 = flows.iter().filter(|flow| flow.role == "sender").map(|flow| flow.messages).sum();
        match sent.checked_sub(arrived) {
            Some(lost) if sent > 0 => {
                let percent = lost as f64 / sent as f64 * 100.0;
                sentence += &format!(", {lost} of {sent} datagrams lost ({percent:.2} %)");
            }
            _ => sentence += &format!(", {arrived} datagrams arrived"),
        }
    }
    sentence + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(role: &str, octets: u64, messages: u64, received: Option<u64>) -> Flow {
        let arrivals = received.map(|received| Arrivals { received });
        Flow { role: role.to_owned(), octets, messages, elapsed_ns: 2_000_000_000, arrivals }
    }

    #[test]
    fn a_test_in_a_sentence() {
        let tcp =
            [flow("sender", 9, 1, None), flow("receiver", 25_000_000, 1, None), flow("receiver", 25_000_000, 1, None)];
        assert_eq!(told(&tcp), "200.0 Mbit/s of payload at the receiver.");
        let udp = [flow("sender", 9, 1000, None), flow("receiver", 2_500_000, 990, Some(990))];
        assert_eq!(told(&udp), "10.0 Mbit/s of payload at the receiver, 10 of 1000 datagrams lost (1.00 %).");
    }

    #[test]
    fn what_is_said_is_read_as_far_as_it_is_known() {
        let line = r#"{"event":{"type":"finished","end":"host","flows":[{"id":0,"role":"receiver","octets":5,"messages":1,"elapsed_ns":7,"arrivals":{"received":1,"late":0}}],"counters":{}}}"#;
        let said: Said = serde_json::from_str(line).unwrap();
        assert_eq!(said.event.unwrap().flows[0].octets, 5);
        let line = r#"{"reply":{"re":3,"reply":{"type":"prepared","ports":[[0,40001]],"interface":"eth0"}}}"#;
        let said: Said = serde_json::from_str(line).unwrap();
        assert_eq!(said.reply.unwrap().reply.ports, [(0, 40001)]);
    }
}
