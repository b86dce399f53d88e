//! The console as numbered lines: for a serial line, a script, a screen reader.
//! Knows the order of menus, questions and tasks; a command writes to the same terminal itself.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linerate_control::Endpoint;
use linerate_host::sys::signals;
use linerate_machine::end::End;
use linerate_machine::screen::{self, Screen, View};
use linerate_menu::dialogue::{Dialogue, Disconnected};
use linerate_menu::groups::GROUPS;
use linerate_menu::table;

use super::machines::Machines;
use super::menus::{self, Action, MenuId};
use super::programs;
use super::queue::List;
use super::services::Services;
use super::state::State;
use super::tasks::{self, Task};
use crate::cli::SharedArgs;

/// Between two looks at a screen, and two lines of statistics.
const EVERY_S: u32 = 5;

/// Holds the dialogue until its way out, its input's end, or a signal.
pub(super) fn run(state: State, machines: Machines, shared: &SharedArgs, width: usize) -> Result<()> {
    let say = |text: &str| crate::output::print(format_args!("{text}"));
    let ended = || signals::came().is_some();
    let dialogue =
        Dialogue::new(Box::new(std::io::stdin()), &say, &ended, width).context("standard input cannot be read")?;
    let mut console = LineConsole { dialogue, state, machines, services: Services::default(), shared };
    // An error here means that the terminal is gone, so there is nobody to report it to.
    let _ = console.run();
    Ok(())
}

struct LineConsole<'a> {
    dialogue: Dialogue<'a>,
    state: State,
    machines: Machines,
    services: Services,
    shared: &'a SharedArgs,
}

impl LineConsole<'_> {
    fn run(&mut self) -> Result<(), Disconnected> {
        let mut way = vec![MenuId::Main];
        while let Some(&place) = way.last() {
            if let MenuId::Settings(at) = place {
                self.read_settings(at);
            }
            let menu = menus::menu(place, &self.state, &self.services.states());
            let Some(&action) = self.dialogue.choose(&menu)? else {
                way.pop();
                continue;
            };
            match action {
                // The other machine's screens stand in the place of this one's.
                Action::Go(to @ MenuId::Screens(_)) if matches!(place, MenuId::Screens(_)) => {
                    way.pop();
                    way.push(to);
                }
                Action::Go(to) => way.push(to),
                _ => self.act(action)?,
            }
        }
        Ok(())
    }

    /// Asks what has to be asked, and does it.
    fn act(&mut self, action: Action) -> Result<(), Disconnected> {
        for field in tasks::fields(action, &self.state, self.services.states().remote_is_on) {
            match self.dialogue.ask(field.question(), &|answer| field.check(answer))? {
                Some(answer) => self.state.keep(&field, &answer),
                None => return Ok(()),
            }
        }
        match tasks::task(action, &self.state) {
            Task::Go(_) | Task::Nothing => Ok(()),
            Task::Refused(sentence) => {
                self.dialogue.sentence(&sentence);
                Ok(())
            }
            Task::Command(words) => self.command(&words),
            Task::Screen(end, screen) => self.screen(end, screen),
            Task::Statistics(end) => self.statistics(end),
            Task::List(list) => self.list(list),
            Task::Serve(tool) => {
                let sentence = self.services.serve(tool, self.shared);
                self.soon(&sentence)
            }
            Task::Remote => {
                let (address, key) = (self.state.value("listen").to_owned(), self.state.value("key").to_owned());
                let sentence = self.services.toggle_remote(&address, &key, self.shared);
                self.soon(&sentence)
            }
            Task::Said => {
                self.tell(&self.services.said());
                Ok(())
            }
        }
    }

    /// A child that cannot do its work has ended by then, and the menu shows why.
    fn soon(&self, sentence: &str) -> Result<(), Disconnected> {
        self.dialogue.sentence(sentence);
        self.dialogue.rest(Duration::from_millis(300))
    }

    fn tell(&self, lines: &[String]) {
        self.dialogue.tell(&(lines.join("\n") + "\n"));
    }

    fn command(&mut self, words: &[String]) -> Result<(), Disconnected> {
        self.machines.close();
        self.tell(&[programs::typed(words, self.shared)]);
        let ended = programs::command(words, self.shared).spawn().and_then(|mut child| programs::wait(&mut child));
        if let Err(error) = ended {
            self.dialogue.sentence(&format!("It could not be started: {error}; try again."));
        }
        if signals::came().is_some() { Err(Disconnected) } else { Ok(()) }
    }

    fn read_settings(&mut self, at: usize) {
        let Some(endpoint) = self.state.endpoint(End::Target) else { return };
        let names: Vec<String> = GROUPS[at].rows.iter().map(|(name, _)| (*name).to_owned()).collect();
        match self.machines.settings(&endpoint, &names, self.state.interface(End::Target)) {
            Ok(readings) => {
                self.state.unread = None;
                self.state.readings.extend(readings.into_iter().map(|one| (one.name.clone(), one)));
            }
            Err(error) => self.state.unread = Some(format!("They could not be read: {error:#}.")),
        }
    }

    /// Lists until Enter.
    fn list(&mut self, list: List) -> Result<(), Disconnected> {
        let Some(queue) = self.state.queue.clone() else { return Ok(()) };
        let mut is_first = true;
        loop {
            self.tell(&queue.lines(list, self.dialogue.width()));
            if std::mem::take(&mut is_first) {
                self.dialogue.sentence("Again every 5 s; Enter goes back.");
            }
            if self.dialogue.pause(EVERY_S)? {
                return Ok(());
            }
        }
    }

    fn screen(&mut self, end: End, screen: Screen) -> Result<(), Disconnected> {
        self.again(end, screen, |dialogue, now, before| {
            dialogue.tell(&table::page(now, before, dialogue.width()));
        })
    }

    fn statistics(&mut self, end: End) -> Result<(), Disconnected> {
        self.again(end, Screen::Statistics, |dialogue, now, before| match before {
            Some((before, seconds)) => dialogue.sentence(&screen::statistics(now, before, seconds)),
            None => now.missing.iter().for_each(|sentence| dialogue.sentence(sentence)),
        })
    }

    /// Looks until Enter.
    fn again(
        &mut self,
        end: End,
        screen: Screen,
        show: impl Fn(&Dialogue<'_>, &View, Option<(&View, f64)>),
    ) -> Result<(), Disconnected> {
        let Some(endpoint) = self.state.endpoint(end) else { return Ok(()) };
        let mut before: Option<(View, Instant)> = None;
        loop {
            match self.look(&endpoint, end, screen) {
                Ok((now, at)) => {
                    let then = before.as_ref().map(|(view, then)| (view, (at - *then).as_secs_f64()));
                    show(&self.dialogue, &now, then);
                    if before.is_none() {
                        self.dialogue.sentence("Again every 5 s; Enter goes back.");
                    }
                    before = Some((now, at));
                }
                Err(error) => {
                    self.dialogue.sentence(&format!("{error:#}."));
                    return if signals::came().is_some() { Err(Disconnected) } else { Ok(()) };
                }
            }
            if self.dialogue.pause(EVERY_S)? {
                return Ok(());
            }
        }
    }

    fn look(&mut self, endpoint: &Endpoint, end: End, screen: Screen) -> Result<(View, Instant)> {
        Ok((self.machines.view(endpoint, screen, self.state.interface(end))?, Instant::now()))
    }
}
