//! `linerate check`: does anything come through between two machines, and if not, why not?

use std::process::ExitCode;

use anyhow::Result;

use super::{connect_options, connected, machines, width};
use crate::cli::{CheckArgs, SharedArgs};
use crate::measure::check;
use crate::output::{data, out};
use crate::progress::Progress;
use crate::render;
use linerate_results::examination::Step;

/// Tries it from the bottom up, and prints a line each as it goes, or one object at the end. The status is 1 where something failed, and 2
/// where no traffic could be tried.
pub(crate) fn check(arguments: &CheckArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let options = connect_options(shared)?;
    let ends = machines(&arguments.ends)?;
    let (_started, pair) = connected(&ends, &arguments.ends, &options, &Progress::new(shared.quiet))?;
    let width = usize::from(width().unwrap_or(100));
    let checked = check::check(&pair, &mut |step: &Step| {
        if !arguments.json {
            out!("{}", render::check::text(step, width));
        }
    });
    pair.end();
    let examination = checked?;
    match arguments.json {
        true => data!("{}", render::check::json(&ends.target, &ends.host, &examination)),
        false => out!("{}", render::check::conclusion(&examination)),
    }
    Ok(match examination.cause() {
        Some(_) => ExitCode::from(1),
        None if !examination.has_tried_traffic() => ExitCode::from(2),
        None => ExitCode::SUCCESS,
    })
}
