//! How long frames took, from the time that the sender wrote into each until they came: of two ends whose clock is one.
//! Knows no machines; whether both ends are one is for the controller to say.

use linerate_trial::api::Timestamps;
use linerate_trial::histogram::Histogram;

use crate::sys::datagrams::realtime_ns;
use crate::sys::thread::monotonic_ns;
use crate::traffic::clock::TrialClock;

/// The kernel's clock that all processes of a machine share, when a trial's own says 0.
pub fn epoch_ns(clock: &TrialClock) -> u64 {
    monotonic_ns().saturating_sub(clock.now_ns())
}

/// The delays of a stream.
pub struct Delays {
    who: Timestamps,
    /// What brings the times of arrivals to the clock that all share.
    offset_ns: i64,
    /// When that was looked at, by the trial's clock.
    looked_ns: u64,
    epoch_ns: u64,
    times: Histogram,
    /// Frames that came before they were sent: the clocks are two, or one was set.
    impossible: u64,
}

/// The kernel's stamps are of the clock that people set, and that is brought in step slowly.
const LOOK_AGAIN_NS: u64 = 100_000_000;

impl Delays {
    /// Of a stream whose arrivals are stamped so.
    pub fn new(who: Timestamps, clock: &TrialClock) -> Delays {
        let (epoch_ns, times) = (epoch_ns(clock), Histogram::default());
        let mut delays = Delays { who, offset_ns: 0, looked_ns: 0, epoch_ns, times, impossible: 0 };
        delays.look(0);
        delays
    }

    /// A frame of the measured part came; `now_ns` is the trial's clock.
    #[inline]
    pub fn handle(&mut self, sent_at_ns: u64, arrived_ns: u64, now_ns: u64) {
        if now_ns.saturating_sub(self.looked_ns) > LOOK_AGAIN_NS {
            self.look(now_ns);
        }
        match arrived_ns.saturating_add_signed(self.offset_ns).checked_sub(sent_at_ns) {
            Some(ns) => self.times.record(ns),
            None => self.impossible += 1,
        }
    }

    fn look(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
        self.offset_ns = match self.who {
            Timestamps::Application => self.epoch_ns.cast_signed(),
            _ => monotonic_ns().wrapping_sub(realtime_ns()).cast_signed(),
        };
    }

    /// All of them; `None`: the clocks are not one, or the NIC's own stamped what came.
    pub fn finish(self) -> Option<Histogram> {
        let is_known = self.who != Timestamps::Hardware && self.impossible == 0 && self.times.count() > 0;
        is_known.then_some(self.times)
    }
}

#[cfg(test)]
mod tests {
    use linerate_trial::spec::{Spec, Workload};

    use super::*;

    #[test]
    fn times_of_one_clock_are_delays() {
        let clock = TrialClock::new(&Spec::new(Workload::Frames));
        let mut delays = Delays::new(Timestamps::Application, &clock);
        let epoch_ns = epoch_ns(&clock);
        for us in 1..=100 {
            delays.handle(epoch_ns + 5_000_000, 5_000_000 + us * 1_000, 5_000_000);
        }
        let times = delays.finish().unwrap();
        assert!(times.count() == 100 && (45_000..=60_000).contains(&times.percentile_ns(50.0).unwrap()));
        // The kernel's stamps are of another clock, which is brought to this one.
        let mut delays = Delays::new(Timestamps::Kernel, &clock);
        let sent_at_ns = monotonic_ns();
        delays.handle(sent_at_ns, realtime_ns() + 1_000_000, clock.now_ns());
        let took = delays.finish().unwrap().max_ns().unwrap();
        assert!((900_000..50_000_000).contains(&took), "{took}");
    }

    #[test]
    fn what_came_before_it_was_sent_is_no_delay() {
        let clock = TrialClock::new(&Spec::new(Workload::Frames));
        let mut delays = Delays::new(Timestamps::Kernel, &clock);
        delays.handle(u64::MAX / 2, 5, 0);
        assert_eq!(delays.finish(), None);
        assert_eq!(Delays::new(Timestamps::Application, &clock).finish(), None);
    }
}
