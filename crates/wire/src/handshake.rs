//! The handshake that opens a flow and the mark that ends it: 40 octets, alike over TCP and UDP.
//! Knows nothing of who may send what; the tokens decide that.
//!
//! ```text
//!  octet 0          8       9      10     12        16       32      40
//!        +----------+-------+------+------+---------+--------+-------+
//!        |"linerate"|version| kind | flow | padding | token  | value |
//!        +----------+-------+------+------+---------+--------+-------+
//! ```
//! Big-endian. The end that opens the flow sends `Hello` with one token and starts to send test traffic only
//! after an `Answer` with the *other* token: a stranger that echoes what it receives does not know it.

/// Octets of a handshake message.
pub const HANDSHAKE_LEN: usize = 40;

const MAGIC: &[u8; 8] = b"linerate";
const VERSION: u8 = 1;

/// A secret of one trial, 128 random bits, given to both ends over the control conversation.
pub type Token = [u8; 16];

/// What a handshake message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// From the end that opens the flow: "I belong to this trial."
    Hello,
    /// From the end that was reached: "so do I."
    Answer,
    /// From a UDP sender: nothing follows; `value` datagrams were sent in all.
    End,
    /// From a UDP receiver: the end was heard.
    EndHeard,
}

/// One handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// What it says.
    pub kind: HandshakeKind,
    /// The flow it speaks of, as both ends number them.
    pub flow: u16,
    /// The secret of this direction of the handshake.
    pub token: Token,
    /// With [`HandshakeKind::End`]: datagrams sent, warm-up included. Otherwise 0.
    pub value: u64,
}

impl Handshake {
    /// The octets of this message.
    pub fn emit(&self) -> [u8; HANDSHAKE_LEN] {
        let mut octets = [0; HANDSHAKE_LEN];
        octets[..8].copy_from_slice(MAGIC);
        octets[8] = VERSION;
        octets[9] = match self.kind {
            HandshakeKind::Hello => 1,
            HandshakeKind::Answer => 2,
            HandshakeKind::End => 3,
            HandshakeKind::EndHeard => 4,
        };
        octets[10..12].copy_from_slice(&self.flow.to_be_bytes());
        octets[16..32].copy_from_slice(&self.token);
        octets[32..].copy_from_slice(&self.value.to_be_bytes());
        octets
    }

    /// Reads a message of exactly [`HANDSHAKE_LEN`] octets; `None` if it is anything else.
    pub fn parse(octets: &[u8]) -> Option<Handshake> {
        let octets: &[u8; HANDSHAKE_LEN] = octets.try_into().ok()?;
        if &octets[..8] != MAGIC || octets[8] != VERSION {
            return None;
        }
        let kind = match octets[9] {
            1 => HandshakeKind::Hello,
            2 => HandshakeKind::Answer,
            3 => HandshakeKind::End,
            4 => HandshakeKind::EndHeard,
            _ => return None,
        };
        Some(Handshake {
            kind,
            flow: u16::from_be_bytes([octets[10], octets[11]]),
            token: octets[16..32].try_into().ok()?,
            value: u64::from_be_bytes(octets[32..].try_into().ok()?),
        })
    }

    /// The same message, if it is of this kind, of this flow, and carries this token. The comparison looks at
    /// every octet of the token whatever it finds, so that its time tells nothing.
    pub fn expect(self, kind: HandshakeKind, flow: u16, token: &Token) -> Option<Handshake> {
        let difference = self.token.iter().zip(token).fold(0, |acc, (a, b)| acc | (a ^ b));
        (self.kind == kind && self.flow == flow && difference == 0).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Handshake =
        Handshake { kind: HandshakeKind::End, flow: 0x0203, token: *b"0123456789abcdef", value: 99 };

    #[test]
    fn what_is_emitted_is_parsed() {
        for kind in [HandshakeKind::Hello, HandshakeKind::Answer, HandshakeKind::End, HandshakeKind::EndHeard] {
            let message = Handshake { kind, ..MESSAGE };
            assert_eq!(Handshake::parse(&message.emit()), Some(message));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let good = MESSAGE.emit();
        assert_eq!(Handshake::parse(&good[..39]), None);
        for octet in 0..10 {
            let mut bad = good;
            bad[octet] ^= 0x80;
            assert_eq!(Handshake::parse(&bad), None, "octet {octet}");
        }
    }

    #[test]
    fn the_token_the_flow_and_the_kind_must_match() {
        let token = MESSAGE.token;
        assert!(MESSAGE.expect(HandshakeKind::End, 0x0203, &token).is_some());
        assert!(MESSAGE.expect(HandshakeKind::End, 0x0204, &token).is_none());
        assert!(MESSAGE.expect(HandshakeKind::Hello, 0x0203, &token).is_none());
        assert!(MESSAGE.expect(HandshakeKind::End, 0x0203, b"0123456789abcdeF").is_none());
    }
}
