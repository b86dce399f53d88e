//! What a trial changed in a device's registers, by their vendors' names.
//! Knows no device and no definition: what a register is called and means was settled when the record was made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A machine's registers before and after a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterChanges {
    /// How many were read at both ends.
    pub compared: u32,
    /// The fields, and the registers without fields, that are settings or states and stood alike at both ends, by their
    /// vendors' names: `ENET_RCR.FCE`. What they are set to, in words where the definition has them.
    #[serde(default)]
    pub stood: BTreeMap<String, String>,
    /// Those that differ, or counted, or latched something.
    pub changed: Vec<RegisterChange>,
    /// Those that the reading before the trial cleared, so that what they show is of the trial.
    #[serde(default)]
    pub cleared: Vec<String>,
    /// What could not be read, and why: a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A register that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterChange {
    /// The vendor's name.
    pub name: String,
    /// Where it is: `0x02188084`, `+0x084` where the base is not known, `mii.1` of a PHY.
    pub address: String,
    /// What it is for.
    #[serde(default)]
    pub about: String,
    /// Its value before, hexadecimal.
    pub before: String,
    /// Its value after, hexadecimal.
    pub after: String,
    /// What it did as a whole; absent where only its fields tell.
    pub what: Option<ChangeKind>,
    /// The fields that are not as they were.
    #[serde(default)]
    pub fields: Vec<FieldChange>,
}

/// A field that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The vendor's name.
    pub name: String,
    /// Its bits, such as `29-16`.
    pub bits: String,
    /// Its value before.
    pub before: u32,
    /// Its value after.
    pub after: u32,
    /// What it did.
    pub what: ChangeKind,
    /// What its value after means.
    pub meaning: Option<String>,
}

/// What a register or a field did between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ChangeKind {
    /// It has another value.
    Changed,
    /// It counted so many.
    Counted {
        /// How many.
        count: u64,
        /// It stood at its highest value and may have missed more.
        at_least: bool,
        /// It was cleared by the reading before, so that its value is the count.
        cleared: bool,
    },
    /// It is a counter that stands lower than it did, and not because it began again: somebody cleared it.
    WentBack,
    /// It showed an event that has passed, or that the reading before had cleared.
    Latched,
}
