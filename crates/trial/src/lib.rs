//! One measurement as pure logic: what is asked, what to send when, what arrived, and what is doubted.
//! Knows no operating system and no text format; time and chance are arguments.
#![forbid(unsafe_code)]

pub mod admission;
pub mod api;
pub mod arrivals;
pub mod departures;
pub mod doubt;
pub mod early_stop;
pub mod event;
pub mod flow;
pub mod frames;
pub mod histogram;
pub mod impossible;
pub mod line;
pub mod middle;
pub mod options;
pub mod outcome;
pub mod pace;
pub mod search;
pub mod spec;
pub mod timeline;
pub mod tool;

pub use linerate_wire as wire;
