//! A flow, run in its thread: scheduled and pinned as asked, then by the file of its role.
//! Knows which role calls which file; the files know the traffic.

use std::sync::Arc;
use std::time::Duration;

use linerate_machine::units::OfferedLoad;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::{PROBE_PPS, Spec, Workload};
use linerate_trial::timeline::Timeline;

use super::api::Chosen;
use super::task::Task;
use super::wait::bound_spin;
use super::{TrafficError, connections, frames, requests, tcp_stream};
use crate::scheduling;
use crate::sys::thread;

/// Runs the flow to its end, in this thread.
pub fn run(mut task: Task) -> Result<FlowOutcome, TrafficError> {
    if task.open.flow.probe {
        task.spec = Arc::new(probe_spec(&task.spec));
    }
    let cpus = thread::allowed_cpus().unwrap_or_default();
    // Before pinning: what counts is the CPUs that all threads of this end have. Another tool's other end may be on this
    // machine and needs a CPU, too: its receive buffer overflows while this thread spins on the CPU that it is woken on.
    let spinners = Flow::of(&task.spec).iter().filter(|flow| flow.source == task.end).count();
    let other_end = usize::from(!task.framing.is_own());
    bound_spin(spinners + other_end, cpus.len());
    if task.spec.pin && !cpus.is_empty() {
        let cpu = cpus[task.index % cpus.len()];
        thread::pin_to_cpu(cpu)
            .map_err(|error| TrafficError::Moving { what: format!("cannot pin a thread to CPU {cpu}"), error })?;
    }
    if let Some(wanted) = task.receivers.filter(|_| task.open.flow.source != task.end) {
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
    let (socket, clock) = (task.open.socket.try_clone().map_err(TrafficError::System)?, task.clock.clone());
    // Gone before the socket is closed, which the other end waits for.
    let presence = task.presence.clone();
    let _present = (task.index < Timeline::MOST_FLOWS).then(|| presence.enter(&socket));
    let is_tcp = task.open.flow.workload.is_tcp();
    if is_tcp {
        // Should the flow end anyhow but in order (a stop, a failure, SIGKILL), the kernel must not go on sending
        // what its buffer holds: a linger time of zero makes closing a reset (socket(7), SO_LINGER).
        socket.set_linger(Some(Duration::ZERO)).map_err(TrafficError::System)?;
    }
    let pacing = task.paced.map(|paced| paced.pacing);
    let outcome = FlowOutcome { pacing, ..run_role(task)? };
    if is_tcp && !clock.aborted() {
        let _ = socket.set_linger(None);
    }
    Ok(outcome)
}

fn run_role(task: Task) -> Result<FlowOutcome, TrafficError> {
    let source = task.open.flow.source == task.end;
    match (task.chosen, task.open.flow.workload, source) {
        (Chosen::OctetsOut(api), ..) => tcp_stream::send(task, api),
        (Chosen::OctetsIn(api), ..) => tcp_stream::receive(task, api),
        (Chosen::DatagramsOut(api, asked), ..) => task.framing.clone().send(task, api, asked),
        (Chosen::DatagramsIn(api, timestamps), ..) => task.framing.clone().receive(task, api, timestamps),
        (Chosen::FramesOut(api), ..) => frames::send(task, api),
        (Chosen::FramesIn(api, timestamps), ..) => frames::receive(task, api, timestamps),
        (Chosen::Neither, Workload::TcpCrr, true) => connections::ask(task),
        (Chosen::Neither, Workload::TcpCrr, false) => connections::answer(task),
        (Chosen::Neither, _, true) => requests::ask(task),
        (Chosen::Neither, Workload::TcpRr, false) => requests::answer_tcp(task),
        (Chosen::Neither, _, false) => requests::answer_udp(task),
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
