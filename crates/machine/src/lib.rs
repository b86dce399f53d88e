//! A machine as it is described: its environment, settings, registers and profiles, and the words that people use for them.
//! Knows no operating system and no trial.
#![forbid(unsafe_code)]

pub mod change;
pub mod channel;
pub mod cpu;
#[cfg(any(test, feature = "docs-tests"))]
pub mod docs_tests;
pub mod end;
pub mod environment;
pub mod mac;
pub mod map;
pub mod pattern;
pub mod prefix;
pub mod printable;
pub mod probe;
pub mod profile;
pub mod registers;
pub mod screen;
pub mod setting;
pub mod sync;
pub mod text;
pub mod thread;
pub mod units;
pub mod word;
