//! The full screen as a state that events change: no terminal, no clock, no child.
//! Knows what a key means, and what is to be done next; `draw.rs` shows it.

use std::time::{Duration, Instant};

use linerate_machine::change::Reading;
use linerate_machine::end::End;
use linerate_machine::screen::{self, Screen, View};
use linerate_menu::menu::{Answer, Menu};
use linerate_menu::{table, text};
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::super::menus::{self, Action, MenuId};
use super::super::queue::List;
use super::super::services::States;
use super::super::state::{Field, State};
use super::super::tasks::{self, Task};
use super::status::Status;
use crate::measure::events::CampaignEvent;

/// Between two looks at a screen, and two lines of statistics.
const EVERY: Duration = Duration::from_secs(5);
/// Lines of a command or of statistics that are kept.
const MOST_LINES: usize = 5000;

/// What happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A key, with what is held down.
    Key(KeyCode, KeyModifiers),
    /// The terminal has so many columns and rows.
    Size(u16, u16),
    /// A machine was looked at, or could not be.
    Viewed(Result<View, String>, Instant),
    /// A list of the team's queue.
    Listed(List, Vec<String>, Instant),
    /// Settings were read, or could not be.
    Settings(Result<Vec<Reading>, String>),
    /// A line of the command.
    Output(String),
    /// Something happens in the campaign that it carries out.
    Campaign(Box<CampaignEvent>),
    /// The command has ended; how, where it was not well.
    Ended(Option<String>),
    /// Servers changed.
    Services(States, String),
    /// Time passes.
    Tick(Instant),
    /// The terminal is gone.
    Gone,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Look(End, Screen),
    List(List),
    ReadSettings(usize),
    Command(Vec<String>),
    EndCommand,
    /// Other programs wrote to the terminal.
    DrawAnew,
    Serve(linerate_trial::tool::Tool),
    Remote,
    Said,
    Quit,
}

/// A menu that one is in.
#[derive(Debug)]
struct Step {
    place: MenuId,
    selected: usize,
}

/// Text instead of the menu.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    /// The first line that is shown.
    pub(super) top: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    /// `measures`: its lines come one by one while something is measured.
    Command {
        runs: bool,
        measures: bool,
        status: Box<Status>,
    },
    Screen {
        end: End,
        screen: Screen,
        before: Option<(View, Instant)>,
        next: Option<Instant>,
    },
    List {
        list: List,
        next: Option<Instant>,
    },
}

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Asking {
    fields: Vec<Field>,
    at: usize,
    action: Action,
    pub(super) typed: String,
    pub(super) complaint: Option<String>,
}

impl Asking {
    pub(super) fn field(&self) -> &Field {
        &self.fields[self.at]
    }
}

/// The whole.
#[derive(Debug)]
pub(super) struct App {
    pub(super) state: State,
    services: States,
    way: Vec<Step>,
    pub(super) page: Option<Page>,
    pub(super) asking: Option<Asking>,
    /// A sentence until the next key.
    pub(super) note: Option<String>,
    /// Digits of an item's number.
    digits: String,
    pub(super) columns: u16,
    pub(super) rows: u16,
}

impl App {
    pub(super) fn new(state: State, services: States, columns: u16, rows: u16) -> App {
        App {
            state,
            services,
            way: vec![Step { place: MenuId::Main, selected: 0 }],
            page: None,
            asking: None,
            note: None,
            digits: String::new(),
            columns,
            rows,
        }
    }

    /// The menu, and which of its rows is chosen; behind the last item is the way out.
    pub(super) fn menu(&self) -> (Menu<Action>, usize) {
        let (place, selected) = self.way.last().map_or((MenuId::Main, 0), |step| (step.place, step.selected));
        let menu = menus::menu(place, &self.state, &self.services);
        let selected = selected.min(menu.actions.len());
        (menu, selected)
    }

    /// Rows between the title and the three lines below.
    pub(super) fn room(&self) -> usize {
        usize::from(self.rows).saturating_sub(4).max(1)
    }

    /// When something is to be done though nobody presses a key.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.page.as_ref()?.kind {
            Kind::Screen { next, .. } | Kind::List { next, .. } => *next,
            _ => None,
        }
    }

    /// What an event means.
    pub(super) fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Gone => return vec![Effect::Quit],
            Event::Key(code, held) => return self.key(code, held),
            Event::Size(columns, rows) => (self.columns, self.rows) = (columns, rows),
            Event::Viewed(view, at) => self.viewed(view, at),
            Event::Listed(of, lines, at) => self.listed(of, lines, at),
            Event::Settings(Ok(readings)) => {
                self.state.unread = None;
                self.state.readings.extend(readings.into_iter().map(|one| (one.name.clone(), one)));
            }
            Event::Settings(Err(sentence)) => self.state.unread = Some(format!("They could not be read: {sentence}.")),
            Event::Output(line) => self.append(line),
            Event::Campaign(event) => {
                if let Some(Page { kind: Kind::Command { status, measures, .. }, .. }) = &mut self.page {
                    *measures = true;
                    status.hear(&event);
                }
            }
            Event::Ended(how) => {
                if let Some(Page { kind: Kind::Command { runs, measures, .. }, .. }) = &mut self.page {
                    *runs = false;
                    self.note.take_if(|note| note == STILL_RUNS);
                    // Of what is measured the end is what matters; a list or an explanation is read from its beginning.
                    let from_top = how.is_none() && !*measures;
                    self.append(how.unwrap_or_else(|| "Done.".to_owned()));
                    if from_top {
                        self.page.iter_mut().for_each(|page| page.top = 0);
                    }
                }
            }
            Event::Services(states, sentence) => {
                self.services = states;
                self.note = Some(sentence).filter(|sentence| !sentence.is_empty()).or(self.note.take());
            }
            Event::Tick(now) => {
                if let Some(Page { kind: Kind::Screen { end, screen, next, .. }, .. }) = &mut self.page
                    && next.is_some_and(|next| next <= now)
                {
                    *next = None;
                    return vec![Effect::Look(*end, *screen)];
                }
                if let Some(Page { kind: Kind::List { list, next }, .. }) = &mut self.page
                    && next.is_some_and(|next| next <= now)
                {
                    *next = None;
                    return vec![Effect::List(*list)];
                }
            }
        }
        Vec::new()
    }

    /// The command that was asked for begins; it is shown as somebody would type it.
    pub(super) fn begin(&mut self, words: &[String], typed: &str) {
        if let Some(page) = &mut self.page {
            page.title = format!("linerate {}", words.first().map_or("", String::as_str));
            page.lines = vec![typed.to_owned()];
        }
    }

    /// Shows these lines until a key goes back.
    pub(super) fn show(&mut self, title: &str, lines: Vec<String>) {
        self.page = Some(Page { title: title.to_owned(), lines, top: 0, kind: Kind::Text });
    }

    fn key(&mut self, code: KeyCode, held: KeyModifiers) -> Vec<Effect> {
        self.note = None;
        let code = match (code, held.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Char('c'), true) => {
                return match &self.page {
                    Some(Page { kind: Kind::Command { runs: true, .. }, .. }) => vec![Effect::EndCommand],
                    _ => vec![Effect::Quit],
                };
            }
            // What some terminals send for Enter and Backspace.
            (KeyCode::Char('j' | 'm'), true) => KeyCode::Enter,
            (KeyCode::Char('h'), true) => KeyCode::Backspace,
            (KeyCode::Char('l'), true) => return vec![Effect::DrawAnew],
            (KeyCode::Char(_), true) => return Vec::new(),
            (code, _) => code,
        };
        if self.asking.is_some() {
            return self.key_in_answer(code);
        }
        if self.page.is_some() {
            self.key_in_page(code);
            return Vec::new();
        }
        self.key_in_menu(code)
    }

    fn key_in_menu(&mut self, code: KeyCode) -> Vec<Effect> {
        let (menu, selected) = self.menu();
        let last = menu.actions.len();
        if !matches!(code, KeyCode::Char('0'..='9')) {
            self.digits.clear();
        }
        let to = match code {
            KeyCode::Up | KeyCode::Char('k') => selected.checked_sub(1).unwrap_or(last),
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => {
                if selected == last {
                    0
                } else {
                    selected + 1
                }
            }
            KeyCode::Home => 0,
            KeyCode::End => last,
            KeyCode::Char(digit @ '0'..='9') => self.numbered(digit, last),
            KeyCode::Enter | KeyCode::Right => return self.choose(menu, selected),
            KeyCode::Esc | KeyCode::Left | KeyCode::Char('q') | KeyCode::Backspace => {
                return self.back(code == KeyCode::Char('q'));
            }
            KeyCode::Char('?') => {
                let width = usize::from(self.columns);
                let mut lines: Vec<String> = text::help(&menu.shown, width).lines().map(str::to_owned).collect();
                lines.extend(KEYS.iter().flat_map(|line| text::wrapped(line, width)));
                self.show("Help", lines);
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        if let Some(step) = self.way.last_mut() {
            step.selected = to;
        }
        Vec::new()
    }

    /// The item of the number that is being typed.
    fn numbered(&mut self, digit: char, last: usize) -> usize {
        self.digits.push(digit);
        let number = |digits: &str| digits.parse::<usize>().ok().filter(|number| *number <= last);
        let number = number(&self.digits).unwrap_or_else(|| {
            self.digits = digit.to_string();
            number(&self.digits).unwrap_or(0)
        });
        number.checked_sub(1).unwrap_or(last)
    }

    fn choose(&mut self, menu: Menu<Action>, selected: usize) -> Vec<Effect> {
        match menu.actions.into_iter().nth(selected) {
            None => self.back(true),
            Some(action) => {
                let fields = tasks::fields(action, &self.state, self.services.remote_is_on);
                if fields.is_empty() {
                    return self.act(action);
                }
                self.asking = Some(Asking { fields, at: 0, action, typed: String::new(), complaint: None });
                Vec::new()
            }
        }
    }

    /// Out of this menu; out of the first one only where that was meant.
    fn back(&mut self, may_quit: bool) -> Vec<Effect> {
        if self.way.len() > 1 {
            self.way.pop();
            return Vec::new();
        }
        if may_quit {
            return vec![Effect::Quit];
        }
        self.note = Some("q leaves.".to_owned());
        Vec::new()
    }

    fn key_in_answer(&mut self, code: KeyCode) -> Vec<Effect> {
        let Some(asking) = &mut self.asking else { return Vec::new() };
        match code {
            KeyCode::Esc => self.asking = None,
            KeyCode::Backspace => drop(asking.typed.pop()),
            KeyCode::Char(c) if asking.typed.chars().count() < 500 => asking.typed.push(c),
            KeyCode::Enter => {
                let (field, typed) = (asking.fields[asking.at].clone(), std::mem::take(&mut asking.typed));
                let complaint = match field.question().answered(&typed) {
                    Answer::Is(answer) => match field.check(answer) {
                        Ok(()) => {
                            self.state.keep(&field, answer);
                            return self.answered();
                        }
                        Err(sentence) => sentence,
                    },
                    Answer::Help => field.allowed.clone(),
                    Answer::Leave => {
                        self.asking = None;
                        return Vec::new();
                    }
                };
                asking.complaint = Some(complaint);
            }
            _ => {}
        }
        Vec::new()
    }

    fn answered(&mut self) -> Vec<Effect> {
        let Some(asking) = &mut self.asking else { return Vec::new() };
        asking.at += 1;
        asking.complaint = None;
        if asking.at < asking.fields.len() {
            return Vec::new();
        }
        let action = asking.action;
        self.asking = None;
        self.act(action)
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        match tasks::task(action, &self.state) {
            Task::Nothing => Vec::new(),
            Task::Refused(sentence) => {
                self.note = Some(sentence);
                Vec::new()
            }
            Task::Go(place) => self.go(place),
            Task::Command(words) => {
                let measures = words.first().is_some_and(|word| word == "check");
                let kind = Kind::Command { runs: true, measures, status: Box::default() };
                self.page = Some(Page { title: String::new(), lines: Vec::new(), top: 0, kind });
                vec![Effect::Command(words)]
            }
            Task::Screen(end, screen) => self.look(end, screen, screen.title()),
            Task::Statistics(end) => self.look(end, Screen::Statistics, "Statistics"),
            Task::List(list) => {
                let lines = vec!["Being read.".to_owned()];
                let kind = Kind::List { list, next: None };
                self.page = Some(Page { title: list.title().to_owned(), lines, top: 0, kind });
                vec![Effect::List(list)]
            }
            Task::Serve(tool) => vec![Effect::Serve(tool)],
            Task::Remote => vec![Effect::Remote],
            Task::Said => vec![Effect::Said],
        }
    }

    fn go(&mut self, place: MenuId) -> Vec<Effect> {
        match (place, self.way.last_mut()) {
            // The other machine's screens stand in the place of this one's.
            (MenuId::Screens(_), Some(step)) if matches!(step.place, MenuId::Screens(_)) => step.place = place,
            _ => self.way.push(Step { place, selected: 0 }),
        }
        match place {
            MenuId::Settings(at) if self.state.endpoint(End::Target).is_some() => {
                self.state.unread = Some("They are being read.".to_owned());
                vec![Effect::ReadSettings(at)]
            }
            _ => Vec::new(),
        }
    }

    fn look(&mut self, end: End, screen: Screen, title: &str) -> Vec<Effect> {
        let machine = self.state.endpoint(end).map_or(String::new(), |endpoint| endpoint.to_string());
        let title = format!("{title} of the {}, {machine}", end.name());
        let lines = vec!["Being read.".to_owned()];
        self.page = Some(Page { title, lines, top: 0, kind: Kind::Screen { end, screen, before: None, next: None } });
        vec![Effect::Look(end, screen)]
    }

    fn key_in_page(&mut self, code: KeyCode) {
        let room = self.room();
        let width = usize::from(self.columns);
        let Some(page) = &mut self.page else { return };
        let last = page.drawn(width).len().saturating_sub(room);
        page.top = page.top.min(last);
        match code {
            KeyCode::Up | KeyCode::Char('k') => page.top = page.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => page.top = (page.top + 1).min(last),
            KeyCode::PageUp => page.top = page.top.saturating_sub(room),
            KeyCode::PageDown | KeyCode::Char(' ') => page.top = (page.top + room).min(last),
            KeyCode::Home => page.top = 0,
            KeyCode::End => page.top = last,
            KeyCode::Esc | KeyCode::Left | KeyCode::Char('q') | KeyCode::Enter | KeyCode::Backspace => {
                match page.kind {
                    Kind::Command { runs: true, .. } => self.note = Some(STILL_RUNS.to_owned()),
                    _ => self.page = None,
                }
            }
            _ => {}
        }
    }

    /// One more line of what goes on; who looks at the end sees it.
    fn append(&mut self, line: String) {
        let (room, width) = (self.room(), usize::from(self.columns));
        let Some(page) = &mut self.page else { return };
        let at_end = page.top + room >= page.drawn(width).len();
        page.lines.push(line);
        if page.lines.len() > MOST_LINES {
            page.lines.remove(0);
        }
        if at_end {
            page.top = page.drawn(width).len().saturating_sub(room);
        }
    }

    fn listed(&mut self, of: List, told: Vec<String>, at: Instant) {
        // It may have been left meanwhile.
        let Some(Page { kind: Kind::List { list, next }, lines, .. }) = &mut self.page else { return };
        if *list == of {
            (*lines, *next) = (told, Some(at + EVERY));
        }
    }

    fn viewed(&mut self, view: Result<View, String>, at: Instant) {
        let width = usize::from(self.columns);
        let Some(Page { kind: Kind::Screen { screen, before, next, .. }, lines, .. }) = &mut self.page else { return };
        let view = match view {
            Ok(view) => view,
            Err(sentence) => {
                *lines = text::wrapped(&format!("{sentence}."), width);
                (*before, *next) = (None, None);
                return;
            }
        };
        let then = before.as_ref().map(|(view, then)| (view, at.saturating_duration_since(*then).as_secs_f64()));
        let shown = match (*screen, then) {
            (Screen::Statistics, Some((before, seconds))) => Some(screen::statistics(&view, before, seconds)),
            (Screen::Statistics, None) => {
                let first = "A line every 5 s.".to_owned();
                *lines = std::iter::once(first).chain(view.missing.iter().cloned()).collect();
                None
            }
            (_, then) => {
                *lines = table::page(&view, then, width).lines().map(str::to_owned).collect();
                None
            }
        };
        *before = Some((view, at));
        *next = Some(at + EVERY);
        if let Some(line) = shown {
            self.append(line);
        }
    }
}

impl Page {
    /// Its lines at this width, broken where they are longer.
    pub(super) fn drawn(&self, width: usize) -> Vec<String> {
        self.lines
            .iter()
            .flat_map(
                |line| if line.chars().count() <= width { vec![line.clone()] } else { text::wrapped(line, width) },
            )
            .collect()
    }

    /// How the campaign in it stands; nothing where it is none.
    pub(super) fn status(&self) -> Vec<String> {
        if let Kind::Command { runs: true, status, .. } = &self.kind { status.lines() } else { Vec::new() }
    }

    /// Whether a command runs in it.
    pub(super) fn runs(&self) -> bool {
        matches!(self.kind, Kind::Command { runs: true, .. })
    }
}

/// Said to who would leave a command that has not ended.
const STILL_RUNS: &str = "It still runs; Ctrl-C ends it.";

/// What keys do, for who asks.
const KEYS: [&str; 3] = [
    "Keys: arrows or j and k move, Enter chooses, an item's number goes to it, Esc or q goes back.",
    "In a text: arrows, Page Up, Page Down, Home, End. In a question: Enter alone keeps the value in brackets, Esc leaves.",
    "Ctrl-C ends a command that runs, in good order; without one it leaves the console.",
];

#[cfg(test)]
#[path = "app_tests.rs"]
mod tests;
