//! Conversations one after the other over a line that never ends: a serial port, or a board's console port.
//! Knows nothing of what is said, nor how the port is set: it must pass every octet as it is (a raw terminal).
//!
//! A serial line has no connections, so that nothing tells the agent that its controller is gone. Two octets stand
//! for it which no line of JSON holds (RFC 8259, section 7: control characters are escaped):
//!
//! ```text
//! controller ──► EOT 4711 LF ──► agent      end what there is, begin a conversation: this is number 4711
//! controller ◄── EOT 4711 LF ◄── agent      the one before is over, settings are back; 4711 begins
//! controller ◄── EOT ◄── agent              the conversation is over
//! ```

use std::io::{self, Read, Write};
use std::sync::Arc;

use linerate_machine::channel::{Receiver, Sender, channel};
use linerate_machine::sync::Mutex;
use linerate_machine::text;

use crate::link::Link;

/// ASCII's "end of transmission": a conversation is over.
pub const END: u8 = 0x04;

/// The longest number of a conversation: 20 digits hold every `u64`.
const DIGITS: usize = 20;

/// What a controller sends to begin conversation `number`, and what it then waits for: the same octets.
pub fn opening(number: u64) -> Vec<u8> {
    let mut octets = vec![END];
    octets.extend_from_slice(format!("{number}\n").as_bytes());
    octets
}

/// Finds the answer to an opening in what a line brings, piece by piece.
#[derive(Debug)]
pub struct Opened {
    answer: Vec<u8>,
    seen: usize,
}

impl Opened {
    /// Waits for the answer to the opening of this number.
    pub fn waiting_for(number: u64) -> Opened {
        Opened { answer: opening(number), seen: 0 }
    }

    /// Takes the next octets in. Once the answer is complete, what follows it belongs to the conversation.
    pub fn handle<'a>(&mut self, octets: &'a [u8]) -> Option<&'a [u8]> {
        for (place, &octet) in octets.iter().enumerate() {
            // The answer begins with the one octet that it holds only once.
            self.seen = match octet {
                END => 1,
                _ if self.seen > 0 && octet == self.answer[self.seen] => self.seen + 1,
                _ => 0,
            };
            if self.seen == self.answer.len() {
                return Some(&octets[place + 1..]);
            }
        }
        None
    }
}

/// The agent's side: holds conversation after conversation, each as the controller opens it, until the line fails.
pub fn converse_in_turn(
    line: impl Read + Send + 'static,
    mut answers: impl Write + Send + 'static,
    mut converse: impl FnMut(Link),
) -> io::Result<()> {
    // A controller may wait for an agent that was killed and has been started again.
    answers.write_all(&[END])?;
    let turn = Arc::new(Mutex::new(Turn { number: 0, answers: Box::new(answers) }));
    let (opened_sent, opened) = channel(WAITING);
    crate::start_thread("linerate-line", move || {
        let _ = split(line, &opened_sent);
    })?;
    for (count, (number, said)) in (1..).zip(std::iter::from_fn(|| opened.recv())) {
        {
            let mut turn = turn.lock();
            turn.number = count;
            turn.answers.write_all(&opening(number))?;
        }
        converse(Link::of(Said { said, rest: Vec::new() }, Answers { count, turn: Arc::clone(&turn) }));
        let mut turn = turn.lock();
        turn.number = 0;
        turn.answers.write_all(&[END])?;
    }
    Ok(())
}

/// Pieces that wait for a slow reader; the line itself waits then.
const WAITING: usize = 64;

/// Cuts what comes into conversations, each with its number.
fn split(mut line: impl Read, opened: &Sender<(u64, Receiver<Vec<u8>>)>) -> io::Result<()> {
    let mut octets = [0; 512];
    let mut number: Option<String> = None;
    let mut conversation: Option<Sender<Vec<u8>>> = None;
    loop {
        let count = match line.read(&mut octets) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &octets[..count];
        while let Some(&first) = rest.first() {
            if first == END {
                (conversation, number) = (None, Some(String::new()));
                rest = &rest[1..];
            } else if let Some(digits) = &mut number {
                rest = &rest[1..];
                match first {
                    b'0'..=b'9' if digits.len() < DIGITS => digits.push(char::from(first)),
                    b'\n' => {
                        let parsed = text::number(digits);
                        number = None;
                        let Some(parsed) = parsed else { continue };
                        let (sender, said) = channel(WAITING);
                        if opened.send((parsed, said)).is_err() {
                            return Ok(());
                        }
                        conversation = Some(sender);
                    }
                    // Noise: no opening, and no conversation.
                    _ => number = None,
                }
            } else {
                let end = rest.iter().position(|&octet| octet == END).unwrap_or(rest.len());
                // What has no reader is of a conversation that is over.
                if let Some(sender) = &conversation
                    && sender.send(rest[..end].to_vec()).is_err()
                {
                    conversation = None;
                }
                rest = &rest[end..];
            }
        }
    }
}

/// What the controller says in one conversation.
struct Said {
    said: Receiver<Vec<u8>>,
    rest: Vec<u8>,
}

impl Read for Said {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            // No sender any more: the conversation is over.
            self.rest = self.said.recv().unwrap_or_default();
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

/// Whose turn it is to speak on the line: nobody's is 0.
struct Turn {
    number: u32,
    answers: Box<dyn Write + Send>,
}

/// What the agent says in one conversation. Late words of an older one are refused: they would be heard in this.
struct Answers {
    count: u32,
    turn: Arc<Mutex<Turn>>,
}

impl Write for Answers {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut turn = self.turn.lock();
        if turn.number != self.count {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        turn.answers.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.turn.lock().answers.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// An agent that repeats what it hears, until its conversation ends.
    fn echo() -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let answers = theirs.try_clone().unwrap();
        thread::spawn(move || {
            let _ = converse_in_turn(theirs, answers, |mut link| {
                let mut octets = [0; 100];
                while let Ok(count @ 1..) = link.reader.read(&mut octets) {
                    link.writer.write_all(&octets[..count]).unwrap();
                }
            });
        });
        ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        ours
    }

    #[track_caller]
    fn check(line: &mut UnixStream, said: &[u8], heard: &[u8]) {
        line.write_all(said).unwrap();
        let mut octets = vec![0; heard.len()];
        line.read_exact(&mut octets).unwrap();
        assert_eq!(octets, heard, "{} for {}", octets.escape_ascii(), said.escape_ascii());
    }

    #[test]
    fn one_conversation_after_the_other() {
        let mut line = echo();
        check(&mut line, b"", b"\x04");
        check(&mut line, b"nobody hears this\n\x0412\nhello\n", b"\x0412\nhello\n");
        check(&mut line, b"more\n", b"more\n");
        // The next one ends this one first.
        check(&mut line, b"\x0413\nagain\n", b"\x04\x0413\nagain\n");
        // Noise opens nothing; too long a number neither.
        check(&mut line, b"\x04a7\n\x04123456789012345678901\n\x04\n", b"\x04");
        check(&mut line, b"\x0418446744073709551615\nx", b"\x0418446744073709551615\nx");
    }

    #[test]
    fn the_answer_is_found_in_any_pieces() {
        let heard = b"{\"rest\":1}\n\x04\x041\n\x0447\nnext";
        for size in 1..heard.len() {
            let mut opened = Opened::waiting_for(47);
            let mut after = Vec::new();
            let mut found = false;
            for piece in heard.chunks(size) {
                match found {
                    true => after.extend_from_slice(piece),
                    false => {
                        if let Some(rest) = opened.handle(piece) {
                            found = true;
                            after.extend_from_slice(rest);
                        }
                    }
                }
            }
            assert!(found && after == b"next", "in pieces of {size}: {}", after.escape_ascii());
        }
    }
}
