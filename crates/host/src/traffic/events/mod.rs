//! Notices what happens on this machine while a trial runs, at each look of the sampler: the link, the way to the other
//! end, the clock, and times in which this program did not run.
//! Knows no traffic and no sentences; [`network`] knows what the kernel tells.

mod network;

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_machine::end::End;
use linerate_trial::event::{Event, EventKind};

use super::timeline::{EventSources, LinkState};
use crate::schedstat::{SchedStat, Scheduled};
use crate::sys::thread::monotonic_ns;
use network::Network;

/// What is noticed, from the start of the trial to its end.
pub struct Watcher {
    end: End,
    interface: Option<String>,
    link: Option<LinkState>,
    network: Option<Network>,
    clocks: Option<i64>,
    own: Option<SchedStat>,
    scheduled: Option<Scheduled>,
    looked_ns: u64,
    noted: Vec<Noted>,
    left_out: u64,
}

/// Something that happened, by the trial's clock.
struct Noted {
    at_ns: u64,
    until_ns: Option<u64>,
    within_ns: u64,
    what: EventKind,
}

/// As many events are kept.
const MOST: usize = 100;
/// The wall clock is stepped when it moves by so much against the monotonic one; NTP slews by 0.5 ms a second.
const STEP_NS: i64 = 10_000_000;
/// This thread did not run when it wakes so late.
const LATE_NS: u64 = 200_000_000;
/// A quota is used up again and again, once in each of its periods: 100 ms unless told.
const QUOTA_PERIOD_NS: u64 = 100_000_000;
/// A CPU is so busy, per mille, that a thread may well wait for it.
const BUSY: u64 = 900;

impl Watcher {
    /// Begins now. `addresses`: this end's of the test traffic, and the other end's. To be called by the thread that
    /// looks.
    pub fn begin(end: End, interface: Option<&str>, addresses: Option<(IpAddr, IpAddr)>, now_ns: u64) -> Watcher {
        let own = SchedStat::own();
        Watcher {
            end,
            interface: interface.map(str::to_owned),
            link: None,
            network: addresses.and_then(|(local, peer)| Network::watch(interface, local, peer)),
            clocks: clocks_apart(),
            scheduled: own.as_ref().and_then(SchedStat::read),
            own,
            looked_ns: now_ns,
            noted: Vec::new(),
            left_out: 0,
        }
    }

    /// A look was made, `late_ns` after the time for which the thread had gone to sleep.
    pub fn look(&mut self, now_ns: u64, late_ns: u64, signs: EventSources) {
        let since_ns = self.looked_ns.min(now_ns);
        // What is found now happened at any time since the last look.
        let midst_ns = since_ns + (now_ns - since_ns) / 2;
        self.look_at_link(signs.link, midst_ns, now_ns - since_ns);
        let mut heard = Vec::new();
        if let Some(network) = &mut self.network {
            network.look(|what, lasts| heard.push((what, lasts)));
        }
        for (what, lasts) in heard {
            match lasts {
                network::EventLength::Begins => self.note(what, midst_ns, None, now_ns - since_ns),
                network::EventLength::No => self.note_point(what, midst_ns, now_ns - since_ns),
                network::EventLength::Ends => self.end_of(&what, midst_ns),
            }
        }
        self.look_at_clock(midst_ns, now_ns - since_ns);
        let scheduled = self.own.as_ref().and_then(SchedStat::read);
        let delay_ns = scheduled.zip(self.scheduled).map(|(now, before)| now.delay_ns.saturating_sub(before.delay_ns));
        self.scheduled = scheduled;
        if signs.throttled_us > 0 {
            self.extend(EventKind::Throttled, since_ns, now_ns, now_ns - since_ns);
        } else if late_ns.min(now_ns - since_ns) > LATE_NS && !is_busy(late_ns, delay_ns, signs, now_ns - since_ns) {
            // The stop began somewhere between the last look and the time for which this one was meant.
            let due_ns = now_ns - late_ns.min(now_ns - since_ns);
            let from_ns = since_ns + (due_ns - since_ns) / 2;
            self.note(EventKind::AgentStopped, from_ns, Some(now_ns), due_ns - since_ns);
        }
        self.looked_ns = now_ns;
    }

    /// What happened, in order; `start_ns` is where the measured part began.
    pub fn finish(mut self, start_ns: u64) -> Vec<Event> {
        let left_out = self.left_out;
        if left_out > 0 {
            let at_ns = self.looked_ns;
            let what = EventKind::More { events: left_out };
            self.noted.push(Noted { at_ns, until_ns: None, within_ns: 0, what });
        }
        self.noted.sort_by_key(|noted| noted.at_ns);
        let seconds = |ns: f64| (ns / 1e6).round() / 1e3;
        let event = |noted: Noted| Event {
            at_s: seconds(noted.at_ns as f64 - start_ns as f64),
            for_s: noted.until_ns.map(|until_ns| seconds(until_ns.saturating_sub(noted.at_ns) as f64)),
            within_s: seconds(noted.within_ns as f64),
            end: Some(self.end),
            what: noted.what,
        };
        self.noted.into_iter().map(event).collect()
    }

    /// An interface that was set down has no carrier either; what is told is that it was set down.
    fn look_at_link(&mut self, now: Option<LinkState>, at_ns: u64, within_ns: u64) {
        let Some(interface) = self.interface.clone() else { return };
        let gone = LinkState { is_up: false, has_carrier: false, changes: None };
        // One that was never seen is not asked about; one that cannot be seen any more is gone.
        let (Some(before), now) = (self.link, now.unwrap_or(gone)) else {
            self.link = now;
            return;
        };
        let (lost, back) = (
            EventKind::CarrierLost { interface: interface.clone() },
            EventKind::CarrierBack { interface: interface.clone() },
        );
        let set = |up| EventKind::InterfaceSet { interface: interface.clone(), up };
        if before.is_up && !now.is_up {
            self.note(set(false), at_ns, None, within_ns);
        } else if !before.is_up && now.is_up {
            self.end_of(&set(false), at_ns);
            self.note_point(set(true), at_ns, within_ns);
        }
        if now.is_up {
            let flapped = before.has_carrier
                && now.has_carrier
                && now.changes.zip(before.changes).is_some_and(|(now, before)| now > before);
            if before.is_up && before.has_carrier && !now.has_carrier {
                self.note(lost, at_ns, None, within_ns);
            } else if flapped && before.is_up {
                // Shorter than a slice.
                self.note(lost, at_ns, Some(at_ns), within_ns);
                self.note_point(back, at_ns, within_ns);
            } else if !before.has_carrier && now.has_carrier && before.is_up {
                self.end_of(&lost, at_ns);
                self.note_point(back, at_ns, within_ns);
            }
        }
        self.link = Some(now);
    }

    fn look_at_clock(&mut self, at_ns: u64, within_ns: u64) {
        let Some(now) = clocks_apart() else { return };
        let moved = self.clocks.map_or(0, |before| now - before);
        self.clocks = Some(now);
        if moved.abs() > STEP_NS {
            let by_s = (moved as f64 / 1e6).round() / 1e3;
            self.note_point(EventKind::ClockStepped { by_s }, at_ns, within_ns);
        }
    }

    /// What has no length, and is one event when it happens again in the next slice.
    fn note_point(&mut self, what: EventKind, at_ns: u64, within_ns: u64) {
        let is_again = |noted: &&mut Noted| {
            noted.what == what && noted.until_ns.unwrap_or(noted.at_ns) + 2 * within_ns.max(noted.within_ns) >= at_ns
        };
        match self.noted.iter_mut().rev().find(is_again) {
            Some(before) => before.until_ns = Some(at_ns),
            None => self.note(what, at_ns, None, within_ns),
        }
    }

    /// What lasts, and is seen in each slice anew.
    fn extend(&mut self, what: EventKind, from_ns: u64, until_ns: u64, within_ns: u64) {
        let gap_ns = 2 * within_ns + QUOTA_PERIOD_NS;
        let is_same =
            |noted: &&mut Noted| noted.what == what && noted.until_ns.is_some_and(|until| until + gap_ns >= from_ns);
        match self.noted.iter_mut().rev().find(is_same) {
            Some(before) => before.until_ns = Some(until_ns),
            None => self.note(what, from_ns, Some(until_ns), within_ns),
        }
    }

    /// What was noted without an end has ended.
    fn end_of(&mut self, what: &EventKind, at_ns: u64) {
        let open = self.noted.iter_mut().rev().find(|noted| noted.what == *what && noted.until_ns.is_none());
        open.into_iter().for_each(|noted| noted.until_ns = Some(at_ns));
    }

    fn note(&mut self, what: EventKind, at_ns: u64, until_ns: Option<u64>, within_ns: u64) {
        match self.noted.len() < MOST {
            true => self.noted.push(Noted { at_ns, until_ns, within_ns, what }),
            false => self.left_out += 1,
        }
    }
}

/// Whether a machine that is merely busy explains why this thread woke late: it waited for a CPU, a hypervisor had it,
/// or, where the kernel does not tell of waiting, the CPUs were all but idle.
fn is_busy(late_ns: u64, delay_ns: Option<u64>, signs: EventSources, slice_ns: u64) -> bool {
    let is_stolen = signs.steal * slice_ns / 1000 >= late_ns / 2;
    let waited = delay_ns.map_or(signs.busiest.is_some_and(|busiest| busiest >= BUSY), |delay| delay >= late_ns / 2);
    waited || is_stolen
}

/// The wall clock's time less the monotonic clock's, nanoseconds; `None` when this thread was interrupted meanwhile.
fn clocks_apart() -> Option<i64> {
    for _ in 0..3 {
        let before = monotonic_ns();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos();
        let after = monotonic_ns();
        if after - before < 1_000_000 {
            return i64::try_from(wall as i128 - i128::from(before / 2 + after / 2)).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests;
