//! `linerate records`: what was measured, again.
//! Knows the store and the renderers; measures nothing.

use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_results::select::Filter;
use linerate_results::store::{Listed, Store};
use linerate_trial::spec::Workload;

use super::report::carried_out;
use super::selection::{self, one_record, unix_ms};
use super::{open_store, profile, store_to_keep, without};
use crate::cli::{FilterArgs, KcidbArgs, OutputArgs, RecordsCommand, SharedArgs};
use crate::output::{data, out};
use crate::render;
use crate::render::kcidb::{Submitter, Tests};
use crate::render::number::counted;

/// Lists, shows or exports.
pub(crate) fn records(command: &RecordsCommand, shared: &SharedArgs) -> Result<ExitCode> {
    match command {
        RecordsCommand::List { filter, output } if output.is_for_programs() => {
            return exported(*output, &open_store(shared)?, filter);
        }
        RecordsCommand::List { filter, .. } => {
            let store = open_store(shared)?;
            let (listed, unreadable) = store.list(&filter_of(&store, filter)?)?;
            let ids = |of: fn(&Listed) -> &str| listed.iter().map(of).collect::<Vec<_>>();
            let digits =
                [store.digits_of_records(&ids(|one| &one.id))?, store.digits_of_campaigns(&ids(|one| &one.campaign))?];
            out!("{}", render::list::list(&listed, digits, store.path(), super::width()));
            return Ok(without(&unreadable));
        }
        RecordsCommand::Campaigns { plan, limit, json } => {
            let store = open_store(shared)?;
            let (campaigns, unreadable) = store.campaigns(plan.as_deref(), *limit)?;
            let digits =
                store.digits_of_campaigns(&campaigns.iter().map(|one| one.campaign.id.as_str()).collect::<Vec<_>>())?;
            if *json {
                out!("{}", render::list::campaigns_json(&campaigns));
            } else {
                out!("{}", render::list::campaigns(&campaigns, digits, store.path(), super::width()));
            }
            return Ok(without(&unreadable));
        }
        RecordsCommand::Show { record, json, all } => {
            let record = one_record(&open_store(shared)?, record)?;
            if *json {
                out!("{}", render::json::json(&[record]));
            } else {
                out!("{}", render::show::show(&record, super::width(), *all));
            }
        }
        RecordsCommand::Profile(arguments) => return profile::of_record(arguments, shared),
        RecordsCommand::Export { filter, kcidb: KcidbArgs { kcidb: true, build, origin }, .. } => {
            let (build, origin) = (build.as_deref().unwrap_or_default(), origin.as_deref().unwrap_or_default());
            let submitter = Submitter::new(build, origin).map_err(anyhow::Error::msg)?;
            return kcidb(&open_store(shared)?, filter, &submitter);
        }
        RecordsCommand::Export { filter, output, .. } => return exported(*output, &open_store(shared)?, filter),
        RecordsCommand::Push { other, filter } => {
            let store = open_store(shared)?;
            let mut other = Store::open_to_keep(other, false)?;
            return copy(&store, &mut other, filter);
        }
        RecordsCommand::Pull { other, filter } => {
            let other = Store::open_existing(other)?;
            return copy(&other, &mut store_to_keep(shared)?, filter);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn copy(from: &Store, to: &mut Store, arguments: &FilterArgs) -> Result<ExitCode> {
    // By whatever way each is named.
    let place = |store: &Store| std::fs::canonicalize(store.path()).unwrap_or_else(|_| store.path().to_owned());
    if place(from) == place(to) {
        bail!("both stores are {}; name another one", from.path().display());
    }
    let copied = from.copy_to(to, &filter_of(from, arguments)?)?;
    let records = counted(copied.records as usize, "record");
    out!("{records} copied to {}; {} were there already\n", to.path().display(), copied.already);
    Ok(without(&copied.unreadable))
}

fn exported(output: OutputArgs, store: &Store, arguments: &FilterArgs) -> Result<ExitCode> {
    if !output.is_for_programs() {
        bail!("say in which form to export: --json, --csv, --markdown or --kcidb");
    }
    let filter = filter_of(store, arguments)?;
    // Of a hundred thousand records one is in memory at a time; a table of all is as wide as its widest.
    let unreadable = if output.json {
        store.each(&filter, |record, text| data!("{}", render::json::line_of(&record, &text)))?
    } else if output.csv {
        let form = render::csv::Form::new();
        data!("{}", form.header());
        store.each(&filter, |record, _| data!("{}", form.line(&record)))?
    } else {
        let (records, unreadable) = store.select_in_brief(&filter)?;
        data!("{}", render::records::markdown(&records));
        unreadable
    };
    Ok(without(&unreadable))
}

/// A report for KCIDB: of a million records, only what their tests need is kept.
fn kcidb(store: &Store, arguments: &FilterArgs, submitter: &Submitter) -> Result<ExitCode> {
    let mut tests = Tests::default();
    let unreadable = store.each(&filter_of(store, arguments)?, |record, _| tests.add(&record))?;
    let campaigns = carried_out(store, tests.campaigns())?;
    data!("{}", render::json::line(tests.report(submitter, &campaigns)));
    Ok(without(&unreadable))
}

fn filter_of(store: &Store, arguments: &FilterArgs) -> Result<Filter> {
    let workload = match &arguments.workload {
        None => None,
        Some(text) => match Workload::parse(text) {
            Some(workload) => Some(workload),
            None => bail!("there is no workload '{text}'; they are {}", Workload::ALL.map(Workload::name).join(", ")),
        },
    };
    let picked = match arguments.selection.as_ref().or(arguments.campaign.as_ref()) {
        Some(words) => selection::filter(store, words)?,
        None => Filter::default(),
    };
    let since_ms = arguments.since.as_deref().map(unix_ms).transpose()?;
    Ok(Filter {
        plan: arguments.plan.clone(),
        workload,
        since_ms: since_ms.max(picked.since_ms),
        limit: arguments.limit,
        ..picked
    })
}
