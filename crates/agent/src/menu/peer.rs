//! The controller's side of a conversation in a few lines: for a test that is started at the board itself.
//! Knows what an answer may hold, as far as the menu shows it.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use linerate_control::line::{LONGEST_FROM_AGENT, LineReader};
use linerate_control::message::PROTOCOL;
use linerate_control::{Guard, Psk, noise};
use linerate_host::sys::child;
use linerate_machine::channel::{Receiver, channel};
use serde_json::Value;

use crate::arguments::address_and_port;

/// How long an answer may take; opening flows takes longest.
const ANSWER: Duration = Duration::from_secs(15);
/// Between two signs of life; an agent bears ten times as long.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a machine may take to be reached.
const REACH: Duration = Duration::from_secs(8);

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
        // As files, which the program has a use for anyway.
        let (reader, writer) = (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)));
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
        let (sent, lines) = channel(64);
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
        match hello["linerate"].as_u64() == Some(PROTOCOL.into()) {
            true => Ok(peer),
            false => Err(format!("On {name} another version answers; install the same one on both machines.")),
        }
    }

    /// Asks, without waiting.
    pub(super) fn ask(&mut self, request: &str) -> Result<u64, String> {
        self.asked += 1;
        let id = self.asked;
        self.write(&format!("{{\"id\":{id},\"request\":{request}}}"))?;
        Ok(id)
    }

    /// The line with the answer to that.
    pub(super) fn answer(&mut self, id: u64) -> Result<Value, String> {
        let until = Instant::now() + ANSWER;
        loop {
            let said = self.said(until)?.ok_or_else(|| self.silent())?;
            if said["reply"]["re"].as_u64() == Some(id) {
                return Ok(said);
            }
        }
    }

    /// Whether the end of the trial has been told within this time: the line that does.
    pub(super) fn finished(&mut self, within: Duration) -> Result<Option<Value>, String> {
        if self.spoke.elapsed() >= HEARTBEAT {
            self.ask("{\"type\":\"ping\"}")?;
        }
        let Some(said) = self.said(Instant::now() + within)? else { return Ok(None) };
        match said["event"]["type"].as_str() {
            Some("finished") => Ok(Some(said)),
            Some("trial-failed") => Err(self.complains(&said["event"]["message"])),
            _ => Ok(None),
        }
    }

    fn complains(&self, message: &Value) -> String {
        format!("On {}: {}.", self.name, message.as_str().unwrap_or("it could not go on"))
    }

    /// The next that is said; `None`: nothing until then. A refusal is an error.
    fn said(&mut self, until: Instant) -> Result<Option<Value>, String> {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let said: Value = serde_json::from_str(&line)
                    .map_err(|_| format!("What {} says cannot be read; install the same version there.", self.name))?;
                match said.get("refusal") {
                    Some(refusal) => Err(self.complains(&refusal["message"])),
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

/// What a test gave, in a sentence: what the receiver got, and of datagrams what was lost. Of the lines in which
/// each end told its trial's end.
pub(super) fn told(ends: &[Value]) -> String {
    let (mut mbps, mut sent, mut arrived) = (0.0, 0, None);
    for flow in ends.iter().filter_map(|said| said["event"]["flows"].as_array()).flatten() {
        let number = |name: &str| flow[name].as_u64().unwrap_or(0);
        if flow["role"].as_str() == Some("sender") {
            sent += number("messages");
            continue;
        }
        mbps += number("octets") as f64 * 8e3 / number("elapsed_ns").max(1) as f64;
        if let Some(received) = flow["arrivals"]["received"].as_u64() {
            arrived = Some(arrived.unwrap_or(0) + received);
        }
    }
    let mut sentence = format!("{mbps:.1} Mbit/s of payload at the receiver");
    if let Some(arrived) = arrived {
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
    use serde_json::json;

    use super::*;

    fn flow(role: &str, octets: u64, messages: u64, received: Option<u64>) -> Value {
        let mut flow = json!({"role": role, "octets": octets, "messages": messages, "elapsed_ns": 2_000_000_000});
        if let Some(received) = received {
            flow["arrivals"] = json!({"received": received, "late": 0});
        }
        flow
    }

    fn finished(flows: &[Value]) -> Value {
        json!({"event": {"type": "finished", "flows": flows}})
    }

    #[test]
    fn a_test_in_a_sentence() {
        let tcp = finished(&[flow("receiver", 25_000_000, 1, None), flow("receiver", 25_000_000, 1, None)]);
        assert_eq!(told(&[finished(&[flow("sender", 9, 1, None)]), tcp]), "200.0 Mbit/s of payload at the receiver.");
        let ends =
            [flow("sender", 9, 1000, None), flow("receiver", 2_500_000, 990, Some(990))].map(|flow| finished(&[flow]));
        let sentence = "10.0 Mbit/s of payload at the receiver, 10 of 1000 datagrams lost (1.00 %).";
        assert_eq!(told(&ends), sentence);
        assert_eq!(
            told(&[json!(7), finished(&[json!(7), json!({"role": []})])]),
            "0.0 Mbit/s of payload at the receiver."
        );
    }
}
