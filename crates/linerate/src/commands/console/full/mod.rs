//! The console on a full screen. Draws when something has changed, and then what has changed.

mod app;
mod draw;
mod poller;
mod running;
mod status;
mod terminal;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linerate_host::sys::signals;
use linerate_machine::end::End;
use linerate_menu::groups::GROUPS;
use ratatui::crossterm::event::{Event as TerminalEvent, KeyEventKind, read};

use super::machines::Machines;
use super::programs;
use super::services::{Services, States};
use super::state::State;
use crate::cli::SharedArgs;
use app::{App, Effect, Event};
use poller::Poller;
use running::Running;
use terminal::Screen;

/// How often it is looked for a signal, or for a server that has ended.
const LOOK: Duration = Duration::from_millis(250);
/// The same while a command runs.
const LOOK_RUNNING: Duration = Duration::from_millis(50);
/// Events that are taken before the next drawing: a command may say much at once.
const AT_ONCE: usize = 1000;

/// Shows it until its way out, or a signal.
pub(super) fn run(state: State, machines: Machines, shared: &SharedArgs) -> Result<()> {
    let (told, events) = mpsc::channel();
    let poller = Poller::start(machines, told.clone()).context("a thread could not be started; try again")?;
    let screen = Screen::take().context("the terminal cannot be taken; --plain works without")?;
    let keys = told.clone();
    // It waits for keys, and ends with the process: nothing else ends a read of a terminal.
    std::thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || tell_keys(&keys))
        .context("a thread could not be started; try again")?;
    let (columns, rows) = terminal::size();
    let mut services = Services::default();
    let app = App::new(state, services.states(), columns, rows);
    let mut console = FullConsole {
        app,
        screen,
        services: &mut services,
        poller,
        running: None,
        shared,
        told,
        known: States::default(),
    };
    console.run(&events)
}

/// A key is pressed, the size changes, or the terminal is gone.
fn tell_keys(events: &Sender<Event>) {
    loop {
        let event = match read() {
            Ok(TerminalEvent::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key.code, key.modifiers),
            Ok(TerminalEvent::Resize(columns, rows)) => {
                let (columns, rows) = terminal::or_usual((columns, rows));
                Event::Size(columns, rows)
            }
            Ok(_) => continue,
            Err(_) => Event::Gone,
        };
        let is_gone = matches!(event, Event::Gone);
        if events.send(event).is_err() || is_gone {
            return;
        }
    }
}

/// That a panic gives the terminal back is tested by one.
#[cfg(debug_assertions)]
fn panic_if_a_test_asks(event: &Event) {
    use ratatui::crossterm::event::KeyCode;
    let is_key = matches!(event, Event::Key(KeyCode::F(12), _));
    assert!(!is_key || std::env::var_os("LINERATE_TEST_PANIC").is_none(), "a test asked for it");
}

struct FullConsole<'a> {
    app: App,
    screen: Screen,
    services: &'a mut Services,
    poller: Poller,
    running: Option<Running>,
    shared: &'a SharedArgs,
    told: Sender<Event>,
    /// How the servers stood when it was looked last.
    known: States,
}

/// Whether the console goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Goes,
    Ends,
}

impl FullConsole<'_> {
    fn run(&mut self, events: &Receiver<Event>) -> Result<()> {
        signals::listen_for_stops();
        self.draw()?;
        while signals::came().is_none() {
            if signals::is_to_stop() {
                terminal::stand_still();
            }
            if signals::has_continued() {
                self.screen.take_again().context("the terminal cannot be taken again")?;
                let (columns, rows) = terminal::size();
                let _ = self.app.handle(Event::Size(columns, rows));
                self.draw()?;
            }
            let usual = if self.running.is_some() { LOOK_RUNNING } else { LOOK };
            let due = self.app.due().map(|due| due.saturating_duration_since(Instant::now()));
            let first = match events.recv_timeout(due.map_or(usual, |due| due.min(usual))) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut pending: Vec<Event> = first.into_iter().collect();
            pending.extend(events.try_iter().take(AT_ONCE));
            if let Some(ended) = self.running.as_mut().and_then(Running::ended) {
                // Its last lines came while it was waited for.
                pending.extend(events.try_iter());
                pending.push(ended);
                self.running = None;
            }
            let states = self.services.states();
            if states != self.known {
                self.known = states.clone();
                pending.push(Event::Services(states, String::new()));
            }
            if self.app.due().is_some_and(|due| due <= Instant::now()) {
                pending.push(Event::Tick(Instant::now()));
            }
            if pending.is_empty() {
                continue;
            }
            for event in pending {
                #[cfg(debug_assertions)]
                panic_if_a_test_asks(&event);
                if let Event::Size(columns, rows) = event {
                    self.screen.draw_anew((columns, rows))?;
                }
                for effect in self.app.handle(event) {
                    if self.carry_out(effect) == Next::Ends {
                        return Ok(());
                    }
                }
            }
            self.draw()?;
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<()> {
        self.screen.draw(|frame| draw::draw(&self.app, frame)).context("the terminal cannot be written")
    }

    fn carry_out(&mut self, effect: Effect) -> Next {
        match effect {
            Effect::Quit => return Next::Ends,
            Effect::DrawAnew => {
                let drawn = self.screen.draw_anew((self.app.columns, self.app.rows));
                return if drawn.is_ok() { Next::Goes } else { Next::Ends };
            }
            Effect::Look(end, screen) => {
                if let Some(endpoint) = self.app.state.endpoint(end) {
                    self.poller.view(endpoint, screen, self.app.state.interface(end));
                }
            }
            Effect::List(list) => {
                if let Some(queue) = self.app.state.queue.clone() {
                    self.poller.list(queue, list, self.app.columns);
                }
            }
            Effect::ReadSettings(at) => {
                if let Some(endpoint) = self.app.state.endpoint(End::Target) {
                    let names = GROUPS[at].rows.iter().map(|(name, _)| (*name).to_owned()).collect();
                    self.poller.settings(endpoint, names, self.app.state.interface(End::Target));
                }
            }
            Effect::Command(words) => self.start(&words),
            Effect::EndCommand => self.running.iter().for_each(Running::ask_to_end),
            Effect::Serve(tool) => {
                let sentence = self.services.serve(tool, self.shared);
                self.tell_services(sentence);
            }
            Effect::Remote => {
                let state = &self.app.state;
                let sentence = self.services.toggle_remote(state.value("listen"), state.value("key"), self.shared);
                self.tell_services(sentence);
            }
            Effect::Said => self.app.show("What the servers said", self.services.said()),
        }
        Next::Goes
    }

    fn tell_services(&mut self, sentence: String) {
        self.known = self.services.states();
        // The receiver is this console's own.
        let _ = self.told.send(Event::Services(self.known.clone(), sentence));
    }

    fn start(&mut self, words: &[String]) {
        self.poller.close();
        self.app.begin(words, &programs::typed(words, self.shared));
        match Running::start(programs::command(words, self.shared), self.app.columns, &self.told) {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                let _ = self.told.send(Event::Ended(Some(format!("It could not be started: {error}; try again."))));
            }
        }
    }
}
