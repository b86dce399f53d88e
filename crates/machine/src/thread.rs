//! Threads, started at one place: for each closure by itself, the standard library's start is half a kilobyte of an agent's size.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with this name and a stack of so many octets.
pub fn start(name: &str, stack: usize, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    start_any(name, stack, Box::new(work))
}

#[inline(never)]
fn start_any(name: &str, stack: usize, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).stack_size(stack).spawn(work)
}
