//! What a client asked of the sockets of its test, and such sockets.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::local_towards;
use linerate_host::traffic::socket_options;
use linerate_machine::units::OfferedLoad;
use linerate_trial::spec::{Spec, Workload};
use socket2::{Domain, Protocol, Socket, Type};

/// How long a connection takes at most: less than the controller waits for the trial's end.
pub const CONNECT_TIME: Duration = Duration::from_secs(6);

/// What the client asked of its sockets. What the kernel refuses stays as it was: no tool's client is told, and the
/// record says what it became.
pub fn apply(socket: &Socket, spec: &Spec) -> io::Result<()> {
    socket_options::set(socket, spec, spec.workload).for_each(drop);
    if !spec.workload.is_udp() {
        socket.set_tcp_nodelay(spec.nodelay())?;
    }
    Ok(())
}

/// The size of a stream's messages, if its client chose one. What every client of the tool says, `usual`, leaves an
/// unlimited TCP stream to its sender: nothing shows on the wire, and whole trains of segments leave sooner.
pub fn chosen_size(spec: &Spec, size: u32, usual: u32) -> Option<u32> {
    let is_free = spec.workload == Workload::TcpStream && spec.rate == OfferedLoad::Unlimited;
    Some(size).filter(|&size| !(is_free && size == usual))
}

/// A connected socket of the trial's workload, with its options.
pub fn open(spec: &Spec, local: IpAddr, peer: SocketAddr) -> io::Result<Socket> {
    let (kind, protocol) =
        if spec.workload.is_udp() { (Type::DGRAM, Protocol::UDP) } else { (Type::STREAM, Protocol::TCP) };
    let socket = Socket::new(Domain::for_address(peer), kind, Some(protocol))?;
    apply(&socket, spec)?;
    socket.bind(&local_towards(local, 0, peer).into())?;
    socket.connect_timeout(&peer.into(), CONNECT_TIME)?;
    Ok(socket)
}

/// How often an end is asked again that does not listen yet.
const LISTENING_PERIOD: Duration = Duration::from_millis(10);

/// The same, to an end that may begin to listen within this time; and how long the connection took to open.
pub fn open_listening(
    spec: &Spec,
    local: IpAddr,
    peer: SocketAddr,
    time: Duration,
    stopped: &dyn Fn() -> bool,
) -> io::Result<(Socket, Duration)> {
    let until = Instant::now() + time;
    loop {
        let began = Instant::now();
        match open(spec, local, peer) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < until && !stopped() => {
                thread::sleep(LISTENING_PERIOD);
            }
            opened => return Ok((opened?, began.elapsed())),
        }
    }
}
