//! A reflector: each test packet of a neighbour goes back, no longer than it came, within the user's permission.
//! Nothing in TWAMP Light proves a sender's address, so without a permission nothing is answered.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use linerate_host::sys::socket_state::report_icmp_errors;
use linerate_host::traffic::reachability::{AmplificationLimit, UnprovenLimit, is_refusal};
use linerate_machine::end::End;
use linerate_machine::sync::Mutex;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{Extent, Spec, Workload};
use socket2::Socket;

use super::packet::{ANSWER_LEN, answer, is_returned, now};
use crate::allow::is_near;
use crate::early_datagrams::{LEAST_DATAGRAMS, StreamMarks};
use crate::listener::is_passing;
use crate::protocol::{FirstDatagram, Serve};
use crate::remote_end::remote_end;
use crate::server::{Connection, DatagramStream, Service};

/// How long a sender may be silent; many send a packet a second.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a silent sender's test is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Bits that may be answered at once beyond the rate.
const BURST: u64 = 1 << 19;
/// The longest datagram.
const MOST_LEN: usize = 65_536;

/// Ports below are those of services, some of which answer whatever comes: echo, chargen (RFC 862, RFC 864).
const LEAST_PORT: u16 = 1024;
/// What came back from another reflector.
const RETURNED: &str = "returned what this reflector answered, as another reflector or an echo does";

/// A reflector, of one sender at a time: each is unproven.
#[derive(Default)]
pub struct Server {
    answering: Mutex<()>,
}

/// A test begins with any packet that can be answered.
struct Marks;

impl StreamMarks for Marks {}

impl Serve for Server {
    fn connection<'a>(&'a self, service: Service<'a>, connection: Connection<'a>) {
        service.refuse(connection.peer, "asked for TWAMP's control connection, which TWAMP Light has none of");
    }

    fn datagrams(&self) -> Option<&dyn StreamMarks> {
        Some(&Marks)
    }

    fn first_datagram(&self, service: Service<'_>, peer: SocketAddr, octets: &[u8]) -> FirstDatagram {
        match service.limits().unproven {
            _ if octets.len() < ANSWER_LEN => FirstDatagram::Nothing,
            None => FirstDatagram::Refused("sent test packets, which --allow-unproven-udp answers: they may be forged"),
            Some(_) if !is_near(peer.ip()) => FirstDatagram::Refused("sent test packets from beyond a router"),
            // One forged datagram would have two reflectors answer each other.
            Some(_) if service.is_port_of_server(peer.port()) => {
                FirstDatagram::Refused("sent test packets from a reflector's port")
            }
            Some(_) if peer.port() < LEAST_PORT => FirstDatagram::Refused("sent test packets from a service's port"),
            Some(_) if is_returned(octets, now(), UnprovenLimit::LONGEST) => FirstDatagram::Refused(RETURNED),
            Some(_) => FirstDatagram::Begins,
        }
    }

    fn stream<'a>(&'a self, service: Service<'a>, stream: DatagramStream<'a>) {
        let DatagramStream { socket, peer, start, permit, known: _known, .. } = stream;
        let local = socket.local_addr().ok().and_then(|local| local.as_socket());
        let (Some(local), Some(limit)) = (local, service.limits().unproven) else { return };
        let Some(_alone) = self.answering.try_lock() else {
            return service.refuse(peer, "sent test packets while another's were answered");
        };
        permit.set_busy();
        let size = start.datagrams.first().map_or(ANSWER_LEN, Vec::len) as u32;
        let asked = Spec { request_size: size, response_size: size, ..Spec::new(Workload::UdpRr) };
        let test = service.begin((peer, local), &asked, None);
        drop(permit);
        let Some(test) = test else { return };
        let refuse = |what: &str| service.refuse(peer, what);
        let flow = reflect(&socket, start.datagrams, limit, refuse, &|| test.is_over());
        let Some(flow) = flow.transpose() else { return };
        let ended = flow.map(|flow| {
            let ours = Outcome::of_flows(End::Target, vec![flow]);
            let theirs = remote_end(&asked, &ours);
            Box::new([ours, theirs])
        });
        let took = ended.as_ref().map_or(0, |ended| ended[0].flows[0].elapsed_ns).max(1_000_000);
        let spec = Spec { extent: Extent::Time(Duration::from_nanos(took)), ..asked };
        test.finish((spec, ended.map_err(Into::into)));
    }
}

/// Answers a sender until it is silent, refuses, or has had what the limit allows.
fn reflect(
    socket: &Socket,
    early: Vec<Vec<u8>>,
    limit: UnprovenLimit,
    refuse: impl Fn(&str),
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<FlowOutcome>> {
    let udp: UdpSocket = socket.try_clone()?.into();
    udp.set_read_timeout(Some(LOOK_AGAIN))?;
    report_icmp_errors(socket, udp.peer_addr()?.is_ipv4())?;
    let (began, mut heard) = (Instant::now(), Instant::now());
    let (mut early, mut octets) = (early.into_iter(), vec![0; MOST_LEN]);
    let (mut answers, mut answered_bits) = (AmplificationLimit::to(0), 0);
    let mut flow = FlowOutcome::new(0, Role::Responder);
    let mut has_returned = false;
    while !is_over() && heard.elapsed() < SILENCE && began.elapsed() < UnprovenLimit::LONGEST {
        let came = match early.next() {
            Some(datagram) => {
                octets[..datagram.len()].copy_from_slice(&datagram);
                Ok(datagram.len())
            }
            None => udp.recv(&mut octets),
        };
        let request = match came {
            Ok(len) => &octets[..len],
            Err(error) if is_passing(&error) => continue,
            Err(error) if is_refusal(&error) => break,
            Err(error) => return Err(error),
        };
        if is_returned(request, now(), UnprovenLimit::LONGEST) {
            if !std::mem::replace(&mut has_returned, true) {
                refuse(RETURNED);
            }
            continue;
        }
        heard = Instant::now();
        let Some(answer) = answer(flow.messages_total as u32, now(), request) else { continue };
        let bits = answer.len() as u64 * 8;
        if answered_bits + bits > limit.allowed_bits(began.elapsed()).saturating_add(BURST) {
            continue;
        }
        answers.received(request.len() as u64);
        match answers.send(socket, &answer) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) if is_refusal(&error) => break,
            Err(_) => {
                flow.send_errors += 1;
                continue;
            }
        }
        answered_bits += bits;
        flow.calls += 2;
        flow.messages_total += 1;
        flow.octets_total += 2 * answer.len() as u64;
        flow.elapsed_ns = began.elapsed().as_nanos() as u64;
    }
    (flow.messages, flow.octets) = (flow.messages_total, flow.octets_total);
    // One forged datagram is no test.
    Ok(Some(flow).filter(|flow| !has_returned || flow.messages_total >= LEAST_DATAGRAMS as u64))
}
