//! `linerate explain`: what a record shows.
//! Knows which record is meant; concluding is done in `results`, showing in `render`, trying in `experiment`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_machine::text::nearest;
use linerate_results::findings::RULES;

use super::predicted_gain::guess;
use super::selection::one_record;
use super::{experiment, open_store, width};
use crate::cli::{ExplainArgs, SharedArgs};
use crate::output::{data, out};
use crate::render::explain::Explained;

/// Explains a record, or tries what it suggests.
pub(crate) fn explain(arguments: &ExplainArgs, shared: &SharedArgs) -> Result<ExitCode> {
    if let Some(name) = arguments.finding.as_deref().filter(|name| !RULES.iter().any(|rule| rule.name == *name)) {
        let names = RULES.iter().map(|rule| rule.name);
        match nearest(name, names) {
            Some(near) => bail!("there is no finding '{name}'; did you mean '{near}'?"),
            None => bail!("there is no finding '{name}'; docs/findings.md lists them all"),
        }
    }
    let mut store = open_store(shared)?;
    let record = one_record(&store, &arguments.record)?;
    let mut explained = Explained::of(&record, arguments.finding.as_deref());
    if let (Some(name), []) = (&arguments.finding, explained.findings()) {
        bail!("record {} does not show {name}; linerate explain {} says what it shows", record.id, record.id);
    }
    explained.guess = explained.suggestion().and_then(|one| guess(&store, &record, one));
    if arguments.r#try {
        return experiment::experiment(arguments, shared, &record, &explained, &mut store);
    }
    match arguments.output {
        output if output.json => data!("{}", explained.json()),
        output if output.markdown => out!("{}", explained.answer().markdown()),
        _ => out!("{}", explained.answer().text(width())),
    }
    Ok(ExitCode::SUCCESS)
}
