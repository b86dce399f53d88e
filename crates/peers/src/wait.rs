//! How the end of a test is awaited: that of its trial, or the peer's close.

use std::io::{self, ErrorKind, Read};
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

/// How a peer closed its side of a connection, if it did.
#[derive(Clone, Copy, Debug)]
pub enum Closing {
    /// It did, at this moment.
    Closed(Instant),
    /// Not while it was waited for.
    Open,
    /// The connection broke.
    Broke(ErrorKind),
    /// It says more than any server that says nothing but that it is there.
    Talks,
}

impl Closing {
    /// When it closed.
    pub fn at(self) -> Option<Instant> {
        if let Closing::Closed(at) = self { Some(at) } else { None }
    }
}

/// What a server says at most on a connection on which it receives: iperf2's acknowledgement of a header has 52 octets.
const MOST_WORDS: usize = 512;

/// Reads what still comes until the peer closes its side, for so long, or until `is_over` says so.
pub fn await_close(socket: &Socket, until: impl Fn() -> Instant, is_over: &dyn Fn() -> bool) -> Closing {
    let Ok(mut stream) = socket.try_clone().map(TcpStream::from) else { return Closing::Open };
    if stream.set_read_timeout(Some(READ_TIME)).is_err() {
        return Closing::Open;
    }
    let (mut octets, mut heard) = ([0; 4096], 0);
    loop {
        match stream.read(&mut octets) {
            Ok(0) => return Closing::Closed(Instant::now()),
            Ok(len) => heard += len,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Closing::Broke(error.kind()),
        }
        if heard > MOST_WORDS {
            return Closing::Talks;
        }
        if Instant::now() > until() || is_over() {
            return Closing::Open;
        }
    }
}

/// Has `work` done, which sends on these connections, and says when the peer closed each of them: that is how it tells that
/// it has read everything. It has `most` for that once the work is done, unless `stopped` says that it is over. The work is told
/// whether one of them talks.
pub fn await_closes<E: From<io::Error>>(
    sockets: &[&Socket],
    most: Duration,
    stopped: &dyn Fn() -> bool,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<(), E>,
) -> Result<Vec<Closing>, E> {
    let (given_up, talks, done) = (AtomicBool::new(false), AtomicBool::new(false), Mutex::new(None));
    let is_over = || given_up.load(Ordering::Relaxed);
    let until = || done.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now) + most;
    thread::scope(|scope| {
        let closing = |socket| {
            let talks = &talks;
            let work = move || {
                let closing = await_close(socket, until, &is_over);
                talks.fetch_or(matches!(closing, Closing::Talks), Ordering::Relaxed);
                closing
            };
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)
        };
        let closings: io::Result<Vec<_>> = sockets.iter().map(|socket| closing(*socket)).collect();
        let talks = || talks.load(Ordering::Relaxed);
        let worked = closings.map_err(E::from).and_then(|closings| work(&talks).map(|()| closings));
        *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let closings = worked.inspect_err(|_| given_up.store(true, Ordering::Relaxed))?;
        while !closings.iter().all(|closing| closing.is_finished()) {
            given_up.fetch_or(stopped(), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
        }
        Ok(closings.into_iter().map(|closing| closing.join().unwrap_or(Closing::Open)).collect())
    })
}
