//! The command line: every command and option is declared here, and help, completions and man pages follow.
//! Knows what may be asked, not how it is done.

mod console;
mod echoing;
mod inspecting;
mod judging;
mod measuring;
mod predicting;
mod reporting;
#[cfg(feature = "web")]
mod serving;
#[cfg(feature = "nats")]
mod teaming;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use linerate_control::endpoint_forms;
use linerate_machine::printable::in_line;
use linerate_machine::text::{nearest, number};
use linerate_machine::units::parse_duration;
use linerate_menu::text::wrapped;
use linerate_results::figure::{METRICS, Metric};
use linerate_trial::options;

pub(crate) use console::*;
pub(crate) use echoing::*;
pub(crate) use inspecting::*;
pub(crate) use judging::*;
pub(crate) use measuring::*;
pub(crate) use predicting::*;
pub(crate) use reporting::*;
#[cfg(feature = "web")]
pub(crate) use serving::*;
#[cfg(feature = "nats")]
pub(crate) use teaming::*;

use crate::complete;

/// Measure how well an Ethernet port works, and see where its packets go.
#[derive(Parser, Debug)]
#[command(name = "linerate", version, max_term_width = 100, propagate_version = false)]
#[command(after_help = "Start with `linerate demo`: it needs no hardware and no root.\n\nExit status: 0 done, 1 a \
                        judgement failed (an expectation of run, a gate of compare), 2 the command could not do its work, \
                        75 somebody else measures with one of the machines, 130 Ctrl-C ended it, 143 SIGTERM.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Try linerate without hardware: two network namespaces with a link like a modest board's; records are kept only with
    /// --store
    Demo(DemoArgs),
    /// Measure: run a plan between two machines
    #[command(after_help = SET_HINT, after_long_help = set_help())]
    Run(Box<RunArgs>),
    /// Find the highest load that loses no more than is allowed, by RFC 9971
    ///
    /// Tries loads between two bounds, in trials that are short at first, until the highest load that meets each goal is known
    /// to within 0.5 %. What the sender did not send counts as lost. Each trial is a record. Ctrl-C ends the search and shows
    /// what is known by then. The status is 1 if a goal is not known to the width asked for.
    #[command(after_help = SEARCH_HELP)]
    Search(Box<SearchArgs>),
    /// Check whether anything comes through, and if not, why: links, addresses, requests, large packets, in a few seconds
    ///
    /// Tries what a measurement needs, a line for each step: the links of both machines, their addresses, requests over TCP
    /// and UDP from either side, and packets as large as the links allow. If a step fails, it prints what both machines'
    /// counters saw dropped meanwhile. Keeps no record; the status is 1 if a step failed.
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Let other tools' clients measure against this machine; each test of theirs becomes a record
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Send test frames back to where they came from, and print every 5 s how many
    ///
    /// Swaps the addresses of Ethernet, IP and UDP. Answers only frames with the secret, and none that come from an echo or
    /// are multicast: nobody can use it to flood others, and two echoes do not answer each other. Works in the driver (XDP)
    /// if possible, else in the kernel's stack or by a packet socket. Ctrl-C ends it and leaves nothing behind (docs/echo.md).
    #[command(after_help = ECHO_HELP)]
    Echo(EchoArgs),
    /// List the built-in plans, or show one
    Plans {
        /// The built-in plan, or the plan file, to show; without one, list them
        #[arg(add = ArgValueCompleter::new(complete::plans))]
        plan: Option<String>,
    },
    /// Look at one machine, and change its settings
    #[command(after_help = TARGET_HELP)]
    Target(TargetArgs),
    /// List, show and export what was measured
    Records(RecordsArgs),
    /// Explain a record: where the packets went, what limits it, and what to try
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// Compare two campaigns, or two levels of a factor: is the difference real?
    #[command(after_help = SELECT_HELP, after_long_help = compare_help())]
    Compare(CompareArgs),
    /// Show a metric over the campaigns in the store, and where it changed
    #[command(after_help = SELECT_HELP, after_long_help = history_help())]
    History(HistoryArgs),
    /// Fit what a packet and a byte cost the CPUs, over a campaign of several sizes
    #[command(after_help = COST_HELP)]
    Cost(CostArgs),
    /// Predict what a change would bring, by a model of the machine that is calibrated on measurements
    ///
    /// Fits the model's parameters to the measurements in more than a hundred ways, and predicts with all of them. If they agree,
    /// there is a median and an interval; if not, the measurements do not determine an answer, and the status is 1.
    #[command(after_help = PREDICT_HELP)]
    Predict(PredictArgs),
    /// Write a report in HTML, Markdown or plain text, whose figures can be recomputed
    #[command(after_help = report_help())]
    Report(ReportArgs),
    /// Use menus: settings, tests, servers, screens of both machines, plans and records, in 80 x 24 or line by line
    ///
    /// A full screen in a terminal; numbered lines with --plain, TERM=dumb, or without a terminal. Menus run linerate's commands,
    /// and show them (docs/console.md). Settings apply to the tests that are started here, and are restored after each.
    Console(ConsoleArgs),
    /// Serve machines, plans, running campaigns, records and comparisons to a browser
    ///
    /// Prints an address with a token in it; whoever opens it may look. Listens on this machine only: from elsewhere, use ssh -L.
    /// Starts and changes nothing without --allow-run and the like (docs/web.md). Ctrl-C ends it.
    #[cfg(feature = "web")]
    #[command(after_help = WEB_HELP)]
    Web(WebArgs),
    /// Submit a plan to a team's queue: a campaign for each bench that fits, run by the worker that has the bench
    ///
    /// Workers offer benches (docs/teams.md). A campaign runs as with `linerate run`; its records are in the workers' store, under
    /// the job's identifier as their campaign.
    #[cfg(feature = "nats")]
    #[command(after_help = SUBMIT_HELP)]
    Submit(SubmitArgs),
    /// Show a team's queue: jobs, benches, workers; cancel a job, reserve a bench
    #[cfg(feature = "nats")]
    Jobs(JobsArgs),
    /// Run a team's jobs on benches that this machine reaches
    ///
    /// Connects to the queue, and does not listen. Each campaign is a process of its own. If a worker is killed, its leases expire,
    /// and another resumes its campaigns. Ctrl-C hands back what runs.
    #[cfg(feature = "nats")]
    Worker(WorkerArgs),
    /// Run emulated boards with real Ethernet drivers, and machines that forward: list, start, inspect, end
    #[command(subcommand)]
    Lab(LabArgs),
    /// Be an agent, as linerate-agent is (see `linerate agent --help`)
    ///
    /// Generate, receive and count test traffic on this machine, for a controller.
    ///
    /// `--stdio`: speak the control conversation on standard input and output.
    ///
    /// `--listen ADDRESS:PORT --psk-file FILE`: wait for controllers on the network; they must have the key.
    ///
    /// `--line DEVICE`: speak it on a serial port, one controller after the other.
    ///
    /// `--menu`: menus for a person at this machine's own console.
    ///
    /// `--new-psk FILE`: make a new key.
    ///
    /// `--netns PATH`: work in this network namespace, such as /run/netns/NAME.
    #[command(disable_help_flag = true)]
    Agent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        arguments: Vec<String>,
    },
    /// Print a shell's completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder, which must exist
        folder: PathBuf,
    },
    /// Print the licences of linerate and of everything that is linked into it
    Licences,
}

/// What this process is asked. Help, and a complaint that ends the process, are clap's own to write, in colour; the
/// complaint repeats words of the command line, which a script may have from anywhere.
pub(crate) fn asked() -> Cli {
    let words: Vec<OsString> = std::env::args_os().collect();
    parsed(words.clone()).unwrap_or_else(|complaint| {
        // Of the same words without what a terminal would obey, the same complaint; unless it was about just that.
        match parsed(words.iter().map(|word| in_line(&word.to_string_lossy(), 1000).into_owned().into()).collect()) {
            Err(same) => end_with(&with_next_step(same)),
            Ok(_) => {
                crate::output::say(format_args!("{}", complaint.render()));
                std::process::exit(complaint.exit_code())
            }
        }
    })
}

/// Prints help, a version or a complaint, and ends.
fn end_with(told: &clap::Error) -> ! {
    match told.print().and_then(|()| crate::output::terminal().flush()) {
        Err(error) if !told.use_stderr() => crate::output::unwritten(&error),
        _ => std::process::exit(told.exit_code()),
    }
}

fn parsed(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    if let Some((name, _)) = matches.subcommand() {
        // A value is handed down from where it stands and not up, and a switch not at all.
        let all: Vec<&ArgMatches> =
            std::iter::successors(Some(&matches), |one| one.subcommand().map(|(_, inner)| inner)).collect();
        let is_given = |option: &str| {
            all.iter().any(|one| {
                one.try_contains_id(option).is_ok() && one.value_source(option) == Some(ValueSource::CommandLine)
            })
        };
        let options = shared();
        let given = options.iter().map(|option| option.get_id().as_str()).filter(|option| is_given(option));
        if let Some(option) = given.into_iter().find(|option| !means_something(option, name)) {
            let option = option.replace('_', "-");
            let sentence = format!("--{option} means nothing to linerate {name}; leave it out");
            return Err(command.error(ErrorKind::UnknownArgument, sentence));
        }
    }
    Cli::from_arg_matches(&matches)
}

/// The command line as it is declared above. Shared options are taken everywhere, and shown where they mean something.
pub(crate) fn command() -> clap::Command {
    let mut whole = Cli::command();
    for command in whole.get_subcommands_mut() {
        let name = command.get_name().to_owned();
        for option in shared().into_iter().filter(|option| !means_something(option.get_id().as_str(), &name)) {
            // Of the same name as what would be handed down, and so instead of it.
            *command = std::mem::take(command).arg(option.hide(true));
        }
    }
    whole
}

/// Made when it is needed.
type Tip = fn() -> String;

/// What an argument that is missing can be.
const MISSING: [(&str, Tip); 7] = [
    ("<ENDPOINT>", || format!("a machine is reached as one of: {}", endpoint_forms())),
    ("<PLAN>", || {
        "`linerate plans` lists the built-in plans; a plan file is given as a path, like ./mine.toml".to_owned()
    }),
    ("<BASELINE>", || {
        "`linerate records list` shows what was measured; `last` and `last~1` are the latest campaigns".to_owned()
    }),
    ("<CANDIDATE>", || "what the baseline is held against: `last` is the latest campaign".to_owned()),
    ("<METRIC>", || format!("metrics are {}", METRICS.iter().map(Metric::short).collect::<Vec<_>>().join(", "))),
    ("<NAME>", || "`linerate lab list` shows the boards".to_owned()),
    ("<SELECTION>...", || "`last` is the latest campaign, and `linerate records campaigns` lists all".to_owned()),
];

/// Commands that only a feature of the build brings.
const OF_FEATURES: [(&str, &str); 4] = [("web", "web"), ("submit", "nats"), ("jobs", "nats"), ("worker", "nats")];

/// A complaint, with the next step where clap knows none.
fn with_next_step(mut complaint: clap::Error) -> clap::Error {
    let tips: Vec<String> = match (complaint.kind(), complaint.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            // A machine is an option's value too; another option's value may be called like a board.
            let is_missing = |argument: &str| {
                missing.iter().any(|one| one == argument || argument == MISSING[0].0 && one.ends_with(argument))
            };
            MISSING.iter().filter(|(argument, _)| is_missing(argument)).map(|(_, tip)| tip()).collect()
        }
        (ErrorKind::InvalidValue, Some(ContextValue::String(argument))) if argument.ends_with("<ENDPOINT>") => {
            vec![(MISSING[0].1)()]
        }
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => {
            misplaced(word, complaint.get(ContextKind::Usage)).into_iter().collect()
        }
        (ErrorKind::InvalidSubcommand, _) => {
            let word = complaint.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
            let lacking = OF_FEATURES.iter().filter(|(name, _)| word.as_deref() == Some(name));
            lacking
                .map(|(name, feature)| {
                    format!("this linerate was built without '{name}'; build it with --features {feature}")
                })
                .collect()
        }
        _ => Vec::new(),
    };
    if !tips.is_empty() {
        // What clap took the word for, by its letters, stands in its usage too.
        if complaint.remove(ContextKind::SuggestedArg).is_some() {
            let usage = named(complaint.get(ContextKind::Usage)).render_usage();
            complaint.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        }
        let tips = tips.into_iter().map(Into::into).collect();
        complaint.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    } else if complaint.kind() == ErrorKind::UnknownArgument {
        // That a word behind `--` is a value: nothing here takes one that begins with a dash.
        complaint.remove(ContextKind::Suggested);
    }
    // Nor is an option one to be named that means nothing there.
    let suggested = complaint.get(ContextKind::SuggestedArg).map(ToString::to_string).unwrap_or_default();
    let of = named(complaint.get(ContextKind::Usage));
    let is_it = |one: &&Arg| one.get_long().is_some_and(|long| suggested.trim_start_matches('-') == long);
    if of.get_arguments().find(is_it).is_some_and(Arg::is_hide_set) {
        complaint.remove(ContextKind::SuggestedArg);
    }
    complaint
}

/// What a word was meant as that stands where the usage has no such thing.
fn misplaced(word: &str, of_usage: Option<&ContextValue>) -> Option<String> {
    let usage = of_usage.map(ToString::to_string).unwrap_or_default();
    if !usage.ends_with("<COMMAND>") {
        if let Some(tip) =
            option_of_a_trial(word, &named(of_usage), std::env::args().skip_while(|one| !one.starts_with(word)))
        {
            return Some(tip);
        }
        let is_machine = word == "local" || word.contains([':', '@']);
        if let Some((_, action)) = usage.split_once(" target <ENDPOINT> ").filter(|_| is_machine) {
            let action = action.split(' ').next().unwrap_or_default();
            return Some(format!("the machine stands before what is done with it: linerate target {word} {action}"));
        }
        return match word.strip_prefix('-') {
            None => Some(format!("leave '{word}' out; what has blanks in it is quoted")),
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                Some(format!("'{word}' is below zero; write '{rest}'"))
            }
            // Of letters behind one dash clap names the first.
            Some(_) => std::env::args().find(|one| one.starts_with(word)).and_then(|whole| {
                let is_it = |one: &Arg| !one.is_hide_set() && one.get_long() == Some(whole.trim_start_matches('-'));
                named(of_usage).get_arguments().any(is_it).then(|| format!("long options have two dashes: -{whole}"))
            }),
        };
    }
    let of = named(of_usage);
    let Some(option) = word.strip_prefix("--") else {
        let names = of.get_subcommands().map(clap::Command::get_name);
        let names: Vec<&str> = names.filter(|name| *name != "help").collect();
        return (!word.starts_with('-')).then(|| match nearest(word, names.iter().copied()) {
            Some(name) => format!("a similar command exists: '{name}'"),
            None => format!("commands are {}", names.join(", ")),
        });
    };
    let takes_it = |one: &&clap::Command| one.get_arguments().any(|argument| argument.get_long() == Some(option));
    let after = of.get_subcommands().find(takes_it)?;
    Some(format!("--{option} stands behind a command that takes it, such as {}", after.get_name()))
}

/// iperf3's options, and what does the same here: `=` stands for the value.
const OF_IPERF3: [(&str, &str); 18] = [
    ("-t", "--set duration="),
    ("-P", "--set streams="),
    ("--parallel", "--set streams="),
    ("-R", "--set direction=tx"),
    ("--reverse", "--set direction=tx"),
    ("--bidir", "--set direction=both"),
    ("-u", "the plan udp-stream"),
    ("--udp", "the plan udp-stream"),
    ("-b", "--set rate="),
    ("--bitrate", "--set rate="),
    ("-l", "--set message_size="),
    ("-w", "--set socket_buffer="),
    ("-i", "--set interval="),
    ("-n", "--set bytes="),
    ("-O", "--set warmup="),
    ("-C", "--set congestion_control="),
    ("-M", "--set mss="),
    ("-c", "--target "),
];

/// What a word was meant as that is an option of the trials, or one of iperf3's, where the command takes such options;
/// `words`: it and those behind it.
fn option_of_a_trial(word: &str, of: &clap::Command, words: impl Iterator<Item = String>) -> Option<String> {
    if !of.get_arguments().any(|argument| argument.get_long() == Some("set")) {
        return None;
    }
    let words: Vec<String> = words.take(2).collect();
    let value = words.first().and_then(|first| first.strip_prefix(word)).map(|rest| rest.trim_start_matches('='));
    let value = value
        .filter(|rest| !rest.is_empty())
        .or_else(|| words.get(1).map(String::as_str).filter(|next| !next.starts_with('-')));
    let set = |name: &str| {
        let written = |text: &str| options::canonical(name, text).unwrap_or_else(|_| text.to_owned());
        format!("--set {name}={}", value.map_or_else(|| "VALUE".to_owned(), written))
    };
    if let Some((_, meant)) = OF_IPERF3.iter().find(|(theirs, _)| *theirs == word) {
        let name = meant.strip_prefix("--set ").and_then(|rest| rest.strip_suffix('='));
        let ours = match name {
            Some(name) => set(name),
            None if meant.ends_with(' ') => format!("{meant}{}", value.unwrap_or("ENDPOINT")),
            None => (*meant).to_owned(),
        };
        return Some(format!("iperf3's {word} is {ours} here"));
    }
    let name = word.strip_prefix("--")?.replace('-', "_");
    let is_known = options::find(&name).is_ok() || options::setting_of(&name).is_some();
    is_known.then(|| format!("{name} is an option of the trials: {}", set(&name)))
}

/// The command that a usage is of: by the names up to the first that is none, from behind "Usage: linerate".
fn named(usage: Option<&ContextValue>) -> clap::Command {
    let usage = usage.map(ToString::to_string).unwrap_or_default();
    let mut of = command();
    of.build();
    for name in usage.split_whitespace().skip(2) {
        let Some(inner) = of.find_subcommand(name) else { break };
        of = inner.clone();
    }
    of
}

/// Options that several commands share; they may stand before the command's name too. Help shows them behind a command's own.
#[derive(Args, Debug, Default)]
#[command(next_display_order = 900)]
pub(crate) struct SharedArgs {
    /// Where records are kept: a file, or postgres://USER@HOST/DATABASE [default: LINERATE_STORE, linerate.toml, or
    /// linerate/records.sqlite in the XDG data folder]
    #[arg(long, value_name = "FILE", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,
    /// The key shared with a tcp: agent: a file of 64 hexadecimal digits, made by `linerate-agent --new-psk`
    #[arg(long, value_name = "FILE", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) psk_file: Option<PathBuf>,
    /// The agent's program on a machine that is reached over ssh; by default linerate-agent, copied there if needed
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) remote_agent: Option<String>,
    /// The folder of the agents that are copied to machines without one [default: beside this program, and
    /// linerate/agents in the XDG data folder]
    #[arg(long, value_name = "FOLDER", global = true, conflicts_with = "remote_agent")]
    pub(crate) agents: Option<PathBuf>,
    /// Leave an agent that was copied to a machine there, and say where; by default it is removed
    #[arg(long, global = true, conflicts_with = "remote_agent")]
    pub(crate) keep_agent: bool,
    /// Print no progress on standard error
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// Of the options in [`SharedArgs`], those that say how agents are reached.
const REACH: [&str; 4] = ["psk_file", "remote_agent", "agents", "keep_agent"];

/// Whether a shared option means something to a command.
pub(crate) fn means_something(option: &str, command: &str) -> bool {
    match command {
        "run" | "explain" | "search" => true,
        "serve" => ["store", "quiet"].contains(&option),
        "echo" => option == "quiet",
        "web" => option != "quiet",
        "worker" => true,
        "demo" | "records" | "compare" | "history" | "cost" | "predict" | "report" => option == "store",
        "console" => option != "quiet",
        "check" => option == "quiet" || REACH.contains(&option),
        "target" => REACH.contains(&option),
        _ => false,
    }
}

/// A row of a list in help: a name, and what it is beside it, in 80 columns.
fn described(name: &str, width: usize, what: &str) -> String {
    let lines = wrapped(what, 76 - width);
    format!("  {name:<width$}  {}\n", lines.join(&format!("\n{:1$}", "", width + 4)))
}

/// What [`SharedArgs`] declares.
fn shared() -> Vec<Arg> {
    SharedArgs::augment_args(clap::Command::new("")).get_arguments().cloned().collect()
}

#[derive(Args, Debug, Clone, Copy)]
#[group(multiple = false)]
pub(crate) struct OutputArgs {
    /// Print records as JSON Lines, and nothing else: one object a line (docs/record-format.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a row for each record as CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print a table in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

impl OutputArgs {
    /// Nothing but records may be on standard output.
    pub(crate) fn is_for_programs(self) -> bool {
        self.for_programs().is_some()
    }

    /// The option by which that is so.
    pub(crate) fn for_programs(self) -> Option<&'static str> {
        let options = [(self.json, "--json"), (self.csv, "--csv"), (self.markdown, "--markdown")];
        options.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
    }
}

/// The forms that CI reads, beside what is printed for people.
#[derive(Args, Debug)]
#[command(next_help_heading = "For CI (docs/ci.md)")]
pub(crate) struct CasesArgs {
    /// Write test cases as JUnit XML to this file; with `-`, to standard output and nothing else
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,
    /// Write test cases as KTAP to this file, or `-`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tap: Option<PathBuf>,
    /// Print test cases as LAVA's signals on standard output
    #[arg(long)]
    pub(crate) lava: bool,
    /// Write a summary in Markdown, of 60 lines at most, to this file, or `-`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) summary: Option<PathBuf>,
}

fn whole_number(text: &str) -> Result<u32, String> {
    number(text).ok_or_else(|| "write a whole number, like 5".to_owned())
}

/// A number within bounds; of what is counted, one without an end too.
fn between<T: TryFrom<u64> + Into<u64>>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone {
    let (least, most) = (least.into(), most.into());
    move |text| {
        let found = number(text).filter(|count: &u64| (least..=most).contains(count));
        found.and_then(|count| T::try_from(count).ok()).ok_or_else(|| match most {
            most if most == u64::from(u32::MAX) => format!("write a whole number, {least} or more"),
            most => format!("write a whole number, {least} to {most}"),
        })
    }
}

/// A count, which nothing comes of where it is 0.
fn one_or_more(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "write a whole number, 1 or more".to_owned())
}

/// A time in which something can happen.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|bad| bad.to_string())?;
    if time.is_zero() { Err(format!("'{text}' is no time at all; write 10s or 5m")) } else { Ok(time) }
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    assigned(text, "duration=5s or target.mtu=9000")
}

/// Of one machine.
fn setting_and_value(text: &str) -> Result<(String, String), String> {
    assigned(text, "mtu=9000")
}

fn assigned(text: &str, like: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("'{text}' is not NAME=VALUE; write it like {like}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_that_the_build_lacks_names_its_feature() {
        for (name, feature) in OF_FEATURES {
            let is_there = command().find_subcommand(name).is_some();
            let said = parsed(vec!["linerate".into(), name.into()])
                .map_or_else(|it| with_next_step(it).to_string(), |_| String::new());
            assert_eq!(said.contains(&format!("build it with --features {feature}")), !is_there, "{name}: {said}");
            assert!(is_there || !cfg!(all(feature = "nats", feature = "web")), "{name} is no command");
        }
    }

    #[test]
    fn shared_options_are_taken_anywhere() {
        let store = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            parsed(words).map(|cli| cli.shared.store.map(|path| path.display().to_string()))
        };
        for line in [
            "linerate --store x run tcp",
            "linerate run tcp --store x",
            "linerate run --store x tcp",
            "linerate --store x records list",
            "linerate records --store x list",
            "linerate records list --store x",
            "linerate -q --store x explain",
        ] {
            assert_eq!(store(line).unwrap().as_deref(), Some("x"), "{line}");
        }
        for (line, option) in [
            ("linerate --store x plans", "--store"),
            ("linerate target local info --store x", "--store"),
            ("linerate lab list --psk-file x", "--psk-file"),
            ("linerate --quiet compare last last~1", "--quiet"),
        ] {
            let complaint = store(line).unwrap_err().to_string();
            assert!(complaint.contains(&format!("{option} means nothing to linerate")), "{line}: {complaint}");
        }
    }

    #[test]
    fn what_is_mistaken_has_a_next_step() {
        let tip = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            with_next_step(parsed(words).unwrap_err()).to_string()
        };
        for (line, next) in [
            ("linerate target info netns:b", "linerate target netns:b info"),
            ("linerate run rr tcp --target local", "leave 'tcp' out"),
            ("linerate predict", "`last` is the latest campaign"),
            ("linerate records list --limit 1 last last~1", "leave 'last~1' out"),
            ("linerate run tcp -t 5", "iperf3's -t is --set duration="),
        ] {
            assert!(tip(line).contains(next), "{line}: {}", tip(line));
        }
        let unknown = tip("linerate run tcp -d");
        assert!(unknown.contains("'-d'") && !unknown.contains("as a value"), "{unknown}");
    }

    #[test]
    fn a_list_in_help_fits_80_columns() {
        let text = set_help();
        let list = text.lines().skip(1).take_while(|line| !line.is_empty());
        let broken: Vec<&str> = list.filter(|line| line.chars().count() > 80 || !line.starts_with("  ")).collect();
        assert!(broken.is_empty(), "{broken:#?}");
        assert!(text.contains("\n                      part of the line rate"), "{text}");
    }

    #[test]
    fn a_report_has_the_form_that_its_files_name_says() {
        let form = |line: &str| {
            let cli = parsed(line.split(' ').map(OsString::from).collect()).unwrap();
            let Command::Report(report) = cli.command else { panic!("{line}") };
            let FormArgs { html, markdown, .. } = report.made.form();
            (html, markdown)
        };
        assert_eq!(form("linerate report last -o x.html"), (true, false));
        assert_eq!(form("linerate report -o x.md"), (false, true));
        assert_eq!(form("linerate report -o x.html --text"), (false, false));
        assert_eq!(form("linerate report -o x"), (false, false));
        assert_eq!(form("linerate report --html -o x.md"), (true, false));
    }

    #[test]
    fn shared_options_are_shown_where_they_mean_something() {
        let help = |path: &[&str]| {
            let mut command = command();
            // Hands the shared options down.
            command.build();
            let mut one = &mut command;
            for name in path {
                one = one.find_subcommand_mut(name).unwrap();
            }
            one.render_long_help().to_string()
        };
        assert!(help(&["run"]).contains("--psk-file") && help(&["records", "list"]).contains("--store"));
        // Behind a command's own.
        let (report, target) = (help(&["report"]), help(&["target", "info"]));
        assert!(report.find("--ascii") < report.find("--store") && target.find("--json") < target.find("--psk-file"));
        assert!(!help(&["records", "list"]).contains("--psk-file") && !help(&["plans"]).contains("--store"));
    }
}
