//! What happened at a time in a trial: facts, and the one place that makes sentences of them.
//! Knows nothing of how it was noticed.

use std::fmt::{self, Display, Formatter};

use linerate_machine::end::{Direction, End};
use serde::{Deserialize, Serialize};

/// Something that happened at a time in a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it began, seconds from the start of the measured part; negative in the warm-up.
    pub at_s: f64,
    /// How long it lasted, seconds; absent of what has no length, and of what had not ended at the trial's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_s: Option<f64>,
    /// How far `at_s` and the end may be off, seconds: about a slice.
    #[serde(default)]
    pub within_s: f64,
    /// The machine that saw it; absent where it lies between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// What happened.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventKind {
    /// Nothing of any flow arrived for a while, and then something did.
    Stall {
        /// Which way it should have gone; of requests, which way they went.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
        /// Of what was lost or retransmitted in the measured part, the share that fell into it, 0 to 1; absent where nothing was, or
        /// nobody told when.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_share: Option<f64>,
    },
    /// A flow brought nothing from here on to the end.
    FlowDied {
        /// The flow's number.
        flow: u16,
        /// As of a stall.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
        /// As of a stall.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_share: Option<f64>,
    },
    /// Until here next to nothing was lost of a stream, and from here on something in nearly every slice: to the end, or for a while,
    /// and then next to nothing again.
    LossBegan {
        /// Which way it went.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
        /// Lost of sent as long as it lasted, 0 to 1.
        loss_ratio: f64,
        /// Payload bits per second that arrived meanwhile.
        throughput_bps: f64,
        /// They varied from slice to slice by far less than chance makes of such a loss.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steady: bool,
    },
    /// Nearly all that TCP retransmitted in the measured part was so in this short time.
    LossAtOnce {
        /// Which way it went.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
        /// So many segments.
        segments: u64,
        /// Of all that were retransmitted in the measured part, 0 to 1.
        share: f64,
    },
    /// A stream's rate changed at once and stayed so: to the end, or for a while, and then was what it had been.
    RateChanged {
        /// Which way it went.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
        /// Payload bits per second that arrived until then.
        from_bps: f64,
        /// And from then on, as long as it lasted.
        to_bps: f64,
    },
    /// The interface lost its carrier.
    CarrierLost {
        /// Its name.
        interface: String,
    },
    /// The interface got its carrier back.
    CarrierBack {
        /// Its name.
        interface: String,
    },
    /// The interface was set down or up.
    InterfaceSet {
        /// Its name.
        interface: String,
        /// Whether it is up now.
        up: bool,
    },
    /// The other end's address has another hardware address.
    NeighbourChanged {
        /// The address.
        address: String,
        /// The hardware address before.
        from: String,
        /// And now.
        to: String,
    },
    /// Nobody answers for the other end's address (ARP, neighbour discovery) any more.
    NeighbourLost {
        /// The address.
        address: String,
    },
    /// A route to the other end's address came, went or changed.
    RouteChanged {
        /// The destination.
        destination: String,
        /// Whether it was taken away.
        removed: bool,
    },
    /// An address of the interface came or went.
    AddressChanged {
        /// The address.
        address: String,
        /// Whether it was taken away.
        removed: bool,
    },
    /// The interface's MTU was set.
    MtuChanged {
        /// Its name.
        interface: String,
        /// Octets.
        from: u32,
        /// Octets.
        to: u32,
    },
    /// The interface got another hardware address, which the other end does not know yet.
    HardwareChanged {
        /// Its name.
        interface: String,
        /// The hardware address before.
        from: String,
        /// And now.
        to: String,
    },
    /// The wall clock was stepped.
    ClockStepped {
        /// Forwards, seconds; negative backwards.
        by_s: f64,
    },
    /// A connection of the trial was reset: a RST came.
    ConnectionReset,
    /// The agent did not run.
    AgentStopped,
    /// The control group's CPU quota was used up.
    Throttled,
    /// Others used the interface as well.
    OthersTraffic {
        /// Their octets a second, in or out, whichever was more.
        octets_per_s: f64,
    },
    /// More happened than is kept.
    More {
        /// So many events are left out.
        events: u64,
    },
}

impl EventKind {
    /// Which way the traffic went that it is about, where it is about one.
    pub const fn direction(&self) -> Option<Direction> {
        match self {
            EventKind::Stall { direction, .. }
            | EventKind::FlowDied { direction, .. }
            | EventKind::LossBegan { direction, .. }
            | EventKind::LossAtOnce { direction, .. }
            | EventKind::RateChanged { direction, .. } => *direction,
            _ => None,
        }
    }

    /// The kind's name, as records write it.
    pub const fn name(&self) -> &'static str {
        match self {
            EventKind::Stall { .. } => "stall",
            EventKind::FlowDied { .. } => "flow-died",
            EventKind::LossBegan { .. } => "loss-began",
            EventKind::LossAtOnce { .. } => "loss-at-once",
            EventKind::RateChanged { .. } => "rate-changed",
            EventKind::CarrierLost { .. } => "carrier-lost",
            EventKind::CarrierBack { .. } => "carrier-back",
            EventKind::InterfaceSet { .. } => "interface-set",
            EventKind::NeighbourChanged { .. } => "neighbour-changed",
            EventKind::NeighbourLost { .. } => "neighbour-lost",
            EventKind::RouteChanged { .. } => "route-changed",
            EventKind::AddressChanged { .. } => "address-changed",
            EventKind::MtuChanged { .. } => "mtu-changed",
            EventKind::HardwareChanged { .. } => "hardware-changed",
            EventKind::ClockStepped { .. } => "clock-stepped",
            EventKind::ConnectionReset => "connection-reset",
            EventKind::AgentStopped => "agent-stopped",
            EventKind::Throttled => "throttled",
            EventKind::OthersTraffic { .. } => "others-traffic",
            EventKind::More { .. } => "more",
        }
    }
}

/// One sentence, with the time.
impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s: ", self.at_s)?;
        if let Some(end) = self.end {
            write!(f, "{end}: ")?;
        }
        write!(f, "{}", self.what)?;
        match self.for_s {
            None if matches!(self.what, EventKind::RateChanged { .. }) => write!(f, " and stayed so"),
            Some(seconds) if matches!(self.what, EventKind::LossAtOnce { .. }) => write!(f, ", within {seconds:.2} s"),
            Some(seconds) => write!(f, ", for {seconds:.2} s"),
            None => Ok(()),
        }
    }
}

/// A clause without the time.
impl Display for EventKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let gone = |removed: bool| if removed { "was removed" } else { "was added or changed" };
        match self {
            EventKind::Stall { .. } => write!(f, "nothing arrived"),
            EventKind::FlowDied { flow, .. } => write!(f, "flow {flow} died: nothing of it arrived any more"),
            EventKind::LossBegan { loss_ratio, throughput_bps, .. } => write!(
                f,
                "loss began: {:.1} %, and {:.1} Mbit/s came through",
                loss_ratio * 100.0,
                throughput_bps / 1e6
            ),
            EventKind::LossAtOnce { segments, share, .. } => {
                write!(f, "{segments} segments were retransmitted, {:.0} % of all that were", share * 100.0)
            }
            EventKind::RateChanged { from_bps, to_bps, .. } => write!(
                f,
                "throughput {} from {:.1} to {:.1} Mbit/s",
                if to_bps < from_bps { "fell" } else { "rose" },
                from_bps / 1e6,
                to_bps / 1e6
            ),
            EventKind::CarrierLost { interface } => write!(f, "{interface} lost its carrier"),
            EventKind::CarrierBack { interface } => write!(f, "{interface} got its carrier back"),
            EventKind::InterfaceSet { interface, up } => {
                write!(f, "{interface} was set {}", if *up { "up" } else { "down" })
            }
            EventKind::NeighbourChanged { address, from, to } => {
                write!(f, "the hardware address of {address} changed from {from} to {to}")
            }
            EventKind::NeighbourLost { address } => write!(f, "nobody answered for {address} any more (ARP)"),
            EventKind::RouteChanged { destination, removed } => {
                write!(f, "a route to {destination} {}", gone(*removed))
            }
            EventKind::AddressChanged { address, removed } => write!(f, "the address {address} {}", gone(*removed)),
            EventKind::MtuChanged { interface, from, to } => {
                write!(f, "the MTU of {interface} was changed from {from} to {to}")
            }
            EventKind::HardwareChanged { interface, from, to } => {
                write!(f, "the hardware address of {interface} was changed from {from} to {to}")
            }
            EventKind::ClockStepped { by_s } => write!(f, "the wall clock was stepped by {by_s:+.3} s"),
            EventKind::ConnectionReset => write!(f, "a connection was reset (RST)"),
            EventKind::AgentStopped => write!(f, "the agent did not run"),
            EventKind::Throttled => write!(f, "the control group's CPU quota was used up"),
            EventKind::OthersTraffic { octets_per_s } => {
                write!(f, "other traffic of {:.1} Mbit/s on the interface", octets_per_s * 8.0 / 1e6)
            }
            EventKind::More { events } => write!(f, "{events} more events, which are not kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_json_s() {
        let event = Event {
            at_s: 1.5,
            for_s: None,
            within_s: 0.05,
            end: Some(End::Host),
            what: EventKind::CarrierLost { interface: "eth0".to_owned() },
        };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["kind"], event.what.name());
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
}
