//! `linerate`, the command.

mod child_lines;
mod cli;
mod commands;
mod complete;
mod default_store;
mod defaults;
mod input_file;
mod interrupt;
mod measure;
mod output;
mod progress;
mod render;
#[cfg(feature = "nats")]
mod team;
#[cfg(feature = "web")]
mod web;

use std::process::ExitCode;

use linerate_control::ControlError;

/// Carries out this process' command line.
pub fn run() -> ExitCode {
    let mut arguments = std::env::args_os();
    // The agent has its own small command line, the same on a board and here.
    if arguments.nth(1).is_some_and(|word| word == "agent") {
        return linerate_agent::run("linerate agent", arguments);
    }
    complete::answer(cli::command);
    match commands::carry_out(cli::asked()) {
        Ok(status) => status,
        Err(error) => {
            output::say(format_args!("linerate: {error:#}"));
            interrupt::status().unwrap_or(ExitCode::from(if is_busy(&error) { BUSY_STATUS } else { 2 }))
        }
    }
}

/// Another controller measures with a machine: the same may succeed later. EX_TEMPFAIL of sysexits.h(3head).
const BUSY_STATUS: u8 = 75;

fn is_busy(error: &anyhow::Error) -> bool {
    error.chain().any(|one| matches!(one.downcast_ref(), Some(ControlError::Busy { .. })))
}
