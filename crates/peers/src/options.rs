//! What a client asked of the sockets of its test.
//! Knows no protocol.

use std::io;

use linerate_trial::spec::Spec;
use socket2::Socket;

/// What the client asked of its sockets. What the kernel refuses stays as it was: no tool's client is told, and the
/// record says what it became.
pub fn prepare(socket: &Socket, spec: &Spec) -> io::Result<()> {
    if let Some(octets) = spec.socket_buffer {
        let _ = socket.set_send_buffer_size(octets as usize);
        let _ = socket.set_recv_buffer_size(octets as usize);
    }
    if !spec.workload.is_udp() {
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
