//! Values from threads to one thread, as by `std::sync::mpsc`, whose three kinds of channel in one take ten times as much of an
//! agent's size (docs/decisions/0098).

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

/// Where values are given; they are waited for as long as there is one of these.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Where values arrive, in their order.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

/// Why a value was not taken; here it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent<T> {
    /// As many wait as may.
    Full(T),
    /// Nobody receives any more.
    Closed(T),
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// How many values may wait.
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    senders: usize,
    is_received: bool,
}

/// A channel in which at most so many values wait.
pub fn channel<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { waiting: VecDeque::new(), senders: 1, is_received: true });
    let shared = Arc::new(Shared { state, changed: Condvar::new(), most: most.max(1) });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Shared<T> {
    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>, time: Option<Duration>) -> MutexGuard<'a, State<T>> {
        match time {
            Some(time) => self.changed.wait_timeout(state, time),
            None => self.changed.wait(state),
        }
    }
}

impl<T> Sender<T> {
    /// Gives a value; waits until it may wait in turn.
    pub fn send(&self, value: T) -> Result<(), NotSent<T>> {
        let mut state = self.0.state.lock();
        while state.is_received && state.waiting.len() >= self.0.most {
            state = self.0.wait(state, None);
        }
        self.give(state, value)
    }

    /// Gives a value, if it may wait.
    pub fn try_send(&self, value: T) -> Result<(), NotSent<T>> {
        self.give(self.0.state.lock(), value)
    }

    fn give(&self, mut state: MutexGuard<'_, State<T>>, value: T) -> Result<(), NotSent<T>> {
        if !state.is_received {
            return Err(NotSent::Closed(value));
        }
        if state.waiting.len() >= self.0.most {
            return Err(NotSent::Full(value));
        }
        state.waiting.push_back(value);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

// What is generic is compiled by each crate that uses it; these are compiled once.
impl Sender<Vec<u8>> {
    /// Gives octets; waits until they may wait in turn. False: nobody receives any more.
    pub fn send_octets(&self, octets: Vec<u8>) -> bool {
        self.send(octets).is_ok()
    }
}

impl Receiver<Vec<u8>> {
    /// The next octets, waited for no longer than that.
    pub fn octets_within(&self, time: Duration) -> Result<Vec<u8>, RecvTimeoutError> {
        self.recv_timeout(time)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.state.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.lock().senders -= 1;
        self.0.changed.notify_all();
    }
}

impl<T> Receiver<T> {
    /// The next value, waited for; `None`: none will come.
    pub fn recv(&self) -> Option<T> {
        self.next(None).ok()
    }

    /// The next value, waited for no longer than that.
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        // What a clock cannot say is waited for without end.
        self.next(Instant::now().checked_add(time))
    }

    fn next(&self, until: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(value) = state.waiting.pop_front() {
                drop(state);
                self.0.changed.notify_all();
                return Ok(value);
            }
            if state.senders == 0 {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(RecvTimeoutError::Timeout);
            }
            state = self.0.wait(state, left);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_received = false;
        let unread = std::mem::take(&mut state.waiting);
        drop(state);
        self.0.changed.notify_all();
        // What a value does when it goes may ask for this channel.
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn values_arrive_in_their_order_and_the_end_after_them() {
        let (sender, receiver) = channel(10);
        let other = sender.clone();
        thread::scope(|scope| {
            scope.spawn(move || (0..1000).for_each(|value| sender.send(value).unwrap()));
            scope.spawn(move || (1000..2000).for_each(|value| other.send(value).unwrap()));
            let values: Vec<u32> = std::iter::from_fn(|| receiver.recv()).collect();
            assert_eq!(values.len(), 2000);
            for half in [0..1000, 1000..2000] {
                assert!(values.iter().copied().filter(|value| half.contains(value)).eq(half.clone()));
            }
            assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
        });
    }

    #[test]
    fn a_full_channel_takes_no_more_until_somebody_receives() {
        let (sender, receiver) = channel(2);
        assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Ok(())));
        assert_eq!(sender.try_send(3), Err(NotSent::Full(3)));
        thread::scope(|scope| {
            let waits = scope.spawn(|| sender.send(4));
            thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished());
            assert_eq!(receiver.recv(), Some(1));
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
        assert_eq!((receiver.recv(), receiver.recv()), (Some(2), Some(4)));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn nobody_waits_for_who_has_gone() {
        let (sender, receiver) = channel(1);
        sender.send(1).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| sender.send(2));
            thread::sleep(Duration::from_millis(20));
            drop(receiver);
            assert_eq!(waits.join().unwrap(), Err(NotSent::Closed(2)));
        });
        assert_eq!(sender.try_send(3), Err(NotSent::Closed(3)));

        let (sender, receiver) = channel::<u8>(1);
        thread::scope(|scope| {
            let waits = scope.spawn(|| receiver.recv_timeout(Duration::MAX));
            thread::sleep(Duration::from_millis(20));
            drop(sender);
            assert_eq!(waits.join().unwrap(), Err(RecvTimeoutError::Disconnected));
        });
    }

    #[test]
    fn a_wait_ends_in_time_and_no_sooner() {
        let (_sender, receiver) = channel::<u8>(1);
        let began = Instant::now();
        assert_eq!(receiver.recv_timeout(Duration::from_millis(30)), Err(RecvTimeoutError::Timeout));
        assert!(began.elapsed() >= Duration::from_millis(30));
    }
}
