//! What an end saw of a trial in short slices: the material of the time budget and of events.
//! Knows what each column means, and neither sockets nor what is concluded.
//!
//! Columns, not rows: a trial has hundreds of slices, and names would be most of what is sent.

use std::collections::BTreeMap;

use linerate_machine::words;
use serde::{Deserialize, Serialize};

/// The measured part in slices of about [`Timeline::PERIOD_NS`], by the clock of the end that saw them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Where each slice ends, nanoseconds from the start of the measured part; the first begins there.
    pub ends_ns: Vec<u64>,
    /// Flows that this end sees, up to [`Timeline::MOST_FLOWS`] of them.
    pub flows: Vec<FlowTimeline>,
    /// The machine.
    pub machine: Columns<MachineColumn>,
}

impl Timeline {
    /// Length of a slice; longer where a trial would have more than [`Timeline::MOST_SLICES`].
    pub const PERIOD_NS: u64 = 50_000_000;
    /// As many slices as a trial has at most.
    pub const MOST_SLICES: u64 = 400;
    /// As many flows are watched: what limits one stream of a hundred limits the others.
    pub const MOST_FLOWS: usize = 8;
}

/// One flow in slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowTimeline {
    /// The flow's number.
    pub id: u16,
    /// What was seen of it.
    #[serde(flatten)]
    pub columns: Columns<FlowColumn>,
}

/// A value for each slice, by column. A column that is absent is unknown; one that is there is as long as
/// [`Timeline::ends_ns`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Columns<C: Ord>(pub BTreeMap<C, Vec<u64>>);

impl<C: Ord> Default for Columns<C> {
    fn default() -> Self {
        Columns(BTreeMap::new())
    }
}

impl<C: Ord + Copy> Columns<C> {
    /// The value of a slice.
    pub fn get(&self, column: C, slice: usize) -> Option<u64> {
        self.0.get(&column)?.get(slice).copied()
    }

    /// Appends one slice. A column of which a slice is unknown is dropped: its places would no longer be the slices'.
    pub fn push(&mut self, slice: usize, values: impl IntoIterator<Item = (C, Option<u64>)>) {
        for (column, value) in values {
            match value {
                Some(value) if slice == 0 => drop(self.0.insert(column, vec![value])),
                Some(value) => {
                    if let Some(values) = self.0.get_mut(&column).filter(|values| values.len() == slice) {
                        values.push(value);
                    }
                }
                None => drop(self.0.remove(&column)),
            }
        }
        self.0.retain(|_, values| values.len() == slice + 1);
    }
}

words! {
    /// What is seen of a flow in a slice: what it grew by, or (`…_now`) how it stands at its end. Of a TCP sender, fields of
    /// struct tcp_info (linux/tcp.h).
    FlowColumn {
        /// Octets of payload that this end moved.
        Octets = "octets",
        /// Messages that it moved.
        Messages = "messages",
        /// Datagrams that became missing; those that came late after all are no part of it.
        Missing = "missing",
        /// CPU time of the thread that moves them, µs (/proc/thread-self/schedstat, first field).
        RunUs = "run_us",
        /// Time in which it could have run and had no CPU, µs (second field).
        RunDelayUs = "run_delay_us",
        /// Time with data to send or on its way, µs (tcpi_busy_time).
        BusyUs = "busy_us",
        /// Of it, limited by the receive window (tcpi_rwnd_limited).
        ReceiveWindowUs = "receive_window_us",
        /// Of it, limited by the send buffer (tcpi_sndbuf_limited).
        SendBufferUs = "send_buffer_us",
        /// Smoothed round-trip time now, µs.
        RttUs = "rtt_us_now",
        /// The least round-trip time so far, µs.
        MinRttUs = "min_rtt_us_now",
        /// Congestion window now, segments.
        Cwnd = "cwnd_now",
        /// Slow start's threshold now, segments.
        Ssthresh = "ssthresh_now",
        /// Segments on their way now (tcpi_unacked).
        InFlight = "in_flight_now",
        /// Octets that wait in the socket and have not been sent, now (tcpi_notsent_bytes).
        NotSent = "not_sent_now",
        /// Segments retransmitted (tcpi_total_retrans).
        Retransmitted = "retransmitted",
        /// Segments that the receiver said it had already (tcpi_dsack_dups).
        Spurious = "spurious",
        /// Times that reordering was noticed (tcpi_reord_seen).
        Reordering = "reordering",
        /// Congestion state now: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss (tcpi_ca_state).
        CongestionState = "congestion_state_now",
        /// Times in a row that the retransmission timer ran out, now (tcpi_backoff).
        Backoff = "backoff_now",
        /// Delivery rate now, octets a second (tcpi_delivery_rate).
        DeliveryRate = "delivery_rate_now",
        /// Octets that wait in the socket for the program that reads, now (SIOCINQ, or its like).
        Unread = "unread_now",
    }
}

words! {
    /// What is seen of a machine in a slice: what it grew by, or (`…_now`) how it stands at its end.
    MachineColumn {
        /// How busy the busiest CPU was, per mille.
        BusiestCpu = "busiest_cpu",
        /// How busy softirqs kept the CPU that had most of them, per mille.
        BusiestSoftirq = "busiest_softirq",
        /// How much a hypervisor took of all CPUs, per mille.
        Steal = "steal",
        /// Frames that the interface received.
        RxPackets = "rx_packets",
        /// Frames that it sent.
        TxPackets = "tx_packets",
        /// Octets that it received.
        RxOctets = "rx_octets",
        /// Octets that it sent.
        TxOctets = "tx_octets",
        /// Frames that it dropped or found damaged on the way in.
        RxDropped = "rx_dropped",
        /// Frames that it dropped on the way out.
        TxDropped = "tx_dropped",
        /// Times that the carrier was lost or came back.
        CarrierChanges = "carrier_changes",
        /// Octets that wait in the interface's root queueing discipline, now.
        Backlog = "backlog_now",
        /// Frames that its queueing disciplines dropped.
        QdiscDropped = "qdisc_dropped",
        /// Times that they held frames back (overlimits).
        QdiscOverlimits = "qdisc_overlimits",
        /// Times that a poll of arrivals ran out of its budget (softnet_stat, time_squeeze).
        TimeSqueeze = "time_squeeze",
        /// Time in which this program's control group had no CPU because of its quota, µs (cpu.stat, throttled_usec).
        ThrottledUs = "throttled_us",
        /// How much later than planned the slice was cut, µs: this program did not run meanwhile.
        LateUs = "late_us",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_whole_or_absent() {
        let mut columns = Columns::default();
        columns.push(0, [(FlowColumn::Octets, Some(1)), (FlowColumn::Cwnd, Some(10)), (FlowColumn::Spurious, None)]);
        columns.push(1, [(FlowColumn::Octets, Some(2)), (FlowColumn::Cwnd, None), (FlowColumn::Spurious, Some(3))]);
        columns.push(2, [(FlowColumn::Octets, Some(4)), (FlowColumn::Cwnd, Some(10)), (FlowColumn::Spurious, Some(3))]);
        assert_eq!(columns.0, BTreeMap::from([(FlowColumn::Octets, vec![1, 2, 4])]));
        assert_eq!((columns.get(FlowColumn::Octets, 2), columns.get(FlowColumn::Octets, 3)), (Some(4), None));
        // One that nobody mentions any more.
        columns.push(3, [(FlowColumn::Messages, Some(1))]);
        assert_eq!(columns, Columns::default());
    }

    #[test]
    fn names_are_the_json() {
        let mut flow = FlowTimeline { id: 3, ..FlowTimeline::default() };
        flow.columns.push(0, [(FlowColumn::RttUs, Some(70))]);
        let json = serde_json::to_string(&flow).unwrap();
        assert_eq!(json, r#"{"id":3,"rtt_us_now":[70]}"#);
        assert_eq!(serde_json::from_str::<FlowTimeline>(&json).unwrap(), flow);
    }
}
