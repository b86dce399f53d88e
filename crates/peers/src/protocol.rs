//! The seam for other tools: what each says is a [`Protocol`], which the drivers in `client.rs` and `server.rs` run.
//!
//! ```text
//!   client::run ─→ Protocol::check, measure        a trial of ours against the tool's server
//!   Server::run ─→ Serve::connection, stream       a test of the tool's client against us
//! ```
//! Another tool is a folder, a row of [`Tool::ALL`] and one of [`of`].

use std::net::SocketAddr;

use linerate_host::traffic::Progress;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;
use linerate_trial::tool::Tool;

use crate::abilities::Abilities;
use crate::client::Client;
use crate::early_datagrams::StreamMarks;
use crate::error::Error;
use crate::server::{Connection, DatagramStream, Service};
use crate::{iperf2, iperf3, netperf, nuttcp, ttcp, twamp};

/// What hears how far a trial is.
pub type Notify = Box<dyn Fn(Progress) + Send>;

/// Another tool's protocol.
pub struct Protocol {
    /// What its server can do.
    pub abilities: Abilities,
    /// Makes a trial one that the tool can express, where the difference is small: the record has what it became.
    pub fit: fn(&mut Spec),
    /// Whether the tool's server can be the other end of such a trial, beside its abilities.
    pub check: fn(&Spec) -> Result<(), Error>,
    /// One trial of this machine, the host, against the tool's server, the target: what is known of the server's end, and
    /// what this end saw.
    pub measure: fn(&Client<'_>, Notify) -> Result<[Outcome; 2], Error>,
    /// A server of this tool, with no clients yet.
    pub server: fn() -> Box<dyn Serve>,
}

/// What a server says to clients that the driver has let in. Each call is in a thread of its own, with little stack.
pub trait Serve: Send + Sync {
    /// A TCP connection: a test, a part of one, or several.
    fn connection<'a>(&'a self, service: Service<'a>, connection: Connection<'a>);

    /// How streams of datagrams begin and end; `None`: this server hears no datagrams at its port.
    fn datagrams(&self) -> Option<&dyn StreamMarks> {
        None
    }

    /// What a datagram means of a sender that has no socket of its own.
    fn first_datagram(&self, _: Service<'_>, _: SocketAddr, _: &[u8]) -> FirstDatagram {
        FirstDatagram::MayBegin
    }

    /// A stream of datagrams that has begun.
    fn stream<'a>(&'a self, _: Service<'a>, _: DatagramStream<'a>) {}
}

/// What a datagram of an unknown sender means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstDatagram {
    /// A stream: no more comes before it is answered.
    Begins,
    /// A stream, if others follow ([`StreamMarks`]).
    MayBegin,
    /// Nothing.
    Nothing,
    /// Something that is not allowed, as "asked for …".
    Refused(&'static str),
}

/// The protocol of a tool.
pub fn of(tool: Tool) -> &'static Protocol {
    match tool {
        Tool::Iperf3 => &iperf3::PROTOCOL,
        Tool::Iperf2 => &iperf2::PROTOCOL,
        Tool::Netperf => &netperf::PROTOCOL,
        Tool::Nuttcp => &nuttcp::PROTOCOL,
        Tool::Ttcp => &ttcp::PROTOCOL,
        Tool::Twamp => &twamp::PROTOCOL,
    }
}
