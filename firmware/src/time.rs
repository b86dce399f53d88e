//! Microseconds since the board began, from whatever counts.

use crate::board::Clock;

/// A clock that runs. It is to be asked more often than its counter wraps: within 40 s, where that has 32 bits.
pub struct Time {
    clock: &'static Clock,
    last: u64,
    /// Counts since the beginning.
    passed: u64,
}

impl Time {
    /// Starts the clock.
    pub fn start(clock: &'static Clock) -> Time {
        clock.start();
        Time { clock, last: clock.count().0, passed: 0 }
    }

    /// Now, µs.
    pub fn now_us(&mut self) -> u64 {
        let (count, hz) = self.clock.count();
        self.passed += count.wrapping_sub(self.last) & (u64::MAX >> (64 - self.clock.bits()));
        self.last = count;
        self.passed / hz * 1_000_000 + self.passed % hz * 1_000_000 / hz
    }
}
