//! What an end saw of a trial in short slices: the material of the time budget and of events.
//! Knows what each column means, and neither sockets nor what is concluded.
//!
//! Columns, not rows: a trial has hundreds of slices, and names would be most of what is sent. In JSON, `[n, value]` in a
//! column is n slices with the same value.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use linerate_machine::word::Word;
use linerate_machine::words;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The measured part in slices of about [`Timeline::PERIOD_NS`], by the clock of the end that saw them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Where each slice ends, nanoseconds from the start of the measured part; the first begins there.
    #[serde(deserialize_with = "values")]
    pub ends_ns: Vec<u64>,
    /// Flows that this end sees, up to [`Timeline::MOST_FLOWS`] of them.
    #[serde(deserialize_with = "first_flows")]
    pub flows: Vec<FlowTimeline>,
    /// The machine.
    pub machine: Columns<MachineColumn>,
}

impl Timeline {
    /// Length of a slice; longer where a trial would have more than [`Timeline::MOST_SLICES`].
    pub const PERIOD_NS: u64 = 50_000_000;
    /// As many slices as a trial of one flow has at most.
    pub const MOST_SLICES: u64 = 400;
    /// As many flows are watched: what limits one stream of a hundred limits the others.
    pub const MOST_FLOWS: usize = 8;

    /// As many slices as a trial of so many flows has at most: a board's serial line carries a timeline in seconds.
    pub const fn most_slices(flows: usize) -> u64 {
        let flows = if flows > Timeline::MOST_FLOWS { Timeline::MOST_FLOWS } else { flows };
        2 * Timeline::MOST_SLICES / (if flows == 0 { 2 } else { flows as u64 + 1 })
    }
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
#[derive(Clone, Debug, PartialEq)]
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

impl<C: Ord + Copy + Serialize> Serialize for Columns<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(column, values)| (column, Runs(values))))
    }
}

impl<'de, C: Ord + Word> Deserialize<'de> for Columns<C> {
    /// Columns of a later version are left out.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfColumns<C>(PhantomData<C>);

        impl<'de, C: Ord + Word> Visitor<'de> for OfColumns<C> {
            type Value = Columns<C>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("columns by their names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Columns<C>, A::Error> {
                let mut columns = Columns::default();
                while let Some(name) = map.next_key::<String>()? {
                    match C::read(&name) {
                        Some(column) => {
                            columns.0.insert(column, map.next_value::<Values>()?.0);
                        }
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(columns)
            }
        }
        deserializer.deserialize_map(OfColumns(PhantomData))
    }
}

/// A column's values, those that repeat only once: most columns are zero most of the time.
struct Runs<'a>(&'a [u64]);

/// From so many equal values on, a run is shorter than they are.
const LEAST_RUN: usize = 4;
/// A column that is longer, ten times what an agent makes, was made by nobody in good faith: a run of a few octets would take
/// any memory.
const MOST_VALUES: u64 = 10 * Timeline::MOST_SLICES;

impl Serialize for Runs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for run in self.0.chunk_by(PartialEq::eq) {
            if run.len() >= LEAST_RUN {
                list.serialize_element(&(run.len(), run[0]))?;
            } else {
                run.iter().try_for_each(|value| list.serialize_element(value))?;
            }
        }
        list.end()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    One(u64),
    Run(u64, u64),
}

/// A column as it is read.
struct Values(Vec<u64>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        values(deserializer).map(Values)
    }
}

fn values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    whole(&Vec::<Part>::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("too many slices"))
}

/// As many flows as are watched; an agent of a later version may watch more.
fn first_flows<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FlowTimeline>, D::Error> {
    struct First;

    impl<'de> Visitor<'de> for First {
        type Value = Vec<FlowTimeline>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("flows")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<FlowTimeline>, A::Error> {
            let mut flows = Vec::new();
            while flows.len() < Timeline::MOST_FLOWS {
                let Some(flow) = list.next_element()? else { return Ok(flows) };
                flows.push(flow);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(flows)
        }
    }
    deserializer.deserialize_seq(First)
}

fn whole(parts: &[Part]) -> Option<Vec<u64>> {
    let mut values = Vec::new();
    for part in parts {
        match *part {
            Part::One(value) => values.push(value),
            Part::Run(count, value) if count <= MOST_VALUES - values.len() as u64 => {
                values.resize(values.len() + count as usize, value);
            }
            Part::Run(..) => return None,
        }
        if values.len() as u64 > MOST_VALUES {
            return None;
        }
    }
    Some(values)
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
        /// Octets that wait in the socket for the program that reads, now (SIOCINQ); of UDP the memory that they take, as
        /// the receive buffer counts it (SK_MEMINFO_RMEM_ALLOC).
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
        /// How much later than planned the slice was cut, µs: this program did not run meanwhile. Below 1000 it is 0.
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
        let later = r#"{"id":3,"rtt_us_now":[70],"of_a_later_version":[[1,2]]}"#;
        assert_eq!(serde_json::from_str::<FlowTimeline>(later).unwrap(), flow);
    }

    #[test]
    fn what_repeats_is_written_once() {
        for (values, json) in [
            (vec![], "[]"),
            (vec![0, 0, 0], "[0,0,0]"),
            (vec![0, 0, 0, 0, 7], "[[4,0],7]"),
            (vec![5, 1, 1, 1, 1, 1, 1], "[5,[6,1]]"),
        ] {
            let columns = Columns(BTreeMap::from([(MachineColumn::Steal, values)]));
            let text = serde_json::to_string(&columns).unwrap();
            assert_eq!(text, format!(r#"{{"steal":{json}}}"#));
            assert_eq!(serde_json::from_str::<Columns<MachineColumn>>(&text).unwrap(), columns);
        }
        for bomb in ["[[18446744073709551615,0]]", "[[65536,0],1]", "[[65536,0],[65536,0]]", "[[-1,0]]", "[[1,2,3]]"] {
            assert!(serde_json::from_str::<Columns<MachineColumn>>(&format!(r#"{{"steal":{bomb}}}"#)).is_err());
        }
    }

    /// A line of an agent may have 16 MiB, and each of its octets could stand for thousands.
    #[test]
    fn a_short_line_makes_no_large_timeline() {
        let run = format!("[[{MOST_VALUES},7]]");
        let flow = format!(r#"{{"id":0,"octets":{run},"cwnd_now":{run}}}"#);
        let flows = vec![flow; 100_000].join(",");
        let timeline: Timeline = serde_json::from_str(&format!(r#"{{"ends_ns":{run},"flows":[{flows}]}}"#)).unwrap();
        assert_eq!((timeline.flows.len(), timeline.ends_ns.len() as u64), (Timeline::MOST_FLOWS, MOST_VALUES));
        assert_eq!(timeline.flows[7].columns.0[&FlowColumn::Cwnd].len() as u64, MOST_VALUES);
        let longer = format!(r#"{{"ends_ns":[[{},1]]}}"#, MOST_VALUES + 1);
        assert!(serde_json::from_str::<Timeline>(&longer).is_err());
    }

    #[test]
    fn many_flows_have_longer_slices() {
        assert_eq!([0, 1, 3, 8, 100].map(Timeline::most_slices), [400, 400, 200, 88, 88]);
    }
}
