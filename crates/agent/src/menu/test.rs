//! A test that is started at the board: one stream between this machine, the target, and an agent that listens on the host.
//! Knows what is asked of a person, and the order of a trial; the agents at both ends do the rest.

use std::fmt::Write;
use std::time::{Duration, Instant};

use linerate_host::sys::signals;
use linerate_machine::end::Direction;
use linerate_machine::text::number;
use linerate_machine::units::{BadQuantity, OfferedLoad, parse_duration, parse_size};
use linerate_menu::dialogue::{Dialogue, Disconnected};

use super::peer::{Peer, told};
use super::{KEY as KEY_ASKED, ask_for, is_address, is_key, json, secret};

/// What is asked, in this order: how it is called, what an answer looks like, and what it is until somebody says otherwise.
const ASKED: [((&str, &str), &str); 7] = [
    (("Host, where an agent listens", HOST_ALLOWED), "10.0.0.1:7777"),
    (KEY_ASKED, "key"),
    (("How long", "a time, like 10s"), "10s"),
    (("Message size, bytes", "auto, or bytes like 1470 or 64K"), AUTO),
    (("Socket buffer, bytes", "auto, or bytes like 64K"), AUTO),
    (("Streams", "1 to 128"), "1"),
    (("Offered load of each stream", "unlimited, or like 100M, 10kpps"), "unlimited"),
];
/// Who stands at the board has no other page that says what to start on the host.
const HOST_ALLOWED: &str =
    "an address and a port, like 10.0.0.1:7777, of a host that runs: linerate agent --listen [::]:7777 --psk-file key";
const HOST: usize = 0;
const KEY: usize = 1;
const TIME: usize = 2;
const MESSAGE: usize = 3;
const BUFFER: usize = 4;
const STREAMS: usize = 5;
const AUTO: &str = "auto";
/// How long an end may take to finish after the trial's time, seconds.
const GRACE_S: u64 = 15;
/// Of a secret of 128 bits.
const DIGITS: usize = 32;
/// How long one end is listened to before the other.
const TURN: Duration = Duration::from_millis(100);

/// An answer that lacks what it is asked for.
const UNREADABLE: &str = "What an agent says cannot be read; install the same version on both machines.";

/// Over which protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// What both ends are asked at the same time, before either answers.
enum Step {
    Prepare,
    Connect,
    Start,
}

/// The tests: what was asked for last.
pub(super) struct Tests([String; ASKED.len()]);

impl Tests {
    pub(super) fn new() -> Tests {
        let mut last = [const { String::new() }; ASKED.len()];
        for (last, (_, usual)) in last.iter_mut().zip(&ASKED) {
            last.push_str(usual);
        }
        Tests(last)
    }

    /// What a menu shows of them.
    pub(super) fn last(&self) -> String {
        format!("{}, message {}, buffer {}", self.0[TIME], self.0[MESSAGE], self.0[BUFFER])
    }

    /// Asks, measures, and says what came of it. `program` is how the user called this one.
    pub(super) fn run(
        &mut self,
        dialogue: &Dialogue<'_>,
        program: &str,
        over: Transport,
        direction: Direction,
    ) -> Result<(), Disconnected> {
        for (at, (last, (asked, _))) in self.0.iter_mut().zip(&ASKED).enumerate() {
            if !ask_for(dialogue, *asked, last, &|text| write_member(&mut String::new(), at, text))? {
                return Ok(());
            }
        }
        dialogue.sentence("Measuring.");
        let (Ok(sentence) | Err(sentence)) = self.measure(program, over, direction);
        dialogue.sentence(&sentence);
        dialogue.rest(Duration::ZERO)
    }

    fn measure(&self, program: &str, over: Transport, direction: Direction) -> Result<Box<str>, Box<str>> {
        let spec = self.spec(over, direction);
        // Both agents are told all of it, and nobody else.
        let controller = secret()?;
        let answer = controller.get(DIGITS..).unwrap_or_default();
        let lease = format!(
            "{{\"lease\":{{\"holder\":{{\"controller\":\"{controller}\",\"name\":\"the menu of a board (process {})\"}}}}}}",
            std::process::id()
        );
        // This machine's lease first: who measures here already is to be disturbed by nothing.
        let here = Peer::here(program, &lease)?;
        let (host, addresses) = Peer::at(&self.0[HOST], &self.0[KEY], &lease)?;
        let mut ends = [here, host];
        let secrets = format!("\"hello\":\"{controller:.DIGITS$}\",\"answer\":\"{answer}\"");
        for step in [Step::Prepare, Step::Connect, Step::Start] {
            for at in 0..2 {
                let request = match step {
                    Step::Prepare => {
                        let (end, local) = (["target", "host"][at], &addresses[at]);
                        format!("{{\"prepare\":{{\"spec\":{spec},\"end\":\"{end}\",{secrets},\"local\":\"{local}\"}}}}")
                    }
                    // To each the other's ports, as that one told them.
                    Step::Connect => {
                        let (other, peer) = (&ends[1 - at].said, &addresses[1 - at]);
                        let ports = json::at(other, &["reply", "reply", "prepared", "ports"]).ok_or(UNREADABLE)?;
                        format!("{{\"connect\":{{\"peer\":\"{peer}\",\"ports\":{ports}}}}}")
                    }
                    Step::Start => "\"start\"".to_owned(),
                };
                ends[at].ask(&request);
            }
            // Where one refuses, that is the news; the other is waited for in vain.
            for end in &mut ends {
                end.answer()?;
            }
        }
        let begin = Instant::now();
        let most_s = parse_duration(&self.0[TIME]).map_or(0, |time| time.as_secs()) + GRACE_S;
        loop {
            let mut running = 0;
            for end in &mut ends {
                running += u32::from(!end.has_finished(TURN)?);
            }
            if running == 0 {
                break;
            }
            if signals::came().is_some() {
                return Err("The test was ended.".into());
            }
            if begin.elapsed().as_secs() > most_s {
                return Err(
                    "The test did not end in time; see the cable, and what else keeps both machines busy.".into()
                );
            }
        }
        Ok(told(&[&ends[0].said, &ends[1].said]).ok_or(UNREADABLE)?.into())
    }

    /// The trial as the agents read it; what it does not say is as usual.
    fn spec(&self, over: Transport, direction: Direction) -> String {
        let workload = if over == Transport::Tcp { "tcp-stream" } else { "udp-stream" };
        let mut spec = format!("{{\"workload\":\"{workload}\",\"direction\":\"{}\"", direction.name());
        for (at, text) in self.0.iter().enumerate().skip(TIME) {
            // It was read when it was answered.
            let _ = write_member(&mut spec, at, text);
        }
        spec + "}"
    }
}

/// Appends to a trial's spec, behind a comma, what an answer is in it; nothing where it is no part of it, or as usual. The error is a
/// sentence.
fn write_member(spec: &mut String, at: usize, text: &str) -> Result<(), String> {
    let sentence = |BadQuantity(sentence)| sentence;
    let _ = match at {
        HOST => return is_address(text),
        KEY => return is_key(text),
        TIME => {
            let time = parse_duration(text).map_err(sentence)?;
            let (seconds, rest_ns) = (time.as_secs(), time.subsec_nanos());
            write!(spec, ",\"extent\":{{\"time\":{{\"secs\":{seconds},\"nanos\":{rest_ns}}}}}")
        }
        MESSAGE | BUFFER if text == AUTO => Ok(()),
        MESSAGE | BUFFER => {
            let size = parse_size(text).map_err(sentence)?;
            if size > u32::MAX.into() {
                return Err(format!("'{text}' is more than 4G."));
            }
            write!(spec, ",\"{}\":{size}", if at == MESSAGE { "message_size" } else { "socket_buffer" })
        }
        STREAMS => match number::<u32>(text) {
            Some(streams @ 1..=128) => write!(spec, ",\"streams\":{streams}"),
            _ => return Err(format!("'{text}' is not a number of streams; write 1 to 128.")),
        },
        _ => {
            let (unit, number) = match text.parse().map_err(sentence)? {
                OfferedLoad::Unlimited => return Ok(()),
                OfferedLoad::BitsPerSecond(bits) => ("bits", bits),
                OfferedLoad::PacketsPerSecond(packets) => ("packets", packets),
                // The menu asks no link.
                OfferedLoad::OfLine(_) => {
                    return Err("this menu takes bits or packets per second, like 100M or 10kpps".to_owned());
                }
            };
            write!(spec, ",\"rate\":{{\"{unit}_per_second\":{number}}}")
        }
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use linerate_trial::spec::{Extent, Spec, Workload};

    use super::*;

    const LOAD: usize = 6;

    #[test]
    fn agents_read_what_is_asked() {
        let mut tests = Tests::new();
        for (at, answer) in [(TIME, "2500ms"), (MESSAGE, "1470"), (BUFFER, "64K"), (STREAMS, "3"), (LOAD, "100M")] {
            write_member(&mut String::new(), at, answer).unwrap();
            tests.0[at] = answer.to_owned();
        }
        let spec: Spec = serde_json::from_str(&tests.spec(Transport::Udp, Direction::Tx)).unwrap();
        let want = Spec {
            direction: Direction::Tx,
            extent: Extent::Time(Duration::from_millis(2500)),
            message_size: Some(1470),
            socket_buffer: Some(64 << 10),
            streams: 3,
            rate: OfferedLoad::BitsPerSecond(100_000_000),
            ..Spec::new(Workload::UdpStream)
        };
        assert_eq!(spec, want);
        let usual = Tests::new().spec(Transport::Tcp, Direction::Rx);
        assert_eq!(serde_json::from_str::<Spec>(&usual).unwrap(), Spec::new(Workload::TcpStream));
    }

    #[test]
    fn an_answer_that_an_agent_could_not_read_is_refused() {
        for (at, answer) in [
            (HOST, "host"),
            (HOST, ":1"),
            (TIME, "long"),
            (MESSAGE, "5G"),
            (STREAMS, "0"),
            (STREAMS, "1.4"),
            (LOAD, "fast"),
        ] {
            assert!(write_member(&mut String::new(), at, answer).is_err(), "{answer}");
        }
    }
}
