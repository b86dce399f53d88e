//! What comes of the other end's probes: a socket of each transport that answers them, and the packets at the interfaces.
//! It answers nothing but the test's secret, with no more than came, and ends by itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_machine::probe::{Refusal, SeenPackets, WitnessReport};
use linerate_machine::sync::Mutex;
use linerate_machine::thread;
use socket2::{Domain, Socket, Type};

use super::{FILLING, LEN, MOST_CONNECTIONS, Secret, headers, message, packet, read, refusal};
use crate::sys;
use crate::{interfaces, sys::packet::PacketType};

/// It looks so often whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A connection that comes has so long to say the secret, and as long again to fill a few segments: a slow link or a long way takes
/// seconds for them.
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// How soon one that is not at the peer's address must have said the secret.
const STRANGER_TIME: Duration = Duration::from_millis(300);
/// No witness lives longer.
const LONGEST: Duration = Duration::from_secs(20);
/// Kinds of packets that are told apart at most.
const MOST_KINDS: usize = 200;

/// Sockets, and threads that watch them. Dropping it ends them.
pub struct ProbeObserver {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The ports of UDP and TCP.
    pub ports: (u16, u16),
}

struct Shared {
    local: IpAddr,
    peer: IpAddr,
    /// An address that is not the peer's and said the secret first.
    translated: OnceLock<IpAddr>,
    secret: Secret,
    until: Instant,
    stopped: AtomicBool,
    seen: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    datagrams: BTreeMap<u32, u32>,
    connections: u32,
    /// `None`: there is no packet socket.
    packets: Option<BTreeMap<SeenPackets, u32>>,
    answer_refusal: Option<Refusal>,
    hops: Option<u8>,
}

impl ProbeObserver {
    /// Listens at this address of the machine for probes of the peer, for so long at most.
    pub fn open(
        local: IpAddr,
        peer: IpAddr,
        interface: Option<&str>,
        secret: Secret,
        time: Duration,
    ) -> io::Result<ProbeObserver> {
        let at = interfaces::at(local, 0, interface);
        let udp = UdpSocket::bind(at)?;
        let _ = sys::message::tell_hops(&udp, local.is_ipv4());
        let tcp = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
        tcp.bind(&at.into())?;
        tcp.listen(MOST_CONNECTIONS.into())?;
        let tcp: TcpListener = tcp.into();
        tcp.set_nonblocking(true)?;
        let ports = (udp.local_addr()?.port(), tcp.local_addr()?.port());
        let packets = sys::packet::watch(&packet::filter(peer)).ok();
        let seen = Heard { packets: packets.as_ref().map(|_| BTreeMap::new()), ..Heard::default() };
        let shared = Arc::new(Shared {
            local,
            peer,
            translated: OnceLock::new(),
            secret,
            until: Instant::now() + time.min(LONGEST),
            stopped: AtomicBool::new(false),
            seen: Mutex::new(seen),
        });
        let mut witness = ProbeObserver { shared, threads: Vec::new(), ports };
        witness.spawn(move |shared| shared.hear_datagrams(&udp))?;
        witness.spawn(move |shared| shared.hear_connections(&tcp))?;
        if let Some(packets) = packets {
            witness.spawn(move |shared| shared.watch(&packets))?;
        }
        Ok(witness)
    }

    fn spawn(&mut self, run: impl FnOnce(&Shared) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        self.threads.push(thread::start("witness", 256 << 10, move || run(&shared))?);
        Ok(())
    }

    /// What was heard until now.
    pub fn report(&self) -> WitnessReport {
        let heard = self.shared.seen.lock();
        let packets = heard.packets.as_ref();
        WitnessReport {
            datagrams: heard.datagrams.iter().map(|(octets, count)| (*octets, *count)).collect(),
            connections: heard.connections,
            half_open: has_half_open(self.shared.local, self.ports.1),
            answer_refusal: heard.answer_refusal.clone(),
            hops: heard.hops,
            packets: packets
                .map(|all| all.iter().map(|(seen, count)| SeenPackets { count: *count, ..seen.clone() }).collect()),
        }
    }
}

/// Whether a connection to this port waits for the end of its handshake: state 03 of proc_net_tcp.rst, SYN_RECV.
fn has_half_open(local: IpAddr, port: u16) -> bool {
    let table = if local.is_ipv4() { "tcp" } else { "tcp6" };
    let table = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(&port)) && columns.nth(1) == Some("03")
    })
}

impl Drop for ProbeObserver {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn ended(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || Instant::now() >= self.until
    }

    fn heard(&self, note: impl FnOnce(&mut Heard)) {
        note(&mut self.seen.lock());
    }

    fn is_peer(&self, at: SocketAddr) -> bool {
        at.ip().to_canonical() == self.peer
    }

    /// Whether one that has the secret is the peer, or what a NAT makes of it: one other address, for the secret may have been overheard.
    fn may_be_peer(&self, at: SocketAddr) -> bool {
        let address = at.ip().to_canonical();
        address == self.peer || *self.translated.get_or_init(|| address) == address
    }

    fn hear_datagrams(&self, socket: &UdpSocket) {
        let mut octets = vec![0; 1 << 16];
        while !self.ended() {
            if sys::poll::wait_readable(socket, LOOK_AGAIN).is_err() {
                return;
            }
            while let Ok(came) = sys::message::receive(socket, &mut octets, false) {
                let Some((number, false)) = read(&octets[..came.len.min(octets.len())], &self.secret) else { continue };
                let Some(from) = came.from.filter(|from| self.may_be_peer(*from)) else { continue };
                let of_packet = came.len as u32 + headers(self.local.is_ipv4());
                self.heard(|heard| {
                    *heard.datagrams.entry(of_packet).or_default() += 1;
                    heard.hops = came.hops.or(heard.hops);
                });
                if let Err(error) = socket.send_to(&message(&self.secret, number, true), from) {
                    self.heard(|heard| heard.answer_refusal = heard.answer_refusal.take().or(Some(refusal(&error))));
                }
            }
        }
    }

    fn hear_connections(&self, listener: &TcpListener) {
        while !self.ended() {
            if sys::poll::wait_readable(listener, LOOK_AGAIN).is_err() {
                return;
            }
            while let Ok((stream, from)) = listener.accept() {
                if self.ended() {
                    continue;
                }
                // A NAT has another address, and says the secret at once; a stranger holds nobody up.
                let time = if self.is_peer(from) { CONNECTION_TIME } else { STRANGER_TIME };
                if self.is_peer(from) {
                    self.heard(|heard| heard.connections += 1);
                }
                let _ = self.serve(&stream, from, time);
            }
        }
    }

    /// The secret is answered, then whatever fills a few segments is acknowledged by one octet.
    fn serve(&self, mut stream: &TcpStream, from: SocketAddr, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(LOOK_AGAIN))?;
        let mut hello = [0; LEN];
        self.read_exact(stream, &mut hello, until)?;
        let Some((number, false)) = read(&hello, &self.secret) else { return Err(ErrorKind::InvalidData.into()) };
        if !self.may_be_peer(from) {
            return Err(ErrorKind::AddrNotAvailable.into());
        }
        let until = Instant::now() + CONNECTION_TIME;
        stream.write_all(&message(&self.secret, number, true))?;
        self.read_exact(stream, &mut vec![0; FILLING], until)?;
        stream.write_all(&[1])
    }

    fn read_exact(&self, mut stream: &TcpStream, octets: &mut [u8], until: Instant) -> io::Result<()> {
        let mut filled = 0;
        stream.set_read_timeout(Some(LOOK_AGAIN))?;
        while filled < octets.len() {
            if self.ended() || Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            match stream.read(&mut octets[filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn watch(&self, socket: &Socket) {
        let mut octets = [0; packet::LOOKED_AT];
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        while !self.ended() {
            if sys::poll::wait_readable(socket, LOOK_AGAIN).is_err() {
                return;
            }
            while let Ok(passed) = sys::packet::receive(socket, &mut octets) {
                let Some(between) = packet::parse(&octets[..passed.len.min(octets.len())], &self.secret) else {
                    continue;
                };
                let left = passed.way == PacketType::Left;
                let back = !left && (between.from, between.to) == (self.local, self.peer);
                let (from, to) = if left || back { (self.local, self.peer) } else { (self.peer, self.local) };
                let is_ours = match between.about {
                    // An error about what went one way comes the other way, from anybody on the way.
                    Some(about) if left || back => about == (to, from),
                    Some(about) => between.to == self.local && about == (to, from),
                    None => (between.from, between.to) == (from, to),
                };
                if !is_ours {
                    continue;
                }
                let name = names.entry(passed.interface).or_insert_with(|| {
                    let links = interfaces::links().unwrap_or_default();
                    links
                        .into_iter()
                        .find(|link| link.index == passed.interface)
                        .map(|link| link.name)
                        .unwrap_or_default()
                });
                let seen = SeenPackets {
                    interface: name.clone(),
                    left,
                    what: between.packet,
                    hops: between.hops,
                    for_another: passed.way == PacketType::CameForAnother,
                    back,
                    count: 0,
                };
                self.heard(|heard| {
                    let Some(packets) = &mut heard.packets else { return };
                    if packets.len() < MOST_KINDS || packets.contains_key(&seen) {
                        *packets.entry(seen).or_default() += 1;
                    }
                });
            }
        }
    }
}
