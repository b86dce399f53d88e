//! `linerate search`, and `linerate run` of a plan that searches: the most that comes through between two machines.

mod calibration;
mod loads;

use std::fmt::Display;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use linerate_control::Endpoint;
use linerate_machine::end::PerEnd;
use linerate_machine::units::{OfferedLoad, format_duration};
use linerate_plan::{Changes, Plan, PlannedTrial, SearchPlan};
use linerate_results::record::Record;
use linerate_results::search::SearchRecords;
use linerate_results::search::calibration::CALIBRATION;
use linerate_results::search::stages::Stage;
use linerate_results::store::{Campaign, Store};
use linerate_trial::search::goal::Goal;
use linerate_trial::spec::Workload;

use super::event_lines::{EventLines, is_stdout};
use super::plan_request::{PlanRequest, check_middle, unfinished};
use super::plans;
use super::report::{at_end, writable};
use super::{connect_options, connected, machines, middle, status, store_to_keep, width};
use crate::cli::{EndsArgs, ReportFile, RunArgs, SearchArgs, SharedArgs, TableArgs};
use crate::measure::campaign;
use crate::measure::events::CampaignEvent;
use crate::measure::middle::AskedMiddle;
use crate::measure::searching::Searching;
use crate::output::{data, out};
use crate::progress::Progress;
use crate::render;
use calibration::Calibrations;

/// What records and campaigns of searches are called, but for those of plans that search.
const SEARCH: &str = "search";
/// What is wanted of a search, whichever command says it.
struct SearchRequest<'a> {
    plan: Plan,
    /// What its campaign is called.
    campaign: String,
    ends: &'a EndsArgs,
    set: &'a [(String, String)],
    search: SearchPlan,
    /// What is measured is the tester, with nothing between its ports.
    calibrates: bool,
    /// The newest unfinished one, or the one of this identifier.
    resume: Option<Option<&'a str>>,
    dry_run: bool,
    output: TableArgs,
    report: Option<&'a ReportFile>,
    events: &'a EventLines,
}

/// Searches each configuration of a plan. The status is 1 where a goal was not reached, or what is expected did not come about.
pub(crate) fn search(arguments: &SearchArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let TableArgs { json, csv, markdown } = arguments.output;
    if (json || csv || markdown) && is_stdout(arguments.events.as_deref()) {
        bail!("--events - wants standard output for itself; give it a file, or leave --json, --csv or --markdown out");
    }
    let events = EventLines::begin(arguments.events.as_deref().filter(|_| !arguments.dry_run))?;
    let ended = searched(arguments, shared, &events);
    events.end(ended)
}

fn searched(arguments: &SearchArgs, shared: &SharedArgs, events: &EventLines) -> Result<ExitCode> {
    let mut plan = plans::find(&arguments.plan)?;
    let campaign = match plan.search {
        _ if arguments.calibrate => CALIBRATION.to_owned(),
        Some(_) => plan.name.clone(),
        None => SEARCH.to_owned(),
    };
    let mut search = plan.search.take().unwrap_or_default();
    if !arguments.goal.is_empty() {
        search.goals.clone_from(&arguments.goal);
    }
    search.most = arguments.max_rate.or(search.most);
    search.least = arguments.min_rate.or(search.least);
    search.tester_limit = arguments.tester_limit.or(search.tester_limit);
    search.confirm |= arguments.confirm;
    search.whole_trials |= arguments.whole_trials;
    search.expect.extend_from_slice(&arguments.expect);
    if !arguments.stage.is_empty() {
        search.stages.clone_from(&arguments.stage);
    }
    search.stage_time = arguments.stage_time.or(search.stage_time);
    if arguments.reset.is_some() {
        search.reset.clone_from(&arguments.reset);
        search.stages.extend((!search.stages.contains(&Stage::Reset)).then_some(Stage::Reset));
    }
    if search.stages.contains(&Stage::Reset) && search.reset.is_none() {
        bail!("--stage reset needs a command that resets the device; give --reset COMMAND instead");
    }
    if arguments.calibrate {
        // Of the tester only the most that it carries is asked.
        (search.tester_limit, search.confirm) = (None, false);
        (search.stages, search.reset, search.expect) = (Vec::new(), None, arguments.expect.clone());
    }
    let request = SearchRequest {
        plan,
        campaign,
        ends: &arguments.ends,
        set: &arguments.set,
        search,
        calibrates: arguments.calibrate,
        resume: arguments.resume.as_ref().map(Option::as_deref),
        dry_run: arguments.dry_run,
        output: arguments.output,
        report: arguments.report.as_ref(),
        events,
    };
    carry_out(request, shared)
}

/// The same by `linerate run`, of a plan that has a search.
pub(super) fn run(
    arguments: &RunArgs,
    plan: Plan,
    search: SearchPlan,
    shared: &SharedArgs,
    events: &EventLines,
) -> Result<ExitCode> {
    let RunArgs { repeat, precision, order, seed, null, expect, live, counters, .. } = arguments;
    let unfit = [
        ("--repeat", repeat.is_some()),
        ("--precision", precision.is_some()),
        ("--order", order.is_some()),
        ("--seed", seed.is_some()),
        ("--null", *null),
        ("--expect", !expect.is_empty()),
        ("--live", *live),
        ("--counters", counters.is_some()),
    ];
    if let Some((name, _)) = unfit.iter().find(|(_, is_there)| *is_there) {
        bail!(
            "{name} is nothing for a plan that searches; leave it out (what has to be found stands in [search], as expect)"
        );
    }
    let mut set = arguments.set.clone();
    set.extend(arguments.profile.map(|hz| ("profile".to_owned(), hz.to_string())));
    let output = arguments.output;
    let request = SearchRequest {
        campaign: plan.name.clone(),
        plan,
        ends: &arguments.ends,
        set: &set,
        search,
        calibrates: false,
        resume: arguments.resume.as_ref().map(Option::as_deref),
        dry_run: arguments.dry_run,
        output: TableArgs { json: output.json, csv: output.csv, markdown: output.markdown },
        report: arguments.report.as_ref(),
        events,
    };
    carry_out(request, shared)
}

fn carry_out(mut request: SearchRequest<'_>, shared: &SharedArgs) -> Result<ExitCode> {
    let ends = machines(request.ends)?;
    if let Endpoint::Foreign { .. } = ends.target {
        bail!("a search needs linerate's own agent at the target; reach the machine as ssh:host");
    }
    if request.search.goals.is_empty() {
        request.search.goals = ["ndr", "pdr"].map(|name| Goal::preset(name).expect("it is one")).to_vec();
    }
    let search = &request.search;
    if let Some(one) = search.expect.iter().find(|one| !search.goals.iter().any(|goal| goal.name == one.goal)) {
        let names: Vec<&str> = search.goals.iter().map(|goal| goal.name.as_str()).collect();
        bail!("'{one}' is of no goal of this search; its goals are {}", names.join(", "));
    }
    request.report.map(|report| writable(&report.path)).transpose()?;
    let middle = middle(request.ends)?;
    let (wanted, bases) = wanted(&request, middle.as_ref())?;
    check_middle(middle.is_some(), &bases)?;
    let options = connect_options(shared)?;
    let mut store = store_to_keep(shared)?;
    let campaign = request.resume.map(|named| resumed(&request, named, &wanted, &ends, &store)).transpose()?;
    request.events.make_file()?;
    let progress = Progress::new(shared.quiet);
    let (_started, mut pair) = connected(&ends, request.ends, &options, &progress)?;
    // What was begun is carried on as it was, whatever calibrations came since.
    let calibrations = match (&campaign, request.calibrates) {
        (None, false) => Calibrations::between(&ends, &store)?,
        _ => Calibrations::NONE,
    };
    let mut asked = loads::asked(&request.search, request.calibrates, &pair, &calibrations, bases)?;
    if let Some(campaign) = &campaign {
        calibration::as_begun(&mut asked, &store.records_of(&campaign.id)?.0);
    }
    let mut searching =
        Searching::new(asked.clone()).map_err(|loads| anyhow!(render::search::nothing_between(loads)))?;
    if request.dry_run {
        pair.end();
        match request.output {
            output if output.json => data!("{}", render::search::dry_run_json(&asked)),
            output if output.csv => data!("{}", render::search::dry_run_csv(&asked)),
            output => out!("{}", render::search::dry_run(&asked, output.markdown)),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut records = Vec::new();
    if let Some(campaign) = &campaign {
        let (before, _) = store.records_of(&campaign.id)?;
        if searching.carry_on(&before).is_none() {
            bail!(
                "the unfinished search was between other loads, or for other goals; leave --resume out to begin another"
            );
        }
        records.extend(before.iter().map(Record::in_brief));
    }
    let mut order = wanted.begin()?;
    order.take_trials();
    order.plan.name.clone_from(&request.campaign);
    let mut order = order.borrow();
    order.resume = campaign;
    let tell = |event: &CampaignEvent| {
        request.events.hear(event);
        progress.hear(event);
    };
    let ended = campaign::run_by(&order, &mut searching, &mut pair, &mut store, &tell, &mut |record: &Record| {
        records.push(record.in_brief());
    });
    progress.clear();
    pair.end();
    let searched = searching.searched();
    if !records.is_empty() {
        show(&searched, &request);
        if let Some(file) = request.report {
            let ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
            at_end(&store, &request.campaign, &ids, file, false)?;
        }
    }
    let is_met = request.search.expect.iter().all(|one| render::search::is_met(one, &searched));
    Ok(match status(ended)? {
        ExitCode::SUCCESS if !(is_met && searched.iter().all(SearchRecords::is_known)) => ExitCode::from(1),
        status => status,
    })
}

fn show(searched: &[SearchRecords], request: &SearchRequest<'_>) {
    let expect = &request.search.expect;
    match request.output {
        output if output.json => data!("{}", render::search::json(searched, expect)),
        output if output.csv => data!("{}", render::search::csv(searched)),
        output if output.markdown => data!("{}", render::search::markdown(searched, expect)),
        _ => out!("{}", render::search::text(searched, expect, width())),
    }
}

/// What is carried out, and the configurations to search.
fn wanted(request: &SearchRequest<'_>, middle: Option<&AskedMiddle>) -> Result<(PlanRequest, Vec<PlannedTrial>)> {
    let mut overrides = request.set.to_vec();
    if let Some((name, _)) = overrides.iter().find(|(name, _)| ["rate", "duration", "bytes"].contains(&name.as_str())) {
        bail!(
            "{name} is the search's own to choose; --goal says how long trials are, --min-rate and --max-rate which loads"
        );
    }
    // The plan's own loads and times are not what is measured.
    overrides.push(("rate".to_owned(), "1M".to_owned()));
    overrides.push(("duration".to_owned(), "1s".to_owned()));
    let changes = Changes { overrides, repeat: Some(1), ..Changes::default() };
    let mut wanted = PlanRequest::of(&request.plan, changes, middle);
    let bases = wanted.begin()?.take_trials();
    let is_of_frames = bases.iter().any(|trial| trial.spec.workload == Workload::Frames);
    if let Some(stage) = request.search.stages.iter().find(|stage| is_of_frames && !stage.is_of_frames()) {
        bail!("--stage {stage} is of sockets, which frames have none of; leave it out, or search udp-stream");
    }
    if let Some(other) = bases.iter().find(|trial| !trial.spec.workload.is_numbered()) {
        bail!(
            "only UDP streams and frames are searched, and {} measures {} too; name a plan of udp-stream or frames",
            request.plan.name,
            other.spec.workload
        );
    }
    wanted.changes.overrides.truncate(request.set.len());
    wanted.changes.repeat = None;
    wanted.search = words(&request.search);
    wanted.search.extend(request.calibrates.then(|| "--calibrate".to_owned()));
    Ok((wanted, bases))
}

/// The unfinished campaign of the same search.
fn resumed(
    request: &SearchRequest<'_>,
    named: Option<&str>,
    wanted: &PlanRequest,
    ends: &PerEnd<Endpoint>,
    store: &Store,
) -> Result<Campaign> {
    let Some(campaign) = unfinished(store, named, &request.campaign, ends)? else {
        bail!(
            "there is no unfinished search of this kind between {} and {} in {}; leave --resume out to begin one",
            ends.target,
            ends.host,
            store.path().display()
        );
    };
    let begun: PlanRequest = serde_json::from_str(&campaign.plan_text)?;
    wanted.check_same_middle(&begun)?;
    if begun != *wanted {
        bail!(
            "the unfinished search was begun with other words; say the same again, or leave --resume out to begin another"
        );
    }
    Ok(campaign)
}

/// The words that make it the same search, each as a program gets it.
fn words(search: &SearchPlan) -> Vec<String> {
    let with = |name: &str, value: &dyn Display| [format!("--{name}"), value.to_string()];
    let rate = |name: &str, rate: Option<OfferedLoad>| rate.map(|rate| with(name, &rate)).into_iter().flatten();
    let mut words: Vec<String> = search.goals.iter().flat_map(|goal| with("goal", &goal.name)).collect();
    words.extend(rate("max-rate", search.most));
    words.extend(rate("min-rate", search.least));
    words.extend(rate("tester-limit", search.tester_limit));
    words.extend(search.confirm.then(|| "--confirm".to_owned()));
    words.extend(search.whole_trials.then(|| "--whole-trials".to_owned()));
    words.extend(search.stages.iter().filter(|stage| **stage != Stage::Reset).flat_map(|stage| with("stage", stage)));
    words.extend(search.reset.iter().flat_map(|command| with("reset", command)));
    words.extend(search.stage_time.into_iter().flat_map(|time| with("stage-time", &format_duration(time))));
    words.extend(search.expect.iter().flat_map(|one| with("expect", one)));
    words
}
