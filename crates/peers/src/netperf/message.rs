//! What goes over netperf's control connection: messages of one size, whatever they say.
//! Knows what they are called, not what they mean.
//!
//! ```text
//!   octets   0        4        8                                     656
//!            [kind    ][second ][data: 162 words                      ]   all words big-endian
//!                       requests: CPU to run on; answers: errno, 0 is good
//! ```
//! They come in pieces: TCP keeps no boundaries.

use std::io::{self, Read, Write};

/// Octets of a message.
pub const LEN: usize = 656;
/// Octets of what it says, after kind and second word.
pub const DATA_LEN: usize = 648;

/// The client wants the server to log.
pub const DEBUG_ON: i32 = 1;
/// And no longer.
pub const DEBUG_OFF: i32 = 2;
/// The answer to both.
pub const DEBUG_OK: i32 = 3;
/// How fast is a CPU? Answered with the same kind: a float, and the number of CPUs.
pub const CPU_CALIBRATE: i32 = 5;
/// The first message to a server that wants a passphrase. The right one is not answered.
pub const PASSPHRASE: i32 = 6;
/// A test is asked for ([`super::omni::Request`]).
pub const DO_OMNI: i32 = 97;
/// It is prepared ([`super::omni::Response`]).
pub const OMNI_RESPONSE: i32 = 98;
/// It is over ([`super::results::Results`]). netserver's own have another kind: that of the response, its octets
/// reversed, which it swapped once too often. netperf looks at the errno only.
pub const OMNI_RESULTS: i32 = 99;
/// What netserver sends as results.
pub const SWAPPED_RESPONSE: i32 = OMNI_RESPONSE.swap_bytes();
/// Tests of clients before 2.5, from TCP_STREAM to TCP_MAERTS, and of connections alone.
pub const CLASSIC: [(i32, &str); 7] = [
    (10, "TCP_STREAM"),
    (13, "TCP_RR"),
    (16, "UDP_STREAM"),
    (19, "UDP_RR"),
    (34, "TCP_CRR"),
    (94, "TCP_MAERTS"),
    (300, "TCP_CC"),
];

/// The errno with which netserver refuses a test that it does not know.
pub const UNKNOWN_TEST: i32 = 998;

/// A message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: i32,
    /// The CPU that a request is for, -1 for none; an answer's errno.
    pub second: i32,
    /// What it says.
    pub data: [u8; DATA_LEN],
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message {{ kind: {}, second: {} }}", self.kind, self.second)
    }
}

impl Message {
    /// With data that is all zero.
    pub fn new(kind: i32, second: i32) -> Message {
        Message { kind, second, data: [0; DATA_LEN] }
    }

    /// Reads one; `None` where octets are missing.
    pub fn parse(octets: &[u8]) -> Option<Message> {
        let octets: &[u8; LEN] = octets.get(..LEN)?.try_into().ok()?;
        let mut data = [0; DATA_LEN];
        data.copy_from_slice(&octets[8..]);
        Some(Message { kind: i32::get(octets, 0, 4), second: i32::get(octets, 4, 4), data })
    }

    /// Its octets.
    pub fn emit(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        octets[..4].copy_from_slice(&self.kind.to_be_bytes());
        octets[4..8].copy_from_slice(&self.second.to_be_bytes());
        octets[8..].copy_from_slice(&self.data);
        octets
    }

    /// Reads the next one. `None`: the peer has said all it had to say. A part of one is none: who speaks this protocol writes
    /// it at once.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
        let cut = || io::Error::new(io::ErrorKind::InvalidData, "a part of a message came");
        let mut octets = [0; LEN];
        let mut at = 0;
        while at < LEN {
            match from.read(&mut octets[at..]) {
                Ok(0) if at == 0 => return Ok(None),
                Ok(0) => return Err(cut()),
                Ok(read) => at += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if at == 0 => return Err(error),
                Err(_) => return Err(cut()),
            }
        }
        Ok(Message::parse(&octets))
    }

    /// Writes it.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.emit())
    }
}

/// The answer to how fast the CPUs are: per cent, of the kernel's own accounts.
pub fn calibration(cpus: u32) -> Message {
    let mut message = Message::new(CPU_CALIBRATE, 0);
    WHOLE.to_bits().put(&mut message.data, 0, 4);
    cpus.put(&mut message.data, 4, 4);
    message
}

/// The rate of a CPU whose use the kernel accounts for.
pub const WHOLE: f32 = 100.0;

/// A value in a message's data: so many octets, at an offset that is there.
pub trait Field: Sized {
    /// Reads it.
    fn get(data: &[u8], at: usize, len: usize) -> Self;
    /// Writes it.
    fn put(&self, data: &mut [u8], at: usize, len: usize);
}

/// A type from a table of where its fields stand: offset, octets, name, type and what it is unless told otherwise.
macro_rules! fields {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $at:literal, $len:literal $name:ident: $kind:ty = $usual:expr,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $type { $($(#[$doc])* pub $name: $kind,)* }

        impl Default for $type {
            fn default() -> $type {
                $type { $($name: $usual,)* }
            }
        }

        impl $type {
            fn get(data: &[u8]) -> $type {
                $type { $($name: Field::get(data, $at, $len),)* }
            }

            fn put(&self, data: &mut [u8]) {
                $(Field::put(&self.$name, data, $at, $len);)*
            }
        }
    };
}
pub(super) use fields;

impl Field for u32 {
    fn get(data: &[u8], at: usize, _: usize) -> u32 {
        u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
    }

    fn put(&self, data: &mut [u8], at: usize, _: usize) {
        data[at..at + 4].copy_from_slice(&self.to_be_bytes());
    }
}

impl Field for i32 {
    fn get(data: &[u8], at: usize, len: usize) -> i32 {
        u32::get(data, at, len).cast_signed()
    }

    fn put(&self, data: &mut [u8], at: usize, len: usize) {
        self.cast_unsigned().put(data, at, len);
    }
}

impl Field for u64 {
    fn get(data: &[u8], at: usize, len: usize) -> u64 {
        u64::from(u32::get(data, at, len)) << 32 | u64::from(u32::get(data, at + 4, len))
    }

    fn put(&self, data: &mut [u8], at: usize, _: usize) {
        data[at..at + 8].copy_from_slice(&self.to_be_bytes());
    }
}

/// Below 0: unknown.
impl Field for Option<u32> {
    fn get(data: &[u8], at: usize, len: usize) -> Option<u32> {
        u32::try_from(i32::get(data, at, len)).ok()
    }

    fn put(&self, data: &mut [u8], at: usize, len: usize) {
        self.map_or(-1, u32::cast_signed).put(data, at, len);
    }
}

/// Of single precision; what is no number is absent: peers leave words unset.
impl Field for Option<f64> {
    fn get(data: &[u8], at: usize, len: usize) -> Option<f64> {
        Some(f64::from(f32::from_bits(u32::get(data, at, len)))).filter(|number| number.is_finite())
    }

    fn put(&self, data: &mut [u8], at: usize, len: usize) {
        (self.unwrap_or(-1.0) as f32).to_bits().put(data, at, len);
    }
}

/// A text up to its zero; `None` where it is empty or not printable.
impl Field for Option<String> {
    fn get(data: &[u8], at: usize, len: usize) -> Option<String> {
        // The last octet of the room is the zero's, whatever stands there.
        let octets = &data[at..at + len - 1];
        let len = octets.iter().position(|&octet| octet == 0).unwrap_or(octets.len());
        let text = std::str::from_utf8(&octets[..len]).ok()?.trim();
        (!text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() || c == ' ')).then(|| text.to_owned())
    }

    fn put(&self, data: &mut [u8], at: usize, len: usize) {
        let text = self.as_deref().unwrap_or("");
        data[at..at + len].fill(0);
        let cut = (0..len).rev().find(|&cut| text.is_char_boundary(cut)).unwrap_or(0);
        data[at..at + cut].copy_from_slice(&text.as_bytes()[..cut]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one octet at a time.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            (into[0], self.0) = (*first, rest);
            Ok(1)
        }
    }

    #[test]
    fn messages_may_come_in_pieces_and_one_after_the_other() {
        let mut octets = Message::new(DO_OMNI, -1).emit().to_vec();
        octets.extend(calibration(4).emit());
        let mut from = Trickle(&octets);
        assert_eq!(Message::read(&mut from).unwrap(), Some(Message::new(DO_OMNI, -1)));
        assert_eq!(Message::read(&mut from).unwrap(), Some(calibration(4)));
        assert_eq!(Message::read(&mut from).unwrap(), None);
        let cut = Message::read(&mut Trickle(&octets[..655])).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_octets_are_as_netserver_writes_them() {
        let octets = calibration(4).emit();
        assert_eq!(octets[..16], *b"\0\0\0\x05\0\0\0\0\x42\xc8\0\0\0\0\0\x04");
        assert_eq!(octets[16..], [0; 640]);
        assert_eq!(SWAPPED_RESPONSE, 0x6200_0000);
        assert_eq!(Message::parse(&octets[..655]), None);
    }

    #[test]
    fn what_is_no_number_and_no_text_is_absent() {
        let mut data = [0; 64];
        f32::NAN.to_bits().put(&mut data, 0, 4);
        1.5f32.to_bits().put(&mut data, 4, 4);
        assert_eq!((Option::<f64>::get(&data, 0, 4), Option::<f64>::get(&data, 4, 4)), (None, Some(1.5)));
        Some("enp0s31f6".to_owned()).put(&mut data, 16, 8);
        assert_eq!(
            (&data[16..24], Option::<String>::get(&data, 16, 8).unwrap().as_str()),
            (&b"enp0s31\0"[..], "enp0s31")
        );
        Some("äöü".to_owned()).put(&mut data, 16, 4);
        assert_eq!(data[16..20], *"ä\0\0".as_bytes());
        data[32..40].fill(0xff);
        data[40] = 7;
        assert_eq!(
            (
                Option::<String>::get(&data, 32, 8),
                Option::<String>::get(&data, 40, 8),
                Option::<String>::get(&data, 48, 8)
            ),
            (None, None, None)
        );
    }
}
