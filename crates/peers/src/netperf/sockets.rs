//! What client and server do alike with the sockets of a test.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_host::traffic::{Early, Foreign, Framing, StreamEnd};
use linerate_trial::spec::Spec;
use socket2::{Domain, Protocol, Socket, Type};

use crate::socket_options;

/// Datagrams of no octets that say that a stream, or the requests, are over: any may be lost.
const END_MARKS: usize = 3;

/// What the streams look like: nothing in them but octets. `since` is how long ago the data of a flow began to come.
pub fn framing(since: impl Fn(u16) -> Duration + Send + Sync + 'static) -> Framing {
    Framing::Foreign(Arc::new(Foreign {
        end: Some(StreamEnd {
            is_last: <[u8]>::is_empty,
            early: Box::new(move |flow| Early { datagrams: Vec::new(), since: since(flow) }),
            ..StreamEnd::default()
        }),
        bare: true,
        ..Foreign::default()
    }))
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

/// Says that datagrams are over.
pub fn send_end_mark(socket: &Socket) {
    for _ in 0..END_MARKS {
        let _ = socket.send(&[]);
    }
}
