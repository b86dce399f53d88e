//! What `records`, `explain`, `compare`, `history` and `cost` are asked, of what was measured.
//! Knows no other command.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use linerate_machine::end::End;

use super::{OutputArgs, ReachArgs, StoreArgs};

#[derive(Args, Debug)]
pub(crate) struct RecordsArgs {
    #[command(subcommand)]
    pub(crate) command: RecordsCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RecordsCommand {
    /// The records, one line each
    List {
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// One record in full
    Show {
        /// Its identifier, or the beginning of it; without one, the newest
        id: Option<String>,
        /// Print the record as it is kept
        #[arg(long)]
        json: bool,
        /// Also the sysctls and offloads that both machines have alike
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// What the CPUs did in a record's trial, by function; as a flame graph; against another record's
    Profile(RecordsProfileArgs),
    /// Records for other programs, and tables for reports
    Export {
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RecordsProfileArgs {
    /// The record's identifier, or the beginning of it; without one, the newest
    pub(crate) id: Option<String>,
    /// Of this machine only
    #[arg(long, value_enum, value_name = "END")]
    pub(crate) end: Option<EndArg>,
    /// Hold it against this record's profile: which kinds of work and which functions grew or shrank
    #[arg(long, value_name = "RECORD")]
    pub(crate) against: Option<String>,
    /// Draw a flame graph into this file; with --against, one of the difference
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print the stacks in a line each, for programs that draw them
    #[arg(long, conflicts_with = "against")]
    pub(crate) folded: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// One of the two machines.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum EndArg {
    /// The machine under test
    Target,
    /// The machine at the other end
    Host,
}

impl EndArg {
    /// The end itself.
    pub(crate) fn end(self) -> End {
        match self {
            EndArg::Target => End::Target,
            EndArg::Host => End::Host,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The record: its identifier or the beginning of it, `last`, or `last~1` (the one before)
    #[arg(value_name = "RECORD", default_value = "last")]
    pub(crate) record: String,
    /// Try what the first finding with a suggestion says: an A/B in turns on the record's machines, put back afterwards
    #[arg(long)]
    pub(crate) r#try: bool,
    /// Explain, and try, this finding instead of the first
    #[arg(long, value_name = "NAME")]
    pub(crate) finding: Option<String>,
    /// How often to measure each side
    #[arg(long, value_name = "N", default_value_t = 8, requires = "try", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) repeat: u32,
    /// Leave the setting as tried, if it helped; `linerate target ENDPOINT restore` takes it back
    #[arg(long, requires = "try")]
    pub(crate) keep: bool,
    /// Reach a machine whose endpoint in the record is exec:COMMAND: the record's command runs here, as you
    #[arg(long, requires = "try")]
    pub(crate) allow_exec: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) output: ExplainOutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Show no progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
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
    /// What to compare with: CAMPAIGN, CAMPAIGN:NAME=VALUE, or :NAME=VALUE of all campaigns of the last plan that ran, or of
    /// that which :plan=NAME says
    #[arg(value_name = "BASELINE")]
    pub(crate) baseline: String,
    /// What to compare with it; left out with --null, the baseline is compared with itself only
    #[arg(value_name = "CANDIDATE", required_unless_present = "null")]
    pub(crate) candidate: Option<String>,
    /// Judge this metric; may be given several times. By default the usual ones that both sides have
    #[arg(long, value_name = "METRIC")]
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
    #[arg(long, value_name = "GATE")]
    pub(crate) fail_if: Vec<String>,
    /// For git bisect run: status 0 good, 1 bad, 125 cannot tell; by --fail-if, or else by anything worse
    #[arg(long)]
    pub(crate) bisect: bool,
    #[command(flatten)]
    pub(crate) output: TableArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// The metric, like throughput or latency_p99
    #[arg(value_name = "METRIC")]
    pub(crate) metric: String,
    /// Of which records: CAMPAIGN, CAMPAIGN:NAME=VALUE, or :NAME=VALUE of all campaigns. Where neither
    /// a campaign nor :plan=NAME is named, of the last plan that ran
    #[arg(value_name = "SELECTION")]
    pub(crate) selection: Option<String>,
    /// Only the last N campaigns of each configuration
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=2000))]
    pub(crate) last: u16,
    #[command(flatten)]
    pub(crate) output: TableArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    /// An identifier or its beginning, `last`, `last~1` (the one before), or a plan's name
    #[arg(value_name = "CAMPAIGN")]
    pub(crate) campaign: Option<String>,
    #[command(flatten)]
    pub(crate) output: TableArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
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

#[derive(Args, Debug)]
pub(crate) struct FilterArgs {
    /// Only of this plan
    #[arg(long)]
    pub(crate) plan: Option<String>,
    /// Only of this campaign
    #[arg(long, value_name = "ID")]
    pub(crate) campaign: Option<String>,
    /// Only of this workload
    #[arg(long)]
    pub(crate) workload: Option<String>,
    /// Only since then: a time like 2026-11-21 or 2026-11-21T08:00:00Z, or an age like 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// The newest, at most this many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
}

pub(super) const EXPLAIN_HELP: &str = "\
Examples:
  linerate explain
  linerate explain 01M7Y0 --markdown
  linerate explain last --try                             does what it suggests help?
  linerate explain last --try --finding receive-ring --keep

docs/findings.md says what each finding rests on.";

/// How records are picked.
pub(super) const SELECT_HELP: &str = "CAMPAIGN is an identifier or its beginning, `last`, `last~1` (the one before), or a plan's \
                           name (its last campaign). NAME is a factor, an option, plan, since, until, or what a \
                           record knows of a machine, such as target.kernel; several are joined by commas.";

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
         linerate compare 01M7Y0 last --fail-if 'throughput worse 3%' --fail-if 'loss worse 0.1%'\n\n\
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
