//! Frames that a sender's queueing discipline or link did not take: the sender tries again, and counts none of them as sent or lost.
//! Knows how often that was; what did it is for the rules.

use linerate_path::stage::Stage;
use linerate_trial::spec::Workload;

use super::case::{Case, FEW};

/// From this part of what was sent on.
const PART: f64 = 0.1;

/// How often frames were refused, where that is often.
pub(super) struct RefusedFrames {
    /// By a root discipline.
    pub(super) by_qdisc: u64,
    /// By the link itself.
    pub(super) by_link: u64,
    /// Frames that left.
    pub(super) sent: u64,
}

impl RefusedFrames {
    pub(super) fn of(case: &Case<'_>) -> Option<RefusedFrames> {
        let sent = case.flow().filter(|_| case.is(Workload::Frames))?.packets_sent?;
        let by_qdisc = case.sender.at_root("drops").unwrap_or(0);
        let by_link = case.sender.sum(Stage::DriverTxRing, |name| name == "link tx_dropped").unwrap_or(0);
        let refused = RefusedFrames { by_qdisc, by_link, sent };
        (refused.all() >= FEW && refused.all() as f64 >= PART * sent as f64).then_some(refused)
    }

    fn all(&self) -> u64 {
        self.by_qdisc.saturating_add(self.by_link)
    }

    /// The part of all tries.
    pub(super) fn ratio(&self) -> f64 {
        self.all() as f64 / self.all().saturating_add(self.sent).max(1) as f64
    }

    /// A clause that says how often, and of how many.
    pub(super) fn clause(&self) -> String {
        let who = if self.by_qdisc >= self.by_link { "its queueing discipline" } else { "its link" };
        format!("{who} refused frames {} times, which were tried again, and {} were sent", self.all(), self.sent)
    }
}
