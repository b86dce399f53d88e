//! A MAC driver's half of the descriptor ring: formats, rings, and the registers that start and stop them.
//! Knows no memory, no machine and no protocol: the first two are behind the seams of [`bus`], the last is the caller's.
//!
//! A controller is a row of constants ([`controller`]), not a trait: a new one is a row.
#![no_std]
#![forbid(unsafe_code)]

pub mod bus;
pub mod controller;
mod descriptor;
pub mod driver;
pub mod format;
pub mod options;
pub mod place;
pub mod rx_ring;
pub mod tx_ring;
