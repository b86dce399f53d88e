//! What `report` is asked.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::judging::SELECT_HELP;
use crate::complete;

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ReportCommand>,
    #[command(flatten)]
    pub(crate) made: MadeArgs,
}

#[derive(Args, Debug)]
pub(crate) struct MadeArgs {
    /// What the report is about, like last (if none is named), a plan's name, or last:direction=tx
    #[arg(value_name = "SELECTION", conflicts_with_all = ["baseline", "candidate"], add = ArgValueCompleter::new(complete::selections))]
    pub(crate) selection: Option<String>,
    /// Report on a difference: from these records
    #[arg(long, value_name = "SELECTION", requires = "candidate", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) baseline: Option<String>,
    /// Report on a difference: to these records
    #[arg(long, value_name = "SELECTION", requires = "baseline", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) candidate: Option<String>,
    /// Make it again, in another form or with other notes, of the records that are attached to this report
    #[arg(long, value_name = "REPORT.html", conflicts_with_all = ["selection", "baseline", "candidate"], value_hint = ValueHint::FilePath)]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Write it into this file; without one, to standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Attach the records, from which `linerate report verify` recomputes every figure (HTML only)
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "campaign", value_parser = ["campaign"])]
    pub(crate) attach: Option<String>,
    /// Words of yours in Markdown: a question first, then remarks under the headings of sections, with references like
    /// {{rx throughput median rate=400M}} in the places of figures (docs/reports.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) notes: Option<PathBuf>,
    /// Put pseudonyms like machine-1 and address-2 in place of names, addresses and command lines, everywhere
    #[arg(long)]
    pub(crate) anonymous: bool,
    /// In plain text, draw with ASCII only
    #[arg(long, conflicts_with_all = ["html", "markdown"])]
    pub(crate) ascii: bool,
}

#[derive(Args, Debug, Clone, Copy)]
#[group(multiple = false)]
pub(crate) struct FormArgs {
    /// One HTML file: no script, nothing fetched
    #[arg(long)]
    pub(crate) html: bool,
    /// Markdown, for a wiki, an issue or a merge request
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Plain text of 72 columns, for a mailing list (the default, unless the file's name ends in .html or .md)
    #[arg(long)]
    pub(crate) text: bool,
}

impl MadeArgs {
    /// The form that is asked for, in words or by the file's name.
    pub(crate) fn form(&self) -> FormArgs {
        let FormArgs { html, markdown, text } = self.form;
        let by_name = || self.output.as_deref().and_then(form_of);
        if html || markdown || text { self.form } else { by_name().unwrap_or(self.form) }
    }

    /// The file whose name has an ending that is no form's, where no option says the form.
    pub(crate) fn file_of_no_form(&self) -> Option<&Path> {
        let FormArgs { html, markdown, text } = self.form;
        let file = self.output.as_deref().filter(|file| file.extension().is_some() && form_of(file).is_none());
        file.filter(|_| !(html || markdown || text))
    }

    /// Nothing is said of what a report shall be.
    pub(crate) fn is_empty(&self) -> bool {
        let MadeArgs { selection, baseline, candidate, from, form, output, attach, notes, anonymous, ascii } = self;
        let FormArgs { html, markdown, text } = form;
        let texts = [selection, baseline, candidate, attach].iter().all(|one| one.is_none());
        texts
            && output.is_none()
            && notes.is_none()
            && from.is_none()
            && ![html, markdown, text, anonymous, ascii].into_iter().any(|is| *is)
    }
}

/// A file whose name says in which form a report is.
#[derive(Clone, Debug)]
pub(crate) struct ReportFile {
    pub(crate) path: PathBuf,
    pub(crate) form: FormArgs,
}

/// The form that a file's name says.
fn form_of(path: &Path) -> Option<FormArgs> {
    let form = |html, markdown| Some(FormArgs { html, markdown, text: !html && !markdown });
    match path.extension()?.to_str()? {
        "html" | "htm" => form(true, false),
        "md" | "markdown" => form(false, true),
        "txt" => form(false, false),
        _ => None,
    }
}

pub(super) fn report_file(text: &str) -> Result<ReportFile, String> {
    let path = PathBuf::from(text);
    let form = form_of(&path).ok_or_else(|| {
        "a report's form is known by its file's name; write FILE.html, FILE.md or FILE.txt".to_owned()
    })?;
    Ok(ReportFile { path, form })
}

pub(super) fn report_help() -> String {
    format!(
        "{SELECT_HELP}\n\nExamples:\n  \
         linerate report last -o report.html\n  \
         linerate report last:direction=tx --markdown\n  \
         linerate report --baseline last~1 --candidate last -o change.html --attach\n  \
         linerate report verify change.html"
    )
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Write a report of all that it measured into this file: .html with its records attached, .md or .txt
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = report_file)]
    pub(crate) report: Option<ReportFile>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ReportCommand {
    /// Extract the records that are attached to a report, byte for byte, as JSON Lines
    Extract {
        /// The report
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Write them into this file; without one, to standard output
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Recompute every figure of a report from its records, and name the first that differs
    ///
    /// From the records attached to it, or, where there are none, from those in the store. The status is 1 where
    /// something differs.
    Verify {
        /// The report
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}
