//! `linerate search`, and `linerate run` of a plan that searches: the most that comes through between two machines.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use linerate_control::Endpoint;
use linerate_control::message::{Reply, Request};
use linerate_machine::end::{End, PerEnd};
use linerate_machine::units::format_duration;
use linerate_plan::{Changes, Plan, PlannedTrial, SearchPlan};
use linerate_results::record::Record;
use linerate_results::search::{SearchAsked, Searched};
use linerate_results::store::{Campaign, Store};
use linerate_trial::search::goal::Goal;
use linerate_trial::spec::{Ip, Spec, Workload};
use linerate_trial::wire::{EthernetOverhead, IpVersion};

use super::event_lines::{EventLines, is_stdout};
use super::order::{Wanted, check_middle};
use super::report::{at_end, writable};
use super::{boards, connect_options, given_addresses, machines, make_store, middle, say_notes, status, width};
use crate::cli::{EndsArgs, ReportFile, RunArgs, SearchArgs, SharedArgs, TableArgs};
use crate::interrupt;
use crate::measure::campaign;
use crate::measure::events::CampaignEvent;
use crate::measure::pair::{ANSWER_TIME, Pair};
use crate::measure::searching::Searching;
use crate::output::{data, out};
use crate::progress::Progress;
use crate::render;

/// What records and campaigns of searches are called, but for those of plans that search.
const SEARCH: &str = "search";
/// The lowest load, as a part of the highest.
const LEAST: f64 = 0.001;
/// What was found is measured once more for so long, seconds (RFC 2544, section 24).
const CONFIRM_S: f64 = 60.0;

/// How long each trial of a stage is, unless somebody says otherwise.
const STAGE_TIME: Duration = Duration::from_secs(10);

/// What is wanted of a search, whichever command says it.
struct Wish<'a> {
    plan: Plan,
    /// What its campaign is called.
    campaign: String,
    ends: &'a EndsArgs,
    set: &'a [(String, String)],
    search: SearchPlan,
    resume: bool,
    dry_run: bool,
    output: TableArgs,
    report: Option<&'a ReportFile>,
    events: Option<&'a Path>,
}

/// Searches each configuration of a plan. The status is 1 where a goal was not reached, or what is expected did not come about.
pub(crate) fn search(arguments: &SearchArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let mut plan = linerate_plan::find(&arguments.plan)?;
    let campaign = if plan.search.is_some() { plan.name.clone() } else { SEARCH.to_owned() };
    let mut search = plan.search.take().unwrap_or_default();
    if !arguments.goal.is_empty() {
        search.goals.clone_from(&arguments.goal);
    }
    search.most_bps = arguments.max_rate.or(search.most_bps);
    search.least_bps = arguments.min_rate.or(search.least_bps);
    search.tester_limit_bps = arguments.tester_limit.or(search.tester_limit_bps);
    search.confirm |= arguments.confirm;
    search.whole_trials |= arguments.whole_trials;
    search.expect.extend_from_slice(&arguments.expect);
    if !arguments.stage.is_empty() {
        search.stages.clone_from(&arguments.stage);
    }
    search.stage_time = arguments.stage_time.or(search.stage_time);
    let wish = Wish {
        plan,
        campaign,
        ends: &arguments.ends,
        set: &arguments.set,
        search,
        resume: arguments.resume,
        dry_run: arguments.dry_run,
        output: arguments.output,
        report: arguments.report.as_ref(),
        events: arguments.events.as_deref(),
    };
    carry_out(wish, shared)
}

/// The same by `linerate run`, of a plan that has a search.
pub(super) fn run(arguments: &RunArgs, plan: Plan, search: SearchPlan, shared: &SharedArgs) -> Result<ExitCode> {
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
    let wish = Wish {
        campaign: plan.name.clone(),
        plan,
        ends: &arguments.ends,
        set: &set,
        search,
        resume: arguments.resume,
        dry_run: arguments.dry_run,
        output: TableArgs { json: output.json, csv: output.csv, markdown: output.markdown },
        report: arguments.report.as_ref(),
        events: arguments.events.as_deref(),
    };
    carry_out(wish, shared)
}

fn carry_out(mut wish: Wish<'_>, shared: &SharedArgs) -> Result<ExitCode> {
    let ends = machines(wish.ends)?;
    if let Endpoint::Foreign { .. } = ends.target {
        bail!("a search needs linerate's own agent at the target; reach the machine as ssh:host");
    }
    if wish.search.goals.is_empty() {
        wish.search.goals = ["ndr", "pdr"].map(|name| Goal::preset(name).expect("it is one")).to_vec();
    }
    let search = &wish.search;
    if let Some(one) = search.expect.iter().find(|one| !search.goals.iter().any(|goal| goal.name == one.goal)) {
        let names: Vec<&str> = search.goals.iter().map(|goal| goal.name.as_str()).collect();
        bail!("'{one}' is of no goal of this search; its goals are {}", names.join(", "));
    }
    wish.report.map(|report| writable(&report.path)).transpose()?;
    let is_for_programs = wish.output.json || wish.output.csv || wish.output.markdown;
    if is_for_programs && is_stdout(wish.events) {
        bail!("--events - wants standard output for itself; give it a file, or leave --json, --csv or --markdown out");
    }
    let (wanted, bases) = wanted(&wish)?;
    let middle = middle(wish.ends)?;
    check_middle(middle.is_some(), &bases)?;
    let options = connect_options(shared)?;
    let events = EventLines::begin(wish.events)?;
    let mut store = make_store(shared)?;
    let campaign = wish.resume.then(|| resumed(&wish, &wanted, &ends, &store)).transpose()?;
    let progress = Progress::new(shared.quiet);
    let _started = boards::start_for(&[&ends.target, &ends.host], &progress)?;
    interrupt::listen();
    let mut pair = Pair::connect(&ends.target, &ends.host, given_addresses(wish.ends), &options)?;
    pair.reach_middle(middle.as_ref())?;
    for client in pair.clients() {
        say_notes(client);
    }
    let asked = asked(&wish.search, &pair, bases)?;
    if wish.dry_run {
        pair.end();
        out!("{}", render::search::dry_run(&asked));
        return Ok(ExitCode::SUCCESS);
    }
    let mut searching = Searching::new(asked).map_err(|[least, most]| {
        anyhow!(
            "nothing lies between the lowest load, {} Mbit/s, and the highest, {} Mbit/s; give --min-rate and --max-rate",
            least / 1e6,
            most / 1e6
        )
    })?;
    let mut records = Vec::new();
    if let Some(campaign) = &campaign {
        let before = store.records_of(&campaign.id)?;
        if searching.carry_on(&before).is_none() {
            bail!(
                "the unfinished search was between other loads, or for other goals; leave --resume out to begin another"
            );
        }
        records.extend(before.iter().map(Record::in_brief));
    }
    let mut order = wanted.begin()?;
    order.take_trials();
    order.plan.name.clone_from(&wish.campaign);
    let mut order = order.borrow();
    order.resume = campaign;
    let tell = |event: &CampaignEvent| {
        events.hear(event);
        progress.hear(event);
    };
    let ended = campaign::run_by(&order, &mut searching, &mut pair, &mut store, &tell, &mut |record: &Record| {
        records.push(record.in_brief());
    });
    drop(events);
    progress.clear();
    pair.end();
    let searched = searching.searched();
    if !records.is_empty() {
        show(&searched, &wish);
        if let Some(file) = wish.report {
            let ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
            at_end(&store, &wish.campaign, &ids, file, false)?;
        }
    }
    let is_met = wish.search.expect.iter().all(|one| render::search::is_met(one, &searched));
    Ok(match status(ended)? {
        ExitCode::SUCCESS if !(is_met && searched.iter().all(Searched::is_known)) => ExitCode::from(1),
        status => status,
    })
}

fn show(searched: &[Searched], wish: &Wish<'_>) {
    let expect = &wish.search.expect;
    match wish.output {
        output if output.json => data!("{}", render::search::json(searched, expect)),
        output if output.csv => data!("{}", render::search::csv(searched)),
        output if output.markdown => data!("{}", render::search::markdown(searched, expect)),
        _ => out!("{}", render::search::text(searched, expect, width())),
    }
}

/// What is carried out, and the configurations to search.
fn wanted(wish: &Wish<'_>) -> Result<(Wanted, Vec<PlannedTrial>)> {
    let mut overrides = wish.set.to_vec();
    if let Some((name, _)) = overrides.iter().find(|(name, _)| ["rate", "duration", "bytes"].contains(&name.as_str())) {
        bail!(
            "{name} is the search's own to choose; --goal says how long trials are, --min-rate and --max-rate which loads"
        );
    }
    // The plan's own loads and times are not what is measured.
    overrides.push(("rate".to_owned(), "1M".to_owned()));
    overrides.push(("duration".to_owned(), "1s".to_owned()));
    let changes = Changes { overrides, repeat: Some(1), ..Changes::default() };
    let mut wanted = Wanted::of(&wish.plan, changes);
    let bases = wanted.begin()?.take_trials();
    if let Some(other) = bases.iter().find(|trial| trial.spec.workload != Workload::UdpStream) {
        bail!(
            "only UDP streams are searched, and {} measures {} too; name a plan of udp-stream",
            wish.plan.name,
            other.spec.workload
        );
    }
    wanted.changes.overrides.truncate(wish.set.len());
    wanted.changes.repeat = None;
    wanted.search = words(&wish.search);
    Ok((wanted, bases))
}

/// The unfinished campaign of the same search.
fn resumed(wish: &Wish<'_>, wanted: &Wanted, ends: &PerEnd<Endpoint>, store: &Store) -> Result<Campaign> {
    let (target, host) = (ends.target.to_string(), ends.host.to_string());
    let Some(campaign) = store.latest_unfinished(&wish.campaign, &target, &host)? else {
        bail!(
            "there is no unfinished search of this kind between {target} and {host} in {}; leave --resume out to begin one",
            store.path().display()
        );
    };
    let begun: Wanted = serde_json::from_str(&campaign.plan_text)?;
    if begun != *wanted {
        bail!(
            "the unfinished search was begun with other words; say the same again, or leave --resume out to begin another"
        );
    }
    Ok(campaign)
}

/// The words that make it the same search.
fn words(search: &SearchPlan) -> Vec<String> {
    let rate = |name: &str, bps: Option<u64>| bps.map(|bps| format!("--{name} {bps}"));
    let mut words: Vec<String> = search.goals.iter().map(|goal| format!("--goal '{}'", goal.name)).collect();
    words.extend(rate("max-rate", search.most_bps));
    words.extend(rate("min-rate", search.least_bps));
    words.extend(rate("tester-limit", search.tester_limit_bps));
    words.extend(search.confirm.then(|| "--confirm".to_owned()));
    words.extend(search.whole_trials.then(|| "--whole-trials".to_owned()));
    words.extend(search.stages.iter().map(|stage| format!("--stage {stage}")));
    words.extend(search.stage_time.map(|time| format!("--stage-time {}", format_duration(time))));
    words.extend(search.expect.iter().map(|one| format!("--expect '{one}'")));
    words
}

/// Between which loads each configuration is searched.
fn asked(search: &SearchPlan, pair: &Pair, bases: Vec<PlannedTrial>) -> Result<Vec<(PlannedTrial, SearchAsked)>> {
    let mut links = BTreeMap::new();
    let mut one = |base: PlannedTrial| -> Result<(PlannedTrial, SearchAsked)> {
        let spec = Spec { ip: Some(family(pair, base.spec.ip)?), ..base.spec.clone() };
        let most_bps = match search.most_bps {
            Some(bps) => bps as f64,
            None => {
                let family = base.spec.ip.map(|ip| ip == Ip::V4);
                let link = match links.get(&family) {
                    Some(link) => *link,
                    None => *links.entry(family).or_insert(slower_link(pair, base.spec.ip)?),
                };
                link.carries(&base.spec)
            }
        };
        let asked = SearchAsked {
            goals: search.goals.clone(),
            least_bps: search.least_bps.map_or(most_bps * LEAST, |bps| bps as f64),
            most_bps,
            whole_trials: search.whole_trials,
            confirm_s: search.confirm.then_some(CONFIRM_S),
            tester_limit_bps: search.tester_limit_bps.map(|bps| bps as f64),
            stages: search.stages.clone(),
            stage_s: if search.stages.is_empty() { 0.0 } else { search.stage_time.unwrap_or(STAGE_TIME).as_secs_f64() },
            packet_octets: Some(spec.message_octets()),
            wire_octets: u32::try_from(wire_octets(&spec)).ok(),
        };
        Ok((base, asked))
    };
    bases.into_iter().map(&mut one).collect()
}

/// What a datagram of this trial takes of an Ethernet.
fn wire_octets(spec: &Spec) -> u64 {
    let version = if spec.ip == Some(Ip::V6) { IpVersion::V6 } else { IpVersion::V4 };
    EthernetOverhead::udp_wire_octets(spec.message_octets().into(), version)
}

/// By which Internet Protocol the trials go.
fn family(pair: &Pair, ip: Option<Ip>) -> Result<Ip> {
    let route = pair.route(ip).map_err(|complaint| anyhow!(complaint))?;
    Ok(if route.target.is_ipv4() { Ip::V4 } else { Ip::V6 })
}

/// The slower of the two links.
#[derive(Clone, Copy)]
pub(super) struct Link {
    mbps: u32,
    ip: Ip,
}

impl Link {
    /// The payload that it carries in datagrams of this trial's size, bits per second.
    pub(super) fn carries(self, spec: &Spec) -> f64 {
        let spec = Spec { ip: Some(self.ip), ..spec.clone() };
        f64::from(self.mbps) * 1e6 * f64::from(spec.message_octets()) / wire_octets(&spec) as f64
    }
}

pub(super) fn slower_link(pair: &Pair, ip: Option<Ip>) -> Result<Link> {
    let route = pair.route(ip).map_err(|complaint| anyhow!(complaint))?;
    let speed = |end, address| {
        let interface = pair.interface(end, address).map(str::to_owned);
        let described =
            pair.client(end).request(Request::Describe { interface, modules: Vec::new() }, ANSWER_TIME).ok()?;
        let Reply::Environment(environment) = described else { return None };
        environment.nic?.speed_mbps
    };
    let speeds = [speed(End::Target, route.target), speed(End::Host, route.host)];
    let Some(mbps) = speeds.into_iter().flatten().min() else {
        bail!("neither machine says how fast its link is; say the highest load to try, like --max-rate 1G");
    };
    Ok(Link { mbps, ip: if route.target.is_ipv4() { Ip::V4 } else { Ip::V6 } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_carries_depends_on_the_datagrams() {
        let of = |octets: u32, ip| Spec { message_size: Some(octets), ip, ..Spec::new(Workload::UdpStream) };
        let link = Link { mbps: 1000, ip: Ip::V4 };
        // RFC 2544, appendix B, at 1 Gbit/s: 1,488,095 frames a second of 64 octets, 81,274 of 1518.
        for (octets, frames) in [(18, 1_488_095.0), (1472, 81_274.0)] {
            let carried = link.carries(&of(octets, None)) / 8.0 / f64::from(octets);
            assert!((carried - frames).abs() < 1.0, "{octets}: {carried}");
        }
        assert!(Link { ip: Ip::V6, ..link }.carries(&of(1000, None)) < link.carries(&of(1000, None)));
    }
}
