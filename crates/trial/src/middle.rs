//! What the machine in the middle saw of a trial that went through it: the material of its part of the record.
//! Knows no flow; it forwards packets, and is told of none of them.

use linerate_machine::cpu::CpuUse;
use linerate_machine::end::PerEnd;
use linerate_machine::profile::Profile;
use linerate_machine::registers::AroundTrial;
use linerate_path::drop_reason::DropReason;
use linerate_path::stage::Counters;
use serde::{Deserialize, Serialize};

use crate::doubt::Doubt;
use crate::outcome::CpuSlice;

/// What the middle saw of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MiddleOutcome {
    /// CPU use over the measured part; `None` where /proc/stat cannot be read.
    pub cpu: Option<CpuUse>,
    /// The same, slice by slice, from the start of the measured part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_slices: Vec<CpuSlice>,
    /// What the machine's counters, of no interface, grew by over the whole trial, warm-up included.
    pub counters: Counters,
    /// Its interfaces towards the target and towards the host.
    pub ports: PerEnd<PortOutcome>,
    /// What the kernel dropped over the whole trial and why, where that was asked for and could be traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_reasons: Option<Vec<DropReason>>,
    /// What the CPUs did in the measured part, where that was asked for and could be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Box<Profile>>,
    /// Reasons not to trust a figure, as far as this machine can tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

/// What one of its interfaces counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortOutcome {
    /// What the interface's counters grew by over the whole trial.
    pub counters: Counters,
    /// Registers before and after, where they were wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<AroundTrial>,
}
