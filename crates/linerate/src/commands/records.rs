//! `linerate records`: what was measured, again.
//! Knows the store and the renderers; measures nothing.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Result, bail};
use linerate_machine::units::parse_duration;
use linerate_results::record::Record;
use linerate_results::select::Filter;
use linerate_trial::spec::Workload;

use super::{open_store, profile};
use crate::cli::{FilterArgs, OutputArgs, RecordsCommand};
use crate::output::{data, out};
use crate::render;

/// Lists, shows or exports.
pub(crate) fn records(command: &RecordsCommand) -> Result<ExitCode> {
    match command {
        RecordsCommand::List { filter, store } => {
            let store = open_store(store)?;
            let listed = store.list(&filter_of(filter)?)?;
            out!("{}", render::list::list(&listed, store.path(), super::width()));
        }
        RecordsCommand::Show { id, json, all, store } => {
            let store = open_store(store)?;
            let record = match id {
                Some(id) => store.record(id)?,
                None => match store.select(&Filter { limit: Some(1), ..Filter::default() })?.pop() {
                    Some(record) => record,
                    None => bail!("there are no records in {} yet; linerate run makes some", store.path().display()),
                },
            };
            if *json {
                out!("{}", render::json::json(&[record]));
            } else {
                out!("{}", render::show::show(&record, super::width(), *all));
            }
        }
        RecordsCommand::Profile(arguments) => return profile::of_record(arguments),
        RecordsCommand::Export { filter, output, store } => {
            let records = open_store(store)?.select(&filter_of(filter)?)?;
            data!("{}", exported(*output, &records)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn exported(output: OutputArgs, records: &[Record]) -> Result<String> {
    Ok(match output {
        OutputArgs { json: true, .. } => render::json::json(records),
        OutputArgs { csv: true, .. } => render::csv::csv(records),
        OutputArgs { markdown: true, .. } => render::records::markdown(records),
        _ => bail!("say in which form to export: --json, --csv or --markdown"),
    })
}

fn filter_of(arguments: &FilterArgs) -> Result<Filter> {
    let workload = match &arguments.workload {
        None => None,
        Some(text) => match Workload::parse(text) {
            Some(workload) => Some(workload),
            None => bail!("there is no workload '{text}'; they are {}", Workload::ALL.map(Workload::name).join(", ")),
        },
    };
    Ok(Filter {
        plan: arguments.plan.clone(),
        campaign: arguments.campaign.clone(),
        workload,
        since_ms: arguments.since.as_deref().map(unix_ms).transpose()?,
        limit: arguments.limit,
    })
}

/// A time, a day, or an age, as milliseconds since 1970.
pub(super) fn unix_ms(text: &str) -> Result<u64> {
    if let Ok(age) = parse_duration(text) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return Ok(now.saturating_sub(age).as_millis() as u64);
    }
    let whole = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    match whole.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(u64::try_from(time.as_millisecond()).unwrap_or(0)),
        Err(_) => bail!("'{text}' is no time; write 2026-11-21, 2026-11-21T08:00:00Z, or an age like 2h"),
    }
}
