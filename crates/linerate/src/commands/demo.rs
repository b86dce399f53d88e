//! `linerate demo`: the whole loop without hardware.
//! Knows how to make two machines and what to show; the measuring is the same as everywhere.

use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_control::{ConnectOptions, Endpoint};
use linerate_lab::{Lab, Privilege, Shape, enter_user_namespace, privilege};
use linerate_machine::end::PerEnd;
use linerate_results::record::Record;
use linerate_results::store::Store;

use super::plan_request::PlanRequest;
use super::report::{at_end, writable};
use super::{report, status, width};
use crate::cli::{DemoArgs, SharedArgs};
use crate::interrupt;
use crate::measure::campaign::{self, CampaignError};
use crate::measure::pair::{GivenAddresses, Pair};
use crate::output::out;
use crate::progress::Progress;
use crate::render::doubts::Notes;
use crate::render::explain::{FirstFinding, in_a_line};
use crate::render::records::{Parts, notes_beneath};
use crate::render::wrapped;
use linerate_plan::Changes;

/// Makes two machines, runs three plans between them, and says what was seen.
pub(crate) fn demo(arguments: &DemoArgs, shared: &SharedArgs) -> Result<ExitCode> {
    arguments.report.as_ref().map(|report| writable(&report.path)).transpose()?;
    // Before any thread: a user namespace is entered by a process of one thread.
    let mut lab = None;
    match privilege() {
        Privilege::Root => {}
        Privilege::UserNamespace => enter_user_namespace()?,
        Privilege::None { why } => {
            let instead = "The demo runs over the loopback instead, which has no link to be slow or lossy.";
            out!("{}\n", wrapped(&format!("{why}\n{instead}\n"), width()));
        }
    }
    interrupt::listen();
    if !matches!(privilege(), Privilege::None { .. }) {
        lab = Some(Lab::up(&Shape::modest_board())?);
    }
    let (target, host) = match &lab {
        Some(lab) => {
            let what = "Two network namespaces and a link like a modest board's: 470 Mbit/s, a short receive queue.\n";
            out!("{}", wrapped(what, width()));
            lab.notes().iter().for_each(|note| out!("{}", wrapped(&format!("Note: {note}.\n"), width())));
            let netns = |path: std::path::PathBuf| Endpoint::Netns(path.display().to_string());
            (netns(lab.target.path()), netns(lab.host.path()))
        }
        None => (Endpoint::Local, Endpoint::Local),
    };
    let mut store = match &shared.store {
        Some(path) => Store::open_to_keep(path, false)?,
        None => Store::in_memory()?,
    };
    let progress = Progress::new(false).without_lines();
    let options = ConnectOptions { interrupted: interrupt::requested, ..ConnectOptions::default() };
    let mut pair = Pair::connect(&target, &host, GivenAddresses::default(), &options)?;
    if lab.is_some() {
        // Open files of this process: nobody could reach them by their names, so people read these.
        pair.names = PerEnd::of(|end| format!("the lab's {end}"));
    }
    let (mut notes, mut firsts, mut measured) = (Notes::default(), Vec::new(), Vec::new());
    for (name, overrides) in linerate_plan::demo_plans() {
        let plan = linerate_plan::named(name)?;
        let changes = Changes { overrides, ..Changes::default() };
        let wanted = PlanRequest::of(&plan, changes, None);
        let order = wanted.begin()?;
        let mut records = Vec::new();
        let ended = campaign::run(
            &order.borrow(),
            &mut pair,
            &mut store,
            &|event| progress.hear(event),
            &mut |record: &Record| {
                firsts.push(FirstFinding::of(record));
                measured.push(record.id.clone());
                records.push(record.in_brief());
            },
        );
        progress.clear();
        let lead = format!("── linerate run {name}");
        let is_first = firsts.len() == records.len();
        let text = report(&order, &Parts::new(), &records, Some(&lead), &mut notes);
        out!("{}{text}", if is_first { "" } else { "\n" });
        if matches!(ended, Err(CampaignError::Interrupted { .. })) {
            pair.end();
            bail!("interrupted; of the demo's machines and traffic nothing is left");
        }
        status(ended)?;
    }
    out!("{}{}", in_a_line(&firsts, width()), notes_beneath(&notes, width()));
    if let Some(file) = &arguments.report {
        at_end(&store, "linerate demo", &measured, file, true)?;
    }
    let next = "On your own board: linerate run tcp --target root@board (linerate plans has all plans).\n";
    out!("{}", wrapped(next, width()));
    Ok(ExitCode::SUCCESS)
}
