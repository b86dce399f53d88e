//! What is on the other side of a MAC driver: memory as devices see it, the MACs' DMA engines, and every order in which
//! they and the driver can meet.
//! Knows `nic` by its seams only: the device's half is written from the manuals, never from `nic`'s tables, so that a wrong
//! bit in one of them shows.
#![forbid(unsafe_code)]

pub mod device;
pub mod explore;
pub mod memory;
pub mod world;
