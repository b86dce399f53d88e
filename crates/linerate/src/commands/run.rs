//! `linerate run`: a plan between two machines.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use linerate_control::Endpoint;
use linerate_machine::end::{End, PerEnd};
use linerate_peers::iperf3::authentication::Credentials;
use linerate_results::compare::{self, CompareOptions};
use linerate_results::observation::Observation;
use linerate_results::record::{Record, digest};
use linerate_results::store::Store;
use linerate_stats::sequential::{LEAST_MAX, MOST_MAX};
use linerate_trial::pace::SplitMix64;
use linerate_trial::tool::Tool;

use super::case_files::CaseFiles;
use super::compare::percentage;
use super::event_lines::{EventLines, is_stdout};
#[cfg(feature = "nats")]
use super::leased;
use super::plan_request::{OwnedOrder, PlanRequest, check_idle, check_middle, unfinished};
use super::plans;
use super::report::{at_end, writable};
use super::{connect_options, connected, dry_run, machines, middle, report, search, status, store_to_keep, width};
use crate::cli::{CpuMethodArg, OutputArgs, RunArgs, SharedArgs};
use crate::input_file;
use crate::measure::campaign;
#[cfg(feature = "nats")]
use crate::measure::campaign::CampaignError;
use crate::measure::events::CampaignEvent;
use crate::measure::pair::Pair;
use crate::measure::precision::{Repeats, main_metric};
use crate::measure::settings;
use crate::output::{beside, data, out};
use crate::progress::Progress;
use crate::render;
use crate::render::cases::{self, Cases};
use crate::render::doubts::Notes;
use crate::render::explain::{FirstFinding, in_three_lines};
use crate::render::proof::{Proof, Repeated};
use crate::render::records::notes_beneath;
use linerate_plan::{
    Changes, ExpectationResult, Plan, PlannedTrial, Precision, RoundOrder, expectation, judged, unanswerable,
};

/// Carries a plan out, shows what came of it, and writes what CI reads of it, however it ends.
pub(crate) fn run(arguments: &RunArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let foreseen = Cases::new(&format!("run {}", arguments.plan), &arguments.plan);
    let mut for_programs = arguments.output.for_programs();
    if is_stdout(arguments.events.as_deref())
        && let Some(option) = for_programs.replace("--events -")
    {
        bail!("--events - and {option} both want standard output; give --events a file, or leave one of them out");
    }
    let events = EventLines::begin(arguments.events.as_deref().filter(|_| !arguments.dry_run))?;
    let ended = CaseFiles::begin(&arguments.cases, foreseen, for_programs).and_then(|mut files| {
        let ended = carry_out(arguments, shared, &mut files, &events);
        files.end(ended)
    });
    events.end(ended)
}

fn carry_out(arguments: &RunArgs, shared: &SharedArgs, files: &mut CaseFiles, events: &EventLines) -> Result<ExitCode> {
    // Everything that can be wrong without touching a machine is found before one is touched.
    let mut plan = plans::find(&arguments.plan)?;
    if arguments.plan_sha256.as_ref().is_some_and(|checked| *checked != digest(&plan.source)) {
        bail!("the plan {} was changed since it was checked; look at it, and start it again", arguments.plan);
    }
    if let Some(wanted) = plan.search.take() {
        if files.are_wanted() {
            bail!("a search has no test cases yet; leave --junit, --tap, --lava and --summary out");
        }
        return search::run(arguments, plan, wanted, shared, events);
    }
    let (ends, middle) = (machines(&arguments.ends)?, middle(&arguments.ends)?);
    let mut overrides = arguments.set.clone();
    if let Some(method) = arguments.cpu_method {
        let method = if matches!(method, CpuMethodArg::Soak) { "soak" } else { "stat" };
        overrides.push(("cpu_method".to_owned(), method.to_owned()));
    }
    if let Some(hz) = arguments.profile {
        overrides.push(("profile".to_owned(), hz.to_string()));
    }
    #[cfg_attr(not(feature = "nats"), expect(unused_mut, reason = "only a worker's campaign has a fence"))]
    let mut options = connect_options(shared)?;
    if arguments.dry_run && files.are_wanted() {
        bail!("--dry-run measures nothing, so there are no test cases; leave --junit, --tap, --lava and --summary out");
    }
    arguments.report.as_ref().map(|report| writable(&report.path)).transpose()?;
    if arguments.live && shared.quiet {
        bail!("--live and --quiet are opposites; leave one out");
    }
    check_counters(arguments, &ends.target)?;
    check_unanswered(arguments, &ends.target)?;
    let credentials = credentials(arguments, &ends.target)?;
    let mut changes = Changes {
        overrides,
        repeat: arguments.repeat,
        seed: arguments.seed,
        null: arguments.null,
        precision: precision(arguments)?,
        expect: arguments.expect.clone(),
    };
    if let Some(Err(sentence)) = changes.expect.iter().map(|text| expectation(text)).find(Result::is_err) {
        bail!("--expect: {sentence}");
    }
    if arguments.resume.is_none() {
        changes.seed = seed(arguments, &plan, &changes)?;
    }
    let expected = changes.expect.clone();
    let wanted = PlanRequest::of(&plan, changes, middle.as_ref());
    let fresh = wanted.begin()?;
    check_expected(&expected, &fresh.trials)?;
    check_idle(&fresh.trials)?;
    check_settings(&ends.target, &fresh.trials)?;
    check_middle(middle.is_some(), &fresh.trials)?;
    if arguments.dry_run {
        return dry_run::dry_run(&fresh.borrow(), arguments, &ends, shared.quiet, &options);
    }
    #[cfg(feature = "nats")]
    if let Some(lease) = &arguments.leased.lease {
        leased::obey(lease);
        options.fence = Some(lease.fence.clone());
    }
    let mut store = store_to_keep(shared)?;
    let order = match &arguments.resume {
        Some(named) => resume(&wanted, arguments, &ends, &store, named.as_deref())?,
        None => fresh,
    };
    events.make_file()?;
    #[cfg(feature = "nats")]
    let Some(order) = leased::begun(&arguments.leased, order, &wanted, &store, events)? else {
        return Ok(ExitCode::SUCCESS);
    };

    if files.are_wanted() {
        files.foresee(cases(&order, &[], &[], false));
    }
    let progress = Progress::new(shared.quiet).with_intervals(arguments.live);
    let (_started, mut pair) = connected(&ends, &arguments.ends, &options, &progress)?;
    if let Some(foreign) = &mut pair.foreign {
        foreign.credentials = credentials;
        foreign.unanswered = arguments.allow_unanswered;
    }
    if let Some(endpoint) = &arguments.counters {
        pair.read_counters_by_ssh(endpoint)?;
    }
    foresee(&order, &pair, &progress)?;
    let mut records = match &order.resume {
        Some(campaign) => {
            let (begun, _) = store.records_of(&campaign.id)?;
            begun.iter().filter(|record| record.error.is_none()).map(Record::in_brief).collect()
        }
        None => Vec::new(),
    };
    let mut firsts = Vec::new();
    let tell = |event: &CampaignEvent| {
        events.hear(event);
        progress.hear(event);
    };
    let ended = campaign::run(&order.borrow(), &mut pair, &mut store, &tell, &mut |record: &Record| {
        firsts.push(FirstFinding::of(record));
        // A consumer of JSON Lines may want each record as it comes.
        if arguments.output.json {
            progress.print(&render::json::json(std::slice::from_ref(record)));
        }
        records.push(record.in_brief());
    });
    progress.clear();
    pair.end();
    records.sort_by_key(|record| record.trial.index);
    let came_of_it = proof(&order, &records, ended.is_ok());
    if files.are_wanted() {
        let mut judged = cases(&order, &records, &came_of_it.expected, ended.is_ok());
        if let Err(error) = &ended {
            judged.broke_off(&error.to_string());
        }
        files.write(&judged);
    }
    let mut notes = Notes::default();
    if !records.is_empty() {
        match arguments.output {
            OutputArgs { json: true, .. } => {}
            OutputArgs { csv: true, .. } => data!("{}", render::csv::csv(&records)),
            OutputArgs { markdown: true, .. } => data!("{}", render::records::markdown(&records)),
            _ => {
                let counted = |record: &&Record| record.trial.is_repeat();
                let counted: Vec<Record> = records.iter().filter(counted).cloned().collect();
                out!("{}", report(&order, &order.parts(), &counted, None, &mut notes));
            }
        }
    }
    show_proof(&came_of_it, arguments.output);
    if !records.is_empty() && !arguments.output.is_for_programs() {
        out!("\n{}{}", in_three_lines(&firsts, width()), notes_beneath(&notes, width()));
    }
    if let Some(file) = arguments.report.as_ref().filter(|_| !records.is_empty()) {
        let ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
        at_end(&store, &order.plan.name, &ids, file, false)?;
    }
    #[cfg(feature = "nats")]
    if arguments.leased.lease.is_some() && ended.as_ref().is_err_and(CampaignError::is_of_the_store) {
        return Ok(ExitCode::from(leased::STORE_STATUS));
    }
    let is_as_expected = came_of_it.expected.iter().all(|met| met.is_met() != Some(false));
    Ok(match status(ended)? {
        ExitCode::SUCCESS if !is_as_expected => ExitCode::from(1),
        status => status,
    })
}

/// What CI reads of it.
fn cases(order: &OwnedOrder, records: &[Record], expected: &[ExpectationResult], is_whole: bool) -> Cases {
    // Of a run that was broken off, what was expected is known all the same.
    let unjudged = match is_whole {
        true => Vec::new(),
        false => judged(&order.plan, &order.changes, &order.trials, &[]),
    };
    cases::of_run(&cases::Run {
        plan: &order.plan.name,
        trials: &order.trials,
        expected: if is_whole { expected } else { &unjudged },
        records,
        is_whole,
        repeats_until: order.changes.precision.is_some(),
    })
}

fn show_proof(proof: &Proof, output: OutputArgs) {
    let Some(answer) = render::proof::answer(proof) else { return };
    match output {
        OutputArgs { markdown: true, .. } => out!("\n{}", answer.markdown()),
        // On standard output a program reads records, and nothing else.
        OutputArgs { json, csv, .. } if json || csv => beside(&answer.text(width())),
        _ => out!("\n{}", answer.text(width())),
    }
}

/// What the records prove: whether figures are as expected, how narrow their intervals are, and how much alike sides
/// differ. A campaign that was broken off proves nothing as yet.
fn proof(order: &OwnedOrder, records: &[Record], is_whole: bool) -> Proof {
    if !is_whole {
        return Proof::default();
    }
    let changes = &order.changes;
    let mut proof = Proof { expected: judged(&order.plan, changes, &order.trials, records), ..Proof::default() };
    if let Some(precision) = changes.precision {
        let mut repeats = Repeats::new(precision);
        records.iter().for_each(|record| repeats.before(record));
        let configurations: BTreeMap<u32, &PlannedTrial> =
            order.trials.iter().map(|trial| (trial.configuration, trial)).collect();
        let reached = configurations.into_iter().map(|(number, trial)| Repeated {
            configuration: trial.words(),
            metric: main_metric(trial.spec.workload),
            reached: repeats.reached(number),
        });
        proof.repeated = Some((precision, reached.collect()));
    }
    let observed: Vec<Observation> = records.iter().map(Observation::of).collect();
    if let Some((a, b)) = compare::null_sides(&observed.iter().collect::<Vec<_>>()) {
        proof.pairs = Some(compare::compare(&a, &b, &CompareOptions::default()).told_of_pairs());
    }
    proof
}

/// `--expect`: what no trial of this run can show is no expectation of it.
fn check_expected(expected: &[String], trials: &[PlannedTrial]) -> Result<()> {
    for text in expected {
        if let Some(why) = unanswerable(&expectation(text).map_err(anyhow::Error::msg)?, trials) {
            bail!("--expect '{text}' cannot be judged: {why}");
        }
    }
    Ok(())
}

/// Settings of a target that has no agent to make them.
fn check_settings(target: &Endpoint, trials: &[PlannedTrial]) -> Result<()> {
    let Endpoint::Foreign { tool, .. } = target else { return Ok(()) };
    let of_target = trials.iter().flat_map(|trial| &trial.settings).find(|one| one.end == End::Target);
    match of_target {
        None => Ok(()),
        Some(one) => bail!(
            "target.{} cannot be set through {target}: a {} has no agent; set it there by hand and leave it out, or reach \
             the machine as ssh:host",
            one.change.name,
            tool.row().server
        ),
    }
}

/// `--counters`: who reads them, and of whom.
fn check_counters(arguments: &RunArgs, target: &Endpoint) -> Result<()> {
    let is_foreign = matches!(target, Endpoint::Foreign { .. });
    match &arguments.counters {
        None => Ok(()),
        Some(Endpoint::Ssh { .. }) if is_foreign => Ok(()),
        Some(Endpoint::Ssh { .. }) => bail!(
            "--counters is for a target that is another tool's server, like iperf3:host; an agent counts by itself, so \
             leave it out"
        ),
        Some(other) => bail!("--counters: {other} is not reached by ssh; write [ssh:][user@]host[:port]"),
    }
}

/// `--allow-unanswered`: of whom.
fn check_unanswered(arguments: &RunArgs, target: &Endpoint) -> Result<()> {
    match target {
        Endpoint::Foreign { tool, .. } if !tool.row().answers_first => Ok(()),
        _ if arguments.allow_unanswered.is_none() => Ok(()),
        _ => bail!(
            "--allow-unanswered is for a server of {}; others answer, so leave it out",
            Tool::names(|row| !row.answers_first)
        ),
    }
}

/// `--username` and `--rsa-public-key`: who asks, of whom.
fn credentials(arguments: &RunArgs, target: &Endpoint) -> Result<Option<Credentials>> {
    let (Some(user), Some(file)) = (&arguments.username, &arguments.rsa_public_key) else { return Ok(None) };
    if !matches!(target, Endpoint::Foreign { tool, .. } if tool.row().has_users) {
        bail!(
            "--username is for a server of {} that wants to know who asks; leave it out",
            Tool::names(|row| row.has_users)
        );
    }
    // Not on the command line, where every user of this machine sees it.
    let password = std::env::var("IPERF3_PASSWORD").map_err(|_| {
        anyhow!("--username: the password is not there; put it into the environment variable IPERF3_PASSWORD")
    })?;
    let key = input_file::text(file).context("--rsa-public-key")?;
    let credentials = Credentials::new(&key, user, &password);
    credentials.map(Some).map_err(|clause| anyhow!("--rsa-public-key: {} {clause}", file.display()))
}

/// `--precision` and `--max-repeats`.
fn precision(arguments: &RunArgs) -> Result<Option<Precision>> {
    let Some(text) = &arguments.precision else { return Ok(None) };
    let part = percentage("--precision", text)?;
    let max_repeats = arguments.max_repeats.unwrap_or(MAX_REPEATS);
    if !(LEAST_MAX..=MOST_MAX).contains(&max_repeats) {
        bail!(
            "--max-repeats: {max_repeats} is not allowed; write {LEAST_MAX} to {MOST_MAX}: fewer repeats than \
             {LEAST_MAX} have no interval of 95 %"
        );
    }
    if arguments.repeat.is_some_and(|repeat| repeat > max_repeats) {
        bail!("--repeat is the least number of repeats and --max-repeats the most; raise --max-repeats");
    }
    Ok(Some(Precision { part, max_repeats }))
}

/// What `--precision` takes for `--max-repeats`.
const MAX_REPEATS: u32 = 30;

/// What the order is drawn from: the user's seed, or one of six digits, so that it can be typed; `None` for the plan's
/// order.
fn seed(arguments: &RunArgs, plan: &Plan, changes: &Changes) -> Result<Option<u32>> {
    let is_random = match arguments.order {
        Some(order) if arguments.seed.is_some() && order != RoundOrder::Random => {
            bail!("--seed is for the order by chance; leave --seed out, or --order")
        }
        _ if arguments.seed.is_some() => return Ok(arguments.seed),
        Some(order) => order == RoundOrder::Random,
        None => plan.is_random(changes)?,
    };
    if !is_random {
        return Ok(None);
    }
    drawn_seed().map(Some)
}

/// A seed left to chance, of six digits.
pub(super) fn drawn_seed() -> Result<u32> {
    let mut octets = [0; 8];
    getrandom::fill(&mut octets)
        .map_err(|error| anyhow!("this machine gives no random numbers ({error}); give --seed, or --order plan"))?;
    Ok(SplitMix64::new(u64::from_ne_bytes(octets)).below(1_000_000) as u32)
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

/// The unfinished campaign that these words mean.
fn resume(
    wanted: &PlanRequest,
    arguments: &RunArgs,
    ends: &PerEnd<Endpoint>,
    store: &Store,
    named: Option<&str>,
) -> Result<OwnedOrder> {
    let Some(campaign) = unfinished(store, named, &wanted.name, ends)? else {
        bail!(
            "there is no unfinished campaign of the plan {} between {} and {} in {}; leave --resume out to begin one",
            wanted.name,
            ends.target,
            ends.host,
            store.path().display()
        );
    };
    let begun: PlanRequest = serde_json::from_str(&campaign.plan_text)?;
    if !begun.search.is_empty() {
        bail!("the unfinished campaign is a search; carry it on with linerate search and the words that began it");
    }
    wanted.check_same_middle(&begun)?;
    // What was changed for the campaign counts on; something else would make it another campaign.
    let (now, then) = (&wanted.changes, &begun.changes);
    let random = arguments.order.map(|order| order == RoundOrder::Random);
    let says_other = (!now.overrides.is_empty() && now.overrides != then.overrides)
        || (now.repeat.is_some() && now.repeat != then.repeat)
        || (now.seed.is_some() && now.seed != then.seed)
        || random.is_some_and(|random| random != then.seed.is_some())
        || (now.null && !then.null)
        || (now.precision.is_some() && now.precision != then.precision)
        || (!now.expect.is_empty() && now.expect != then.expect);
    if says_other {
        bail!(
            "the unfinished campaign was begun with other settings; leave --set, --repeat and what else says how to \
             measure out to carry it on, or --resume to begin another"
        );
    }
    let mut order = begun.begin()?;
    // The store may have come from somebody else, under the name of a plan of this user's.
    let named = Plan::parse(&wanted.source, &wanted.name, &wanted.name)?;
    if order.plan.custom != named.custom || order.plan.boots != named.boots {
        bail!(
            "the unfinished campaign's plan runs other programs ([custom] or [boot]) than {} does; see that both are \
             yours, and leave --resume out to begin another",
            wanted.name
        );
    }
    order.resume = Some(campaign);
    Ok(order)
}
