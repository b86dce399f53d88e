//! The clock of one end of one trial, and the moments that its threads share.
//! Knows no wall-clock time: a step of the system's clock changes nothing here.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_machine::sync::{Condvar, Mutex};
use linerate_trial::spec::{Extent, Spec};

/// What the threads of one end share: when the trial starts, what is measured, and whether to stop.
pub struct TrialClock {
    epoch: Instant,
    warmup_ns: u64,
    duration_ns: Option<u64>,
    /// What is received ends with its stream, whatever time was asked for.
    receives_to_end: bool,
    started: Mutex<bool>,
    start_bell: Condvar,
    sending_since: OnceLock<u64>,
    receiving_since: OnceLock<u64>,
    stop: AtomicBool,
    refused: AtomicBool,
    finished: OnceLock<u64>,
    curtailed: AtomicBool,
}

/// The measured part of a trial, in nanoseconds of the end's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The warm-up is over.
    pub start_ns: u64,
    /// The time is over; `u64::MAX` where octets decide.
    pub end_ns: u64,
}

impl Window {
    /// Whether a moment belongs to the measured part.
    #[inline]
    pub fn contains(&self, now_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&now_ns)
    }
}

/// A receiver that was told to finish reads on what is there already, for a moment.
#[derive(Default)]
pub struct FinalDrain {
    since_ns: Option<u64>,
}

impl FinalDrain {
    const MOST_NS: u64 = 50_000_000;

    /// Whether the receiver may leave, after a call that brought something or nothing.
    #[inline]
    pub fn is_over(&mut self, clock: &TrialClock, brought: bool, now_ns: u64) -> bool {
        clock.stopped() && (!brought || now_ns - *self.since_ns.get_or_insert(now_ns) > FinalDrain::MOST_NS)
    }
}

impl TrialClock {
    /// A clock that starts at zero now.
    pub fn new(spec: &Spec) -> TrialClock {
        TrialClock::with_end(spec, false)
    }

    /// The same, where what is received ends with its stream rather than by time.
    pub fn with_end(spec: &Spec, receives_to_end: bool) -> TrialClock {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        TrialClock {
            epoch: Instant::now(),
            warmup_ns: ns(spec.warmup),
            duration_ns: match spec.extent {
                Extent::Time(time) => Some(ns(time)),
                Extent::Octets(_) => None,
            },
            receives_to_end,
            started: Mutex::new(false),
            start_bell: Condvar::new(),
            sending_since: OnceLock::new(),
            receiving_since: OnceLock::new(),
            stop: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            finished: OnceLock::new(),
            curtailed: AtomicBool::new(false),
        }
    }

    /// Nanoseconds since the clock was made.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Nanoseconds of the measured part that passed before `window` began, of a flow whose first data came at `since`.
    pub fn head_start_ns(&self, window: Window, since: Instant) -> u64 {
        (self.epoch + Duration::from_nanos(window.start_ns)).saturating_duration_since(since).as_nanos() as u64
    }

    /// Starts the trial on this end.
    pub fn start(&self) {
        self.sending_since.get_or_init(|| self.now_ns());
        *self.started.lock() = true;
        self.start_bell.notify_all();
    }

    /// Tells every thread to end now.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.start_bell.notify_all();
    }

    /// Tells every thread to end now, in good order: what they have done counts.
    pub fn finish(&self) {
        self.finished.get_or_init(|| self.now_ns());
        self.stop();
    }

    /// Tells senders that the time is over; receivers go on to their end.
    pub fn curtail(&self) {
        self.curtailed.store(true, Ordering::Relaxed);
    }

    /// Whether the trial has ended before its time.
    #[inline]
    pub fn is_curtailed(&self) -> bool {
        self.curtailed.load(Ordering::Relaxed)
    }

    /// When everything was told to end.
    pub fn finished_ns(&self) -> Option<u64> {
        self.finished.get().copied()
    }

    /// Whether every thread should end now, and what they have done counts for nothing.
    pub fn aborted(&self) -> bool {
        self.stopped() && self.finished.get().is_none()
    }

    /// Whether every thread should end now.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The far end refuses datagrams: of a socket that sends and receives, either thread may hear of it, and once.
    pub fn tell_refused(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Whether it does.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the trial has started.
    pub fn started(&self) -> bool {
        self.sending_since.get().is_some()
    }

    /// Since the start; nothing before it.
    pub fn elapsed(&self) -> Duration {
        let since_ns = self.sending_since.get().map(|&since| self.now_ns().saturating_sub(since));
        Duration::from_nanos(since_ns.unwrap_or(0))
    }

    /// Waits for the start, or a stop; `false` after a stop. What has ended in good order since it began has begun: a thread
    /// that got no CPU until then moved nothing.
    pub fn wait_for_start(&self) -> bool {
        let mut started = self.started.lock();
        while !*started && !self.stopped() {
            started = self.start_bell.wait_timeout(started, Duration::from_millis(100));
        }
        *started && !self.aborted()
    }

    /// The measured part of what this end sends. Counted from the start; before it, from now.
    pub fn sending(&self) -> Window {
        self.window(*self.sending_since.get().unwrap_or(&self.now_ns()))
    }

    /// The measured part of what this end receives. Counted from the first data of all flows, which `now_ns` is
    /// if none came before: the receiver's clock knows nothing of the sender's, and both see the same traffic.
    #[inline]
    pub fn receiving(&self, now_ns: u64) -> Window {
        self.receiving_window(*self.receiving_since.get_or_init(|| now_ns))
    }

    /// The measured part of what this end receives, once the first data came.
    pub fn receiving_so_far(&self) -> Option<Window> {
        self.receiving_since.get().map(|&since| self.receiving_window(since))
    }

    /// When the time that was asked for is over at a receiver, whatever ends its stream.
    pub fn receiving_due_ns(&self) -> Option<u64> {
        self.receiving_since.get().map(|&since| self.window(since).end_ns)
    }

    #[inline]
    fn receiving_window(&self, since_ns: u64) -> Window {
        let window = self.window(since_ns);
        if self.receives_to_end { Window { end_ns: u64::MAX, ..window } } else { window }
    }

    fn window(&self, since_ns: u64) -> Window {
        let start_ns = since_ns.saturating_add(self.warmup_ns);
        Window { start_ns, end_ns: self.duration_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_trial::spec::Workload;

    #[test]
    fn the_measured_part_follows_the_warm_up() {
        let mut spec = Spec::new(Workload::TcpStream);
        spec.warmup = Duration::from_secs(1);
        spec.extent = Extent::Time(Duration::from_secs(2));
        let clock = TrialClock::new(&spec);
        let window = clock.receiving(500);
        assert_eq!(window, Window { start_ns: 1_000_000_500, end_ns: 3_000_000_500 });
        assert_eq!(clock.receiving(900), window, "the first data of all flows decides");
        assert!(!window.contains(1_000_000_499) && window.contains(1_000_000_500) && !window.contains(3_000_000_500));
    }

    #[test]
    fn a_head_start_is_counted_from_the_first_data_of_all_flows() {
        let before = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        let clock = TrialClock::new(&Spec::new(Workload::TcpStream));
        let window = clock.receiving(5_000_000);
        let head_start_ns = clock.head_start_ns(window, before);
        // Whenever a flow's own thread asks.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(clock.head_start_ns(window, before), head_start_ns);
        assert!(head_start_ns >= 25_000_000);
        assert_eq!(clock.head_start_ns(window, Instant::now()), 0, "its data came later than another's");
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let clock = TrialClock::new(&Spec::new(Workload::TcpStream));
        clock.stop();
        assert!(!clock.wait_for_start());
    }
}
