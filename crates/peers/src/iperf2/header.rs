//! The header by which an iperf2 client says what it wants: at the start of a TCP connection, and in UDP datagrams.
//! Knows no sockets and no limits; what it reads is a stranger's word.

use std::time::Duration;

/// A legacy test both ways: the server connects back.
pub const VERSION1: u32 = 0x8000_0000;
/// The extension is there.
pub const EXTEND: u32 = 0x4000_0000;
/// The flags of the extension count in datagrams too.
pub const UDP_TESTS: u32 = 0x2000_0000;
/// A key follows the header.
pub const KEY: u32 = 0x1000_0000;
/// Numbers of datagrams have 64 bits.
pub const NUMBERS_64: u32 = 0x0800_0000;
/// The server sends, or both do.
pub const VERSION2: u32 = 0x0400_0000;
/// The client waits for the server's acknowledgement.
pub const PLEASE_ACK: u32 = 0x0200_0000;
/// Requests and responses.
pub const BOUNCE_BACK: u32 = 0x0080_0000;
/// The flags hold the header's length.
pub const LEN: u32 = 0x0001_0000;
/// Of a legacy test: both ways at once, rather than one after the other.
pub const AT_ONCE: u32 = 0x0000_0001;

/// The client sends frames of a video, at a rate of their own: the header's is another.
pub const ISOCHRONOUS: u16 = 0x0001;
/// No report at the end of a UDP test.
pub const NO_UDP_FIN: u16 = 0x0008;
/// Times of departure and arrival are compared.
pub const TRIP_TIMES: u16 = 0x0010;
/// The rate is of datagrams.
pub const RATE_IS_PPS: u16 = 0x0080;
/// The server sends.
pub const REVERSE: u16 = 0x0400;
/// Both send, on the same socket.
pub const FULL_DUPLEX: u16 = 0x0800;
/// The client begins to send at a time that it was told.
pub const EPOCH_START: u16 = 0x1000;

/// Octets of the header's first part.
pub const BASE_LEN: usize = 24;
/// Octets of both parts, as this client sends them.
pub const FULL_LEN: usize = 64;
/// Of the extension, what every version has: 2.1 ends with the rate.
const EXTENSION_LEN: usize = 36;

/// How much a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A time.
    Time(Duration),
    /// A number of octets.
    Octets(u32),
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The flags, the length in them included.
    pub flags: u32,
    /// Streams of the client's test, each with a connection and a header of its own.
    pub streams: u32,
    /// Where a legacy test wants its connection back.
    pub back_port: u16,
    /// Octets of a message; 0: the usual.
    pub message_size: u32,
    /// Octets of the socket's buffer; 0: the usual.
    pub socket_buffer: u32,
    /// How much.
    pub amount: Amount,
    /// What the extension says, if it is there.
    pub extension: Option<Extension>,
}

/// The header's second part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// The flags that say what kind of test it is.
    pub upper: u16,
    /// Version and release, as 2.1 in 0x00020001.
    pub version: u32,
    /// Patch and state.
    pub patch: u32,
    /// The octet of the IP header.
    pub tos: u16,
    /// Bits or datagrams a second; 0: as many as go.
    pub rate: u64,
}

impl Header {
    /// Whether no header begins with these flags: a client from before 2.0.10, or one with -C, says nothing in a plain test
    /// but fills what it sends with digits.
    pub fn is_none(flags: u32) -> bool {
        flags == 0 || flags.to_be_bytes().iter().all(u8::is_ascii_digit)
    }

    /// What a client without a header wants: to send as long as it likes.
    pub fn none() -> Header {
        Header {
            flags: 0,
            streams: 1,
            back_port: 0,
            message_size: 0,
            socket_buffer: 0,
            amount: Amount::Octets(0),
            extension: None,
        }
    }

    /// Octets of the header that begins with these flags, a key's length not included. `None`: there is no header, or a
    /// length that none has.
    pub fn len(flags: u32) -> Option<usize> {
        if flags & (VERSION1 | EXTEND | VERSION2) == 0 {
            return None;
        }
        let len = if flags & LEN != 0 {
            (flags & 0x1fe) as usize >> 1
        } else if flags & (VERSION2 | EXTEND) != 0 {
            FULL_LEN
        } else {
            BASE_LEN
        };
        (len >= BASE_LEN).then_some(len)
    }

    /// Reads a header of this many octets at the most; what a datagram cut off is as if it were not there.
    pub fn parse(octets: &[u8]) -> Option<Header> {
        let word = |at: usize| Some(u32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?));
        let flags = word(0)?;
        let amount = word(20)?.cast_signed();
        Some(Header {
            flags,
            // In a legacy test some of its bits number the transfer.
            streams: if flags & VERSION1 != 0 { word(4)? & 0xffff } else { word(4)? },
            back_port: u16::try_from(word(8)?).unwrap_or(0),
            message_size: word(12)?,
            socket_buffer: word(16)?,
            amount: if amount < 0 {
                Amount::Time(Duration::from_millis(10) * amount.unsigned_abs())
            } else {
                Amount::Octets(amount.unsigned_abs())
            },
            extension: if flags & EXTEND != 0 { octets.get(BASE_LEN..).and_then(Extension::parse) } else { None },
        })
    }

    /// The header of a client of this version.
    pub fn emit(&self) -> [u8; FULL_LEN] {
        let mut octets = [0; FULL_LEN];
        let amount = match self.amount {
            Amount::Time(time) => -i32::try_from(time.as_millis() / 10).unwrap_or(i32::MAX),
            Amount::Octets(octets) => i32::try_from(octets).unwrap_or(i32::MAX),
        };
        let words = [
            self.flags,
            self.streams,
            self.back_port.into(),
            self.message_size,
            self.socket_buffer,
            amount.cast_unsigned(),
        ];
        for (place, word) in octets.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let extension = self.extension.unwrap_or_default();
        octets[32..34].copy_from_slice(&extension.upper.to_be_bytes());
        octets[36..40].copy_from_slice(&extension.version.to_be_bytes());
        octets[40..44].copy_from_slice(&extension.patch.to_be_bytes());
        octets[46..48].copy_from_slice(&extension.tos.to_be_bytes());
        octets[48..52].copy_from_slice(&(extension.rate as u32).to_be_bytes());
        octets[52..56].copy_from_slice(&((extension.rate >> 32) as u32).wrapping_shl(8).to_be_bytes());
        octets
    }

    /// Whether this flag of the extension is set.
    pub fn has(&self, upper: u16) -> bool {
        self.extension.is_some_and(|extension| extension.upper & upper != 0)
    }

    /// Whether the client reads an acknowledgement, or at least expects one.
    pub fn wants_ack(&self) -> bool {
        self.flags & PLEASE_ACK != 0 || (self.flags & EXTEND != 0 && self.flags & VERSION2 == 0)
    }

    /// The client's version, as it would print it.
    pub fn version(&self) -> Option<String> {
        let extension = self.extension.filter(|extension| extension.version != 0)?;
        let (major, minor) = (extension.version >> 16, extension.version & 0xffff);
        Some(format!("{major}.{minor}.{}", extension.patch >> 16))
    }
}

impl Extension {
    fn parse(octets: &[u8]) -> Option<Extension> {
        let octets = octets.get(..EXTENSION_LEN.min(octets.len()))?;
        let half = |at: usize| Some(u16::from_be_bytes(octets.get(at..at + 2)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?));
        Some(Extension {
            upper: half(8)?,
            version: word(12)?,
            patch: word(16)?,
            tos: half(22)?,
            rate: u64::from(word(24)?) | u64::from(word(28)? >> 8) << 32,
        })
    }
}

/// What a server answers to a TCP header: its version and, for trip-times, when the client sent, and the server accepted
/// and answered, each in seconds and microseconds.
pub fn ack(version: (u32, u32), trip_times: Option<[u32; 6]>) -> Vec<u8> {
    let len = if trip_times.is_some() { 52 } else { 28 };
    let words = [2, len, 0, version.0, version.1, 0, 0];
    words.iter().chain(trip_times.iter().flatten()).flat_map(|word: &u32| word.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets written as hexadecimal digits.
    fn octets(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect()
    }

    #[test]
    fn what_2_1_8_sends_is_understood() {
        // iperf -c … -t 1 -R
        let reverse = octets(
            "440100780000000100003a990000000000000000ffffff9c0000000000000000\
             04000000000200010008000300000000000000000000000000000000",
        );
        let header = Header::parse(&reverse).unwrap();
        assert_eq!(Header::len(header.flags), Some(60));
        assert_eq!((header.amount, header.streams), (Amount::Time(Duration::from_secs(1)), 1));
        assert!(header.has(REVERSE) && !header.has(FULL_DUPLEX) && !header.wants_ack());
        assert_eq!(header.version().as_deref(), Some("2.1.8"));
        // iperf -c … -n 1M -P 2
        let parallel = octets("400100780000000200003a9900000000000000000010000000000000");
        let header = Header::parse(&parallel).unwrap();
        assert_eq!((header.amount, header.streams, header.extension), (Amount::Octets(1 << 20), 2, None));
        assert!(header.wants_ack());
    }

    #[test]
    fn the_length_is_by_its_bit_or_by_the_kind() {
        for (flags, len) in [
            (EXTEND | LEN | 64 << 1, Some(64)),
            (EXTEND | LEN | 80 << 1 | AT_ONCE, Some(80)),
            (EXTEND, Some(64)),
            (VERSION1, Some(24)),
            (VERSION2, Some(64)),
            (EXTEND | LEN | 8 << 1, None),
            (0, None),
            // "GET "
            (0x4745_5420, None),
        ] {
            assert_eq!(Header::len(flags), len, "{flags:08x}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let header = Header {
            flags: EXTEND | VERSION2 | LEN | 64 << 1,
            streams: 3,
            back_port: 5001,
            message_size: 1470,
            socket_buffer: 65_536,
            amount: Amount::Time(Duration::from_millis(1230)),
            extension: Some(Extension {
                upper: REVERSE | RATE_IS_PPS,
                version: 0x0002_0002,
                patch: 0x0001_0003,
                tos: 0xb8,
                rate: 0xab_1234_5678,
            }),
        };
        assert_eq!(Header::parse(&header.emit()), Some(header));
    }

    #[test]
    fn hostile_words_are_bounded() {
        let mut octets = [0xff; FULL_LEN];
        octets[20..24].copy_from_slice(&i32::MIN.to_be_bytes());
        let header = Header::parse(&octets).unwrap();
        assert_eq!(header.amount, Amount::Time(Duration::from_millis(10) * (1 << 31)));
        assert_eq!((header.streams, header.back_port), (0xffff, 0));
        for len in 0..BASE_LEN {
            assert_eq!(Header::parse(&octets[..len]), None);
        }
    }

    #[test]
    fn an_acknowledgement_says_its_length() {
        assert_eq!(ack((0x20001, 0x80003), None), octets("000000020000001c0000000000020001000800030000000000000000"));
        assert_eq!(ack((0, 0), Some([1, 2, 3, 4, 5, 6])).len(), 52);
    }
}
