//! One measurement as pure logic: what to send when, what arrived, histograms, intervals and the loss budget.
//! Knows no operating system and no text format; time and chance are arguments.
#![forbid(unsafe_code)]

pub mod admission;
pub mod api;
pub mod arrivals;
pub mod budget;
pub mod change;
pub mod cpu;
pub mod departures;
#[cfg(test)]
mod docs_tests;
pub mod doubt;
pub mod drivers;
pub mod drop_reason;
pub mod environment;
pub mod flow;
pub mod histogram;
pub mod merged_drops;
pub mod options;
pub mod outcome;
pub mod pace;
pub mod pattern;
pub mod prefix;
pub mod printable;
pub mod profile;
pub mod registers;
pub mod setting;
pub mod spec;
pub mod stage;
pub mod tool;
pub mod units;
pub mod word;

pub use linerate_wire as wire;
