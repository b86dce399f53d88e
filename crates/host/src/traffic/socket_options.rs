//! The options of a trial that are a socket's own: a row each, in the order in which they are set.

use std::io;

use linerate_trial::spec::{Spec, Workload};
use socket2::{Domain, Socket};

/// An option's name, and how a socket of this workload gets it. Does nothing where the trial asks for none.
type Row = (&'static str, fn(&Socket, &Spec, Workload) -> io::Result<()>);

/// Buffers and the segment size come before connect and listen: the window scale and the MSS option of the SYN are made
/// from them (tcp(7)).
const ROWS: &[Row] = &[
    ("socket_buffer", |socket, spec, _| {
        let Some(bytes) = spec.socket_buffer else { return Ok(()) };
        socket.set_send_buffer_size(bytes as usize)?;
        socket.set_recv_buffer_size(bytes as usize)
    }),
    ("mss", |socket, spec, workload| match spec.mss {
        Some(mss) if !workload.is_udp() => socket.set_tcp_mss(mss.into()),
        _ => Ok(()),
    }),
    ("congestion_control", |socket, spec, workload| match &spec.congestion_control {
        Some(name) if !workload.is_udp() => socket.set_tcp_congestion(name.as_bytes()),
        _ => Ok(()),
    }),
    ("ttl", |socket, spec, _| {
        let Some(hops) = spec.ttl else { return Ok(()) };
        by_protocol(socket, |s| s.set_ttl_v4(hops.into()), |s| s.set_unicast_hops_v6(hops.into()))
    }),
    ("dscp", |socket, spec, _| set_dscp(socket, spec.dscp)),
    // After the code point, from which the kernel makes a priority too (socket(7)).
    ("priority", |socket, spec, _| match spec.priority {
        Some(priority) => socket.set_priority(priority.into()),
        None => Ok(()),
    }),
];

/// Sets each option that the trial asks for; the name of each that the kernel refuses, and why.
pub fn set(socket: &Socket, spec: &Spec, workload: Workload) -> impl Iterator<Item = (&'static str, io::Error)> {
    ROWS.iter().filter_map(move |(name, set)| Some((*name, set(socket, spec, workload).err()?)))
}

/// Sets the differentiated services code point of what the socket sends, but for the usual one, 0.
pub(crate) fn set_dscp(socket: &Socket, dscp: u8) -> io::Result<()> {
    set_traffic_class(socket, dscp << 2)
}

/// Sets the whole octet that begins with it (RFC 2474, section 3; RFC 3168, section 5), but for the usual one, 0.
pub(crate) fn set_traffic_class(socket: &Socket, octet: u8) -> io::Result<()> {
    match u32::from(octet) {
        0 => Ok(()),
        octet => by_protocol(socket, |s| s.set_tos_v4(octet), |s| s.set_tclass_v6(octet)),
    }
}

/// What IPv4 and IPv6 have an option each for. A socket of IPv6 may carry IPv4 as well.
fn by_protocol(
    socket: &Socket,
    v4: impl Fn(&Socket) -> io::Result<()>,
    v6: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<()> {
    if socket.domain()? == Domain::IPV4 {
        return v4(socket);
    }
    drop(v4(socket));
    v6(socket)
}

#[cfg(test)]
mod tests {
    use socket2::{Protocol, Type};

    use super::*;

    /// A socket of each workload and protocol with these options.
    fn each(change: impl Fn(&mut Spec), check: impl Fn(&Socket, Domain)) {
        for workload in Workload::ALL {
            let mut spec = Spec::new(workload);
            change(&mut spec);
            let udp = (Type::DGRAM, Protocol::UDP);
            let (kind, protocol) = if workload.is_udp() { udp } else { (Type::STREAM, Protocol::TCP) };
            for domain in [Domain::IPV4, Domain::IPV6] {
                let socket = Socket::new(domain, kind, Some(protocol)).unwrap();
                let refused: Vec<_> = set(&socket, &spec, workload).collect();
                assert!(refused.is_empty(), "{workload}: {refused:?}");
                check(&socket, domain);
            }
        }
    }

    #[test]
    fn every_socket_has_the_hops_and_the_code_point_that_were_asked_for() {
        let asked = |spec: &mut Spec| (spec.ttl, spec.dscp) = (Some(7), 46);
        each(asked, |socket, domain| {
            let v6 = || (socket.unicast_hops_v6().unwrap(), socket.tclass_v6().unwrap());
            let v4 = (socket.ttl_v4().unwrap(), socket.tos_v4().unwrap());
            assert_eq!(if domain == Domain::IPV4 { v4 } else { v6() }, (7, 46 << 2));
        });
    }

    #[test]
    fn a_priority_goes_before_that_of_the_code_point() {
        let asked = |priority| move |spec: &mut Spec| (spec.priority, spec.dscp) = (priority, 46);
        let of_the_code_point = std::cell::Cell::new(0);
        each(asked(None), |socket, domain| {
            if domain == Domain::IPV4 {
                of_the_code_point.set(socket.priority().unwrap());
            }
        });
        assert_ne!(of_the_code_point.get(), 5);
        each(asked(Some(5)), |socket, _| assert_eq!(socket.priority().unwrap(), 5));
    }

    #[test]
    fn what_the_kernel_refuses_has_its_name() {
        let spec = Spec { congestion_control: Some("nonsense".to_owned()), ..Spec::new(Workload::TcpStream) };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        let refused: Vec<_> = set(&socket, &spec, Workload::TcpStream).map(|(name, _)| name).collect();
        assert_eq!(refused, ["congestion_control"]);
        assert_eq!(set(&socket, &spec, Workload::UdpRr).count(), 0, "not UDP's");
    }
}
