//! The menus of settings: what each is, and a new value for it.
//! Knows no setting; a journal and a watchdog hold what was, as for a controller.

use linerate_control::Lease;
use linerate_control::message::Holder;
use linerate_host::sys::local;
use linerate_machine::change::{Change, Changed, PutBack, Reading};
use linerate_machine::setting::{self, SettingInfo};
use linerate_menu::dialogue::{Dialogue, Disconnected};
use linerate_menu::groups::Group;
use linerate_menu::menu::{MenuView, Question};

use super::secret;
use crate::refusal::Refusal;
use crate::settings::{Commands, SettingsOf};

/// What this menu has changed. It stays while the menu runs, and is put back when it ends.
pub(super) struct MenuSettings {
    settings: SettingsOf,
    changed: Vec<String>,
}

impl MenuSettings {
    pub(super) fn new(program: &str) -> MenuSettings {
        let settings = SettingsOf::new(program, Commands::Refused, "the menu at this machine");
        MenuSettings { settings, changed: Vec::new() }
    }

    /// How many settings are changed.
    pub(super) fn changed(&self) -> usize {
        self.changed.len()
    }

    /// A group's menu until its way out.
    pub(super) fn menu(
        &mut self,
        dialogue: &Dialogue<'_>,
        group: &Group,
        interface: Option<&str>,
    ) -> Result<(), Disconnected> {
        let mut names = Vec::new();
        for (name, _) in group.rows {
            names.push((*name).to_owned());
        }
        loop {
            let readings = self.settings.get(interface, &names, &[], &[]).unwrap_or_default();
            let mut menu = MenuView::new(group.title.to_owned(), "Back");
            for ((name, label), reading) in group.rows.iter().zip(&readings) {
                let about = info(name).map_or("", |info| info.about);
                menu.item(label, Some(reading.value.as_deref().unwrap_or("not here").to_owned()), about);
            }
            let Some(reading) = dialogue.choose_item(&menu)?.and_then(|at| readings.get(at)) else { return Ok(()) };
            self.ask(dialogue, reading, interface)?;
        }
    }

    fn ask(&mut self, dialogue: &Dialogue<'_>, reading: &Reading, interface: Option<&str>) -> Result<(), Disconnected> {
        let (name, Some(value)) = (&reading.name, &reading.value) else {
            dialogue.sentence(reading.error.as_deref().unwrap_or("It cannot be read here."));
            return Ok(());
        };
        let allowed = info(name).map_or("", |info| info.allowed);
        let check = |text: &str| setting::canonical(name, text).map(|_| ()).map_err(|error| error.to_string());
        let answer = dialogue.ask(Question { prompt: name, last: value, allowed }, &check)?;
        if let Some(new) = answer.filter(|new| new != value) {
            let (Ok(sentence) | Err(sentence)) = self.set(name, new, interface);
            dialogue.sentence(&sentence);
        }
        Ok(())
    }

    /// Under the lease, which nobody else may have meanwhile; once it is set, a controller may measure with it. Says what came of it.
    fn set(&mut self, name: &str, value: String, interface: Option<&str>) -> Result<Box<str>, Box<str>> {
        let _lease = lease()?;
        let change = Change { name: name.to_owned(), value, custom: None };
        let changed = self.settings.set(interface, &[change], None).map_err(|Refusal(_, sentence)| sentence)?;
        if !self.changed.iter().any(|one| one == name) {
            self.changed.push(name.to_owned());
        }
        // One change was asked for, and one is told.
        Ok(changed.first().map(told).unwrap_or_default().into())
    }

    /// Puts everything back, and says what came of it.
    pub(super) fn put_back(&mut self, dialogue: &Dialogue<'_>) {
        if self.changed.is_empty() {
            return;
        }
        self.changed.clear();
        for PutBack { name, original, error, .. } in &self.settings.restore(&[], false) {
            dialogue.sentence(&match error {
                None => format!("{name} is {original} again."),
                Some(why) => format!("{name} could not be put back to {original}: {why}"),
            });
        }
    }
}

fn info(name: &str) -> Option<&'static SettingInfo> {
    setting::find(name).ok()
}

fn told<'a>(changed: &'a Changed) -> String {
    let Changed { name, asked, read_back, original, .. } = changed;
    let or_unknown = |value: &'a Option<String>| value.as_deref().unwrap_or("unknown");
    let (reads, was) = (or_unknown(read_back), or_unknown(original));
    format!("{name}: asked {asked}, reads {reads}, was {was}.")
}

fn lease() -> Result<Lease, Box<str>> {
    let name = format!("the menu at this machine (process {})", std::process::id());
    let holder = Holder { controller: secret()?, name, fence: None };
    Lease::take(&holder, local::connect).map_err(|error| format!("Nothing is changed: {error}.").into())
}
