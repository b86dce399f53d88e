//! Menus and questions line by line: what a serial console, a pipe and a screen reader need.
//! Knows no terminal; lines come from a stream, and text goes where its user says.

use std::fmt::Write;
use std::io::{self, Read};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use linerate_machine::channel::{Receiver, channel};
use linerate_machine::printable::in_line;
use linerate_machine::thread;

use crate::menu::{Answer, Choice, Menu, MenuView, Question};
use crate::text;

/// What nobody types by hand; the rest of a longer line is dropped.
const LONGEST_LINE: usize = 1024;
/// Lines that are typed, or come from a script, before they are asked for.
const LINES_AHEAD: usize = 256;
/// How often it is looked whether the dialogue shall end: a person waits no longer after Ctrl-C.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS_A_SECOND: u32 = 5;

/// A dialogue with a person, or a script.
pub struct Dialogue<'a> {
    lines: Lines,
    say: &'a dyn Fn(&str),
    ended: &'a dyn Fn() -> bool,
    width: usize,
}

/// Nobody is there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

impl<'a> Dialogue<'a> {
    /// A dialogue over these streams. It ends with its input, or when `ended` says so.
    pub fn new(
        input: Box<dyn Read + Send>,
        say: &'a dyn Fn(&str),
        ended: &'a dyn Fn() -> bool,
        width: usize,
    ) -> io::Result<Dialogue<'a>> {
        // Its thread waits for a person, and ends with the process: nothing else ends a read of a terminal.
        Ok(Dialogue { lines: Lines::new(input, LONGEST_LINE, LINES_AHEAD)?, say, ended, width })
    }

    /// Shows the menu until something is chosen; `None`: the way out was.
    pub fn choose<'m, A>(&self, menu: &'m Menu<A>) -> Result<Option<&'m A>, Disconnected> {
        Ok(self.choose_item(&menu.shown)?.map(|at| &menu.actions[at]))
    }

    /// The same, with the item's number from 0.
    pub fn choose_item(&self, menu: &MenuView) -> Result<Option<usize>, Disconnected> {
        // An empty line shows the menu.
        let mut line = String::new();
        loop {
            let mut page = match menu.chosen(&line) {
                Choice::Item(at) => return Ok(Some(at)),
                Choice::Out => return Ok(None),
                Choice::Help => text::help(menu, self.width),
                Choice::Again => text::menu(menu, self.width),
                Choice::Unknown => {
                    let line = in_line(line.trim(), 40);
                    self.sentence(&format!("There is no '{line}' here; type a number of the menu."));
                    String::new()
                }
            };
            let _ = write!(page, "Choose 0 to {} (? explains): ", menu.items.len());
            (self.say)(&page);
            line = self.line()?;
        }
    }

    /// Asks until the answer is one that `check` lets pass; the error is a sentence. `None`: the question was left open.
    pub fn ask(
        &self,
        question: Question<'_>,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<Option<String>, Disconnected> {
        loop {
            (self.say)(&format!("{} [{}]: ", in_line(question.prompt, 100), in_line(question.last, 100)));
            let line = self.line()?;
            let complaint = match question.answered(&line) {
                Answer::Is(text) => match check(text) {
                    Ok(()) => return Ok(Some(text.to_owned())),
                    Err(sentence) => sentence,
                },
                Answer::Leave => return Ok(None),
                Answer::Help => format!("{}; Enter keeps the value in brackets, a full stop leaves.", question.allowed),
            };
            self.sentence(&complaint);
        }
    }

    /// Waits so many seconds, unless somebody presses Enter: whether somebody did.
    pub fn pause(&self, seconds: u32) -> Result<bool, Disconnected> {
        Ok(self.line_within(LOOKS_A_SECOND * seconds)?.is_some())
    }

    /// Waits for a moment, less than a second, and takes nothing of what is typed meanwhile.
    pub fn rest(&self, time: Duration) -> Result<(), Disconnected> {
        std::thread::sleep(time);
        if (self.ended)() { Err(Disconnected) } else { Ok(()) }
    }

    /// Says this page, whose every line has its end.
    pub fn tell(&self, page: &str) {
        (self.say)(page);
    }

    /// Says a sentence, in as many lines as it needs.
    pub fn sentence(&self, sentence: &str) {
        (self.say)(&text::sentence(sentence, self.width));
    }

    /// Columns of a line.
    pub fn width(&self) -> usize {
        self.width
    }

    fn line(&self) -> Result<String, Disconnected> {
        // So many looks take 27 years.
        self.line_within(u32::MAX).map(Option::unwrap_or_default)
    }

    /// The next line; `None`: none came in so many looks.
    fn line_within(&self, looks: u32) -> Result<Option<String>, Disconnected> {
        for _ in 0..looks {
            if (self.ended)() {
                return Err(Disconnected);
            }
            match self.lines.next_within(LOOK) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Err(Disconnected),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(None)
    }
}

/// The lines of a stream, read by a thread of their own.
pub struct Lines(Receiver<Vec<u8>>);

impl Lines {
    /// Reads until the stream ends, or nobody wants more: so many lines ahead, and of each what is past `longest` octets dropped. A
    /// last line without an end is none.
    pub fn new(mut input: Box<dyn Read + Send>, longest: usize, ahead: usize) -> io::Result<Lines> {
        let (sent, lines) = channel(ahead);
        let read = move || {
            let (mut line, mut octets) = (Vec::new(), [0; 256]);
            loop {
                let read = match input.read(&mut octets) {
                    Ok(read @ 1..) => read,
                    // A socket with a time-out is interrupted even where handlers have SA_RESTART (signal(7)).
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(_) | Err(_) => return,
                };
                for &octet in octets.iter().take(read) {
                    // A terminal that translates nothing ends a line with CR alone.
                    if octet == b'\n' || octet == b'\r' {
                        if !sent.send_octets(std::mem::take(&mut line)) {
                            return;
                        }
                    } else if line.len() < longest {
                        line.push(octet);
                    }
                }
            }
        };
        thread::start("lines", 256 << 10, read)?;
        Ok(Lines(lines))
    }

    /// The next line, waited for no longer than that.
    pub fn next_within(&self, time: Duration) -> Result<String, RecvTimeoutError> {
        Ok(String::from_utf8_lossy(&self.0.octets_within(time)?).into_owned())
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
        let dialogue = Dialogue::new(Box::new(input.as_bytes()), &say, &|| false, 60).unwrap();
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
            assert_eq!(dialogue.choose(&menu), Ok(Some(&'b')));
            assert_eq!(dialogue.choose(&menu), Ok(Some(&'a')));
            assert_eq!(dialogue.choose(&menu), Ok(None));
            assert_eq!(dialogue.choose(&menu), Err(Disconnected));
        });
        assert!(said.contains("There is no 'nine' here") && said.contains("first: The first."), "{said}");
        assert!(said.contains("  1  first   [1500]\n"), "{said}");
    }

    #[test]
    fn an_answer_is_checked() {
        let question = Question { prompt: "Size", last: "8K", allowed: "bytes, like 64K" };
        let check = |text: &str| if text == "no" { Err("'no' is not a size".to_owned()) } else { Ok(()) };
        let said = held("no\n?\n64K\n\n.\n", |dialogue| {
            assert_eq!(dialogue.ask(question, &check), Ok(Some("64K".into())));
            assert_eq!(dialogue.ask(question, &check), Ok(Some("8K".into())));
            assert_eq!(dialogue.ask(question, &check), Ok(None));
            assert_eq!(dialogue.ask(question, &check), Err(Disconnected));
        });
        assert!(said.contains("'no' is not a size\n") && said.contains("bytes, like 64K;"), "{said}");
    }

    #[test]
    fn a_pause_ends_with_enter() {
        held("\n", |dialogue| {
            assert_eq!(dialogue.pause(60), Ok(true));
            assert_eq!(dialogue.pause(60), Err(Disconnected));
        });
        let say = |_: &str| {};
        let (input, _open) = std::os::unix::net::UnixStream::pair().unwrap();
        let dialogue = Dialogue::new(Box::new(input), &say, &|| false, 60).unwrap();
        assert_eq!(dialogue.pause(1), Ok(false));
        let (input, _open) = std::os::unix::net::UnixStream::pair().unwrap();
        let dialogue = Dialogue::new(Box::new(input), &say, &|| true, 60).unwrap();
        assert_eq!(dialogue.pause(60), Err(Disconnected));
        assert_eq!(dialogue.choose(&menu()), Err(Disconnected));
    }

    #[test]
    fn a_long_line_is_cut_and_nonsense_is_no_choice() {
        let input = io::Cursor::new([&b"x".repeat(5000)[..], b"\n\xff\xfe\r1\nrest"].concat());
        let lines = Lines::new(Box::new(input), LONGEST_LINE, 10).unwrap();
        let lines: Vec<String> = std::iter::from_fn(|| lines.next_within(Duration::from_secs(60)).ok()).collect();
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [1024, 6, 1]);
    }
}
