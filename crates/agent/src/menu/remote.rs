//! Remote control, on and off: an agent that listens, as a child of the menu.
//! Knows nothing of what controllers ask it.

use std::process::Child;
use std::time::Duration;

use linerate_host::sys::child;
use linerate_menu::dialogue::{Dialogue, Disconnected};

use super::{KEY, ask_for, is_address, is_key, start_another};

/// How long an agent that cannot listen takes to say so.
const START: Duration = Duration::from_millis(300);

pub(super) struct Remote {
    address: String,
    key: String,
    child: Option<Child>,
}

impl Remote {
    pub(super) fn new() -> Remote {
        Remote { address: "[::]:7777".to_owned(), key: "key".to_owned(), child: None }
    }

    pub(super) fn state(&mut self) -> String {
        // It may have ended by itself.
        if self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            self.child = None;
        }
        if self.child.is_some() { format!("on, {}", self.address) } else { "off".to_owned() }
    }

    /// Turns it on, after asking where and with which key, or off. `program` is how the user called this one.
    pub(super) fn toggle(&mut self, dialogue: &Dialogue<'_>, program: &str) -> Result<(), Disconnected> {
        if self.child.is_some() {
            self.end();
            dialogue.sentence("Remote control is off; settings that controllers had changed are put back.");
            return Ok(());
        }
        let address = ("Listen at", "an address and a port, like [::]:7777 or 10.0.0.2:7777");
        if !ask_for(dialogue, address, &mut self.address, &is_address)?
            || !ask_for(dialogue, KEY, &mut self.key, &is_key)?
        {
            return Ok(());
        }
        // It says itself, on standard error, where it listens, or why it does not.
        let arguments = ["--listen", &self.address, "--psk-file", &self.key];
        let sentence = match start_another(program, &arguments) {
            Ok(child) => {
                self.child = Some(child);
                dialogue.rest(START)?;
                format!("Remote control is {}.", self.state())
            }
            Err(sentence) => sentence,
        };
        dialogue.sentence(&sentence);
        Ok(())
    }

    /// Its watchdogs put back what controllers had changed.
    pub(super) fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            child::ask_to_end(&child, false);
            let _ = child.wait();
        }
    }
}
