//! Records and the store they live in.
//! Never measures, and reads no clock: times and names are arguments.
#![forbid(unsafe_code)]

pub mod record;
