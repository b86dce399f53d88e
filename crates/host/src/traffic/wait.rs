//! How a thread waits for the next departure: asleep far from it, spinning close to it.
//! Knows no schedule and no traffic; the deadline is an argument.
//!
//! A sleep ends late: by some 15 µs on a virtual machine, by 60 µs and more on a slow board. So it is made to end
//! earlier by as much as those before ended late, and the rest is spun through.
//!
//! To spin longer costs more than CPU time in the figures. A thread that spins from one departure to the next uses
//! its CPU up, and on a busy machine is then made to wait for milliseconds; one that sleeps is let in at once. And
//! where threads that spin have no CPU left beside them, nobody else gets anything done: not the stack that should
//! carry the datagrams away, not the application on the board. There the spinning is bounded to a share of the time,
//! and beyond it the thread sleeps past its departures and sends late what is due: the load is kept, the even spacing
//! is not.

use std::cell::Cell;
use std::time::Duration;

use super::clock::TrialClock;

/// The most that is spun through before a departure.
const MOST_LATE_NS: u64 = 60_000;
/// Sleeps shorter than this are not worth the switch.
const LEAST_NAP_NS: u64 = 4_000;
/// Departures over which an estimate that nothing corrects is forgotten. Each sleep that is tried again between
/// departures a few µs apart makes one of them late, so it must be tried seldom.
const FORGET: u64 = 1024;
/// The longest sleep, after which the thread looks whether it should end.
const NAP_NS: u64 = 100_000_000;
/// Where spinning is bounded: an eighth of the time of all CPUs, over all threads that spin.
const SPIN_SHARE: u64 = 8;
/// And this much at once, which lets a slow stream spin before each departure.
const MOST_CREDIT_NS: u64 = 1_000_000;

thread_local! {
    /// How late this thread's sleeps have ended.
    static LATE_NS: Cell<u64> = const { Cell::new(10_000) };
    /// What this thread may spin; `None`: as much as it likes.
    static CREDIT: Cell<Option<Credit>> = const { Cell::new(None) };
}

/// Time that may be spent spinning.
#[derive(Clone, Copy)]
struct Credit {
    left_ns: u64,
    /// When some was last added.
    at_ns: u64,
    /// Of this much time, one part is added.
    parts: u64,
}

/// Bounds this thread's spinning from now on, for a machine on which `spinners` threads like it share `cpus` CPUs:
/// where they would leave none free, they spin through an eighth of the time at most.
pub fn bound_spin(spinners: usize, cpus: usize) {
    let parts = SPIN_SHARE * spinners.div_ceil(cpus.max(1)) as u64;
    CREDIT.set((spinners >= cpus).then_some(Credit { left_ns: 0, at_ns: 0, parts }));
}

/// Waits until the clock is at the deadline, or the trial is stopped.
pub fn wait_until(clock: &TrialClock, deadline_ns: u64) {
    let mut napped = false;
    while !clock.stopped() {
        let now = clock.now_ns();
        if now >= deadline_ns {
            // Where departures are closer than the estimate nothing would ever correct it: forget it slowly.
            if !napped {
                LATE_NS.set(LATE_NS.get() * (FORGET - 1) / FORGET);
            }
            return;
        }
        let left = deadline_ns - now;
        let late = LATE_NS.get();
        if left < late + LEAST_NAP_NS {
            match CREDIT.get() {
                Some(credit) if !may_spin(credit, now, left) => std::thread::sleep(Duration::from_nanos(left)),
                _ => spin_until(clock, deadline_ns),
            }
            continue;
        }
        napped = true;
        let nap = (left - late).min(NAP_NS);
        std::thread::sleep(Duration::from_nanos(nap));
        let over = clock.now_ns().saturating_sub(now + nap);
        // A mean over some eight sleeps; what took longer was no timer but somebody else's turn on the CPU.
        LATE_NS.set((late * 7 + over.min(MOST_LATE_NS)) / 8);
    }
}

fn spin_until(clock: &TrialClock, deadline_ns: u64) {
    while clock.now_ns() < deadline_ns {
        std::hint::spin_loop();
    }
}

/// Whether there is credit for a spin of `spin_ns`, which is then taken off.
fn may_spin(mut credit: Credit, now_ns: u64, spin_ns: u64) -> bool {
    let earned_ns = now_ns.saturating_sub(credit.at_ns) / credit.parts;
    credit.at_ns = now_ns;
    credit.left_ns = credit.left_ns.saturating_add(earned_ns).min(MOST_CREDIT_NS);
    let granted = credit.left_ns >= spin_ns;
    if granted {
        credit.left_ns -= spin_ns;
    }
    CREDIT.set(Some(credit));
    granted
}
