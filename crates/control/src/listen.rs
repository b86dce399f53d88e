//! An agent's ear on the network: accepts controllers that have the key, and bounds what strangers can cost.
//! Knows nothing of what is said afterwards.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use linerate_machine::sync::{Condvar, Mutex};
use linerate_trial::admission::Admission;

use crate::link::Link;
use crate::noise::{self, Psk};

/// How much may go on at once. Each connection costs a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Conversations with controllers that proved to have the key.
    pub conversations: usize,
    /// Connections that have not proved it yet; each lasts 3 s at most, and the oldest gives way to one that comes
    /// ([`linerate_trial::admission`]).
    pub handshakes: usize,
    /// How many of these are from one address.
    pub handshakes_of_one: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { conversations: 8, handshakes: 32, handshakes_of_one: 24 }
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

    /// Accepts for ever. `converse` is called in a thread of its own for each controller that has the key. Where too many
    /// shake hands, the one that has done so longest is closed: silent strangers keep no owner of the key out. A connection whose
    /// handshake fails is closed at once: a stranger learns nothing.
    pub fn serve(self, converse: impl Fn(Link, SocketAddr) + Send + Sync + 'static) -> ! {
        let Listener { socket, psk, limits } = self;
        let handshakes = Arc::new(Handshakes::new(&limits));
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
            let Some(place) = Handshakes::admit(&handshakes, address.ip(), &connection) else { continue };
            let (psk, converse, conversations) = (Arc::clone(&psk), Arc::clone(&converse), conversations.clone());
            // When no thread can be had, the closure and with it the connection are dropped: closed at once, too.
            let _ = crate::start_thread("linerate-visitor", move || {
                let Ok(link) = noise::respond(connection, &psk) else { return };
                let Some(_place) = conversations.take() else { return };
                drop(place);
                converse(link, address);
            });
        }
    }
}

/// Connections that shake hands.
struct Handshakes {
    admission: Mutex<Admission<TcpStream>>,
    left: Condvar,
}

/// How long a connection waits where many were closed for others and their threads have not noticed yet.
const CLOSING_TIME: Duration = Duration::from_millis(200);

/// A connection's place while it shakes hands.
struct Handshake {
    places: Arc<Handshakes>,
    number: u64,
}

impl Handshakes {
    fn new(limits: &Limits) -> Handshakes {
        let admission = Admission::new(limits.handshakes, limits.handshakes_of_one);
        Handshakes { admission: Mutex::new(admission), left: Condvar::new() }
    }

    /// A place for a connection; the oldest may give way. `None`: this machine has no descriptor left, or is too busy to
    /// end those that gave way.
    fn admit(places: &Arc<Handshakes>, address: IpAddr, connection: &TcpStream) -> Option<Handshake> {
        let connection = connection.try_clone().ok()?;
        let congested = |admission: &mut Admission<TcpStream>| admission.is_congested();
        let (mut admission, has_room) =
            places.left.wait_timeout_while(places.admission.lock(), CLOSING_TIME, congested);
        if !has_room {
            return None;
        }
        let (number, gives_way) = admission.admit(address, connection);
        if let Some(evicted) = gives_way {
            let _ = evicted.shutdown(Shutdown::Both);
        }
        Some(Handshake { places: Arc::clone(places), number })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.places.admission.lock().leave(self.number);
        self.places.left.notify_one();
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
