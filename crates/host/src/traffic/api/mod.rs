//! The ways that data can go between a flow's thread and its socket: which there are here, and which one is taken.
//! Knows no timing; the loops that move the data choose nothing.
//!
//! ```text
//!   spec, socket ─→ choose ─→ Chosen ─→ OctetsOut, OctetsIn   (tcp_stream)
//!                   before any traffic: what the kernel lacks is refused here, in one sentence
//! ```

pub mod octets_in;
pub mod octets_out;

use linerate_trial::api::{ReceiverApi, SenderApi};
use linerate_trial::flow::End;
use linerate_trial::spec::{Spec, Workload};

use super::TrafficError;
use super::sockets::Open;

/// How one flow's data goes through its socket at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Of the sender of a stream.
    Sender(SenderApi),
    /// Of the receiver of a stream.
    Receiver(ReceiverApi),
    /// Requests and responses go by plain calls.
    Neither,
}

/// Chooses for one flow, and prepares its socket.
pub fn choose(spec: &Spec, end: End, open: &Open) -> Result<Chosen, TrafficError> {
    let flow = open.flow;
    match (flow.workload, flow.source == end) {
        (Workload::TcpStream, true) => Ok(Chosen::Sender(octets_out::choose(spec, open)?)),
        (Workload::TcpStream, false) => Ok(Chosen::Receiver(octets_in::choose(spec, open)?)),
        _ => Ok(Chosen::Neither),
    }
}

fn refuse_sender(api: SenderApi, why: String) -> TrafficError {
    TrafficError::Api { option: "sender_api", name: api.name(), why }
}

fn refuse_receiver(api: ReceiverApi, why: String) -> TrafficError {
    TrafficError::Api { option: "receiver_api", name: api.name(), why }
}

/// The end of the sentence about an API that is not to be had: what it needs, since when Linux has it, what to do.
fn why_not(means: &str, since: &str, error: &std::io::Error) -> String {
    let forbidden = means.starts_with("io_uring").then_some("kernel.io_uring_disabled forbids it, or a container does");
    match (error.raw_os_error(), forbidden) {
        (Some(libc::EPERM | libc::EACCES), Some(forbidden)) => {
            format!("{means}: {forbidden}; allow it, or choose plain or auto")
        }
        (Some(libc::EPERM | libc::EACCES), None) => {
            format!("{means} wants CAP_NET_ADMIN; run the agent as root, or choose plain or auto")
        }
        (Some(libc::ENOMEM), Some(_)) => {
            format!("{means} may lock no more memory (RLIMIT_MEMLOCK); raise the limit, or choose plain or auto")
        }
        (Some(libc::ENFILE | libc::EMFILE), _) => {
            format!("{means}: {error}; raise the limit of open files, or choose plain or auto")
        }
        // ENODEV: the mmap of a socket that has none.
        (Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENODEV) | None, _) => {
            format!("this kernel has no {means} (Linux {since} has, on most architectures); choose plain or auto")
        }
        _ => format!("{means}: {error}; choose plain or auto"),
    }
}
