//! What client and server do alike with the sockets of a test.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Instant;

use linerate_host::traffic::{Codec, Early, Framing};
use linerate_trial::spec::Spec;
use socket2::{Domain, Protocol, Socket, Type};

use crate::socket_options;

/// Streams with nothing in them but octets, and when the data of a flow began to come.
struct Octets(Option<Instant>);

impl Codec for Octets {
    fn is_last(&self, octets: &[u8]) -> bool {
        octets.is_empty()
    }

    fn early(&self, _: u16) -> Early {
        Early { datagrams: Vec::new(), since: self.0 }
    }

    fn is_bare(&self) -> bool {
        true
    }
}

/// What the streams look like. `since` is when the data of a flow began to come, where that is known.
pub fn framing(since: Option<Instant>) -> Framing {
    Framing::new(Octets(since))
}

/// A socket of the trial's workload at a port of this machine, with its options; 0 is any port.
pub fn bound(spec: &Spec, at: SocketAddr) -> io::Result<Socket> {
    let (kind, protocol) =
        if spec.workload.is_udp() { (Type::DGRAM, Protocol::UDP) } else { (Type::STREAM, Protocol::TCP) };
    let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
    socket_options::apply(&socket, spec)?;
    socket.bind(&at.into())?;
    Ok(socket)
}

/// The port that a socket has.
pub fn port(socket: &Socket) -> io::Result<u16> {
    let at = socket.local_addr()?.as_socket().ok_or(ErrorKind::Unsupported)?;
    Ok(at.port())
}
