//! A limit on connections whose peers have not said yet what they want, and a thread for each of them.
//! Knows no protocol.
//!
//! Nobody who connects is refused: where all places are taken, the one that was silent longest is closed
//! ([`linerate_trial::admission`]). So silence, however often, keeps nobody out.

use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope};
use std::time::Duration;

use linerate_machine::sync::{Condvar, Mutex};
use linerate_trial::admission::Admission;

/// Threads wait and copy little, for the data has threads of its own; but they make records, which are large.
const STACK: usize = 1 << 20;
/// How long somebody who comes waits until these are fewer.
const CLOSING_TIME: Duration = Duration::from_millis(200);

/// The most connections at once, and the most of them from one address.
pub struct ConnectionLimit {
    admission: Mutex<Admission<Held>>,
    left: Condvar,
}

/// What it takes to close a connection from another thread.
struct Held {
    /// None of datagrams.
    stream: Option<TcpStream>,
    evicted: Arc<AtomicBool>,
}

/// A connection's place, free again when the value goes: because its peer is known now, or because it is gone.
pub struct ConnectionPermit<'a> {
    limit: &'a ConnectionLimit,
    number: u64,
    evicted: Arc<AtomicBool>,
}

impl Default for ConnectionLimit {
    /// Enough for the streams of the largest test that come together, from one address.
    fn default() -> ConnectionLimit {
        ConnectionLimit::new(256, 160)
    }
}

impl ConnectionLimit {
    /// `most` at once, `share` of them from one address.
    pub fn new(most: usize, share: usize) -> ConnectionLimit {
        ConnectionLimit { admission: Mutex::new(Admission::new(most, share)), left: Condvar::new() }
    }

    /// A place for a connection, or for a sender of datagrams, which has none. `None`: this machine has no descriptor left,
    /// or too many that were closed are still there.
    pub fn admit(&self, address: IpAddr, stream: Option<&TcpStream>) -> Option<ConnectionPermit<'_>> {
        let stream = stream.map(TcpStream::try_clone).transpose().ok()?;
        let congested = |admission: &mut Admission<Held>| admission.is_congested();
        let (mut admission, has_room) = self.left.wait_timeout_while(self.admission.lock(), CLOSING_TIME, congested);
        if !has_room {
            return None;
        }
        let evicted = Arc::new(AtomicBool::new(false));
        let (number, gives_way) = admission.admit(address, Held { stream, evicted: evicted.clone() });
        if let Some(held) = gives_way {
            held.evicted.store(true, Ordering::Relaxed);
            if let Some(stream) = held.stream {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        Some(ConnectionPermit { limit: self, number, evicted })
    }

    /// A thread for a connection that has come. Where there is no place or no thread, it is closed.
    pub fn receive<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        (stream, peer): (TcpStream, SocketAddr),
        work: impl FnOnce(ConnectionPermit<'scope>, TcpStream) + Send + 'scope,
    ) {
        if let Some(stranger) = self.admit(peer.ip(), Some(&stream)) {
            spawn(scope, move || work(stranger, stream));
        }
    }
}

/// A thread for somebody who has a place. `false`: there is none.
pub fn spawn<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> bool {
    Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_ok()
}

impl ConnectionPermit<'_> {
    /// Whether the place was taken away, and the connection with it.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// This end works on what it was asked: those that are silent give way before.
    pub fn set_busy(&self) {
        self.limit.admission.lock().set_busy(self.number, true);
    }
}

impl Drop for ConnectionPermit<'_> {
    fn drop(&mut self) {
        self.limit.admission.lock().leave(self.number);
        self.limit.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn pair() -> (TcpStream, (TcpStream, SocketAddr)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (far, listener.accept().unwrap())
    }

    #[test]
    fn somebody_who_comes_is_heard_and_the_oldest_is_closed() {
        let limit = ConnectionLimit::new(2, 2);
        let (mut far, near): (Vec<_>, Vec<_>) = (0..4).map(|_| pair()).unzip();
        thread::scope(|scope| {
            for connection in near {
                limit.receive(scope, connection, |stranger, mut stream| {
                    let read = stream.read(&mut [0]);
                    assert!(read.is_ok_and(|len| len == 0));
                    drop(stranger);
                });
            }
            let began = Instant::now();
            for far in &mut far[..2] {
                far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                assert_eq!(far.read(&mut [0]).unwrap(), 0);
            }
            assert!(began.elapsed() < Duration::from_secs(4));
            far[3].set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            assert_eq!(far[3].read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(limit.admission.lock().taken(), 2);
            far.clear();
        });
        assert_eq!(limit.admission.lock().taken(), 0);
    }

    #[test]
    fn work_that_breaks_frees_its_place() {
        let limit = ConnectionLimit::new(1, 1);
        let work = AssertUnwindSafe(|| {
            let _stranger = limit.admit([127, 0, 0, 1].into(), None);
            panic!("as a defect would");
        });
        catch_unwind(work).unwrap_err();
        assert_eq!(limit.admission.lock().taken(), 0);
    }

    #[test]
    fn threads_of_the_closed_are_few() {
        let limit = ConnectionLimit::new(1, 1);
        // None of them notices that it has no place any more.
        let deaf: Vec<_> = (0..200).map_while(|_| limit.admit([127, 0, 0, 1].into(), None)).collect();
        assert_eq!(deaf.len(), 65);
        assert_eq!(deaf.iter().filter(|stranger| stranger.is_evicted()).count(), 64);
    }
}
