//! A tool that measures networks, as far as the benchmark needs to know it: how it is started and how it is read.
//! Knows no tool by name; each is described in a file of its own.

/// What a tool is made to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// One TCP stream, as fast as it goes.
    Tcp,
    /// One UDP stream.
    Udp {
        /// Payload of a datagram.
        octets: u32,
        /// Payload bits per second; `None`: as fast as it goes.
        rate_bps: Option<u64>,
    },
    /// Requests, each answered before the next is sent.
    Requests {
        /// Over UDP, or TCP.
        udp: bool,
        /// Payload, of request and response alike.
        octets: u32,
    },
}

/// How to start a tool and read what it says.
pub(super) struct Peer {
    /// As the tables call it.
    pub name: &'static str,
    /// As linerate's endpoints and servers call its protocol.
    pub endpoint: &'static str,
    /// Its client receives.
    pub receives: bool,
    /// Its program, and the Debian package of the same name.
    pub program: &'static str,
    /// The server's arguments, and where it listens.
    pub serve: fn(Load) -> Server,
    /// The client's arguments, for seconds towards an address.
    pub ask: fn(Load, u32, &str) -> Vec<String>,
    /// Finds the receiver's account in what both said; a sentence where there is none.
    pub read: fn(Load, &Heard) -> Result<Account, String>,
}

/// A server to be started.
pub(super) struct Server {
    pub arguments: Vec<String>,
    pub udp: bool,
    pub port: u16,
}

/// What the two ends of a tool printed.
pub(super) struct Heard<'a> {
    pub client: &'a str,
    pub server: &'a str,
}

/// What arrived, by the account of the end that received it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// Payload octets.
    pub octets: f64,
    /// The time that they took, s.
    pub seconds: f64,
    /// Lost datagrams, by the tool's own account.
    pub lost: Option<f64>,
    /// Requests answered in this time.
    pub transactions: Option<f64>,
    /// Median time from request to response, s.
    pub median_s: Option<f64>,
}

impl Account {
    /// Payload bits per second.
    pub(super) fn bps(&self) -> f64 {
        self.octets * 8.0 / self.seconds
    }
}

/// Words as arguments.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The number before a unit that stands as a word of its own, as in `1526.2 MB /   1.00 sec`.
pub(super) fn before(line: &str, unit: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let place = words.iter().position(|word| *word == unit)?;
    words.get(place.checked_sub(1)?)?.parse().ok()
}

/// The number after `name=`.
pub(super) fn after(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(name)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// What a tool is told when its output does not have what it should.
pub(super) fn unread(tool: &str, heard: &Heard) -> String {
    let last = |text: &str| text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
    format!("{tool} gave no figure; it said: {}; its server: {}", last(heard.client), last(heard.server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_between_words() {
        assert_eq!(before(" 12 MB /   1.50 sec", "sec"), Some(1.5));
        assert_eq!(before("sec", "sec"), None);
        assert_eq!(after("a=1 rate_Mbps=2821.56 b", "rate_Mbps="), Some(2821.56));
        assert_eq!(after("RunTime=0.552 sec; Sent", "RunTime="), Some(0.552));
        assert_eq!(after("x", "y="), None);
    }
}
