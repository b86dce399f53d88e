//! How many a server has to do with at once: strangers, who have not said yet what they want, and tests.
//! Knows no protocol.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope};

/// Threads wait and copy little; the data has threads of its own.
const STACK: usize = 256 << 10;

/// So many at once, and no more.
pub struct Slots {
    taken: AtomicUsize,
    most: usize,
}

/// One of them, free again when the value goes, whatever became of its work.
pub struct Slot<'a>(&'a Slots);

impl Slots {
    /// Strangers at once, beside the tests: some for each of the largest test's streams that come together.
    pub const STRANGERS: usize = 64;

    /// None is taken yet.
    pub fn new(most: usize) -> Slots {
        Slots { taken: AtomicUsize::new(0), most }
    }

    /// One, if there is one.
    pub fn take(&self) -> Option<Slot<'_>> {
        let one_more = |taken| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Slot(self))
    }

    /// A thread for somebody who takes one. `false`: none is left, and nobody hears them.
    pub fn hear<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce(Slot<'scope>) + Send + 'scope,
    ) -> bool {
        let Some(slot) = self.take() else { return false };
        Builder::new().stack_size(STACK).spawn_scoped(scope, move || work(slot)).is_ok()
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn too_many_are_not_heard_until_one_has_left() {
        let slots = Slots::new(2);
        let (leave, left) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let waits = move |slot: Slot<'_>| {
                let _ = left.recv();
                drop(slot);
            };
            assert!(slots.hear(scope, waits));
            assert!(slots.hear(scope, drop));
            while slots.taken.load(Ordering::Relaxed) > 1 {
                thread::yield_now();
            }
            let other = slots.take().unwrap();
            assert!(!slots.hear(scope, drop));
            drop(other);
            assert!(slots.hear(scope, drop));
            leave.send(()).unwrap();
        });
        assert_eq!(slots.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn work_that_breaks_frees_its_slot() {
        let slots = Slots::new(1);
        let work = AssertUnwindSafe(|| {
            let _slot = slots.take();
            panic!("as a defect would");
        });
        catch_unwind(work).unwrap_err();
        assert!(slots.take().is_some());
    }
}
