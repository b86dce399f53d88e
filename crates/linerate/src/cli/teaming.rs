//! What `submit`, `jobs` and `worker` are asked: a team's queue. Knows no other command.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use linerate_control::message::FencingToken;
use linerate_machine::units::parse_duration;

use super::{between, name_and_value, whole_number};
use crate::complete;

/// Where the queue is.
#[derive(Args, Debug, Clone)]
pub(crate) struct QueueArgs {
    /// The team's queue: nats://HOST:4222 or tls://HOST:4222; encrypted unless it is on this machine [default: LINERATE_QUEUE]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) queue: Option<String>,
    /// Who asks: a file that only you can read, with a user's credentials as nsc makes them, user:password, or a token
    /// [default: LINERATE_QUEUE_CREDENTIALS]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    pub(crate) queue_credentials: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct SubmitArgs {
    /// A built-in plan (see `linerate plans`), or a plan file like ./mine.toml
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    pub(crate) plan: String,
    /// On which benches: those that have this tag, like board=imx6, or bench=NAME; of several words all must be true
    #[arg(long, value_name = "TAG=VALUE", required = true, value_parser = name_and_value)]
    pub(crate) on: Vec<(String, String)>,
    /// Set an option of the trials, as run does; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value, add = ArgValueCompleter::new(complete::options))]
    pub(crate) set: Vec<(String, String)>,
    /// How often to measure each configuration; by default as the plan says
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub(crate) repeat: Option<u32>,
    /// The order that this seed gives; by default one left to chance, the same on every bench
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub(crate) seed: Option<u32>,
    /// Which of your own jobs comes first on a bench; between users it says nothing
    #[arg(long, value_enum, value_name = "WHICH", default_value = "normal")]
    pub(crate) priority: PriorityArg,
    /// Not to begin before this time: 2026-11-25T22:00:00Z, or in so long: 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) not_before: Option<String>,
    /// How often it may be begun, the first time counted: a worker that dies has used one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = between::<u32>(1, 20))]
    pub(crate) attempts: u32,
    /// Whose jobs these are [default: your user's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Print the jobs as JSON Lines
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
}

/// As the core has them.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum PriorityArg {
    /// Before your others
    High,
    /// As usual
    Normal,
    /// When nothing else of yours waits
    Low,
}

#[derive(Args, Debug)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<JobsCommand>,
    /// Print JSON Lines: an object for each
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum JobsCommand {
    /// Those that wait or run; the same as without a word
    List {
        /// Also those that have ended
        #[arg(long)]
        all: bool,
        /// Of this user only
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// On this bench only
        #[arg(long, value_name = "NAME")]
        bench: Option<String>,
    },
    /// One: who wants what where with which options, and what became of it
    Show {
        /// The job's identifier, or the beginning of it
        job: String,
    },
    /// Take one back: one that runs puts settings back and keeps its records
    Cancel {
        /// The job's identifier, or the beginning of it
        job: String,
    },
    /// Those that were begun as often as they may be and never came to their end, and why
    Dead,
    /// What happens in one while it runs, as JSON Lines (docs/events.md), until it ends
    Watch {
        /// The job's identifier, or the beginning of it
        job: String,
    },
    /// Benches: who measures there, how many jobs wait, whether it is open
    Benches,
    /// Keep new jobs from a bench, or let them come again; one that runs goes on
    Maintenance {
        /// The bench
        bench: String,
        /// Whether it is kept from new jobs
        #[arg(value_enum)]
        state: OnOff,
        /// Why, for those who wait
        #[arg(long, value_name = "TEXT", default_value = "no reason given")]
        reason: String,
    },
    /// Workers that are there
    Workers,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum OnOff {
    /// Nothing is begun there
    On,
    /// Jobs are begun as usual
    Off,
}

/// A renewal each sixth of it, and an answer before the next.
fn lease(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_secs(3)..=Duration::from_secs(3600);
    if range.contains(&time) { Ok(time) } else { Err("write 3s to 1h".to_owned()) }
}

#[derive(Args, Debug)]
pub(crate) struct WorkerArgs {
    /// A bench that this worker measures on: a file, or a folder of them (docs/teams.md); may be given several times
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) bench: Vec<PathBuf>,
    /// So many campaigns at once; more than one disturb each other where they share a machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = between::<u32>(1, 1000))]
    pub(crate) at_once: u32,
    /// After how long a worker that died has lost its benches; the first worker of a queue says so for all [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = lease)]
    pub(crate) lease: Option<Duration>,
    /// Let a scraper read /metrics with the token in this file: made if it is not there, and kept. Without it nothing listens
    #[cfg(feature = "web")]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) metrics: Option<PathBuf>,
    /// Where a scraper finds it: an address of the loopback
    #[cfg(feature = "web")]
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4781", requires = "metrics", value_parser = super::serving::place)]
    pub(crate) metrics_listen: std::net::SocketAddr,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
}

/// What a worker tells the campaign that it starts; no person needs it.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct LeasedArgs {
    /// The campaign's identifier: carried on if it is in the store, and begun if not
    #[arg(long, value_name = "ID", hide = true, conflicts_with_all = ["resume", "dry_run"])]
    pub(crate) campaign: Option<String>,
    /// The lease under which it measures; it ends by itself when it does not hear on standard input that it was renewed
    #[arg(long, value_name = "BENCH,NUMBER,SECONDS", hide = true, requires = "campaign")]
    pub(crate) lease: Option<Lease>,
}

pub(super) const SUBMIT_HELP: &str = "Examples:\n  linerate submit tcp --on board=imx6\n  linerate submit ./nightly.toml --on \
                                      bench=imx6-1 --not-before 22h --priority low";

/// Which giving of a bench this is, and for how long it is enough to hear nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) fence: FencingToken,
    pub(crate) alone: Duration,
}

impl FromStr for Lease {
    type Err = String;

    fn from_str(text: &str) -> Result<Lease, String> {
        let bad = || format!("'{}' is not a lease; a worker writes BENCH,NUMBER,SECONDS", text.escape_debug());
        let mut parts = text.split(',');
        let (Some(bench), Some(number), Some(alone), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let number = number.parse().map_err(|_| bad())?;
        let alone = alone.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(bad)?;
        Ok(Lease { fence: FencingToken { bench: bench.to_owned(), number }, alone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_read() {
        let lease: Lease = "imx6-1,1795530000123,20.5".parse().unwrap();
        assert_eq!(lease.fence, FencingToken { bench: "imx6-1".to_owned(), number: 1_795_530_000_123 });
        assert_eq!(lease.alone, Duration::from_millis(20_500));
        for bad in ["", "a,1", "a,x,1", "a,1,x", "a,1,-1", "a,1,1,1", "a,1,NaN"] {
            assert!(bad.parse::<Lease>().is_err(), "{bad}");
        }
    }
}
