//! Remote control, on and off: an agent that listens, as a child of the menu.
//! Knows nothing of what controllers ask it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linerate_control::Psk;
use linerate_host::sys::child;
use linerate_menu::dialogue::{Asked, Dialogue};
use linerate_menu::menu::Question;

use super::Next;
use crate::arguments::address_and_port;

/// How long an agent that cannot listen takes to say so.
const START: Duration = Duration::from_millis(300);

pub(super) struct Remote {
    /// What stands before the agent's options.
    first: Vec<String>,
    address: String,
    key: String,
    child: Option<Child>,
}

impl Remote {
    /// `program` is how the user called this program, such as `linerate agent`.
    pub(super) fn new(program: &str) -> Remote {
        Remote {
            first: program.split_whitespace().skip(1).map(str::to_owned).collect(),
            address: "[::]:7777".to_owned(),
            key: "key".to_owned(),
            child: None,
        }
    }

    pub(super) fn state(&mut self) -> String {
        // It may have ended by itself.
        if self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            self.child = None;
        }
        if self.child.is_some() { format!("on, {}", self.address) } else { "off".to_owned() }
    }

    /// Turns it on, after asking where and with which key, or off.
    pub(super) fn toggle(&mut self, dialogue: &Dialogue<'_>) -> Next {
        if self.child.is_some() {
            self.end();
            dialogue.sentence("Remote control is off; settings that controllers had changed are put back.");
            return Next::Goes;
        }
        let address = Question {
            prompt: "Listen at".to_owned(),
            last: self.address.clone(),
            allowed: "an address and a port, like [::]:7777 or 10.0.0.2:7777".to_owned(),
        };
        match dialogue.ask(&address, &|text| address_and_port(text).map(|_| ())) {
            Asked::Is(text) => self.address = text,
            Asked::Left => return Next::Goes,
            Asked::End => return Next::Ends,
        }
        let key = Question {
            prompt: "File of the key".to_owned(),
            last: self.key.clone(),
            allowed: "a file of 64 hexadecimal digits; --new-psk FILE makes one".to_owned(),
        };
        let is_key = |text: &str| Psk::read(text.as_ref()).map(|_| ()).map_err(|error| error.to_string());
        match dialogue.ask(&key, &is_key) {
            Asked::Is(text) => self.key = text,
            Asked::Left => return Next::Goes,
            Asked::End => return Next::Ends,
        }
        match self.start() {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                dialogue.sentence(&format!("The agent that listens could not be started: {error}; try again."));
                return Next::Goes;
            }
        }
        if !dialogue.rest(START) {
            return Next::Ends;
        }
        let state = self.state();
        dialogue.sentence(&format!("Remote control is {state}."));
        Next::Goes
    }

    /// It says itself, on standard error, where it listens, or why it does not.
    fn start(&self) -> std::io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command.args(&self.first).args(["--listen", &self.address, "--psk-file", &self.key]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        child::end_with_us(&mut command);
        command.spawn()
    }

    /// Its watchdogs put back what controllers had changed.
    pub(super) fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            child::ask_to_end(&child, false);
            let _ = child.wait();
        }
    }
}
