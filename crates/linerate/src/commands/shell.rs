//! `linerate completions` and `linerate man`: as the command line is declared.
//! Knows nothing of what the commands do.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::output::out;
use crate::{cli, complete};

/// Prints a shell's completions.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    // Called by a path, this program may be on none that the shell searches.
    let program = match std::env::args_os().next() {
        Some(name) if Path::new(&name).components().count() > 1 => std::env::current_exe()?.display().to_string(),
        _ => "linerate".to_owned(),
    };
    out!("{}", complete::registration(&shell.to_string(), &program)?);
    Ok(ExitCode::SUCCESS)
}

/// Writes a man page for each command.
pub(crate) fn man(folder: &Path) -> Result<ExitCode> {
    clap_mangen::generate_to(cli::command(), folder)
        .with_context(|| format!("cannot write man pages into {}; name a folder that exists", folder.display()))?;
    out!("The man pages are in {}; read them with: man -l {}\n", folder.display(), folder.join("linerate.1").display());
    Ok(ExitCode::SUCCESS)
}
