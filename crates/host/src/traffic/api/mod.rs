//! The ways that data can go between a flow's thread and its socket: which there are here, and which one is taken.
//! Knows no timing; the loops that move the data choose nothing.
//!
//! ```text
//!   spec, socket ─→ choose ─→ Chosen ─→ DatagramsOut, DatagramsIn   (udp_stream)
//!                   before any traffic: what the kernel lacks is refused here, in one sentence
//! ```

pub mod datagrams_in;
pub mod datagrams_out;

use std::io;

use linerate_trial::api::{ReceiverApi, SenderApi, Timestamps};
use linerate_trial::flow::End;
use linerate_trial::spec::{Spec, Workload};
use linerate_trial::units::OfferedLoad;

use super::TrafficError;
use super::sockets::Open;
use crate::sys::datagrams;

/// How one flow's data goes through its socket at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Of the sender of a stream; whether it was asked for by name.
    Sender(SenderApi, Asked),
    /// Of the receiver of a stream, and who notes arrivals.
    Receiver(ReceiverApi, Timestamps),
    /// Requests and responses go by plain calls.
    Neither,
}

/// Whether an API was asked for by name, so that it must not become another, or is what `auto` became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    ByName,
    Auto,
}

/// Chooses for one flow, and prepares its socket.
pub fn choose(spec: &Spec, end: End, open: &Open, interface: Option<&str>) -> Result<Chosen, TrafficError> {
    let flow = open.flow;
    if flow.probe {
        return Ok(Chosen::Neither);
    }
    if spec.receiver_api == Some(ReceiverApi::BusyPoll) {
        busy_poll(open)?;
    }
    match (flow.workload, flow.source == end) {
        (Workload::UdpStream, true) => datagrams_out::choose(spec, open),
        (Workload::UdpStream, false) => datagrams_in::choose(spec, open, interface),
        (Workload::TcpStream, true) => Ok(Chosen::Sender(SenderApi::Plain, Asked::Auto)),
        (Workload::TcpStream, false) => Ok(Chosen::Receiver(ReceiverApi::Plain, Timestamps::Application)),
        _ => Ok(Chosen::Neither),
    }
}

/// How long a receive polls, microseconds; what Documentation/admin-guide/sysctl/net.rst recommends.
const BUSY_POLL_US: u32 = 50;

fn busy_poll(open: &Open) -> Result<(), TrafficError> {
    datagrams::set_busy_poll(&open.socket, BUSY_POLL_US).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::EPERM) => {
                "SO_BUSY_POLL wants CAP_NET_ADMIN; run the agent as root, or set net.core.busy_read to 50".to_owned()
            }
            _ => lacks("SO_BUSY_POLL", "3.11", "another", &error),
        };
        TrafficError::Api { option: "receiver_api", name: ReceiverApi::BusyPoll.name(), why }
    })
}

/// The sentence of a kernel without the means, or of whatever else it said.
fn lacks(means: &str, since: &str, instead: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => {
            format!("this kernel has no {means} (Linux {since} has); choose {instead} or auto")
        }
        _ => format!("{means}: {error}; choose {instead} or auto"),
    }
}

fn refuse_sender(api: SenderApi, why: String) -> TrafficError {
    TrafficError::Api { option: "sender_api", name: api.name(), why }
}

fn refuse_receiver(api: ReceiverApi, why: String) -> TrafficError {
    TrafficError::Api { option: "receiver_api", name: api.name(), why }
}

/// Whether the wire is to see each message when the pacer says so, rather than as fast as they go.
fn is_paced(spec: &Spec) -> bool {
    spec.rate != OfferedLoad::Unlimited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_sentence_that_says_what_to_do() {
        let error = io::Error::from_raw_os_error(libc::ENOPROTOOPT);
        let why = lacks("UDP_SEGMENT", "4.18", "sendmmsg", &error);
        assert_eq!(
            refuse_sender(SenderApi::UdpSegment, why).to_string(),
            "sender_api udp-segment is not to be had here: this kernel has no UDP_SEGMENT (Linux 4.18 has); choose \
             sendmmsg or auto"
        );
        let error = io::Error::from_raw_os_error(libc::EACCES);
        let why = lacks("UDP_GRO", "5.0", "recvmmsg", &error);
        assert!(refuse_receiver(ReceiverApi::UdpGro, why).to_string().contains("Permission denied"));
    }
}
