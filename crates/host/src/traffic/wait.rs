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
/// How long an estimate stands that no sleep corrects, because departures are closer together than it: then half of it is
/// tried. Each try makes a departure or two late, and those after it come back to back to make up for it.
const TRY_AGAIN_NS: u64 = 1_000_000_000;
/// How long to sleep at least where spinning is used up. A sleep costs some 15 µs of CPU time on a virtual machine, so
/// shorter ones would leave little more to others than spinning does.
const LEAST_SLEEP_PAST_NS: u64 = 50_000;
/// The longest sleep, after which the thread looks whether it should end.
const NAP_NS: u64 = 100_000_000;
/// Where spinning is bounded: an eighth of the time of all CPUs, over all threads that spin.
const SPIN_SHARE: u64 = 8;
/// And this much at once, which lets a slow stream spin before each departure.
const MOST_CREDIT_NS: u64 = 1_000_000;

thread_local! {
    /// How late this thread's sleeps have ended.
    static LATE_NS: Cell<u64> = const { Cell::new(10_000) };
    /// When this thread last slept, or tried to.
    static SLEPT_NS: Cell<u64> = const { Cell::new(0) };
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

/// Waits until the clock is at the deadline, or the trial is stopped: what was to be done at the deadline is not due then (`false`).
#[must_use]
pub fn wait_until(clock: &TrialClock, deadline_ns: u64) -> bool {
    while !clock.stopped() {
        let now = clock.now_ns();
        if now >= deadline_ns {
            return true;
        }
        let left = deadline_ns - now;
        if now.saturating_sub(SLEPT_NS.get()) > TRY_AGAIN_NS {
            LATE_NS.set(LATE_NS.get() / 2);
            SLEPT_NS.set(now);
        }
        let late = LATE_NS.get();
        if left < late + LEAST_NAP_NS {
            match CREDIT.get() {
                Some(credit) if !may_spin(credit, now, left) => {
                    std::thread::sleep(Duration::from_nanos(left.max(LEAST_SLEEP_PAST_NS)));
                }
                _ => spin_until(clock, deadline_ns),
            }
            continue;
        }
        SLEPT_NS.set(now);
        let nap = (left - late).min(NAP_NS);
        std::thread::sleep(Duration::from_nanos(nap));
        let over = clock.now_ns().saturating_sub(now + nap);
        // A mean over some eight sleeps; what took longer was no timer but somebody else's turn on the CPU.
        LATE_NS.set((late * 7 + over.min(MOST_LATE_NS)) / 8);
    }
    false
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

#[cfg(test)]
mod tests {
    use linerate_trial::spec::{Spec, Workload};

    use super::*;
    use crate::sys::thread::{set_timer_slack_ns, thread_use};

    /// Waits for departures `gap_ns` apart for 0.2 s in a thread of its own. Returns the shares of the time for which it used a CPU,
    /// and used one or wanted to, and how many departures were due at the last moment.
    fn waiting(gap_ns: u64, spinners: usize, cpus: usize) -> ([f64; 2], u64) {
        const SPAN_NS: u64 = 200_000_000;
        let wait = move || {
            let clock = TrialClock::new(&Spec::new(Workload::UdpStream));
            set_timer_slack_ns(1).unwrap();
            bound_spin(spinners, cpus);
            let mut due = 0;
            while due < SPAN_NS {
                assert!(wait_until(&clock, due) && clock.now_ns() >= due, "never early");
                due += gap_ns;
            }
            let used = thread_use();
            let took = clock.now_ns();
            let own_s = used.user_s + used.system_s;
            let shares = [own_s, own_s + used.run_delay_s.unwrap_or(0.0)].map(|s| s * 1e9 / took as f64);
            (shares, took / gap_ns)
        };
        std::thread::spawn(wait).join().unwrap()
    }

    #[test]
    fn departures_close_together_are_spun_to_where_there_is_a_cpu_to_spare_and_slept_past_where_there_is_none() {
        let mut said = Vec::new();
        // What other programs want of the CPUs shows in the figures; once of four is enough.
        for _ in 0..4 {
            // Who spins wants a CPU also while another has it; who sleeps is ready late then, and has not used it.
            let ([_, spinning], kept) = waiting(12_000, 1, 2);
            let ([sleeping, _], kept_too) = waiting(12_000, 1, 1);
            // No departure is given up: all that were due in the 0.2 s have been.
            assert!(kept >= 16_666 && kept_too >= 16_666, "{kept} {kept_too}");
            said.push((spinning, sleeping));
            if spinning > 0.8 && sleeping < 0.7 {
                println!("share of a CPU: {said:?}");
                return;
            }
        }
        panic!("share of a CPU without and with the bound: {said:?}");
    }

    #[test]
    fn a_slow_stream_spins_before_each_departure_even_where_it_is_bounded() {
        let credit = Credit { left_ns: 0, at_ns: 0, parts: SPIN_SHARE };
        CREDIT.set(Some(credit));
        // 100 departures a second, each after a spin of 40 µs: four thousandths of the time.
        assert!((1..100).all(|turn| may_spin(CREDIT.get().unwrap(), turn * 10_000_000, 40_000)));
        // A hundred thousand a second: an eighth of them at most.
        let start = 1_000_000_000;
        let granted =
            (1..100_000).filter(|turn| may_spin(CREDIT.get().unwrap(), start + turn * 10_000, 10_000)).count();
        assert!((12_000..12_700).contains(&granted), "{granted}");
    }
}
