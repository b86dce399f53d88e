//! How the end of a test is awaited: that of its trial, or the peer's close.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::sys::poll::wait_readable;
use linerate_host::sys::socket_state::least_round_trip;
use linerate_host::traffic::Trial;
use linerate_machine::sync::Mutex;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec};
use socket2::Socket;

use crate::error::Error;
use crate::limits::Limits;
use crate::listener::is_passing;

/// How often it is looked whether a test is to go on: seldom, for it takes a CPU from what is measured.
pub const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a read blocks before it is looked whether it should end.
const READ_TIME: Duration = Duration::from_millis(50);
/// Threads wait and copy nothing.
const STACK: usize = 128 << 10;

/// Of a client that has no other way to say that it leaves: nothing for so long, which is less than what fails a trial.
const SILENCE: Duration = Duration::from_secs(4);

/// Waits until this end's flows have ended; those that take longer than `most` are ended.
pub fn await_end(trial: &Trial, most: Duration, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    await_while(trial, most, stopped, || Ok(()))
}

/// The same of a client that has no control connection to close: it has left when nothing moves any more.
pub fn await_client(trial: &Trial, most: Duration, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    let (mut totals, mut octets, mut moved) = (trial.totals(), 0, Instant::now());
    await_while(trial, most, stopped, || {
        let (now, so_far) = (Instant::now(), totals.read().octets);
        if so_far != octets {
            (octets, moved) = (so_far, now);
        }
        let is_silent = octets > 0 && now - moved > SILENCE;
        if is_silent { Err(Error::ClientLeft("fell silent in mid-test")) } else { Ok(()) }
    })
}

fn await_while(
    trial: &Trial,
    most: Duration,
    stopped: &dyn Fn() -> bool,
    mut look: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let began = Instant::now();
    while !trial.ends_within(LOOK_AGAIN) {
        if stopped() {
            return Err(Error::Stopped);
        }
        look()?;
        if began.elapsed() > most {
            trial.stopper().finish();
        }
    }
    Ok(())
}

/// What this end of a trial saw, once it was waited for. Where that failed, the trial is stopped; where another tool's client has left,
/// what passed until then is measured.
pub fn join(trial: Trial, awaited: Result<(), Error>) -> Result<Outcome, Error> {
    match awaited {
        Ok(()) => Ok(trial.join()?),
        Err(Error::ClientLeft(_)) => {
            trial.stopper().finish();
            let seen = trial.finish().unwrap_or_else(|failed| *failed.seen);
            Ok(Outcome { ended_early: true, ..seen })
        }
        Err(error) => {
            trial.stop();
            let _ = trial.join();
            Err(error)
        }
    }
}

/// A test that took less of the time that its client asked for was ended by it.
const CUT_SHORT: f64 = 0.8;

/// Marks a test that ended well before the time that its client asked for, where its protocol has no other way to say so. Where it says
/// no time, `spec` has the longest that is allowed.
pub fn mark_cut_short(outcome: &mut Outcome, spec: &Spec, limits: &Limits) {
    let is_told = matches!(spec.extent, Extent::Time(time) if time < limits.time());
    outcome.ended_early |= is_told && is_cut_short(outcome, spec);
}

/// Whether a test went on for much less than the time that was asked for.
pub fn is_cut_short(outcome: &Outcome, spec: &Spec) -> bool {
    let Extent::Time(time) = spec.extent else { return false };
    let longest_ns = outcome.flows.iter().map(|flow| flow.elapsed_ns).max().unwrap_or(0);
    (longest_ns as f64) < CUT_SHORT * time.as_nanos() as f64
}

/// Whether the peer has closed its control connection, or it broke. Asked without a wait: the shortest time-out of a read
/// takes two ticks of the kernel, up to 20 ms, in which data may come that nobody looks for.
pub fn has_left(control: &TcpStream) -> bool {
    let has_closed = || {
        let _ = control.set_read_timeout(Some(Duration::from_millis(1)));
        matches!(control.peek(&mut [0]), Ok(0))
    };
    let readable = wait_readable(control, Duration::ZERO).unwrap_or(true);
    (readable && has_closed()) || control.take_error().ok().flatten().is_some()
}

/// How a peer closed its side of a connection, if it did.
#[derive(Clone, Copy, Debug)]
pub enum Closing {
    /// It did, and had read the last at this moment, as far as its clock is to begin with the first: the word of it took half a
    /// round trip, as the first octets did.
    Closed(Instant),
    /// Not while it was waited for.
    Open,
    /// The connection broke.
    Broke(ErrorKind),
    /// It says what no server says that says nothing but that it is there.
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
    read_to_close(socket, until, is_over, |octets, before| before + octets.len() > MOST_WORDS)
}

/// The same; `talks` is told what came and how much before it, and says whether the peer is another.
fn read_to_close(
    socket: &Socket,
    until: impl Fn() -> Instant,
    is_over: &dyn Fn() -> bool,
    talks: impl Fn(&[u8], usize) -> bool,
) -> Closing {
    let Ok(mut stream) = socket.try_clone().map(TcpStream::from) else { return Closing::Open };
    if stream.set_read_timeout(Some(READ_TIME)).is_err() {
        return Closing::Open;
    }
    let (mut octets, mut heard) = ([0; 4096], 0);
    loop {
        match stream.read(&mut octets) {
            Ok(0) => {
                let now = Instant::now();
                return Closing::Closed(now.checked_sub(least_round_trip(&stream)).unwrap_or(now));
            }
            Ok(len) if talks(&octets[..len], heard) => return Closing::Talks,
            Ok(len) => heard += len,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Closing::Broke(error.kind()),
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
    let until = || done.lock().unwrap_or_else(Instant::now) + most;
    thread::scope(|scope| {
        let closing = |socket| {
            let talks = &talks;
            let work = move || {
                let closing = read_to_close(socket, until, &is_over, |octets, before| {
                    // An acknowledgement begins with a small number in 32 bits. Text does not (HTTP, SSH, mail), nor an iperf3's states.
                    before + octets.len() > MOST_WORDS || (before == 0 && octets[0] != 0)
                });
                talks.fetch_or(matches!(closing, Closing::Talks), Ordering::Relaxed);
                closing
            };
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)
        };
        let closings: io::Result<Vec<_>> = sockets.iter().map(|socket| closing(*socket)).collect();
        let talks = || talks.load(Ordering::Relaxed);
        let worked = closings.map_err(E::from).and_then(|closings| work(&talks).map(|()| closings));
        *done.lock() = Some(Instant::now());
        let closings = worked.inspect_err(|_| given_up.store(true, Ordering::Relaxed))?;
        while !closings.iter().all(|closing| closing.is_finished()) {
            given_up.fetch_or(stopped(), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
        }
        Ok(closings.into_iter().map(|closing| closing.join().unwrap_or(Closing::Open)).collect())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use linerate_machine::end::End;
    use linerate_trial::outcome::{FlowOutcome, Role};
    use linerate_trial::spec::Workload;

    use super::*;

    #[test]
    fn whether_a_client_has_left_takes_no_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        // On a busy machine once of many is enough: a read with a time-out takes a millisecond each time.
        let asked = |_| {
            let began = Instant::now();
            assert!(!has_left(&near));
            began.elapsed()
        };
        let least = (0..20).map(asked).min().unwrap();
        assert!(least < Duration::from_micros(500), "{least:?}");
        far.write_all(b"said").unwrap();
        thread::sleep(Duration::from_millis(10));
        assert!(!has_left(&near));
        assert_eq!((&near).read(&mut [0; 10]).unwrap(), 4);
        drop(far);
        thread::sleep(Duration::from_millis(10));
        assert!(has_left(&near));
    }

    #[test]
    fn only_a_test_of_a_told_time_is_cut_short() {
        let limits = Limits { time_s: 60, ..Limits::default() };
        // Asked for, taken, and whether it was ended before; a protocol without a time has the longest that is allowed.
        for (asked, took, is_short) in [(10, 10, false), (10, 9, false), (10, 7, true), (60, 7, false)] {
            let mut spec = Spec::new(Workload::UdpStream);
            spec.extent = Extent::Time(Duration::from_secs(asked));
            let flow = FlowOutcome { elapsed_ns: took * 1_000_000_000, ..FlowOutcome::new(0, Role::Receiver) };
            let mut outcome = Outcome::of_flows(End::Target, vec![flow]);
            mark_cut_short(&mut outcome, &spec, &limits);
            assert_eq!(outcome.ended_early, is_short, "{took} of {asked} s");
        }
    }
}
