//! `linerate search`: the most that comes through between two machines.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use linerate_control::Endpoint;
use linerate_control::message::{Reply, Request};
use linerate_machine::end::End;
use linerate_plan::{Changes, PlannedTrial};
use linerate_results::record::Record;
use linerate_trial::search::goal::Goal;
use linerate_trial::spec::{Ip, Spec, Workload};
use linerate_trial::wire::{EthernetOverhead, IpVersion};

use super::run::{Wanted, status};
use super::{boards, connect_options, given_addresses, machines, make_store, say_notes, width};
use crate::cli::{SearchArgs, SharedArgs};
use crate::interrupt;
use crate::measure::campaign;
use crate::measure::pair::{ANSWER_TIME, Pair};
use crate::measure::searching::Searching;
use crate::output::{data, out};
use crate::progress::Progress;
use crate::render;

/// What records and campaigns of searches are called.
const SEARCH: &str = "search";
/// The lowest load, as a part of the highest.
const LEAST: f64 = 0.001;

/// Searches each configuration of a plan. The status is 1 where a goal was not reached.
pub(crate) fn search(arguments: &SearchArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let plan = linerate_plan::find(&arguments.plan)?;
    let ends = machines(&arguments.ends)?;
    if let Endpoint::Foreign { .. } = ends.target {
        bail!("a search needs linerate's own agent at the target; reach the machine as ssh:host");
    }
    let goals = if arguments.goal.is_empty() {
        ["ndr", "pdr"].map(|name| Goal::preset(name).expect("it is one")).to_vec()
    } else {
        arguments.goal.clone()
    };
    let mut overrides = arguments.set.clone();
    if let Some((name, _)) = overrides.iter().find(|(name, _)| ["rate", "duration", "bytes"].contains(&name.as_str())) {
        bail!(
            "{name} is the search's own to choose; --goal says how long trials are, --min-rate and --max-rate which loads"
        );
    }
    // The plan's own loads and times are not what is measured.
    overrides.push(("rate".to_owned(), "1M".to_owned()));
    overrides.push(("duration".to_owned(), "1s".to_owned()));
    let changes = Changes { overrides, repeat: Some(1), ..Changes::default() };
    let mut wanted = Wanted::of(&plan, changes);
    let bases = wanted.begin()?.take_trials();
    if let Some(other) = bases.iter().find(|trial| trial.spec.workload != Workload::UdpStream) {
        bail!(
            "only UDP streams are searched, and {} measures {} too; name a plan of udp-stream",
            plan.name,
            other.spec.workload
        );
    }
    wanted.changes.overrides.truncate(arguments.set.len());
    wanted.changes.repeat = None;
    wanted.search = words(arguments);
    let options = connect_options(shared)?;
    let mut store = make_store(shared)?;
    let progress = Progress::new(shared.quiet);
    let _started = boards::start_for(&[&ends.target, &ends.host], &progress)?;
    interrupt::listen();
    let mut pair = Pair::connect(&ends.target, &ends.host, given_addresses(&arguments.ends), &options)?;
    for client in [&pair.target, &pair.host] {
        say_notes(client);
    }
    let mut links = BTreeMap::new();
    let mut ladder = |base: PlannedTrial| -> Result<(PlannedTrial, [f64; 2])> {
        let most = match arguments.max_rate {
            Some(bps) => bps as f64,
            None => {
                let family = base.spec.ip.map(|ip| ip == Ip::V4);
                let link = match links.get(&family) {
                    Some(link) => *link,
                    None => *links.entry(family).or_insert(slower_link(&pair, base.spec.ip)?),
                };
                link.carries(&base.spec)
            }
        };
        let least = arguments.min_rate.map_or(most * LEAST, |bps| bps as f64);
        Ok((base, [least, most]))
    };
    let bases = bases.into_iter().map(&mut ladder).collect::<Result<Vec<_>>>()?;
    let mut searching = Searching::new(bases, &goals).map_err(|[least, most]| {
        anyhow!(
            "nothing lies between the lowest load, {} Mbit/s, and the highest, {} Mbit/s; give --min-rate and --max-rate",
            least / 1e6,
            most / 1e6
        )
    })?;
    let mut order = wanted.begin()?;
    order.take_trials();
    SEARCH.clone_into(&mut order.plan.name);
    let mut records = Vec::new();
    let ended =
        campaign::run_by(&order.borrow(), &mut searching, &mut pair, &mut store, &progress, &mut |record: &Record| {
            records.push(record.in_brief());
        });
    progress.clear();
    pair.end();
    let searched = searching.searched();
    if !records.is_empty() {
        match arguments.output {
            output if output.json => data!("{}", render::search::json(&searched)),
            output if output.csv => data!("{}", render::search::csv(&searched)),
            output if output.markdown => data!("{}", render::search::markdown(&searched)),
            _ => out!("{}", render::search::text(&searched, &records, width())),
        }
    }
    let is_found = searched.iter().flat_map(|one| &one.found).all(|found| found.is_regular || found.is_unlimited);
    Ok(match status(ended)? {
        ExitCode::SUCCESS if !is_found => ExitCode::from(1),
        status => status,
    })
}

/// The options beside `--set` that make it the same search.
fn words(arguments: &SearchArgs) -> Vec<String> {
    let goals = arguments.goal.iter().map(|goal| format!("--goal '{}'", goal.name));
    let most = arguments.max_rate.map(|bps| format!("--max-rate {bps}"));
    let least = arguments.min_rate.map(|bps| format!("--min-rate {bps}"));
    let words: Vec<String> = goals.chain(most).chain(least).collect();
    // It is known as a search by having words.
    if words.is_empty() { vec!["--goal ndr --goal pdr".to_owned()] } else { words }
}

/// The slower of the two links.
#[derive(Clone, Copy)]
struct Link {
    mbps: u32,
    ip: Ip,
}

impl Link {
    /// The payload that it carries in datagrams of this trial's size, bits per second.
    fn carries(self, spec: &Spec) -> f64 {
        let payload = u64::from(Spec { ip: Some(self.ip), ..spec.clone() }.message_octets());
        let version = if self.ip == Ip::V4 { IpVersion::V4 } else { IpVersion::V6 };
        f64::from(self.mbps) * 1e6 * payload as f64 / EthernetOverhead::udp_wire_octets(payload, version) as f64
    }
}

fn slower_link(pair: &Pair, ip: Option<Ip>) -> Result<Link> {
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
