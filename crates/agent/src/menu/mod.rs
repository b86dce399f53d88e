//! `--menu`: a person at this machine's own console sets it, looks at it, and lets controllers in, in numbered menus.
//! Knows no other machine, and starts nothing while a controller measures here.

mod peer;
mod remote;
mod settings;
mod test;

use std::time::{Duration, Instant};

use linerate_control::Lease;
use linerate_host::sys::{local, signals};
use linerate_machine::end::Direction;
use linerate_machine::screen::{self, Screen, View};
use linerate_menu::dialogue::{Asked, Dialogue, Pause, Picked};
use linerate_menu::groups::GROUPS;
use linerate_menu::menu::{Menu, Question};
use linerate_menu::table;

use crate::output;
use crate::screens;
use remote::Remote;
use settings::MenuSettings;
use test::{Over, Tests};

/// Between two looks at a screen, and between two lines of statistics.
const EVERY: Duration = Duration::from_secs(5);
/// A serial console tells nobody its size.
const COLUMNS: usize = 80;

/// What an item does.
#[derive(Clone, Copy)]
enum Action {
    Interface,
    Settings(usize),
    Test(Over, Direction),
    Remote,
    Screens,
    Screen(Screen),
    Statistics,
    PutBack,
}

/// Whether whoever is there goes on.
enum Next {
    Goes,
    /// Nobody is there any more.
    Ends,
}

/// Holds the dialogue until its way out, its input's end, or a signal; then settings are put back.
pub(crate) fn run(program: &str) -> Result<(), String> {
    signals::listen();
    let ended = || signals::came().is_some();
    let dialogue = Dialogue::new(std::io::stdin(), &output::print, &ended, columns())
        .map_err(|error| format!("standard input cannot be read: {error}; try again"))?;
    let mut console = Console {
        dialogue,
        interface: screens::usual_interface(),
        settings: MenuSettings::new(program),
        remote: Remote::new(program),
        tests: Tests::new(program),
    };
    for note in linerate_host::guard::recover() {
        console.dialogue.sentence(&note);
    }
    console.main();
    console.end();
    Ok(())
}

/// Of the terminal, as the shell says; wide enough for a word and narrow enough for a line.
fn columns() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    asked.map_or(COLUMNS, |columns: usize| columns.clamp(40, 200))
}

/// Who measures here, as a sentence; `None`: nobody.
fn holder() -> Option<String> {
    let (holder, since_s) = Lease::holder(local::connect).ok()??;
    Some(format!("{} has been measuring here for {since_s} s; wait until it is done, or stop it.", holder.name))
}

struct Console<'a> {
    dialogue: Dialogue<'a>,
    interface: Option<String>,
    settings: MenuSettings,
    remote: Remote,
    tests: Tests,
}

/// Report 003's tests, from this machine's point of view.
const TESTS: [(&str, Over, Direction); 4] = [
    ("TX TCP test", Over::Tcp, Direction::Tx),
    ("RX TCP test", Over::Tcp, Direction::Rx),
    ("TX UDP test", Over::Udp, Direction::Tx),
    ("RX UDP test", Over::Udp, Direction::Rx),
];

impl Console<'_> {
    fn main(&mut self) {
        let mut warned = false;
        loop {
            let menu = self.main_menu();
            let next = match self.dialogue.choose(&menu) {
                Picked::Item(&action) => self.act(action),
                Picked::End => Next::Ends,
                Picked::Out => match holder() {
                    // What the trial was begun with would change under it.
                    Some(sentence) if self.settings.changed() > 0 && !warned => {
                        warned = true;
                        self.dialogue.sentence(&format!(
                            "{sentence} Leaving puts settings back; 0 once more leaves all the same."
                        ));
                        Next::Goes
                    }
                    _ => Next::Ends,
                },
            };
            if matches!(next, Next::Ends) {
                return;
            }
        }
    }

    fn main_menu(&mut self) -> Menu<Action> {
        let mut menu = Menu::new(format!("linerate-agent {} on {}", env!("CARGO_PKG_VERSION"), host_name()), "Exit");
        if let Some(sentence) = holder() {
            menu.note(sentence);
        }
        let interface = self.interface.clone().unwrap_or_else(|| "none".to_owned());
        menu.item("Interface", Some(interface), "which interface the rest is about", Action::Interface);
        for (at, group) in GROUPS.iter().enumerate() {
            menu.item(group.title, None, group.help, Action::Settings(at));
        }
        for (label, over, direction) in TESTS {
            let help = "one stream or more, with an agent that listens on the host";
            menu.item(label, Some(self.tests.last()), help, Action::Test(over, direction));
        }
        let state = self.remote.state();
        menu.item(
            "Remote control",
            Some(state),
            "let controllers on the network measure with this machine",
            Action::Remote,
        );
        menu.item("Utility screens", None, "tasks, sockets, buffers, statistics, addresses", Action::Screens);
        menu.item(
            "Statistics line every 5 s",
            None,
            "errors, dropped, frames, CPU load, until Enter",
            Action::Statistics,
        );
        let changed = format!("{} changed", self.settings.changed());
        menu.item(
            "Put settings back",
            Some(changed),
            "undo what was changed here; leaving does it too",
            Action::PutBack,
        );
        menu
    }

    fn act(&mut self, action: Action) -> Next {
        match action {
            Action::Interface => self.choose_interface(),
            Action::Settings(at) => self.settings.menu(&self.dialogue, &GROUPS[at], self.interface.as_deref()),
            Action::Test(over, direction) => {
                let ended = || signals::came().is_some();
                self.tests.run(&self.dialogue, over, direction, &ended)
            }
            Action::Remote => self.remote.toggle(&self.dialogue),
            Action::Screens => self.list_screens(),
            Action::Screen(screen) => self.show(screen),
            Action::Statistics => self.statistics(),
            Action::PutBack => {
                self.settings.put_back(&self.dialogue);
                Next::Goes
            }
        }
    }

    fn choose_interface(&mut self) -> Next {
        self.dialogue.tell(&table::lines(&screens::read(Screen::Addresses, None), self.dialogue.width()));
        let question = Question {
            prompt: "Interface".to_owned(),
            last: self.interface.clone().unwrap_or_default(),
            allowed: "an interface of this machine, like eth0".to_owned(),
        };
        let exists = |name: &str| match linerate_host::interfaces::number(name) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("This machine has no interface {name}; the table shows those with addresses.")),
        };
        match self.dialogue.ask(&question, &exists) {
            Asked::Is(name) => self.interface = Some(name),
            Asked::Left => {}
            Asked::End => return Next::Ends,
        }
        Next::Goes
    }

    fn list_screens(&mut self) -> Next {
        let mut menu = Menu::new("Utility screens", "Back");
        for screen in Screen::listed() {
            menu.item(screen.title(), None, "", Action::Screen(screen));
        }
        loop {
            match self.dialogue.choose(&menu) {
                Picked::Item(&action) => {
                    if let Next::Ends = self.act(action) {
                        return Next::Ends;
                    }
                }
                Picked::Out => return Next::Goes,
                Picked::End => return Next::Ends,
            }
        }
    }

    /// Again and again, with rates from the second look on.
    fn show(&self, screen: Screen) -> Next {
        let read = || (screens::read(screen, self.interface.as_deref()), Instant::now());
        let (mut before, mut then) = read();
        self.dialogue.tell(&table::lines(&before, self.dialogue.width()));
        self.until_enter(&mut || {
            let (now, at) = read();
            let with_rates = now.with_rates(&before, (at - then).as_secs_f64());
            self.dialogue.tell(&table::lines(&with_rates, self.dialogue.width()));
            (before, then) = (now, at);
        })
    }

    fn statistics(&self) -> Next {
        let read = || (screens::read(Screen::Statistics, self.interface.as_deref()), Instant::now());
        let (mut before, mut then): (View, Instant) = read();
        for sentence in &before.missing {
            self.dialogue.sentence(sentence);
        }
        self.until_enter(&mut || {
            let (now, at) = read();
            self.dialogue.sentence(&screen::statistics(&now, &before, (at - then).as_secs_f64()));
            (before, then) = (now, at);
        })
    }

    fn until_enter(&self, again: &mut dyn FnMut()) -> Next {
        self.dialogue.sentence("Again every 5 s; Enter goes back.");
        loop {
            match self.dialogue.pause(EVERY) {
                Pause::Over => again(),
                Pause::Line => return Next::Goes,
                Pause::End => return Next::Ends,
            }
        }
    }

    fn end(mut self) {
        self.remote.end();
        self.settings.put_back(&self.dialogue);
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "this machine".to_owned(), |name| name.trim().to_owned())
}
