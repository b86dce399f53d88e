//! The ways that data can go between a flow's thread and its socket: which there are here, and which one is taken.
//! Knows no timing; the loops that move the data choose nothing.
//!
//! ```text
//!   spec, socket ─→ choose ─→ Chosen ─┬→ OctetsOut, OctetsIn         (tcp_stream)
//!                                     ├→ DatagramsOut, DatagramsIn   (udp_stream)
//!                                     └→ FramesOut, FramesIn         (frames)
//!                   before any traffic: what the kernel lacks is refused here, in one sentence
//! ```

pub mod datagrams_in;
pub mod datagrams_out;
pub mod frames;
pub mod octets_in;
pub mod octets_out;

use std::io;

use linerate_machine::end::End;
use linerate_machine::units::OfferedLoad;
use linerate_trial::api::{Link, ReceiverApi, SenderApi, Timestamps};
use linerate_trial::spec::{Spec, Workload};

use super::TrafficError;
use super::sockets::Open;
use crate::sys::ethtool::{DriverInfo, Ethtool};
use crate::sys::{datagrams, uring};

/// How one flow's data goes through its socket at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Of the sender of a TCP stream.
    OctetsOut(SenderApi),
    /// Of the receiver of a TCP stream.
    OctetsIn(ReceiverApi),
    /// Of the sender of a UDP stream; whether it was asked for by name.
    DatagramsOut(SenderApi, ApiSelection),
    /// Of the receiver of a UDP stream, and who notes arrivals.
    DatagramsIn(ReceiverApi, Timestamps),
    /// Of the sender of a stream of frames.
    FramesOut(SenderApi),
    /// Of the receiver of a stream of frames, and who notes arrivals.
    FramesIn(ReceiverApi, Timestamps),
    /// Requests and responses go by plain calls.
    Neither,
}

/// Whether an API was asked for by name, so that it must not become another, or is what `auto` became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiSelection {
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
    let sender = || SenderApi::auto(spec, end, link_of(interface));
    let receiver = || ReceiverApi::auto(spec, end, link_of(interface));
    match (flow.workload, flow.source == end) {
        (Workload::TcpStream, true) => octets_out::choose(spec, open, sender()).map(Chosen::OctetsOut),
        (Workload::TcpStream, false) => octets_in::choose(spec, open, receiver()).map(Chosen::OctetsIn),
        (Workload::UdpStream, true) => datagrams_out::choose(spec, open, sender()),
        (Workload::UdpStream, false) => datagrams_in::choose(spec, open, interface, receiver()),
        (Workload::Frames, true) => frames::choose_sender(spec, open, sender()),
        (Workload::Frames, false) => frames::choose_receiver(spec, open, interface, receiver()),
        _ => Ok(Chosen::Neither),
    }
}

/// Drivers of devices on a bus whose other side is another kernel on the same machine.
const OF_VIRTUAL_MACHINES: [&str; 5] = ["virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif"];

/// Whether the interface is at a cable: a device on some bus. What cannot be told is none.
fn link_of(interface: Option<&str>) -> Link {
    let info = interface.and_then(|name| Ethtool::new(name).and_then(|ethtool| ethtool.driver_info()).ok());
    let Some(DriverInfo { driver: Some(driver), bus: Some(bus), .. }) = info else { return Link::Memory };
    // A PCI address, a platform device, a USB port; `tap` and `N/A` are what devices say that are on none.
    let is_device = bus.contains(|c: char| c.is_ascii_digit());
    if is_device && !OF_VIRTUAL_MACHINES.contains(&driver.as_str()) { Link::Cable } else { Link::Memory }
}

/// How long a receive polls, microseconds; what Documentation/admin-guide/sysctl/net.rst recommends.
const BUSY_POLL_US: u32 = 50;

fn busy_poll(open: &Open) -> Result<(), TrafficError> {
    datagrams::set_busy_poll(&open.socket, BUSY_POLL_US)
        .map_err(|error| refuse_receiver(ReceiverApi::BusyPoll, why_not("SO_BUSY_POLL", "3.11", &error)))
}

fn refuse_sender(api: SenderApi, why: String) -> TrafficError {
    TrafficError::Api { option: "sender_api", name: api.name(), why }
}

fn refuse_receiver(api: ReceiverApi, why: String) -> TrafficError {
    TrafficError::Api { option: "receiver_api", name: api.name(), why }
}

/// The end of the sentence about an API that is not to be had: what it needs, since when Linux has it, what to do.
fn why_not(means: &str, since: &str, error: &io::Error) -> String {
    let by_ring = means.starts_with("io_uring");
    match error.raw_os_error() {
        None if by_ring && !uring::KNOWN => {
            "linerate has no io_uring on this architecture; choose plain or auto".to_owned()
        }
        // ENODEV: the mmap of a socket that has none.
        Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENODEV) | None => {
            format!("this kernel has no {means} (Linux {since} has); choose plain or auto")
        }
        Some(libc::EPERM | libc::EACCES) if by_ring => {
            "io_uring is forbidden (kernel.io_uring_disabled, or a container's seccomp filter); allow it, or choose \
             plain or auto"
                .to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => {
            format!("{means} wants CAP_NET_ADMIN; run the agent as root, or choose plain or auto")
        }
        Some(libc::ENOMEM) if by_ring => {
            "io_uring may lock no more memory (RLIMIT_MEMLOCK); raise the limit, or choose plain or auto".to_owned()
        }
        Some(_) => format!("{means}: {error}; choose plain or auto"),
    }
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
        assert_eq!(
            refuse_sender(SenderApi::UdpSegment, why_not("UDP_SEGMENT", "4.18", &error)).to_string(),
            "sender_api udp-segment is not to be had here: this kernel has no UDP_SEGMENT (Linux 4.18 has); choose plain \
             or auto"
        );
        let refused = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            refuse_receiver(ReceiverApi::IoUring, why_not("io_uring", "6.0", &error)).to_string()
        };
        assert_eq!(
            refused(libc::ENOSYS),
            "receiver_api io-uring is not to be had here: this kernel has no io_uring (Linux 6.0 has); choose plain or \
             auto"
        );
        assert!(refused(libc::EPERM).contains("io_uring is forbidden (kernel.io_uring_disabled"));
        assert!(refused(libc::ENOMEM).contains("RLIMIT_MEMLOCK"));
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let busy = refuse_receiver(ReceiverApi::BusyPoll, why_not("SO_BUSY_POLL", "3.11", &error)).to_string();
        assert!(busy.contains("wants CAP_NET_ADMIN; run the agent as root"), "{busy}");
    }
}
