//! Tables: rows of a machine that were measured, and rows that are asked for.

use linerate_path::stage::Stage;
use serde::Deserialize;

use crate::cost::{Load, Workload};
use crate::machine::{BadMachine, Machine};
use crate::parameter::Parameter;
use crate::setting::{BadSet, Set, Settings};
use crate::text::{self, Number};

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Throughput, Mbit/s of payload at the receiver's application.
    pub mbps: f64,
    /// By how much runs of the same differ, as a share of it: their standard deviation.
    pub noise: f64,
    /// Where nearly all that was lost was lost, where something was and it is known.
    pub lost_at: Option<Stage>,
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
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
    #[error("row '{row}': {what} must be a number from {low} to {high}, in {unit}")]
    Number {
        /// Which.
        row: String,
        /// What.
        what: &'static str,
        /// The least.
        low: f64,
        /// The most.
        high: f64,
        /// What it is counted in.
        unit: &'static str,
    },
    /// A measured row lacks its figure, or its noise.
    #[error("row '{row}' has no {what}; {next}")]
    Missing {
        /// Which.
        row: String,
        /// What.
        what: &'static str,
        /// What to do.
        next: &'static str,
    },
    /// Two rows have one name.
    #[error("two rows are called '{0}'; give each its own id")]
    Twice(String),
    /// A word that nobody would type.
    #[error("{what} has {count} characters; give it 1 to {MOST_WORD}")]
    Word {
        /// Which.
        what: &'static str,
        /// How long it is.
        count: usize,
    },
    /// Nothing is asked for.
    #[error("nothing is asked for: add a [[predict]] with id, workload, payload and set")]
    NothingAsked,
    /// A fit would take for ever.
    #[error("the table has {0} rows, and a fit takes {MOST_ROWS} at most; leave out those that say the same")]
    TooMany(usize),
}

/// Rows of a table. With so many a fit takes some minutes.
pub const MOST_ROWS: usize = 200;

/// Characters of an id, an axis or a value.
const MOST_WORD: usize = 80;

/// The least and the most of a number of a row, and its unit.
type Limits = (f64, f64, &'static str);
const PAYLOAD: Limits = (1.0, 65_535.0, "bytes");
const MBPS: Limits = (1e-3, 1e7, "Mbit/s");
const NOISE: Limits = (1e-6, 1.0, "shares of the throughput");

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
    payload: Number,
    offered: Option<Number>,
    throughput: Option<Number>,
    noise: Option<Number>,
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

    /// Reads a table, of a machine that comes with linerate.
    pub fn parse(text: &str) -> Result<Table, BadTable> {
        Table::of(text, |name| Machine::shipped(name).ok_or_else(|| BadTable::NoMachine(name.to_owned())))
    }

    /// Reads a table, of the machine that its name leads to.
    pub fn of<E: From<BadTable>>(text: &str, machine: impl FnOnce(&str) -> Result<Machine, E>) -> Result<Table, E> {
        let file: File = text::read(text).map_err(BadTable::Form)?;
        let machine = machine(&file.machine)?;
        Ok(Table::on(machine, file)?)
    }

    fn on(machine: Machine, file: File) -> Result<Table, BadTable> {
        let mut ids: Vec<&String> = file.row.iter().chain(&file.predict).map(|line| &line.id).collect();
        if ids.len() > MOST_ROWS {
            return Err(BadTable::TooMany(ids.len()));
        }
        ids.iter().try_for_each(|id| word("a row's id", id))?;
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BadTable::Twice(pair[0].clone()));
        }
        let (mut measured, mut asked) = (Vec::new(), Vec::new());
        for line in file.row {
            let missing = |what, next| BadTable::Missing { row: line.id.clone(), what, next };
            let mbps = line.throughput.ok_or_else(|| missing("throughput", "ask for it as a [[predict]]"))?;
            let noise = line.noise.ok_or_else(|| missing("noise", "0.03 where nothing was repeated"))?;
            let figure = Measured {
                mbps: line.number("throughput", mbps, MBPS)?,
                noise: line.number("noise", noise, NOISE)?,
                lost_at: None,
            };
            measured.push((line.check(&machine.settings)?, figure));
        }
        for line in file.predict {
            if line.throughput.is_some() || line.noise.is_some() {
                return Err(BadTable::Form(format!("row '{}' is asked for, and has a figure", line.id)));
            }
            asked.push(line.check(&machine.settings)?);
        }
        if asked.is_empty() {
            return Err(BadTable::NothingAsked);
        }
        Ok(Table { machine, measured, asked })
    }
}

fn word(what: &'static str, text: &str) -> Result<(), BadTable> {
    let count = text.chars().count();
    (1..=MOST_WORD).contains(&count).then_some(()).ok_or(BadTable::Word { what, count })
}

impl Line {
    fn number(&self, what: &'static str, Number(value): Number, (low, high, unit): Limits) -> Result<f64, BadTable> {
        let wants = || BadTable::Number { row: self.id.clone(), what, low, high, unit };
        (low..=high).contains(&value).then_some(value).ok_or_else(wants)
    }

    fn check(self, settings: &Settings) -> Result<Row, BadTable> {
        let payload = self.number("payload", self.payload, PAYLOAD)?;
        let offered_mbps = self.offered.map(|offered| self.number("offered", offered, MBPS)).transpose()?;
        let text = |value: toml::Value| match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        let set: Vec<Set> = self.set.into_iter().map(|(axis, value)| Set { axis, value: text(value) }).collect();
        set.iter().try_for_each(|set| word("an axis", &set.axis).and(word("an axis's value", &set.value)))?;
        let row = Row { id: self.id, load: Load { workload: self.workload, payload, offered_mbps }, set };
        row.resolve(settings).map_err(|error| BadTable::Set { row: row.id.clone(), error })?;
        Ok(row)
    }
}

/// What a row comes to on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The machine's settings with the row's.
    pub settings: Settings,
    /// Parameters that the row gives a value.
    pub fixed: Vec<(Parameter, f64)>,
    /// The load, as the MTU leaves it.
    pub load: Load,
}

impl Row {
    /// This row on a machine with these settings.
    pub fn resolve(&self, settings: &Settings) -> Result<Resolved, BadSet> {
        let (mut settings, mut fixed) = (*settings, Vec::new());
        for set in &self.set {
            set.apply(&mut settings, &mut fixed)?;
        }
        let fragments = |mtu| BadSet::Fragments { payload: self.load.payload as u32, mtu: mtu as u32 };
        let within = |mtu| self.load.within(mtu).ok_or_else(|| fragments(mtu));
        let load = settings.mtu.map_or(Ok(self.load), within)?;
        Ok(Resolved { settings, fixed, load })
    }
}
