//! `linerate web` as browsers, programs and strangers meet it: by raw HTTP, and in Chromium.
//! Knows the commands and the addresses; what stands in an answer, the renderers' own tests know.
#![cfg(feature = "web")]

#[path = "../machines/mod.rs"]
mod machines;

mod browsers;
mod encrypted;
mod forms;
mod large;
mod runs;
mod server;
mod strangers;
