//! ConnectionSlots for connections: so many of strangers, and so many of those who have shown the token or a cookie of this server.
//! Knows neither token nor cookie; the reader of a request reports what it showed.
//!
//! No newcomer is refused: where all places of strangers are taken, one of them is closed ([`linerate_trial::admission`]).
//! A connection that has shown a token or a cookie gives its place back, and no newcomer closes it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use linerate_machine::sync::Mutex;
use linerate_trial::admission::Admission;
use tokio::sync::Notify;

/// The most connections of each kind at once.
pub(super) const PLACES: usize = 64;

/// What all connections share; clones are the same.
#[derive(Clone)]
pub(super) struct ConnectionSlots(Arc<Mutex<SlotsTaken>>);

struct SlotsTaken {
    strangers: Admission<Arc<Notify>>,
    known: usize,
}

/// One connection's, free again when the value goes.
pub(super) struct ConnectionSlot {
    places: ConnectionSlots,
    holds: Mutex<Holds>,
    closed: Arc<Notify>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Its number among strangers.
    Stranger(u64),
    Known,
}

impl ConnectionSlots {
    pub(super) fn new() -> ConnectionSlots {
        // Behind a proxy all come from one address: its share is the whole.
        ConnectionSlots(Arc::new(Mutex::new(SlotsTaken { strangers: Admission::new(PLACES, PLACES), known: 0 })))
    }

    /// A stranger's place, for which another's connection may be closed. `None`: it comes by a socket, which has no address.
    pub(super) fn admit(&self, from: Option<IpAddr>) -> ConnectionSlot {
        let closed = Arc::new(Notify::new());
        let from = from.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (number, gives_way) = self.0.lock().strangers.admit(from, Arc::clone(&closed));
        if let Some(other) = gives_way {
            other.notify_one();
        }
        ConnectionSlot { places: self.clone(), holds: Mutex::new(Holds::Stranger(number)), closed }
    }
}

impl ConnectionSlot {
    /// It showed what no stranger has. Where as many have as there are places, it stays where it may give way.
    pub(super) fn set_known(&self) {
        let (mut taken, mut holds) = (self.places.0.lock(), self.holds.lock());
        if let Holds::Stranger(number) = *holds
            && taken.known < PLACES
        {
            taken.strangers.leave(number);
            taken.known += 1;
            *holds = Holds::Known;
        }
    }

    /// Comes to its end when the connection has to give way.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let (mut taken, holds) = (self.places.0.lock(), *self.holds.lock());
        match holds {
            Holds::Stranger(number) => taken.strangers.leave(number),
            Holds::Known => taken.known -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_showed_something_is_closed_for_nobody() {
        let places = ConnectionSlots::new();
        let known: Vec<ConnectionSlot> = (0..=PLACES).map(|_| places.admit(None)).collect();
        known.iter().for_each(ConnectionSlot::set_known);
        let count = || {
            let taken = places.0.lock();
            (taken.known, taken.strangers.taken())
        };
        assert_eq!(count(), (PLACES, 1), "one more stays where it may give way");
        let strangers: Vec<ConnectionSlot> = (0..PLACES).map(|_| places.admit(None)).collect();
        assert_eq!(count(), (PLACES, PLACES));
        drop(known);
        assert_eq!(count(), (0, PLACES));
        drop(strangers);
        assert_eq!(count(), (0, 0));
    }
}
