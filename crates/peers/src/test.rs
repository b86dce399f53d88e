//! Where a test with another tool takes place, and how its end is awaited.
//! Knows no protocol.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::Trial;
use linerate_host::traffic::reachability::{UnprovenLimit, local_towards};
use socket2::Socket;

use crate::listener::is_passing;

/// The two ends of a test.
#[derive(Clone, Debug)]
pub struct Place {
    /// This machine's address.
    pub local: IpAddr,
    /// The interface that has it.
    pub interface: Option<String>,
    /// The other tool's server.
    pub server: SocketAddr,
    /// What may be sent there without an answer; `None`: nothing but what asks for one.
    pub unanswered: Option<UnprovenLimit>,
}

impl Place {
    /// This machine's address at a port, for a socket that is to reach the server.
    pub fn near(&self, port: u16) -> SocketAddr {
        local_towards(self.local, port, self.server)
    }
}

/// How often it is looked whether a test is to go on: seldom, for it takes a CPU from what is measured.
pub const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a read blocks before it is looked whether it should end.
const READ_TIME: Duration = Duration::from_millis(50);
/// Threads wait and copy nothing.
const STACK: usize = 128 << 10;

/// Waits until this end's flows have ended; those that take longer than `most` are ended. `false`: `stopped` said so first.
pub fn await_end(trial: &Trial, most: Duration, stopped: &dyn Fn() -> bool) -> bool {
    let began = Instant::now();
    while !trial.ends_within(LOOK_AGAIN) {
        if stopped() {
            return false;
        }
        if began.elapsed() > most {
            trial.stopper().finish();
        }
    }
    true
}

/// Reads what still comes until the peer closes its side, and says when that was; `None` where it had not until then, or
/// `is_over` said so.
pub fn await_close(socket: &Socket, until: impl Fn() -> Instant, is_over: &dyn Fn() -> bool) -> Option<Instant> {
    let mut stream: TcpStream = socket.try_clone().ok()?.into();
    stream.set_read_timeout(Some(READ_TIME)).ok()?;
    let mut octets = [0; 4096];
    loop {
        match stream.read(&mut octets) {
            Ok(0) => return Some(Instant::now()),
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(_) => return None,
        }
        if Instant::now() > until() || is_over() {
            return None;
        }
    }
}

/// Has `work` done, which sends on these connections, and says when the peer closed each of them: that is how it tells that
/// it has read everything. It has `most` for that once the work is done; `None` where it had not by then, or `stopped` said
/// so.
pub fn await_closes<E: From<io::Error>>(
    sockets: &[&Socket],
    most: Duration,
    stopped: &dyn Fn() -> bool,
    work: impl FnOnce() -> Result<(), E>,
) -> Result<Vec<Option<Instant>>, E> {
    let (given_up, done) = (AtomicBool::new(false), Mutex::new(None));
    let is_over = || given_up.load(Ordering::Relaxed);
    let until = || done.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now) + most;
    thread::scope(|scope| {
        let closing = |socket| {
            let work = move || await_close(socket, until, &is_over);
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)
        };
        let closings: io::Result<Vec<_>> = sockets.iter().map(|socket| closing(*socket)).collect();
        let worked = closings.map_err(E::from).and_then(|closings| work().map(|()| closings));
        *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let closings = worked.inspect_err(|_| given_up.store(true, Ordering::Relaxed))?;
        while !closings.iter().all(|closing| closing.is_finished()) {
            given_up.fetch_or(stopped(), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
        }
        Ok(closings.into_iter().map(|closing| closing.join().ok().flatten()).collect())
    })
}

/// Why a test has no socket or no thread, and what to do.
pub fn exhausted(error: &io::Error) -> String {
    format!(
        "this process can open no more for a test: {error}; close what it has open, or raise 'ulimit -n' and 'ulimit -u'"
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0.into(), far)
    }

    #[test]
    fn whoever_closes_is_heard_and_whoever_does_not_holds_nobody() {
        let (one, closes) = pair();
        let (other, stays) = pair();
        let await_both = |most, stopped: &dyn Fn() -> bool| {
            let work = || closes.shutdown(std::net::Shutdown::Both);
            await_closes(&[&one, &other], most, stopped, work).unwrap()
        };
        let began = Instant::now();
        for (most, stopped) in [(Duration::from_millis(100), false), (Duration::from_secs(60), true)] {
            let closed = await_both(most, &|| stopped);
            // Where it is stopped nobody need have heard of it.
            assert!((closed[0].is_some() || stopped) && closed[1].is_none());
        }
        let failed = || Err(io::Error::other("why"));
        assert!(await_closes(&[&other], Duration::from_secs(60), &|| false, failed).is_err());
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        drop(stays);
    }
}
