//! Records and the store they live in.
//! Never measures, and reads no clock: times and names are arguments.
#![forbid(unsafe_code)]

pub mod compare;
pub mod cost;
#[cfg(any(test, feature = "sample"))]
pub mod effort;
mod error;
mod events;
pub mod examination;
pub mod expect;
#[cfg(test)]
mod faults;
pub mod figure;
mod figures;
pub mod findings;
pub mod history;
pub mod id;
pub mod join;
pub mod middle;
pub mod observation;
pub mod outage;
#[cfg(test)]
mod page;
pub mod profile;
pub mod record;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod search;
pub mod select;
pub mod store;
pub mod tally;
pub mod time_budget;
pub mod total;
