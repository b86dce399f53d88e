//! What `target` and `lab` are asked: to look at machines, and to make some.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use linerate_control::Endpoint;
use linerate_machine::units::OfferedLoad;

use super::{between, one_or_more, setting_and_value};
use crate::complete;

#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// The machine: local, netns:NAME, [ssh:][user@]host[:port], tcp:host:port, exec:COMMAND, board:NAME, or labgrid:PLACE
    #[arg(value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    pub(crate) endpoint: Endpoint,
    #[command(subcommand)]
    pub(crate) look: TargetCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TargetCommand {
    /// Show what the machine is: kernel, processors, interface, settings
    Info(InspectArgs),
    /// Show its counters since it started, by the stages of a packet's path
    Counters(InspectArgs),
    /// Show its counters as they change, until Ctrl-C
    Watch {
        /// Time between two looks
        #[arg(long, value_name = "TIME", default_value = "1s")]
        interval: String,
        /// End after so many looks
        #[arg(long, value_name = "N", value_parser = one_or_more)]
        count: Option<usize>,
        #[command(flatten)]
        look: InspectArgs,
    },
    /// Show registers of its MAC and PHY by their vendors' names, with their bit fields (docs/registers.md)
    ///
    /// They come from the driver's register dump (ethtool -d), the PHY's management bus and, where asked for, physical
    /// memory. Reading needs root there. A register that reading clears is read only if it is named.
    #[command(after_help = REGISTERS_HELP)]
    Registers(RegistersArgs),
    /// Show its settings
    Get {
        /// Settings like mtu, gro or coalesce.rx_usecs; all that it has, when none is named (docs/settings.md)
        #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::settings))]
        names: Vec<String>,
        #[command(flatten)]
        look: InspectArgs,
    },
    /// Change its settings; they stay until restore puts them back, or the machine restarts
    ///
    /// What a setting was is written down on the machine before it is changed. A change that cuts the way to the
    /// machine is taken back by the machine itself after five seconds. `linerate run` changes settings for its trials
    /// only (`--set target.mtu=9000`), and needs neither this nor restore.
    Set {
        /// Settings and their values, like mtu=9000 gro=off; all are changed, or none
        #[arg(value_name = "NAME=VALUE", required = true, value_parser = setting_and_value, add = ArgValueCompleter::new(complete::changes))]
        settings: Vec<(String, String)>,
        #[command(flatten)]
        look: InspectArgs,
    },
    /// Show what its CPUs do: by kind of work, by function, and as a picture
    ///
    /// Samples every CPU for so long, in the kernel and in programs, and says what the time went into. `linerate run
    /// --profile` does the same in the measured part of each trial.
    Profile(TargetProfileArgs),
    /// Put back what set has changed, of all interfaces
    Restore {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TargetProfileArgs {
    /// For so many seconds, or a time like 500ms
    #[arg(value_name = "SECONDS", default_value = "5")]
    pub(crate) seconds: String,
    /// Samples a second of each CPU
    #[arg(long, value_name = "N", default_value_t = 999, value_parser = between::<u32>(1, 10_000))]
    pub(crate) hz: u32,
    /// Draw a flame graph into this file: wide is much time, above is who was called
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print the profile as JSON
    #[arg(long)]
    pub(crate) json: bool,
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
    #[arg(long, value_name = "N", requires = "watch", value_parser = one_or_more)]
    pub(crate) count: Option<usize>,
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
    #[arg(long, value_name = "ADDRESS", value_parser = between::<u8>(0, 31))]
    pub(crate) phy: Option<u8>,
    #[command(flatten)]
    pub(crate) look: InspectArgs,
}

#[derive(Args, Debug, Default)]
pub(crate) struct InspectArgs {
    /// The interface; by default the first that is up and not the loopback
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a double has that is not asked for: frames a second, and frames saved up.
const CAPACITY: OfferedLoad = OfferedLoad::PacketsPerSecond(100_000);
const DEPTH: u32 = 64;

/// What a double is made by.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct DoubleArgs {
    #[arg(long, value_name = "RATE", value_parser = super::measuring::load)]
    #[arg(help = format!("Of a double: frames a second, each way [default: {CAPACITY}]"))]
    pub(crate) capacity: Option<OfferedLoad>,
    #[arg(long, value_name = "FRAMES", value_parser = between::<u32>(1, 1_000_000))]
    #[arg(help = format!("Of a double: frames that it may save up, and pass at once [default: {DEPTH}]"))]
    pub(crate) depth: Option<u32>,
    /// Of a double: how long it holds each frame, up to 50us [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = linerate_machine::units::parse_duration)]
    pub(crate) delay: Option<Duration>,
}

impl DoubleArgs {
    /// Whether nothing of a double was asked for.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, DoubleArgs { capacity: None, depth: None, delay: None })
    }

    /// Frames a second, frames saved up, and how long each is held.
    pub(crate) fn parts(self) -> (OfferedLoad, u32, Duration) {
        (self.capacity.unwrap_or(CAPACITY), self.depth.unwrap_or(DEPTH), self.delay.unwrap_or_default())
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabArgs {
    /// The boards there are, which run, and what the others lack
    List,
    /// Start a board and stay with it; Ctrl-C ends it, and of a board `linerate lab down`, too
    ///
    /// Kernel and BusyBox come from Debian's packages, by this machine's own package sources: they are downloaded
    /// once, kept in the XDG cache folder, and never installed. Needs QEMU. As board:NAME the board can be measured
    /// while it runs; `linerate run --target board:NAME` also starts one for itself, if it does not.
    Up {
        /// The board, like sabrelite; or bridge, router or nat: three network namespaces, of which the one between the others
        /// forwards, as --middle; or double, which forwards so many frames a second and no more
        #[arg(add = ArgValueCompleter::new(complete::labs))]
        name: String,
        #[command(flatten)]
        double: DoubleArgs,
        /// Ask for newer packages, instead of using what is in the cache
        #[arg(long)]
        update: bool,
        /// The agent's program for the board's processor, or its firmware; by default the one built by `cargo xtask agents`
        /// or `cargo xtask firmware`
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
    /// A team's servers for a try: PostgreSQL for records and NATS for jobs, in a folder that goes away again
    #[cfg(any(feature = "nats", feature = "postgres"))]
    #[command(subcommand)]
    Services(ServicesCommand),
    /// The board's console, with a shell on it; Ctrl-] leaves it
    Shell {
        /// The board
        #[arg(add = ArgValueCompleter::new(complete::boards))]
        name: String,
    },
    /// What the board's console has said so far
    Log {
        /// The board
        #[arg(add = ArgValueCompleter::new(complete::boards))]
        name: String,
    },
    /// Pull the board's network cable, or put it back
    Cable {
        /// The board
        #[arg(add = ArgValueCompleter::new(complete::boards))]
        name: String,
        /// What becomes of the cable
        #[arg(value_enum)]
        state: Cable,
    },
    /// End a board, or all that run
    Down {
        /// The board; without one, all
        #[arg(add = ArgValueCompleter::new(complete::boards))]
        name: Option<String>,
    },
}

#[cfg(any(feature = "nats", feature = "postgres"))]
#[derive(Subcommand, Debug)]
pub(crate) enum ServicesCommand {
    /// Start them for this machine alone, and stay with them; Ctrl-C ends them, and what they kept is gone
    ///
    /// They come from Debian (apt-get install postgresql nats-server), run as another user where you are root, and are reached
    /// from this machine only.
    Up,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Cable {
    /// The board's port has no link
    Pulled,
    /// The link is back
    Plugged,
}

/// What a look looks like.
pub(super) const TARGET_HELP: &str = "\
Examples:
  linerate target root@board info
  linerate target root@board get mtu gro ring.rx
  linerate target root@board set gro=off
  linerate target root@board restore";

const REGISTERS_HELP: &str = "Examples:\n  \
                              linerate target root@board registers ENET_RCR\n  \
                              linerate target root@board registers 'ENET_IEEE_*' --watch\n  \
                              linerate target root@board registers BMSR STAT1000.IDLE_ERRORS";
