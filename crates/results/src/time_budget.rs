//! The time budget: every moment of a stream by what limited it, every moment of a transaction by where it was spent.
//! Knows both ends' time slices and what was asked; measures nothing, and makes no sentences.
//!
//! Conservation: the lines of a direction sum to its measured time, `unaccounted` among them.

use linerate_machine::end::{Direction, End};
use linerate_machine::words;
use serde::{Deserialize, Serialize};

pub(crate) mod slices;
mod stream;
#[cfg(test)]
mod tests;
mod transaction;

pub(crate) use stream::{Stream, stream};
pub(crate) use transaction::{Transactions, transactions};

/// The least time after which TCP sends again what was not acknowledged (TCP_RTO_MIN of Linux), seconds.
pub(crate) const TCP_RTO_MIN_S: f64 = 0.2;
/// A round trip that takes so many times the shortest has a queue in it, if that makes a millisecond or more besides: less,
/// a busy receiver makes.
const QUEUED: f64 = 1.5;
const QUEUED_US: f64 = 1000.0;

/// Whether a round trip has a queue in it, beside the shortest; microseconds.
pub(crate) fn is_queued(now_us: f64, least_us: f64) -> bool {
    now_us >= (QUEUED * least_us).max(least_us + QUEUED_US)
}

words! {
    /// What limits a stream at a moment, or where a transaction is.
    Limit {
        /// The rate that was asked for was reached.
        AskedRate = "asked-rate",
        /// The sending program had nothing to send, and did not wait for a CPU.
        SendingApplication = "sending-application",
        /// The sending thread ran all the time.
        SenderCpu = "sender-cpu",
        /// The sending thread could have run and had no CPU.
        SenderCpuWait = "sender-cpu-wait",
        /// The sending socket's buffer was full and held less than is on its way.
        SendBuffer = "send-buffer",
        /// A queueing discipline of the sender that keeps to a rate held frames back.
        Shaper = "shaper",
        /// Frames waited in the sender's queue for its interface.
        Qdisc = "qdisc",
        /// The sender's link, or the receiver's, was full.
        LinkRate = "link-rate",
        /// A queue stood between the two ends: what empties it is the limit.
        Path = "path",
        /// TCP's congestion window was still growing for the first time.
        SlowStart = "slow-start",
        /// TCP's congestion window, after loss or a mark of congestion (RFC 3168).
        CongestionWindow = "congestion-window",
        /// TCP's congestion window, after packets overtook each other.
        Reordering = "reordering",
        /// TCP's congestion window, with nothing lost: it grows by a segment a round trip.
        WindowGrowth = "window-growth",
        /// TCP's own pacing: what BBR takes for the rate of the bottleneck.
        Pacing = "pacing",
        /// The receiver's window, whose thread had time left.
        ReceiveWindow = "receive-window",
        /// The receiver's window, whose thread ran all the time.
        ReceiverCpu = "receiver-cpu",
        /// The receiver's window, whose thread could have run and had no CPU.
        ReceiverCpuWait = "receiver-cpu-wait",
        /// Softirqs had no CPU time left.
        Softirq = "softirq",
        /// Pause frames held the sender back.
        Pause = "pause",
        /// Nothing passed, though there was something to send.
        Outage = "outage",
        /// Of a transaction: the asking thread ran.
        RequesterRuns = "requester-runs",
        /// It could have run and had no CPU.
        RequesterWaits = "requester-waits-for-cpu",
        /// The answering thread ran.
        ResponderRuns = "responder-runs",
        /// It could have run and had no CPU.
        ResponderWaits = "responder-waits-for-cpu",
        /// On the way there and back, wake-ups included: what the quickest one took beside the threads.
        OnTheWay = "on-the-way",
        /// What others took longer than that: queues, sleeping CPUs, coalescing.
        Queues = "queues",
        /// Waiting for answers that never came, or that a retransmission brought.
        LostAndWaited = "lost-and-waited",
        /// None of these.
        Unaccounted = "unaccounted",
    }
}

/// How long one thing limited a direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeLine {
    /// Which way; of transactions, which way the requests went.
    pub direction: Direction,
    /// What.
    pub limit: Limit,
    /// At which machine; absent where it lies between them, or is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// For how long, seconds: of a stream, the mean of its flows; of a transaction, the mean.
    pub seconds: f64,
    /// Of the direction's time, 0 to 1.
    pub share: f64,
}

impl TimeLine {
    /// What it went to, a clause: `a shaper at the host's egress`.
    pub fn clause(&self) -> String {
        let whose = self.end.map_or("an end", End::name);
        let text = match self.limit {
            Limit::AskedRate => "the rate that was asked",
            Limit::SendingApplication => "the {}'s sending program, which had nothing to send",
            Limit::SenderCpu => "the {}'s sending thread, which was busy on a CPU",
            Limit::SenderCpuWait => "the {}'s sending thread, which waited for a CPU",
            Limit::SendBuffer => "the {}'s send buffer",
            Limit::Shaper => "a shaper at the {}'s egress",
            Limit::Qdisc => "the queue at the {}'s egress",
            Limit::LinkRate => "the link, which was full",
            Limit::Path => "a queue between the two ends",
            Limit::SlowStart => "TCP's window in slow start",
            Limit::CongestionWindow => "TCP's congestion window after loss or a mark (ECN)",
            Limit::Reordering => "TCP's congestion window after reordering",
            Limit::WindowGrowth => "TCP's congestion window, which was still growing",
            Limit::Pacing => "TCP's own pacing: what BBR takes for the bottleneck's rate",
            Limit::ReceiveWindow => "the {}'s receive window",
            Limit::ReceiverCpu => "the {}'s receiving thread, which was busy on a CPU",
            Limit::ReceiverCpuWait => "the {}'s receiving thread, which waited for a CPU",
            Limit::Softirq => "softirqs on a CPU of the {}",
            Limit::Pause => "pause frames that held the {} back",
            Limit::Outage => "nothing passed: an outage, or TCP's timer",
            Limit::RequesterRuns => "the {}'s thread that asks, running",
            Limit::RequesterWaits => "the {}'s thread that asks, waiting for a CPU",
            Limit::ResponderRuns => "the {}'s thread that answers, running",
            Limit::ResponderWaits => "the {}'s thread that answers, waiting for a CPU",
            Limit::OnTheWay => "the way there and back, wake-ups included",
            Limit::Queues => "queues and slow wake-ups beyond the quickest round trip",
            Limit::LostAndWaited => "waiting for what was lost",
            Limit::Unaccounted => "unaccounted",
        };
        text.replace("{}", whose)
    }
}

/// Sums of time by what it went to, in the order of [`Limit`].
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitSums(Vec<(Limit, Option<End>, f64)>);

impl LimitSums {
    pub(crate) fn add(&mut self, limit: Limit, end: Option<End>, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        match self.0.iter_mut().find(|(other, at, _)| (*other, *at) == (limit, end)) {
            Some((.., sum)) => *sum += seconds,
            None => self.0.push((limit, end, seconds)),
        }
    }

    /// The lines, the longest first, each divided by `over`.
    pub(crate) fn lines(mut self, direction: Direction, over: f64) -> Vec<TimeLine> {
        let all: f64 = self.0.iter().map(|(.., seconds)| seconds).sum();
        if all <= 0.0 {
            return Vec::new();
        }
        self.0.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        let line = |(limit, end, seconds): (Limit, Option<End>, f64)| TimeLine {
            direction,
            limit,
            end,
            seconds: round(seconds / over, 1e9),
            share: round(seconds / all, 1e5),
        };
        let lines = self.0.into_iter().map(line);
        // A tenth of a per mille is no line.
        lines.filter(|line| line.share >= 0.0001).collect()
    }
}

/// What follows is noise, and costs room in records.
fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
