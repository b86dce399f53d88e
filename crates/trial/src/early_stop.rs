//! When a trial has lost more than can be forgiven, whatever still comes: to carry it on tells nothing more.
//! Knows no sockets; what is missing and what time it is are arguments.

use linerate_machine::end::Direction;

use crate::spec::{Extent, Spec, Workload};

/// Watches what is missing at one end of a trial.
///
/// A datagram that is missing may only be late, so more than is forgiven has to be missing for a while. Where both ends
/// receive, each knows its own losses only, and holds them against the datagrams of both directions: it may decide late, and
/// never wrongly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyStop {
    /// So many may be lost.
    most: u64,
    /// Missing when the measured part began.
    before: u64,
    /// Since when more than that are missing.
    since_ns: Option<u64>,
}

impl EarlyStop {
    /// What is missing for this long is lost: receivers wait as long for what comes after the end mark.
    const SURE_NS: u64 = 50_000_000;

    /// For a trial in which this part of all datagrams may be lost; `None`: nobody knows how many it will have.
    pub fn of(spec: &Spec, forgiven: f64) -> Option<EarlyStop> {
        let most = (datagrams(spec)? * forgiven).floor() as u64;
        Some(EarlyStop { most, before: 0, since_ns: None })
    }

    /// The measured part begins, and so many are missing of what came before it.
    pub fn begin(&mut self, missing: u64) {
        self.before = missing;
    }

    /// So many are missing now, over all flows. Whether the trial is decided.
    pub fn handle_missing(&mut self, missing: u64, now_ns: u64) -> bool {
        if missing.saturating_sub(self.before) <= self.most {
            self.since_ns = None;
            return false;
        }
        now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns)) >= EarlyStop::SURE_NS
    }
}

/// How many datagrams, or frames, the measured part has, over all streams and both directions.
fn datagrams(spec: &Spec) -> Option<f64> {
    let size = spec.message_octets();
    let each = match spec.extent {
        Extent::Octets(octets) if spec.workload == Workload::Frames => spec.frame_sizes().holding(octets) as f64,
        Extent::Octets(octets) => octets.div_ceil(u64::from(size)) as f64,
        Extent::Time(time) => time.as_secs_f64() * 1e9 / spec.rate.gap_ns(u64::from(size))?,
    };
    let directions = if spec.direction == Direction::Both { 2 } else { 1 };
    spec.workload.is_numbered().then(|| each * f64::from(spec.streams) * f64::from(directions))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linerate_machine::units::OfferedLoad;

    use super::*;

    const MS: u64 = 1_000_000;

    /// 10,000 datagrams a second for 2 s on each stream.
    fn spec() -> Spec {
        Spec {
            rate: OfferedLoad::PacketsPerSecond(10_000),
            extent: Extent::Time(Duration::from_secs(2)),
            ..Spec::new(Workload::UdpStream)
        }
    }

    /// Of 4342 bytes there are 12.
    fn imix() -> Spec {
        Spec { workload: Workload::Frames, frame_size: Some("imix".parse().unwrap()), ..spec() }
    }

    #[test]
    fn what_is_late_is_not_lost() {
        let mut stop = EarlyStop::of(&spec(), 0.0).unwrap();
        for now in (0..2_000).step_by(10) {
            // Two in three looks see a gap that is filled at the third.
            assert!(!stop.handle_missing(u64::from(now % 30 != 0), now * MS), "{now}");
        }
        assert!(!stop.handle_missing(0, 2_000 * MS) && !stop.handle_missing(1, 2_010 * MS));
        assert!(!stop.handle_missing(1, 2_059 * MS));
        assert!(stop.handle_missing(1, 2_060 * MS));
    }

    #[test]
    fn the_whole_trial_is_what_may_lose() {
        for (spec, forgiven, most) in [
            (spec(), 0.0, 0),
            (spec(), 0.005, 100),
            (Spec { streams: 3, ..spec() }, 0.005, 300),
            (Spec { direction: Direction::Both, ..spec() }, 0.005, 200),
            (Spec { extent: Extent::Octets(1_470_000), ..spec() }, 0.01, 10),
            (Spec { workload: Workload::Frames, ..spec() }, 0.005, 100),
            (Spec { extent: Extent::Octets(4342 * 50), ..imix() }, 0.01, 6),
        ] {
            let mut stop = EarlyStop::of(&spec, forgiven).unwrap();
            stop.begin(7);
            assert!(!stop.handle_missing(7 + most, 0) && !stop.handle_missing(7 + most, 3_000 * MS), "{most}");
            assert!(!stop.handle_missing(8 + most, 4_000 * MS) && stop.handle_missing(8 + most, 4_050 * MS), "{most}");
        }
        let unlimited = Spec { rate: OfferedLoad::Unlimited, ..spec() };
        assert_eq!(EarlyStop::of(&unlimited, 0.0), None);
        assert_eq!(EarlyStop::of(&Spec::new(Workload::TcpStream), 0.0), None);
    }
}
