//! An agent's ear on the network: accepts controllers that have the key, and bounds what strangers can cost.
//! Knows nothing of what is said afterwards.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::link::Link;
use crate::noise::{self, Psk};

/// How much may go on at once. Each connection costs a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Conversations with controllers that proved to have the key.
    pub conversations: usize,
    /// Connections that have not proved it yet; each lasts 3 s at most.
    pub handshakes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { conversations: 8, handshakes: 16 }
    }
}

/// A listening socket with a key.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    psk: Psk,
    limits: Limits,
}

impl Listener {
    /// Listens on `address`.
    pub fn bind(address: impl ToSocketAddrs, psk: Psk, limits: Limits) -> io::Result<Listener> {
        Ok(Listener { socket: TcpListener::bind(address)?, psk, limits })
    }

    /// The address that was bound; of interest when port 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts for ever. `converse` is called in a thread of its own for each controller that has the key. A
    /// connection beyond a limit is closed at once, and so is one whose handshake fails: a stranger learns nothing.
    pub fn serve(self, converse: impl Fn(Link, SocketAddr) + Send + Sync + 'static) -> ! {
        let Listener { socket, psk, limits } = self;
        let handshakes = Places::new(limits.handshakes);
        let conversations = Places::new(limits.conversations);
        let (psk, converse) = (Arc::new(psk), Arc::new(converse));
        loop {
            let (connection, address) = match socket.accept() {
                Ok(accepted) => accepted,
                Err(_) => {
                    // Out of descriptors, most likely: accept(2) fails at once again and again until one is closed.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            let Some(place) = handshakes.take() else { continue };
            let (psk, converse, conversations) = (Arc::clone(&psk), Arc::clone(&converse), conversations.clone());
            // When no thread can be had, the closure and with it the connection are dropped: closed at once, too.
            let _ = crate::small_thread("linerate-visitor").spawn(move || {
                let Ok(link) = noise::respond(connection, &psk) else { return };
                let Some(_place) = conversations.take() else { return };
                drop(place);
                converse(link, address);
            });
        }
    }
}

/// A limited number of places; one is free again when what [`Places::take`] gave is dropped.
#[derive(Clone)]
struct Places(Arc<AtomicUsize>);

struct Place(Arc<AtomicUsize>);

impl Places {
    fn new(limit: usize) -> Places {
        Places(Arc::new(AtomicUsize::new(limit)))
    }

    fn take(&self) -> Option<Place> {
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1));
        taken.ok().map(|_| Place(Arc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
