//! The commands of `cargo xtask`, one module each.
//! A library, so that [`tidy`] runs as a test too.
#![forbid(unsafe_code)]

pub mod agent_size;
pub mod agents;
mod at_once;
pub mod bench;
pub mod ci;
pub mod deny;
mod elf;
pub mod examples;
pub mod faults;
pub mod firmware;
pub mod fresh;
pub mod fuzz;
pub mod licences;
mod markdown;
mod measured;
pub mod packages;
pub mod picture;
mod program;
mod scratch;
pub mod setup;
pub mod test;
pub mod tidy;
