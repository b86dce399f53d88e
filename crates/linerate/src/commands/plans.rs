//! `linerate plans`: what can be measured without writing a plan.
//! Knows nothing of machines.

use std::process::ExitCode;

use anyhow::Result;

use super::terminal_width;
use crate::output::out;
use crate::plan;

/// Lists the built-in plans, or shows one as its file has it.
pub(crate) fn plans(name: Option<&str>) -> Result<ExitCode> {
    match name {
        Some(name) => out!("{}", plan::plan_text(&plan::find(name)?)),
        None => out!("{}", plan::plans_table(&plan::builtins(), terminal_width().unwrap_or(100).max(60))?),
    }
    Ok(ExitCode::SUCCESS)
}
