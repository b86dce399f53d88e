//! A profile beside no trial: begun, and told when its time is over.
//! Knows no transport; nobody needs the lease for it, because it changes nothing.

use std::thread::JoinHandle;
use std::time::Duration;

use linerate_control::Outbox;
use linerate_control::message::{Event, LONGEST_PROFILE_S, RefusalKind};
use linerate_host::cpu::CpuMeter;
use linerate_host::profile::{MinimumSamples, Profiler};
use linerate_machine::channel::{Sender, channel};
use linerate_machine::thread;
use linerate_trial::spec::MAX_PROFILE_HZ;

use crate::refusal::Refusal;

/// A profile that is being taken. Dropping it ends it.
pub(crate) struct Profiling {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Profiling {
    /// Begins; what was seen goes out as an event.
    pub(crate) fn begin(hz: u32, seconds: f64, outlet: &Outbox) -> Result<Profiling, Refusal> {
        let failed = |error: &dyn std::fmt::Display| Refusal(RefusalKind::Failed, error.to_string());
        if !(1..=MAX_PROFILE_HZ).contains(&hz) || !(0.01..=LONGEST_PROFILE_S).contains(&seconds) {
            let sentence = "a profile takes 1 to 10000 samples a second, for 10 ms to an hour";
            return Err(Refusal(RefusalKind::BadRequest, sentence.to_owned()));
        }
        let profiler = Profiler::open(hz, MinimumSamples::Machine).map_err(|error| failed(&error))?;
        let meter = CpuMeter::start().ok();
        let running = profiler.start().map_err(|error| failed(&error))?;
        let (stop, stopped) = channel::<()>(1);
        let outlet = outlet.clone();
        let thread = thread::start("profile", 256 << 10, move || {
            let _ = stopped.recv_timeout(Duration::from_secs_f64(seconds));
            let cpu = meter.and_then(|meter| meter.read().ok());
            if let Some(taken) = running.finish() {
                let mut profile = taken.told();
                profile.cpu = cpu;
                outlet.event(Event::Profiled(Box::new(profile)));
            }
        })
        .map_err(|error| failed(&error))?;
        Ok(Profiling { stop: Some(stop), thread: Some(thread) })
    }

    /// Whether its time is not over yet.
    pub(crate) fn runs(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it before its time.
    pub(crate) fn stop(&self) {
        if let Some(stop) = &self.stop {
            // Nobody listens where its time is over already.
            let _ = stop.send(());
        }
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
