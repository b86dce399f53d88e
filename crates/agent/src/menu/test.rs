//! A test that is started at the board: one stream between this machine, the target, and an agent that listens on the host.
//! Knows what is asked of a person, and the order of a trial; the agents at both ends do the rest.

use std::time::{Duration, Instant};

use linerate_machine::end::Direction;
use linerate_machine::units::{OfferedLoad, parse_duration, parse_size};
use linerate_menu::dialogue::{Asked, Dialogue};
use linerate_menu::menu::Question;
use serde_json::Value;

use super::Next;
use super::peer::{Peer, UNREADABLE, ports, told};
use crate::arguments::address_and_port;

/// What is asked, in this order: how it is called, and what an answer looks like.
const ASKED: [(&str, &str); 7] = [
    ("Host, where an agent listens", "an address and a port, like 10.0.0.1:7777"),
    ("File of the key", "a file of 64 hexadecimal digits; --new-psk FILE makes one"),
    ("How long", "a time, like 10s"),
    ("Message size, bytes", "auto, or bytes like 1470 or 64K"),
    ("Socket buffer, bytes", "auto, or bytes like 64K"),
    ("Streams", "1 to 128"),
    ("Offered load of each stream", "unlimited, or like 100M, 10kpps"),
];
const HOST: usize = 0;
const KEY: usize = 1;
const TIME: usize = 2;
const MESSAGE: usize = 3;
const BUFFER: usize = 4;
const STREAMS: usize = 5;
const LOAD: usize = 6;
/// How long an end may take to finish after the trial's time.
const GRACE: Duration = Duration::from_secs(15);
/// How long one end is listened to before the other.
const TURN: Duration = Duration::from_millis(100);

/// Over which protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Tcp,
    Udp,
}

/// The tests, and what was asked for last.
pub(super) struct Tests {
    /// What stands before the agent's options.
    first: Vec<String>,
    last: [String; ASKED.len()],
}

impl Tests {
    /// `program` is how the user called this program, such as `linerate agent`.
    pub(super) fn new(program: &str) -> Tests {
        let last = ["10.0.0.1:7777", "key", "10s", "auto", "auto", "1", "unlimited"].map(str::to_owned);
        Tests { first: program.split_whitespace().skip(1).map(str::to_owned).collect(), last }
    }

    /// What a menu shows of them.
    pub(super) fn last(&self) -> String {
        format!("{}, message {}, buffer {}", self.last[TIME], self.last[MESSAGE], self.last[BUFFER])
    }

    /// Asks, measures, and says what came of it.
    pub(super) fn run(
        &mut self,
        dialogue: &Dialogue<'_>,
        over: Over,
        direction: Direction,
        ended: &dyn Fn() -> bool,
    ) -> Next {
        for (at, (prompt, allowed)) in ASKED.iter().enumerate() {
            let question =
                Question { prompt: (*prompt).to_owned(), last: self.last[at].clone(), allowed: (*allowed).to_owned() };
            match dialogue.ask(&question, &|text| check(at, text)) {
                Asked::Is(text) => self.last[at] = text,
                Asked::Left => return Next::Goes,
                Asked::End => return Next::Ends,
            }
        }
        dialogue.sentence("Measuring.");
        let sentence = self.measure(over, direction, ended).unwrap_or_else(|why| why);
        dialogue.sentence(&sentence);
        if ended() { Next::Ends } else { Next::Goes }
    }

    fn measure(&self, over: Over, direction: Direction, ended: &dyn Fn() -> bool) -> Result<String, String> {
        let spec = self.spec(over, direction)?;
        // This machine's lease first: who measures here already is to be disturbed by nothing.
        let mut here = Peer::here(&self.first)?;
        let controller = secret()?;
        let lease = format!(
            "{{\"type\":\"lease\",\"holder\":{{\"controller\":\"{controller}\",\"name\":\"the menu of a board (process {})\"}}}}",
            std::process::id()
        );
        let id = here.ask(&lease)?;
        here.answer(id)?;
        let (mut host, [local, remote]) = Peer::at(&self.last[HOST], &self.last[KEY])?;
        let id = host.ask(&lease)?;
        host.answer(id)?;

        let (hello, answer) = (secret()?, secret()?);
        let prepare = |end: &str, address: std::net::IpAddr| {
            format!(
                "{{\"type\":\"prepare\",\"spec\":{spec},\"end\":\"{end}\",\"hello\":\"{hello}\",\"answer\":\"{answer}\",\
                 \"local\":\"{address}\"}}"
            )
        };
        let [ours, theirs] = both([(&mut here, prepare("target", local)), (&mut host, prepare("host", remote))])?;
        let connect = |peer: std::net::IpAddr, prepared: &Value| {
            let ports = ports(prepared).ok_or(UNREADABLE)?;
            Ok::<_, &str>(format!("{{\"type\":\"connect\",\"peer\":\"{peer}\",\"ports\":[{ports}]}}"))
        };
        both([(&mut here, connect(remote, &theirs)?), (&mut host, connect(local, &ours)?)])?;
        let start = "{\"type\":\"start\"}".to_owned();
        both([(&mut here, start.clone()), (&mut host, start)])?;

        let until = Instant::now() + parse_duration(&self.last[TIME]).unwrap_or_default() + GRACE;
        let (mut of_here, mut of_host) = (None, None);
        while of_here.is_none() || of_host.is_none() {
            if ended() {
                return Err("The test was ended.".to_owned());
            }
            if Instant::now() > until {
                return Err("The test did not end in time; see what else keeps the two machines busy.".to_owned());
            }
            // What is said after the end is of no interest.
            let (now_here, now_host) = (here.finished(TURN)?, host.finished(TURN)?);
            of_here = of_here.or(now_here);
            of_host = of_host.or(now_host);
        }
        told(of_here.iter().chain(&of_host)).ok_or_else(|| UNREADABLE.to_owned())
    }

    /// The trial as the agents read it; what it does not say is as usual.
    fn spec(&self, over: Over, direction: Direction) -> Result<String, String> {
        let workload = if over == Over::Tcp { "tcp-stream" } else { "udp-stream" };
        let time = parse_duration(&self.last[TIME]).map_err(|error| error.to_string())?;
        let mut spec = format!(
            "{{\"workload\":\"{workload}\",\"direction\":\"{}\",\"extent\":{{\"time\":{{\"secs\":{},\"nanos\":{}}}}},\
             \"streams\":{}",
            direction.name(),
            time.as_secs(),
            time.subsec_nanos(),
            self.last[STREAMS]
        );
        for (name, at) in [("message_size", MESSAGE), ("socket_buffer", BUFFER)] {
            if self.last[at] != "auto" {
                let size = parse_size(&self.last[at]).map_err(|error| error.to_string())?;
                spec += &format!(",\"{name}\":{size}");
            }
        }
        match self.last[LOAD].parse::<OfferedLoad>().map_err(|error| error.to_string())? {
            OfferedLoad::Unlimited => {}
            OfferedLoad::BitsPerSecond(bits) => spec += &format!(",\"rate\":{{\"bits_per_second\":{bits}}}"),
            OfferedLoad::PacketsPerSecond(packets) => {
                spec += &format!(",\"rate\":{{\"packets_per_second\":{packets}}}")
            }
            // The menu asks no link.
            OfferedLoad::OfLine(_) => {
                return Err("this menu takes bits or packets per second, like 100M or 10kpps".to_owned());
            }
        }
        Ok(spec + "}")
    }
}

/// Asks both at the same time, and gives what both answered.
fn both(asked: [(&mut Peer, String); 2]) -> Result<[Value; 2], String> {
    let [(here, to_here), (host, to_host)] = asked;
    let (first, second) = (here.ask(&to_here)?, host.ask(&to_host)?);
    // Where one refuses, that is the news; the other is waited for in vain.
    Ok([here.answer(first)?, host.answer(second)?])
}

fn check(at: usize, text: &str) -> Result<(), String> {
    match at {
        HOST => address_and_port(text).map(|_| ()),
        KEY => linerate_control::Psk::read(text.as_ref()).map(|_| ()).map_err(|error| error.to_string()),
        TIME => parse_duration(text).map(|_| ()).map_err(|error| error.to_string()),
        MESSAGE | BUFFER if text == "auto" => Ok(()),
        MESSAGE | BUFFER => match parse_size(text).map_err(|error| error.to_string())? {
            0..=0xffff_ffff => Ok(()),
            _ => Err(format!("'{text}' is more than 4G.")),
        },
        STREAMS => match text.parse::<u16>() {
            Ok(1..=128) => Ok(()),
            _ => Err(format!("'{text}' is no number of streams; write 1 to 128.")),
        },
        _ => text.parse::<OfferedLoad>().map(|_| ()).map_err(|error| error.to_string()),
    }
}

/// 128 random bits as 32 hexadecimal digits.
fn secret() -> Result<String, String> {
    use std::io::Read;
    let mut octets = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut octets))
        .map_err(|error| format!("This machine has no random numbers: {error}."))?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use linerate_trial::spec::{Extent, Spec, Workload};

    use super::*;

    #[test]
    fn agents_read_what_is_asked() {
        let mut tests = Tests::new("linerate-agent");
        for (at, answer) in [(TIME, "2500ms"), (MESSAGE, "1470"), (BUFFER, "64K"), (STREAMS, "3"), (LOAD, "100M")] {
            check(at, answer).unwrap();
            tests.last[at] = answer.to_owned();
        }
        let spec: Spec = serde_json::from_str(&tests.spec(Over::Udp, Direction::Tx).unwrap()).unwrap();
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
        let usual = Tests::new("linerate-agent").spec(Over::Tcp, Direction::Rx).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&usual).unwrap(), Spec::new(Workload::TcpStream));
    }

    #[test]
    fn an_answer_that_an_agent_could_not_read_is_refused() {
        for (at, answer) in
            [(HOST, "host"), (HOST, ":1"), (TIME, "long"), (MESSAGE, "5G"), (STREAMS, "0"), (LOAD, "fast")]
        {
            assert!(check(at, answer).is_err(), "{answer}");
        }
    }
}
