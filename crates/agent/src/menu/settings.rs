//! The menus of settings: what each is, and a new value for it.
//! Knows no setting; a journal and a watchdog hold what was, as for a controller.

use linerate_control::message::{Holder, Reply};
use linerate_control::{Lease, LeaseError};
use linerate_host::sys::local;
use linerate_machine::change::{Change, Changed, Reading};
use linerate_machine::setting;
use linerate_menu::dialogue::{Asked, Dialogue, Picked};
use linerate_menu::groups::Group;
use linerate_menu::menu::{Menu, Question};

use super::Next;
use crate::refusal::Refusal;
use crate::settings::{Commands, SettingsOf};

/// What this menu has changed. It stays while the menu runs, and is put back when it ends.
pub(super) struct MenuSettings {
    settings: SettingsOf,
    changed: Vec<String>,
}

impl MenuSettings {
    pub(super) fn new(program: &str) -> MenuSettings {
        let mut settings = SettingsOf::new(program, Commands::Refused);
        settings.by = "the menu at this machine".to_owned();
        MenuSettings { settings, changed: Vec::new() }
    }

    /// How many settings are changed.
    pub(super) fn changed(&self) -> usize {
        self.changed.len()
    }

    /// A group's menu until its way out.
    pub(super) fn menu(&mut self, dialogue: &Dialogue<'_>, group: &Group, interface: Option<&str>) -> Next {
        loop {
            let names: Vec<String> = group.rows.iter().map(|(name, _)| (*name).to_owned()).collect();
            let readings = match self.settings.get(interface, &names, &[], &[]) {
                Ok(Reply::Settings { settings, .. }) => settings,
                _ => Vec::new(),
            };
            let mut menu = Menu::new(group.title, "Back");
            for ((name, label), reading) in group.rows.iter().zip(&readings) {
                let about = setting::find(name).map_or("", |info| info.about);
                let value = reading.value.clone().unwrap_or_else(|| "not here".to_owned());
                menu.item(*label, Some(value), about, reading);
            }
            let reading = match dialogue.choose(&menu) {
                Picked::Item(reading) => *reading,
                Picked::Out => return Next::Goes,
                Picked::End => return Next::Ends,
            };
            if let Next::Ends = self.ask(dialogue, reading, interface) {
                return Next::Ends;
            }
        }
    }

    fn ask(&mut self, dialogue: &Dialogue<'_>, reading: &Reading, interface: Option<&str>) -> Next {
        let (name, Some(value)) = (&reading.name, &reading.value) else {
            dialogue.sentence(reading.error.as_deref().unwrap_or("It cannot be read here."));
            return Next::Goes;
        };
        let allowed = setting::find(name).map_or("", |info| info.allowed);
        let question = Question { prompt: name.clone(), last: value.clone(), allowed: allowed.to_owned() };
        let check = |text: &str| setting::canonical(name, text).map(|_| ()).map_err(|error| error.to_string());
        match dialogue.ask(&question, &check) {
            Asked::Is(new) if new != *value => match self.set(name, &new, interface) {
                Ok(changed) => dialogue.sentence(&told(&changed)),
                Err(sentence) => dialogue.sentence(&sentence),
            },
            Asked::Is(_) | Asked::Left => {}
            Asked::End => return Next::Ends,
        }
        Next::Goes
    }

    /// Under the lease, which nobody else may have meanwhile; once it is set, a controller may measure with it.
    fn set(&mut self, name: &str, value: &str, interface: Option<&str>) -> Result<Changed, String> {
        let _lease = lease()?;
        let change = Change { name: name.to_owned(), value: value.to_owned(), custom: None };
        let reply = self.settings.set(interface, &[change], None).map_err(|Refusal(_, sentence)| sentence)?;
        let Reply::Changed { settings } = reply else { return Err("nothing was changed; try again".to_owned()) };
        if !self.changed.iter().any(|one| one == name) {
            self.changed.push(name.to_owned());
        }
        settings.into_iter().next().ok_or_else(|| "nothing was changed; try again".to_owned())
    }

    /// Puts everything back, and says what came of it.
    pub(super) fn put_back(&mut self, dialogue: &Dialogue<'_>) {
        if self.changed.is_empty() {
            return;
        }
        self.changed.clear();
        let Reply::Restored { settings } = self.settings.restore(&[], false) else { return };
        for one in settings {
            let sentence = match one.error {
                None => format!("{} is {} again.", one.name, one.original),
                Some(why) => format!("{} could not be put back to {}: {why}", one.name, one.original),
            };
            dialogue.sentence(&sentence);
        }
    }
}

fn told(changed: &Changed) -> String {
    let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let (name, asked) = (&changed.name, &changed.asked);
    format!("{name}: asked {asked}, reads {}, was {}.", or_unknown(&changed.read_back), or_unknown(&changed.original))
}

fn lease() -> Result<Lease, String> {
    let process = std::process::id();
    let name = format!("the menu at this machine (process {process})");
    let holder = Holder { controller: format!("menu-{process}"), name, fence: None };
    Lease::take(&holder, local::connect).map_err(|error| match error {
        LeaseError::Busy { .. } => format!("Nothing is changed: {error}."),
        other => other.to_string(),
    })
}
