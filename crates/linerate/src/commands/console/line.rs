//! The console as numbered lines: for a serial line, a script, a screen reader.
//! Knows the order of menus, questions and deeds; a command writes to the same terminal itself.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linerate_control::Endpoint;
use linerate_host::sys::signals;
use linerate_machine::end::End;
use linerate_machine::screen::{self, Screen, View};
use linerate_menu::dialogue::{Asked, Dialogue, Pause, Picked};
use linerate_menu::groups::GROUPS;
use linerate_menu::table;

use super::deeds::{self, Deed};
use super::machines::Machines;
use super::menus::{self, Action, Place};
use super::programs;
use super::queue::List;
use super::services::Services;
use super::state::State;
use crate::cli::SharedArgs;

/// Between two looks at a screen, and two lines of statistics.
const EVERY: Duration = Duration::from_secs(5);

/// Whether whoever is there goes on.
enum Next {
    Goes,
    Ends,
}

/// Holds the dialogue until its way out, its input's end, or a signal.
pub(super) fn run(state: State, machines: Machines, shared: &SharedArgs, width: usize) -> Result<()> {
    let say = |text: &str| crate::output::print(format_args!("{text}"));
    let ended = || signals::came().is_some();
    let dialogue = Dialogue::new(std::io::stdin(), &say, &ended, width).context("standard input cannot be read")?;
    let mut console = LineConsole { dialogue, state, machines, services: Services::default(), shared };
    console.run();
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
    fn run(&mut self) {
        let mut way = vec![Place::Main];
        while let Some(&place) = way.last() {
            if let Place::Settings(at) = place {
                self.read_settings(at);
            }
            let menu = menus::menu(place, &self.state, &self.services.states());
            let action = match self.dialogue.choose(&menu) {
                Picked::Item(&action) => action,
                Picked::Out => {
                    way.pop();
                    continue;
                }
                Picked::End => return,
            };
            let next = match action {
                // The other machine's screens stand in the place of this one's.
                Action::Go(to @ Place::Screens(_)) if matches!(place, Place::Screens(_)) => {
                    way.pop();
                    way.push(to);
                    Next::Goes
                }
                Action::Go(to) => {
                    way.push(to);
                    Next::Goes
                }
                _ => self.act(action),
            };
            if matches!(next, Next::Ends) {
                return;
            }
        }
    }

    /// Asks what has to be asked, and does it.
    fn act(&mut self, action: Action) -> Next {
        for field in deeds::fields(action, &self.state, self.services.states().remote_is_on) {
            match self.dialogue.ask(&field.question, &|answer| field.check(answer)) {
                Asked::Is(answer) => self.state.keep(&field, &answer),
                Asked::Left => return Next::Goes,
                Asked::End => return Next::Ends,
            }
        }
        match deeds::deed(action, &self.state) {
            Deed::Go(_) | Deed::Nothing => Next::Goes,
            Deed::Refused(sentence) => {
                self.dialogue.sentence(&sentence);
                Next::Goes
            }
            Deed::Command(words) => self.command(&words),
            Deed::Screen(end, screen) => self.screen(end, screen),
            Deed::Statistics(end) => self.statistics(end),
            Deed::List(list) => self.list(list),
            Deed::Serve(tool) => {
                let sentence = self.services.serve(tool, self.shared);
                self.soon(&sentence)
            }
            Deed::Remote => {
                let (address, key) = (self.state.value("listen").to_owned(), self.state.value("key").to_owned());
                let sentence = self.services.toggle_remote(&address, &key, self.shared);
                self.soon(&sentence)
            }
            Deed::Said => {
                self.dialogue.tell(&self.services.said());
                Next::Goes
            }
        }
    }

    /// A child that cannot do its work has ended by then, and the menu shows why.
    fn soon(&self, sentence: &str) -> Next {
        self.dialogue.sentence(sentence);
        if self.dialogue.rest(Duration::from_millis(300)) { Next::Goes } else { Next::Ends }
    }

    fn command(&mut self, words: &[String]) -> Next {
        self.machines.close();
        self.dialogue.tell(&[programs::typed(words, self.shared)]);
        let ended = programs::command(words, self.shared).spawn().and_then(|mut child| programs::wait(&mut child));
        if let Err(error) = ended {
            self.dialogue.sentence(&format!("It could not be started: {error}; try again."));
        }
        if signals::came().is_some() { Next::Ends } else { Next::Goes }
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
    fn list(&mut self, list: List) -> Next {
        let Some(queue) = self.state.queue.clone() else { return Next::Goes };
        let mut is_first = true;
        loop {
            self.dialogue.tell(&queue.lines(list, self.dialogue.width()));
            if std::mem::take(&mut is_first) {
                self.dialogue.sentence("Again every 5 s; Enter goes back.");
            }
            match self.dialogue.pause(EVERY) {
                Pause::Over => {}
                Pause::Line => return Next::Goes,
                Pause::End => return Next::Ends,
            }
        }
    }

    fn screen(&mut self, end: End, screen: Screen) -> Next {
        self.again(end, screen, |dialogue, now, before| {
            let with_rates = before.map(|(before, seconds)| now.with_rates(before, seconds));
            dialogue.tell(&table::lines(with_rates.as_ref().unwrap_or(now), dialogue.width()));
        })
    }

    fn statistics(&mut self, end: End) -> Next {
        self.again(end, Screen::Statistics, |dialogue, now, before| match before {
            Some((before, seconds)) => dialogue.sentence(&screen::statistics(now, before, seconds)),
            None => now.missing.iter().for_each(|sentence| dialogue.sentence(sentence)),
        })
    }

    /// Looks until Enter.
    fn again(&mut self, end: End, screen: Screen, show: impl Fn(&Dialogue<'_>, &View, Option<(&View, f64)>)) -> Next {
        let Some(endpoint) = self.state.endpoint(end) else { return Next::Goes };
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
                    return if signals::came().is_some() { Next::Ends } else { Next::Goes };
                }
            }
            match self.dialogue.pause(EVERY) {
                Pause::Over => {}
                Pause::Line => return Next::Goes,
                Pause::End => return Next::Ends,
            }
        }
    }

    fn look(&mut self, endpoint: &Endpoint, end: End, screen: Screen) -> Result<(View, Instant)> {
        Ok((self.machines.view(endpoint, screen, self.state.interface(end))?, Instant::now()))
    }
}
