//! Where a stream's frames go first: the other end itself, or a router that has to know the way to it.
//! Sends nothing; the kernel may ask for the router's Ethernet address.

use std::net::IpAddr;

use linerate_machine::mac::MacAddress;
use linerate_trial::frames::FrameKind;
use linerate_trial::spec::Spec;

use super::super::TrafficError;
use crate::probe::{Router, router};

/// The first hop of frames to the other end, and the addresses that they bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The router's, where there is one.
    pub mac: Option<MacAddress>,
    /// The ends' own addresses, this one's first, behind a router; else those of test networks will do.
    pub ends: Option<[IpAddr; 2]>,
}

impl Hop {
    /// Straight to the other end.
    pub const NONE: Hop = Hop { mac: None, ends: None };

    /// By what the kernel knows of the way.
    pub fn find(spec: &Spec, local: IpAddr, peer: IpAddr) -> Result<Hop, TrafficError> {
        Hop::by(spec.frame_kind(), local, peer, router(local, peer))
    }

    fn by(kind: FrameKind, local: IpAddr, peer: IpAddr, router: Option<Router>) -> Result<Hop, TrafficError> {
        let Some(router) = router else { return Ok(Hop::NONE) };
        let fits = match kind {
            FrameKind::Raw => false,
            FrameKind::Udp4 => peer.is_ipv4(),
            FrameKind::Udp6 => peer.is_ipv6(),
        };
        if !fits {
            let fit = if peer.is_ipv4() { FrameKind::Udp4 } else { FrameKind::Udp6 };
            return Err(TrafficError::NotRouted { kind, peer, router: router.address, fit });
        }
        let mac = router.mac.and_then(|mac| mac.parse::<MacAddress>().ok()).filter(|mac| mac.is_of_one());
        match mac {
            Some(mac) => Ok(Hop { mac: Some(mac), ends: Some([local, peer]) }),
            None => Err(TrafficError::NoRouter { router: router.address }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: FrameKind, peer: &str, router: Option<(&str, Option<&str>)>) -> Result<Hop, String> {
        let router =
            router.map(|(address, mac)| Router { address: address.parse().unwrap(), mac: mac.map(str::to_owned) });
        let local = if peer.contains(':') { "2001:db8:1::2" } else { "10.0.1.2" };
        let found = Hop::by(kind, local.parse().unwrap(), peer.parse().unwrap(), router);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn frames_with_ip_go_to_the_router_and_bear_the_ends_addresses() {
        let router = Some(("10.0.1.254", Some("02:00:00:00:00:fe")));
        assert_eq!(found(FrameKind::Raw, "10.0.1.3", None), Ok(Hop::NONE));
        let hop = found(FrameKind::Udp4, "10.0.2.2", router).unwrap();
        assert_eq!(hop.mac.unwrap().to_string(), "02:00:00:00:00:fe");
        assert_eq!(hop.ends.unwrap()[1], "10.0.2.2".parse::<IpAddr>().unwrap());
        let sentence = found(FrameKind::Raw, "10.0.2.2", router).unwrap_err();
        assert!(sentence.contains("frame_kind=udp4"), "{sentence}");
        assert!(found(FrameKind::Udp6, "10.0.2.2", router).unwrap_err().contains("frame_kind=udp4"));
        assert!(found(FrameKind::Udp4, "2001:db8:2::2", router).unwrap_err().contains("frame_kind=udp6"));
        for mac in [None, Some("ff:ff:ff:ff:ff:ff"), Some("nonsense")] {
            let sentence = found(FrameKind::Udp4, "10.0.2.2", Some(("10.0.1.254", mac))).unwrap_err();
            assert!(sentence.contains("10.0.1.254"), "{sentence}");
        }
    }
}
