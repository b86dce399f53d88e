//! A flow's thread, as others may look at it while it runs: its socket and its time on CPUs.
//! Knows no traffic, and holds nothing once the thread has left: closing a socket says something.

use std::fs::File;

use linerate_machine::sync::Mutex;
use socket2::Socket;

/// Filled by a flow's thread, read by the sampler.
#[derive(Default)]
pub struct Presence(Mutex<State>);

#[derive(Default)]
struct State {
    socket: Option<Socket>,
    schedstat: Option<File>,
}

/// The thread is there as long as this lives.
pub struct PresenceGuard<'a>(&'a Presence);

impl Presence {
    /// This thread moves data through `socket` from now on. Without a descriptor left nothing is to be seen of it.
    pub fn enter(&self, socket: &Socket) -> PresenceGuard<'_> {
        let mut state = self.0.lock();
        state.socket = socket.try_clone().ok();
        // It stays this thread's, also when another thread reads it. Linux has the path since 3.17.
        state.schedstat = File::open("/proc/thread-self/schedstat").ok();
        drop(state);
        PresenceGuard(self)
    }

    /// What is to be seen of the socket, while the thread has it. The thread cannot close it meanwhile, so that `look`
    /// must not wait.
    pub fn look<T>(&self, look: impl FnOnce(&Socket) -> T) -> Option<T> {
        self.0.lock().socket.as_ref().map(look)
    }

    /// The file that tells of its time on CPUs, once.
    pub fn take_schedstat(&self) -> Option<File> {
        self.0.lock().schedstat.take()
    }
}

impl Drop for PresenceGuard<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = State::default();
    }
}
