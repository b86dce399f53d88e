//! An end that only receives says nothing for as long as a trial lasts, and bridges forget the addresses of who is silent: then they
//! send its frames to all ports. So it shows its address now and then.
//! Knows no counts: what it sends is a handshake's frame, which no end takes for traffic.

use linerate_trial::spec::Spec;
use linerate_wire::HandshakeKind;

use super::FrameLink;
use crate::traffic::task::Task;

/// A third of the time after which bridges forget an address (IEEE 802.1D-2004, table 7-5: 300 s).
const USUAL_NS: u64 = 100_000_000_000;

/// When the address was shown last.
pub struct Learning {
    every_ns: u64,
    next_ns: u64,
}

impl Learning {
    /// The handshake has just shown it.
    pub fn new(spec: &Spec, now_ns: u64) -> Learning {
        let every_ns = spec.learning.map_or(USUAL_NS, |every| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX));
        Learning { every_ns, next_ns: now_ns.saturating_add(every_ns) }
    }

    /// Shows it again where it is time to, to whom the trial's secret came from.
    #[inline]
    pub fn handle_now(&mut self, now_ns: u64, task: &Task, link: &FrameLink) {
        if now_ns >= self.next_ns {
            self.next_ns = now_ns.saturating_add(self.every_ns);
            // One that is not sent is followed by another in time.
            let _ = link.say(task.open.flow, HandshakeKind::Answer, &task.tokens.answer, 0);
        }
    }
}
