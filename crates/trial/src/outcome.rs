//! What one end of a trial saw: the material from which a record is made.
//! Knows nothing of the other end; [`linerate_path::budget`] and the record join the two.

use linerate_machine::cpu::{CpuShares, CpuUse};
use linerate_machine::end::End;
use linerate_machine::environment::Environment;
use linerate_machine::profile::Profile;
use linerate_machine::registers::AroundTrial;
use linerate_path::drop_reason::DropReason;
use linerate_path::stage::Counters;
use serde::{Deserialize, Serialize};

use crate::api::{ApiUse, Timestamps};
use crate::arrivals::Arrivals;
use crate::doubt::Doubt;
use crate::event::Event;
use crate::histogram::Histogram;
use crate::pace::Pacing;
use crate::timeline::Timeline;

/// What one end saw of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which end this is.
    pub end: End,
    /// Each flow, in the order of their numbers.
    pub flows: Vec<FlowOutcome>,
    /// This end had the trial ended before its time, for more was lost than could be forgiven, or another tool's client left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended_early: bool,
    /// CPU use over the measured part; `None` where /proc/stat cannot be read.
    pub cpu: Option<CpuUse>,
    /// CPU use in time slices.
    pub cpu_slices: Vec<CpuSlice>,
    /// The measured part in short slices; empty of an agent that does not tell.
    #[serde(default)]
    pub timeline: Timeline,
    /// What happened during the trial, as far as this end saw it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// What the machine's counters grew by over the whole trial, warm-up included.
    pub counters: Counters,
    /// What the kernel dropped over the whole trial and why, where that was asked for and could be traced.
    pub drop_reasons: Option<Vec<DropReason>>,
    /// Registers before and after, where they were wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<AroundTrial>,
    /// Reasons not to trust a figure, as far as this end can tell.
    pub doubts: Vec<Doubt>,
    /// What the CPUs did in the measured part, where that was asked for and could be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Box<Profile>>,
    /// What another tool's end told of its machine, which has no agent to describe it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Box<Environment>>,
}

impl Outcome {
    /// What an end saw that tells of its flows only.
    pub fn of_flows(end: End, flows: Vec<FlowOutcome>) -> Outcome {
        Outcome {
            end,
            flows,
            ended_early: false,
            cpu: None,
            cpu_slices: Vec::new(),
            timeline: Timeline::default(),
            events: Vec::new(),
            counters: Counters::default(),
            drop_reasons: None,
            registers: None,
            profile: None,
            told: None,
            doubts: Vec::new(),
        }
    }
}

/// One flow, from one end. Octets and packets are payload; "measured" is what followed the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// The flow's number.
    pub id: u16,
    /// What this end did in it.
    pub role: Role,
    /// Octets of payload in the measured part.
    pub octets: u64,
    /// Messages (writes, reads, datagrams or transactions) in the measured part.
    pub messages: u64,
    /// Octets over the whole trial.
    pub octets_total: u64,
    /// Messages over the whole trial.
    pub messages_total: u64,
    /// Length of the measured part by this end's clock, nanoseconds.
    pub elapsed_ns: u64,
    /// Time slices from the start of the measured part.
    pub slices: Vec<Slice>,
    /// How the data went through the socket.
    #[serde(default)]
    pub api: ApiUse,
    /// System calls that moved data, over the whole trial.
    pub calls: u64,
    /// What the thread that moved the data used, over the whole trial.
    pub thread: ThreadUse,
    /// Who kept this end to its offered load; a sender of a limited one has it.
    pub pacing: Option<Pacing>,
    /// Times between departures in the measured part; a sender of a stream has it.
    pub departure_gaps: Option<Histogram>,
    /// Datagrams as they arrived; a receiver of a UDP stream has it.
    pub arrivals: Option<Arrivals>,
    /// Who noted when they arrived: what the times in `arrivals` are of.
    pub timestamps: Option<Timestamps>,
    /// Datagrams that this socket dropped because its buffer was full (SO_MEMINFO), over the whole trial.
    pub socket_drops: Option<u64>,
    /// Datagrams that the kernel refused to take (ENOBUFS and the like), over the whole trial. They bear
    /// numbers and are counted as sent: they are lost at the sender's socket.
    pub send_errors: u64,
    /// Times that the kernel had no room for a datagram or an end mark, or told of an earlier one, and it was then handed over again:
    /// counters of the kernel take each for a drop (net/ipv4/udp.c, udp_sendmsg), and nothing was lost.
    #[serde(default)]
    pub send_retries: u64,
    /// End marks that a UDP sender sent, or that a receiver heard. They are no messages, and may be lost like one.
    #[serde(default)]
    pub end_marks: u64,
    /// Datagrams among those sent that were on their way when the test was over: whether they arrived, nobody saw. A sender to
    /// another tool's receiver has it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub under_way: u64,
    /// Times from request to response; a requester has it. Of frames those from sender to receiver, which a receiver has, where
    /// both read one clock as far as it can tell.
    pub latency: Option<Histogram>,
    /// Requests sent over the whole trial; a requester has it. Those that were answered are `messages_total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Requests of the measured part without a response in time, or at the end; a requester over UDP has it.
    pub timeouts: Option<u64>,
    /// TCP's own account at the end of the flow.
    pub tcp: Option<TcpSummary>,
    /// Its segments over the whole connection, read when the other end had closed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<Segments>,
    /// What had arrived at the other machine; a sender over TCP to another tool's receiver has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledged>,
    /// What the socket's buffer really is, octets: the sending one of a sender, else the receiving one.
    pub socket_buffer: Option<u64>,
    /// The largest packet that the kernel takes the way to the other end to carry, at the end of a flow of datagrams: its link's, or
    /// what a router said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// What only frames have; a stream of them has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<Box<FrameCounts>>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What of a stream's measured part the other machine had acknowledged, and when that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Octets of payload.
    pub octets: u64,
    /// Nanoseconds from the start of the measured part.
    pub elapsed_ns: u64,
}

/// What one end of a stream of frames counted beside what all streams have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Frames of the measured part by size, those late included: sent at a sender, different ones received at a receiver.
    pub sizes: Vec<SizeCount>,
    /// Frames with the trial's secret that are not as they were sent: of another length, or not to be read.
    #[serde(default)]
    pub malformed: u64,
    /// Frames that came to the port over the whole trial and are not the trial's; the receiver of the first stream has it,
    /// where it could look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Vec<Foreign>>,
    /// Frames that the kernel took, of all of an end's streams, and its interface then dropped instead of sending them: they
    /// are in all counts here. A sender of the first stream has it, where its interface tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<Unsent>,
    /// Frames of this stream that an XDP program counted, and dropped, over the whole trial: the driver takes them for lost.
    #[serde(default)]
    pub taken: u64,
    /// How the flows of this stream differ in what they lost, over the whole trial; absent where it has one only, or the receiver does
    /// not tell them apart, or did not hear how many frames were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowCounts>,
}

/// Flows of a stream of frames: those of which next to nothing arrived, and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// How many there are.
    pub all: u64,
    /// Of so many at most 2 % arrived, of ten frames at least.
    pub dead: u64,
    /// Frames of these that were sent.
    pub dead_sent: u64,
    /// Of these, how many did not arrive.
    pub dead_lost: u64,
    /// Frames of the others that were sent.
    pub others_sent: u64,
    /// Of these, how many did not arrive.
    pub others_lost: u64,
}

impl FlowCounts {
    /// Of fewer frames nothing is told.
    const LEAST: u64 = 10;

    /// By what arrived of each flow; `sent` frames went round all of them, and in each turn one of each size to a flow.
    pub fn of(arrived: &[u64], sent: u64, sizes: u64) -> FlowCounts {
        let (all, sizes) = (arrived.len() as u64, sizes.max(1));
        let mut counts = FlowCounts { all, ..FlowCounts::default() };
        let (rounds, rest) = (sent / (all * sizes).max(1), sent % (all * sizes).max(1));
        for (flow, arrived) in (0..).zip(arrived) {
            let of_last = rest.saturating_sub(flow * sizes).min(sizes);
            let sent = rounds.saturating_mul(sizes).saturating_add(of_last);
            let lost = sent.saturating_sub(*arrived);
            if sent >= FlowCounts::LEAST && lost.saturating_mul(50) >= sent.saturating_mul(49) {
                counts.dead += 1;
                counts.dead_sent = counts.dead_sent.saturating_add(sent);
                counts.dead_lost = counts.dead_lost.saturating_add(lost);
            } else {
                counts.others_sent = counts.others_sent.saturating_add(sent);
                counts.others_lost = counts.others_lost.saturating_add(lost);
            }
        }
        counts
    }

    /// Both together, of two streams.
    pub fn with(self, other: FlowCounts) -> FlowCounts {
        let sum = |of: fn(&FlowCounts) -> u64| of(&self).saturating_add(of(&other));
        FlowCounts {
            all: sum(|one| one.all),
            dead: sum(|one| one.dead),
            dead_sent: sum(|one| one.dead_sent),
            dead_lost: sum(|one| one.dead_lost),
            others_sent: sum(|one| one.others_sent),
            others_lost: sum(|one| one.others_lost),
        }
    }
}

/// Frames that were taken and not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsent {
    /// Of the measured part.
    pub measured: u64,
    /// Over the whole trial.
    pub total: u64,
}

/// Frames of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCount {
    /// Octets of each, FCS counted.
    pub octets: u32,
    /// How many.
    pub frames: u64,
}

/// Frames of one type that are not the trial's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// The EtherType, as Ethernet numbers it; below 1536 a length (IEEE 802.3, clause 3.2.6); `None`: of types beyond
    /// those told apart.
    pub ethertype: Option<u16>,
    /// How many.
    pub frames: u64,
}

impl FrameCounts {
    /// The most types of foreign frames that are told apart.
    const MOST_TYPES: usize = 32;

    /// More frames of this size.
    pub fn add(&mut self, octets: u32, frames: u64) {
        match self.sizes.iter_mut().find(|one| one.octets == octets) {
            Some(one) => one.frames = one.frames.saturating_add(frames),
            None => {
                self.sizes.push(SizeCount { octets, frames });
                self.sizes.sort_by_key(|one| one.octets);
            }
        }
    }

    /// A foreign frame came.
    pub fn handle_foreign(&mut self, ethertype: u16) {
        self.add_foreign(Some(ethertype), 1);
    }

    /// So many foreign frames of a type came; `None`: of types that nobody told apart.
    pub fn add_foreign(&mut self, ethertype: Option<u16>, frames: u64) {
        let foreign = self.foreign.get_or_insert_default();
        // All lengths are one kind.
        let ethertype = ethertype.map(|ethertype| if ethertype < 1536 { 0 } else { ethertype });
        let is_known = foreign.iter().any(|one| one.ethertype == ethertype);
        let kind = ethertype.filter(|_| is_known || foreign.len() < FrameCounts::MOST_TYPES);
        match foreign.iter_mut().find(|one| one.ethertype == kind) {
            Some(one) => one.frames = one.frames.saturating_add(frames),
            None => foreign.push(Foreign { ethertype: kind, frames }),
        }
    }
}

impl FlowOutcome {
    /// An account with nothing in it yet.
    pub fn new(id: u16, role: Role) -> FlowOutcome {
        FlowOutcome {
            id,
            role,
            octets: 0,
            messages: 0,
            octets_total: 0,
            messages_total: 0,
            elapsed_ns: 0,
            slices: Vec::new(),
            api: ApiUse::default(),
            calls: 0,
            thread: ThreadUse::default(),
            pacing: None,
            departure_gaps: None,
            arrivals: None,
            timestamps: None,
            socket_drops: None,
            send_errors: 0,
            send_retries: 0,
            end_marks: 0,
            under_way: 0,
            latency: None,
            requests: None,
            timeouts: None,
            tcp: None,
            segments: None,
            acknowledged: None,
            socket_buffer: None,
            path_mtu: None,
            frames: None,
        }
    }
}

impl FlowOutcome {
    /// The flow did not come to its end: of a thread that told nothing, what its slices and counts tell.
    pub fn handle_unfinished(&mut self, slices: &[Slice], octets: u64, messages: u64) {
        if self.messages_total == 0 {
            (self.octets_total, self.messages_total) = (octets, messages);
            self.octets = slices.iter().map(|slice| slice.octets).sum();
            self.messages = slices.iter().map(|slice| slice.messages).sum();
        }
        // It lasted until it was given up, whenever the last octet came.
        self.elapsed_ns = self.elapsed_ns.max(slices.last().map_or(0, |slice| slice.end_ns));
    }
}

/// What an end does in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends a stream.
    Sender,
    /// Receives a stream.
    Receiver,
    /// Sends requests.
    Requester,
    /// Sends responses.
    Responder,
}

/// A slice of a flow's measured time, by the clock of the end that saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// From the start of the measured part.
    pub start_ns: u64,
    /// To here.
    pub end_ns: u64,
    /// Octets of payload.
    pub octets: u64,
    /// Messages.
    pub messages: u64,
    /// Datagrams that were missing at the end of the slice and not at its start; fewer when late ones arrived.
    pub missing: Option<i64>,
    /// TCP's state at the end of the slice.
    pub tcp: Option<TcpSample>,
}

/// TCP's state at one moment (struct tcp_info of linux/tcp.h). Absent where the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Its mean deviation, microseconds.
    pub rttvar_us: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Segments retransmitted so far.
    pub retransmissions: u32,
    /// The kernel's estimate of the delivery rate, octets per second.
    pub delivery_rate: Option<u64>,
    /// The peer's advertised window, octets.
    pub send_window: Option<u32>,
    /// Time so far with data to send or on its way, microseconds. In the rest the application gave nothing to send.
    pub busy_us: Option<u64>,
    /// Time so far in which the receiver's window limited sending, microseconds, of the busy time.
    pub limited_by_receive_window_us: Option<u64>,
    /// Time so far in which the send buffer limited sending, microseconds, of the busy time.
    pub limited_by_send_buffer_us: Option<u64>,
}

/// TCP's account of a whole flow (struct tcp_info). Absent where the kernel, or another tool's end, does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSummary {
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Smallest round-trip time the kernel saw, seconds.
    pub min_rtt_s: Option<f64>,
    /// Smoothed round-trip time at the end, seconds.
    pub rtt_s: Option<f64>,
    /// Congestion window at the end, segments.
    pub cwnd: Option<u32>,
    /// Maximum segment size in use for sending, octets.
    pub mss: Option<u32>,
    /// Fraction of the busy time in which the receiver's window limited sending.
    pub limited_by_receive_window: Option<f64>,
    /// Fraction of the busy time in which the send buffer limited sending.
    pub limited_by_send_buffer: Option<f64>,
    /// Fraction of the connection's time in which the application gave nothing to send.
    pub limited_by_application: Option<f64>,
    /// Segments that arrived out of order at this end; in a record, at the receiver.
    pub reordered_segments: Option<u64>,
    /// Data segments sent, those retransmitted included.
    pub segments_sent: Option<u64>,
    /// Data segments received.
    pub segments_received: Option<u64>,
    /// The congestion control in use.
    pub congestion_control: Option<String>,
    /// The largest packet that the kernel believes to pass, octets (tcpi_pmtu).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// Whether each segment bears timestamps (RFC 7323): 12 octets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<bool>,
    /// Whether both ends say which segments they have (selective acknowledgements, RFC 2018).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// Whether windows may be larger than 65,535 octets (RFC 7323, section 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_scaling: Option<bool>,
    /// Whether both ends agreed on explicit congestion notification (RFC 3168): data segments say that they may be marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Payload sent, that of retransmitted segments included, octets (tcpi_bytes_sent).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Of that, what was retransmitted (tcpi_bytes_retrans).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_retransmitted: Option<u64>,
    /// Data segments that were sent and never arrived, by the counts of both ends over the whole connection; absent where
    /// either does not tell, or some were on their way when they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_lost: Option<u64>,
    /// Segments retransmitted that the receiver had already (DSACK, RFC 2883).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spurious_retransmissions: Option<u64>,
}

/// A connection's data segments as one end counted them (struct tcp_info). Absent where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Sent, those retransmitted included (tcpi_data_segs_out).
    pub sent: u64,
    /// Received (tcpi_data_segs_in).
    pub received: u64,
    /// Sent again (tcpi_total_retrans).
    pub retransmitted: u64,
    /// Of them, those that the receiver said it had already (tcpi_dsack_dups).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spurious: Option<u64>,
    /// Not acknowledged at that time, sent or not (tcpi_unacked, and tcpi_notsent_bytes in full segments): 0 where the connection was
    /// emptied.
    pub unacknowledged: u64,
}

impl TcpSummary {
    /// Whether its congestion control goes by a rate that it has measured, and not by a window that loss makes smaller (BBR).
    pub fn goes_by_rate(&self) -> bool {
        self.congestion_control.as_deref().is_some_and(|name| name.starts_with("bbr"))
    }

    /// Segments that had to be retransmitted: without those of which the receiver says that it had them already. Where the way doubles
    /// packets, more may be called so than were retransmitted.
    pub fn needed_retransmissions(&self) -> u64 {
        self.retransmissions.saturating_sub(self.spurious_retransmissions.unwrap_or(0))
    }
}

/// What a thread used (getrusage(2), RUSAGE_THREAD), and what it did not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// User time, seconds.
    pub user_s: f64,
    /// System time, seconds.
    pub system_s: f64,
    /// Page faults that needed a disk.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because its time was up.
    pub involuntary_switches: u64,
    /// Time for which it could have run and waited for a CPU, seconds; absent where the kernel does not tell.
    pub run_delay_s: Option<f64>,
}

impl std::ops::Add for ThreadUse {
    type Output = ThreadUse;

    fn add(self, other: ThreadUse) -> ThreadUse {
        ThreadUse {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            major_faults: self.major_faults.saturating_add(other.major_faults),
            minor_faults: self.minor_faults.saturating_add(other.minor_faults),
            voluntary_switches: self.voluntary_switches.saturating_add(other.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_add(other.involuntary_switches),
            run_delay_s: match (self.run_delay_s, other.run_delay_s) {
                (Some(one), Some(other)) => Some(one + other),
                (one, other) => one.or(other),
            },
        }
    }
}

/// A machine's CPU use in one time slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuSlice {
    /// From the start of the measured part, nanoseconds.
    pub start_ns: u64,
    /// To here.
    pub end_ns: u64,
    /// Fractions of the whole machine.
    pub machine: CpuShares,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_dead_or_lose_as_others_do() {
        // 4 flows of 25 frames, and one more of the first.
        let counts = FlowCounts::of(&[26, 0, 20, 25], 101, 1);
        let wanted = FlowCounts { all: 4, dead: 1, dead_sent: 25, dead_lost: 25, others_sent: 76, others_lost: 5 };
        assert_eq!(counts, wanted);
        // Two sizes in turn: 3 frames of the last round, of which the second flow has one.
        let counts = FlowCounts::of(&[12, 0], 23, 2);
        assert_eq!((counts.others_sent, counts.dead_sent, counts.dead), (12, 11, 1));
        // Of few frames none is dead.
        assert_eq!(FlowCounts::of(&[3, 0], 6, 1).dead, 0);
        assert_eq!(FlowCounts::of(&[], 6, 1), FlowCounts::default());
        assert_eq!(wanted.with(wanted).dead_lost, 50);
    }
}
