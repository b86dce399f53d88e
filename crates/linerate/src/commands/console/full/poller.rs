//! Looks at machines, and at a team's queue, in a thread of its own, so that a slow one stops no key.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use linerate_control::Endpoint;
use linerate_machine::screen::Screen;

use super::super::machines::Machines;
use super::super::queue::{List, Queue};
use super::app::Event;

/// How long a conversation may take to end before a measurement begins all the same.
const CLOSE: Duration = Duration::from_secs(2);

/// What is asked.
enum Job {
    View(Endpoint, Screen, Option<String>),
    Settings(Endpoint, Vec<String>, Option<String>),
    List(Queue, List, u16),
    Close(Sender<()>),
}

/// The thread; it ends with this, or at the end of what it is about then.
pub(super) struct Poller(Sender<Job>);

impl Poller {
    pub(super) fn start(machines: Machines, events: Sender<Event>) -> io::Result<Poller> {
        let (asked, jobs) = mpsc::channel();
        std::thread::Builder::new().name("poller".to_owned()).spawn(move || work(machines, &jobs, &events))?;
        Ok(Poller(asked))
    }

    pub(super) fn view(&self, endpoint: Endpoint, screen: Screen, interface: Option<String>) {
        let _ = self.0.send(Job::View(endpoint, screen, interface));
    }

    pub(super) fn settings(&self, endpoint: Endpoint, names: Vec<String>, interface: Option<String>) {
        let _ = self.0.send(Job::Settings(endpoint, names, interface));
    }

    pub(super) fn list(&self, queue: Queue, list: List, columns: u16) {
        let _ = self.0.send(Job::List(queue, list, columns));
    }

    /// Ends the conversation that is open, and waits for that.
    pub(super) fn close(&self) {
        let (done, closed) = mpsc::channel();
        if self.0.send(Job::Close(done)).is_ok() {
            let _ = closed.recv_timeout(CLOSE);
        }
    }
}

fn work(mut machines: Machines, jobs: &Receiver<Job>, events: &Sender<Event>) {
    for job in jobs {
        let event = match job {
            Job::View(endpoint, screen, interface) => {
                let view = machines.view(&endpoint, screen, interface).map_err(|error| format!("{error:#}"));
                Event::Viewed(view, Instant::now())
            }
            Job::Settings(endpoint, names, interface) => {
                Event::Settings(machines.settings(&endpoint, &names, interface).map_err(|error| format!("{error:#}")))
            }
            Job::List(queue, list, columns) => {
                let lines = queue.lines(list, usize::from(columns));
                Event::Listed(list, lines, Instant::now())
            }
            Job::Close(done) => {
                machines.close();
                let _ = done.send(());
                continue;
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}
