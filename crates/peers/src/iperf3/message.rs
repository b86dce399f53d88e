//! What iperf3's control connection carries: a cookie, single bytes of state, and JSON with a length before it.
//! Knows no sequence of them; client and server do.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Octets of a cookie: 36 characters and a NUL.
pub const COOKIE_LEN: usize = 37;
/// The most octets of a JSON text that is read. Parameters stay below 8 KiB, results of 128 streams with a server's
/// output in them below some MiB.
pub const MAX_TEXT: u32 = 4 << 20;
/// The same of a client's results: 256 streams of one test fit.
pub const MAX_RESULTS: u32 = 256 << 10;

const COOKIE_CHARACTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// What proves that a connection belongs to a test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cookie(pub [u8; COOKIE_LEN]);

impl Cookie {
    /// A new one of random characters.
    pub fn new() -> io::Result<Cookie> {
        let mut octets = [0; COOKIE_LEN];
        getrandom::fill(&mut octets[..COOKIE_LEN - 1]).map_err(io::Error::other)?;
        for octet in &mut octets[..COOKIE_LEN - 1] {
            *octet = COOKIE_CHARACTERS[usize::from(*octet) % COOKIE_CHARACTERS.len()];
        }
        Ok(Cookie(octets))
    }

    /// The one that a connection begins with.
    pub fn read(connection: &mut impl Read) -> io::Result<Cookie> {
        let mut octets = [0; COOKIE_LEN];
        connection.read_exact(&mut octets)?;
        Ok(Cookie(octets))
    }
}

/// A byte for each state.
macro_rules! states {
    ($($(#[$about:meta])* $state:ident = $octet:literal,)*) => {
        /// A byte of the control connection: where the test is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum State {
            $($(#[$about])* $state = $octet,)*
        }

        impl State {
            /// The state of this byte.
            pub fn of(octet: u8) -> Option<State> {
                match octet {
                    $($octet => Some(State::$state),)*
                    _ => None,
                }
            }
        }
    };
}

states! {
    /// The server has all streams.
    TestStart = 1,
    /// Data may flow.
    TestRunning = 2,
    /// The client has sent everything, or its time is over.
    TestEnd = 4,
    /// The server wants the parameters.
    ParamExchange = 9,
    /// The server has accepted the parameters: streams may be opened.
    CreateStreams = 10,
    /// The server was interrupted.
    ServerTerminate = 11,
    /// The client was interrupted.
    ClientTerminate = 12,
    /// The server wants the results.
    ExchangeResults = 13,
    /// Results are exchanged.
    DisplayResults = 14,
    /// The client is done.
    Done = 16,
    /// The server has another test, or the cookie is of no test.
    AccessDenied = 0xff,
    /// The server cannot; its error code and errno follow.
    ServerError = 0xfe,
}

/// Writes a state.
pub fn write_state(connection: &mut impl Write, state: State) -> io::Result<()> {
    connection.write_all(&[state as u8])
}

/// Reads a state; one that nobody knows is invalid data.
pub fn read_state(connection: &mut impl Read) -> io::Result<State> {
    let mut octet = [0];
    connection.read_exact(&mut octet)?;
    State::of(octet[0]).ok_or_else(|| invalid(format!("{} is no state of iperf3", octet[0])))
}

/// Writes a JSON text: its length, 32 bits big-endian, and itself.
pub fn write_json(connection: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let len = u32::try_from(text.len()).map_err(|_| invalid("a text of more than 4 GiB".to_owned()))?;
    // One write: a peer that reads the length alone may take what follows late for a stall.
    connection.write_all(&[&len.to_be_bytes(), text.as_slice()].concat())
}

/// Reads a JSON text of at most `most` octets. Memory grows with what came, not with what was announced.
pub fn read_json<T: DeserializeOwned>(connection: &mut impl Read, most: u32) -> io::Result<T> {
    let mut len = [0; 4];
    connection.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if len > most {
        return Err(invalid(format!("a text of {len} bytes was announced, where {most} are the most")));
    }
    let mut text = Vec::new();
    connection.take(len.into()).read_to_end(&mut text)?;
    if text.len() < len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&text).map_err(|error| invalid(format!("not what iperf3 says there: {error}")))
}

fn invalid(sentence: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_what_iperf3_makes() {
        let cookie = Cookie::new().unwrap();
        assert_eq!(cookie.0[36], 0);
        assert!(cookie.0[..36].iter().all(|octet| COOKIE_CHARACTERS.contains(octet)));
        assert!(cookie != Cookie::new().unwrap());
        assert!(Cookie::read(&mut &cookie.0[..]).unwrap() == cookie);
        assert!(Cookie::read(&mut &cookie.0[..36]).is_err());
    }

    #[test]
    fn states_are_single_bytes() {
        let states: Vec<State> = (0..=255).filter_map(State::of).collect();
        assert_eq!(states.len(), 12);
        for state in states {
            let mut written = Vec::new();
            write_state(&mut written, state).unwrap();
            assert_eq!(read_state(&mut &written[..]).unwrap(), state);
        }
        for octet in [0, 3, 15, 17, 0x80] {
            assert_eq!(read_state(&mut &[octet][..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn texts_have_a_length_before_them_and_a_limit() {
        let mut written = Vec::new();
        write_json(&mut written, &serde_json::json!({"tcp": true})).unwrap();
        assert_eq!(written, [b"\0\0\0\x0c", &br#"{"tcp":true}"#[..]].concat());
        let back: serde_json::Value = read_json(&mut &written[..], 12).unwrap();
        assert_eq!(back["tcp"], true);
        #[track_caller]
        fn check(octets: &[u8], kind: io::ErrorKind) {
            let error = read_json::<serde_json::Value>(&mut &octets[..], 100).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
        check(b"\0\0\0\x65", io::ErrorKind::InvalidData);
        check(b"\xff\xff\xff\xff{}", io::ErrorKind::InvalidData);
        check(b"\0\0\0\x03{}", io::ErrorKind::UnexpectedEof);
        check(b"\0\0", io::ErrorKind::UnexpectedEof);
        check(b"\0\0\0\x02{]", io::ErrorKind::InvalidData);
        check(b"\0\0\0\0", io::ErrorKind::InvalidData);
    }
}
