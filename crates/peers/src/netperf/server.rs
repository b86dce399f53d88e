//! A netserver: any number of clients at once, each test through linerate's own data path.
//! Knows no records and no terminal; what a test was is told to whoever wants to hear.
//!
//! ```text
//!   TCP connection ─→ a thread ─→ Session: messages, one after the other, and a test for each request
//! ```
//! Test traffic goes only where a control connection came from.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::session::Session;
use crate::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::listener::{await_all, listeners, next};
use crate::served_test::{Limits, Refusals, ServedTest};

/// The port of control connections.
pub const PORT: u16 = 12_865;

/// A server that listens.
pub struct Server {
    listeners: Vec<TcpListener>,
    limits: Limits,
    refusals: Refusals,
    /// Control connections that have no test.
    strangers: ConnectionLimit,
    ended: AtomicUsize,
}

impl Server {
    /// Listens on an address, or on every one. Port 0 is any that is free.
    pub fn bind(address: Option<IpAddr>, port: u16, limits: Limits) -> io::Result<Server> {
        Ok(Server {
            listeners: listeners(address, port)?,
            refusals: Box::new(|_, _| {}),
            limits,
            strangers: ConnectionLimit::default(),
            ended: AtomicUsize::new(0),
        })
    }

    /// From now on these hear of clients that are refused. They leave nothing else: nothing was measured.
    pub fn tell_refusals(&mut self, refusals: Refusals) {
        self.refusals = refusals;
    }

    /// The port that is listened on.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listeners[0].local_addr()?.port())
    }

    /// Serves until `is_over` says so, given how many tests have ended; `heard` is told of each. Tests that run then are
    /// aborted.
    pub fn run(&self, is_over: impl Fn(usize) -> bool + Sync, heard: impl Fn(ServedTest) + Sync) -> io::Result<()> {
        let over = || is_over(self.ended.load(Ordering::Relaxed));
        let told = |served: ServedTest| {
            heard(served);
            self.ended.fetch_add(1, Ordering::Relaxed);
        };
        let service = Service { server: self, over: &over, heard: &told };
        thread::scope(|scope| {
            await_all(self.listeners.iter().map(|listener| scope.spawn(move || service.attend(listener, scope))))
        })
    }
}

/// A server at work.
#[derive(Clone, Copy)]
struct Service<'a> {
    server: &'a Server,
    over: &'a (dyn Fn() -> bool + Sync),
    heard: &'a (dyn Fn(ServedTest) + Sync),
}

impl<'a> Service<'a> {
    /// Looks for one family's connections, and gives each a thread.
    fn attend<'scope>(self, listener: &'a TcpListener, scope: &'scope thread::Scope<'scope, 'a>) -> io::Result<()>
    where
        'a: 'scope,
    {
        while !(self.over)() {
            let Some((control, peer)) = next(listener, &self.server.limits.allow)? else { continue };
            let work = move |stranger, control| self.receive(stranger, control, peer);
            self.server.strangers.receive(scope, (control, peer), work);
        }
        Ok(())
    }

    fn receive(self, stranger: ConnectionPermit<'_>, control: TcpStream, peer: SocketAddr) {
        let Ok(local) = control.local_addr() else { return };
        let session = Session {
            control,
            peer,
            local,
            limits: &self.server.limits,
            strangers: &self.server.strangers,
            over: self.over,
            heard: self.heard,
            refused: &|what| (self.server.refusals)(peer, what),
        };
        session.run(stranger);
    }
}
