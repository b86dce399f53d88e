//! `linerate predict`: what a change would give, by a model that was calibrated on what was measured.
//! Knows where rows come from; fitting and predicting are `model`'s, the words are `render::predict`'s.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use linerate_model::cost::{Load, Workload};
use linerate_model::fit::{Effort, fit, unfitted};
use linerate_model::machine::Machine;
use linerate_model::predict::{Prediction, predict as predicted};
use linerate_model::setting::{BadSet, Set};
use linerate_model::table::{BadTable, Row, Table};
use linerate_results::store::StoreError;

use super::calibration::{Calibration, Configuration, check_place, configurations, of_load_and_machine};
use super::selection::records;
use super::{open_store, width, without};
use crate::cli::{PredictArgs, SharedArgs};
use crate::input_file;
use crate::output::{data, out};
use crate::progress::Progress;
use crate::render::predict::{Predicted, SetPredictions};

/// Octets of payload that a segment has on an MTU of 1500, with timestamps.
const SEGMENT: f64 = 1448.0;

/// Fits, predicts, and shows. The status is 1 where the rows do not tell, and 2 where a record could not be read.
pub(crate) fn predict(arguments: &PredictArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let mut beside = Beside::default();
    let table = match &arguments.table {
        Some(file) => of_file(file)?,
        None if arguments.records.is_empty() => bounds(arguments)?,
        None => of_records(arguments, shared, &mut beside)?,
    };
    let effort = Effort::default();
    let (machine, measured) = (&table.machine, table.measured.as_slice());
    let progress = Progress::new(shared.quiet);
    progress.computing(&format!("fitting a model to {} measured configurations", measured.len()));
    let found = if measured.is_empty() { Ok(unfitted(machine, effort)) } else { fit(machine, measured, effort) };
    let found = found.map(|ensemble| {
        let predictions = predicted(machine, &ensemble, measured, &table.asked, effort);
        SetPredictions { ensemble, predictions, checked: beside.checked }
    });
    progress.clear();
    let tells = found.as_ref().is_ok_and(|found| found.predictions.iter().all(Prediction::tells));
    let shown = Predicted { table: &table, left_out: beside.left_out, found };
    match arguments.output {
        output if output.json => data!("{}", shown.json()),
        output if output.markdown => out!("{}", shown.answer().markdown()),
        _ => out!("{}", shown.answer().text(width())),
    }
    Ok(match without(&beside.unreadable) {
        ExitCode::SUCCESS if !tells => ExitCode::from(1),
        status => status,
    })
}

/// What records say beside the rows.
#[derive(Default)]
struct Beside {
    /// What was measured of each row that is asked for, Mbit/s; none, or as many as there are rows.
    checked: Vec<f64>,
    /// Records that say nothing of this machine.
    left_out: usize,
    /// Why not, of each that could not be read.
    unreadable: Vec<StoreError>,
}

fn of_file(name: &str) -> Result<Table> {
    if let Some(table) = Table::shipped(name) {
        return Ok(table);
    }
    let names = || Table::names().collect::<Vec<_>>().join(", ");
    let text = input_file::text(name.as_ref())
        .map_err(|error| anyhow!("{error}; the tables that come along are {}", names()))?;
    let folder = Path::new(name).parent().unwrap_or_else(|| Path::new(""));
    Table::of(&text, |name| machine(name, folder)).map_err(|error| match error.is::<BadTable>() {
        true => anyhow!("{name}: {error}; docs/predict.md has the form of a table"),
        false => anyhow!("{name}: {error}"),
    })
}

/// One that comes along, or of a file, whose name is as from this folder.
fn machine(name: &str, folder: &Path) -> Result<Machine> {
    if let Some(machine) = Machine::shipped(name) {
        return Ok(machine);
    }
    let names = || Machine::names().collect::<Vec<_>>().join(", ");
    let text = input_file::text(&folder.join(name))
        .map_err(|error| anyhow!("{error}; the machines that come along are {}", names()))?;
    Machine::parse(&text).map_err(|error| anyhow!("{name}: {error}; docs/predict.md has the form of a machine's file"))
}

/// The machine with what is given of it.
fn with_now(machine: Machine, now: &[String], said: &[Set]) -> Result<Machine> {
    axes("--now", now)?.iter().try_fold(machine, |machine, set| {
        let Set { axis, value } = set;
        if axis == "mtu" {
            bail!("--now mtu={value}: what was measured says its own payload");
        }
        if let Some(other) = said.iter().find(|one| one.axis == *axis && one.value != *value) {
            bail!("--now {axis}={value}: the newest record says {axis}={}; leave it out", other.value);
        }
        machine.saying(set).map_err(|error| anyhow!("--now {axis}={value}: {error}"))
    })
}

/// The usual loads on a machine of which nothing was measured.
fn bounds(arguments: &PredictArgs) -> Result<Table> {
    let machine =
        with_now(machine(arguments.machine.as_deref().unwrap_or("any"), Path::new(""))?, &arguments.now, &[])?;
    let set = axes("--set", &arguments.set)?;
    let loads =
        [(Workload::UdpRx, 1470.0), (Workload::UdpTx, 1470.0), (Workload::TcpRx, SEGMENT), (Workload::TcpTx, SEGMENT)];
    let row = |(workload, payload): (Workload, f64)| Row {
        id: workload.name().to_owned(),
        load: Load { workload, payload, offered_mbps: None },
        set: set.clone(),
    };
    let asked: Vec<Row> = loads.into_iter().map(row).collect();
    check_sets(&machine, &asked)?;
    Ok(Table { machine, measured: Vec::new(), asked })
}

fn axes(option: &str, words: &[String]) -> Result<Vec<Set>> {
    let one = |word: &String| {
        let Some((axis, value)) = word.split_once('=') else { bail!("{option} wants AXIS=VALUE, not '{word}'") };
        Ok(Set { axis: axis.to_owned(), value: value.to_owned() })
    };
    let sets = words.iter().map(one).collect::<Result<Vec<Set>>>()?;
    for (at, set) in sets.iter().enumerate() {
        if let Some(before) = sets[..at].iter().find(|before| before.axis == set.axis) {
            bail!("{option} gives {0} twice, {1} and {2}; leave one of them out", set.axis, before.value, set.value);
        }
    }
    Ok(sets)
}

fn check_sets(machine: &Machine, asked: &[Row]) -> Result<()> {
    let why = |error: BadSet| match error {
        BadSet::NoAxis(_) => anyhow!("{error}; of records also rate and message_size"),
        error => error.into(),
    };
    asked.iter().try_for_each(|row| row.resolve(&machine.settings).map(drop).map_err(why))
}

/// Each configuration of the records is a row that was measured, and changes.
fn of_records(arguments: &PredictArgs, shared: &SharedArgs, beside: &mut Beside) -> Result<Table> {
    let store = open_store(shared)?;
    let mut all = Vec::new();
    for words in &arguments.records {
        all.extend(records(&store, words, &mut beside.unreadable)?);
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.dedup_by(|a, b| a.id == b.id);
    let newest = Calibration::newest(&all).map(|record| store.record(&record.id)).transpose()?;
    let Some(calibration) = newest.and_then(|newest| Calibration::of(&all, &newest)) else {
        let next = "measure a udp-stream, or a tcp-stream that loses nothing";
        bail!("of these records none is a stream in one direction with a throughput that can be modelled; {next}");
    };
    calibration.check()?;
    for one in &calibration.configurations {
        if let Some(id) = &one.lost_elsewhere {
            check_place(&one.key, &store.record(id)?)?;
        }
    }
    let machine = match &arguments.machine {
        Some(name) => machine(name, Path::new(""))?,
        None => calibration.any(),
    };
    let machine = with_now(machine, &arguments.now, calibration.said())?;
    let sets = axes("--set", &arguments.set)?;
    let asked = match &arguments.check {
        None => calibration.each(sets)?,
        Some(words) => {
            let (of_load, of_machine) = of_load_and_machine(sets);
            let found = records(&store, words, &mut beside.unreadable)?;
            let found: Vec<Configuration> = configurations(&found.iter().collect::<Vec<_>>());
            let of_load: Vec<Configuration> = found.into_iter().filter(|one| one.key.is_of(&of_load)).collect();
            if of_load.is_empty() {
                let next = "leave rate and message_size out of --set to check each at its own load";
                bail!("no record of {words} is a stream of that load; {next}");
            }
            for Configuration { key, fits, .. } in &of_load {
                fits.clone().map_err(|error| anyhow!("{words}: {}: {error}", key.words()))?;
            }
            beside.checked = of_load.iter().map(|one| one.measured.mbps).collect();
            let row = |one: Configuration| Row { id: one.key.words(), set: of_machine.clone(), ..one.row };
            of_load.into_iter().map(row).collect()
        }
    };
    check_sets(&machine, &asked)?;
    beside.left_out = calibration.left_out;
    Ok(Table { machine, measured: calibration.measured(), asked })
}
