//! The commands, one file each.

mod atomic_file;
pub(crate) mod boards;
mod calibration;
mod case_files;
mod check;
pub(crate) mod compare;
mod console;
mod cost;
mod demo;
pub(crate) mod dry_run;
mod echo;
mod event_lines;
mod experiment;
mod explain;
pub(crate) mod history;
#[cfg(feature = "nats")]
mod jobs;
mod lab;
#[cfg(feature = "nats")]
mod leased;
mod licences;
pub(crate) mod plan_request;
pub(crate) mod plans;
mod predict;
mod predicted_gain;
mod profile;
#[cfg(feature = "nats")]
pub(crate) mod queue;
mod records;
mod registers;
pub(crate) mod report;
mod run;
mod search;
pub(crate) mod selection;
mod serve;
mod settings;
mod shell;
#[cfg(feature = "nats")]
mod submit;
pub(crate) mod target;
#[cfg(feature = "web")]
mod web;
#[cfg(feature = "nats")]
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_control::{Client, ConnectOptions, Endpoint, Psk, endpoint_forms};
use linerate_machine::end::PerEnd;
use linerate_results::record::Record;
use linerate_results::store::{Store, StoreError};

use self::plan_request::OwnedOrder;
use crate::cli::{Cli, Command, EndsArgs, SharedArgs};
use crate::default_store;
use crate::defaults::Defaults;
use crate::interrupt;
use crate::measure::campaign::CampaignError;
use crate::measure::middle::AskedMiddle;
use crate::measure::pair::{GivenAddresses, Pair};
use crate::output::{self, say};
use crate::progress::Progress;
use crate::render;
use crate::render::doubts::Notes;
use crate::render::records::Parts;
use linerate_plan::Report;

/// Carries the command out. The status is 0 or, where a judgement failed, 1; an error is for 2.
pub(crate) fn carry_out(mut cli: Cli) -> Result<ExitCode> {
    fill_in(&mut cli)?;
    let shared = &cli.shared;
    match cli.command {
        Command::Demo(arguments) => demo::demo(&arguments, shared),
        Command::Run(arguments) => run::run(&arguments, shared),
        Command::Search(arguments) => search::search(&arguments, shared),
        Command::Check(arguments) => check::check(&arguments, shared),
        Command::Serve(arguments) => serve::serve(&arguments, shared),
        Command::Echo(arguments) => echo::echo(&arguments, shared),
        Command::Plans { plan } => plans::plans(plan.as_deref()),
        Command::Target(arguments) => target::look(&arguments, shared),
        Command::Records(arguments) => records::records(&arguments.command, shared),
        Command::Explain(arguments) => explain::explain(&arguments, shared),
        Command::Compare(arguments) => compare::compare(&arguments, shared),
        Command::History(arguments) => history::history(&arguments, shared),
        Command::Cost(arguments) => cost::cost(&arguments, shared),
        Command::Predict(arguments) => predict::predict(&arguments, shared),
        Command::Report(arguments) => report::report(&arguments, shared),
        Command::Console(arguments) => console::console(&arguments, shared),
        #[cfg(feature = "web")]
        Command::Web(arguments) => web::web(&arguments, shared),
        #[cfg(feature = "nats")]
        Command::Submit(arguments) => submit::submit(&arguments),
        #[cfg(feature = "nats")]
        Command::Jobs(arguments) => jobs::jobs(&arguments),
        #[cfg(feature = "nats")]
        Command::Worker(arguments) => worker::worker(&arguments, shared),
        Command::Lab(arguments) => lab::lab(&arguments),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { folder } => shell::man(&folder),
        Command::Licences => Ok(licences::licences()),
        // `main` takes this road before the command line is read.
        Command::Agent { arguments } => {
            Ok(linerate_agent::run("linerate agent", arguments.into_iter().map(Into::into)))
        }
    }
}

/// What the command line does not say, the environment and files may.
fn fill_in(cli: &mut Cli) -> Result<()> {
    let plan_folder = match &cli.command {
        Command::Run(arguments) if arguments.no_defaults => return Ok(()),
        Command::Run(arguments) => linerate_plan::folder(&arguments.plan),
        Command::Search(arguments) => linerate_plan::folder(&arguments.plan),
        Command::Serve(_) | Command::Target(_) | Command::Records(_) | Command::Explain(_) => None,
        Command::Compare(_) | Command::History(_) | Command::Cost(_) | Command::Check(_) => None,
        Command::Predict(_) | Command::Report(_) | Command::Console(_) => None,
        // What they do is the same everywhere; the demo's records end with it.
        #[cfg(feature = "web")]
        Command::Web(_) => return Ok(()),
        #[cfg(feature = "nats")]
        Command::Worker(_) => None,
        #[cfg(feature = "nats")]
        Command::Submit(_) | Command::Jobs(_) => return Ok(()),
        Command::Demo(_) | Command::Plans { .. } | Command::Lab(_) | Command::Echo(_) => return Ok(()),
        Command::Completions { .. } | Command::Man { .. } | Command::Licences | Command::Agent { .. } => return Ok(()),
    };
    let Defaults { target, host, middle, store, psk_file } = Defaults::find(plan_folder)?;
    cli.shared.store = cli.shared.store.take().or(store);
    cli.shared.psk_file = cli.shared.psk_file.take().or(psk_file);
    let ends = match &mut cli.command {
        Command::Run(arguments) => &mut arguments.ends,
        Command::Search(arguments) => &mut arguments.ends,
        Command::Check(arguments) => &mut arguments.ends,
        Command::Console(arguments) => &mut arguments.ends,
        _ => return Ok(()),
    };
    ends.target = ends.target.take().or(target);
    ends.host = ends.host.take().or(host);
    ends.middle = ends.middle.take().or(middle);
    Ok(())
}

/// The machine between the two, where the user names one.
fn middle(ends: &EndsArgs) -> Result<Option<AskedMiddle>> {
    match &ends.middle {
        Some(Endpoint::Foreign { .. }) => {
            bail!("--middle: another tool's server observes nothing; reach the machine as ssh:host")
        }
        Some(endpoint) => {
            Ok(Some(AskedMiddle { endpoint: endpoint.clone(), interfaces: ends.middle_interfaces.clone() }))
        }
        None => Ok(None),
    }
}

/// The two machines: as the user said, or by the defaults.
fn machines(ends: &EndsArgs) -> Result<PerEnd<Endpoint>> {
    let Some(target) = ends.target.clone() else {
        bail!(
            "which machine is the target? Give --target ENDPOINT, set LINERATE_TARGET, or write target = \"ENDPOINT\" into \
             linerate.toml; an endpoint is one of: {}",
            endpoint_forms()
        )
    };
    Ok(boards::ends(target, ends.host.clone().unwrap_or(Endpoint::Local)))
}

/// Both machines, and the one between them where there is one, once they are reached; what their agents have to tell is said. A board
/// that has to be started for this ends with the first.
fn connected(
    ends: &PerEnd<Endpoint>,
    asked: &EndsArgs,
    options: &ConnectOptions,
    progress: &Progress,
) -> Result<(Option<boards::Started>, Pair)> {
    let middle = middle(asked)?;
    let machines = [&ends.target, &ends.host].into_iter().chain(middle.as_ref().map(|middle| &middle.endpoint));
    let started = boards::start_for(&machines.collect::<Vec<_>>(), &options.agents, progress)?;
    interrupt::listen();
    let given = GivenAddresses { target: asked.target_address.clone(), host: asked.host_address.clone() };
    let mut pair = Pair::connect(&ends.target, &ends.host, given, options)?;
    pair.reach_middle(middle.as_ref())?;
    pair.clients().for_each(say_notes);
    Ok((started, pair))
}

fn connect_options(reach: &SharedArgs) -> Result<ConnectOptions> {
    let psk = reach.psk_file.as_deref().map(Psk::read).transpose()?;
    Ok(ConnectOptions {
        remote_agent: reach.remote_agent.clone(),
        agents: reach.agents.clone().map_or_else(agents_folders, |folder| vec![folder]),
        carry_itself: reach.agents.is_none(),
        keep_agent: reach.keep_agent,
        psk,
        boards: boards::folders().ok().map(|folders| folders.running),
        interrupted: interrupt::requested,
        ..ConnectOptions::default()
    })
}

/// Words that every command has that is started from here: how machines are reached.
#[cfg(any(feature = "web", feature = "nats"))]
fn reach(shared: &SharedArgs) -> Vec<String> {
    let path = |option: &str, path: &Option<PathBuf>| path.as_ref().map(|path| format!("{option}={}", path.display()));
    let mut words: Vec<String> = Vec::new();
    words.extend(path("--psk-file", &shared.psk_file));
    words.extend(path("--agents", &shared.agents));
    words.extend(shared.remote_agent.as_ref().map(|agent| format!("--remote-agent={agent}")));
    words.extend(shared.keep_agent.then(|| "--keep-agent".to_owned()));
    words
}

/// Where agents for other machines may be: beside this program as installed or as built, and in the data folder.
fn agents_folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.parent().into_iter().flat_map(|bin| {
        // `cargo xtask agents` puts them into target/agents, and cargo the program into target/release.
        [bin.join("agents"), bin.join("../agents"), bin.join("../lib/linerate/agents")]
    });
    beside.chain(default_store::folder().map(|data| data.join("agents"))).collect()
}

/// Says what an agent has to tell before it is asked: settings that it found changed, and put back.
fn say_notes(client: &Client) {
    /// There are fewer settings than that to put back, and a screen has no more lines.
    const MOST: usize = 40;
    let notes = &client.hello().notes;
    for note in notes.iter().take(MOST) {
        say(format_args!("linerate: {}: {note}", client.machine()));
    }
    if notes.len() > MOST {
        say(format_args!("linerate: {}: and {} notes more", client.machine(), notes.len() - MOST));
    }
}

/// The store to read from: the one that the user named, or the usual one. Nothing is made.
fn open_store(shared: &SharedArgs) -> Result<Store> {
    let path = shared.store.clone().map_or_else(default_store::path, Ok)?;
    Ok(Store::open_existing(&path)?)
}

/// What could not be read is missing in what was made of the others.
fn without<'a>(unreadable: impl IntoIterator<Item = &'a StoreError>) -> ExitCode {
    let said = unreadable.into_iter().map(|why| say(format_args!("linerate: left out: {why}"))).count();
    if said == 0 { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// The store to write to; if it is not there, it is made with the first that is kept in it, the usual one with its folder.
fn store_to_keep(shared: &SharedArgs) -> Result<Store> {
    Ok(match &shared.store {
        Some(path) => Store::open_to_keep(path, false)?,
        None => Store::open_to_keep(&default_store::path()?, true)?,
    })
}

/// What people see of a campaign's records, without what is doubted. `lead` stands first, instead of plan and machines.
fn report(order: &OwnedOrder, parts: &Parts, records: &[Record], lead: Option<&str>, notes: &mut Notes) -> String {
    let (width, plan) = (width(), &order.plan);
    let mut text = match plan.report {
        Report::Ttcp => render::ttcp::ttcp(records, width),
        _ => render::records::tables(records, parts, lead, notes, width),
    };
    if plan.report == Report::Sweep {
        text += &render::picture::picture(records, width);
    }
    text + &render::wrapped(&render::summary::summary_beside_tables(records), width)
}

/// The exit status of a campaign that ended so.
fn status(ended: Result<usize, CampaignError>) -> Result<ExitCode> {
    match ended {
        Ok(0) => Ok(ExitCode::SUCCESS),
        Ok(1) => bail!("one trial failed; its record says why"),
        Ok(failed) => bail!("{failed} trials failed; their records say why"),
        Err(error) => Err(error.into()),
    }
}

/// Prints a text that is laid out already; JSON as it is.
fn show(text: &str, is_json: bool) {
    if is_json {
        output::data!("{text}");
    } else {
        output::out!("{}", render::wrapped(text, width()));
    }
}

/// Columns of a line: COLUMNS, else those of the terminal, else 100. Never `None`: what is read in a pager or a mail has
/// a width, too.
fn width() -> Option<u16> {
    const USUAL: u16 = 100;
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    asked.filter(|columns| *columns >= 20).or_else(output::columns).or(Some(USUAL))
}
