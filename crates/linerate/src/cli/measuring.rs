//! What `demo`, `run` and `serve` are asked.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use linerate_control::Endpoint;
use linerate_machine::prefix::Prefix;
use linerate_machine::units::OfferedLoad;
use linerate_results::search::SearchExpectation;
use linerate_results::search::stages::Stage;
use linerate_trial::search::goal::Goal;
use linerate_trial::tool::Tool;

use super::reporting::{ReportFile, report_file};
use super::{
    CasesArgs, OutputArgs, TableArgs, between, described, name_and_value, one_or_more, some_time, whole_number,
};
use crate::complete;
use crate::measure::middle::GivenPorts;
use crate::measure::route::GivenAddress;
use linerate_plan::RoundOrder;

/// Between which machines.
#[derive(Args, Debug)]
pub(crate) struct EndsArgs {
    /// The machine under test: local, netns:NAME, [ssh:][user@]host[:port], tcp:host:port, exec:COMMAND, board:NAME, or labgrid:PLACE
    ///
    /// The default is LINERATE_TARGET in the environment, or `target` in a linerate.toml beside the plan file or in the working
    /// directory (docs/plans.md).
    #[arg(long, value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    pub(crate) target: Option<Endpoint>,
    /// The machine at the other end of the cable; by default as for --target, else this one, or where a board's cable ends
    #[arg(long, value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    pub(crate) host: Option<Endpoint>,
    /// The machine between the two, which forwards the test traffic: a bridge, a router, a NAT; as for --target
    ///
    /// A third agent there reads its counters, CPUs, profile, registers and settings around each trial, and sends nothing: what
    /// it dropped is named in the loss budget.
    #[arg(long, value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    pub(crate) middle: Option<Endpoint>,
    /// The middle's interfaces that carry the traffic, the one towards the target first; by default found from what a bridge has
    /// learnt, or a router's routes
    #[arg(long, value_name = "TARGET,HOST", requires = "middle")]
    pub(crate) middle_interfaces: Option<GivenPorts>,
    /// The target's address for test traffic; by default one in a subnet that both ends share, else the one that SSH uses.
    /// A link-local one (fe80::2) may be followed by an interface of either end: fe80::2%eth0
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target_address: Option<GivenAddress>,
    /// The host's address that test traffic uses; one of the two is enough where the other follows
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host_address: Option<GivenAddress>,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) ends: EndsArgs,
    /// Print one JSON object, when all has been tried
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is searched, and for what.
#[derive(Args, Debug)]
pub(crate) struct SearchArgs {
    /// A plan whose configurations are searched, each by itself: a built-in one or a plan file, of UDP streams or
    /// of frames
    #[arg(default_value = "udp-stream", add = ArgValueCompleter::new(complete::plans))]
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) ends: EndsArgs,
    /// What is searched for: ndr, pdr, rfc2544, tst009, or parts such as 'loss=0.1 %,trial=10s,width=1 %'; may be given
    /// several times [default: ndr and pdr]
    ///
    /// ndr: nothing lost in half of 21 s of trials of 1 s. pdr: the same with at most 0.5 % lost. rfc2544: nothing lost in a
    /// trial of 60 s. tst009: nothing lost in half of 120 s of such trials. Parts: loss, the part that may be lost; trial, a
    /// trial's time; sum, the time of trials that decides a load [default: one trial]; exceed, the part of that time in which
    /// more may be lost [default: half]; width, how near the two bounds shall be [default: 0.5 %].
    #[arg(long, value_name = "GOAL", add = ArgValueCompleter::new(complete::goals))]
    pub(crate) goal: Vec<Goal>,
    /// The highest load in each direction, in bits of payload (of frames: all of them, FCS counted) or packets per second: 900M,
    /// 10kpps [default: what the slower link carries]
    #[arg(long, value_name = "RATE", value_parser = load)]
    pub(crate) max_rate: Option<OfferedLoad>,
    /// The lowest load [default: a thousandth of the highest]
    #[arg(long, value_name = "RATE", value_parser = load)]
    pub(crate) min_rate: Option<OfferedLoad>,
    /// What the tester carries without the device, as a search over a cable in its place found it: a result within 3 % of that
    /// is never called the device's [default: what the last calibration between these machines found]
    #[arg(long, value_name = "RATE", value_parser = load)]
    pub(crate) tester_limit: Option<OfferedLoad>,
    /// Measure the tester: what its two ports carry over a cable, without the device. Kept, and taken for --tester-limit by later
    /// searches of the same traffic between the same endpoints
    #[arg(long, conflicts_with_all = ["tester_limit", "middle", "stage", "reset", "confirm"])]
    pub(crate) calibrate: bool,
    /// Measure what was found once more for 60 s, as RFC 2544 has it, and say whether it keeps to the goal
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Carry every trial on to its end, as RFC 2544 has it: by default one ends once it has lost more than any goal forgives
    #[arg(long)]
    pub(crate) whole_trials: bool,
    /// What to measure beside the bounds: latency, loss-rate, back-to-back, recovery, windows (and reset, by --reset); may be given several times
    ///
    /// latency: the time from request to response beside the stream, at 10, 50, 90 and 100 % of what was found. loss-rate: what is
    /// lost from the highest load down by tenths, until nothing is lost twice. back-to-back: the longest burst at the highest
    /// load of which nothing is lost. recovery: how long after an overload something is still lost. windows: TCP with windows below, at and above the bandwidth-delay product (RFC 6349).
    #[arg(long, value_name = "STAGE", value_parser = linerate_plan::stage, add = ArgValueCompleter::new(complete::stages))]
    pub(crate) stage: Vec<Stage>,
    /// Run this command on this machine (sh -c) in mid-trial, at what was found, and say for how long nothing passed: the device is
    /// reset by it, like 'ssh root@board reboot'. With --stage-time long enough for it to come back
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub(crate) reset: Option<String>,
    /// How long each trial of a stage is [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) stage_time: Option<Duration>,
    /// What has to be found, like "ndr >= 900M" or "pdr <= 1G"; status 1 if it is not. May be repeated
    #[arg(long, value_name = "EXPECTATION")]
    pub(crate) expect: Vec<SearchExpectation>,
    /// Set an option of the trials, as run does; several levels (direction=tx,rx) are several searches
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value, add = ArgValueCompleter::new(complete::options))]
    pub(crate) set: Vec<(String, String)>,
    /// Resume the last unfinished search of this plan between these machines, or the one with this identifier
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    pub(crate) resume: Option<Option<String>>,
    /// Measure nothing: show what would be searched, between which loads
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: TableArgs,
    /// Write a report of the search into this file at the end: .html, .md or .txt
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = report_file, conflicts_with = "dry_run")]
    pub(crate) report: Option<ReportFile>,
    /// Write what happens into this file while it happens, as JSON Lines, for a program that watches; `-` is standard output,
    /// which then has nothing else (docs/events.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "dry_run")]
    pub(crate) events: Option<PathBuf>,
}

/// A load, or what is wrong with it.
pub(super) fn load(text: &str) -> Result<OfferedLoad, String> {
    let is_known =
        |load: &OfferedLoad| matches!(load, OfferedLoad::BitsPerSecond(_) | OfferedLoad::PacketsPerSecond(_));
    let known = text.parse().ok().filter(is_known);
    known
        .ok_or_else(|| format!("'{text}' is not a load; write bits per second like 100M or 1G, or packets like 10kpps"))
}

/// A plan, and how it is carried out.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A built-in plan (see `linerate plans`), or a plan file like ./mine.toml
    #[arg(add = ArgValueCompleter::new(complete::plans))]
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) ends: EndsArgs,
    /// Where the target is another tool's server: read its machine's counters over ssh, with a shell and cat only
    ///
    /// For iperf3:host and the like, when no agent may be copied there: [ssh:][user@]host[:port]. One ssh connection;
    /// the counters are read before and after each trial, and the loss budget is made with them (docs/peers.md).
    #[arg(long, value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    pub(crate) counters: Option<Endpoint>,
    /// The user, for an iperf3 server that asks for one; the password is taken from the environment variable IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "rsa_public_key")]
    pub(crate) username: Option<String>,
    /// The public key of that server, a PEM file
    #[arg(long, value_name = "FILE", requires = "username")]
    pub(crate) rsa_public_key: Option<PathBuf>,
    /// Where the target is a ttcp or an iperf2 server: send datagrams there though nothing answers, at this rate at most
    ///
    /// A ttcp answers nothing over UDP, so nothing shows that the address is the right one: what is sent may hit a machine
    /// that takes no part. With iperf2 this leaves out the first session of some kilobytes that finds out whether the
    /// server is there, which a server for one session (-P 1) takes for its only one. A trial has 60 s at most, its streams
    /// this rate together (10M, 1G), and it ends at the first ICMP refusal.
    #[arg(long, value_name = "RATE", value_parser = bits_per_second)]
    pub(crate) allow_unanswered: Option<u64>,
    /// Set an option of the trials: one value, a list (1M,2M) or a range (50M..1G:50M); may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value, add = ArgValueCompleter::new(complete::options))]
    pub(crate) set: Vec<(String, String)>,
    /// How often to measure each configuration; by default as the plan says
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub(crate) repeat: Option<u32>,
    /// Repeat each configuration until the 95 % interval of its median lies within this, like 1%
    ///
    /// The median is that of the throughput, or of the transactions per second. The plan's repeats, or those of
    /// --repeat, are the minimum. The interval allows for looking after each repeat (docs/method.md).
    #[arg(long, value_name = "PERCENT")]
    pub(crate) precision: Option<String>,
    /// With --precision, the most repeats [default: 30]
    #[arg(long, value_name = "N", value_parser = whole_number, requires = "precision")]
    pub(crate) max_repeats: Option<u32>,
    /// The order of the trials in each round, as the plan's factors vary or by chance, from a seed that is recorded; by
    /// default random where there are repeats
    #[arg(long, value_name = "ORDER", value_parser = order())]
    pub(crate) order: Option<RoundOrder>,
    /// The order that this seed gives: a dry run prints its seed, and records have theirs (trial.order_seed)
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub(crate) seed: Option<u32>,
    /// Measure everything twice in each round, as two sides that must be alike: compare doubts what they contradict
    #[arg(long)]
    pub(crate) null: bool,
    /// Expect this, like "throughput > 900M" or "loss < 0.1% with rate=300M": status 1 if it is not met. May be repeated
    #[arg(long, value_name = "EXPECTATION", add = ArgValueCompleter::new(complete::metrics))]
    pub(crate) expect: Vec<String>,
    /// How CPU use is measured; the same as --set cpu_method=METHOD
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(crate) cpu_method: Option<CpuMethodArg>,
    /// Sample what each CPU does, so many times a second [without a number: 999]; the same as --set profile=HZ
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "999",
          value_parser = between::<u32>(1, 10_000))]
    pub(crate) profile: Option<u32>,
    /// Resume the last unfinished campaign of this plan between these machines, or the one with this identifier
    ///
    /// `linerate records campaigns` lists identifiers; the beginning of one is enough where no other begins so.
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    pub(crate) resume: Option<Option<String>>,
    /// Ignore LINERATE_TARGET and the other variables, and every linerate.toml
    #[arg(long)]
    pub(crate) no_defaults: bool,
    /// Do nothing unless the plan file's text has this digest, as whoever checked it found it
    #[arg(long, value_name = "HEX", hide = true)]
    pub(crate) plan_sha256: Option<String>,
    /// Measure nothing: show every trial in its order, which will be skipped and why, and the time it will all take
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also a line a second while a stream runs, as iperf has them: time, direction, Mbit/s of payload
    ///
    /// By the receiver's count; where the target is another tool's server, also by the sender's. What was lost or
    /// retransmitted the ends tell at a trial's end: `linerate records show` has it by time slices.
    #[arg(long)]
    pub(crate) live: bool,
    /// Write a report of the campaign into this file at the end: .html, .md or .txt (`linerate report` makes others)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = report_file, conflicts_with = "dry_run")]
    pub(crate) report: Option<ReportFile>,
    /// Write what happens into this file while it happens, as JSON Lines, for a program that watches; `-` is standard output,
    /// which then has nothing else (docs/events.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "dry_run")]
    pub(crate) events: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cases: CasesArgs,
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub(crate) leased: super::LeasedArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Whose clients; several at once
    #[arg(value_parser = tool(), required = true)]
    pub(crate) tool: Vec<Tool>,
    /// Listen at this address only; by default on every address of this machine
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<IpAddr>,
    /// Serve only clients at this address or prefix, as 10.0.0.5 or 10.0.0.0/24; may be given several times [default: anybody]
    #[arg(long, value_name = "FROM")]
    pub(crate) allow: Vec<Prefix>,
    /// Listen on this port, where one tool is served; by default each tool's own
    #[arg(long, value_name = "PORT", value_parser = between::<u16>(0, u16::MAX))]
    pub(crate) port: Option<u16>,
    /// End after one test
    #[arg(long)]
    pub(crate) one_off: bool,
    /// Tests at the same time
    #[arg(long, value_name = "N", default_value = "16", value_parser = one_or_more)]
    pub(crate) max_tests: usize,
    /// The most that a test may ask for, all its streams together: 100M, 1G
    #[arg(long, value_name = "RATE", value_parser = bits_per_second)]
    pub(crate) max_rate: Option<u64>,
    /// Tests that become records; those that come after them are served without one
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_records: u64,
    /// The longest that a test may ask for
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "1h")]
    pub(crate) max_time: Duration,
    /// Also send datagrams to iperf2 clients (-u with -R, -d, -r, --full-duplex), at this rate at most: 10M, 1G
    ///
    /// iperf2 has nothing by which a client would prove its address before datagrams are sent to it. With this, one forged
    /// datagram has this machine send to any neighbour in whose name it comes: at this rate, for 60 s, to one at a time, in a
    /// subnet of its own, until an ICMP message refuses. Without it such clients are refused.
    #[arg(long, value_name = "RATE", value_parser = bits_per_second)]
    pub(crate) allow_unproven_udp: Option<u64>,
    /// Serve only iperf3 clients of these users: a file of lines 'user,hash', as iperf3 has it (docs/peers.md)
    #[arg(long, value_name = "FILE", requires = "rsa_private_key")]
    pub(crate) authorized_users: Option<PathBuf>,
    /// The private key that their passwords are decrypted with, a PEM file without a passphrase
    #[arg(long, value_name = "FILE", requires = "authorized_users")]
    pub(crate) rsa_private_key: Option<PathBuf>,
    /// Print records as JSON Lines, and nothing else: one object a line (docs/record-format.md)
    #[arg(long)]
    pub(crate) json: bool,
}

fn order() -> impl TypedValueParser<Value = RoundOrder> {
    PossibleValuesParser::new(RoundOrder::ALL.map(RoundOrder::name))
        .try_map(|name| RoundOrder::parse(&name).ok_or("no such order"))
}

/// The tools whose clients can be served, each with a line of help.
fn tool() -> impl TypedValueParser<Value = Tool> {
    let values = Tool::ALL.iter().map(|row| PossibleValue::new(row.name).help(row.clients));
    PossibleValuesParser::new(values).try_map(|name| Tool::parse(&name).ok_or("no such tool"))
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum CpuMethodArg {
    /// By the kernel's accounting, /proc/stat
    Stat,
    /// By what spinning threads of the lowest priority lose to others; for kernels that account interrupts by ticks
    Soak,
}

/// The short help's word about `--set`.
pub(super) const SET_HINT: &str = "`linerate run --help` lists the options that --set takes.";

/// What a search looks like.
pub(super) const SEARCH_HELP: &str = "\
Examples:
  linerate search --target root@board --set direction=tx,rx
  linerate search --target root@board --goal rfc2544 --set message_size=18,1472
  linerate search --target netns:b --host netns:a --max-rate 1G \\
      --goal 'loss=0.1 %,trial=5s'";

/// What a check looks like.
pub(super) const CHECK_HELP: &str = "\
Examples:
  linerate check --target root@board
  linerate check --target root@board --target-address 10.0.0.2 --json";

/// What serving looks like.
pub(super) const SERVE_HELP: &str = "\
Examples:
  linerate serve iperf3                      then, on the board: iperf3 -c HOST
  linerate serve iperf3 netperf nuttcp --allow 10.0.0.0/24
  linerate serve iperf3 --port 5999 --one-off --json";

/// What a person needs to know to write `--set`.
pub(super) fn set_help() -> String {
    let mut text = "Options that --set takes (docs/plans.md says more):\n".to_owned();
    for option in linerate_trial::options::OPTIONS {
        text += &described(option.name, 18, &format!("{}: {}", option.in_short(), option.allowed()));
    }
    text += &described(linerate_trial::options::REPEAT, 18, "How often to measure each configuration: 1 to 100000");
    text += "\nSettings of a machine are options too, as target.NAME, host.NAME, middle.NAME: target.mtu=1500,9000, host.gro=off. \
             docs/settings.md lists them. They are put back when the trials are done, however they end.\n";
    text + "\nExamples:\n  \
            linerate run tcp --target root@board\n  \
            linerate run udp-sweep --target root@board --set rate=50M..500M:50M \\\n      \
                --set duration=5s\n  \
            linerate run tcp-stream --target netns:b --host netns:a \\\n      \
                --set direction=tx,rx --json"
}

/// A rate in bits per second.
fn bits_per_second(text: &str) -> Result<u64, String> {
    match text.parse::<OfferedLoad>() {
        Ok(OfferedLoad::BitsPerSecond(bits)) => Ok(bits),
        _ => Err(format!("'{text}' is not a rate in bits per second; write 100M or 1G")),
    }
}
