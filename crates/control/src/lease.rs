//! One controller measures on a machine at a time, also when each has an agent process of its own there.
//! Knows nothing of what the lease allows.
//!
//! The lease is an abstract Unix socket (unix(7)): its name belongs to one network namespace, which is what test
//! traffic shares too, and vanishes with the process, however that ends. Who holds it answers every connection with
//! a line that says so. Agents of one controller share the lease: both ends of a trial may be on one machine.

use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::line::LineReader;
use crate::message::Holder;

/// The right to measure. Dropping it gives it back.
#[derive(Debug)]
pub struct Lease {
    name: String,
    released: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Why there is no lease; one sentence, ending in what to try.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another controller measures.
    #[error("{} has been measuring here for {since_s} s; wait until it is done, or stop it", holder.name)]
    Busy {
        /// Who.
        holder: Holder,
        /// For how long, seconds.
        since_s: u64,
    },
    /// Something holds the name and does not say who it is.
    #[error("a program that does not say who it is holds this machine's lease; 'ss -xlp | grep {name}' finds it")]
    Silent {
        /// The name of the abstract socket.
        name: String,
    },
    /// The system said no.
    #[error("the machine's lease cannot be had: {0}; try again")]
    Io(#[from] io::Error),
}

/// The name of a machine's lease.
const NAME: &str = "linerate-lease";

/// What the holder answers.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    holder: Holder,
    since_s: u64,
}

/// How long a holder has to answer; it does nothing else.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// How often an agent that shares a lease looks whether its holder has gone, to hold it instead.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Lease {
    /// Takes the lease of this machine (of this network namespace).
    pub fn take(holder: &Holder) -> Result<Lease, LeaseError> {
        Lease::take_named(NAME, holder)
    }

    /// Takes the lease of another name; for tests.
    pub fn take_named(name: &str, holder: &Holder) -> Result<Lease, LeaseError> {
        // A holder may give the lease back between our bind and our question.
        for _ in 0..20 {
            match bind(name) {
                Ok(listener) => return Lease::hold(name, holder, Some(listener)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => (),
                Err(error) => return Err(error.into()),
            }
            let stream = match UnixStream::connect_addr(&address(name)?) {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            return match ask(stream) {
                Some(Answer { holder: other, since_s }) if other.controller != holder.controller => {
                    Err(LeaseError::Busy { holder: other, since_s })
                }
                Some(_) => Lease::hold(name, holder, None),
                None => Err(LeaseError::Silent { name: name.to_owned() }),
            };
        }
        Err(LeaseError::Silent { name: name.to_owned() })
    }

    /// Holds the lease with `listener`; without one, another agent of the same controller holds it, and this one
    /// takes its place when it goes.
    fn hold(name: &str, holder: &Holder, listener: Option<UnixListener>) -> Result<Lease, LeaseError> {
        let released = Arc::new(AtomicBool::new(false));
        let (flag, holder, name) = (Arc::clone(&released), holder.clone(), name.to_owned());
        let theirs = name.clone();
        let thread = crate::small_thread("linerate-lease").spawn(move || {
            let since = Instant::now();
            let mut listener = listener;
            while !flag.load(Ordering::Acquire) {
                match listener.take().or_else(|| bind(&theirs).ok()) {
                    Some(listener) => answer_all(&listener, &holder, since, &flag),
                    None => std::thread::park_timeout(LOOK_AGAIN),
                }
            }
        })?;
        Ok(Lease { name, released, thread: Some(thread) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.released.store(true, Ordering::Release);
        // The thread waits in park or in accept(2), which a connection wakes; only when it has ended is the name
        // free. It may go from one to the other just now, so both are done until it has.
        while !thread.is_finished() {
            thread.thread().unpark();
            let _ = address(&self.name).and_then(|address| UnixStream::connect_addr(&address));
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

fn bind(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&address(name)?)
}

fn answer_all(listener: &UnixListener, holder: &Holder, since: Instant, released: &AtomicBool) {
    for stream in listener.incoming() {
        if released.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut stream) = stream else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let answer = Answer { holder: holder.clone(), since_s: since.elapsed().as_secs() };
        let mut line = serde_json::to_vec(&answer).expect("an answer is strings and a number");
        line.push(b'\n');
        // A stranger that does not read gets what fits the socket's buffer and holds nobody up.
        let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&line));
    }
}

fn ask(stream: UnixStream) -> Option<Answer> {
    stream.set_read_timeout(Some(ANSWER_TIME)).ok()?;
    let line = LineReader::new(stream, 64 * 1024).next_line().ok()??;
    serde_json::from_str(&line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(controller: &str) -> Holder {
        Holder { controller: controller.to_owned(), name: format!("user of {controller}") }
    }

    fn name(test: &str) -> String {
        format!("linerate-test-{test}-{}", std::process::id())
    }

    #[test]
    fn a_second_controller_is_told_who_measures() {
        let name = name("busy");
        let lease = Lease::take_named(&name, &holder("a")).unwrap();
        let shared = Lease::take_named(&name, &holder("a")).unwrap();
        let error = Lease::take_named(&name, &holder("b")).unwrap_err();
        assert!(matches!(error, LeaseError::Busy { .. }), "{error}");
        assert!(error.to_string().contains("user of a has been measuring here for 0 s"), "{error}");
        drop(lease);
        std::thread::sleep(2 * LOOK_AGAIN);
        assert!(Lease::take_named(&name, &holder("b")).is_err(), "the second agent still measures");
        let lease = Lease::take_named(&name, &holder("a")).unwrap();
        drop(shared);
        drop(lease);
        let _next = Lease::take_named(&name, &holder("b")).expect("the lease was given back");
    }

    #[test]
    fn a_squatter_that_says_nothing_is_noticed() {
        let name = name("silent");
        let _squatter = bind(&name).unwrap();
        let error = Lease::take_named(&name, &holder("a")).unwrap_err();
        assert!(matches!(error, LeaseError::Silent { .. }), "{error}");
    }
}
