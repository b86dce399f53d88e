//! How the end of a test is awaited: that of its trial, or the peer's close.

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::Trial;
use linerate_trial::outcome::Outcome;
use socket2::Socket;

use crate::error::Error;
use crate::listener::is_passing;

/// How often it is looked whether a test is to go on: seldom, for it takes a CPU from what is measured.
pub const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a read blocks before it is looked whether it should end.
const READ_TIME: Duration = Duration::from_millis(50);
/// Threads wait and copy nothing.
const STACK: usize = 128 << 10;

/// Waits until this end's flows have ended; those that take longer than `most` are ended.
pub fn await_end(trial: &Trial, most: Duration, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    let began = Instant::now();
    while !trial.ends_within(LOOK_AGAIN) {
        if stopped() {
            return Err(Error::Stopped);
        }
        if began.elapsed() > most {
            trial.stopper().finish();
        }
    }
    Ok(())
}

/// What this end of a trial saw, once it was waited for; where that failed, the trial is stopped.
pub fn join(trial: Trial, awaited: Result<(), Error>) -> Result<Outcome, Error> {
    if awaited.is_err() {
        trial.stop();
    }
    let outcome = trial.join();
    awaited?;
    Ok(outcome?)
}

/// Whether the peer has closed its control connection, or it broke.
pub fn has_left(control: &TcpStream) -> bool {
    let _ = control.set_read_timeout(Some(Duration::from_millis(1)));
    matches!(control.peek(&mut [0]), Ok(0)) || control.take_error().ok().flatten().is_some()
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
