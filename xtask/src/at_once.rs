//! Several pieces of work at once.
//! Knows nothing of the work.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

/// The CPUs that this process may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` with each of these, at most so many at once, and hands on what came of it, in their order.
pub(crate) fn at_once<T: Send, R: Send>(most: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let left = Mutex::new(items.into_iter().enumerate().collect::<VecDeque<_>>());
    let next = || left.lock().expect("nobody panics with it").pop_front();
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..most {
            scope.spawn(|| {
                while let Some((index, item)) = next() {
                    let result = work(item);
                    done.lock().expect("nobody panics with it").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_are_in_order_and_no_more_than_asked_run_at_once() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let doubled = at_once(3, (0..50).collect(), |number: u32| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            2 * number
        });
        assert_eq!(doubled, (0..50).map(|number| 2 * number).collect::<Vec<_>>());
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }
}
