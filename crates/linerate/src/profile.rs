//! What profiles mean: kinds of work and their cost, pictures, and how two profiles differ.
//! Knows no machine; the agent took the samples.

pub(crate) mod account;
pub(crate) mod categories;
pub(crate) mod difference;
pub(crate) mod flame;
pub(crate) mod functions;
