//! `linerate console`: the lab from menus, in a terminal or line by line.

#[cfg(feature = "console")]
mod full;
mod line;
mod machines;
mod menus;
mod programs;
mod queue;
mod services;
mod state;
mod tasks;

use std::process::ExitCode;

use anyhow::Result;

use self::machines::Machines;
use self::state::State;
use super::{connect_options, width};
use crate::cli::{ConsoleArgs, SharedArgs};
use crate::interrupt;
#[cfg(feature = "console")]
use crate::output;

/// Shows menus until their way out.
pub(crate) fn console(arguments: &ConsoleArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let machines = Machines::new(connect_options(shared)?);
    let mut state = State::new(&arguments.ends);
    state.queue = queue::Queue::of(arguments)?;
    interrupt::listen();
    #[cfg(feature = "console")]
    let is_full = !arguments.plain && output::is_full_terminal();
    #[cfg(not(feature = "console"))]
    let is_full = false;
    match is_full {
        #[cfg(feature = "console")]
        true => full::run(state, machines, shared)?,
        _ => line::run(state, machines, shared, width().map_or(80, usize::from))?,
    }
    Ok(interrupt::status().unwrap_or(ExitCode::SUCCESS))
}
