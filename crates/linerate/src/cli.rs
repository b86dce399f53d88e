//! The command line: every command and option is declared here, and help, completions and man pages follow.
//! Knows what may be asked, not how it is done.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use linerate_control::Endpoint;
use linerate_trial::flow::End;
use linerate_trial::units::OfferedLoad;

use crate::plan::RoundOrder;

/// Measure how well an Ethernet port works, and see where its packets go.
#[derive(Parser, Debug)]
#[command(name = "linerate", version, max_term_width = 100, propagate_version = false)]
#[command(after_help = "Start with `linerate demo`: it needs no hardware and no root.\n\nExit status: 0 done, 1 a \
                        judgement failed (an expectation of run, a gate of compare), 2 the command could not do its work.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Try it without hardware: two machines out of network namespaces, and a modest board's link between them
    Demo(DemoArgs),
    /// Measure: carry a plan out between two machines
    #[command(after_help = SET_HINT, after_long_help = set_help())]
    Run(Box<RunArgs>),
    /// Let other tools' clients measure against this machine; each test of theirs becomes a record
    Serve(ServeArgs),
    /// List the built-in plans, or show one
    Plans {
        /// The built-in plan, or the plan file, to show; without one, list them
        plan: Option<String>,
    },
    /// Look at one machine, and change its settings
    Target(TargetArgs),
    /// List, show and export what was measured
    Records(RecordsArgs),
    /// Where did the packets go, and what limits it? What a record shows, and what to try
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// Is the difference real? Hold two campaigns, or two levels of a factor, against each other
    #[command(after_help = SELECT_HELP, after_long_help = compare_help())]
    Compare(CompareArgs),
    /// A metric over the campaigns in the store, and where it changed
    #[command(after_help = SELECT_HELP, after_long_help = history_help())]
    History(HistoryArgs),
    /// What do a packet and a byte cost the CPUs? A fit over a campaign of several sizes
    #[command(after_help = COST_HELP)]
    Cost(CostArgs),
    /// Emulated boards with real Ethernet drivers: list, start, look into, end
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
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Keep the records in this store; without it they end with the demo
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A built-in plan (see `linerate plans`), or a plan file like ./mine.toml
    pub(crate) plan: String,
    /// The machine under test: local, netns:NAME, [ssh:][user@]host[:port], tcp:host:port, exec:COMMAND, or board:NAME
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) target: Endpoint,
    /// The machine at the other end of the cable; by default this one, or where a board's cable ends
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint, default_value = "local")]
    pub(crate) host: Endpoint,
    /// Where the target is another tool's server: read its machine's counters over ssh, with a shell and cat only
    ///
    /// For iperf3:host and the like, when no agent may be copied there: [ssh:][user@]host[:port]. One ssh connection;
    /// the counters are read before and after each trial, and the loss budget is made with them (docs/peers.md).
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) counters: Option<Endpoint>,
    /// Where the target is an iperf3 server that wants to know who asks: the user; the password stands in the environment
    /// variable IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "rsa_public_key")]
    pub(crate) username: Option<String>,
    /// The public key of that server, a PEM file
    #[arg(long, value_name = "FILE", requires = "username")]
    pub(crate) rsa_public_key: Option<PathBuf>,
    /// Set an option of the trials: one value, a list (1M,2M) or a range (50M..1G:50M); may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub(crate) set: Vec<(String, String)>,
    /// How often to measure each configuration; by default as the plan says
    #[arg(long, value_name = "N")]
    pub(crate) repeat: Option<u32>,
    /// Repeat each configuration until the 95 % interval of its median lies within this, like 1%
    ///
    /// The median is that of the throughput, or of the transactions per second. The plan's repeats, or those of
    /// --repeat, are the least. Looking after each repeat is reckoned with (docs/method.md).
    #[arg(long, value_name = "PERCENT")]
    pub(crate) precision: Option<String>,
    /// With --precision, the most repeats [default: 30]
    #[arg(long, value_name = "N", requires = "precision")]
    pub(crate) max_repeats: Option<u32>,
    /// The order of the trials in each round; by default random where there are repeats
    #[arg(long, value_enum, value_name = "ORDER")]
    pub(crate) order: Option<RoundOrder>,
    /// The order that this seed gives: a dry run prints its seed, and records have theirs (trial.order_seed)
    #[arg(long, value_name = "N", conflicts_with = "order")]
    pub(crate) seed: Option<u32>,
    /// Measure everything twice in each round, as two sides that must be alike: compare doubts what they contradict
    #[arg(long)]
    pub(crate) null: bool,
    /// What must be, like "throughput > 900M" or "loss < 0.1% with rate=300M"; status 1 if it is not. May be repeated
    #[arg(long, value_name = "EXPECTATION")]
    pub(crate) expect: Vec<String>,
    /// How CPU use is measured; the same as --set cpu_method=METHOD
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(crate) cpu_method: Option<CpuMethodArg>,
    /// Sample what each CPU does, so many times a second [without a number: 999]; the same as --set profile=HZ
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "999",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) profile: Option<u32>,
    /// Carry on the last unfinished campaign of this plan between these machines
    #[arg(long)]
    pub(crate) resume: bool,
    /// Measure nothing: show every trial in its order, which will be skipped and why, and the time it will all take
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,
    /// The target's address that test traffic uses; found by itself where both ends share a subnet or SSH is the way
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target_address: Option<IpAddr>,
    /// The host's address that test traffic uses
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host_address: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Show no progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Whose clients; several at once
    #[arg(value_enum, required = true)]
    pub(crate) tool: Vec<Tool>,
    /// Listen at this address only
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<IpAddr>,
    /// Listen on this port, where one tool is served; by default each tool's own
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// End after one test
    #[arg(long)]
    pub(crate) one_off: bool,
    /// Tests at the same time
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) max_tests: usize,
    /// The most that a test may ask for, all its streams together: 100M, 1G
    #[arg(long, value_name = "RATE", value_parser = bits_per_second)]
    pub(crate) max_rate: Option<u64>,
    /// The longest that a test may ask for
    #[arg(long, value_name = "TIME", value_parser = linerate_trial::units::parse_duration, default_value = "1h")]
    pub(crate) max_time: Duration,
    /// Serve only iperf3 clients of these users: a file of lines 'user,hash', as iperf3 has it (docs/peers.md)
    #[arg(long, value_name = "FILE", requires = "rsa_private_key")]
    pub(crate) authorized_users: Option<PathBuf>,
    /// The private key that their passwords are decrypted with, a PEM file without a passphrase
    #[arg(long, value_name = "FILE", requires = "authorized_users")]
    pub(crate) rsa_private_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print records as JSON Lines, and nothing else: one object a line (docs/record-format.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A tool whose clients can be served.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    /// iperf3, of any version from 3.0 on
    Iperf3,
    /// iperf2, of any version from 2.0.5 on
    Iperf2,
    /// netperf, of any version from 2.5 on
    Netperf,
    /// nuttcp, of any version from 3.3.2 on
    Nuttcp,
    /// ttcp as it sends: 'ttcp -t' of any kind
    Ttcp,
}

/// How agents are reached.
#[derive(Args, Debug)]
pub(crate) struct ReachArgs {
    /// The key shared with a tcp: agent: a file of 64 hexadecimal digits, made by `linerate-agent --new-psk`
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// The agent's program on a machine that is reached over ssh; by default linerate-agent, carried there if need be
    #[arg(long, value_name = "PATH")]
    pub(crate) remote_agent: Option<String>,
    /// Where the agents are that are carried to machines without one [default: beside this program, and
    /// linerate/agents in the XDG data folder]
    #[arg(long, value_name = "FOLDER", conflicts_with = "remote_agent")]
    pub(crate) agents: Option<PathBuf>,
    /// Leave an agent that was carried to a machine there, and say where; without this it is removed
    #[arg(long, conflicts_with = "remote_agent")]
    pub(crate) keep_agent: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// Where records are kept [default: linerate/records.sqlite in the XDG data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
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
        self.json || self.csv || self.markdown
    }
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum CpuMethodArg {
    /// By the kernel's accounting, /proc/stat
    Stat,
    /// By what spinning threads of the lowest priority lose to others; for kernels that account interrupts by ticks
    Soak,
}

#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// The machine: local, netns:NAME, [ssh:][user@]host[:port], tcp:host:port, exec:COMMAND, or board:NAME
    #[arg(value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) endpoint: Endpoint,
    #[command(subcommand)]
    pub(crate) look: Look,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Look {
    /// What the machine is: kernel, processors, interface, settings
    Info(LookArgs),
    /// Its counters since it started, by the stages of a packet's path
    Counters(LookArgs),
    /// Its counters as they move, until Ctrl-C
    Watch {
        /// Time between two looks
        #[arg(long, value_name = "TIME", default_value = "1s")]
        interval: String,
        /// End after so many looks
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Registers of its MAC and PHY by their vendors' names, with their bit fields (docs/registers.md)
    ///
    /// They come from the driver's register dump (ethtool -d), the PHY's management bus and, where asked for, physical
    /// memory. Reading needs root there. A register that reading clears is read only if it is named.
    #[command(after_help = REGISTERS_HELP)]
    Registers(RegistersArgs),
    /// Its settings as they are
    Get {
        /// Settings like mtu, gro or coalesce.rx_usecs; all that it has, when none is named (docs/settings.md)
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Change its settings; they stay until restore puts them back, or the machine restarts
    ///
    /// What a setting was is written down on the machine before it is changed. A change that cuts the way to the
    /// machine is taken back by the machine itself after five seconds. `linerate run` changes settings for its trials
    /// only (`--set target.mtu=9000`), and needs neither this nor restore.
    Set {
        /// Settings and their values, like mtu=9000 gro=off; all are changed, or none
        #[arg(value_name = "NAME=VALUE", required = true, value_parser = name_and_value)]
        settings: Vec<(String, String)>,
        #[command(flatten)]
        look: LookArgs,
    },
    /// What its CPUs do: by kind of work, by function, and as a picture
    ///
    /// Samples every CPU for so long, in the kernel and in programs, and says what the time went into. `linerate run
    /// --profile` does the same in the measured part of each trial.
    Profile(TargetProfileArgs),
    /// Put back what set has changed
    Restore {
        #[command(flatten)]
        look: LookArgs,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TargetProfileArgs {
    /// For so many seconds, or a time like 500ms
    #[arg(value_name = "SECONDS", default_value = "5")]
    pub(crate) seconds: String,
    /// Samples a second of each CPU
    #[arg(long, value_name = "N", default_value_t = 999, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hz: u32,
    /// Draw a flame graph into this file: wide is much time, above is who was called
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print the profile as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RegistersArgs {
    /// Registers like ENET_RCR, fields like ENET_RCR.FCE, patterns like 'ENET_IEEE_*', addresses that a definition
    /// names; all that reading does not clear, when none is named
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Show what changes, until Ctrl-C; looks every second, or every so many
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    pub(crate) watch: Option<String>,
    /// With --watch: end after so many looks
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) count: Option<u64>,
    /// Read registers that reading clears, too
    #[arg(long)]
    pub(crate) clearing: bool,
    /// Read from /dev/mem what the register dump lacks: only at addresses of definitions
    #[arg(long)]
    pub(crate) allow_dev_mem: bool,
    /// Definitions of your own: a file, or a folder of *.regs; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) definitions: Vec<PathBuf>,
    /// The PHY's address on the management bus; by default the one that the interface uses
    #[arg(long, value_name = "ADDRESS", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub(crate) phy: Option<u8>,
    #[command(flatten)]
    pub(crate) look: LookArgs,
}

#[derive(Args, Debug)]
pub(crate) struct LookArgs {
    /// The interface; by default the first that is up and not the loopback
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabArgs {
    /// The boards there are, which run, and what the others lack
    List,
    /// Start a board and stay with it; Ctrl-C or `linerate lab down` ends it
    ///
    /// Kernel and BusyBox come from Debian's packages, by this machine's own package sources: they are downloaded
    /// once, kept in the XDG cache folder, and never installed. Needs QEMU. As board:NAME the board can be measured
    /// while it runs; `linerate run --target board:NAME` also starts one for itself, if it does not.
    Up {
        /// The board, like sabrelite
        name: String,
        /// Ask for newer packages, instead of using what is in the cache
        #[arg(long)]
        update: bool,
        /// The agent's program for the board's processor; by default the one built by `cargo xtask agents`
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
    /// The board's console, with a shell on it; Ctrl-] leaves it
    Shell {
        /// The board
        name: String,
    },
    /// What the board's console has said so far
    Log {
        /// The board
        name: String,
    },
    /// Pull the board's network cable, or put it back
    Cable {
        /// The board
        name: String,
        /// What becomes of the cable
        #[arg(value_enum)]
        state: Cable,
    },
    /// End a board, or all that run
    Down {
        /// The board; without one, all
        name: Option<String>,
    },
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Cable {
    /// The board's port has no link
    Pulled,
    /// The link is back
    Plugged,
}

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
    /// What to compare with: CAMPAIGN, CAMPAIGN:NAME=VALUE, or :NAME=VALUE of all campaigns
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
    /// Of which records: CAMPAIGN, CAMPAIGN:NAME=VALUE, or :NAME=VALUE of all campaigns; by default all there are
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

const COST_HELP: &str = "Measure with `linerate run packet-cost`, with --profile for what copies cost. docs/method.md says what is \
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

const REGISTERS_HELP: &str = "Examples:\n  \
                              linerate target root@board registers ENET_RCR\n  \
                              linerate target root@board registers 'ENET_IEEE_*' --watch\n  \
                              linerate target root@board registers BMSR STAT1000.IDLE_ERRORS";

/// The short help's word about `--set`.
const SET_HINT: &str = "`linerate run --help` lists the options that --set takes.";

/// What a person needs to know to write `--set`.
fn set_help() -> String {
    let mut text = "Options that --set takes (docs/plans.md says more):\n".to_owned();
    for option in &linerate_trial::options::OPTIONS {
        text += &format!("  {:<18}  {}: {}\n", option.name, option.about, option.allowed);
    }
    text += "\nSettings of a machine are options too, as target.NAME and host.NAME: target.mtu=1500,9000, host.gro=off.\n\
             docs/settings.md lists them. They are put back when the trials are done, however they end.\n";
    text + "\nExamples:\n  \
            linerate run tcp --target root@board\n  \
            linerate run udp-sweep --target root@board --set rate=50M..500M:50M --set duration=5s\n  \
            linerate run tcp-stream --target netns:b --host netns:a --set direction=tx,rx --json"
}

const EXPLAIN_HELP: &str = "\
Examples:
  linerate explain
  linerate explain 01M7Y0 --markdown
  linerate explain last --try                             does what it suggests help?
  linerate explain last --try --finding receive-ring --keep

docs/findings.md says what each finding rests on.";

/// How records are picked.
const SELECT_HELP: &str = "CAMPAIGN is an identifier or its beginning, `last`, `last~1` (the one before), or a plan's \
                           name (its last campaign). NAME is a factor, an option, plan, since, until, or what a \
                           record knows of a machine, such as target.kernel; several are joined by commas.";

fn metrics_help() -> String {
    let mut text = "Metrics (* judged by default where both sides have them):\n".to_owned();
    for metric in &linerate_results::metric::METRICS {
        let star = if metric.usual { '*' } else { ' ' };
        text += &format!("  {star} {:<22} {}, {}\n", metric.short(), metric.title, metric.unit);
    }
    text
}

fn compare_help() -> String {
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

fn history_help() -> String {
    format!(
        "{SELECT_HELP}\n\n{}\nExamples:\n  \
         linerate history throughput\n  \
         linerate history latency_p99 :plan=rr,since=30d --markdown",
        metrics_help()
    )
}

/// A rate in bits per second.
fn bits_per_second(text: &str) -> Result<u64, String> {
    match text.parse::<OfferedLoad>() {
        Ok(OfferedLoad::BitsPerSecond(bits)) => Ok(bits),
        _ => Err(format!("'{text}' is no rate in bits per second; write 100M or 1G")),
    }
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    text.parse().map_err(|error: linerate_control::EndpointError| error.to_string())
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("'{text}' sets nothing; write NAME=VALUE, like duration=5s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declarations_are_sound() {
        Cli::command().debug_assert();
    }
}
