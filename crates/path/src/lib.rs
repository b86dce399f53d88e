//! The path of a packet: its stages, what drivers' counters mean there, and the loss budget.
//! Knows no operating system, and of a trial what was asked of it only.
#![forbid(unsafe_code)]

pub mod budget;
pub mod drivers;
pub mod drop_reason;
pub mod merged_drops;
pub mod stage;
