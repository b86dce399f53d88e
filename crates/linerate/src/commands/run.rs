//! `linerate run`: a plan between two machines.
//! Knows the order of things; each is done elsewhere.

use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_results::record::Record;
use linerate_results::store::{Campaign, Store};
use serde::{Deserialize, Serialize};

use super::{connect_options, dry_run, open_store, report, say_notes};
use crate::cli::{CpuMethodArg, OutputArgs, RunArgs};
use crate::interrupt;
use crate::measure::campaign::{self, CampaignError, Order};
use crate::measure::pair::{GivenAddresses, Pair};
use crate::measure::settings;
use crate::output::out;
use crate::plan::{self, Plan, PlannedTrial};
use crate::progress::Progress;
use crate::render;
use crate::render::Repeats;

/// Carries a plan out, and shows what came of it.
pub(crate) fn run(arguments: &RunArgs) -> Result<ExitCode> {
    // Everything that can be wrong without touching a machine is found before one is touched.
    let plan = plan::find(&arguments.plan)?;
    let mut overrides = arguments.set.clone();
    if let Some(method) = arguments.cpu_method {
        let method = if matches!(method, CpuMethodArg::Soak) { "soak" } else { "stat" };
        overrides.push(("cpu_method".to_owned(), method.to_owned()));
    }
    let options = connect_options(&arguments.reach)?;
    if arguments.dry_run {
        return dry_run::dry_run(&plan, &plan.trials(&overrides, arguments.repeat)?, arguments, &options);
    }
    let mut store = open_store(&arguments.store)?;
    let wanted = Wanted { name: plan.name.clone(), source: plan.source.clone(), overrides, repeat: arguments.repeat };
    let order = if arguments.resume { resume(&wanted, arguments, &store)? } else { wanted.begin()? };

    interrupt::listen();
    let given = GivenAddresses { target: arguments.target_address, host: arguments.host_address };
    let progress = Progress::new(arguments.quiet);
    let mut pair = Pair::connect(&arguments.target, &arguments.host, given, &options)?;
    for client in [&pair.target, &pair.host] {
        say_notes(client);
    }
    foresee(&order, &pair, &progress)?;
    let mut records = match &order.resume {
        Some(campaign) => {
            let begun = store.records_of(&campaign.id)?;
            begun.iter().filter(|record| record.error.is_none()).map(Record::in_brief).collect()
        }
        None => Vec::new(),
    };
    let ended = campaign::run(&order.borrow(), &mut pair, &mut store, &progress, &mut |record: &Record| {
        // A consumer of JSON Lines may want each record as it comes.
        if arguments.output.json {
            progress.print(&render::json::json(std::slice::from_ref(record)));
        }
        records.push(record.in_brief());
    });
    progress.clear();
    pair.end();
    records.sort_by_key(|record| record.trial.index);
    if !records.is_empty() {
        out!("{}", shown(&order.plan, arguments.output, &records));
    }
    status(ended)
}

/// Says which trials will fail for a setting that a machine does not have.
fn foresee(order: &OwnedOrder, pair: &Pair, progress: &Progress) -> Result<()> {
    // What else may be missing, such as a route, is told by the trials themselves.
    let set: Vec<PlannedTrial> = order.trials.iter().filter(|trial| !trial.settings.is_empty()).cloned().collect();
    let refused = settings::foreseen(pair, &set)?;
    if let Some((_, sentence)) = refused.first() {
        let (count, all) = (refused.len(), order.trials.len());
        progress.say(&format!(
            "linerate: {count} of {all} trials cannot be measured, the first because of this: {sentence}"
        ));
    }
    Ok(())
}

/// What is left to print at the end.
fn shown(plan: &Plan, output: OutputArgs, records: &[Record]) -> String {
    match output {
        OutputArgs { json: true, .. } => String::new(),
        OutputArgs { csv: true, .. } => render::csv::csv(records),
        OutputArgs { markdown: true, .. } => render::markdown::markdown(records, Repeats::Together),
        _ => report(plan.report, records),
    }
}

/// The exit status of a campaign that ended so.
pub(crate) fn status(ended: Result<usize, CampaignError>) -> Result<ExitCode> {
    match ended {
        Ok(0) => Ok(ExitCode::SUCCESS),
        Ok(1) => bail!("one trial failed; its record says why"),
        Ok(failed) => bail!("{failed} trials failed; their records say why"),
        Err(error) => Err(error.into()),
    }
}

/// A plan and all that was changed in it: what a later process needs to carry on with the same trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) overrides: Vec<(String, String)>,
    pub(crate) repeat: Option<u32>,
}

/// An order that owns its plan.
pub(crate) struct OwnedOrder {
    pub(crate) plan: Plan,
    trials: Vec<PlannedTrial>,
    plan_text: String,
    resume: Option<Campaign>,
}

impl OwnedOrder {
    /// The order as a campaign takes it.
    pub(crate) fn borrow(&self) -> Order<'_> {
        Order {
            plan: &self.plan,
            trials: self.trials.clone(),
            plan_text: self.plan_text.clone(),
            resume: self.resume.clone(),
        }
    }
}

impl Wanted {
    /// A new campaign of it.
    pub(crate) fn begin(&self) -> Result<OwnedOrder> {
        let plan = Plan::parse(&self.source, &self.name, &self.name)?;
        let trials = plan.trials(&self.overrides, self.repeat)?;
        Ok(OwnedOrder { plan, trials, plan_text: serde_json::to_string(self)?, resume: None })
    }
}

/// The unfinished campaign that these words mean.
fn resume(wanted: &Wanted, arguments: &RunArgs, store: &Store) -> Result<OwnedOrder> {
    let (target, host) = (arguments.target.to_string(), arguments.host.to_string());
    let Some(campaign) = store.latest_unfinished(&wanted.name, &target, &host)? else {
        bail!(
            "there is no unfinished campaign of the plan {} between {target} and {host} in {}; leave --resume out to \
             begin one",
            wanted.name,
            store.path().display()
        );
    };
    let begun: Wanted = serde_json::from_str(&campaign.plan_text)?;
    // What was changed for the campaign counts on; something else would make it another campaign.
    let says_other = (!wanted.overrides.is_empty() && wanted.overrides != begun.overrides)
        || (wanted.repeat.is_some() && wanted.repeat != begun.repeat);
    if says_other {
        bail!(
            "the unfinished campaign was begun with other settings; leave --set and --repeat out to carry it on, or \
             --resume to begin another"
        );
    }
    let mut order = begun.begin()?;
    order.resume = Some(campaign);
    Ok(order)
}
