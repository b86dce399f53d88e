//! What a flow's thread is given, and what it does with it.
//! Knows which role calls which file; the files know the traffic.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_trial::flow::{End, Flow};
use linerate_trial::outcome::{FlowOutcome, Role, TcpSample, TcpSummary};
use linerate_trial::pace::Pacer;
use linerate_trial::setting::Scheduling;
use linerate_trial::spec::{PROBE_PPS, Spec, Workload};
use linerate_trial::units::OfferedLoad;
use socket2::Socket;

use super::api::Chosen;
use super::clock::{TrialClock, Window};
use super::framing::Framing;
use super::ledger::Ledger;
use super::pacing::Paced;
use super::sockets::{Open, Tokens};
use super::wait::bound_spin;
pub use super::wait::wait_until;
use super::{TrafficError, connections, requests, tcp_stream, udp_stream};
use crate::scheduling;
use crate::sys::socket_state::{Field32, Field64, TcpInfo};
use crate::sys::thread;

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
    /// Runs the flow to its end, in this thread.
    pub fn run(mut self) -> Result<FlowOutcome, TrafficError> {
        if self.open.flow.probe {
            self.spec = Arc::new(probe_spec(&self.spec));
        }
        let cpus = thread::allowed_cpus().unwrap_or_default();
        // Before pinning: what counts is the CPUs that all threads of this end have.
        bound_spin(Flow::of(&self.spec).iter().filter(|flow| flow.source == self.end).count(), cpus.len());
        if self.spec.pin && !cpus.is_empty() {
            let cpu = cpus[self.index % cpus.len()];
            thread::pin_to_cpu(cpu)
                .map_err(|error| TrafficError::Moving { what: format!("cannot pin a thread to CPU {cpu}"), error })?;
        }
        if let Some(wanted) = self.receivers.filter(|_| self.open.flow.source != self.end) {
            let got = scheduling::apply(wanted);
            let why = match got {
                Ok(got) if got == wanted => None,
                Ok(got) => Some(format!("the kernel made {got} of it; choose another")),
                Err(why) => Some(why),
            };
            if let Some(why) = why {
                return Err(TrafficError::Scheduling { scheduling: wanted, why });
            }
        }
        // Sleeps between departures should end when asked, not 50 µs later (prctl(2), PR_SET_TIMERSLACK).
        let _ = thread::set_timer_slack_ns(1);
        let (socket, clock) = (self.open.socket.try_clone().map_err(TrafficError::System)?, self.clock.clone());
        let is_tcp = !self.open.flow.workload.is_udp();
        if is_tcp {
            // Should the flow end anyhow but in order (a stop, a failure, SIGKILL), the kernel must not go on sending
            // what its buffer holds: a linger time of zero makes closing a reset (socket(7), SO_LINGER).
            socket.set_linger(Some(Duration::ZERO)).map_err(TrafficError::System)?;
        }
        let pacing = self.paced.map(|paced| paced.pacing);
        let outcome = FlowOutcome { pacing, ..self.run_role()? };
        if is_tcp && !clock.aborted() {
            let _ = socket.set_linger(None);
        }
        Ok(outcome)
    }

    fn run_role(self) -> Result<FlowOutcome, TrafficError> {
        let source = self.open.flow.source == self.end;
        match (self.chosen, self.open.flow.workload, source) {
            (Chosen::OctetsOut(api), ..) => tcp_stream::send(self, api),
            (Chosen::OctetsIn(api), ..) => tcp_stream::receive(self, api),
            (Chosen::DatagramsOut(api, asked), ..) => udp_stream::send(self, api, asked),
            (Chosen::DatagramsIn(api, timestamps), ..) => udp_stream::receive(self, api, timestamps),
            (Chosen::Neither, Workload::TcpCrr, true) => connections::ask(self),
            (Chosen::Neither, Workload::TcpCrr, false) => connections::answer(self),
            (Chosen::Neither, _, true) => requests::ask(self),
            (Chosen::Neither, Workload::TcpRr, false) => requests::answer_tcp(self),
            (Chosen::Neither, _, false) => requests::answer_udp(self),
        }
    }

    /// The departures of this flow; `None` when its load is unlimited.
    pub fn pacer(&self, message_octets: u64, start_ns: u64) -> Option<Pacer> {
        let gap_ns = self.spec.rate.gap_ns(message_octets)?;
        // Each flow its own chance, and the same again with the same seed.
        let seed = self.spec.seed.wrapping_add(u64::from(self.open.flow.id) << 32);
        Some(Pacer::new(gap_ns, self.spec.burst, self.spec.spacing, seed, start_ns).of_octets(message_octets))
    }

    /// An account with nothing in it yet.
    pub fn blank(&self, role: Role) -> FlowOutcome {
        FlowOutcome::new(self.open.flow.id, role)
    }

    /// From when on an end that breaks the connection has ended the stream, rather than lost it: where it ends by itself,
    /// the other end's clock may be ahead.
    pub fn earliest_end_ns(&self, end_ns: u64) -> u64 {
        const AHEAD_NS: u64 = 100_000_000;
        if self.framing.end().is_some() && end_ns != u64::MAX { end_ns.saturating_sub(AHEAD_NS) } else { end_ns }
    }

    /// Length of the measured part: the time asked for, or up to `last_ns` where octets decided or a stop came.
    pub fn elapsed_ns(&self, window: Window, last_ns: u64) -> u64 {
        let end = if self.clock.stopped() { last_ns.min(window.end_ns) } else { window.end_ns };
        let end = if end == u64::MAX { last_ns } else { end };
        end.saturating_sub(window.start_ns)
    }
}

/// What the probe beside a stream does.
fn probe_spec(spec: &Spec) -> Spec {
    Spec {
        workload: Workload::UdpRr,
        rate: OfferedLoad::PacketsPerSecond(PROBE_PPS),
        burst: 1,
        spacing: linerate_trial::spec::Spacing::Even,
        request_size: 64,
        response_size: 64,
        // Delay under load can be many times the gap between two requests.
        outstanding: 64,
        streams: 1,
        pin: false,
        ..spec.clone()
    }
}

/// TCP's own account of a flow that ends now.
pub fn tcp_summary(socket: &Socket, open_s: f64) -> Option<TcpSummary> {
    let info = TcpInfo::of(socket).ok()?;
    let busy_us = info.get64(Field64::BusyTime);
    let share = |limited: Option<u64>| match (limited, busy_us) {
        (Some(limited), Some(busy)) if busy > 0 => Some(limited as f64 / busy as f64),
        _ => None,
    };
    let congestion_control =
        socket.tcp_congestion().ok().map(|name| String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned());
    Some(TcpSummary {
        retransmissions: info.get32(Field32::TotalRetrans)?.into(),
        // ~0 until the first measurement.
        min_rtt_s: info.get32(Field32::MinRtt).filter(|&us| us != u32::MAX).map(|us| f64::from(us) / 1e6),
        rtt_s: f64::from(info.get32(Field32::Rtt)?) / 1e6,
        cwnd: info.get32(Field32::SndCwnd)?,
        mss: info.get32(Field32::SndMss)?,
        limited_by_receive_window: share(info.get64(Field64::RwndLimited)),
        limited_by_send_buffer: share(info.get64(Field64::SndbufLimited)),
        // Busy is "time with data to send or on its way"; the rest of the connection's time had none.
        limited_by_application: busy_us.filter(|_| open_s > 0.0).map(|us| (1.0 - us as f64 / 1e6 / open_s).max(0.0)),
        reordered_segments: info.get32(Field32::RcvOoopack).map(u64::from),
        segments_sent: info.get32(Field32::DataSegsOut).map(u64::from),
        segments_received: info.get32(Field32::DataSegsIn).map(u64::from),
        congestion_control,
    })
}

/// TCP's state now.
pub fn tcp_sample(socket: &Socket) -> Option<TcpSample> {
    let info = TcpInfo::of(socket).ok()?;
    Some(TcpSample {
        rtt_us: info.get32(Field32::Rtt)?,
        rttvar_us: info.get32(Field32::Rttvar)?,
        cwnd: info.get32(Field32::SndCwnd)?,
        retransmissions: info.get32(Field32::TotalRetrans)?,
        delivery_rate: info.get64(Field64::DeliveryRate),
        send_window: info.get32(Field32::SndWnd),
        busy_us: info.get64(Field64::BusyTime),
        limited_by_receive_window_us: info.get64(Field64::RwndLimited),
        limited_by_send_buffer_us: info.get64(Field64::SndbufLimited),
    })
}
