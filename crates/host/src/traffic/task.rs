//! What a flow's thread is given.
//! Knows no traffic.

use std::net::IpAddr;
use std::sync::Arc;

use linerate_machine::end::End;
use linerate_machine::setting::Scheduling;
use linerate_trial::outcome::{FlowOutcome, Role};
use linerate_trial::pace::Pacer;
use linerate_trial::spec::Spec;

use super::api::Chosen;
use super::clock::{TrialClock, Window};
use super::framing::Framing;
use super::ledger::Ledger;
use super::pacing::Paced;
use super::presence::Presence;
use super::sockets::{Open, Tokens};

/// Everything one flow's thread needs.
pub struct Task {
    pub spec: Arc<Spec>,
    /// What its datagrams look like.
    pub framing: Framing,
    pub end: End,
    pub local: IpAddr,
    pub tokens: Tokens,
    pub clock: Arc<TrialClock>,
    pub ledger: Arc<Ledger>,
    /// By which the sampler sees this thread.
    pub presence: Arc<Presence>,
    pub open: Open,
    /// How its data goes through the socket.
    pub chosen: Chosen,
    /// Who keeps it to its offered load, if that is limited and this end sends.
    pub paced: Option<Paced>,
    /// How the thread is scheduled if it receives; `None`: as all others.
    pub receivers: Option<Scheduling>,
    /// The flow's place among this end's, for pinning.
    pub index: usize,
}

impl Task {
    /// The departures of this flow; `None` when its load is unlimited.
    pub fn pacer(&self, message_octets: u64, start_ns: u64) -> Option<Pacer> {
        let rate_ns = self.spec.rate.gap_ns(message_octets)?;
        let first_ns = self.spec.first_rate.filter(|_| self.open.flow.workload.is_numbered());
        let first_ns = first_ns.and_then(|first| first.gap_ns(message_octets));
        let gap_ns = first_ns.unwrap_or(rate_ns);
        // Each flow its own chance, and the same again with the same seed.
        let seed = self.spec.seed.wrapping_add(u64::from(self.open.flow.id) << 32);
        let pacer = Pacer::new(gap_ns, self.spec.burst, self.spec.spacing, seed, start_ns).of_octets(message_octets);
        let lasts_ns = (self.spec.warmup + self.spec.first_time).as_nanos() as u64;
        Some(if first_ns.is_some() { pacer.then(rate_ns, start_ns.saturating_add(lasts_ns)) } else { pacer })
    }

    /// An account with nothing in it yet.
    pub fn blank(&self, role: Role) -> FlowOutcome {
        FlowOutcome::new(self.open.flow.id, role)
    }

    /// From when on an end that breaks the connection has ended the stream, rather than lost it: where it ends by itself,
    /// the other end's clock may be ahead.
    pub fn earliest_end_ns(&self, end_ns: u64) -> u64 {
        const AHEAD_NS: u64 = 100_000_000;
        if self.framing.ends_itself() && end_ns != u64::MAX { end_ns.saturating_sub(AHEAD_NS) } else { end_ns }
    }

    /// Whether the other end is a client of another tool that has no other way to say that it was interrupted.
    pub fn ends_by_reset(&self) -> bool {
        self.framing.ends_itself() && self.end == End::Target
    }

    /// Whether another connection says that the streams are over, for all of them at once.
    pub fn is_told_end(&self) -> bool {
        !self.framing.is_own() && !self.framing.ends_itself()
    }

    /// Length of the measured part: the time asked for, or up to `last_ns` where octets decided, a stop came or the trial
    /// ended before its time.
    pub fn elapsed_ns(&self, window: Window, last_ns: u64) -> u64 {
        let end =
            if self.clock.stopped() || self.clock.is_curtailed() { last_ns.min(window.end_ns) } else { window.end_ns };
        let end = if end == u64::MAX { last_ns } else { end };
        end.saturating_sub(window.start_ns)
    }
}
