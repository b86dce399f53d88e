//! What `records`, `explain`, `compare`, `history` and `cost` are asked, of what was measured.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use linerate_machine::end::Party;
use linerate_results::select::LAST;

use super::{CasesArgs, OutputArgs, between};
use crate::complete;

#[derive(Args, Debug)]
pub(crate) struct RecordsArgs {
    #[command(subcommand)]
    pub(crate) command: RecordsCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RecordsCommand {
    /// List the records
    #[command(after_help = SELECT_HELP)]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the campaigns: when, between which machines, how many trials are done, and what varied
    Campaigns {
        /// Only of this plan
        #[arg(long, add = ArgValueCompleter::new(complete::plans))]
        plan: Option<String>,
        /// The newest, at most this many
        #[arg(long, value_name = "N", value_parser = between::<u32>(1, u32::MAX))]
        limit: Option<u32>,
        /// Print a JSON object for each
        #[arg(long)]
        json: bool,
    },
    /// One record in full
    #[command(after_help = SELECT_HELP)]
    Show {
        /// The record, like 01M7Y0AB or last:direction=tx; of several, the newest
        #[arg(value_name = "SELECTION", default_value = LAST, add = ArgValueCompleter::new(complete::selections))]
        record: String,
        /// Print the record as it is kept
        #[arg(long)]
        json: bool,
        /// Also the sysctls and offloads that both machines have alike
        #[arg(long)]
        all: bool,
    },
    /// What the CPUs did in a record's trial, by function; as a flame graph; against another record's
    Profile(RecordsProfileArgs),
    /// Records for other programs, and tables for reports
    #[command(after_help = SELECT_HELP)]
    Export {
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        kcidb: KcidbArgs,
    },
    /// Copy records to another store, such as a team's; those that it has already stay as they are
    #[command(after_help = SELECT_HELP)]
    Push {
        /// The other store: a file, or postgres://USER@HOST/DATABASE
        #[arg(value_name = "STORE", value_hint = ValueHint::FilePath)]
        other: PathBuf,
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Copy records from another store into this one; those that are here already stay as they are
    #[command(after_help = SELECT_HELP)]
    Pull {
        /// The other store: a file, or postgres://USER@HOST/DATABASE
        #[arg(value_name = "STORE", value_hint = ValueHint::FilePath)]
        other: PathBuf,
        #[command(flatten)]
        filter: FilterArgs,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RecordsProfileArgs {
    /// The record, like 01M7Y0AB or last:direction=tx; of several, the newest
    #[arg(value_name = "SELECTION", default_value = LAST, add = ArgValueCompleter::new(complete::selections))]
    pub(crate) record: String,
    /// Of this machine only
    #[arg(long, value_enum, value_name = "END")]
    pub(crate) end: Option<PartyArg>,
    /// Hold it against this record's profile: which kinds of work and which functions grew or shrank
    #[arg(long, value_name = "SELECTION", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) against: Option<String>,
    /// Draw a flame graph into this file; with --against, one of the difference
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print the stacks in a line each, for programs that draw them
    #[arg(long, conflicts_with = "against")]
    pub(crate) folded: bool,
}

/// One of the machines.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum PartyArg {
    /// The machine under test
    Target,
    /// The machine at the other end
    Host,
    /// The machine between the two
    Middle,
}

impl PartyArg {
    /// The machine itself.
    pub(crate) fn party(self) -> Party {
        match self {
            PartyArg::Target => Party::Target,
            PartyArg::Host => Party::Host,
            PartyArg::Middle => Party::Middle,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The record, like 01M7Y0AB or last:direction=tx; of several, the newest
    #[arg(value_name = "SELECTION", default_value = LAST, add = ArgValueCompleter::new(complete::selections))]
    pub(crate) record: String,
    /// Try the first setting that a finding suggests: measure with and without it in turns on the record's machines, and
    /// restore it
    #[arg(long)]
    pub(crate) r#try: bool,
    /// Explain, and try, this finding instead of the first
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::findings))]
    pub(crate) finding: Option<String>,
    /// How often to measure each side: 4 at least, for fewer cannot tell a difference from noise
    #[arg(long, value_name = "N", default_value_t = 8, requires = "try", value_parser = between::<u32>(4, 1000))]
    pub(crate) repeat: u32,
    /// Keep the setting if it helped; `linerate target ENDPOINT restore` restores it
    #[arg(long, requires = "try")]
    pub(crate) keep: bool,
    /// Reach a machine whose endpoint in the record is exec:COMMAND: the record's command runs here, as you
    #[arg(long, requires = "try")]
    pub(crate) allow_exec: bool,
    #[command(flatten)]
    pub(crate) output: ExplainOutputArgs,
}

#[derive(Args, Debug, Clone, Copy)]
#[group(multiple = false)]
pub(crate) struct ExplainOutputArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print it in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// What to compare with, like last~1, last:target.mtu=1500, or :target.kernel=6.12.48 of all campaigns of the last plan
    /// that ran, or of that which :plan=NAME says
    #[arg(value_name = "BASELINE", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) baseline: String,
    /// What to compare with it; left out with --null, the baseline is compared with itself only
    #[arg(value_name = "CANDIDATE", required_unless_present = "null", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) candidate: Option<String>,
    /// Judge this metric; may be given several times. By default the usual ones that both sides have
    #[arg(long, value_name = "METRIC", add = ArgValueCompleter::new(complete::metrics))]
    pub(crate) metric: Vec<String>,
    /// What the sides differ in on purpose beside the levels given, such as target.kernel; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) on: Vec<String>,
    /// A difference smaller than this part of the baseline does not matter, like 1%; by default each metric's own
    #[arg(long, value_name = "PERCENT")]
    pub(crate) margin: Option<String>,
    /// Split each side against itself too: where it differs from itself, the verdict is doubted
    #[arg(long)]
    pub(crate) null: bool,
    /// End with status 1 if the comparison shows this, like "throughput worse 3%"; may be given several times
    #[arg(long, value_name = "GATE", add = ArgValueCompleter::new(complete::metrics))]
    pub(crate) fail_if: Vec<String>,
    /// For git bisect run: status 0 good, 1 bad, 125 cannot tell; by --fail-if, or else by anything worse
    #[arg(long)]
    pub(crate) bisect: bool,
    #[command(flatten)]
    pub(crate) output: TableArgs,
    #[command(flatten)]
    pub(crate) cases: CasesArgs,
}

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// The metric, like throughput or latency_p99
    #[arg(value_name = "METRIC", add = ArgValueCompleter::new(complete::metrics))]
    pub(crate) metric: String,
    /// Of which records, like tcp, last:direction=tx, or :direction=tx of all campaigns. Where neither a campaign nor
    /// :plan=NAME is named, of the last plan that ran
    #[arg(value_name = "SELECTION", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) selection: Option<String>,
    /// Only the last N campaigns that have the metric
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = between::<u16>(1, 2000))]
    pub(crate) last: u16,
    #[command(flatten)]
    pub(crate) output: TableArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    /// The campaign, or a part of it, like last:direction=tx
    #[arg(value_name = "SELECTION", default_value = LAST, add = ArgValueCompleter::new(complete::selections))]
    pub(crate) selection: String,
    #[command(flatten)]
    pub(crate) output: TableArgs,
}

pub(super) const COST_HELP: &str = "Measure with `linerate run packet-cost`, with --profile for what copies cost. docs/method.md says what is \
                         taken for granted.\n\nExit status: 0 a cost is told, 1 no fit is good, 2 nothing was measured.";

#[derive(Args, Debug, Clone, Copy)]
#[group(multiple = false)]
pub(crate) struct TableArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a row for each line of the table as CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print the tables in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

impl TableArgs {
    /// The option by which standard output is for a program, or for a page.
    pub(crate) fn for_programs(self) -> Option<&'static str> {
        OutputArgs { json: self.json, csv: self.csv, markdown: self.markdown }.for_programs()
    }
}

/// A report for the kernel's common store of test results; nothing is submitted.
#[derive(Args, Debug)]
pub(crate) struct KcidbArgs {
    /// Print a report for KCIDB (schema 5.3): a test a configuration and metric, with a status by what was expected
    #[arg(long, requires = "build", requires = "origin", conflicts_with_all = ["json", "csv", "markdown"])]
    pub(crate) kcidb: bool,
    /// With --kcidb: the build that was tested, as KCIDB knows it, like maestro:6650a1
    #[arg(long, value_name = "ID", requires = "kcidb")]
    pub(crate) build: Option<String>,
    /// With --kcidb: the CI system that measured, in small letters, digits and underscores
    #[arg(long, value_name = "NAME", requires = "kcidb")]
    pub(crate) origin: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct FilterArgs {
    /// Only these, like last, 01M7Y0 or last:direction=tx; by default all
    #[arg(value_name = "SELECTION", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) selection: Option<String>,
    /// Only of this plan
    #[arg(long, add = ArgValueCompleter::new(complete::plans))]
    pub(crate) plan: Option<String>,
    /// Only of this campaign; the same as SELECTION
    #[arg(long, value_name = "SELECTION", conflicts_with = "selection", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) campaign: Option<String>,
    /// Only of this workload
    #[arg(long, add = ArgValueCompleter::new(complete::workloads))]
    pub(crate) workload: Option<String>,
    /// Only since then: a time like 2026-11-21 or 2026-11-21T08:00:00Z, or an age like 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// The newest, at most this many
    #[arg(long, value_name = "N", value_parser = between::<u32>(1, u32::MAX))]
    pub(crate) limit: Option<u32>,
}

pub(super) const EXPLAIN_HELP: &str = "\
Examples:
  linerate explain
  linerate explain last:direction=tx
  linerate explain 01M7Y0 --markdown
  linerate explain last --try                    does what it suggests help?
  linerate explain last --try --finding receive-ring --keep

docs/findings.md says what each finding rests on.";

/// How records are picked.
pub(super) const SELECT_HELP: &str = "SELECTION is `last` (the newest campaign with records), `last~1` (the one before), a \
                           plan's name (its newest campaign; `tcp~1` is the one before), or the beginning of a campaign's \
                           or a record's identifier (`linerate records campaigns`, `linerate records list`). Behind it, or alone for all \
                           campaigns, :NAME=VALUE picks some of the records: NAME is a factor, an option, plan, since, \
                           until, or what a record knows of a machine, such as target.kernel; several are joined by \
                           commas, as in last:direction=tx,rate=100M.";

fn metrics_help() -> String {
    let mut text = "Metrics (* judged by default where both sides have them):\n".to_owned();
    for metric in linerate_results::figure::METRICS.iter() {
        let star = if metric.compared.usual { '*' } else { ' ' };
        text += &format!("  {star} {:<22} {}, {}\n", metric.short(), metric.title, metric.unit.name());
    }
    text
}

pub(super) fn compare_help() -> String {
    format!(
        "{SELECT_HELP}\n\n{}\nExamples:\n  \
         linerate compare last~1 last                          the last two campaigns\n  \
         linerate compare last:target.mtu=1500 last:target.mtu=9000\n  \
         linerate compare :plan=tcp,until=1d :plan=tcp,since=1d\n  \
         linerate compare --null last                          how noisy is it?\n  \
         linerate compare 01M7Y0 last --fail-if 'throughput worse 3%' \\\n      \
             --fail-if 'loss worse 0.1%'\n  \
         linerate compare last~1 last --fail-if 'throughput worse 3%' \\\n      \
             --junit compare.xml\n\n\
         docs/method.md says how a difference is judged.",
        metrics_help()
    )
}

pub(super) fn history_help() -> String {
    format!(
        "{SELECT_HELP}\n\n{}\nExamples:\n  \
         linerate history throughput\n  \
         linerate history latency_p99 :plan=rr,since=30d --markdown",
        metrics_help()
    )
}
