//! The settings of one machine, and of one interface of it: read and written by name.
//! Knows where each is; when to change one, and to put it back, is for others to say.
//!
//! Whatever [`Settings::get`] tells, [`Settings::set`] takes, and then it is as it was: a setting of which that is not
//! so is refused before it is touched. Everything happens in the network namespace of the calling thread.

use std::io;
use std::path::PathBuf;

use linerate_machine::change::CUSTOM;
use linerate_machine::printable::brief;
use linerate_machine::setting::place::SettingPlace;
use linerate_machine::setting::{self, BadSetting, BadSettingKind, SETTINGS, SettingInfo};

pub use custom::{Access, Custom};
pub use dependants::DependentSetting;
pub(crate) use features::{ACTIVE, HW};
use files::Files;

use crate::ethtool::{self, Command};
use crate::netlink::Netlink;
use crate::{sys, text_of};

mod custom;
mod dependants;
mod driver;
mod each;
mod features;
mod files;
mod kernel_removals;
mod link;
mod link_modes;
pub(crate) mod qdisc;
mod related;
mod sysctl;

/// Why a setting was not read or not written. Each is one sentence that says what to try.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting anywhere, or the value does not suit it.
    #[error(transparent)]
    Bad(#[from] BadSetting),
    /// It belongs to an interface, and the agent was given none.
    #[error("{name} belongs to an interface, and none was given; name the interface")]
    NoInterface {
        /// The setting.
        name: String,
    },
    /// The machine, its kernel or its driver does not have it.
    #[error("{name} is not there{of}: {reason}; leave it out")]
    Absent {
        /// The setting.
        name: String,
        /// ` on INTERFACE`, or nothing.
        of: String,
        /// What was missing, in the kernel's own words where it has some.
        reason: String,
    },
    /// It can be read and never changed.
    #[error("{name} is {value}{of}, and cannot be changed there; leave it out")]
    Fixed {
        /// The setting.
        name: String,
        /// ` on INTERFACE`, or nothing.
        of: String,
        /// What it is.
        value: String,
    },
    /// What is there now, or what would be lost, could not be made again.
    #[error("{name} is left alone because it could not be put back: {reason}")]
    CannotPutBack {
        /// The setting.
        name: String,
        /// Why, and what to do about it.
        reason: String,
    },
    /// It was not read or written in time.
    #[error("{name} is given up: {reason}; see what keeps it, and try again")]
    Late {
        /// The setting.
        name: String,
        /// What was not done within which time.
        reason: String,
    },
    /// The kernel or the driver refused the value.
    #[error("{name} cannot be {value}{of}: {reason}; try another value")]
    Refused {
        /// The setting.
        name: String,
        /// ` on INTERFACE`, or nothing.
        of: String,
        /// What it was to be.
        value: String,
        /// The kernel's own words where it has some, else its error.
        reason: String,
    },
    /// The kernel or the driver refused what is one request to it.
    #[error("{values} cannot be set together{of}: {reason}; nothing of it is set, try other values")]
    RefusedTogether {
        /// Each as `name=value`.
        values: String,
        /// ` on INTERFACE`, or nothing.
        of: String,
        /// The kernel's own words where it has some, else its error.
        reason: String,
    },
    /// The agent may not.
    #[error("{name} may not be {done}{of} by this user ({reason}); run the agent as root")]
    NotPermitted {
        /// The setting.
        name: String,
        /// ` on INTERFACE`, or nothing.
        of: String,
        /// `read` or `changed`.
        done: &'static str,
        /// The kernel's error.
        reason: String,
    },
}

/// How a setting is read and written: a mechanism is one file.
trait Mechanism {
    /// Its value, as [`Mechanism::set`] takes it.
    fn get(&self, subject: &Subject) -> Result<String, SettingError>;

    /// Makes it so, or leaves all as it is.
    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError>;

    /// Whether it could have this value, as far as the machine says so.
    fn check(&self, _: &Subject, _: &str) -> Result<(), SettingError> {
        Ok(())
    }

    /// Whether a value that tells only what is wanted is what is wanted now.
    fn is_wanted_so(&self, _: &Subject, _: &str) -> Result<bool, SettingError> {
        Ok(false)
    }

    /// The settings of a row of the table that there may be.
    fn names(&self, subject: &Subject) -> Vec<String> {
        vec![subject.name.to_owned()]
    }
}

/// Of what is no setting of the machine: why.
impl Mechanism for &'static str {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        Err(subject.absent(*self))
    }

    fn set(&self, subject: &Subject, _: &str) -> Result<(), SettingError> {
        Err(subject.absent(*self))
    }
}

/// A machine's settings, and those of an interface.
pub struct Settings {
    interface: Option<String>,
    index: Option<u32>,
    custom: Vec<Custom>,
    files: Files,
}

impl Settings {
    /// The machine's, and those of `interface`, as the calling thread's network namespace has it.
    pub fn new(interface: Option<&str>) -> Settings {
        Settings { interface: interface.map(str::to_owned), index: None, custom: Vec::new(), files: Files::new() }
    }

    /// Of the interface with this number alone: where another has its name now, nothing is written.
    pub fn with_index(self, index: Option<u32>) -> Settings {
        Settings { index, ..self }
    }

    /// With settings that a plan defines; they are called `custom.NAME`.
    pub fn with_custom(self, custom: Vec<Custom>) -> Settings {
        Settings { custom, ..self }
    }

    /// The names of all that this machine has and this agent may read, in the order of the table.
    pub fn names(&self) -> Vec<String> {
        let of_row = |info: &'static SettingInfo| -> Vec<String> {
            let subject = self.subject_of(info, info.name);
            match info.place {
                // Commands may take their time; files are read.
                SettingPlace::Custom => self.custom.iter().map(|custom| format!("{CUSTOM}{}", custom.name)).collect(),
                _ => {
                    let names = self.mechanism(&subject).map(|mechanism| mechanism.names(&subject)).unwrap_or_default();
                    names.into_iter().filter(|name| self.get(name).is_ok()).collect()
                }
            }
        };
        SETTINGS.iter().flat_map(of_row).collect()
    }

    /// Reads a setting, in a form that [`Settings::set`] takes.
    pub fn get(&self, name: &str) -> Result<String, SettingError> {
        let subject = self.subject(name)?;
        self.mechanism(&subject)?.get(&subject)
    }

    /// Whether a setting could have this value, as far as that is known without changing anything: what the machine
    /// says of its limits. What passes may be refused all the same.
    pub fn check(&self, name: &str, value: &str) -> Result<(), SettingError> {
        let value = setting::canonical(name, value)?;
        let info = setting::find(name)?;
        // What no machine has is known without one.
        if let SettingPlace::Custom | SettingPlace::Elsewhere(_) = info.place {
            return Ok(());
        }
        let subject = self.subject(name)?;
        self.mechanism(&subject)?.check(&subject, &value)
    }

    /// Whether a value that a setting has can be written again, as far as its form goes.
    pub fn check_original(name: &str, value: &str) -> Result<(), SettingError> {
        let cannot = |bad: BadSetting| SettingError::CannotPutBack { name: name.to_owned(), reason: bad.complaint() };
        setting::canonical(name, value).map(drop).map_err(cannot)
    }

    /// What a setting is, where that is not what this value says.
    pub fn differs(&self, name: &str, value: &str) -> Result<Option<String>, SettingError> {
        let now = self.get(name)?;
        let subject = self.subject(name)?;
        let is_so = now == value || self.mechanism(&subject)?.is_wanted_so(&subject, value)?;
        Ok((!is_so).then_some(now))
    }

    /// Writes a setting. What became of it is read with [`Settings::get`]: a driver may round, or ignore. After a
    /// change that may cut the link ([`SettingInfo::may_cut_link`]), it may be down for a while.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SettingError> {
        let value = &setting::canonical(name, value)?;
        let subject = self.subject(name)?;
        let mechanism = self.mechanism(&subject)?;
        if self.index.is_some() && !subject.interface.is_empty() {
            subject.index_now().map_err(|error| subject.not_written(value, &error, None))?;
        }
        mechanism.set(&subject, value)
    }

    /// Writes settings that are one request to the driver ([`SettingInfo::request`]), or a single one: all of them, or
    /// none.
    pub fn set_together(&self, changes: &[(&str, &str)]) -> Result<(), SettingError> {
        if let [(name, value)] = changes {
            return self.set(name, value);
        }
        let mut canonical = Vec::new();
        for &(name, value) in changes {
            canonical.push((name, setting::canonical(name, value)?));
        }
        let canonical: Vec<(&str, &str)> = canonical.iter().map(|(name, value)| (*name, value.as_str())).collect();
        driver::set(self, &canonical)
    }

    /// The setting of this name, and whose it is.
    fn subject<'a>(&'a self, name: &'a str) -> Result<Subject<'a>, SettingError> {
        let subject = self.subject_of(setting::find(name)?, name);
        match subject.interface.is_empty() && subject.info.is_of_interface(name) {
            true => Err(SettingError::NoInterface { name: name.to_owned() }),
            false => Ok(subject),
        }
    }

    fn subject_of<'a>(&'a self, info: &'static SettingInfo, name: &'a str) -> Subject<'a> {
        let (interface, index) = match self.interface.as_deref() {
            Some(interface) if info.is_of_interface(name) => (interface, self.index),
            _ => ("", None),
        };
        Subject { settings: self, info, name, interface, index }
    }

    fn mechanism<'a>(&'a self, subject: &Subject<'a>) -> Result<&'a dyn Mechanism, SettingError> {
        Ok(match &subject.info.place {
            SettingPlace::Link(field) => field,
            SettingPlace::Qdisc => &qdisc::Qdisc,
            SettingPlace::LinkModes => &link_modes::LinkModes,
            SettingPlace::Driver(knob) => knob,
            SettingPlace::Features(features) => features,
            SettingPlace::Files(files) => files,
            SettingPlace::Sysctl(name) => name,
            SettingPlace::Custom => {
                self.custom.iter().find(|custom| custom.name == subject.rest()).ok_or_else(|| {
                    SettingError::Bad(BadSetting { name: subject.name.to_owned(), why: BadSettingKind::Undefined })
                })?
            }
            SettingPlace::Elsewhere(why) => why,
        })
    }

    /// With files below other places than /sys and /proc.
    #[cfg(test)]
    fn below(root: &std::path::Path) -> Settings {
        Settings { interface: None, index: None, custom: Vec::new(), files: Files::below(root) }
    }
}

/// What is read or written: it makes the sentences of what goes wrong.
#[derive(Clone, Copy)]
struct Subject<'a> {
    settings: &'a Settings,
    info: &'static SettingInfo,
    name: &'a str,
    /// Empty for what belongs to no interface.
    interface: &'a str,
    /// The number that the interface is to have, where that is known.
    index: Option<u32>,
}

impl<'a> Subject<'a> {
    /// What stands where the row's name has its `*`.
    fn rest(&self) -> &'a str {
        self.info.rest_of(self.name).unwrap_or_default()
    }

    /// The number of the interface. The error is ENODEV where another has its name.
    fn index_now(&self) -> io::Result<u32> {
        let index = sys::netlink::interface_index(self.interface)?;
        match self.index {
            Some(wanted) if wanted != index => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            _ => Ok(index),
        }
    }

    /// Asks the driver.
    fn ask(&self, command: Command) -> Result<Vec<u8>, SettingError> {
        let mut netlink = Netlink::generic().map_err(|error| self.not_read(&error, None))?;
        ethtool::ask(&mut netlink, command, self.interface).map_err(|error| self.not_read(&error, netlink.said()))
    }

    /// Has the driver take these attributes, which make the setting `value`.
    fn tell(&self, command: Command, attributes: &[u8], value: &str) -> Result<(), SettingError> {
        let mut netlink = Netlink::generic().map_err(|error| self.not_written(value, &error, None))?;
        self.index_now()
            .and_then(|_| ethtool::set(&mut netlink, command, self.interface, attributes))
            .map_err(|error| self.not_written(value, &error, netlink.said()))
    }

    fn of(&self) -> String {
        if self.interface.is_empty() { String::new() } else { format!(" on {}", self.interface) }
    }

    fn absent(&self, reason: impl Into<String>) -> SettingError {
        SettingError::Absent { name: self.name.to_owned(), of: self.of(), reason: reason.into() }
    }

    fn fixed(&self, value: impl Into<String>) -> SettingError {
        SettingError::Fixed { name: self.name.to_owned(), of: self.of(), value: brief(&value.into()).into_owned() }
    }

    fn cannot_put_back(&self, reason: impl Into<String>) -> SettingError {
        SettingError::CannotPutBack { name: self.name.to_owned(), reason: reason.into() }
    }

    fn refused(&self, value: &str, reason: impl Into<String>) -> SettingError {
        let (value, reason) = (brief(value).into_owned(), reason.into());
        SettingError::Refused { name: self.name.to_owned(), of: self.of(), value, reason }
    }

    /// Why it could not be read, with what the kernel said in words.
    fn not_read(&self, error: &io::Error, said: Option<String>) -> SettingError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => self.not_permitted("read", error),
            _ => self.absent(reason(error, said)),
        }
    }

    /// Why it could not be written, with what the kernel said in words.
    fn not_written(&self, value: &str, error: &io::Error, said: Option<String>) -> SettingError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => self.not_permitted("changed", error),
            Some(libc::EOPNOTSUPP | libc::ENODEV | libc::ENOENT) => self.absent(reason(error, said)),
            // Of a container's /proc and /sys: no other value is taken there, nor from another user.
            Some(libc::EROFS) => self.settings.get(self.name).map_or_else(|error| error, |now| self.fixed(now)),
            _ => self.refused(value, reason(error, said)),
        }
    }

    fn not_permitted(&self, done: &'static str, error: &io::Error) -> SettingError {
        SettingError::NotPermitted { name: self.name.to_owned(), of: self.of(), done, reason: text_of(error) }
    }
}

fn reason(error: &io::Error, said: Option<String>) -> String {
    match (said, error.raw_os_error()) {
        (Some(said), _) => format!("{said} ({})", text_of(error)),
        (None, Some(libc::EOPNOTSUPP)) => "the driver does not support it".to_owned(),
        (None, Some(libc::ENODEV)) => "there is no such interface".to_owned(),
        (None, _) => text_of(error),
    }
}

/// The files of `path` that are directories named `prefix` and a number, by the number.
fn numbered(path: &std::path::Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_there_are_refused() {
        let settings = Settings::new(None);
        for (name, contains) in [
            ("mtuu", "did you mean 'mtu'?"),
            ("mtu", "name the interface"),
            ("custom.turbo", "the plan does not define"),
            ("receiver_scheduling", "threads of one agent"),
        ] {
            let error = settings.get(name).unwrap_err().to_string();
            assert!(error.contains(contains), "{error}");
        }
        assert_eq!(
            settings.set("gro", "maybe").unwrap_err().to_string(),
            "gro: 'maybe' is not allowed; write on | off"
        );
        assert!(Settings::new(Some("no-such-one")).get("mtu").unwrap_err().to_string().contains("no-such-one"));
    }

    #[test]
    fn what_is_read_only_takes_no_other_value_either() {
        let settings = Settings::new(Some("lo"));
        let subject = settings.subject("mtu").unwrap();
        let error = subject.not_written("1", &io::Error::from_raw_os_error(libc::EROFS), None).to_string();
        let now = settings.get("mtu").unwrap();
        assert_eq!(error, format!("mtu is {now} on lo, and cannot be changed there; leave it out"));
    }

    #[test]
    fn every_setting_of_the_table_has_a_place() {
        let settings = Settings::new(Some("lo"));
        for info in SETTINGS {
            let name = match info.name {
                "sysctl.*" => "sysctl.net.core.rmem_max".to_owned(),
                "feature.*" => "feature.rx-gro".to_owned(),
                name => name.replace('*', "0"),
            };
            // Whatever this machine has: none may be unknown but what a plan defines.
            let unknown = matches!(settings.get(&name), Err(SettingError::Bad(_)));
            assert_eq!(unknown, info.name == "custom.*", "{name}");
        }
    }
}
