//! Why and where a kernel dropped packets, as its tracepoint skb:kfree_skb tells.
//! Knows the reasons' names; who counts them is for the agent.
//!
//! Names by include/net/dropreason-core.h, since Linux 5.17; before that only the place in the code is told.

use serde::{Deserialize, Serialize};

/// Packets that a machine dropped for one reason at one place, whosever they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropReason {
    /// The kernel's name for it, such as `NETFILTER_DROP`; absent where the kernel gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The function that dropped them, or its address where symbols may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// How many.
    pub packets: u64,
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "drop reason {} {}", self.reason.as_deref().unwrap_or("not told"), self.packets)?;
        self.location.iter().try_for_each(|location| write!(f, " at {location}"))
    }
}
