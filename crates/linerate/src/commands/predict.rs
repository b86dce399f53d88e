//! `linerate predict`: what a change would give, by a model that was calibrated on what was measured.
//! Knows where rows come from; fitting and predicting are `model`'s, the words are `render::predict`'s.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use linerate_machine::end::Direction;
use linerate_model::cost::{Load, Workload};
use linerate_model::fit::{Effort, Ensemble, NotReproduced, fit, unfitted};
use linerate_model::machine::Machine;
use linerate_model::parameter::Parameter;
use linerate_model::predict::{Prediction, Refusal, predict as predicted};
use linerate_model::setting::Set;
use linerate_model::table::{Measured, Row, Table};
use linerate_results::record::Record;
use linerate_results::stats::median;
use linerate_trial::spec::{self, Spec};

use super::selection::records;
use super::{open_store, width};
use crate::cli::{PredictArgs, SharedArgs};
use crate::output::out;
use crate::render::predict::{Checked, Predicted};

/// Octets of payload that a segment has on an MTU of 1500, with timestamps.
const SEGMENT: f64 = 1448.0;
/// Runs of the same that differ by less are not told apart: where there are no repeats, or they agree better.
const LEAST_NOISE: f64 = 0.01;
const NOISE_OF_ONE: f64 = 0.03;

/// Fits, predicts, and shows. The status is 1 where the rows do not tell.
pub(crate) fn predict(arguments: &PredictArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let mut checked = Vec::new();
    let table = match &arguments.table {
        Some(file) => of_file(file)?,
        None if arguments.records.is_empty() => bounds(arguments)?,
        None => of_records(arguments, shared, &mut checked)?,
    };
    let effort = Effort::default();
    let found: Result<Ensemble, NotReproduced> = match table.measured.is_empty() {
        true => Ok(unfitted(&table.machine, effort)),
        false => fit(&table.machine, &table.measured, effort),
    };
    let shown = match found {
        Err(error) => Predicted::not_reproduced(&table, error),
        Ok(ensemble) => {
            let predictions = predicted(&table.machine, &ensemble, &table.measured, &table.asked, effort);
            Predicted::of(&table, &ensemble, predictions, &checked)
        }
    };
    match arguments.output {
        output if output.json => out!("{}", shown.json()),
        output if output.markdown => out!("{}", shown.markdown()),
        _ => out!("{}", shown.text(width())),
    }
    let tells = |prediction: &Prediction| matches!(&prediction.refusal, None | Some(Refusal::Unmeasured));
    let all = shown.predictions().is_some_and(|all| all.iter().all(tells));
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn of_file(name: &str) -> Result<Table> {
    if let Some(table) = Table::shipped(name) {
        return Ok(table);
    }
    let text = fs::read_to_string(name).with_context(|| {
        let names = Table::names().collect::<Vec<_>>().join(", ");
        format!("cannot read {name}; the tables that come along are {names}")
    })?;
    Table::parse(&text).map_err(|error| anyhow!("{name}: {error}"))
}

fn machine(name: &str) -> Result<Machine> {
    if let Some(machine) = Machine::shipped(name) {
        return Ok(machine);
    }
    let names = || Machine::names().collect::<Vec<_>>().join(", ");
    if !Path::new(name).exists() {
        bail!("no machine is called '{name}', and there is no such file; there are {}", names());
    }
    let text = fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
    Machine::parse(&text).map_err(|error| anyhow!("{name}: {error}"))
}

/// The usual loads on a machine of which nothing was measured.
fn bounds(arguments: &PredictArgs) -> Result<Table> {
    let machine = machine(arguments.machine.as_deref().unwrap_or("any"))?;
    let set = axes(&arguments.set)?;
    let loads =
        [(Workload::UdpRx, 1470.0), (Workload::UdpTx, 1470.0), (Workload::TcpRx, SEGMENT), (Workload::TcpTx, SEGMENT)];
    let row = |(workload, payload): (Workload, f64)| Row {
        id: workload.name().to_owned(),
        load: Load { workload, payload, offered_mbps: None },
        set: set.clone(),
    };
    let asked: Vec<Row> = loads.into_iter().map(row).collect();
    checked_sets(&machine, &asked)?;
    Ok(Table { machine, measured: Vec::new(), asked })
}

fn axes(words: &[String]) -> Result<Vec<Set>> {
    let one = |word: &String| {
        let Some((axis, value)) = word.split_once('=') else { bail!("--set wants AXIS=VALUE, not '{word}'") };
        Ok(Set { axis: axis.to_owned(), value: value.to_owned() })
    };
    words.iter().map(one).collect()
}

fn checked_sets(machine: &Machine, asked: &[Row]) -> Result<()> {
    asked.iter().try_for_each(|row| row.resolve(&machine.settings).map(drop).map_err(Into::into))
}

/// Each configuration of the records is a row that was measured; the newest is what changes.
fn of_records(arguments: &PredictArgs, shared: &SharedArgs, checked: &mut Vec<Checked>) -> Result<Table> {
    let store = open_store(shared)?;
    let mut all = Vec::new();
    for words in &arguments.records {
        all.extend(records(&store, words)?);
    }
    let measured = rows(&all);
    let Some(newest) = all.iter().rev().find_map(Key::of) else {
        bail!(
            "{}",
            "of these records none is a stream in one direction with a throughput; measure a udp-stream or a tcp-stream"
        );
    };
    let machine = match &arguments.machine {
        Some(name) => machine(name)?,
        None => any(&all, &measured)?,
    };
    let base = &measured.iter().find(|(key, ..)| *key == newest).expect("its records are among all").1;
    let (of_load, of_machine): (Vec<Set>, Vec<Set>) =
        axes(&arguments.set)?.into_iter().partition(|set| matches!(set.axis.as_str(), "rate" | "message_size"));
    let load = changed(base.load, &newest, &of_load)?;
    let mut asked = vec![Row { id: arguments.set.join(" "), load, set: of_machine }];
    if let Some(words) = &arguments.check {
        for (key, row, measured) in rows(&records(&store, words)?) {
            checked.push(Checked { mbps: measured.mbps, id: row.id.clone() });
            if arguments.set.is_empty() {
                asked = vec![Row { id: format!("as {}", key.words()), load: row.load, set: Vec::new() }];
            }
        }
    }
    checked_sets(&machine, &asked)?;
    let measured = measured.into_iter().map(|(_, row, measured)| (row, measured)).collect();
    Ok(Table { machine, measured, asked })
}

/// Any machine, with the link that the records know, and a partner that did send what it sent.
fn any(all: &[Record], measured: &[(Key, Row, Measured)]) -> Result<Machine> {
    let received = measured.iter().filter(|(_, row, _)| row.load.workload == Workload::UdpRx);
    let sent = received.filter_map(|(_, row, _)| Some(row.load.on_cable(row.load.offered_mbps?))).fold(0.0, f64::max);
    let machine = machine("any")?.at_least(Parameter::PartnerRate, sent, "the most that it sent, of the records");
    let speed = |record: &Record| record.target.environment.nic.as_ref()?.speed_mbps;
    Ok(match all.iter().rev().find_map(speed) {
        Some(mbps) => machine.knowing(Parameter::CableRate, mbps.into(), "the target's link, of the record"),
        None => machine,
    })
}

/// What makes records repeats of each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    workload: &'static str,
    payload: u32,
    rate: String,
}

impl Key {
    fn of(record: &Record) -> Option<Key> {
        record.result.as_ref()?.flow.throughput_bps?;
        let spec = record.asked_spec()?;
        let workload = workload(record)?;
        let payload = match record.workload {
            spec::Workload::UdpStream => spec.message_octets(),
            _ => SEGMENT as u32,
        };
        let rate = record.asked.get("rate").cloned().unwrap_or_default();
        Some(Key { workload: workload.name(), payload, rate })
    }

    fn words(&self) -> String {
        format!("{} of {} octets at {}", self.workload, self.payload, self.rate)
    }
}

fn workload(record: &Record) -> Option<Workload> {
    match (record.workload, record.direction) {
        (spec::Workload::UdpStream, Direction::Rx) => Some(Workload::UdpRx),
        (spec::Workload::UdpStream, Direction::Tx) => Some(Workload::UdpTx),
        (spec::Workload::TcpStream, Direction::Rx) => Some(Workload::TcpRx),
        (spec::Workload::TcpStream, Direction::Tx) => Some(Workload::TcpTx),
        _ => None,
    }
}

/// A row for each configuration: medians, and how much its repeats differ.
fn rows(records: &[Record]) -> Vec<(Key, Row, Measured)> {
    let mut groups: BTreeMap<Key, Vec<&Record>> = BTreeMap::new();
    for record in records {
        if let Some(key) = Key::of(record) {
            groups.entry(key).or_default().push(record);
        }
    }
    groups
        .into_iter()
        .filter_map(|(key, group)| {
            let of =
                |pick: fn(&Record) -> Option<f64>| group.iter().filter_map(|record| pick(record)).collect::<Vec<f64>>();
            let throughput = of(|record| record.result.as_ref()?.flow.throughput_bps);
            let mbps = median(&throughput)? / 1e6;
            // What was offered is what the sender did send, where the partner is the sender; else what was asked.
            let workload = workload(group[0])?;
            let asked = of(|record| {
                let spec = record.asked_spec()?;
                spec.rate.bits_per_second(spec.message_octets().into())
            });
            let sent = of(|record| record.result.as_ref()?.flow.achieved_load_bps);
            let offered = if workload == Workload::UdpRx { median(&sent).or(median(&asked)) } else { median(&asked) };
            let load = Load { workload, payload: key.payload.into(), offered_mbps: offered.map(|bps| bps / 1e6) };
            let row = Row { id: key.words(), load, set: Vec::new() };
            let noise = noise(&throughput);
            (mbps > 0.0).then_some((key, row, Measured { mbps, noise }))
        })
        .collect()
}

/// The standard deviation of repeats, as a share.
fn noise(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return NOISE_OF_ONE;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    ((squares / (values.len() - 1) as f64).sqrt() / mean).max(LEAST_NOISE)
}

/// The load with another rate, or another size.
fn changed(load: Load, of: &Key, sets: &[Set]) -> Result<Load> {
    let mut load = load;
    let udp = matches!(load.workload, Workload::UdpRx | Workload::UdpTx);
    if sets.is_empty() {
        return Ok(load);
    }
    let mut spec = Spec::new(if udp { spec::Workload::UdpStream } else { spec::Workload::TcpStream });
    spec.message_size = udp.then_some(of.payload);
    if !of.rate.is_empty() {
        spec.set("rate", &of.rate).map_err(|error| anyhow!("the record's rate: {error}"))?;
    }
    for set in sets {
        spec.set(&set.axis, &set.value).map_err(|error| anyhow!("--set {}={}: {error}", set.axis, set.value))?;
    }
    if udp {
        load.payload = spec.message_octets().into();
    }
    load.offered_mbps = spec.rate.bits_per_second(spec.message_octets().into()).map(|bps| bps / 1e6);
    Ok(load)
}
