//! `linerate target … profile` and `linerate records profile`: what CPUs did, in figures and as a picture.
//! Knows agents and the store; counting is done in `crate::profile`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use linerate_control::message::{Event, LONGEST_PROFILE_S, Reply, Request};
use linerate_control::{AgentEvent, Client};
use linerate_machine::end::Party;
use linerate_machine::profile::Profile;
use linerate_machine::units::parse_duration;
use linerate_results::profile::account::{Work, account};
use linerate_results::profile::difference;
use linerate_results::record::Record;

use super::selection::one_record;
use super::{connect_options, open_store, say_notes, width};
use crate::cli::{PartyArg, RecordsProfileArgs, SharedArgs, TargetArgs, TargetProfileArgs};
use crate::interrupt;
use crate::measure::pair::ANSWER_TIME;
use crate::output::{data, out, say};
use crate::render;
use crate::render::flame;
use crate::render::profile::{Profiled, profiled};

/// What symbols take to read, beyond the time that is sampled: a slow board's kernel writes hundreds of thousands of
/// them out.
const GRACE: Duration = Duration::from_secs(30);

/// Profiles a machine beside no trial.
pub(super) fn of_machine(arguments: &TargetArgs, profile: &TargetProfileArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let seconds = match profile.seconds.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => parse_duration(&profile.seconds).map_err(|bad| anyhow::anyhow!("SECONDS: {bad}"))?.as_secs_f64(),
    };
    if !(0.01..=LONGEST_PROFILE_S).contains(&seconds) {
        bail!("a profile takes 10 ms to an hour; write seconds like 5, or a time like 500ms");
    }
    interrupt::listen();
    let client = Client::connect(&arguments.endpoint, "target", &connect_options(shared)?)?;
    say_notes(&client);
    let driver = driver(&client)?;
    client.request(Request::Profile { hz: profile.hz, seconds }, GRACE)?;
    let mut taken = wait(&client, Duration::from_secs_f64(seconds))?;
    let cpu = taken.cpu.take();
    let told = account(taken.clone(), cpu.as_ref(), driver.as_deref(), Work::default());
    if let Some(path) = &profile.svg {
        let title = format!("CPUs of {} for {seconds} s", arguments.endpoint);
        draw(path, flame::picture(&told, driver.as_deref(), &title))?;
    }
    if profile.json {
        taken.cpu = cpu;
        data!("{}", render::json::line(serde_json::json!(told)));
    } else {
        out!("{}", render::profile::whole("machine", &told, driver.as_deref(), "µs/packet", width()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The driver of the first interface that has one: its module's functions are the driver's.
fn driver(client: &Client) -> Result<Option<String>> {
    let addresses = match client.request(Request::Addresses, ANSWER_TIME)? {
        Reply::Addresses { addresses, .. } => addresses,
        _ => Vec::new(),
    };
    let Some(first) = addresses.iter().filter(|one| one.up).min_by_key(|one| one.loopback) else { return Ok(None) };
    let request = Request::Describe { interface: Some(first.interface.clone()), modules: Vec::new() };
    Ok(match client.request(request, ANSWER_TIME)? {
        Reply::Environment(environment) => environment.nic.and_then(|nic| nic.driver),
        _ => None,
    })
}

fn wait(client: &Client, time: Duration) -> Result<Profile> {
    let began = Instant::now();
    let mut stopped = false;
    while began.elapsed() < time + GRACE {
        if interrupt::requested() && !stopped {
            // What was seen so far is worth having.
            client.request(Request::Stop, ANSWER_TIME)?;
            stopped = true;
        }
        match client.events().recv_timeout(Duration::from_millis(100)) {
            Ok(AgentEvent::Event(Event::Profiled(profile))) => return Ok(*profile),
            Ok(AgentEvent::Lost(error)) => return Err(error.into()),
            Err(RecvTimeoutError::Disconnected) => bail!("{} was lost", client.machine()),
            Ok(AgentEvent::Event(_)) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
    bail!("{} told no profile in time; try again, and see what keeps it busy", client.machine())
}

/// Shows the profile of a record, or holds it against another's.
pub(super) fn of_record(arguments: &RecordsProfileArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let store = open_store(shared)?;
    let record = one_record(&store, &arguments.record)?;
    let all = profiled(&record);
    let end = arguments.end.map(PartyArg::party);
    let wanted: Vec<&Profiled<'_>> = all.iter().filter(|one| end.is_none_or(|party| party == one.party)).collect();
    let Some(first) = wanted.first() else {
        bail!("{}", why_none(&record, end));
    };
    if let Some(against) = &arguments.against {
        let before = one_record(&store, against)?;
        return hold_against(&before, &record, first.party, arguments.svg.as_deref());
    }
    if let Some(path) = &arguments.svg {
        let title = format!("{} CPUs: {} {} of {}", first.party, record.workload, record.direction, record.plan);
        draw(path, flame::picture(first.profile, first.driver, &title))?;
        if let Some(other) = wanted.get(1) {
            say(format_args!("linerate: the picture is of the {}; --end {} draws another", first.party, other.party));
        }
    }
    for Profiled { party, profile, driver } in wanted {
        if arguments.folded {
            out!("{}", flame::folded(profile));
            break;
        }
        let unit = if record.workload.is_stream() { "µs/packet" } else { "µs/transaction" };
        out!("{}\n", render::profile::whole(party.name(), profile, *driver, unit, width()));
    }
    Ok(ExitCode::SUCCESS)
}

fn hold_against(before: &Record, after: &Record, party: Party, svg: Option<&Path>) -> Result<ExitCode> {
    let of = |record| profiled(record).into_iter().find(|one| one.party == party).map(|one| one.profile);
    let (Some(old), Some(new)) = (of(before), of(after)) else {
        bail!("{}", why_none(before, Some(party)));
    };
    if let Some(path) = svg {
        let title = format!("{party} CPUs: {} against {}", after.id, before.id);
        draw(path, flame::difference(old, new, &title))?;
    }
    let Some(difference) = difference::difference(old, new) else {
        bail!("one of the two profiles tells no times; take both on machines whose /proc/stat can be read");
    };
    out!("{party}, before: {}\n{party}, after:  {}\n\n", named(before), named(after));
    out!("{}", render::profile::difference(&difference, width()));
    Ok(ExitCode::SUCCESS)
}

fn named(record: &Record) -> String {
    let factors: Vec<String> = record.trial.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    format!("{} {} {}", record.id, record.plan, factors.join(" "))
}

fn why_none(record: &Record, end: Option<Party>) -> String {
    use linerate_trial::doubt::DoubtKind;
    if let Some(end) = end.filter(|_| !profiled(record).is_empty()) {
        return format!(
            "the record {} has no profile of the {end}; leave --end out to see those that it has",
            record.id
        );
    }
    let why = record.doubts.iter().find(|doubt| doubt.kind() == DoubtKind::ProfileReduced);
    match why {
        Some(doubt) => format!("the record {} has no profile: {}", record.id, doubt),
        None => format!("the record {} has no profile; run its plan with --profile", record.id),
    }
}

fn draw(path: &Path, picture: std::io::Result<String>) -> Result<()> {
    let picture = picture.context("the flame graph could not be drawn")?;
    fs::write(path, picture).with_context(|| format!("cannot write {}; name another file", path.display()))
}
