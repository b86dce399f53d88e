//! Other tools' protocols, both roles: what they say, and how a test of theirs goes.
//! Knows no plans, no records and no terminal.

pub mod iperf3;
