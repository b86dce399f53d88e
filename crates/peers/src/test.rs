//! Where a test against another tool's server takes place.
//! Knows no protocol.

use std::net::{IpAddr, SocketAddr};

/// The two ends of a test.
#[derive(Clone, Debug)]
pub struct Place {
    /// This machine's address.
    pub local: IpAddr,
    /// The interface that has it.
    pub interface: Option<String>,
    /// The other tool's server.
    pub server: SocketAddr,
}
