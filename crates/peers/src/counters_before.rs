//! What an interface's counters showed when the first packets of a test came, which is before the test has its place.
//! Knows no test.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_host::counters::{self, Snapshot};
use linerate_host::interfaces;

/// The counters of an interface at one moment.
#[derive(Clone)]
pub struct CountersBefore {
    /// Which.
    pub interface: String,
    /// They.
    pub snapshot: Arc<Snapshot>,
}

impl CountersBefore {
    /// Those of the interface that has this address.
    pub fn read(local: SocketAddr) -> Option<CountersBefore> {
        let interface = interfaces::with_address(local)?;
        let snapshot = Arc::new(counters::snapshot(&interface));
        Some(CountersBefore { interface, snapshot })
    }

    /// Those of the interface that leads to this peer.
    fn towards(peer: SocketAddr) -> Option<CountersBefore> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(peer).ok()?;
        CountersBefore::read(socket.local_addr().ok()?)
    }
}

/// How old counters may be that are those of a sender's first datagram: senders may be forged by the thousand.
const RECENT: Duration = Duration::from_millis(100);

/// The counters that were read last.
#[derive(Default)]
pub struct RecentCounters(Option<(Instant, Option<CountersBefore>)>);

impl RecentCounters {
    /// Those before the datagrams of a sender whose first came just now; or those of another interface, if that one's were read
    /// a moment ago.
    pub fn before(&mut self, peer: SocketAddr) -> Option<CountersBefore> {
        if self.0.as_ref().is_none_or(|(read, _)| read.elapsed() > RECENT) {
            let counters = CountersBefore::towards(peer);
            self.0 = Some((Instant::now(), counters));
        }
        self.0.as_ref().and_then(|(_, counters)| counters.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_that_begin_together_have_the_same_counters() {
        let mut recent = RecentCounters::default();
        let mut before = |port| recent.before(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        let (first, second) = (before(5001), before(5002));
        assert_eq!(first.interface, "lo");
        assert!(first.snapshot.counters.iter().any(|(_, name, _)| name == "link rx_packets"));
        assert!(Arc::ptr_eq(&first.snapshot, &second.snapshot));
        std::thread::sleep(RECENT * 2);
        assert!(!Arc::ptr_eq(&first.snapshot, &before(5003).snapshot));
    }
}
