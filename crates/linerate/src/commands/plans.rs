//! `linerate plans`: what can be measured without writing a plan.

use std::process::ExitCode;

use anyhow::Result;
use linerate_plan::{Plan, PlanError};

use super::width;
use crate::input_file;
use crate::output::out;
use crate::render::plans::{plan_text, plans_table};

/// The built-in plan of this name, or that of the file at this path.
pub(crate) fn find(name_or_path: &str) -> Result<Plan, PlanError> {
    linerate_plan::find(name_or_path, |path| {
        input_file::text(path)
            .map_err(|error| format!("{}; `linerate plans` lists the plans that need no file", error.why))
    })
}

/// Lists the built-in plans, or shows one as its file has it.
pub(crate) fn plans(name: Option<&str>) -> Result<ExitCode> {
    match name {
        Some(name) => out!("{}", plan_text(&find(name)?)),
        None => out!("{}", plans_table(&linerate_plan::builtins(), width())?),
    }
    Ok(ExitCode::SUCCESS)
}
