//! Other tools whose servers can be one end of a trial: their names.
//! Knows none of their protocols.

use serde::{Deserialize, Serialize};

/// Another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// iperf3 (esnet/iperf).
    Iperf3,
    /// iperf2 (sourceforge.net/projects/iperf2).
    Iperf2,
    /// netperf (HewlettPackard/netperf).
    Netperf,
    /// nuttcp (nuttcp.net).
    Nuttcp,
    /// Classic ttcp.
    Ttcp,
}

impl Tool {
    /// Every one.
    pub const ALL: [Tool; 5] = [Tool::Iperf3, Tool::Iperf2, Tool::Netperf, Tool::Nuttcp, Tool::Ttcp];

    /// The name, as endpoints and records write it.
    pub const fn name(self) -> &'static str {
        match self {
            Tool::Iperf3 => "iperf3",
            Tool::Iperf2 => "iperf2",
            Tool::Netperf => "netperf",
            Tool::Nuttcp => "nuttcp",
            Tool::Ttcp => "ttcp",
        }
    }

    /// The port that its server listens on, unless told otherwise.
    pub const fn port(self) -> u16 {
        match self {
            Tool::Iperf3 => 5201,
            Tool::Iperf2 | Tool::Ttcp => 5001,
            Tool::Netperf => 12865,
            Tool::Nuttcp => 5000,
        }
    }

    /// The tool of this name.
    pub fn parse(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
