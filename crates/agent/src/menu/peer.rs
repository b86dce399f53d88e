//! The controller's side of a conversation in a few lines: for a test that is started at the board itself.
//! Knows what an answer may hold, as far as the menu shows it.

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use linerate_control::line::LONGEST_FROM_AGENT;
use linerate_control::message::PROTOCOL;
use linerate_control::{Guard, noise};
use linerate_menu::dialogue::Lines;
use socket2::{Domain, Socket, Type};

use super::{another, json, read_key};
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
    lines: Lines,
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
    /// An agent of this machine: a child, which ends with this. `program` is how the user called this one, and `lease` the
    /// first request.
    pub(super) fn here(program: &str, lease: &str) -> Result<Box<Peer>, String> {
        let cannot = |why: &dyn Display| format!("An agent could not be started here: {why}; try again.");
        let mut command = another(program);
        command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| cannot(&error))?;
        let (Some(writer), Some(reader)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(cannot(&"it has no streams"));
        };
        // As files, which the program has a use for anyway.
        let (reader, writer) = (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)));
        Peer::greet("this machine", Box::new(reader), Box::new(writer), Carrier::Child(child), lease)
    }

    /// The agent that listens there, and the two addresses of the way to it: this machine's first.
    pub(super) fn at(address: &str, key: &str, lease: &str) -> Result<(Box<Peer>, [IpAddr; 2]), String> {
        let cannot = |why: &dyn Display| {
            format!("{address} cannot be reached: {why}; see that linerate agent --listen runs there, with this key.")
        };
        let (psk, to) = (read_key(key)?, address_and_port(address)?);
        let connect = || {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
            socket.connect_timeout(&to.into(), REACH)?;
            let socket = TcpStream::from(socket);
            Ok((socket.local_addr()?.ip(), socket))
        };
        let (local, socket) = connect().map_err(|error: std::io::Error| cannot(&error))?;
        let link = noise::initiate(socket, &psk).map_err(|error| cannot(&error))?;
        let peer = Peer::greet("the host", link.reader, link.writer, Carrier::Socket(link.guard), lease)?;
        Ok((peer, [local, to.ip()]))
    }

    fn greet(
        name: &'static str,
        reader: Box<dyn Read + Send>,
        writer: Box<dyn Write + Send>,
        carrier: Carrier,
        lease: &str,
    ) -> Result<Box<Peer>, String> {
        let lines = Lines::new(reader, LONGEST_FROM_AGENT, 64)
            .map_err(|error| format!("No thread could be started: {error}; try again."))?;
        let peer = Peer { name, lines, writer: Some(writer), asked: 0, spoke: Instant::now(), carrier };
        let mut peer = Box::new(peer);
        peer.write(&format!("{{\"linerate\":{PROTOCOL},\"program\":\"linerate-agent --menu\"}}\n"))?;
        if json::number(&peer.wait()?, &["linerate"]) != Some(PROTOCOL.into()) {
            return Err(format!("On {name} another version answers; install the same one on both machines."));
        }
        peer.ask(lease)?;
        peer.answer()?;
        Ok(peer)
    }

    /// Asks, without waiting.
    pub(super) fn ask(&mut self, request: &str) -> Result<(), String> {
        self.asked += 1;
        self.write(&format!("{{\"id\":{},\"request\":{request}}}\n", self.asked))
    }

    /// The line that answers what was asked last.
    pub(super) fn answer(&mut self) -> Result<String, String> {
        loop {
            let said = self.wait()?;
            if json::number(&said, &["reply", "re"]) == Some(self.asked) {
                return Ok(said);
            }
        }
    }

    /// Whether the end of the trial has been told within this time: the line that does.
    pub(super) fn finished(&mut self, within: Duration) -> Result<Option<String>, String> {
        if self.spoke.elapsed() >= HEARTBEAT {
            self.ask("\"ping\"")?;
        }
        let said = self.said(within)?;
        Ok(said.filter(|said| json::at(said, &["event", "finished"]).is_some()))
    }

    /// The next that is said, which is overdue in a while.
    fn wait(&mut self) -> Result<String, String> {
        let (name, seconds) = (self.name, ANSWER.as_secs());
        self.said(ANSWER)?.ok_or_else(|| {
            format!("From {name} nothing came within {seconds} s; see whether it is busy, and try again.")
        })
    }

    /// The next that is said; `None`: nothing in this time. A refusal is an error, and a trial that failed.
    fn said(&mut self, within: Duration) -> Result<Option<String>, String> {
        let said = match self.lines.next_within(within) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
        };
        let complaint = json::at(&said, &["refusal"]).or_else(|| json::at(&said, &["event", "trial-failed"]));
        let Some(complaint) = complaint else {
            return Ok(Some(said));
        };
        let message = json::at(complaint, &["message"]).and_then(|text| serde_json::from_str(text).ok());
        let message = message.unwrap_or_else(|| "it could not go on".to_owned());
        Err(format!("On {}: {message}.", self.name))
    }

    fn write(&mut self, line: &str) -> Result<(), String> {
        self.spoke = Instant::now();
        let Some(writer) = &mut self.writer else { return Err(self.ended()) };
        writer.write_all(line.as_bytes()).and_then(|()| writer.flush()).map_err(|_| self.ended())
    }

    fn ended(&self) -> String {
        format!("The conversation with {} has ended; see that its agent runs.", self.name)
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

/// What a test gave, in a sentence, by the lines in which the ends told its end: what the receiver got, and of datagrams what was
/// lost. `None`: they cannot be read.
pub(super) fn told(ends: &[String]) -> Option<String> {
    let (mut mbps, mut sent, mut arrived) = (0.0, 0_u64, Some(0_u64));
    for end in ends {
        for flow in json::elements(json::at(end, &["event", "finished", "flows"])?)? {
            let number = |name| json::number(flow, &[name]);
            match json::at(flow, &["role"])? {
                "\"sender\"" => sent = sent.saturating_add(number("messages")?),
                "\"receiver\"" => {
                    let (octets, elapsed_ns) = (number("octets")? as f64, number("elapsed_ns")?);
                    mbps += if elapsed_ns == 0 { 0.0 } else { octets * 8e3 / elapsed_ns as f64 };
                    let of_flow = json::number(flow, &["arrivals", "received"]);
                    arrived = arrived.zip(of_flow).map(|(all, one)| all.saturating_add(one));
                }
                _ => {}
            }
        }
    }
    let mut sentence = format!("{mbps:.1} Mbit/s of payload at the receiver");
    if let Some(arrived) = arrived {
        match sent.checked_sub(arrived) {
            Some(lost) if sent > 0 => {
                let percent = lost as f64 / sent as f64 * 100.0;
                let _ = write!(sentence, ", {lost} of {sent} datagrams lost ({percent:.2} %)");
            }
            _ => {
                let _ = write!(sentence, ", {arrived} datagrams arrived");
            }
        }
    }
    Some(sentence + ".")
}

#[cfg(test)]
mod tests {
    use linerate_control::message::{AgentLine, Event};
    use linerate_machine::end::End;
    use linerate_trial::arrivals::Arrivals;
    use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
    use serde_json::json;

    use super::*;

    fn flow(role: Role, octets: u64, messages: u64, received: Option<u64>) -> FlowOutcome {
        let arrivals = received.map(|received| Arrivals { received, ..Arrivals::default() });
        FlowOutcome { octets, messages, elapsed_ns: 2_000_000_000, arrivals, ..FlowOutcome::new(0, role) }
    }

    /// As an agent says it.
    fn finished(flows: Vec<FlowOutcome>) -> String {
        let outcome = Outcome::of_flows(End::Host, flows);
        serde_json::to_string(&AgentLine::Event(Event::Finished(Box::new(outcome)))).unwrap()
    }

    #[test]
    fn a_test_in_a_sentence() {
        let receiver = || flow(Role::Receiver, 25_000_000, 1, None);
        let tcp = [finished(vec![flow(Role::Sender, 9, 1, None)]), finished(vec![receiver(), receiver()])];
        assert_eq!(told(&tcp).unwrap(), "200.0 Mbit/s of payload at the receiver.");
        let udp = [flow(Role::Sender, 9, 1000, None), flow(Role::Receiver, 2_500_000, 990, Some(990))];
        let sentence = "10.0 Mbit/s of payload at the receiver, 10 of 1000 datagrams lost (1.00 %).";
        assert_eq!(told(&udp.map(|flow| finished(vec![flow]))).unwrap(), sentence);
        let at_once = FlowOutcome { elapsed_ns: 0, ..receiver() };
        assert_eq!(told(&[finished(vec![at_once])]).unwrap(), "0.0 Mbit/s of payload at the receiver.");
        for nonsense in [
            json!(7),
            json!({"event": {"finished": {"flows": [7]}}}),
            json!({"event": {"finished": {"flows": [{"role": "receiver"}]}}}),
        ] {
            assert_eq!(told(&[nonsense.to_string()]), None);
        }
        let most = [flow(Role::Receiver, u64::MAX, 1, Some(u64::MAX)), flow(Role::Receiver, 1, 1, Some(1))];
        assert!(told(&[finished(most.to_vec())]).is_some());
    }
}
