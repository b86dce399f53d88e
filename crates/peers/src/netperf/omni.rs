//! What a netperf client asks for, and what the server answers before the test: the words of an omni test, and where
//! they stand in a message's data.
//! Knows no sockets, and not what linerate makes of them.

use super::message::{DO_OMNI, Message, OMNI_RESPONSE, float, int, put, put_text, text, word};

/// Bits of a request's flags.
pub mod flag {
    /// TCP_NODELAY.
    pub const NODELAY: u32 = 0x1;
    /// A connection for each transaction.
    pub const CONNECTIONS: u32 = 0x4;
    /// CPU use is wanted.
    pub const CPU: u32 = 0x8;
    /// Two meanings in one bit: what is sent may be routed (else datagrams get SO_DONTROUTE), and the results are to tell
    /// the congestion control of the server's end. netperf sets it for the second by default; netserver does both.
    pub const CONGESTION_CONTROL: u32 = 0x20;
    /// The interface's name is wanted.
    pub const INTERFACE: u32 = 0x40;
    /// Its slot.
    pub const SLOT: u32 = 0x80;
    /// Its PCI identifiers.
    pub const IDENTIFIERS: u32 = 0x100;
    /// Its driver.
    pub const DRIVER: u32 = 0x200;
}

/// The client's word for "as it is", of sizes.
pub const USUAL: i32 = -1;

/// What the server is to do with its data socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRole {
    /// Send a stream.
    Sends,
    /// Receive one.
    Receives,
    /// Answer requests.
    Answers,
    /// Connections without a word, or what no version has.
    Other(i32),
}

impl ServerRole {
    fn of(word: i32) -> ServerRole {
        match word {
            2 => ServerRole::Sends,
            4 => ServerRole::Receives,
            6 => ServerRole::Answers,
            other => ServerRole::Other(other),
        }
    }

    fn word(self) -> i32 {
        match self {
            ServerRole::Sends => 2,
            ServerRole::Receives => 4,
            ServerRole::Answers => 6,
            ServerRole::Other(word) => word,
        }
    }
}

/// A test, as a client asks for it; what is left out here is never looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// SO_SNDBUF.
    pub send_buffer: i32,
    /// Octets of each send.
    pub send_size: i32,
    /// Octets of a request; -1: there are none.
    pub request_size: i32,
    /// SO_RCVBUF.
    pub receive_buffer: i32,
    /// Octets of each receive.
    pub receive_size: i32,
    /// Octets of a response; -1: there are none.
    pub response_size: i32,
    /// See [`flag`].
    pub flags: u32,
    /// Seconds, or less than 0: so many octets, or transactions.
    pub length: i32,
    /// Where the server's data socket is to be; 0: anywhere.
    pub data_port: i32,
    /// 0 for any, 4, 6; 7 is none of IP.
    pub family: i32,
    /// 1 stream, 2 datagrams.
    pub socket: i32,
    /// The number of the protocol over IP.
    pub protocol: i32,
    /// What the server does.
    pub does: ServerRole,
    /// The client's own port, of datagrams.
    pub client_port: i32,
    /// Sends in a burst; 0: no bursts.
    pub burst: i32,
    /// Microseconds between the beginnings of two.
    pub burst_us: i32,
    /// The octet of IP_TOS; -1: as it is.
    pub tos: i32,
    /// TCP_CONGESTION.
    pub congestion_control: Option<String>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            send_buffer: USUAL,
            send_size: USUAL,
            request_size: USUAL,
            receive_buffer: USUAL,
            receive_size: USUAL,
            response_size: USUAL,
            flags: 0,
            length: 10,
            data_port: 0,
            family: 0,
            socket: 1,
            protocol: 6,
            does: ServerRole::Receives,
            client_port: 0,
            burst: 0,
            burst_us: 0,
            tos: USUAL,
            congestion_control: None,
        }
    }
}

impl Request {
    /// Reads a message's data.
    pub fn parse(message: &Message) -> Request {
        let data = &message.data;
        Request {
            send_buffer: int(data, 0),
            send_size: int(data, 4),
            request_size: int(data, 20),
            receive_buffer: int(data, 24),
            receive_size: int(data, 28),
            response_size: int(data, 44),
            flags: word(data, 48),
            length: int(data, 56),
            data_port: int(data, 80),
            family: int(data, 84),
            socket: int(data, 88),
            protocol: int(data, 92),
            does: ServerRole::of(int(data, 96)),
            client_port: int(data, 100),
            burst: int(data, 104),
            burst_us: int(data, 108),
            tos: int(data, 148),
            congestion_control: text(data, 152, 16),
        }
    }

    /// The message, of no CPU in particular.
    pub fn emit(&self) -> Message {
        let mut message = Message::new(DO_OMNI, -1);
        let data = &mut message.data;
        for (at, value) in [
            (0, self.send_buffer),
            (4, self.send_size),
            (20, self.request_size),
            (24, self.receive_buffer),
            (28, self.receive_size),
            (44, self.response_size),
            (48, self.flags.cast_signed()),
            (56, self.length),
            (80, self.data_port),
            (84, self.family),
            (88, self.socket),
            (92, self.protocol),
            (96, self.does.word()),
            (100, self.client_port),
            (104, self.burst),
            (108, self.burst_us),
            (148, self.tos),
            // What linerate has no use for, as the peer's client leaves it: alignments of buffers, how many of them, no
            // dirty and clean octets, no priority.
            (8, 8),
            (32, 8),
            (16, 1),
            (40, 1),
            (68, USUAL),
            (72, USUAL),
            (76, USUAL),
            (144, USUAL),
        ] {
            put(data, at, value.to_be_bytes());
        }
        put_text(data, 152, 16, self.congestion_control.as_deref().unwrap_or(""));
        message
    }

    /// Whether a bit of the flags is set.
    pub fn has(&self, bit: u32) -> bool {
        self.flags & bit != 0
    }
}

/// What the server answers: what it made of the request, and where its data socket is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// SO_RCVBUF.
    pub receive_buffer: i32,
    /// Octets of each receive.
    pub receive_size: i32,
    /// SO_SNDBUF.
    pub send_buffer: i32,
    /// Octets of each send.
    pub send_size: i32,
    /// As asked.
    pub flags: u32,
    /// What a CPU does at most; per cent where the kernel accounts for it.
    pub cpu_rate: Option<f64>,
    /// As asked.
    pub length: i32,
    /// Where its data socket is.
    pub data_port: i32,
    /// Clock of its CPUs, MHz.
    pub cpu_mhz: i32,
    /// The machine's model.
    pub machine: Option<String>,
    /// The model of its CPUs.
    pub cpu: Option<String>,
}

impl Response {
    /// Reads a message's data.
    pub fn parse(message: &Message) -> Response {
        let data = &message.data;
        Response {
            receive_buffer: int(data, 0),
            receive_size: int(data, 4),
            send_buffer: int(data, 12),
            send_size: int(data, 16),
            flags: word(data, 24),
            cpu_rate: float(data, 28),
            length: int(data, 32),
            data_port: int(data, 44),
            cpu_mhz: int(data, 56),
            machine: text(data, 72, 33),
            cpu: text(data, 105, 80),
        }
    }

    /// The message.
    pub fn emit(&self) -> Message {
        let mut message = Message::new(OMNI_RESPONSE, 0);
        let data = &mut message.data;
        for (at, value) in [
            (0, self.receive_buffer),
            (4, self.receive_size),
            (8, 1),
            (12, self.send_buffer),
            (16, self.send_size),
            (20, 1),
            (24, self.flags.cast_signed()),
            (32, self.length),
            (44, self.data_port),
            (56, self.cpu_mhz),
            // Priority and TOS: as they are.
            (64, USUAL),
            (68, USUAL),
        ] {
            put(data, at, value.to_be_bytes());
        }
        put(data, 28, (self.cpu_rate.unwrap_or(0.0) as f32).to_be_bytes());
        put_text(data, 72, 33, self.machine.as_deref().unwrap_or(""));
        put_text(data, 105, 80, self.cpu.as_deref().unwrap_or(""));
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request written octet by octet from the specification: TCP_RR of one octet each way for 10 s, as netperf 2.7
    /// sends it by default.
    fn golden() -> Message {
        let mut octets = vec![0; super::super::message::LEN];
        for (at, word) in [
            (0, 97u32),
            (4, 0xffff_ffff),
            (8, 0xffff_ffff),
            (8 + 4, 0xffff_ffff),
            (8 + 8, 8),
            (8 + 20, 1),
            (8 + 24, 0xffff_ffff),
            (8 + 28, 0xffff_ffff),
            (8 + 32, 8),
            (8 + 44, 1),
            (8 + 48, 0x28),
            (8 + 56, 10),
            (8 + 84, 4),
            (8 + 88, 1),
            (8 + 92, 6),
            (8 + 96, 6),
            (8 + 144, 0xffff_ffff),
            (8 + 148, 0xffff_ffff),
        ] {
            octets[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        octets[8 + 152..8 + 157].copy_from_slice(b"cubic");
        Message::parse(&octets).unwrap()
    }

    #[test]
    fn a_request_is_read_where_its_words_stand() {
        let request = Request::parse(&golden());
        let expected = Request {
            request_size: 1,
            response_size: 1,
            flags: flag::CPU | flag::CONGESTION_CONTROL,
            family: 4,
            does: ServerRole::Answers,
            congestion_control: Some("cubic".to_owned()),
            ..Request::default()
        };
        assert_eq!(request, expected);
        assert!(request.has(flag::CONGESTION_CONTROL) && !request.has(flag::INTERFACE));
    }

    #[test]
    fn what_is_written_is_read_the_same() {
        let request = Request {
            send_buffer: 100,
            send_size: 1,
            request_size: 2,
            receive_buffer: 3,
            receive_size: 4,
            response_size: 5,
            flags: 0x8000_0001,
            length: -6,
            data_port: 7,
            family: 6,
            socket: 2,
            protocol: 17,
            does: ServerRole::Sends,
            client_port: 8,
            burst: 9,
            burst_us: 10,
            tos: 184,
            congestion_control: Some("reno".to_owned()),
        };
        assert_eq!(Request::parse(&request.emit()), request);
        let response = Response {
            receive_buffer: 1,
            receive_size: 2,
            send_buffer: 3,
            send_size: 4,
            flags: 5,
            cpu_rate: Some(100.0),
            length: 6,
            data_port: 40_000,
            cpu_mhz: 7,
            machine: Some("a board".to_owned()),
            cpu: Some("ARMv7".to_owned()),
        };
        let message = response.emit();
        assert_eq!(Response::parse(&message), response);
        assert_eq!((word(&message.data, 44), &message.data[72..79]), (40_000, &b"a board"[..]));
        assert_eq!(message.data[105..110], *b"ARMv7");
    }

    #[test]
    fn any_octets_are_a_request_and_a_response() {
        let message = Message { kind: -1, second: -1, data: [0xff; super::super::message::DATA_LEN] };
        let request = Request::parse(&message);
        assert_eq!((request.does, request.congestion_control), (ServerRole::Other(-1), None));
        assert_eq!(Response::parse(&message).cpu_rate, None);
    }
}
