//! A profile as a record has it: what was found, and how the machine's time divides into kinds of work.

pub mod account;
pub mod categories;
pub mod difference;
pub mod functions;

use linerate_machine::profile::Profile;
use linerate_machine::words;
use serde::{Deserialize, Serialize};

/// What a machine's CPUs did in the measured part of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineProfile {
    /// As the agent took it.
    #[serde(flatten)]
    pub taken: Profile,
    /// The machine's time by what it was for, each kind once.
    #[serde(default)]
    pub categories: Vec<CategoryTime>,
}

/// Time that went into one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoryTime {
    /// Which.
    pub category: Category,
    /// Samples found in it.
    pub samples: u64,
    /// Fraction of the time of all CPUs; of what was sampled, where that is the agent's own threads only. They add up to
    /// 1. Absent where nothing tells how long the CPUs were busy.
    pub share: Option<f64>,
    /// CPU time for each packet of the trial at this end, microseconds; idle time has none.
    pub us_per_packet: Option<f64>,
    /// CPU time for each KiB of payload that arrived, microseconds.
    pub us_per_kib: Option<f64>,
}

words! {
    /// Kinds of work, in the order in which they are shown.
    #[allow(missing_docs, reason = "each title says it")]
    Category {
        Copy = "copy",
        Checksum = "checksum",
        AllocateFree = "allocate-free",
        DriverInterrupt = "driver-interrupt",
        SoftirqNapi = "softirq-napi",
        Protocol = "protocol",
        SocketSyscall = "socket-syscall",
        Qdisc = "qdisc",
        Locking = "locking",
        Generator = "generator",
        Other = "other",
        Idle = "idle",
    }
}

impl Category {
    /// The words for people.
    pub const fn title(self) -> &'static str {
        match self {
            Category::Copy => "copy",
            Category::Checksum => "checksum",
            Category::AllocateFree => "allocate and free",
            Category::DriverInterrupt => "driver and interrupt",
            Category::SoftirqNapi => "softirq and NAPI",
            Category::Protocol => "protocol",
            Category::SocketSyscall => "socket and system call",
            Category::Qdisc => "qdisc",
            Category::Locking => "locking",
            Category::Generator => "linerate itself",
            Category::Other => "other",
            Category::Idle => "idle",
        }
    }
}

impl MachineProfile {
    /// The time of one kind.
    pub fn of(&self, category: Category) -> Option<&CategoryTime> {
        self.categories.iter().find(|one| one.category == category)
    }

    /// The profile without stacks and functions.
    pub fn in_brief(&self) -> MachineProfile {
        MachineProfile { taken: self.taken.without_stacks(), categories: self.categories.clone() }
    }
}
