//! Other tools' protocols, both roles: what they say, and how a test of theirs goes.
//! Knows no plans, no records and no terminal.

pub mod deadline;
pub mod door;
pub mod iperf2;
pub mod iperf3;
pub mod options;
pub mod served;
pub mod test;
