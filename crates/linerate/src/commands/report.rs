//! `linerate report`: a document of what was measured, and whether one is true.
//! Knows files and the store; what stands in a document, `render` knows.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use linerate_control::Endpoint;
use linerate_machine::printable::in_line;
use linerate_machine::text::{shell_quoted, shell_word};
use linerate_results::record::Record;
#[cfg(feature = "web")]
use linerate_results::select::Filter;
use linerate_results::select::LAST;
use linerate_results::store::{Campaign, Reader, Store, StoreError};

use super::atomic_file::{checked, write_whole};
use super::plan_request::{PlanRequest, PlannedMiddle};
use super::selection::{compared, identifiers, selection};
use super::{open_store, without};
use crate::cli::{FormArgs, MadeArgs, ReportArgs, ReportCommand, ReportFile, SharedArgs};
use crate::input_file;
use crate::output::{data, out, say};
#[cfg(feature = "web")]
use crate::render::answer::Answer;
use crate::render::report::{
    ExcludedRecord, Material, Origin, Pseudonyms, Report, ReportedCampaign, Verified, attached_at, check_notes,
    each_attached, line, line_of, read_back, record_of, unlike, verify,
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
            let mut text = String::new();
            let is_attached = each_attached(&input_file::text_up_to(file, MOST_OCTETS)?, |number, line| {
                // Little that is packed may become much: no more is taken out than what is a record.
                record_of(number, line)?;
                text.extend([line, "\n"]);
                Ok(ControlFlow::Continue(()))
            })?;
            if !is_attached {
                bail!("no records are attached to {}; --attach puts them in when a report is made", file.display());
            }
            written(output.as_deref(), &text)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(ReportCommand::Verify { file }) => verified(file, shared),
    }
}

fn made(arguments: &MadeArgs, shared: &SharedArgs) -> Result<ExitCode> {
    if let Some(file) = arguments.file_of_no_form() {
        bail!("{}: write FILE.html, FILE.md or FILE.txt, or give --html, --markdown or --text", file.display());
    }
    if arguments.attach.is_some() && !arguments.form().html {
        bail!("records are attached to HTML only: give --html, or a file that ends in .html");
    }
    match &arguments.from {
        Some(file) => again(file, arguments),
        None => selected(arguments, shared),
    }
}

/// From the records in a report, by this version.
fn again(file: &Path, arguments: &MadeArgs) -> Result<ExitCode> {
    let html = input_file::text_up_to(file, MOST_OCTETS)?;
    let origin = read_back(&html)?;
    let mut records = Records::of(From::Report(&html));
    let material = records.material(origin.attached && !arguments.anonymous)?;
    if material.len() == 0 {
        bail!("no records are attached to {}: name what it was made of instead of --from", file.display());
    }
    if let Some(why) = unlike(&origin, &material) {
        bail!("{}: {why}; get the report as it was made", file.display());
    }
    write(arguments, origin.again(), records, material)
}

fn selected(arguments: &MadeArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let (store, last) = (open_store(shared)?, LAST.to_owned());
    let words: Vec<&str> = match (&arguments.baseline, &arguments.candidate) {
        (Some(baseline), Some(candidate)) => vec![baseline, candidate],
        _ => vec![arguments.selection.as_ref().unwrap_or(&last)],
    };
    let attach = arguments.attach.is_some();
    let (mut origin, records, material) = picked(&store, &words, attach && !arguments.anonymous)?;
    // Without names they are attached when names are known.
    origin.attached = attach;
    write(arguments, origin, records, material)
}

/// What these words pick, of two the sides of a difference. What cannot be read is left out of all three.
fn picked<'a>(store: &'a Store, words: &[&str], is_attached: bool) -> Result<(Origin, Records<'a>, Material)> {
    let mut sides = Vec::new();
    let mut all: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    for words in words {
        let found = identifiers(store, words)?;
        if let Some(shared) = found.iter().find(|id| !known.insert((*id).clone())) {
            bail!("record {shared} is on both sides; pick sides that share none");
        }
        all.extend_from_slice(&found);
        sides.push(((*words).to_owned(), found));
    }
    let on_purpose = match words {
        [baseline, candidate] => compared(&selection(store, baseline)?, &selection(store, candidate)?),
        _ => Vec::new(),
    };
    let mut records = Records::of(From::Store(store.reader()?, all));
    let material = records.material(is_attached)?;
    for (id, _) in &records.left_out {
        known.remove(id);
    }
    sides.iter_mut().for_each(|(_, ids)| ids.retain(|id| known.contains(id)));
    if sides.iter().any(|(_, ids)| ids.is_empty())
        && let Some((_, why)) = records.left_out.pop()
    {
        return Err(why.into());
    }
    let mut origin = Origin::new(sides, on_purpose, campaigns(store, &material)?, is_attached);
    origin.left_out = records.left_out();
    Ok((origin, records, material))
}

/// Writes what these records say, with the author's words and without names where that is asked for.
fn write(
    arguments: &MadeArgs,
    mut origin: Origin,
    mut records: Records<'_>,
    mut material: Material,
) -> Result<ExitCode> {
    if let Some(file) = &arguments.notes {
        let text = input_file::text(file)?;
        if let Err((line, column, why)) = check_notes(&text, &material) {
            bail!("{}:{line}:{column}: {why}", file.display());
        }
        origin.notes = Some(text);
    }
    if arguments.anonymous {
        let pseudonyms = Pseudonyms::of(&origin.campaigns, &material);
        let told = pseudonyms.told();
        let replaced = if told.is_empty() { "nothing".to_owned() } else { told.join(", ") };
        origin = pseudonyms.origin(&origin)?;
        // Whom any record tells of is known now: they are read once more, and the first reading goes before.
        drop(material);
        records.pseudonyms = Some(pseudonyms);
        material = records.material(origin.attached)?;
        say(format_args!("linerate: replaced {replaced}; no list of them is kept"));
    }
    origin.seal(&material);
    let report = Report::new(&origin, material, |places| records.at(places))?;
    let text = in_form(&report, arguments.form(), arguments.ascii);
    written(arguments.output.as_deref(), &text)?;
    Ok(without(records.left_out.iter().map(|(_, why)| why)))
}

/// Records that are read one by one.
struct Records<'a> {
    from: From<'a>,
    /// What they are to be told with, instead of names.
    pseudonyms: Option<Pseudonyms>,
    /// Those of the store that cannot be read, and why.
    left_out: Vec<(String, StoreError)>,
}

/// Where they are.
enum From<'a> {
    /// In the store, under these identifiers.
    Store(Reader<'a>, Vec<String>),
    /// In a report.
    Report(&'a str),
}

impl<'a> Records<'a> {
    fn of(from: From<'a>) -> Records<'a> {
        Records { from, pseudonyms: None, left_out: Vec::new() }
    }

    /// All of them; each with the line that it is attached as. One that the store has and cannot read is from now on none of them.
    fn material(&mut self, is_attached: bool) -> Result<Material> {
        let mut material = Material::new(is_attached);
        let pseudonyms = self.pseudonyms.as_ref();
        let mut add = |record: Record, text: &str| -> Result<()> {
            match pseudonyms {
                None => material.add(record, text),
                Some(pseudonyms) => {
                    let record = pseudonyms.record(record)?;
                    let line = line(&record);
                    material.add(record, &line);
                }
            }
            Ok(())
        };
        match &mut self.from {
            From::Store(reader, ids) => {
                for id in std::mem::take(ids) {
                    match reader.with_text(&id) {
                        Err(why @ StoreError::Unreadable { .. }) => self.left_out.push((id, why)),
                        read => {
                            let (record, text) = read?;
                            let line = line_of(&record, text);
                            add(record, &line)?;
                            ids.push(id);
                        }
                    }
                }
            }
            // What stands in a report is held against its digest as it stands there.
            From::Report(html) => {
                each_attached(html, |number, text| {
                    add(record_of(number, text)?, text)?;
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        Ok(material)
    }

    /// An error where one of them was left out.
    fn whole(&mut self) -> Result<()> {
        self.left_out.pop().map_or(Ok(()), |(_, why)| Err(why.into()))
    }

    /// Those that are left out, as a report has them.
    fn left_out(&self) -> Vec<ExcludedRecord> {
        let told = |(record, why): &(String, StoreError)| ExcludedRecord {
            record: record.clone(),
            why: Some(in_line(&why.to_string(), 1000).into_owned()),
        };
        self.left_out.iter().map(told).collect()
    }

    /// Those at these places.
    fn at(&self, places: &[usize]) -> Result<Vec<Record>> {
        let found = match &self.from {
            From::Store(reader, ids) => places.iter().map(|at| Ok(reader.record(&ids[*at])?)).collect::<Result<_>>()?,
            From::Report(html) => attached_at(html, places)?,
        };
        match &self.pseudonyms {
            None => Ok(found),
            Some(pseudonyms) => found.into_iter().map(|record| pseudonyms.record(record)).collect(),
        }
    }
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
    let mut records = Records::of(From::Store(store.reader()?, ids.to_vec()));
    let material = records.material(attach)?;
    records.whole()?;
    let sides = vec![(words.to_owned(), ids.to_vec())];
    let mut origin = Origin::new(sides, Vec::new(), campaigns(store, &material)?, attach);
    origin.seal(&material);
    let report = Report::new(&origin, material, |places| records.at(places))?;
    written(Some(&file.path), &in_form(&report, file.form, false))?;
    say(format_args!("linerate: the report is in {}", file.path.display()));
    Ok(())
}

/// A report of what these words pick as one HTML file; of two, the comparison of both.
#[cfg(feature = "web")]
pub(crate) fn html_of(store: &Store, words: &[String]) -> Result<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut origin, records, material) = picked(store, &words, false)?;
    origin.seal(&material);
    Ok(Report::new(&origin, material, |places| records.at(places))?.html())
}

/// What the records of a campaign come to, as a report says it; and why not, of each that cannot be read.
#[cfg(feature = "web")]
pub(crate) fn of_campaign(store: &Store, campaign: Campaign, filter: &Filter) -> Result<(Answer, Vec<StoreError>)> {
    let (mut material, mut ids) = (Material::new(false), Vec::new());
    // Nothing is attached, and no name of theirs is told of: their lines are not looked into.
    let unreadable = store.each(filter, |record, _| {
        ids.push(record.id.clone());
        material.add(record, "");
    })?;
    if ids.is_empty() {
        return Ok((Answer::default(), unreadable));
    }
    let origin = Origin::new(vec![(campaign.id.clone(), ids.clone())], Vec::new(), vec![carried(campaign)], false);
    let records = Records::of(From::Store(store.reader()?, ids));
    Ok((Report::new(&origin, material, |places| records.at(places))?.campaign(), unreadable))
}

/// The command that measured a campaign, and its plan as its file has it.
#[cfg(feature = "web")]
pub(crate) fn measured_by(campaign: Campaign) -> (String, String) {
    let ReportedCampaign { campaign, command, .. } = carried(campaign);
    (command, campaign.plan_text)
}

fn campaigns(store: &Store, material: &Material) -> Result<Vec<ReportedCampaign>> {
    carried_out(store, material.campaigns())
}

/// These campaigns, with what was expected of them.
pub(super) fn carried_out<'a>(store: &Store, ids: impl IntoIterator<Item = &'a str>) -> Result<Vec<ReportedCampaign>> {
    let mut found = Vec::new();
    for id in ids {
        match store.campaign(id) {
            // Its records tell what they are without it.
            Err(why @ StoreError::Unreadable { .. }) => say(format_args!("linerate: left out: {why}")),
            campaign => found.extend(campaign?.map(carried)),
        }
    }
    Ok(found)
}

/// A campaign with its plan as people wrote it, and the command that measures it again.
fn carried(mut campaign: Campaign) -> ReportedCampaign {
    // A store of an earlier version may have a text that this one does not know: then it stands as it is.
    let Ok(wanted) = serde_json::from_str::<PlanRequest>(&campaign.plan_text) else {
        let command = reached(&campaign, "run", &campaign.plan, &[]);
        return ReportedCampaign { campaign, command, expected: Vec::new() };
    };
    // A plan that this version no longer reads expects nothing that it could judge; nor is the median of a search's tries
    // what a plan expects something of.
    let expected = match wanted.search.is_empty() {
        true => wanted.begin().map(|order| order.expected()).unwrap_or_default(),
        false => Vec::new(),
    };
    let PlanRequest { name, source, changes, search, middle } = wanted;
    let mut words: Vec<String> = changes
        .overrides
        .iter()
        .map(|(name, value)| format!("--set {}", shell_word(&format!("{name}={value}"))))
        .collect();
    words.extend(changes.repeat.map(|repeat| format!("--repeat {repeat}")));
    words.extend(changes.seed.map(|seed| format!("--seed {seed}")));
    words.extend(changes.null.then(|| "--null".to_owned()));
    words.extend(
        changes.precision.map(|precision| {
            format!("--precision {}% --max-repeats {}", precision.part * 100.0, precision.max_repeats)
        }),
    );
    words.extend(changes.expect.iter().map(|expected| format!("--expect {}", shell_quoted(&expected.to_string()))));
    let verb = if search.is_empty() { "run" } else { "search" };
    words.extend(search.iter().map(|word| shell_word(word)));
    let middle = middle.iter().flat_map(PlannedMiddle::options);
    words.extend(middle.map(|(option, value)| format!("{option} {}", shell_word(&value))));
    let command = reached(&campaign, verb, &name, &words);
    campaign.plan_text = source;
    ReportedCampaign { campaign, command, expected }
}

fn reached(campaign: &Campaign, verb: &str, plan: &str, words: &[String]) -> String {
    // Machines of the demo's own have names for people.
    if campaign.target.parse::<Endpoint>().is_err() {
        return "linerate demo".to_owned();
    }
    let host = (campaign.host != "local").then(|| format!("--host {}", shell_word(&campaign.host)));
    let ends = std::iter::once(format!("--target {}", shell_word(&campaign.target))).chain(host);
    let all: Vec<String> = ends.chain(words.iter().cloned()).collect();
    format!("linerate {verb} {} {}", shell_word(plan), all.join(" "))
}

fn verified(file: &Path, shared: &SharedArgs) -> Result<ExitCode> {
    let html = input_file::text_up_to(file, MOST_OCTETS)?;
    let origin = read_back(&html)?;
    let mut attached = Records::of(From::Report(&html));
    let material = attached.material(origin.attached)?;
    let found = if material.len() > 0 {
        verify(&html, &origin, material, |places| attached.at(places))?
    } else {
        let store =
            open_store(shared).context("no records are attached to the report, and there is no store with them")?;
        let missing = "no records are attached to the report, and the store has not all of them";
        let ids: Vec<String> = origin.sides.iter().flat_map(|side| side.records.iter().cloned()).collect();
        let mut records = Records::of(From::Store(store.reader()?, ids));
        if origin.anonymous {
            let material = records.material(false).context(missing)?;
            records.pseudonyms = Some(Pseudonyms::of(&campaigns(&store, &material)?, &material));
        }
        let material = records.material(origin.attached).context(missing)?;
        records.whole().context(missing)?;
        verify(&html, &origin, material, |places| records.at(places))?
    };
    let records: usize = origin.sides.iter().map(|side| side.digests.len()).sum();
    match found {
        Verified::Same { figures } => {
            out!("Verified: {figures} figures and all text are as the {records} records give them.\n");
            Ok(ExitCode::SUCCESS)
        }
        Verified::SameFigures { figures } => {
            out!(
                "All {figures} figures are as {records} records give them. The report is by linerate {}, whose words are \
                 others.\n",
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use linerate_plan::Changes;
    use linerate_results::sample;

    use super::*;

    /// What a shell makes of the command.
    fn words(command: &str) -> Vec<String> {
        let told = Command::new("sh").arg("-c").arg(format!("printf '%s\\n' {command}")).output().unwrap();
        String::from_utf8(told.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_that_measures_again_is_one_whatever_is_in_it() {
        let hostile = "x; id $(id) `id` 'y\" > /dev/null &";
        let named = |name: &str| (name.to_owned(), hostile.to_owned());
        let interfaces = linerate_machine::end::PerEnd::of(|end| format!("{end}'$(id)"));
        let middle = PlannedMiddle { endpoint: format!("exec:{hostile}"), interfaces: Some(interfaces) };
        let wanted = PlanRequest {
            name: "mine $(id)".to_owned(),
            source: String::new(),
            changes: Changes { overrides: vec![named("target.qdisc")], ..Changes::default() },
            search: ["--goal", "no $(id) drop", "--confirm", "--reset", "$(id)"].map(str::to_owned).to_vec(),
            middle: Some(middle),
        };
        let mut campaign = sample::campaign_of(&sample::full(), 1);
        (campaign.target, campaign.host) = (format!("exec:{hostile}"), "netns:$(id)".to_owned());
        campaign.plan_text = serde_json::to_string(&wanted).unwrap();
        let command = carried(campaign.clone()).command;
        let (exec, set) = (format!("exec:{hostile}"), format!("target.qdisc={hostile}"));
        let want = ["linerate", "search", "mine $(id)", "--target", &exec, "--host", "netns:$(id)", "--set", &set];
        let rest = ["--goal", "no $(id) drop", "--confirm", "--reset", "$(id)", "--middle", &exec];
        let last = ["--middle-interfaces", "target'$(id),host'$(id)"];
        assert_eq!(words(&command), [want.as_slice(), &rest, &last].concat(), "{command}");
        campaign.target = "the lab's target".to_owned();
        assert_eq!(carried(campaign).command, "linerate demo");
    }
}
