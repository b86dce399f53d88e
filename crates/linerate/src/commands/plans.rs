//! `linerate plans`: what can be measured without writing a plan.
//! Knows nothing of machines.

use std::process::ExitCode;

use anyhow::Result;

use super::width;
use crate::output::out;
use crate::plan;

/// Lists the built-in plans, or shows one as its file has it.
pub(crate) fn plans(name: Option<&str>) -> Result<ExitCode> {
    match name {
        Some(name) => out!("{}", plan::plan_text(&plan::find(name)?)),
        None => out!("{}", plan::plans_table(&plan::builtins(), width())?),
    }
    Ok(ExitCode::SUCCESS)
}
