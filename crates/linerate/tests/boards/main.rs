//! Emulated boards: the real Ethernet drivers of Linux, and linerate's own firmware without any OS.
//! Knows no speeds: those of an emulated board mean nothing.
//!
//! A board takes a minute and parts that are not on every machine, so these tests run when they are asked for, by
//! `LINERATE_BOARDS=1 cargo test -p linerate --test boards -- --test-threads=1`, as .ci/run does. What this machine lacks
//! skips a board by name; with `LINERATE_BOARDS=all` it fails.

mod bare;
mod lab;
mod linux;
#[path = "../machines/mod.rs"]
mod machines;
