//! What a ttcp server hears, as `ttcp -r` does, but of any number of `ttcp -t` at once: data, and its end.

use std::io;
use std::net::SocketAddr;

use linerate_machine::end::End;
use linerate_trial::spec::{Extent, Spec, Workload};

use super::datagram::Streams;
use super::receive::{Arrived, receive};
use crate::connection_limit::ConnectionPermit;
use crate::early_datagrams::StreamMarks;
use crate::protocol::Serve;
use crate::remote_end::remote_end;
use crate::server::{Connection, DatagramStream, Service};

/// A ttcp: its clients have nothing in common.
pub struct Server;

impl Serve for Server {
    fn connection<'a>(&'a self, service: Service<'a>, connection: Connection<'a>) {
        let Connection { stream, peer, permit, .. } = connection;
        let arrived = Arrived::connection(stream, &|| service.is_over() || permit.is_evicted());
        serve(service, permit, arrived, peer, Workload::TcpStream);
    }

    fn datagrams(&self) -> Option<&dyn StreamMarks> {
        Some(&Streams)
    }

    fn stream<'a>(&'a self, service: Service<'a>, stream: DatagramStream<'a>) {
        let DatagramStream { socket, peer, start, permit, known: _known, .. } = stream;
        serve(service, permit, Arrived::stream(socket, start), peer, Workload::UdpStream);
    }
}

/// A test, if data came.
fn serve(
    service: Service<'_>,
    permit: ConnectionPermit<'_>,
    arrived: io::Result<Arrived>,
    peer: SocketAddr,
    workload: Workload,
) {
    let Ok(arrived) = arrived else { return };
    let Some(local) = arrived.local() else { return };
    permit.set_busy();
    // A sender does not say what it is about to send: it may be more than is allowed.
    if service.limits().rate.is_some() {
        return service.refuse(peer, "sends as fast as it will, which no limit of the rate allows");
    }
    let most = service.limits().time();
    let mut spec = Spec { extent: Extent::Time(most), ..Spec::new(workload) };
    let test = service.begin((peer, local), &spec, None);
    drop(permit);
    let Some(mut test) = test else { return };
    let (since, before) = arrived.began();
    test.set_began(since, before);
    let adopt = |spec, framing, flows| test.adopt(spec, framing, flows);
    let ended = receive(arrived, &spec, End::Target, adopt, most, &|| test.is_over());
    // What a sender does not say, its test has shown.
    if let Some(flow) = ended.as_ref().ok().and_then(|outcome| outcome.flows.first()) {
        spec.extent = Extent::Octets(flow.octets_total.max(1));
        if workload == Workload::UdpStream {
            let size = flow.octets_total.checked_div(flow.messages_total);
            spec.message_size = size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        }
    }
    let ended = ended.map(|outcome| {
        let remote = remote_end(&spec, &outcome);
        Box::new([outcome, remote])
    });
    test.finish((spec, ended));
}
