//! A stream of frames that an XDP program makes and sends: this thread is in one system call as long as it goes on.
//! Knows no sockets but for the end mark; who paces and numbers is [`crate::xdp::generator`].

use linerate_trial::api::{ApiUse, SenderApi};
use linerate_trial::frames::FrameSizes;
use linerate_trial::outcome::{FlowOutcome, FrameCounts, Role};
use linerate_trial::spec::{Extent, Spec};

use super::send::{add_sizes, say_end, wait_for_start};
use crate::sys::thread::thread_use;
use crate::traffic::TrafficError;
use crate::traffic::task::Task;
use crate::xdp::generator::{self, GeneratorCounts, Moment, Phase, RunControl};

/// Sends until the time is over, or the octets are sent.
pub fn send(task: Task) -> Result<FlowOutcome, TrafficError> {
    let mut outcome = task.blank(Role::Sender);
    let Some(link) = task.open.frames.as_deref() else { return Err(TrafficError::Stopped) };
    let Some(generator) = link.generator.get() else { return Err(TrafficError::Stopped) };
    let sizes = &task.spec.frame_sizes();
    wait_for_start(&task, link)?;
    let window = task.clock.sending();
    let phases = phases(&task.spec, sizes);
    let (clock, ledger, port) = (&task.clock, &task.ledger, &link.port);
    let mut left = phases.len();
    let mut warmup = 0;
    let ran = generator.run_phases(&phases, |moment, counts| {
        ledger.publish(sizes.octets(counts.frames), counts.frames);
        if moment == Moment::PhaseOver {
            left -= 1;
            if left == 1 {
                warmup = counts.frames;
                port.handle_measured();
            }
        }
        if clock.stopped() || clock.is_curtailed() { RunControl::Stop } else { RunControl::GoOn }
    });
    let what = || format!("sending frames of a BPF program on {} failed", port.interface());
    ran.map_err(|error| TrafficError::Moving { what: what(), error })?;
    let counts = generator.counts().map_err(|error| TrafficError::Moving { what: what(), error })?;
    outcome.calls = 1;
    outcome.messages_total = counts.frames;
    outcome.octets_total = sizes.octets(counts.frames);
    outcome.messages = counts.frames - warmup;
    outcome.octets = outcome.octets_total - sizes.octets(warmup);
    outcome.elapsed_ns = elapsed_ns(&task, &counts, window.end_ns.saturating_sub(window.start_ns));
    outcome.thread = thread_use();
    outcome.api = ApiUse {
        name: SenderApi::LiveFrames.name().to_owned(),
        batch: generator.batch(),
        message_octets: Some(task.spec.message_octets()),
        jumped_over: port.qdisc().map(|qdisc| qdisc.kind),
        ..ApiUse::default()
    };
    let mut frames = FrameCounts::default();
    add_sizes(&mut frames, sizes, warmup, counts.frames);
    outcome.frames = Some(Box::new(frames));
    ledger.publish(outcome.octets_total, outcome.messages_total);
    say_end(&task, link, counts.frames, &mut outcome)?;
    // End marks, which go by the socket.
    port.handle_refused(SenderApi::PacketSendmmsg, [outcome.send_retries; 2]);
    Ok(outcome)
}

/// The warm-up, where there is one, and what is measured.
fn phases(spec: &Spec, sizes: &FrameSizes) -> Vec<Phase> {
    let extent = match spec.extent {
        Extent::Time(time) => generator::Extent { frames: None, duration: Some(time) },
        Extent::Octets(octets) => generator::Extent { frames: Some(sizes.holding(octets)), duration: None },
    };
    let warmup = generator::Extent { frames: None, duration: Some(spec.warmup) };
    let warmup = (!spec.warmup.is_zero()).then_some(Phase { is_warmup: true, extent: warmup });
    warmup.into_iter().chain([Phase { is_warmup: false, extent }]).collect()
}

/// Length of the measured part: the time asked for, or what passed between its first frame and its last.
fn elapsed_ns(task: &Task, counts: &GeneratorCounts, asked_ns: u64) -> u64 {
    let is_whole = matches!(task.spec.extent, Extent::Time(_)) && !task.clock.stopped() && !task.clock.is_curtailed();
    let passed = counts.last_ns.zip(counts.first_ns).map_or(0, |(last, first)| last.saturating_sub(first));
    if is_whole { asked_ns } else { passed.clamp(1, asked_ns.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_trial::spec::Workload;

    #[test]
    fn a_warm_up_is_a_phase_of_its_own() {
        let mut spec = Spec::new(Workload::Frames);
        let sizes = spec.frame_sizes();
        assert_eq!(phases(&spec, &sizes).len(), 1);
        spec.warmup = std::time::Duration::from_millis(5);
        let of = |phases: Vec<Phase>| phases.iter().map(|phase| phase.is_warmup).collect::<Vec<_>>();
        assert_eq!(of(phases(&spec, &sizes)), [true, false]);
        let bytes = Spec { extent: Extent::Octets(65), warmup: std::time::Duration::ZERO, ..spec };
        assert_eq!(phases(&bytes, &sizes)[0].extent.frames, Some(2));
    }
}
