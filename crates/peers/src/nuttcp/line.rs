//! nuttcp's control lines: who is there, what is asked for, and whether it is taken.
//! Knows no connections and none of linerate's own terms.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

/// The longest line that is read: a request of the newest versions has some 600 octets.
const LONGEST: usize = 4096;
/// `nbuf` where only time ends a test.
pub const UNLIMITED_BUFFERS: u64 = 2_147_483_647;
/// `rate` where the sender is not held back.
const UNLIMITED_RATE: u64 = 4_294_967_295;

/// A version as nuttcp compares them: 6.1.2 is 60102.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32);

impl Version {
    /// The version that this implementation behaves like.
    pub const OURS: Version = Version::new(6, 1, 2);

    /// `major.minor.patch`.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version(major * 10_000 + minor * 100 + patch)
    }

    /// Three numbers with dots between.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.trim().splitn(3, '.');
        let mut next = || parts.next()?.parse::<u32>().ok().filter(|number| *number < 100);
        Some(Version::new(next()?, next()?, next()?))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0 / 10_000, self.0 / 100 % 100, self.0 % 100)
    }
}

/// Reads a line of text, without its end. Whatever is no ASCII is none.
pub fn read(from: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut octet = [0];
    loop {
        match from.read(&mut octet)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            _ if octet[0] == b'\n' => break,
            _ if line.len() == LONGEST => return Err(ErrorKind::InvalidData.into()),
            _ => line.push(octet[0]),
        }
    }
    if !line.is_ascii() {
        return Err(ErrorKind::InvalidData.into());
    }
    String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into())
}

/// The line with which both ends begin.
pub fn hello() -> String {
    format!("HELO nuttcp v{}\n", Version::OURS)
}

/// Whose hello this is.
pub fn parse_hello(line: &str) -> Option<Version> {
    Version::parse(line.strip_prefix("HELO nuttcp v")?)
}

/// The line with which a server takes a test.
pub fn taken() -> String {
    format!("OK v{}\n", Version::OURS)
}

/// Whether a server's line takes the test.
pub fn is_taken(line: &str) -> bool {
    line.starts_with("OK")
}

/// The line that ends a refusal.
pub const REFUSED: &str = "KO";

/// A server's refusal. The client shows all lines but the first and the last.
pub fn refusal(why: &str) -> String {
    format!("nuttcp: v{}: not served\nnuttcp: Error: {why}\n{REFUSED}\n", Version::OURS)
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Octets of a write, or of a datagram.
    pub buflen: u32,
    /// How many of them, over all streams; `None`: until the time is over.
    pub nbuf: Option<u64>,
    /// Octets of the server's socket buffer; 0: as it comes.
    pub win: u32,
    /// Streams, on as many ports.
    pub nstream: u16,
    /// Kilobits per second of all streams together; `None`: as fast as they go.
    pub rate_kbps: Option<u64>,
    /// The first stream's port, of whichever end listens.
    pub port: u16,
    /// The client sends.
    pub client_sends: bool,
    /// How long; zero where `nbuf` decides.
    pub timeout: Duration,
    /// Datagrams.
    pub udp: bool,
    /// The client's version.
    pub version: Version,
    /// How often the receiver reports while it goes; zero: not. The sender numbers its datagrams if it does.
    pub interval: Duration,
    /// The data connection is opened by the receiver rather than the sender.
    pub reverse: bool,
    /// Bits: how the server is to write its report.
    pub format: u32,
    /// Of the server's end; 0: as it comes.
    pub mss: u16,
    /// The octet of type of service.
    pub tos: u8,
    /// The rate was given in datagrams per second.
    pub rate_is_pps: bool,
    /// TCP_NODELAY of the server's end.
    pub nodelay: bool,
    /// Something that is asked for besides, which only nuttcp's own server does.
    pub besides: Option<&'static str>,
}

/// The report has `name=value` pairs.
pub const FORMAT_PAIRS: u32 = 0x40;
/// Interval lines have the sums so far.
pub const FORMAT_RUNNING: u32 = 4;
/// The connection's round-trip time is not wanted; versions that know the bit set it.
const FORMAT_RTT: u32 = 0x800;

impl Request {
    /// A TCP test of the usual kind, of no length.
    pub fn new(udp: bool) -> Request {
        Request {
            buflen: if udp { 8192 } else { 65_536 },
            nbuf: None,
            win: 0,
            nstream: 1,
            rate_kbps: None,
            port: 5001,
            client_sends: true,
            timeout: Duration::ZERO,
            udp,
            version: Version::OURS,
            interval: Duration::ZERO,
            reverse: false,
            format: FORMAT_RTT,
            mss: 0,
            tos: 0,
            rate_is_pps: false,
            nodelay: false,
            besides: None,
        }
    }

    /// Reads the line: names and values, in whatever order; what is not known is passed over.
    pub fn parse(line: &str) -> Option<Request> {
        let pairs = || line.split(',').filter_map(|pair| pair.split_once('='));
        let text = |name: &str| pairs().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let flag = |name: &str| number(name).is_some_and(|value| value != 0);
        let seconds = |name: &str| text(name)?.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        let is_named = |name: &str| text(name).is_some_and(|value| !value.is_empty() && value != "_NULL_");
        let besides = [
            (is_named("thirdparty"), "a test with a third machine"),
            (flag("traceroute"), "a traceroute"),
            (number("multicast").is_some_and(|ttl| ttl != 0), "multicast"),
        ];
        Some(Request {
            buflen: number("buflen")?.try_into().ok()?,
            nbuf: number("nbuf").filter(|nbuf| *nbuf > 0 && *nbuf != UNLIMITED_BUFFERS),
            win: text("win")?.parse::<i64>().ok()?.max(0).try_into().ok()?,
            nstream: number("nstream")?.try_into().ok()?,
            rate_kbps: Some(number("rate")?).filter(|rate| (1..UNLIMITED_RATE).contains(rate)),
            port: number("port")?.try_into().ok()?,
            client_sends: number("trans")? != 0,
            timeout: seconds("timeout")?,
            udp: number("udp")? != 0,
            version: Version::parse(text("vers")?)?,
            interval: seconds("interval").unwrap_or_default(),
            reverse: flag("reverse"),
            format: number("format").unwrap_or(0) as u32,
            mss: number("datamss").and_then(|mss| mss.try_into().ok()).unwrap_or(0),
            tos: text("tos").and_then(|tos| u8::from_str_radix(tos, 16).ok()).unwrap_or(0),
            rate_is_pps: flag("rate_pps"),
            nodelay: flag("nodelay"),
            besides: besides.into_iter().find(|(asked, _)| *asked).map(|(_, what)| what),
        })
    }

    /// The line for a server of this version: as many fields as it reads, in their order, and with their blanks.
    pub fn emit(&self, server: Version) -> String {
        let flag = u8::from;
        let mut line = format!(
            "buflen = {}, nbuf = {}, win = {}, nstream = {}, rate = {}, port = {}, trans = {}, braindead = 0, \
             timeout = {:.6}, udp = {}, vers = {}",
            self.buflen,
            self.nbuf.unwrap_or(UNLIMITED_BUFFERS),
            self.win,
            self.nstream,
            self.rate_kbps.unwrap_or(UNLIMITED_RATE),
            self.port,
            flag(self.client_sends),
            self.timeout.as_secs_f64(),
            flag(self.udp),
            self.version,
        );
        for (since, field) in [
            (Version::new(3, 3, 2), format!(", interval = {:.6}", self.interval.as_secs_f64())),
            (Version::new(3, 4, 1), format!(", reverse = {}", flag(self.reverse))),
            (Version::new(3, 5, 1), format!(", format = {}", self.format)),
            (Version::new(3, 6, 1), ", traceroute = 0, irate = 0".to_owned()),
            (Version::new(5, 0, 1), ", thirdparty = _NULL_".to_owned()),
            (Version::new(5, 1, 1), " , multicast = 0".to_owned()),
            (Version::new(5, 2, 1), format!(" , datamss = {}", self.mss)),
            (Version::new(5, 3, 1), format!(" , tos = {:X}", self.tos)),
            (
                Version::new(5, 5, 1),
                format!(" , nbuf_bytes = 0 , rate_pps = {} , nodelay = {}", flag(self.rate_is_pps), flag(self.nodelay)),
            ),
        ] {
            if server >= since {
                line += &field;
            }
        }
        line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 6.1.2 asks: `nuttcp -n 100 -l 8k -M 1000 -c 46 -D -ws 200`.
    const ASKED: &str = "buflen = 8192, nbuf = 100, win = 204800, nstream = 1, rate = 4294967295, port = 5001, trans = 1, \
                         braindead = 0, timeout = 0.000000, udp = 0, vers = 6.1.2, interval = 0.000000, reverse = 0, \
                         format = 2048, traceroute = 0, irate = 0, thirdparty = _NULL_ , multicast = 0 , datamss = 1000 , \
                         tos = B8 , nbuf_bytes = 0 , rate_pps = 0 , nodelay = 1\n";

    #[test]
    fn a_request_is_as_the_peers_write_it() {
        let asked = Request {
            buflen: 8192,
            nbuf: Some(100),
            win: 204_800,
            mss: 1000,
            tos: 0xb8,
            nodelay: true,
            ..Request::new(false)
        };
        assert_eq!(asked.emit(Version::OURS), ASKED);
        assert_eq!(Request::parse(ASKED.trim_end()), Some(asked));
    }

    #[test]
    fn an_old_server_is_told_what_it_reads() {
        let line = Request::new(true).emit(Version::new(3, 3, 1));
        assert!(line.ends_with("udp = 1, vers = 6.1.2\n"), "{line}");
        let line = Request::new(true).emit(Version::new(5, 1, 9));
        assert!(line.ends_with(", thirdparty = _NULL_ , multicast = 0\n"), "{line}");
    }

    #[test]
    fn fields_of_newer_clients_are_passed_over() {
        let line = ASKED.trim_end().replace("6.1.2", "8.2.2").replace("rate = 4294967295", "rate = 5000");
        let line = line + " , affinity = -1 , maxburst = 1 , do_jitter = 0 , do_owd = 0, group = _NULL_ , srcport = 0";
        let asked = Request::parse(&line).unwrap();
        assert_eq!((asked.version, asked.rate_kbps, asked.besides), (Version::new(8, 2, 2), Some(5000), None));
    }

    #[test]
    fn what_only_nuttcp_does_is_named() {
        let third = ASKED.replace("_NULL_", "other.example");
        assert_eq!(Request::parse(&third).unwrap().besides, Some("a test with a third machine"));
        let multicast = ASKED.replace("multicast = 0", "multicast = 5");
        assert_eq!(Request::parse(&multicast).unwrap().besides, Some("multicast"));
    }

    #[test]
    fn nonsense_is_no_request() {
        for line in ["", "GET / HTTP/1.1", "buflen = 8192", "buflen = -1, nbuf = 1", &"=,".repeat(2000)] {
            assert_eq!(Request::parse(line), None, "{line}");
        }
        for (from, to) in [
            ("buflen = 8192", "buflen = 99999999999"),
            ("nstream = 1", "nstream = 70000"),
            ("timeout = 0.000000", "timeout = -1"),
            ("timeout = 0.000000", "timeout = nan"),
            ("timeout = 0.000000", "timeout = 1e300"),
            ("vers = 6.1.2", "vers = six"),
            ("port = 5001", "port = 65536"),
        ] {
            assert_eq!(Request::parse(&ASKED.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn versions_are_ordered_and_named() {
        assert_eq!(parse_hello("HELO nuttcp v6.1.2"), Some(Version::OURS));
        assert_eq!(parse_hello("HELO nuttcp v6.1"), None);
        assert_eq!(parse_hello("220 mail.example ESMTP"), None);
        assert!(Version::new(8, 2, 2) > Version::OURS && Version::new(5, 10, 1) > Version::new(5, 9, 99));
        assert_eq!(Version::new(8, 2, 2).to_string(), "8.2.2");
        assert!(is_taken("OK v6.1.2") && !is_taken("KO"));
    }

    #[test]
    fn a_line_ends_or_is_none() {
        let line = |octets: &[u8]| read(&mut &*octets).map_err(|error| error.kind());
        assert_eq!(line(b"OK v6.1.2\nmore").as_deref(), Ok("OK v6.1.2"));
        assert_eq!(line(b"OK"), Err(ErrorKind::UnexpectedEof));
        assert_eq!(line(&[b'x'; 5000]), Err(ErrorKind::InvalidData));
        assert_eq!(line(b"\xff\xfe\n"), Err(ErrorKind::InvalidData));
    }
}
