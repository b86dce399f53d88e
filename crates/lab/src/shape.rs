//! What the cable and the target's queues are like: rates and queue lengths, as figures.
//! Knows no kernel; `lab` turns these into queueing disciplines.

/// How the target of a [`Lab`](crate::Lab) sends and receives. The host's end is never limited.
///
/// Rates count whole Ethernet frames without FCS (a full 1500-octet packet is 1514), because that is the length that
/// the kernel's token bucket sees (tc-tbf(8)): at 470 Mbit/s, UDP datagrams of 1470 octets carry 457 Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What the target can send, in bits per second; `None`: as fast as the machine copies.
    pub tx_rate_bps: Option<u64>,
    /// What the target can receive, in bits per second; `None`: as fast as the machine copies.
    pub rx_rate_bps: Option<u64>,
    /// How much waits to be sent before the target's queueing discipline drops, in octets of frames.
    pub tx_queue_octets: u32,
    /// How much waits to be received before the target drops, in octets of frames: the board's receive ring.
    pub rx_queue_octets: u32,
    /// Whether the two ends hand each other packets of up to 64 KiB (TSO, GSO), as a bare veth pair does.
    pub segmentation_offload: bool,
}

impl Shape {
    /// Two ends of a veth pair as the kernel makes it: fast, nothing limited.
    pub fn unshaped() -> Shape {
        Shape {
            tx_rate_bps: None,
            rx_rate_bps: None,
            tx_queue_octets: TX_QUEUE_OCTETS,
            rx_queue_octets: RX_QUEUE_OCTETS,
            segmentation_offload: true,
        }
    }

    /// A gigabit port on a board that moves 470 Mbit/s at best (the i.MX6 FEC's erratum) through a short receive
    /// ring: sending rises to the rate and stays there, receiving above the rate is lost.
    ///
    /// Measured here with iperf3: TCP 449 Mbit/s sent and 447 received of the 450 that fit, IPv6 439. The price is a
    /// timer interrupt for each packet let through, about 20 µs in a virtual machine; the lab moves it off the CPU of
    /// the sender where it may.
    pub fn modest_board() -> Shape {
        Shape {
            tx_rate_bps: Some(470_000_000),
            rx_rate_bps: Some(470_000_000),
            // A board's MAC of that age segments nothing itself. With GSO left on, a TCP stream arrives in trains of
            // 43 packets at memory speed, which no cable delivers and a short ring cannot hold.
            segmentation_offload: false,
            ..Shape::unshaped()
        }
    }

    /// The token bucket's depth for `rate_bps`, in octets.
    ///
    /// It must hold what flows while the bucket's timer is late, else the rate is not reached; 400 µs was enough on
    /// the two-core virtual machine where this was measured. It must hold one full frame at any rate (tc-tbf(8):
    /// "if your buffer is too small, packets may be dropped").
    pub(crate) fn burst_octets(rate_bps: u64) -> u32 {
        let octets = (rate_bps / 8).saturating_mul(400) / 1_000_000;
        octets.clamp(4 * FULL_FRAME_OCTETS, 1 << 24) as u32
    }
}

/// An Ethernet frame of a full 1500-octet packet, without FCS.
const FULL_FRAME_OCTETS: u64 = 1514;

/// More than the default socket send buffers (net.core.wmem_default, 212 992 octets of which frames are a part) of
/// sixteen flooding sockets: a flood then waits in its sockets, where a sender feels it, and loses nothing.
const TX_QUEUE_OCTETS: u32 = 4 << 20;

/// 64 full frames, the i.MX6 FEC driver's order of magnitude.
const RX_QUEUE_OCTETS: u32 = 64 * FULL_FRAME_OCTETS as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_a_frame_at_any_rate() {
        for rate_bps in [1, 1_000_000, 470_000_000, 10_000_000_000, u64::MAX] {
            assert!(u64::from(Shape::burst_octets(rate_bps)) >= FULL_FRAME_OCTETS, "{rate_bps}");
        }
        assert_eq!(Shape::burst_octets(470_000_000), 23_500);
    }
}
