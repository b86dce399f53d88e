//! Tables: rows of a machine that were measured, and rows that are asked for.

use serde::Deserialize;

use crate::cost::{Load, Workload};
use crate::machine::{BadMachine, Machine};
use crate::parameter::Parameter;
use crate::setting::{BadSet, Set, Settings};

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Throughput, Mbit/s of payload at the receiver's application.
    pub mbps: f64,
    /// By how much runs of the same differ, as a share of it: their standard deviation.
    pub noise: f64,
}

/// A configuration under a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// A name for it.
    pub id: String,
    /// The load.
    pub load: Load,
    /// What differs from the machine's settings.
    pub set: Vec<Set>,
}

/// A machine with what is known of it, and what is asked.
#[derive(Clone, Debug)]
pub struct Table {
    /// The machine.
    pub machine: Machine,
    /// What was measured.
    pub measured: Vec<(Row, Measured)>,
    /// What is asked for.
    pub asked: Vec<Row>,
}

/// Why a table does not load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTable {
    /// It is no TOML, or not of this form.
    #[error("{0}")]
    Form(String),
    /// No machine has this name.
    #[error("no machine is called '{0}'; there are {names}", names = Machine::names().collect::<Vec<_>>().join(", "))]
    NoMachine(String),
    /// The machine.
    #[error(transparent)]
    Machine(#[from] BadMachine),
    /// A row sets what cannot be set.
    #[error("row '{row}': {error}")]
    Set {
        /// Which.
        row: String,
        /// Why not.
        error: BadSet,
    },
    /// A row has a number that cannot be.
    #[error("row '{row}': {what} must be more than 0")]
    Number {
        /// Which.
        row: String,
        /// What.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    machine: String,
    #[serde(default)]
    row: Vec<Line>,
    #[serde(default)]
    predict: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    workload: Workload,
    payload: f64,
    offered: Option<f64>,
    throughput: Option<f64>,
    noise: Option<f64>,
    #[serde(default)]
    set: std::collections::BTreeMap<String, toml::Value>,
}

/// Tables that come with linerate: the baselines of four reports.
const SHIPPED: [(&str, &str); 5] = [
    ("000", include_str!("../tables/000.toml")),
    ("002-atstk1000", include_str!("../tables/002-atstk1000.toml")),
    ("002-atngw100", include_str!("../tables/002-atngw100.toml")),
    ("003", include_str!("../tables/003.toml")),
    ("004", include_str!("../tables/004.toml")),
];

impl Table {
    /// The names of those that come with linerate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// One that comes with linerate.
    pub fn shipped(name: &str) -> Option<Table> {
        let (_, text) = SHIPPED.iter().find(|(one, _)| *one == name)?;
        Some(Table::parse(text).expect("a test loads each of them"))
    }

    /// Reads a table.
    pub fn parse(text: &str) -> Result<Table, BadTable> {
        let file: File = toml::from_str(text).map_err(|error| BadTable::Form(error.message().to_owned()))?;
        let machine = Machine::shipped(&file.machine).ok_or(BadTable::NoMachine(file.machine))?;
        let (mut measured, mut asked) = (Vec::new(), Vec::new());
        for line in file.row {
            let wants = |what| BadTable::Number { row: line.id.clone(), what };
            let positive = |value: Option<f64>| value.filter(|value| *value > 0.0 && value.is_finite());
            let mbps = positive(line.throughput).ok_or_else(|| wants("throughput"))?;
            let noise = positive(line.noise).ok_or_else(|| wants("noise"))?;
            measured.push((line.check()?, Measured { mbps, noise }));
        }
        for line in file.predict {
            if line.throughput.is_some() || line.noise.is_some() {
                return Err(BadTable::Form(format!("row '{}' is asked for, and has a figure", line.id)));
            }
            asked.push(line.check()?);
        }
        Ok(Table { machine, measured, asked })
    }
}

impl Line {
    fn check(self) -> Result<Row, BadTable> {
        let wants = |what| BadTable::Number { row: self.id.clone(), what };
        let positive = |value: f64| value > 0.0 && value.is_finite();
        if !positive(self.payload) || self.payload > 65_535.0 {
            return Err(wants("payload"));
        }
        if self.offered.is_some_and(|offered| !positive(offered)) {
            return Err(wants("offered"));
        }
        let text = |value: toml::Value| match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        let set = self.set.into_iter().map(|(axis, value)| Set { axis, value: text(value) }).collect();
        let load = Load { workload: self.workload, payload: self.payload, offered_mbps: self.offered };
        let row = Row { id: self.id, load, set };
        row.resolve(&Settings::default()).map_err(|error| BadTable::Set { row: row.id.clone(), error })?;
        Ok(row)
    }
}

impl Row {
    /// The settings and fixed parameters of this row on a machine with these settings.
    pub fn resolve(&self, settings: &Settings) -> Result<(Settings, Vec<(Parameter, f64)>), BadSet> {
        let (mut settings, mut fixed) = (*settings, Vec::new());
        for set in &self.set {
            set.apply(&mut settings, &mut fixed)?;
        }
        Ok((settings, fixed))
    }
}
