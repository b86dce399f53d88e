//! Menus and questions line by line: what a serial console, a pipe and a screen reader need.
//! Knows no terminal; lines come from a stream, and text goes where its user says.

use std::io::{self, Read};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use linerate_machine::channel::{Receiver, Sender, channel};
use linerate_machine::printable::in_line;

use crate::menu::{Answer, Choice, Menu, Question, Shown};
use crate::text;

/// What nobody types by hand; the rest of a longer line is dropped.
const LONGEST_LINE: usize = 1024;
/// Lines that are typed, or come from a script, before they are asked for.
const LINES_AHEAD: usize = 256;
/// How often it is looked whether the dialogue shall end: a person waits no longer after Ctrl-C.
const LOOK: Duration = Duration::from_millis(200);

/// A dialogue with a person, or a script.
pub struct Dialogue<'a> {
    lines: Receiver<String>,
    say: &'a dyn Fn(&str),
    ended: &'a dyn Fn() -> bool,
    width: usize,
}

/// What came of a menu.
#[derive(Debug, PartialEq, Eq)]
pub enum Picked<'m, A> {
    /// An item was chosen, and means this.
    Item(&'m A),
    /// The way out was.
    Out,
    /// Nobody is there any more.
    End,
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The answer, which is fine.
    Is(String),
    /// It was left open.
    Left,
    /// Nobody is there any more.
    End,
}

/// What came of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Its time has passed.
    Over,
    /// Somebody pressed Enter.
    Line,
    /// Nobody is there any more.
    End,
}

impl<'a> Dialogue<'a> {
    /// A dialogue over these streams. It ends with its input, or when `ended` says so.
    pub fn new(
        input: impl Read + Send + 'static,
        say: &'a dyn Fn(&str),
        ended: &'a dyn Fn() -> bool,
        width: usize,
    ) -> io::Result<Dialogue<'a>> {
        let (sent, lines) = channel(LINES_AHEAD);
        // It waits for a person, and ends with the process: nothing else ends a read of a terminal.
        let reader = std::thread::Builder::new().name("menu-input".to_owned()).stack_size(64 << 10);
        reader.spawn(move || read_lines(input, &sent))?;
        Ok(Dialogue { lines, say, ended, width })
    }

    /// Shows the menu until something is chosen.
    pub fn choose<'m, A>(&self, menu: &'m Menu<A>) -> Picked<'m, A> {
        match self.choice(&menu.shown) {
            Some(Choice::Item(at)) => Picked::Item(&menu.actions[at]),
            Some(_) => Picked::Out,
            None => Picked::End,
        }
    }

    /// An item or the way out; `None`: nobody is there any more.
    fn choice(&self, menu: &Shown) -> Option<Choice> {
        self.tell(&text::menu(menu, self.width));
        loop {
            (self.say)(&format!("Choose 0 to {} (? explains): ", menu.items.len()));
            let line = self.line()?;
            match menu.chosen(&line) {
                choice @ (Choice::Item(_) | Choice::Out) => return Some(choice),
                Choice::Help => self.tell(&text::help(menu, self.width)),
                Choice::Again => self.tell(&text::menu(menu, self.width)),
                Choice::Unknown => {
                    let sentence =
                        format!("There is no '{}' here; type a number of the menu.", in_line(line.trim(), 40));
                    self.tell(&text::wrapped(&sentence, self.width));
                }
            }
        }
    }

    /// Asks until the answer is one that `check` lets pass; the error is a sentence.
    pub fn ask(&self, question: &Question, check: &dyn Fn(&str) -> Result<(), String>) -> Asked {
        loop {
            (self.say)(&format!("{} [{}]: ", in_line(&question.prompt, 100), in_line(&question.last, 100)));
            let Some(line) = self.line() else { return Asked::End };
            let complaint = match question.answered(&line) {
                Answer::Is(text) => match check(text) {
                    Ok(()) => return Asked::Is(text.to_owned()),
                    Err(sentence) => sentence,
                },
                Answer::Leave => return Asked::Left,
                Answer::Help => format!("{}; Enter keeps the value in brackets, a full stop leaves.", question.allowed),
            };
            self.tell(&text::wrapped(&complaint, self.width));
        }
    }

    /// Waits, unless somebody presses Enter.
    pub fn pause(&self, time: Duration) -> Pause {
        let until = Instant::now() + time;
        loop {
            if (self.ended)() {
                return Pause::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(_) => return Pause::Line,
                Err(RecvTimeoutError::Disconnected) => return Pause::End,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Pause::Over,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits, and takes nothing of what is typed meanwhile; false: nobody is there any more.
    pub fn rest(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until && !(self.ended)() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK));
        }
        !(self.ended)()
    }

    /// Says these lines.
    pub fn tell(&self, lines: &[String]) {
        (self.say)(&(lines.join("\n") + "\n"));
    }

    /// Says a sentence, in as many lines as it needs.
    pub fn sentence(&self, sentence: &str) {
        self.tell(&text::wrapped(sentence, self.width));
    }

    /// Columns of a line.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The next line; `None`: there is none any more.
    fn line(&self) -> Option<String> {
        loop {
            if (self.ended)() {
                return None;
            }
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Hands over line after line until the stream ends, or nobody wants them. A last line without an end is none.
fn read_lines(mut input: impl Read, lines: &Sender<String>) {
    let (mut line, mut octets) = (Vec::new(), [0; 256]);
    loop {
        let read = match input.read(&mut octets) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        for &octet in &octets[..read] {
            // A terminal that translates nothing ends a line with CR alone.
            if octet == b'\n' || octet == b'\r' {
                let text = String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned();
                if lines.send(text).is_err() {
                    return;
                }
            } else if line.len() < LONGEST_LINE {
                line.push(octet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Holds a dialogue with this input, and gives what was said.
    fn held(input: &'static str, talk: impl FnOnce(&Dialogue<'_>)) -> String {
        let said = RefCell::new(String::new());
        let say = |text: &str| said.borrow_mut().push_str(text);
        let dialogue = Dialogue::new(input.as_bytes(), &say, &|| false, 60).unwrap();
        talk(&dialogue);
        drop(dialogue);
        said.into_inner()
    }

    fn menu() -> Menu<char> {
        let mut menu = Menu::new("Choose", "Back");
        menu.item("first", Some("1500".into()), "The first.", 'a');
        menu.item("second", None, "", 'b');
        menu
    }

    #[test]
    fn a_script_chooses_and_answers() {
        let menu = menu();
        let said = held("nine\n?\n2\n1\n0\n", |dialogue| {
            assert!(matches!(dialogue.choose(&menu), Picked::Item('b')));
            assert!(matches!(dialogue.choose(&menu), Picked::Item('a')));
            assert_eq!(dialogue.choose(&menu), Picked::Out);
            assert_eq!(dialogue.choose(&menu), Picked::End);
        });
        assert!(said.contains("There is no 'nine' here") && said.contains("first: The first."), "{said}");
        assert!(said.contains("  1  first   [1500]\n"), "{said}");
    }

    #[test]
    fn an_answer_is_checked() {
        let question = Question { prompt: "Size".into(), last: "8K".into(), allowed: "bytes, like 64K".into() };
        let check = |text: &str| if text == "no" { Err("'no' is no size".to_owned()) } else { Ok(()) };
        let said = held("no\n?\n64K\n\n.\n", |dialogue| {
            assert_eq!(dialogue.ask(&question, &check), Asked::Is("64K".into()));
            assert_eq!(dialogue.ask(&question, &check), Asked::Is("8K".into()));
            assert_eq!(dialogue.ask(&question, &check), Asked::Left);
            assert_eq!(dialogue.ask(&question, &check), Asked::End);
        });
        assert!(said.contains("'no' is no size\n") && said.contains("bytes, like 64K;"), "{said}");
    }

    #[test]
    fn a_pause_ends_with_enter() {
        held("\n", |dialogue| {
            assert_eq!(dialogue.pause(Duration::from_secs(60)), Pause::Line);
            assert_eq!(dialogue.pause(Duration::from_secs(60)), Pause::End);
        });
        let say = |_: &str| {};
        let (input, _open) = std::os::unix::net::UnixStream::pair().unwrap();
        let dialogue = Dialogue::new(input, &say, &|| false, 60).unwrap();
        assert_eq!(dialogue.pause(Duration::from_millis(5)), Pause::Over);
        let (input, _open) = std::os::unix::net::UnixStream::pair().unwrap();
        let dialogue = Dialogue::new(input, &say, &|| true, 60).unwrap();
        assert_eq!(dialogue.pause(Duration::from_secs(60)), Pause::End);
        assert_eq!(dialogue.choose(&menu()), Picked::End);
    }

    #[test]
    fn a_long_line_is_cut_and_nonsense_is_no_choice() {
        let (sent, lines) = channel(10);
        read_lines(io::Cursor::new([&b"x".repeat(5000)[..], b"\n\xff\xfe\r1\nrest"].concat()), &sent);
        drop(sent);
        let lines: Vec<String> = std::iter::from_fn(|| lines.recv()).collect();
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [1024, 6, 1]);
    }
}
