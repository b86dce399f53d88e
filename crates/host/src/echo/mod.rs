//! Sends test frames back to their sender: Ethernet, IP and UDP addresses change places, and a bit says that an echo
//! did it. Knows no trials, and prints nothing.
//!
//! ```text
//!   arrives:  to ours   from theirs   ·  secret  stream           ──► in the driver or the stack (XDP), or
//!   leaves:   to theirs from ours     ·  secret  stream | ECHOED  ◄── by a packet socket, in a thread of its own
//! ```
//! Only frames with this trial's secret are answered, so that nobody has strangers flooded; none that an echo sent, so that
//! two echoes do not answer each other for ever; and none that is for many, or is said to be from many.

pub mod ask;
mod in_kernel;
mod in_process;
mod reflect;

use std::fmt;
use std::io;

use crate::interfaces;
use crate::sys::ethtool::{Ethtool, StatisticsOf};
use crate::xdp::attach::AttachPoint;
use crate::xdp::error::XdpError;
use in_kernel::InKernel;
use in_process::InProcess;

/// How frames are sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoWay {
    /// By an XDP program.
    Xdp(AttachPoint),
    /// By a thread with a packet socket. Slower, and for frames of any length.
    Socket,
}

impl fmt::Display for EchoWay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EchoWay::Xdp(AttachPoint::Driver) => out.write_str("in the driver (XDP)"),
            EchoWay::Xdp(AttachPoint::Stack) => out.write_str("in the stack (XDP)"),
            EchoWay::Socket => out.write_str("by a packet socket"),
        }
    }
}

/// Why nothing is sent back.
#[derive(Debug, thiserror::Error)]
pub enum EchoError {
    /// There is no such interface.
    #[error("this machine has no interface {0}; 'ip link' shows those it has")]
    NoInterface(String),
    /// It has no Ethernet address of its own.
    #[error("frames need an Ethernet, and {0} is none; choose another interface ('ip link' shows them)")]
    NoEthernet(String),
    /// It is down, and neither hears nor sends.
    #[error("{0} is down; 'ip link set {0} up' brings it up")]
    Down(String),
    /// No packet socket without CAP_NET_RAW, and no BPF without more.
    #[error("frames are received and sent with CAP_NET_RAW only; run as root")]
    NotPermitted,
    /// XDP was asked for.
    #[error("{0}; without --way it is done by a packet socket")]
    Xdp(#[source] XdpError),
    /// Anything else.
    #[error("{doing} failed: {error}")]
    System {
        /// The step, as a clause.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        error: io::Error,
    },
}

/// What came and what became of it, since the echo began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoCounts {
    /// Frames with this trial's secret.
    pub received: u64,
    /// Their octets, without FCS.
    pub octets: u64,
    /// Those that were given back to the driver; what it could not send is in [`PortCounts`], on drivers that count it.
    pub echoed: u64,
    /// Those that the kernel refused to send.
    pub unsent: u64,
    /// Those that are for many, or said to be from many, and were not answered.
    pub multicast: u64,
    /// Those that an echo had sent already, and were not answered.
    pub returned: u64,
    /// Other frames, which were left to the stack.
    pub strangers: u64,
    /// Frames that the echo's socket had no room for, of whatever kind; 0 of XDP, which has none.
    pub overrun: u64,
}

impl EchoCounts {
    /// What came since.
    pub fn since(&self, before: &EchoCounts) -> EchoCounts {
        self.with(before, u64::saturating_sub)
    }

    fn add(&mut self, more: &EchoCounts) {
        *self = self.with(more, u64::wrapping_add);
    }

    fn with(&self, other: &EchoCounts, f: impl Fn(u64, u64) -> u64) -> EchoCounts {
        EchoCounts {
            received: f(self.received, other.received),
            octets: f(self.octets, other.octets),
            echoed: f(self.echoed, other.echoed),
            unsent: f(self.unsent, other.unsent),
            multicast: f(self.multicast, other.multicast),
            returned: f(self.returned, other.returned),
            strangers: f(self.strangers, other.strangers),
            overrun: f(self.overrun, other.overrun),
        }
    }
}

/// The interface's own count of frames, of all kinds, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Not received for want of room in the hardware.
    pub rx_missed: u64,
    /// Received whole and dropped in software: for want of memory, and because nobody wanted them.
    pub rx_dropped: u64,
    /// Not sent for want of room.
    pub tx_dropped: u64,
    /// Received damaged.
    pub rx_errors: u64,
    /// Not sent, or not whole.
    pub tx_errors: u64,
    /// Answered by XDP programs and not sent: there was no room, or the other end of a veth takes none. Drivers count it in
    /// statistics of their own; `None`: this one does not.
    pub xdp_tx_failed: Option<u64>,
}

impl PortCounts {
    /// What came since; a counter that fell was set back, and grew by nothing that is known.
    pub fn since(&self, before: &PortCounts) -> PortCounts {
        PortCounts {
            rx_missed: self.rx_missed.saturating_sub(before.rx_missed),
            rx_dropped: self.rx_dropped.saturating_sub(before.rx_dropped),
            tx_dropped: self.tx_dropped.saturating_sub(before.tx_dropped),
            rx_errors: self.rx_errors.saturating_sub(before.rx_errors),
            tx_errors: self.tx_errors.saturating_sub(before.tx_errors),
            xdp_tx_failed: self.xdp_tx_failed.zip(before.xdp_tx_failed).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// Answers at one interface until it is dropped, whatever this process does meanwhile.
#[derive(Debug)]
pub struct Echo {
    interface: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    InKernel(InKernel),
    InProcess(InProcess),
}

impl Echo {
    /// Begins to answer frames with this secret at an interface of the thread's network namespace: the way that is
    /// `wanted`, or else by XDP in the driver, in the stack, or by a packet socket, whichever is first to be had. An
    /// interface whose frames are larger than XDP takes has the last.
    pub fn start(interface: &str, secret: u32, wanted: Option<EchoWay>) -> Result<Echo, EchoError> {
        let link = interfaces::link(interface).map_err(|_| EchoError::NoInterface(interface.to_owned()))?;
        if link.flags & libc::IFF_UP as u32 == 0 {
            return Err(EchoError::Down(interface.to_owned()));
        }
        let in_process = || InProcess::start(link.index, link.mtu, secret).map(Way::InProcess);
        let way = match wanted {
            Some(EchoWay::Socket) => in_process()?,
            Some(EchoWay::Xdp(place)) => {
                InKernel::attach(interface, secret, Some(place)).map(Way::InKernel).map_err(EchoError::Xdp)?
            }
            None => match InKernel::attach(interface, secret, None) {
                Ok(in_kernel) => Way::InKernel(in_kernel),
                Err(_) => in_process()?,
            },
        };
        Ok(Echo { interface: interface.to_owned(), way })
    }

    /// How frames are sent back.
    pub fn way(&self) -> EchoWay {
        match &self.way {
            Way::InKernel(echo) => EchoWay::Xdp(echo.place()),
            Way::InProcess(_) => EchoWay::Socket,
        }
    }

    /// What came so far.
    pub fn counts(&self) -> io::Result<EchoCounts> {
        match &self.way {
            Way::InKernel(echo) => echo.counts(),
            Way::InProcess(echo) => echo.counts(),
        }
    }

    /// What the interface counted, of all frames; `None` where it is gone from the thread's network namespace.
    pub fn port(&self) -> Option<PortCounts> {
        port(&self.interface)
    }
}

/// From the places of struct rtnl_link_stats64 (linux/if_link.h).
fn port(interface: &str) -> Option<PortCounts> {
    const RX_ERRORS: usize = 4;
    const TX_ERRORS: usize = 5;
    const RX_DROPPED: usize = 6;
    const TX_DROPPED: usize = 7;
    const RX_MISSED_ERRORS: usize = 15;
    let statistics = interfaces::link(interface).ok()?.statistics64?;
    let (words, _) = statistics.as_chunks::<8>();
    let word = |at: usize| words.get(at).map(|word| u64::from_ne_bytes(*word));
    Some(PortCounts {
        rx_missed: word(RX_MISSED_ERRORS)?,
        rx_dropped: word(RX_DROPPED)?,
        tx_dropped: word(TX_DROPPED)?,
        rx_errors: word(RX_ERRORS)?,
        tx_errors: word(TX_ERRORS)?,
        xdp_tx_failed: xdp_tx_failed(interface),
    })
}

fn xdp_tx_failed(interface: &str) -> Option<u64> {
    failed_of(&Ethtool::new(interface).and_then(|ethtool| ethtool.statistics(StatisticsOf::Driver)).ok()?)
}

/// From names like `rx_queue_0_xdp_tx_errors` (veth), `tx0_xdp_tx_drops` (virtio_net), `rx_xdp_tx_err` (mvneta) and
/// `rx_xdp_tx_full` (mlx5), which many drivers have for each queue and once more for all.
fn failed_of(statistics: &[(String, u64)]) -> Option<u64> {
    let is_it = |name: &str| {
        let (_, what) = name.split_once("xdp_tx_")?;
        ["err", "drops", "full"].iter().any(|word| what.starts_with(word)).then_some(())
    };
    let all = || statistics.iter().filter(|(name, _)| is_it(name).is_some());
    let is_of_queue = |(name, _): &&(String, u64)| name.contains(|sign: char| sign.is_ascii_digit());
    let of_queues = all().filter(is_of_queue);
    if of_queues.clone().next().is_some() {
        return Some(of_queues.map(|(_, count)| count).sum());
    }
    all().map(|(_, count)| *count).reduce(|sum, count| sum + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_could_not_answer_is_counted_once() {
        let check = |statistics: &[(&str, u64)], want| {
            let owned: Vec<_> = statistics.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            assert_eq!(failed_of(&owned), want, "{statistics:?}");
        };
        check(&[("rx_queue_0_xdp_tx", 9), ("rx_queue_0_xdp_tx_errors", 1), ("rx_queue_1_xdp_tx_errors", 2)], Some(3));
        check(&[("tx_xdp_tx_drops", 3), ("tx0_xdp_tx_drops", 1), ("tx1_xdp_tx_drops", 2)], Some(3));
        check(&[("rx_xdp_tx_xmit", 9), ("rx_xdp_tx_full", 4), ("rx_xdp_tx_err", 1)], Some(5));
        check(&[("rx_packets", 9), ("xdp_tx", 9)], None);
    }
}
