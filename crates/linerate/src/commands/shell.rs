//! `linerate completions` and `linerate man`: made from the declarations of the command line.
//! Knows nothing of what the commands do.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::Cli;
use crate::output::out;

/// Prints a shell's completions.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    // Into memory first: the generator panics where standard output is gone.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut text);
    out!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

/// Writes a man page for each command.
pub(crate) fn man(folder: &Path) -> Result<ExitCode> {
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write man pages into {}; name a folder that exists", folder.display()))?;
    out!("The man pages are in {}; read them with: man -l {}\n", folder.display(), folder.join("linerate.1").display());
    Ok(ExitCode::SUCCESS)
}
