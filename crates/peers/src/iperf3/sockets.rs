//! What client and server do alike to the sockets of a test's streams, and to what came of them.
//! Knows no connections.

use std::io;
use std::sync::Arc;

use linerate_host::traffic::{Foreign, Framing};
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Spec, Workload};
use socket2::Socket;

use super::datagram::{self, Counters};
use super::parameters::Parameters;

/// What the client asked of its sockets. What the kernel refuses stays as it was: a client of iperf3 is not told, and the
/// record says what it became.
pub fn prepare(socket: &Socket, spec: &Spec) -> io::Result<()> {
    if let Some(octets) = spec.socket_buffer {
        let _ = socket.set_send_buffer_size(octets as usize);
        let _ = socket.set_recv_buffer_size(octets as usize);
    }
    if spec.workload == Workload::TcpStream {
        socket.set_tcp_nodelay(spec.nodelay())?;
        if let Some(mss) = spec.mss {
            let _ = socket.set_tcp_mss(mss.into());
        }
        if let Some(name) = &spec.congestion_control {
            let _ = socket.set_tcp_congestion(name.as_bytes());
        }
    }
    if spec.dscp != 0 {
        let octet = u32::from(spec.dscp) << 2;
        let _ = socket.set_tos_v4(octet).or_else(|_| socket.set_tclass_v6(octet));
    }
    Ok(())
}

/// What the datagrams look like with these parameters.
pub fn framing(parameters: &Parameters) -> Framing {
    let foreign = if parameters.udp_counters_64bit {
        Foreign {
            head: Vec::new(),
            emit: |probe, octets| datagram::emit(Counters::Long, probe, octets),
            parse: |octets| datagram::parse(Counters::Long, octets),
        }
    } else {
        Foreign {
            head: Vec::new(),
            emit: |probe, octets| datagram::emit(Counters::Short, probe, octets),
            parse: |octets| datagram::parse(Counters::Short, octets),
        }
    };
    Framing::Foreign(Arc::new(foreign))
}

/// What each end alone cannot know: how many datagrams the sender sent.
pub fn settle(ours: &mut Outcome, theirs: &Outcome) {
    for flow in &mut ours.flows {
        let sent = theirs.flows.iter().find(|one| one.id == flow.id).map(|one| one.messages_total);
        if let Some(arrivals) = &mut flow.arrivals {
            arrivals.sent_by_end_mark = sent;
        }
    }
}
