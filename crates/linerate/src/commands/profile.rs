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
use linerate_machine::end::End;
use linerate_machine::profile::Profile;
use linerate_machine::units::parse_duration;
use linerate_results::profile::account::{Work, account};
use linerate_results::profile::difference;
use linerate_results::record::{Machine, Record};

use super::selection::one_record;
use super::{connect_options, open_store, say_notes, width};
use crate::cli::{RecordsProfileArgs, SharedArgs, TargetArgs, TargetProfileArgs};
use crate::interrupt;
use crate::measure::pair::ANSWER_TIME;
use crate::output::{out, say};
use crate::render;
use crate::render::flame;

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
        out!("{}", render::json::line(&serde_json::to_string(&told)?));
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
    let ends = match arguments.end {
        Some(end) => vec![end.end()],
        None => vec![End::Target, End::Host],
    };
    let with_profile: Vec<End> = ends.into_iter().filter(|end| machine(&record, *end).profile.is_some()).collect();
    let Some(&first) = with_profile.first() else {
        bail!("{}", why_none(&record));
    };
    if let Some(against) = &arguments.against {
        let before = one_record(&store, against)?;
        return hold_against(&before, &record, first, arguments.svg.as_deref());
    }
    if let Some(path) = &arguments.svg {
        let machine = machine(&record, first);
        let profile = machine.profile.as_ref().expect("only ends with a profile are left");
        let title = format!("{first} CPUs: {} {} of {}", record.workload, record.direction, record.plan);
        draw(path, flame::picture(profile, driver_of(machine), &title))?;
        if with_profile.len() > 1 {
            say(format_args!("linerate: the picture is of the {first}; --end host draws the other"));
        }
    }
    for end in with_profile {
        let machine = machine(&record, end);
        let Some(profile) = &machine.profile else { continue };
        if arguments.folded {
            out!("{}", flame::folded(profile));
            break;
        }
        let unit = if record.workload.is_stream() { "µs/packet" } else { "µs/transaction" };
        out!("{}\n", render::profile::whole(end.name(), profile, driver_of(machine), unit, width()));
    }
    Ok(ExitCode::SUCCESS)
}

fn hold_against(before: &Record, after: &Record, end: End, svg: Option<&Path>) -> Result<ExitCode> {
    let (Some(old), Some(new)) = (&machine(before, end).profile, &machine(after, end).profile) else {
        bail!("{}", why_none(before));
    };
    if let Some(path) = svg {
        let title = format!("{end} CPUs: {} against {}", after.id, before.id);
        draw(path, flame::difference(old, new, &title))?;
    }
    let Some(difference) = difference::difference(old, new) else {
        bail!("one of the two profiles tells no times; take both on machines whose /proc/stat can be read");
    };
    out!("{end}, before: {}\n{end}, after:  {}\n\n", named(before), named(after));
    out!("{}", render::profile::difference(&difference, width()));
    Ok(ExitCode::SUCCESS)
}

fn named(record: &Record) -> String {
    let factors: Vec<String> = record.trial.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    format!("{} {} {}", record.id, record.plan, factors.join(" "))
}

fn why_none(record: &Record) -> String {
    use linerate_trial::doubt::DoubtKind;
    let why = record.doubts.iter().find(|doubt| doubt.kind() == DoubtKind::ProfileReduced);
    match why {
        Some(doubt) => format!("the record {} has no profile: {}", record.id, doubt),
        None => format!("the record {} has no profile; run its plan with --profile", record.id),
    }
}

fn machine(record: &Record, end: End) -> &Machine {
    if end == End::Target { &record.target } else { &record.host }
}

fn driver_of(machine: &Machine) -> Option<&str> {
    machine.environment.nic.as_ref()?.driver.as_deref()
}

fn draw(path: &Path, picture: std::io::Result<String>) -> Result<()> {
    let picture = picture.context("the flame graph could not be drawn")?;
    fs::write(path, picture).with_context(|| format!("cannot write {}; name another file", path.display()))
}
