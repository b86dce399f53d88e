//! The controller's side of a conversation in a few lines: for a test that is started at the board itself.
//! Knows what an answer may hold, as far as the menu shows it.

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use linerate_control::line::LONGEST_FROM_AGENT;
use linerate_control::message::PROTOCOL;
use linerate_control::{Guard, noise};
use linerate_machine::text::number;
use linerate_menu::dialogue::Lines;
use socket2::{Domain, Socket, Type};

use super::{json, read_key, start_another, try_again};
use crate::arguments::address_and_port;

/// How long an answer may take; opening flows takes longest.
const ANSWER: Duration = Duration::from_secs(15);
/// Between two signs of life, seconds; an agent bears ten times as long.
const HEARTBEAT_S: u64 = 1;
/// How long a machine may take to be reached.
const REACH: Duration = Duration::from_secs(8);

/// An agent at one end of the test.
pub(super) struct Peer {
    name: &'static str,
    /// Closed before the carrier ends: the end of its input is the end of the agent, of its traffic and its settings. `None`: it is
    /// broken.
    writer: Option<Box<dyn Write + Send>>,
    lines: Lines,
    asked: u32,
    spoke: Instant,
    /// The line that answered last, or told the end of the trial.
    pub(super) said: String,
    has_finished: bool,
    _carrier: Carrier,
}

/// What is ended with the conversation.
enum Carrier {
    Child(Child),
    Socket { _guard: Guard },
}

impl Peer {
    /// An agent of this machine: a child, which ends with this. `program` is how the user called this one, and `lease` the
    /// first request.
    pub(super) fn here(program: &str, lease: &str) -> Result<Box<Peer>, Box<str>> {
        let mut child = start_another(program, &["--stdio"])?;
        // As files, which the program has a use for anyway.
        let (writer, reader) = child.stdin.take().zip(child.stdout.take()).expect("both streams are piped");
        let (writer, reader) = (File::from(OwnedFd::from(writer)), File::from(OwnedFd::from(reader)));
        Peer::greet("this machine", Box::new(reader), Box::new(writer), Carrier::Child(child), lease)
    }

    /// The agent that listens there, and the two addresses of the way to it: this machine's first.
    pub(super) fn at(address: &str, key: &str, lease: &str) -> Result<(Box<Peer>, [IpAddr; 2]), Box<str>> {
        let cannot = |why: &dyn Display| -> Box<str> {
            format!("{address} cannot be reached: {why}; see that linerate agent --listen runs there, with this key.")
                .into()
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
        let carrier = Carrier::Socket { _guard: link.guard };
        Ok((Peer::greet("the host", link.reader, link.writer, carrier, lease)?, [local, to.ip()]))
    }

    fn greet(
        name: &'static str,
        reader: Box<dyn Read + Send>,
        writer: Box<dyn Write + Send>,
        carrier: Carrier,
        lease: &str,
    ) -> Result<Box<Peer>, Box<str>> {
        let lines = Lines::new(reader, LONGEST_FROM_AGENT, 64)
            .map_err(|error| try_again("No thread could be started", &error))?;
        let (spoke, said) = (Instant::now(), String::new());
        let peer =
            Peer { name, writer: Some(writer), lines, asked: 0, spoke, said, has_finished: false, _carrier: carrier };
        let mut peer = Box::new(peer);
        peer.write(&format!("{{\"linerate\":{PROTOCOL},\"program\":\"linerate-agent --menu\"}}\n"));
        peer.hear(ANSWER, true)?;
        if json::at(&peer.said, &["linerate"]).and_then(number) != Some(PROTOCOL) {
            return Err(format!("On {name} another version answers; install the same one on both machines.").into());
        }
        peer.ask(lease);
        peer.answer()?;
        Ok(peer)
    }

    /// Asks, without waiting.
    pub(super) fn ask(&mut self, request: &str) {
        self.asked += 1;
        self.write(&format!("{{\"id\":{},\"request\":{request}}}\n", self.asked));
    }

    /// Waits until what was asked last is answered.
    pub(super) fn answer(&mut self) -> Result<(), Box<str>> {
        loop {
            self.hear(ANSWER, true)?;
            if json::at(&self.said, &["reply", "re"]).and_then(number) == Some(self.asked) {
                return Ok(());
            }
        }
    }

    /// Whether the end of the trial has been told, perhaps within this time. What is said after it is of no interest.
    pub(super) fn has_finished(&mut self, within: Duration) -> Result<bool, Box<str>> {
        if self.spoke.elapsed().as_secs() >= HEARTBEAT_S {
            self.ask("\"ping\"");
        }
        if !self.has_finished && self.hear(within, false)? {
            self.has_finished = json::at(&self.said, &["event", "finished"]).is_some();
        }
        Ok(self.has_finished)
    }

    /// Hears what is said next; false: nothing in this time, which is an error where it is due then. So is a refusal, and a trial that
    /// failed.
    fn hear(&mut self, within: Duration, is_due: bool) -> Result<bool, Box<str>> {
        self.said = match self.lines.next_within(within) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) if self.writer.is_some() => {
                if !is_due {
                    return Ok(false);
                }
                let (name, seconds) = (self.name, within.as_secs());
                return Err(format!(
                    "From {name} nothing came within {seconds} s; see whether it is busy, and try again."
                )
                .into());
            }
            Err(_) => {
                return Err(format!("The conversation with {} has ended; see that its agent runs.", self.name).into());
            }
        };
        let complaint = json::at(&self.said, &["refusal"]).or_else(|| json::at(&self.said, &["event", "trial-failed"]));
        let Some(complaint) = complaint else { return Ok(true) };
        let message: Option<String> =
            json::at(complaint, &["message"]).and_then(|text| serde_json::from_str(text).ok());
        let message = message.unwrap_or_else(|| "it could not go on".to_owned());
        Err(format!("On {}: {message}.", self.name).into())
    }

    fn write(&mut self, line: &str) {
        self.spoke = Instant::now();
        let Some(writer) = &mut self.writer else { return };
        // Whoever waits for an answer hears of it.
        if writer.write_all(line.as_bytes()).and_then(|()| writer.flush()).is_err() {
            self.writer = None;
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Carrier::Child(child) = self {
            let _ = child.wait();
        }
    }
}

/// What a test gave, in a sentence, by the lines in which the ends told its end: what the receiver got, and of datagrams what was
/// sent, which may be less than was asked, and lost. `None`: they cannot be read.
pub(super) fn told(ends: &[&str]) -> Option<String> {
    // Of the receivers, and of the senders.
    let (mut mbps, mut messages, mut is_counted) = ([0.0; 2], [0.0; 2], true);
    for end in ends {
        for flow in json::elements(json::at(end, &["event", "finished", "flows"])?)? {
            let is_sender = json::at(flow, &["role"])? == "\"sender\"";
            let counter: &[&str] = if is_sender { &["messages"] } else { &["arrivals", "received"] };
            let (octets, elapsed_ns) = (json::number(flow, &["octets"])?, json::number(flow, &["elapsed_ns"])?);
            let (side, count) = (usize::from(is_sender), json::number(flow, counter));
            mbps[side] += if elapsed_ns > 0.0 { octets * 8e3 / elapsed_ns } else { 0.0 };
            messages[side] += count.unwrap_or_default();
            // A stream's receiver counts no datagrams.
            is_counted &= count.is_some();
        }
    }
    let ([mbps, sent_mbps], [arrived, sent]) = (mbps, messages);
    let mut sentence = format!("{mbps:.1} Mbit/s of payload at the receiver");
    if is_counted {
        let lost: f64 = sent - arrived;
        let _ = match sent > 0.0 && lost >= 0.0 {
            true => write!(
                sentence,
                ", {sent_mbps:.1} sent, {lost} of {sent} datagrams lost ({:.2} %)",
                lost / sent * 100.0
            ),
            false => write!(sentence, ", {arrived} datagrams arrived"),
        };
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
        assert_eq!(told(&[&tcp[0], &tcp[1]]).unwrap(), "200.0 Mbit/s of payload at the receiver.");
        let udp = [flow(Role::Sender, 2_525_253, 1000, None), flow(Role::Receiver, 2_500_000, 990, Some(990))];
        let sentence = "10.0 Mbit/s of payload at the receiver, 10.1 sent, 10 of 1000 datagrams lost (1.00 %).";
        let udp = udp.map(|flow| finished(vec![flow]));
        assert_eq!(told(&[&udp[0], &udp[1]]).unwrap(), sentence);
        let at_once = FlowOutcome { elapsed_ns: 0, ..receiver() };
        assert_eq!(told(&[&finished(vec![at_once])]).unwrap(), "0.0 Mbit/s of payload at the receiver.");
        for nonsense in [
            json!(7),
            json!({"event": {"finished": {"flows": [7]}}}),
            json!({"event": {"finished": {"flows": [{"role": "receiver"}]}}}),
        ] {
            assert_eq!(told(&[&nonsense.to_string()]), None);
        }
        let most = [flow(Role::Receiver, u64::MAX, 1, Some(u64::MAX)), flow(Role::Receiver, 1, 1, Some(1))];
        assert!(told(&[&finished(most.to_vec())]).is_some());
    }
}
