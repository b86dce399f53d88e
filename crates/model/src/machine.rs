//! Machine files: what a machine's numbers and settings are, each with unit, source and kind. One without a source does
//! not load.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::parameter::{Parameter, Values};
use crate::setting::{BadSet, Set, Settings};
use crate::text::{self, Number};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A manual or datasheet says it.
    Datasheet,
    /// It was read in the driver's code.
    Code,
    /// A measurement says it; the source names its row.
    Measured,
    /// A fit to measurements found it.
    Fitted,
    /// Nobody said it: it is somewhere between two bounds.
    Assumed,
}

/// What is known of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownParameter {
    /// The least and the most that it is; both the same where it is known.
    pub bounds: (f64, f64),
    /// Where that comes from.
    pub kind: Kind,
    /// And where it is written.
    pub source: String,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// A short name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Of each parameter.
    pub known: BTreeMap<Parameter, KnownParameter>,
    /// What its driver is set to, before anything is changed.
    pub settings: Settings,
    /// Which of those nobody said: what is gained by changing one is not known.
    pub assumed: Vec<String>,
}

/// Why a machine file does not load.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadMachine {
    /// It is no TOML, or not of this form.
    #[error("{0}")]
    Form(String),
    /// There is no such parameter.
    #[error("there is no parameter '{0}'")]
    NoParameter(String),
    /// A parameter has no value.
    #[error("'{0}' has no value; give one, or assume = [LOW, HIGH]")]
    Missing(&'static str),
    /// The unit is another.
    #[error("'{name}' is in {expected}, not in {given}")]
    Unit {
        /// Whose.
        name: &'static str,
        /// Its unit.
        expected: &'static str,
        /// The file's.
        given: String,
    },
    /// Nothing says where a number comes from.
    #[error("'{0}' has no source: say where it is written, or what it was derived from")]
    NoSource(String),
    /// A value that is assumed has bounds, and one that is known has none; or they are not numbers in order.
    #[error("'{0}': one value where it is known, and two bounds, the lower first, where it is assumed")]
    Bounds(&'static str),
    /// A number that cannot be.
    #[error("'{0}' must be a number from {1} to {MOST:e}")]
    Number(&'static str, f64),
    /// A setting.
    #[error(transparent)]
    Setting(#[from] BadSet),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    about: String,
    #[serde(default)]
    parameter: BTreeMap<String, Entry>,
    #[serde(default)]
    setting: BTreeMap<String, Choice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    value: Option<Number>,
    assume: Option<[Number; 2]>,
    unit: String,
    kind: Kind,
    #[serde(default)]
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    value: String,
    kind: Kind,
    #[serde(default)]
    source: String,
}

/// No number of a machine is larger.
const MOST: f64 = 1e9;

/// The machines that come with linerate, by name.
const SHIPPED: [(&str, &str); 6] = [
    ("any", include_str!("../machines/any.toml")),
    ("nitrogen6x", include_str!("../machines/nitrogen6x.toml")),
    ("atstk1000", include_str!("../machines/atstk1000.toml")),
    ("atngw100", include_str!("../machines/atngw100.toml")),
    ("ml405", include_str!("../machines/ml405.toml")),
    ("ap135", include_str!("../machines/ap135.toml")),
];

impl Machine {
    /// The names of those that come with linerate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// One that comes with linerate.
    pub fn shipped(name: &str) -> Option<Machine> {
        let (_, text) = SHIPPED.iter().find(|(one, _)| *one == name)?;
        Some(Machine::parse(text).expect("a test loads each of them"))
    }

    /// Reads a machine file.
    pub fn parse(text: &str) -> Result<Machine, BadMachine> {
        let file: File = text::read(text).map_err(BadMachine::Form)?;
        let mut known = BTreeMap::new();
        for (name, entry) in file.parameter {
            let parameter = Parameter::named(&name).ok_or(BadMachine::NoParameter(name))?;
            known.insert(parameter, entry.check(parameter)?);
        }
        if let Some(missing) = Parameter::ALL.into_iter().find(|one| !known.contains_key(one)) {
            return Err(BadMachine::Missing(missing.name()));
        }
        let (mut settings, mut fixed, mut assumed) = (Settings::default(), Vec::new(), Vec::new());
        for (axis, choice) in file.setting {
            if choice.source.trim().is_empty() {
                return Err(BadMachine::NoSource(axis));
            }
            if choice.kind == Kind::Assumed {
                assumed.push(axis.clone());
            }
            Set { axis, value: choice.value }.describe(&mut settings, &mut fixed)?;
        }
        // A parameter is given as one, with its unit.
        if let Some((parameter, _)) = fixed.first() {
            return Err(BadMachine::Form(format!("'{}' is a parameter, not a setting", parameter.name())));
        }
        if settings.mtu.is_some() {
            return Err(BadMachine::Form("'mtu' is a row's: of what was measured the payload says it".to_owned()));
        }
        Ok(Machine { name: file.name, about: file.about, known, settings, assumed })
    }

    /// The same where its driver is known to be set so, or its hardware to be so.
    pub fn saying(mut self, set: &Set) -> Result<Machine, BadSet> {
        let mut fixed = Vec::new();
        set.describe(&mut self.settings, &mut fixed)?;
        self.assumed.retain(|axis| *axis != set.axis);
        Ok(fixed.into_iter().fold(self, |machine, (parameter, value)| machine.knowing(parameter, value, "as given")))
    }

    /// The same where a parameter is known after all.
    pub fn knowing(mut self, parameter: Parameter, value: f64, source: impl Into<String>) -> Machine {
        let known = KnownParameter { bounds: (value, value), kind: Kind::Measured, source: source.into() };
        self.known.insert(parameter, known);
        self
    }

    /// The same where a parameter is at least so much.
    pub fn at_least(mut self, parameter: Parameter, value: f64, source: impl Into<String>) -> Machine {
        if let Some(known) = self.known.get_mut(&parameter)
            && known.bounds.0 < value
        {
            (known.bounds, known.source) = ((value, known.bounds.1.max(value)), source.into());
        }
        self
    }

    /// The parameters that are not known, in the order of their table.
    pub fn unknown(&self) -> Vec<Parameter> {
        self.known.iter().filter(|(_, known)| known.bounds.0 < known.bounds.1).map(|(&one, _)| one).collect()
    }

    /// Values with each unknown parameter at its place from 0 to 1 between its bounds: by ratio, where they differ much.
    pub fn values(&self, places: &[f64]) -> Values {
        let unknown = self.unknown();
        Values::of(|parameter| {
            let (low, high) = self.known[&parameter].bounds;
            let Some(nth) = unknown.iter().position(|&one| one == parameter) else { return low };
            if low > 0.0 { low * (high / low).powf(places[nth]) } else { low + (high - low) * places[nth] }
        })
    }
}

impl Entry {
    fn check(self, parameter: Parameter) -> Result<KnownParameter, BadMachine> {
        let name = parameter.name();
        if self.unit != parameter.unit() {
            return Err(BadMachine::Unit { name, expected: parameter.unit(), given: self.unit });
        }
        if self.source.trim().is_empty() {
            return Err(BadMachine::NoSource(name.to_owned()));
        }
        let bounds = match (self.value, self.assume, self.kind) {
            (Some(Number(value)), None, kind) if kind != Kind::Assumed => (value, value),
            (None, Some([Number(low), Number(high)]), Kind::Assumed | Kind::Fitted) => (low, high),
            _ => return Err(BadMachine::Bounds(name)),
        };
        let least = if parameter.is_rate() { 1e-3 } else { 0.0 };
        if [bounds.0, bounds.1].iter().any(|bound| !(least..=MOST).contains(bound)) {
            return Err(BadMachine::Number(name, least));
        }
        if bounds.0 > bounds.1 {
            return Err(BadMachine::Bounds(name));
        }
        Ok(KnownParameter { bounds, kind: self.kind, source: self.source })
    }
}
