//! `--menu`: a person at this machine's own console sets it, looks at it, and lets controllers in, in numbered menus.
//! Knows no other machine, and starts nothing while a controller measures here.

mod json;
mod peer;
mod remote;
mod settings;
mod test;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use linerate_control::{Lease, LeaseError, Psk, noise};
use linerate_host::sys::{child, local, signals};
use linerate_machine::end::Direction;
use linerate_machine::screen::{self, Screen, View};
use linerate_machine::text::number;
use linerate_menu::dialogue::{Dialogue, Disconnected};
use linerate_menu::groups::{GROUPS, Group};
use linerate_menu::menu::{MenuView, Question};
use linerate_menu::table;

use crate::arguments::address_and_port;
use crate::output;
use crate::screens;
use crate::settings::first_arguments;
use remote::Remote;
use settings::MenuSettings;
use test::{Tests, Transport};

/// Between two looks at a screen, and between two lines of statistics.
const EVERY_S: u32 = 5;
/// A serial console tells nobody its size.
const COLUMNS: usize = 80;

/// What an item does.
#[derive(Clone, Copy)]
enum Action {
    Interface,
    Settings(&'static Group),
    Test(Transport, Direction),
    Remote,
    /// This screen, or those that are chosen.
    Screens(Option<Screen>),
    PutBack,
}

const A_TEST: &str = "one stream or more, with an agent that listens on the host";

/// The main menu: what an item is called, and what it is for. Tests are report 003's, from this machine's point of view.
const ITEMS: [(&str, &str, Action); 12] = [
    ("Interface", "which interface the rest is about", Action::Interface),
    (GROUPS[0].title, GROUPS[0].help, Action::Settings(&GROUPS[0])),
    (GROUPS[1].title, GROUPS[1].help, Action::Settings(&GROUPS[1])),
    (GROUPS[2].title, GROUPS[2].help, Action::Settings(&GROUPS[2])),
    ("TX TCP test", A_TEST, Action::Test(Transport::Tcp, Direction::Tx)),
    ("RX TCP test", A_TEST, Action::Test(Transport::Tcp, Direction::Rx)),
    ("TX UDP test", A_TEST, Action::Test(Transport::Udp, Direction::Tx)),
    ("RX UDP test", A_TEST, Action::Test(Transport::Udp, Direction::Rx)),
    ("Remote control", "let controllers on the network measure with this machine", Action::Remote),
    ("Utility screens", "tasks, sockets, buffers, statistics, addresses", Action::Screens(None)),
    (
        "Statistics line every 5 s",
        "errors, dropped, frames, CPU load, until Enter",
        Action::Screens(Some(Screen::Statistics)),
    ),
    ("Put settings back", "undo what was changed here; leaving does it too", Action::PutBack),
];

/// Holds the dialogue until its way out, its input's end, or a signal; then settings are put back.
pub(crate) fn run(program: &str) -> Result<(), String> {
    signals::listen();
    let ended = || signals::came().is_some();
    // As a file, which the program reads anyway: Stdin's own buffer and locks take two kilobytes.
    let dialogue = (io::stdin().as_fd().try_clone_to_owned())
        .and_then(|input| Dialogue::new(Box::new(File::from(input)), &output::print, &ended, columns()))
        .map_err(|error| try_again("standard input cannot be read", &error))?;
    let mut console = Console {
        dialogue,
        program,
        interface: screens::usual_interface().unwrap_or_default(),
        settings: MenuSettings::new(program),
        remote: Remote::new(),
        tests: Tests::new(),
    };
    for note in &linerate_host::guard::recover().notes {
        console.dialogue.sentence(note);
    }
    // Whoever has gone is told nothing.
    let _ = console.main();
    console.remote.end();
    let _ = console.act(Action::PutBack);
    Ok(())
}

/// Of the terminal, as the shell says; wide enough for a word and narrow enough for a line.
fn columns() -> usize {
    let asked = std::env::var_os("COLUMNS").and_then(|text| number(text.to_str()?));
    asked.map_or(COLUMNS, |columns: u32| columns.clamp(40, 200) as usize)
}

/// Who measures here, as a sentence; `None`: nobody.
fn holder() -> Option<String> {
    let (holder, since_s) = Lease::holder(local::connect).ok()??;
    Some(format!("{}.", LeaseError::Busy { holder, since_s }))
}

/// Starts this very program once more, which ends with this one; `program` is how the user called it.
fn start_another(program: &str, arguments: &[&str]) -> Result<Child, String> {
    let mut words = first_arguments(program);
    words.extend_from_slice(arguments);
    let mut command = Command::new("/proc/self/exe");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    child::end_with_us(&mut command);
    command.spawn().map_err(|error| try_again("An agent could not be started here", &error))
}

fn try_again(what: &str, error: &io::Error) -> String {
    format!("{what}: {error}; try again.")
}

/// Asks for a value, and keeps the answer; false: the question was left open.
fn ask_for(
    dialogue: &Dialogue<'_>,
    (prompt, allowed): (&str, &str),
    value: &mut String,
    check: &dyn Fn(&str) -> Result<(), String>,
) -> Result<bool, Disconnected> {
    let answer = dialogue.ask(Question { prompt, last: value, allowed }, check)?;
    Ok(answer.map(|answer| *value = answer).is_some())
}

/// How a key is asked for.
const KEY: (&str, &str) =
    ("File of the key", "a file of 64 hexadecimal digits; linerate-agent --new-psk FILE makes one");

fn read_key(path: &str) -> Result<Psk, String> {
    Psk::read(path.as_ref()).map_err(|error| error.to_string())
}

/// Twice 128 random bits, as hexadecimal digits.
fn secret() -> Result<String, Box<str>> {
    noise::draw(&mut [0; 32]).map_err(|error| error.to_string().into())
}

fn is_key(path: &str) -> Result<(), String> {
    read_key(path).map(|_| ())
}

fn is_address(text: &str) -> Result<(), String> {
    address_and_port(text).map(|_| ())
}

struct Console<'a> {
    dialogue: Dialogue<'a>,
    /// How the user called this program, such as `linerate agent`.
    program: &'a str,
    /// What the rest is about; empty: this machine has none.
    interface: String,
    settings: MenuSettings,
    remote: Remote,
    tests: Tests,
}

impl Console<'_> {
    fn main(&mut self) -> Result<(), Disconnected> {
        let mut warned = false;
        loop {
            let menu = self.main_menu();
            if let Some((_, _, action)) = self.dialogue.choose_item(&menu)?.and_then(|at| ITEMS.get(at)) {
                self.act(*action)?;
                continue;
            }
            match holder() {
                // What the trial was begun with would change under it.
                Some(sentence) if self.settings.changed() > 0 && !warned => {
                    warned = true;
                    self.dialogue.sentence(&sentence);
                    self.dialogue.sentence("Leaving puts settings back; 0 once more leaves all the same.");
                }
                _ => return Ok(()),
            }
        }
    }

    fn main_menu(&mut self) -> MenuView {
        let title = format!("linerate-agent {} on {}", env!("CARGO_PKG_VERSION"), host_name());
        let mut menu = MenuView::new(title, "Exit");
        menu.notes.extend(holder());
        for (label, help, action) in &ITEMS {
            let value = match action {
                Action::Interface => Some(some(&self.interface).unwrap_or("none").to_owned()),
                Action::Test(..) => Some(self.tests.last()),
                Action::Remote => Some(self.remote.state()),
                Action::PutBack => Some(format!("{} changed", self.settings.changed())),
                Action::Settings(_) | Action::Screens(_) => None,
            };
            menu.item(label, value, help);
        }
        menu
    }

    // Within the loop, what every action begins with would be done ahead of it, which takes a kilobyte.
    #[inline(never)]
    fn act(&mut self, action: Action) -> Result<(), Disconnected> {
        match action {
            Action::Interface => self.choose_interface(),
            Action::Settings(group) => self.settings.menu(&self.dialogue, group, some(&self.interface)),
            Action::Test(over, direction) => self.tests.run(&self.dialogue, self.program, over, direction),
            Action::Remote => self.remote.toggle(&self.dialogue, self.program),
            Action::Screens(only) => self.look_at(only),
            Action::PutBack => {
                self.settings.put_back(&self.dialogue);
                Ok(())
            }
        }
    }

    fn choose_interface(&mut self) -> Result<(), Disconnected> {
        self.show(&screens::read(Screen::Addresses, None), None);
        let exists = |name: &str| match linerate_host::interfaces::number(name) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("This machine has no interface {name}; the table shows those with addresses.")),
        };
        let asked = ("Interface", "an interface of this machine, like eth0");
        ask_for(&self.dialogue, asked, &mut self.interface, &exists).map(|_| ())
    }

    fn look_at(&self, only: Option<Screen>) -> Result<(), Disconnected> {
        let mut menu = MenuView::new("Utility screens".to_owned(), "Back");
        for screen in Screen::listed() {
            menu.item(screen.title(), None, "");
        }
        loop {
            let screen = match only {
                Some(screen) => screen,
                None => match self.dialogue.choose_item(&menu)?.and_then(|at| Screen::listed().get(at)) {
                    Some(screen) => *screen,
                    None => return Ok(()),
                },
            };
            self.watch(screen)?;
            if only.is_some() {
                return Ok(());
            }
        }
    }

    /// Looks again and again, until Enter; from the second look on with rates.
    fn watch(&self, screen: Screen) -> Result<(), Disconnected> {
        let mut before: Option<(View, Instant)> = None;
        loop {
            let (now, at) = (screens::read(screen, some(&self.interface)), Instant::now());
            let then = before.as_ref().map(|(view, then)| (view, (at - *then).as_secs_f64()));
            match then {
                _ if screen != Screen::Statistics => self.show(&now, then),
                Some((before, seconds)) => self.dialogue.sentence(&screen::statistics(&now, before, seconds)),
                None => now.missing.iter().for_each(|sentence| self.dialogue.sentence(sentence)),
            }
            if before.is_none() {
                self.dialogue.sentence("Again every 5 s; Enter goes back.");
            }
            before = Some((now, at));
            if self.dialogue.pause(EVERY_S)? {
                return Ok(());
            }
        }
    }

    fn show(&self, view: &View, before: Option<(&View, f64)>) {
        self.dialogue.tell(&table::page(view, before, self.dialogue.width()));
    }
}

/// An empty text is none.
fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "this machine".to_owned(), |name| name.trim().to_owned())
}
