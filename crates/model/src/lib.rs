//! What is on the other side of a MAC driver: memory as devices see it, the MACs' DMA engines, every order in which they and
//! the driver can meet; and what all of it takes, in virtual time.
//! Knows `nic` by its seams only: the device's half is written from the manuals, never from `nic`'s tables, so that a wrong
//! bit in one of them shows.
#![forbid(unsafe_code)]

pub mod cost;
pub mod device;
pub mod explore;
pub mod fit;
pub mod flow;
pub mod machine;
pub mod memory;
pub mod parameter;
pub mod predict;
mod random;
pub mod setting;
pub mod table;
mod text;
pub mod world;
