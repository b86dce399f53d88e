//! `std::sync`'s mutex and condition variable without poison: where a thread panicked that held a lock, the others go on.

use std::sync::{self, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A mutex that is not poisoned by a panic.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Around this value.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits until nobody else has it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: somebody else has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The condition variable of such a mutex.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Nobody waits for it.
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Waits until woken.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until woken, no longer than this.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits while a condition holds, no longer than this; whether it ceased to hold.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout_while(guard, time, condition);
        let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (guard, !waited.timed_out())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_of_a_holder_leaves_the_lock_usable() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut held = mutex.lock();
            *held = 2;
            panic!("while it is held");
        }));
        assert!(panicked.is_err() && mutex.0.is_poisoned());
        assert_eq!(mutex.try_lock().map(|held| *held), Some(2));
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        let (held, has_ceased) = Condvar::new().wait_timeout_while(held, Duration::ZERO, |value| *value == 2);
        assert_eq!((*held, has_ceased), (2, false));
    }
}
