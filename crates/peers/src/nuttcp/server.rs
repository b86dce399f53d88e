//! A nuttcp server: any number of clients at once, each test through linerate's own data path.
//! Knows no records and no terminal; what a test was is told to whoever wants to hear.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::line::{self, Request};
use super::mapping::spec_of;
use super::port_pool::PortPool;
use super::session::Session;
use crate::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::deadline::Timed;
use crate::listener::{Listener, await_all};
use crate::served_test::{Limits, Refusals, ServedTest};
use crate::test_limit::{TestDemand, memory_of};

/// The port of the control connection.
pub const PORT: u16 = 5000;

/// How long a client has for each of its lines.
pub const MESSAGE_TIME: Duration = Duration::from_secs(10);

/// A server that listens.
pub struct Server {
    listeners: Vec<Listener>,
    limits: Limits,
    refusals: Refusals,
    pool: PortPool,
    /// Connections whose request is being read.
    strangers: ConnectionLimit,
    ended: AtomicUsize,
}

impl Server {
    /// Listens on an address, or on every one. Port 0 is any that is free.
    pub fn bind(address: Option<IpAddr>, port: u16, limits: Limits) -> io::Result<Server> {
        Ok(Server {
            listeners: Listener::open_all(address, port, &limits.allow)?,
            limits,
            refusals: Box::new(|_, _| {}),
            pool: PortPool::default(),
            strangers: ConnectionLimit::default(),
            ended: AtomicUsize::new(0),
        })
    }

    /// Has somebody told of each client that is refused.
    pub fn tell_refusals(&mut self, refusals: Refusals) {
        self.refusals = refusals;
    }

    /// The port that is listened on.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listeners[0].tcp.local_addr()?.port())
    }

    /// Serves until `is_over` says so, given how many tests have ended; `heard` is told of each. Tests that run then are
    /// aborted.
    pub fn run(&self, is_over: impl Fn(usize) -> bool + Sync, heard: impl Fn(ServedTest) + Sync) -> io::Result<()> {
        let over = || is_over(self.ended.load(Ordering::Relaxed));
        let service = Service { server: self, over: &over, heard: &heard };
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
    fn attend<'scope>(self, listener: &'a Listener, scope: &'scope thread::Scope<'scope, 'a>) -> io::Result<()>
    where
        'a: 'scope,
    {
        while !(self.over)() {
            if let Some((stream, peer)) = listener.next()? {
                let work = move |stranger, stream| self.receive(stranger, stream, peer);
                self.server.strangers.receive(scope, (stream, peer), work);
            }
        }
        Ok(())
    }

    /// A connection: a test, if its first lines ask for one.
    fn receive(self, stranger: ConnectionPermit<'_>, stream: TcpStream, peer: SocketAddr) {
        let Ok(Some(asked)) = hear_request(&stream) else { return };
        let Server { pool, limits, .. } = self.server;
        let spec = match spec_of(&asked, limits) {
            Ok(spec) => spec,
            Err(why) => return self.refuse(&stream, peer, &why),
        };
        let wanted = TestDemand {
            server: "nuttcp",
            most: limits.tests,
            memory: memory_of(&spec),
            proven: true,
            control: Some(&stream),
        };
        let Some(place) = limits.memory.take(wanted) else {
            return self.refuse(&stream, peer, "as many tests run here as are allowed; try again when one is over");
        };
        drop(stranger);
        let over = || (self.over)() || place.is_evicted();
        let session = Session { control: stream, peer, asked, spec, pool, limits, over: &over, place: &place };
        if let Some(served) = session.run() {
            (self.heard)(served);
            self.server.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn refuse(self, stream: &TcpStream, peer: SocketAddr, why: &str) {
        (self.server.refusals)(peer, &format!("was told: {why}"));
        refuse(stream, why);
    }
}

/// What a client asks for; the oldest do so without a address_check. `None`: nothing that could be understood.
fn hear_request(stream: &TcpStream) -> io::Result<Option<Request>> {
    stream.set_nodelay(true)?;
    let mut timed = Timed::new(stream, MESSAGE_TIME);
    let mut heard = line::read(&mut timed)?;
    if line::parse_hello(&heard).is_some() {
        timed.write_all(line::hello().as_bytes())?;
        heard = line::read(&mut timed)?;
    }
    Ok(Request::parse(&heard))
}

/// Says why there is no test.
pub fn refuse(stream: &TcpStream, why: &str) {
    let _ = Timed::new(stream, MESSAGE_TIME).write_all(line::refusal(why).as_bytes());
}
