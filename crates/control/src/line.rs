//! Lines over any byte stream, bounded in both directions: one JSON object a line.
//! Knows nothing of what the lines say.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_machine::sync::{Condvar, Mutex};
use serde::Serialize;

/// Longest line from a controller, octets without the line's end. Boards are small, and requests are too.
pub const LONGEST_FROM_CONTROLLER: usize = 256 * 1024;

/// Longest line from an agent, octets without the line's end: an outcome of 128 streams in many slices fits.
pub const LONGEST_FROM_AGENT: usize = 16 * 1024 * 1024;

/// Reads lines of a limited length.
#[derive(Debug)]
pub struct LineReader<R> {
    read: BufReader<R>,
    longest: usize,
}

/// Why there is no next line. The stream is of no use afterwards.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line did not end in time.
    #[error("a line is longer than the limit of {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The line is no text.
    #[error("a line is not UTF-8 text")]
    NotUtf8,
    /// The stream ended within a line.
    #[error("the stream ended in the middle of a line")]
    CutOff,
    /// The stream broke.
    #[error("the stream broke: {0}")]
    Io(#[from] io::Error),
}

impl<R: Read> LineReader<R> {
    /// Reads lines of at most `longest` octets.
    pub fn new(read: R, longest: usize) -> LineReader<R> {
        LineReader { read: BufReader::new(read), longest }
    }

    /// The next line without its end (`\n` or `\r\n`); `None` when the stream ended between two lines.
    pub fn next_line(&mut self) -> Result<Option<String>, LineError> {
        let mut line = Vec::new();
        loop {
            let chunk = match self.read.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if chunk.is_empty() {
                return if line.is_empty() { Ok(None) } else { Err(LineError::CutOff) };
            }
            let end = chunk.iter().position(|&octet| octet == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            if line.len() + part.len() > self.longest {
                return Err(LineError::TooLong { limit: self.longest });
            }
            if line.capacity() < line.len() + part.len() {
                // Doubling, but never past the limit, which Vec's own growth would pass.
                let capacity = (line.len() + part.len()).max(2 * line.capacity()).min(self.longest);
                line.reserve_exact(capacity - line.len());
            }
            line.extend_from_slice(part);
            let used = part.len() + usize::from(end.is_some());
            self.read.consume(used);
            if end.is_some() {
                break;
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map(Some).map_err(|_| LineError::NotUtf8)
    }
}

/// Writes lines from several threads, and never makes them wait for the peer: a thread of its own writes, and the
/// octets that wait for it are limited. Cloning gives another handle of the same stream; with the last handle the
/// stream is closed.
#[derive(Clone, Debug)]
pub struct LineWriter(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    queue: Arc<Queue>,
    longest: usize,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: VecDeque<Vec<u8>>,
    /// Octets of the lines above and of the one being written.
    octets: usize,
    closed: bool,
    /// The thread has let go of the stream.
    released: bool,
}

/// Why a line was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The line exceeds what the peer accepts.
    #[error("the message has {length} bytes and the peer accepts {limit}")]
    TooLong {
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The peer does not read, and enough is waiting for it.
    #[error("the peer has stopped reading")]
    NotReading,
    /// The stream is closed, here or at the peer.
    #[error("the stream is closed")]
    Closed,
}

impl LineWriter {
    /// Writes lines of at most `longest` octets to `write`, in a new thread.
    pub fn new(write: impl Write + Send + 'static, longest: usize) -> io::Result<LineWriter> {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        crate::start_thread("linerate-write", move || theirs.run(write))?;
        Ok(LineWriter(Arc::new(Handle { queue, longest })))
    }

    /// Queues `message` as a line.
    pub fn send(&self, message: &impl Serialize) -> Result<(), WriteError> {
        let mut line = serde_json::to_vec(message).expect("messages have string keys only");
        let (length, limit) = (line.len(), self.0.longest);
        if length > limit {
            return Err(WriteError::TooLong { length, limit });
        }
        line.push(b'\n');
        let mut state = self.0.queue.state.lock();
        if state.closed {
            return Err(WriteError::Closed);
        }
        // An idle stream takes any line; behind one of the greatest length only short ones are taken.
        if state.octets > 0 && state.octets + line.len() > limit + 64 * 1024 {
            return Err(WriteError::NotReading);
        }
        state.octets += line.len();
        state.lines.push_back(line);
        self.0.queue.changed.notify_all();
        Ok(())
    }

    /// Takes no more lines; waits at most `patience` until those that wait are written and the stream is closed.
    pub fn close(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.0.queue.state.lock();
        state.closed = true;
        self.0.queue.changed.notify_all();
        while !state.released {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.0.queue.changed.wait_timeout(state, left);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn run(&self, mut write: impl Write) {
        loop {
            let mut state = self.state.lock();
            while state.lines.is_empty() && !state.closed {
                state = self.changed.wait(state);
            }
            let Some(line) = state.lines.pop_front() else { break };
            drop(state);
            // A dead pipe is an error here and no signal: Rust's start-up code ignores SIGPIPE.
            let written = write.write_all(&line).and_then(|()| write.flush());
            let mut state = self.state.lock();
            state.octets -= line.len();
            if written.is_err() {
                (state.closed, state.octets) = (true, 0);
                state.lines.clear();
                break;
            }
        }
        drop(write);
        self.state.lock().released = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], longest: usize, expected: &[&str], end: Option<&str>) {
        // One octet a read is the harshest stream.
        for chunk in [1, 3, 4096] {
            let mut reader = LineReader::new(Chunks(input, chunk), longest);
            for &line in expected {
                assert_eq!(reader.next_line().unwrap().as_deref(), Some(line));
            }
            match (reader.next_line(), end) {
                (Ok(None), None) => (),
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (other, _) => panic!("{other:?}"),
            }
        }
    }

    struct Chunks<'a>(&'a [u8], usize);

    impl Read for Chunks<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len()).min(self.0.len());
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn lines_are_split_and_bounded() {
        check(b"", 4, &[], None);
        check(b"ab\n\ncd\r\n", 4, &["ab", "", "cd"], None);
        check(b"abcd\nabcde\n", 4, &["abcd"], Some("limit of 4 bytes"));
        check(b"abcdefgh", 4, &[], Some("limit of 4 bytes"));
        check(b"ab\ncd", 4, &["ab"], Some("middle of a line"));
        check(b"ab\n\xff\n", 4, &["ab"], Some("UTF-8"));
    }

    #[test]
    fn memory_stays_below_the_limit() {
        let line = vec![b'x'; 100_000];
        let mut reader = LineReader::new(&line[..], 70_000);
        assert!(matches!(reader.next_line(), Err(LineError::TooLong { limit: 70_000 })));
        let mut text = vec![b'x'; 70_000];
        text.push(b'\n');
        let read = LineReader::new(&text[..], 70_000).next_line().unwrap().unwrap();
        assert!(read.capacity() <= 70_000, "{}", read.capacity());
    }

    #[test]
    fn a_peer_that_stops_reading_costs_bounded_memory_and_no_time() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let writer = LineWriter::new(ours, 1 << 20).unwrap();
        let message = "x".repeat(1 << 19);
        let results: Vec<_> = (0..8).map(|_| writer.send(&message)).collect();
        assert!(results[0].is_ok());
        assert_eq!(results[7], Err(WriteError::NotReading));
        let too_long = writer.send(&"x".repeat(1 << 20));
        assert_eq!(too_long, Err(WriteError::TooLong { length: (1 << 20) + 2, limit: 1 << 20 }));
        let began = Instant::now();
        writer.close(Duration::from_millis(20));
        assert!(began.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn a_dead_peer_closes_the_writer() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let writer = LineWriter::new(ours, 100).unwrap();
        drop(theirs);
        let began = Instant::now();
        while writer.send(&1) != Err(WriteError::Closed) {
            assert!(began.elapsed() < Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn closing_writes_what_waits_and_then_closes_the_stream() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let writer = LineWriter::new(ours, 100).unwrap();
        writer.send(&1).unwrap();
        writer.send(&2).unwrap();
        drop(writer);
        let mut reader = LineReader::new(theirs, 100);
        assert_eq!(reader.next_line().unwrap().as_deref(), Some("1"));
        assert_eq!(reader.next_line().unwrap().as_deref(), Some("2"));
        assert!(reader.next_line().unwrap().is_none());
    }
}
