//! What a netperf client asks for, and what the server answers before the test: the words of an omni test, and where
//! they stand in a message's data.
//! Knows no sockets, and not what linerate makes of them.

use super::message::{DO_OMNI, Field, Message, OMNI_RESPONSE, fields};

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

impl Field for ServerRole {
    fn get(data: &[u8], at: usize, len: usize) -> ServerRole {
        match i32::get(data, at, len) {
            2 => ServerRole::Sends,
            4 => ServerRole::Receives,
            6 => ServerRole::Answers,
            other => ServerRole::Other(other),
        }
    }

    fn put(&self, data: &mut [u8], at: usize, len: usize) {
        let word = match *self {
            ServerRole::Sends => 2,
            ServerRole::Receives => 4,
            ServerRole::Answers => 6,
            ServerRole::Other(word) => word,
        };
        word.put(data, at, len);
    }
}

fields! {
    /// A test, as a client asks for it; what is left out here is never looked at.
    Request {
        /// SO_SNDBUF.
        0, 4 send_buffer: i32 = USUAL,
        /// Octets of each send.
        4, 4 send_size: i32 = USUAL,
        /// Octets of a request; -1: there are none.
        20, 4 request_size: i32 = USUAL,
        /// SO_RCVBUF.
        24, 4 receive_buffer: i32 = USUAL,
        /// Octets of each receive.
        28, 4 receive_size: i32 = USUAL,
        /// Octets of a response; -1: there are none.
        44, 4 response_size: i32 = USUAL,
        /// See [`flag`].
        48, 4 flags: u32 = 0,
        /// Seconds, or less than 0: so many octets, or transactions.
        56, 4 length: i32 = 10,
        /// Where the server's data socket is to be; 0: anywhere.
        80, 4 data_port: i32 = 0,
        /// 0 for any, 4, 6; 7 is none of IP.
        84, 4 family: i32 = 0,
        /// 1 stream, 2 datagrams.
        88, 4 socket: i32 = 1,
        /// The number of the protocol over IP.
        92, 4 protocol: i32 = 6,
        /// What the server does.
        96, 4 does: ServerRole = ServerRole::Receives,
        /// The client's own port, of datagrams.
        100, 4 client_port: i32 = 0,
        /// Sends in a burst; 0: no bursts.
        104, 4 burst: i32 = 0,
        /// Microseconds between the beginnings of two.
        108, 4 burst_us: i32 = 0,
        /// The octet of IP_TOS; -1: as it is.
        148, 4 tos: i32 = USUAL,
        /// TCP_CONGESTION.
        152, 16 congestion_control: Option<String> = None,
    }
}

impl Request {
    /// What a message asks for.
    pub fn parse(message: &Message) -> Request {
        Request::get(&message.data)
    }

    /// The message.
    pub fn emit(&self) -> Message {
        let mut message = Message::new(DO_OMNI, -1);
        // What linerate has no use for, as the peer's client leaves it: alignments of buffers, how many of them, no
        // dirty and clean octets, no priority.
        for (at, value) in [(8, 8), (32, 8), (16, 1), (40, 1), (68, USUAL), (72, USUAL), (76, USUAL), (144, USUAL)] {
            value.put(&mut message.data, at, 4);
        }
        self.put(&mut message.data);
        message
    }

    /// Whether a bit of the flags is set.
    pub fn has(&self, bit: u32) -> bool {
        self.flags & bit != 0
    }
}

fields! {
    /// What the server answers: what it made of the request, and where its data socket is.
    Response {
        /// SO_RCVBUF.
        0, 4 receive_buffer: i32 = 0,
        /// Octets of each receive.
        4, 4 receive_size: i32 = 0,
        /// SO_SNDBUF.
        12, 4 send_buffer: i32 = 0,
        /// Octets of each send.
        16, 4 send_size: i32 = 0,
        /// As asked.
        24, 4 flags: u32 = 0,
        /// What a CPU does at most; per cent where the kernel accounts for it.
        28, 4 cpu_rate: Option<f64> = None,
        /// As asked.
        32, 4 length: i32 = 0,
        /// Where its data socket is.
        44, 4 data_port: i32 = 0,
        /// Clock of its CPUs, MHz.
        56, 4 cpu_mhz: i32 = 0,
        /// The machine's model.
        72, 33 machine: Option<String> = None,
        /// The model of its CPUs.
        105, 80 cpu: Option<String> = None,
    }
}

impl Response {
    /// What a message answers.
    pub fn parse(message: &Message) -> Response {
        Response::get(&message.data)
    }

    /// The message.
    pub fn emit(&self) -> Message {
        let mut message = Message::new(OMNI_RESPONSE, 0);
        // Alignments; priority and TOS: as they are.
        for (at, value) in [(8, 1), (20, 1), (64, USUAL), (68, USUAL)] {
            value.put(&mut message.data, at, 4);
        }
        self.put(&mut message.data);
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
        assert_eq!((u32::get(&message.data, 44, 4), &message.data[72..79]), (40_000, &b"a board"[..]));
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
