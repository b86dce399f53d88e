//! Who keeps a sender to its schedule on this machine: the sender's thread, or the kernel below it.
//! Knows no schedule; [`linerate_trial::pace`] has it.

use std::io;

use linerate_machine::end::End;
use linerate_machine::units::OfferedLoad;
use linerate_trial::pace::Pacing;
use linerate_trial::spec::{Spec, Workload};
use socket2::Socket;

use super::TrafficError;
use super::clock::TrialClock;
use super::sockets::Open;
use crate::egress::{self, Timer};
use crate::environment::kernel_is_at_least;
use crate::qdiscs;
use crate::sys::pacing::{Clock, set_max_pacing_rate, set_priority, set_txtime};

/// How one flow's departures are kept in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced {
    /// By whom.
    pub pacing: Pacing,
    /// How long before its departure a datagram is handed over at least; nothing where the sender keeps the time.
    pub lead_ns: u64,
    /// What the kernel takes the times of departure by.
    times: Option<Times>,
}

impl Paced {
    /// Datagrams that bear their times, whether or not anything below heeds them.
    #[cfg(test)]
    pub fn unheeded(socket: &Socket) -> Paced {
        set_txtime(socket, Clock::MONOTONIC).unwrap();
        let times = Times { clock: Clock::MONOTONIC, delta_ns: 0, priority: Some(3) };
        Paced { pacing: Pacing::Txtime, lead_ns: LEAD_NS, times: Some(times) }
    }

    /// How long before its departure a datagram is handed over at most.
    pub fn most_lead_ns(&self) -> u64 {
        // Some at a time: to be woken for each would cost what the sender's own pacing costs.
        if self.lead_ns == 0 { 0 } else { self.lead_ns + LEAD_NS }
    }

    /// What to add to the trial's time for the clock by which datagrams bear theirs; `None` where they bear none.
    pub fn clock_offset_ns(&self, clock: &TrialClock) -> Option<u64> {
        // Read anew for each call: an atomic clock's second and the trial's are not of one length.
        let times = self.times?;
        Some(times.clock.now_ns().ok()?.wrapping_sub(clock.now_ns()))
    }

    /// The least time between handing a datagram over and its departure that the kernel does not drop it for.
    pub fn least_notice_ns(&self) -> u64 {
        self.lead_ns.saturating_sub(LEAD_NS / 2)
    }

    /// Has what leaves from now on pass the queue that times it, or no longer.
    pub fn steer(&self, socket: &Socket, on: bool) -> io::Result<()> {
        match self.times.and_then(|times| times.priority) {
            Some(priority) => set_priority(socket, if on { priority } else { 0 }),
            None => Ok(()),
        }
    }
}

/// Times that datagrams bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    clock: Clock,
    /// What comes nearer to its time than this is dropped.
    delta_ns: u64,
    /// The priority that the timing queue takes, where it takes one only.
    priority: Option<u32>,
}

/// What the sender's thread may be late, when the kernel keeps the time.
const LEAD_NS: u64 = 500_000;
/// The share by which the kernel's rate lies above the load: the sender's own schedule decides the mean.
const HEADROOM: f64 = 1.01;

/// Chooses for one flow, and prepares its socket; `None` where there is no pace to keep.
pub fn choose(spec: &Spec, end: End, open: &Open, interface: Option<&str>) -> Result<Option<Paced>, TrafficError> {
    let flow = open.flow;
    if flow.probe || flow.source != end || !flow.workload.is_stream() || spec.rate == OfferedLoad::Unlimited {
        return Ok(None);
    }
    let application = Paced { pacing: Pacing::Application, lead_ns: 0, times: None };
    let paced = match spec.pacing {
        // Also of TCP: below round trips of some ms its own pacing lets whole trains of 64 KiB go (tcp_tso_autosize),
        // where writes of what a millisecond brings leave one by one.
        None | Some(Pacing::Application) => application,
        Some(Pacing::Fq) => by_rate(spec, open, interface)?,
        Some(Pacing::Txtime) => by_times(open, interface)?,
    };
    Ok(Some(paced))
}

fn by_rate(spec: &Spec, open: &Open, interface: Option<&str>) -> Result<Paced, TrafficError> {
    let refuse = |why: String| TrafficError::Api { option: "pacing", name: Pacing::Fq.name(), why };
    let is_tcp = open.flow.workload == Workload::TcpStream;
    // TCP paces by itself since Linux 4.13 (tcp_internal_pacing); before it, and for UDP, only fq heeds the rate.
    if !(is_tcp && kernel_is_at_least(4, 13)) && timer(interface) != Some(Timer::Fq) {
        let what = if is_tcp { "TCP before Linux 4.13" } else { "UDP" };
        return Err(refuse(format!(
            "{} has no fq queueing discipline, without which {what} leaves at once; choose application, or run 'tc \
             qdisc replace dev {} root fq' there",
            interface.unwrap_or("the interface"),
            interface.unwrap_or("INTERFACE")
        )));
    }
    let size = u64::from(spec.message_octets());
    let bits = spec.rate.bits_per_second(size).unwrap_or(0.0);
    // fq counts the headers too; TCP by itself does not.
    let headers = if is_tcp {
        66.0 / f64::from(spec.mss.unwrap_or(1448))
    } else {
        (42.0 + if open.peer.is_ipv4() { 0.0 } else { 20.0 }) / size as f64
    };
    let octets_per_s = (bits / 8.0 * (1.0 + headers) * HEADROOM).ceil().max(1.0) as u64;
    set_max_pacing_rate(&open.socket, octets_per_s)
        .map_err(|error| refuse(format!("SO_MAX_PACING_RATE: {error}; choose application or auto")))?;
    // A write of TCP waits in the socket; datagrams are handed over ahead, a few at once.
    let lead_ns = if is_tcp { 0 } else { LEAD_NS };
    Ok(Paced { pacing: Pacing::Fq, lead_ns, times: None })
}

fn by_times(open: &Open, interface: Option<&str>) -> Result<Paced, TrafficError> {
    let refuse = |why: String| TrafficError::Api { option: "pacing", name: Pacing::Txtime.name(), why };
    let times = match timer(interface) {
        Some(Timer::Fq) => Times { clock: Clock::MONOTONIC, delta_ns: 0, priority: None },
        Some(Timer::Etf { clock, delta_ns, priority }) => {
            Times { clock: Clock(clock), delta_ns, priority: Some(priority) }
        }
        None => {
            return Err(refuse(format!(
                "{} has neither the fq queueing discipline nor etf below mqprio or taprio; choose application, or see \
                 tc-etf(8)",
                interface.unwrap_or("the interface")
            )));
        }
    };
    let means = |error| refuse(format!("SO_TXTIME: {error} (Linux 4.19 has it); choose application or auto"));
    times.clock.now_ns().and_then(|_| set_txtime(&open.socket, times.clock)).map_err(means)?;
    Ok(Paced { pacing: Pacing::Txtime, lead_ns: times.delta_ns + LEAD_NS, times: Some(times) })
}

fn timer(interface: Option<&str>) -> Option<Timer> {
    egress::timer(&qdiscs::of(interface?).ok()?)
}
