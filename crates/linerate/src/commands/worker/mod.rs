//! `linerate worker`: carries out a team's jobs on its benches. It dials out, and listens nowhere but for a scraper, where one is wanted.
//! Knows processes and the clock; what is to be done next, `linerate_work::Worker` says.

pub(super) mod limits;
#[cfg(feature = "web")]
mod metrics;
#[cfg(not(feature = "web"))]
#[path = "no_metrics.rs"]
mod metrics;
mod process;

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use linerate_control::{Endpoint, noise};
use linerate_plan::{Changes, Plan, needs};
use linerate_results::store::Store;
use linerate_work::{Action, Bench, CampaignEnd, Nats, Start, Times, Timing, Worker};

use super::{queue, store_to_keep};
use crate::cli::{SharedArgs, WorkerArgs};
use crate::input_file;
use crate::interrupt;
use crate::measure::ids::now;
use crate::measure::route::GivenAddress;
use crate::output::say;
use metrics::Metrics;
use process::{Campaign, Folder, WorkerContext};

/// A campaign's end is seen after so long, and Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);
/// Without a campaign, Ctrl-C is.
const IDLE_SLICE: Duration = Duration::from_millis(500);

/// Works until Ctrl-C; campaigns that run then are handed back.
pub(crate) fn worker(arguments: &WorkerArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let mut benches: Vec<Bench> = Vec::new();
    for path in &files(&arguments.bench)? {
        let bench = read(path)?;
        if benches.iter().any(|other| other.name == bench.name) {
            bail!("{}: there is a bench {} already; each has a name of its own", path.display(), bench.name);
        }
        benches.push(bench);
    }
    // The store is made now, so that no job has to find out that it cannot be, and that it is there can be asked.
    let mut store = store_to_keep(shared)?;
    store.make()?;
    let path = shared.store.clone().unwrap_or_else(|| store.path().to_owned());
    let path =
        if linerate_results::store::is_url(&path.to_string_lossy()) { path } else { std::path::absolute(&path)? };
    drop(store);
    let mut queue = queue::open(&arguments.queue, arguments.lease)?;
    let timing = Timing { lease_ms: queue.lease().as_millis() as u64 };
    let metrics = Metrics::begin(arguments, shared.quiet)?;
    let mut words = super::reach(shared);
    words.push(format!("--store={}", path.display()));
    let around = WorkerContext {
        words,
        folder: Folder::make()?,
        alone_s: timing.stop_ms() as f64 / 1000.0,
        teller: queue.teller(),
    };
    interrupt::listen();
    let name = name()?;
    let list: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
    if !shared.quiet {
        say(format_args!("linerate: worker {name} takes jobs for {}; Ctrl-C ends it", list.join(", ")));
    }
    let core = Worker::new(&name, env!("CARGO_PKG_VERSION"), benches, arguments.at_once as usize, timing);
    work(core, &mut queue, &around, &path, &metrics, shared.quiet)?;
    Ok(ExitCode::SUCCESS)
}

fn work(
    mut core: Worker,
    queue: &mut Nats,
    around: &WorkerContext,
    store: &Path,
    metrics: &Metrics,
    quiet: bool,
) -> Result<()> {
    let began = Instant::now();
    let mut running: BTreeMap<String, Campaign> = BTreeMap::new();
    let tell = |sentence: &str| {
        if !quiet {
            say(format_args!("linerate: {sentence}"));
        }
    };
    // Meanwhile no lease is renewed, so an answer may take no longer than this.
    let within = Duration::from_millis(core.timing().renew_ms());
    let is_store_there = || Store::answers(store, within).map_err(|error| error.to_string());
    let mono_ms = || began.elapsed().as_millis() as u64;
    let mut trouble = None;
    loop {
        if interrupt::requested() {
            core.close();
        }
        let over: Vec<(String, CampaignEnd)> =
            running.iter_mut().filter_map(|(id, one)| Some((id.clone(), one.ended(&is_store_there)?))).collect();
        for (id, came) in over {
            let not_put_back = running.remove(&id).map_or(0, |one| one.not_put_back());
            metrics.came(&came, not_put_back);
            tell(&format!("job {id} {}", words_of(&came)));
            core.ended(&id, came);
        }
        let present = Times { mono_ms: mono_ms(), unix_ms: now().as_millisecond() };
        for action in core.step(queue, present) {
            match action {
                Action::Start(start) => match begin(&start, around) {
                    Ok(campaign) => {
                        metrics.begun();
                        let Start { job, bench, attempt, .. } = &*start;
                        tell(&format!("job {} of {} begins on {}, attempt {attempt}", job.id, job.user, bench.name));
                        running.insert(job.id.clone(), campaign);
                    }
                    Err(came) => {
                        metrics.came(&came, 0);
                        tell(&format!("job {} {}", start.job.id, words_of(&came)));
                        core.ended(&start.job.id, came);
                    }
                },
                Action::Renewed(id) => running.get_mut(&id).into_iter().for_each(Campaign::renewed),
                Action::Stop(id) => running.get_mut(&id).into_iter().for_each(Campaign::stop),
                Action::Kill(id) => running.get_mut(&id).into_iter().for_each(Campaign::kill),
                Action::Refused(name) => tell(&format!(
                    "what was queued as {name} is no job that this version knows, and was taken away; submit it anew with \
                     linerate submit"
                )),
            }
        }
        // Once for each kind: how a server is silent differs from time to time.
        if core.trouble().map(discriminant) != trouble {
            trouble = core.trouble().map(discriminant);
            tell(&core.trouble().map_or_else(|| "the queue answers again".to_owned(), ToString::to_string));
        }
        if interrupt::requested() && core.is_idle() && running.is_empty() {
            // Where the queue does not answer, its entry ends by itself.
            let _ = core.leave(queue);
            return Ok(());
        }
        metrics.stands(&core, queue, running.len(), mono_ms());
        let left = Duration::from_millis(core.next_step_ms().saturating_sub(mono_ms()));
        let slice = if running.is_empty() { IDLE_SLICE } else { SLICE };
        if queue.wait(left.clamp(Duration::from_millis(5), slice)) {
            core.look_now();
        }
    }
}

/// Starts a campaign, if the bench's file allows what it would do.
fn begin(start: &Start, around: &WorkerContext) -> Result<Campaign, CampaignEnd> {
    let Start { job, bench, .. } = start;
    let refused = |why: String| CampaignEnd::Refused(why);
    let plan = Plan::parse(&job.source, &job.plan, &job.plan).map_err(|error| refused(error.to_string()))?;
    if plan.search.is_some() {
        return Err(refused("workers carry out plans of trials, and this one searches".to_owned()));
    }
    let overrides = job.sets.clone();
    let changes = Changes { overrides, repeat: job.repeat, seed: job.seed, ..Changes::default() };
    let trials = plan.trials_of(&changes).map_err(|error| refused(error.to_string()))?;
    if let Some(why) = limits::refused(bench, &needs(&plan, &trials)) {
        return Err(refused(why));
    }
    // This machine has no room for a file, or for a process.
    Campaign::start(start, around).map_err(|error| CampaignEnd::HandedBack(format!("{error:#}")))
}

fn words_of(came: &CampaignEnd) -> String {
    match came {
        CampaignEnd::Done { failed_trials: 0 } => "is done".to_owned(),
        CampaignEnd::Done { failed_trials: 1 } => "is done; one trial has no figures".to_owned(),
        CampaignEnd::Done { failed_trials } => format!("is done; {failed_trials} trials have no figures"),
        CampaignEnd::Failed(why) => format!("broke off: {why}"),
        CampaignEnd::Refused(why) => format!("is refused: {why}"),
        CampaignEnd::HandedBack(why) => format!("is handed back: {why}"),
        CampaignEnd::Stopped => "was ended".to_owned(),
    }
}

/// The files, and those of folders by their names.
fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in given {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        found.retain(|file| file.extension().is_some_and(|end| end == "toml"));
        if found.is_empty() {
            bail!("{} has no file of a bench (.toml); write one (docs/teams.md)", path.display());
        }
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

/// A bench, as a file describes it.
fn read(path: &Path) -> Result<Bench> {
    let bench = Bench::parse(&input_file::text(path)?).map_err(|bad| anyhow::anyhow!("{}:{bad}", path.display()))?;
    for (what, text) in
        [("target", Some(&bench.target)), ("host", Some(&bench.host)), ("middle", bench.middle.as_ref())]
    {
        if let Some(text) = text {
            text.parse::<Endpoint>().map_err(|error| anyhow::anyhow!("{}: {what}: {error}", path.display()))?;
        }
    }
    for (end, address) in &bench.addresses {
        address
            .parse::<GivenAddress>()
            .map_err(|error| anyhow::anyhow!("{}: addresses: {end}: '{address}': {error}", path.display()))?;
    }
    Ok(bench)
}

/// A name that no other worker has, or had: the machine's and one by chance.
fn name() -> Result<String> {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = machine.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let machine: String = plain.take(30).collect();
    let machine = if machine.is_empty() { "worker".to_owned() } else { machine };
    Ok(format!("{machine}-{}", noise::draw(&mut [0; 5])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_that_cannot_be_is_said_at_the_start() {
        let file = std::env::temp_dir().join(format!("linerate-bench-{}.toml", std::process::id()));
        let said = |more: &str| {
            std::fs::write(&file, format!("name = 'b'\ntarget = 'local'\n{more}")).unwrap();
            read(&file).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(said("addresses = { target = '192.0.2.1', host = 'fe80::1%eth0' }"), Ok(()));
        let error = said("addresses = { target = 'not an ip' }").unwrap_err();
        assert!(error.contains("addresses: target: 'not an ip'"), "{error}");
        assert!(said("host = 'ftp:x:y'").unwrap_err().contains("host: "));
        std::fs::remove_file(file).unwrap();
    }
}
