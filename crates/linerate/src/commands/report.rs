//! `linerate report`: a document of what was measured, and whether one is true.
//! Knows files and the store; what stands in a document, `render` knows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use linerate_results::record::Record;
use linerate_results::select::LAST;
use linerate_results::store::{Campaign, Store};

use super::open_store;
use super::run::Wanted;
use super::selection::{compared, records, selection};
use super::whole_file::{checked, write_whole};
use crate::cli::{FormArgs, MadeArgs, ReportArgs, ReportCommand, ReportFile, SharedArgs};
use crate::output::{data, out, say};
use crate::render::report::{
    Carried, Origin, Report, Side, Verified, anonymous, as_attached, attached, check_notes, lines, read_back,
    records_of, unlike, verify,
};

/// A report that somebody sends may be of any size; one of ours has a hundredth of this.
const MOST_OCTETS: u64 = 1 << 30;

/// Makes a report, or looks into one.
pub(crate) fn report(arguments: &ReportArgs, shared: &SharedArgs) -> Result<ExitCode> {
    if arguments.command.is_some() && !arguments.made.is_empty() {
        bail!("extract and verify take a report's file; what a report shall be is said where it is made");
    }
    match &arguments.command {
        None => made(&arguments.made, shared),
        Some(ReportCommand::Extract { file, output }) => {
            let Some(text) = attached(&read(file)?)? else {
                bail!("no records are attached to {}; --attach puts them in when a report is made", file.display())
            };
            written(output.as_deref(), &text)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(ReportCommand::Verify { file }) => verified(file, shared),
    }
}

fn made(arguments: &MadeArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let (mut origin, mut all) = match &arguments.from {
        Some(file) => again(file)?,
        None => selected(arguments, shared)?,
    };
    if let Some(file) = &arguments.notes {
        let text = read(file)?;
        if let Err((line, column, why)) = check_notes(&text, &all) {
            bail!("{}:{line}:{column}: {why}", file.display());
        }
        origin.notes = Some(text);
    }
    if arguments.anonymous {
        let replaced;
        (origin, all, replaced) = anonymous(&origin, &all)?;
        let replaced = if replaced.is_empty() { "nothing".to_owned() } else { replaced.join(", ") };
        say(format_args!("linerate: replaced {replaced}; no list of them is kept"));
    }
    let text = in_form(&Report { origin: &origin, records: &all }, arguments.form, arguments.ascii);
    written(arguments.output.as_deref(), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// What a report was made from, by this version: its records are in it.
fn again(file: &Path) -> Result<(Origin, Vec<Record>)> {
    let html = read(file)?;
    let origin = read_back(&html)?;
    let Some(text) = attached(&html)? else {
        bail!("no records are attached to {}: name what it was made of instead of --from", file.display())
    };
    let all = records_of(&text)?;
    if let Some(why) = unlike(&origin, &text.lines().collect::<Vec<_>>(), &all) {
        bail!("{}: {why}; get the report as it was made", file.display());
    }
    Ok((origin.again(), all))
}

fn selected(arguments: &MadeArgs, shared: &SharedArgs) -> Result<(Origin, Vec<Record>)> {
    let (store, last) = (open_store(shared)?, LAST.to_owned());
    let words: Vec<&String> = match (&arguments.baseline, &arguments.candidate) {
        (Some(baseline), Some(candidate)) => vec![baseline, candidate],
        _ => vec![arguments.selection.as_ref().unwrap_or(&last)],
    };
    let mut sides = Vec::new();
    let mut all: Vec<Record> = Vec::new();
    for words in &words {
        // As they are attached, so that they say the same when they are read from there.
        let found = as_attached(records(&store, words)?)?;
        if let Some(shared) = found.iter().find(|one| all.iter().any(|other| other.id == one.id)) {
            bail!("record {} is on both sides; pick sides that share none", shared.id);
        }
        sides.push(Side::new(words, &found));
        all.extend(found);
    }
    let on_purpose = match &words[..] {
        [baseline, candidate] => compared(&selection(&store, baseline)?, &selection(&store, candidate)?),
        _ => Vec::new(),
    };
    Ok((Origin::new(sides, on_purpose, campaigns(&store, &all)?, arguments.attach.is_some()), all))
}

fn in_form(report: &Report<'_>, form: FormArgs, is_ascii: bool) -> String {
    match form {
        form if form.html => report.html(),
        form if form.markdown => report.markdown(),
        _ => report.text(is_ascii),
    }
}

/// The report of what was just measured.
pub(super) fn at_end(store: &Store, words: &str, ids: &[String], file: &ReportFile, attach: bool) -> Result<()> {
    let found = ids.iter().map(|id| store.record(id)).collect::<Result<Vec<_>, _>>()?;
    let found = as_attached(found)?;
    let origin = Origin::new(vec![Side::new(words, &found)], Vec::new(), campaigns(store, &found)?, attach);
    let text = in_form(&Report { origin: &origin, records: &found }, file.form, false);
    written(Some(&file.path), &text)?;
    say(format_args!("linerate: the report is in {}", file.path.display()));
    Ok(())
}

fn campaigns(store: &Store, records: &[Record]) -> Result<Vec<Carried>> {
    let ids: BTreeSet<&str> = records.iter().map(|record| record.campaign.as_str()).collect();
    let found = ids.into_iter().map(|id| store.campaign(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().map(carried).collect())
}

/// A campaign with its plan as people wrote it, and the command that measures it again.
fn carried(mut campaign: Campaign) -> Carried {
    // A store of an earlier version may have a text that this one does not know: then it stands as it is.
    let Ok(Wanted { name, source, changes, search }) = serde_json::from_str(&campaign.plan_text) else {
        let command = reached(&campaign, "run", &campaign.plan, &[]);
        return Carried { campaign, command };
    };
    let mut words: Vec<String> =
        changes.overrides.iter().map(|(name, value)| format!("--set {name}={value}")).collect();
    words.extend(changes.repeat.map(|repeat| format!("--repeat {repeat}")));
    words.extend(changes.seed.map(|seed| format!("--seed {seed}")));
    words.extend(changes.null.then(|| "--null".to_owned()));
    words.extend(
        changes.precision.map(|precision| {
            format!("--precision {}% --max-repeats {}", precision.part * 100.0, precision.max_repeats)
        }),
    );
    words.extend(changes.expect.iter().map(|expected| format!("--expect '{expected}'")));
    let verb = if search.is_empty() { "run" } else { "search" };
    words.extend(search);
    let command = reached(&campaign, verb, &name, &words);
    campaign.plan_text = source;
    Carried { campaign, command }
}

fn reached(campaign: &Campaign, verb: &str, plan: &str, words: &[String]) -> String {
    // Machines of the demo's own have names for people.
    if campaign.target.contains(' ') {
        return "linerate demo".to_owned();
    }
    let host = (campaign.host != "local").then(|| format!("--host {}", campaign.host));
    let ends = std::iter::once(format!("--target {}", campaign.target)).chain(host);
    let all: Vec<String> = ends.chain(words.iter().cloned()).collect();
    format!("linerate {verb} {plan} {}", all.join(" "))
}

fn verified(file: &Path, shared: &SharedArgs) -> Result<ExitCode> {
    let html = read(file)?;
    let origin = read_back(&html)?;
    let text = match attached(&html)? {
        Some(text) => text,
        None => {
            let store =
                open_store(shared).context("no records are attached to the report, and there is no store with them")?;
            let ids = origin.sides.iter().flat_map(|side| &side.records);
            let found = ids.map(|id| store.record(id)).collect::<Result<Vec<_>, _>>();
            let found = found.context("no records are attached to the report, and the store has not all of them")?;
            let found = if origin.anonymous { anonymous(&origin, &found)?.1 } else { found };
            lines(&found)
        }
    };
    let records = records_of(&text)?;
    match verify(&html, &origin, &records, &text.lines().collect::<Vec<_>>()) {
        Verified::Same { figures } => {
            out!("All is as {} records give it: {figures} figures, and every word.\n", records.len());
            Ok(ExitCode::SUCCESS)
        }
        Verified::SameFigures { figures } => {
            out!(
                "All {figures} figures are as {} records give them. The report is by linerate {}, whose words are others.\n",
                records.len(),
                origin.version
            );
            Ok(ExitCode::SUCCESS)
        }
        Verified::Different(difference) => {
            out!("It differs: {}.\n", difference.sentence());
            Ok(ExitCode::from(1))
        }
    }
}

fn read(file: &Path) -> Result<String> {
    let what = || format!("cannot read {}", file.display());
    if fs::metadata(file).with_context(what)?.len() > MOST_OCTETS {
        bail!("{} is larger than 1 GiB", file.display());
    }
    fs::read_to_string(file).with_context(what)
}

/// To a file, or to standard output where there is none.
fn written(file: Option<&Path>, text: &str) -> Result<()> {
    let Some(file) = file.filter(|file| file.as_os_str() != "-") else {
        data!("{text}");
        return Ok(());
    };
    let real = writable(file)?;
    write_whole(&real, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The file behind the name that was given; a sentence where it cannot be written.
pub(super) fn writable(file: &Path) -> Result<PathBuf> {
    checked(file).map_err(|why| anyhow!("{} cannot be written: {why}; name another file", file.display()))
}
