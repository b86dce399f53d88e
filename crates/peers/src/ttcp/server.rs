//! A ttcp server, as `ttcp -r` is one, but of any number of `ttcp -t` at once, each through linerate's own data path.
//! Knows no records and no terminal; what a test was is told to whoever wants to hear.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use linerate_host::interfaces;
use linerate_trial::flow::End;
use linerate_trial::spec::{Extent, Spec, Workload};

use super::datagram::Streams;
use super::receive::{Arrived, Receiver};
use crate::connection_limit::{ConnectionLimit, ConnectionPermit, spawn};
use crate::early_datagrams::{PendingStreams, StreamStart};
use crate::listener::{Datagram, Listener, await_all};
use crate::remote_end::remote_end;
use crate::served_test::{Limits, Refusals, ServedTest};
use crate::test_limit::{TestDemand, memory_of};

/// The port of TCP and UDP.
pub const PORT: u16 = 5001;

/// A server that listens.
pub struct Server {
    listeners: Vec<Listener>,
    limits: Limits,
    refusals: Refusals,
    /// Whose datagrams have a socket of their own.
    known: Mutex<Vec<SocketAddr>>,
    /// Senders whose first data is awaited.
    strangers: ConnectionLimit,
    /// The same of datagrams, whose senders may be forged: those take no place of a connection.
    senders: ConnectionLimit,
    ended: AtomicUsize,
}

impl Server {
    /// Listens on an address, or on every one. Port 0 is any that is free.
    pub fn bind(address: Option<IpAddr>, port: u16, limits: Limits) -> io::Result<Server> {
        Ok(Server {
            listeners: Listener::open_all(address, port, &limits.allow)?,
            limits,
            refusals: Box::new(|_, _| {}),
            known: Mutex::default(),
            strangers: ConnectionLimit::default(),
            senders: ConnectionLimit::default(),
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

    fn known(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
    /// Looks at one family's sockets, and gives each sender a thread.
    fn attend<'scope>(self, listener: &'a Listener, scope: &'scope thread::Scope<'scope, 'a>) -> io::Result<()>
    where
        'a: 'scope,
    {
        let mut pending = PendingStreams::new(Streams);
        while !(self.over)() {
            listener.wait()?;
            if let Some((stream, peer)) = listener.accept() {
                self.server.strangers.receive(scope, (stream, peer), move |stranger, stream| {
                    let arrived = Arrived::connection(stream, &|| (self.over)() || stranger.is_evicted());
                    self.test(stranger, arrived, peer, Workload::TcpStream);
                });
            }
            let mut unknown = VecDeque::from(listener.waiting());
            while !(self.over)()
                && let Some((peer, octets)) = unknown.pop_front()
            {
                // What comes here of somebody who has a socket is the end of another test.
                if self.server.known().contains(&peer) {
                    continue;
                }
                if let Some(beginning) = pending.hear(peer, octets) {
                    self.open_datagrams(listener, beginning, peer, &mut unknown, scope);
                }
            }
        }
        Ok(())
    }

    /// A stream of datagrams has begun: it gets a socket and a thread. What came meanwhile, of it or of others, is taken from
    /// those that wait, and added to them.
    fn open_datagrams<'scope>(
        self,
        listener: &'a Listener,
        mut beginning: StreamStart,
        peer: SocketAddr,
        unknown: &mut VecDeque<Datagram>,
        scope: &'scope thread::Scope<'scope, 'a>,
    ) where
        'a: 'scope,
    {
        // Its place comes before a socket.
        let Some(stranger) = self.server.senders.admit(peer.ip(), None) else { return };
        let Ok((socket, before)) = listener.connected(peer) else { return };
        self.server.known().push(peer);
        beginning.collect(peer, unknown, before);
        let forget = move || self.server.known().retain(|known| *known != peer);
        let work = move || {
            self.test(stranger, Arrived::stream(socket, beginning), peer, Workload::UdpStream);
            forget();
        };
        if !spawn(scope, work) {
            forget();
        }
    }

    fn receiver<'s>(
        self,
        spec: &'s Spec,
        local: IpAddr,
        interface: &Option<String>,
        stopped: &'s dyn Fn() -> bool,
    ) -> Receiver<'s>
    where
        'a: 's,
    {
        Receiver {
            spec,
            end: End::Target,
            local,
            interface: interface.clone(),
            most: Duration::from_secs(self.server.limits.time_s),
            stopped,
        }
    }

    /// A test, if data comes.
    fn test(self, stranger: ConnectionPermit<'_>, arrived: io::Result<Arrived>, peer: SocketAddr, workload: Workload) {
        let Server { limits, .. } = self.server;
        let Ok(arrived) = arrived else { return };
        let Some(local) = arrived.local() else { return };
        stranger.set_busy();
        // A sender does not say what it is about to send: it may be more than is allowed.
        if limits.rate.is_some() {
            return (self.server.refusals)(peer, "sends as fast as it will, which no limit of the rate allows");
        }
        let most = Extent::Time(Duration::from_secs(limits.time_s));
        let mut spec = Spec { extent: most, ..Spec::new(workload) };
        let interface = interfaces::with_address(local);
        let (memory, proven) = (memory_of(&spec), !workload.is_udp());
        let wanted = TestDemand { server: "ttcp", most: limits.tests, memory, proven, control: None };
        let place = limits.memory.take(wanted);
        drop(stranger);
        if let Some(place) = place {
            let stopped = || (self.over)() || place.is_evicted();
            let receiver = self.receiver(&spec, local.ip(), &interface, &stopped);
            let outcome = receiver.receive(arrived, place.progress());
            let bytes = place.bytes();
            // What a sender does not say, its test has shown.
            if let Some(flow) = outcome.as_ref().ok().and_then(|outcome| outcome.flows.first()) {
                spec.extent = Extent::Octets(flow.octets_total.max(1));
                if workload == Workload::UdpStream {
                    let size = flow.octets_total.checked_div(flow.messages_total);
                    spec.message_size = size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
                }
            }
            let ended = outcome.map(|outcome| {
                let far = remote_end(&spec, &outcome);
                Box::new([outcome, far])
            });
            (self.heard)(ServedTest { tool: "ttcp", version: None, peer, local, interface, spec, ended, bytes });
            self.server.ended.fetch_add(1, Ordering::Relaxed);
        } else {
            (self.server.refusals)(peer, "came while as many tests ran as are allowed");
        }
    }
}
