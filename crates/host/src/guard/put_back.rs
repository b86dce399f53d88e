//! Puts settings back to what a journal says they were.
//! Knows no process: the agent does it at the end, its watchdog when it is dead, the next agent when both are.

use linerate_trial::change::{Access, CUSTOM, Custom, PutBack};

use super::journal::{Entry, Journal};
use crate::settings::{self, SettingError, Settings};

/// The settings of a machine or of an interface, with one of the user's own.
fn settings(interface: Option<&str>, name: &str, own: Option<&Custom>) -> Settings {
    let access = |access: &Access| match access {
        Access::File(path) => settings::Access::File(path.into()),
        Access::Command(words) => settings::Access::Command(words.clone()),
    };
    let custom = own.map(|own| settings::Custom {
        name: name.trim_start_matches(CUSTOM).to_owned(),
        get: access(&own.get),
        set: access(&own.set),
    });
    Settings::new(interface).with_custom(custom.into_iter().collect())
}

/// The value of a setting now.
pub(super) fn read(interface: Option<&str>, name: &str, own: Option<&Custom>) -> Result<String, String> {
    settings(interface, name, own).get(name).map_err(|error| error.to_string())
}

/// Why a setting could not have this value, if that is known without giving it.
pub(super) fn check(interface: Option<&str>, name: &str, own: Option<&Custom>, value: &str) -> Option<String> {
    settings(interface, name, own).check(name, value).err().map(|error| error.to_string())
}

/// Gives a setting a value.
pub(super) fn write(interface: Option<&str>, name: &str, own: Option<&Custom>, value: &str) -> Result<(), String> {
    settings(interface, name, own).set(name, value).map_err(|error| error.to_string())
}

/// The interface, for a setting that belongs to one; a sysctl is the same by whatever interface it was asked for.
pub(super) fn interface_of<'a>(interface: Option<&'a str>, name: &str) -> Option<&'a str> {
    let is_of_one = || matches!(Settings::new(None).get(name), Err(SettingError::NoInterface { .. }));
    interface.filter(|_| is_of_one())
}

/// Puts back what the journal holds and `wanted` picks, the last change first. One that fails holds nobody up, and
/// stays in the journal.
pub(super) fn put_back(journal: &mut Journal, wanted: impl Fn(&Entry) -> bool) -> Vec<PutBack> {
    let entries: Vec<Entry> = journal.entries.iter().rev().filter(|entry| wanted(entry)).cloned().collect();
    // Settings hang together: a driver that is given back its channels may forget its rings, and one that refuses
    // a value may take it when another has been put back. So each is looked at again when all have had their turn.
    let mut results: Vec<Result<(), String>> = entries.iter().map(one).collect();
    for (entry, result) in entries.iter().zip(&mut results) {
        *result = one(entry);
    }
    let told = entries.iter().zip(results).map(|(entry, result)| {
        if result.is_ok() {
            journal.strike(entry);
        }
        PutBack {
            name: entry.name.clone(),
            interface: entry.interface.clone(),
            original: entry.original.clone(),
            error: result.err(),
        }
    });
    told.collect()
}

/// Puts one back, and sees that it is.
fn one(entry: &Entry) -> Result<(), String> {
    let (interface, own) = (entry.interface.as_deref(), entry.custom.as_ref());
    let read = || read(interface, &entry.name, own);
    // What is there already is left alone: to write it again may reload the link.
    if read().is_ok_and(|now| now == entry.original) {
        return Ok(());
    }
    write(interface, &entry.name, own, &entry.original)?;
    match read()? {
        now if now == entry.original => Ok(()),
        now => Err(format!("it took that and is {now}; set it by hand on that machine")),
    }
}
