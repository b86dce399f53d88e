//! Takes what comes on a UDP socket before a trial has threads for it: some clients send their data without asking.
//! Knows no protocol.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_host::traffic::Early;
use socket2::Socket;

/// How long a look takes that finds nothing.
const LOOK: Duration = Duration::from_millis(1);
/// The most that is kept; a kernel's buffer holds less.
const MOST_OCTETS: usize = 8 << 20;
/// Where somebody else's datagrams could be cut.
const MOST_LEN: usize = 65_536;
const STACK: usize = 256 << 10;

/// Somebody who empties a socket until it is taken over.
pub struct Keeper {
    over: Arc<AtomicBool>,
    since: Instant,
    thread: Mutex<Option<JoinHandle<Vec<Vec<u8>>>>>,
}

impl Keeper {
    /// Empties a connected socket; `known` are its first datagrams, which others have taken from it.
    pub fn start(socket: &Socket, known: Vec<Vec<u8>>) -> std::io::Result<Keeper> {
        let socket: UdpSocket = socket.try_clone()?.into();
        socket.set_read_timeout(Some(LOOK))?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let work = move || keep(&socket, known, &seen);
        let thread = thread::Builder::new().name("keeper".to_owned()).stack_size(STACK).spawn(work)?;
        Ok(Keeper { over, since: Instant::now(), thread: Mutex::new(Some(thread)) })
    }

    /// What came; whoever asks takes the socket over.
    pub fn take(&self) -> Early {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let datagrams = thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        Early { datagrams, since: self.since.elapsed() }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn keep(socket: &UdpSocket, known: Vec<Vec<u8>>, over: &AtomicBool) -> Vec<Vec<u8>> {
    let mut kept = known;
    let mut octets = kept.iter().map(Vec::len).sum::<usize>();
    let mut buffer = vec![0; MOST_LEN];
    while !over.load(Ordering::Relaxed) && octets < MOST_OCTETS {
        // Whatever the error says, the trial will say it again.
        if let Ok(len) = socket.recv(&mut buffer) {
            octets += len;
            kept.push(buffer[..len].to_vec());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_two_readers() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let socket: Socket = near.into();
        let keeper = Keeper::start(&socket, vec![vec![0]]).unwrap();
        for number in 1..50 {
            far.send(&[number]).unwrap();
        }
        thread::sleep(Duration::from_millis(20));
        let mut heard: Vec<u8> = keeper.take().datagrams.concat();
        far.send(&[50]).unwrap();
        let socket: UdpSocket = socket.into();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut octet = [0];
        while socket.recv(&mut octet).is_ok() {
            heard.push(octet[0]);
        }
        assert_eq!(heard, (0..=50).collect::<Vec<u8>>());
        assert!(keeper.take().datagrams.is_empty());
    }
}
