//! The loss budget: every datagram of a trial at one stage of its path.
//! Knows no machine; the counters of both ends are arguments.

use serde::{Deserialize, Serialize};

use crate::stage::Stage;

/// Datagrams lost at one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossLine {
    /// Where.
    pub stage: Stage,
    /// How many.
    pub packets: u64,
    /// Which counter of which machine says so.
    pub evidence: String,
}
