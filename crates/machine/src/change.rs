//! A change of a machine's setting: what was wanted, what came of it, and what it was before.
//! Knows no setting's meaning and no machine; [`crate::setting`] has the names.

use serde::{Deserialize, Serialize};

use crate::printable::brief;

/// A change that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The setting's name, without the end: `mtu`.
    pub name: String,
    /// The value.
    pub value: String,
    /// How to read and set it, where it is a setting of the user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<Custom>,
}

/// How a setting of the user's own is read and set, on its machine and as the agent's user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Custom {
    /// Where its value comes from.
    pub get: Access,
    /// Where a value goes.
    pub set: Access,
}

/// One way to a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Access {
    /// A file, such as a module's parameter in sysfs.
    File(String),
    /// A program and its arguments, run without a shell. `{value}` in an argument stands for the value to set.
    Command(Vec<String>),
}

/// What the names of a user's own settings begin with.
pub const CUSTOM: &str = "custom.";

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// What was asked.
    pub asked: String,
    /// What was written; what stood there already is not written again.
    pub set: Option<String>,
    /// What was read afterwards.
    pub read_back: Option<String>,
    /// What it was before the first change.
    pub original: Option<String>,
}

/// A setting as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
    /// Why there is none: one sentence.
    pub error: Option<String>,
}

/// A setting that was put back, or could not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutBack {
    /// Its name.
    pub name: String,
    /// The interface it belongs to, if to one.
    pub interface: Option<String>,
    /// What it was, and is again.
    pub original: String,
    /// What it was found to be, where that was neither this nor what it had been set to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Why it is not: one sentence.
    pub error: Option<String>,
}

impl PutBack {
    /// The sentence for people, without an end.
    pub fn sentence(&self) -> String {
        let of = self.interface.as_deref().map(|name| format!(" of {name}")).unwrap_or_default();
        let original = brief(&self.original);
        match (&self.error, &self.found) {
            (None, None) => format!("{}{of} is {original} again", self.name),
            (None, Some(found)) => format!(
                "{}{of} is {original} again; it was found to be {}, which is not what it had been set to",
                self.name,
                brief(found)
            ),
            (Some(error), _) => format!("{}{of} could not be put back to {original}: {error}", self.name),
        }
    }
}
