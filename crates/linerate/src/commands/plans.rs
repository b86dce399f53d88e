//! `linerate plans`: what can be measured without writing a plan.
//! Knows nothing of machines.

use std::process::ExitCode;

use anyhow::Result;

use super::width;
use crate::output::out;
use crate::render::plans::{plan_text, plans_table};

/// Lists the built-in plans, or shows one as its file has it.
pub(crate) fn plans(name: Option<&str>) -> Result<ExitCode> {
    match name {
        Some(name) => out!("{}", plan_text(&linerate_plan::find(name)?)),
        None => out!("{}", plans_table(&linerate_plan::builtins(), width())?),
    }
    Ok(ExitCode::SUCCESS)
}
