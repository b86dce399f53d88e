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
        if hello["linerate"].as_u64() != Some(PROTOCOL.into()) {
            return Err(format!("On {name} another version answers; install the same one on both machines."));
        }
        Ok(peer)
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

/// An answer that lacks what it is asked for.
pub(super) const UNREADABLE: &str = "What an agent says cannot be read; install the same version on both machines.";

/// The ports in the line that answers a preparation, as the next request has them; `None`: it has none that can be read.
pub(super) fn ports(prepared: &Value) -> Option<String> {
    let pair = |pair: &Value| Some(format!("[{},{}]", pair[0].as_u64()?, pair[1].as_u64()?));
    let pairs: Option<Vec<String>> = prepared["reply"]["reply"]["ports"].as_array()?.iter().map(pair).collect();
    Some(pairs?.join(","))
}

/// What a test gave, in a sentence, by the lines in which the ends told its end: what the receiver got, and of datagrams what was
/// lost. `None`: they cannot be read.
pub(super) fn told<'a>(ends: impl Iterator<Item = &'a Value>) -> Option<String> {
    let (mut mbps, mut sent, mut arrived) = (0.0, 0_u64, Some(0_u64));
    for end in ends {
        for flow in end["event"]["flows"].as_array()? {
            let number = |name: &str| flow[name].as_u64();
            match flow["role"].as_str()? {
                "sender" => sent = sent.saturating_add(number("messages")?),
                "receiver" => {
                    let (octets, elapsed_ns) = (number("octets")? as f64, number("elapsed_ns")?);
                    mbps += if elapsed_ns == 0 { 0.0 } else { octets * 8e3 / elapsed_ns as f64 };
                    let of_flow = flow["arrivals"]["received"].as_u64();
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
                sentence += &format!(", {lost} of {sent} datagrams lost ({percent:.2} %)");
            }
            _ => sentence += &format!(", {arrived} datagrams arrived"),
        }
    }
    Some(sentence + ".")
}

#[cfg(test)]
mod tests {
    use linerate_control::message::{AgentLine, Event, Reply};
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
    fn finished(flows: Vec<FlowOutcome>) -> Value {
        let outcome = Outcome::of_flows(End::Host, flows);
        serde_json::to_value(AgentLine::Event(Event::Finished(Box::new(outcome)))).unwrap()
    }

    #[test]
    fn a_test_in_a_sentence() {
        let receiver = || flow(Role::Receiver, 25_000_000, 1, None);
        let tcp = [finished(vec![flow(Role::Sender, 9, 1, None)]), finished(vec![receiver(), receiver()])];
        assert_eq!(told(tcp.iter()).unwrap(), "200.0 Mbit/s of payload at the receiver.");
        let udp = [flow(Role::Sender, 9, 1000, None), flow(Role::Receiver, 2_500_000, 990, Some(990))];
        let sentence = "10.0 Mbit/s of payload at the receiver, 10 of 1000 datagrams lost (1.00 %).";
        assert_eq!(told(udp.map(|flow| finished(vec![flow])).iter()).unwrap(), sentence);
        let at_once = FlowOutcome { elapsed_ns: 0, ..receiver() };
        assert_eq!(told([finished(vec![at_once])].iter()).unwrap(), "0.0 Mbit/s of payload at the receiver.");
        for nonsense in
            [json!(7), json!({"event": {"flows": [7]}}), json!({"event": {"flows": [{"role": "receiver"}]}})]
        {
            assert_eq!(told([nonsense].iter()), None);
        }
        let most = [flow(Role::Receiver, u64::MAX, 1, Some(u64::MAX)), flow(Role::Receiver, 1, 1, Some(1))];
        assert!(told([finished(most.to_vec())].iter()).is_some());
    }

    #[test]
    fn ports_are_handed_on_as_they_were_told() {
        let reply =
            Reply::Prepared { ports: vec![(0, 40001), (1, 40002)], interface: None, mac: None, silenced: Vec::new() };
        let line = serde_json::to_value(AgentLine::Reply { re: 3, reply }).unwrap();
        assert_eq!(ports(&line).unwrap(), "[0,40001],[1,40002]");
        for nonsense in [json!({}), json!({"reply": {"reply": {"ports": [[0, "x"]]}}})] {
            assert_eq!(ports(&nonsense), None);
        }
    }
}
