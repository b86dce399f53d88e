//! What is seen of one flow in a slice: what it moved, its thread's time, TCP's own account.
//! Knows no slices; each reading is set against the one before.

use std::sync::Arc;

use linerate_machine::end::End;
use linerate_trial::flow::Flow;
use linerate_trial::spec::Workload;
use linerate_trial::timeline::FlowColumn;

use crate::schedstat::{SchedStat, Scheduled};
use crate::sys::socket_state::{Field8, Field32, Field64, TcpInfo, receive_memory, unread};
use crate::traffic::ledger::Reader;
use crate::traffic::presence::Presence;

/// One flow, as this end sees it.
pub struct FlowSampler {
    flow: Flow,
    presence: Arc<Presence>,
    sees: Sees,
    schedstat: Option<SchedStat>,
    before: Reading,
}

/// What of its socket says something at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sees {
    /// It sends over TCP.
    tcp: bool,
    /// It receives: what has arrived and is not read.
    unread: bool,
    /// It counts what is missing.
    missing: bool,
}

#[derive(Clone, Default)]
struct Reading {
    counts: Reader,
    scheduled: Option<Scheduled>,
    tcp: Option<TcpInfo>,
    unread: Option<u64>,
}

impl FlowSampler {
    /// A flow whose thread shows itself by `presence`.
    pub fn new(flow: Flow, end: End, presence: Arc<Presence>) -> FlowSampler {
        let (sends, by_requests) = (flow.source == end, !flow.workload.is_stream());
        // Each transaction of tcp-crr has a connection of its own, and the flow's socket is not among them.
        let has_socket = flow.workload != Workload::TcpCrr;
        let sees = Sees {
            tcp: has_socket && flow.workload.is_tcp() && (sends || by_requests),
            unread: has_socket && (!sends || by_requests),
            missing: flow.workload.is_numbered() && !sends,
        };
        FlowSampler { flow, presence, sees, schedstat: None, before: Reading::default() }
    }

    /// The flow's number.
    pub fn id(&self) -> u16 {
        self.flow.id
    }

    /// The first slice begins.
    pub fn begin(&mut self, counts: &Reader) {
        self.before = self.read(counts);
    }

    /// What it grew by since the last time, and how it stands.
    pub fn cut(&mut self, counts: &Reader) -> Vec<(FlowColumn, Option<u64>)> {
        let now = self.read(counts);
        let columns = now.since(&self.before, self.sees);
        self.before = now;
        columns
    }

    fn read(&mut self, counts: &Reader) -> Reading {
        if self.schedstat.is_none() {
            self.schedstat = self.presence.take_schedstat().map(SchedStat::new);
        }
        let Sees { tcp, unread: sees_unread, .. } = self.sees;
        let is_tcp = self.flow.workload.is_tcp();
        let of_socket = self.presence.look(|socket| {
            let waiting = || if is_tcp { unread(socket).ok().map(u64::from) } else { receive_memory(socket) };
            (tcp.then(|| TcpInfo::of(socket).ok()).flatten(), sees_unread.then(waiting).flatten())
        });
        let before = &self.before;
        Reading {
            counts: counts.clone(),
            // A thread that has ended uses nothing more, and leaves its connection as it was.
            scheduled: self.schedstat.as_ref().and_then(SchedStat::read).or(before.scheduled),
            tcp: match &of_socket {
                Some((tcp, _)) => tcp.clone(),
                None => before.tcp.clone(),
            },
            unread: match of_socket {
                Some((_, unread)) => unread,
                None => before.unread.map(|_| 0),
            },
        }
    }
}

impl Reading {
    fn since(&self, before: &Reading, sees: Sees) -> Vec<(FlowColumn, Option<u64>)> {
        let mut columns = vec![
            (FlowColumn::Octets, Some(self.counts.octets - before.counts.octets)),
            (FlowColumn::Messages, Some(self.counts.messages - before.counts.messages)),
        ];
        if sees.missing {
            columns.push((FlowColumn::Missing, Some(self.counts.missing.saturating_sub(before.counts.missing))));
        }
        let grew = |of: fn(&Scheduled) -> u64| {
            // A thread of which nothing was told when the slice began had not run.
            let before = before.scheduled.as_ref().map_or(0, of);
            Some(of(self.scheduled.as_ref()?).saturating_sub(before) / 1000)
        };
        columns.push((FlowColumn::RunUs, grew(|time| time.run_ns)));
        columns.push((FlowColumn::RunDelayUs, grew(|time| time.delay_ns)));
        if sees.unread {
            columns.push((FlowColumn::Unread, self.unread));
        }
        if sees.tcp {
            columns.extend(of_tcp(self.tcp.as_ref(), before.tcp.as_ref()));
        }
        columns
    }
}

fn of_tcp(now: Option<&TcpInfo>, before: Option<&TcpInfo>) -> [(FlowColumn, Option<u64>); 15] {
    let state8 = |field| now?.get8(field).map(u64::from);
    let state32 = |field| now?.get32(field).map(u64::from);
    let grew32 = |field| Some(u64::from(now?.get32(field)?.wrapping_sub(before?.get32(field)?)));
    let grew64 = |field| Some(now?.get64(field)?.saturating_sub(before?.get64(field)?));
    // Without a measurement it is ~0; the smoothed one is the best there is, then.
    let min_rtt = state32(Field32::MinRtt)
        .and_then(|least| if least == u64::from(u32::MAX) { state32(Field32::Rtt) } else { Some(least) });
    [
        (FlowColumn::BusyUs, grew64(Field64::BusyTime)),
        (FlowColumn::ReceiveWindowUs, grew64(Field64::RwndLimited)),
        (FlowColumn::SendBufferUs, grew64(Field64::SndbufLimited)),
        (FlowColumn::RttUs, state32(Field32::Rtt)),
        (FlowColumn::MinRttUs, min_rtt),
        (FlowColumn::Cwnd, state32(Field32::SndCwnd)),
        (FlowColumn::Ssthresh, state32(Field32::SndSsthresh)),
        (FlowColumn::InFlight, state32(Field32::Unacked)),
        (FlowColumn::NotSent, state32(Field32::NotsentBytes)),
        (FlowColumn::Retransmitted, grew32(Field32::TotalRetrans)),
        (FlowColumn::Spurious, grew32(Field32::DsackDups)),
        (FlowColumn::Reordering, grew32(Field32::ReordSeen)),
        (FlowColumn::CongestionState, state8(Field8::CaState)),
        (FlowColumn::Backoff, state8(Field8::Backoff)),
        (FlowColumn::DeliveryRate, now.and_then(|now| now.get64(Field64::DeliveryRate))),
    ]
}
