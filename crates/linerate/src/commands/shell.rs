//! `linerate completions` and `linerate man`: as the command line is declared.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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
    let mut command = cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, folder)
        .with_context(|| format!("cannot write man pages into {}; name a folder that exists", folder.display()))?;
    out!("The man pages are in {}; read them with: man -l {}\n", folder.display(), folder.join("linerate.1").display());
    Ok(ExitCode::SUCCESS)
}

/// That of a command, and those of its subcommands.
fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages(below, folder)?;
    }
    let page = Man::new(command.clone()).source(concat!("linerate ", env!("CARGO_PKG_VERSION")));
    let mut file = File::create(folder.join(page.get_filename()))?;
    page.render_title(&mut file)?;
    page.render_name_section(&mut file)?;
    // The library's own names options without their values, and not what a command before this one takes.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty());
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]);
    for line in usage {
        synopsis.text([roman(line)]).control("br", []);
    }
    synopsis.to_writer(&mut file)?;
    page.render_description_section(&mut file)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(&mut file)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        page.render_subcommands_section(&mut file)?;
    }
    if command.get_after_long_help().or(command.get_after_help()).is_some() {
        page.render_extra_section(&mut file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_how_a_command_is_called() {
        let folder = std::env::temp_dir().join(format!("linerate-man-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        man(&folder).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (info, run) = (page("linerate-target-info.1"), page("linerate-run.1"));
        let all = std::fs::read_dir(&folder).unwrap().count();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(info.contains("linerate target <ENDPOINT> info [OPTIONS]"), "{info}");
        let title = format!(".TH linerate-run 1  \"linerate {}\"", env!("CARGO_PKG_VERSION"));
        assert!(run.contains(&title) && run.contains(".SH OPTIONS"), "{run}");
        assert!(all > 40, "{all}");
    }
}
