//! `linerate compare`: is the difference real?
//! Knows the sides, the gates and the exit status; judging is done in `results`, showing in `render`.

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_results::compare::gate::{Gate, Outcome, no_metric};
use linerate_results::compare::verdict::Verdict;
use linerate_results::compare::{self, CompareOptions, Comparison, FailedTrials};
use linerate_results::figure::Metric;
use linerate_results::observation::Observation;
use linerate_results::store::Store;

use super::case_files::CaseFiles;
use super::selection::{compared, observations, of_last_plan, selection, unread};
use super::{open_store, width};
use crate::cli::{CompareArgs, SharedArgs, TableArgs};
use crate::output::{beside, data, out, say};
use crate::render;
use crate::render::cases::{Cases, of_comparison, why_unknown};
use crate::render::compare::ComparisonView;

/// `git bisect run` takes this as "skip".
const CANNOT_TELL: u8 = 125;

/// Something that a gate is on could not be measured.
const NOT_MEASURED: u8 = 2;

/// Compares, shows, judges by the gates, and writes what CI reads of it, however it ends.
pub(crate) fn compare(arguments: &CompareArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let asked = asked(arguments);
    let command = format!("compare {asked}");
    let foreseen = Cases::new(&command, &command);
    let mut files = CaseFiles::begin(&arguments.cases, foreseen, arguments.output.for_programs())?;
    let ended = judge(arguments, shared, &asked, &mut files);
    files.end(ended)
}

/// What the command line calls the sides.
fn asked(arguments: &CompareArgs) -> String {
    match &arguments.candidate {
        Some(candidate) => format!("{} {candidate}", arguments.baseline),
        None => format!("--null {}", arguments.baseline),
    }
}

fn judge(arguments: &CompareArgs, shared: &SharedArgs, asked: &str, files: &mut CaseFiles) -> Result<ExitCode> {
    let metrics = arguments.metric.iter().map(|name| metric(name)).collect::<Result<Vec<_>>>()?;
    let gates = gates(&arguments.fail_if)?;
    if let Some(gate) =
        gates.iter().find(|gate| !metrics.is_empty() && !metrics.iter().any(|m| m.name == gate.metric.name))
    {
        bail!("the gate '{gate}' needs its metric judged; add --metric {}", gate.metric.short());
    }
    let margin = arguments.margin.as_deref().map(|text| percentage("--margin", text)).transpose()?;
    let options = CompareOptions { compared: arguments.on.clone(), metrics, margin, halves: false };
    // A gate may be on a metric that is not judged by default.
    if options.metrics.is_empty() && gates.iter().any(|gate| !gate.metric.compared.usual) {
        bail!("a gate is on a metric that is not judged by default; name all that shall be judged with --metric");
    }

    let store = open_store(shared)?;
    let Some(words) = &arguments.candidate else {
        let wanted = of_last_plan(&store, selection(&store, &arguments.baseline)?)?;
        let baseline = observations(&store, &arguments.baseline, &wanted)?;
        let baseline: Vec<&Observation> = baseline.iter().collect();
        let left_out = unread(&store, &arguments.baseline, &wanted)?;
        let of_pairs = pairs(&baseline, &options);
        let halves =
            if of_pairs.is_some() { ["side a of its A/A trials", "side b"] } else { ["one half", "the other"] };
        let mut itself = of_pairs.unwrap_or_else(|| null(&baseline, &options));
        itself.notes.extend(left_out.map(|what| format!("Left out: {what}.")));
        if itself.baseline.records > 0 && itself.candidate.records == 0 {
            bail!(
                "'{}' has one trial of a configuration at most, and halves take two; measure it with --repeat",
                arguments.baseline
            );
        }
        check_judged(&itself)?;
        files.write(&of_comparison(asked, &itself, &gates));
        let names = halves.map(|half| format!("{}, {half}", arguments.baseline));
        show(arguments.output, &ComparisonView { comparison: &itself, names, gates: &[] });
        return Ok(status(&itself, &gates, arguments.bisect));
    };
    let comparison = sides(&store, [&arguments.baseline, words], options, arguments.null)?;
    files.write(&of_comparison(asked, &comparison, &gates));
    let names = [arguments.baseline.clone(), words.clone()];
    show(arguments.output, &ComparisonView { comparison: &comparison, names, gates: &gates });
    Ok(status(&comparison, &gates, arguments.bisect))
}

/// The two sides that these words pick, held against each other. `null`: doubted by what each comes to held against itself.
pub(crate) fn sides(store: &Store, words: [&str; 2], mut options: CompareOptions, null: bool) -> Result<Comparison> {
    let wanted = of_last_plan(store, selection(store, words[0])?)?;
    let baseline = observations(store, words[0], &wanted)?;
    let other = of_last_plan(store, selection(store, words[1])?)?;
    let candidate = observations(store, words[1], &other)?;
    let [baseline, candidate] = [&baseline, &candidate].map(|side| side.iter().collect::<Vec<&Observation>>());
    let ids: HashSet<&str> = baseline.iter().map(|one| one.id.as_str()).collect();
    let shared = candidate.iter().filter(|one| ids.contains(one.id.as_str())).count();
    if shared > 0 {
        let them = if shared == 1 { "one record is".to_owned() } else { format!("{shared} records are") };
        bail!("{them} on both sides; pick sides that share none, or compare one with itself by --null {}", words[0]);
    }
    for name in &options.compared {
        if !baseline.iter().chain(&candidate).any(|one| compare::is_told(one, name)) {
            bail!(
                "--on {name}: no record of either side says what its {name} was; records say it as 'linerate records show' does"
            );
        }
    }
    options.compared.extend(compared(&wanted, &other));
    let mut comparison = compare::compare(&compare::counted(&baseline), &compare::counted(&candidate), &options);
    check_judged(&comparison)?;
    for (words, side) in words.iter().zip([&wanted, &other]) {
        comparison.notes.extend(unread(store, words, side)?.map(|what| format!("Left out: {what}.")));
    }
    for (whose, side) in [("baseline", &baseline), ("candidate", &candidate)] {
        match pairs(side, &options) {
            Some(itself) => comparison.doubt_by_pairs(whose, &itself),
            None if null => comparison.doubt_by(whose, &self::null(side, &options)),
            None => {}
        }
    }
    Ok(comparison)
}

/// A side's A/A trials held against each other; `None` where its campaigns carry none.
fn pairs(side: &[&Observation], options: &CompareOptions) -> Option<Comparison> {
    let (a, b) = compare::null_sides(side)?;
    Some(compare::compare(&a, &b, &CompareOptions { compared: Vec::new(), ..options.clone() }))
}

fn null(side: &[&Observation], options: &CompareOptions) -> Comparison {
    let (one, other) = compare::split(side);
    let options = CompareOptions { compared: Vec::new(), halves: true, ..options.clone() };
    compare::compare(&one, &other, &options)
}

fn check_judged(comparison: &Comparison) -> Result<()> {
    if !comparison.judged.is_empty() {
        return Ok(());
    }
    if comparison.baseline.records == 0 || comparison.candidate.records == 0 {
        bail!("one side has no trial with figures; its records say why ('linerate records list')");
    }
    if let Some((whose, configuration)) = comparison.unmatched.first() {
        bail!(
            "the two sides have no configuration in common: only the {whose} has {configuration}; name what they \
             differ in on purpose with --on"
        );
    }
    bail!("both sides have none of the metrics in common; 'linerate compare --help' lists them")
}

fn show(output: TableArgs, shown: &ComparisonView<'_>) {
    match output {
        TableArgs { json: true, .. } => out!("{}", render::compare::json(shown)),
        TableArgs { csv: true, .. } => {
            // Figures must not stand without what else differs; lines of another kind have no place among theirs.
            beside(&render::compare::around(shown, width()));
            data!("{}", render::compare::csv(shown));
        }
        TableArgs { markdown: true, .. } => out!("{}", render::compare::markdown(shown)),
        _ => out!("{}", render::compare::text(shown, width())),
    }
}

/// The exit status by the gates; with `--bisect` and without gates, by anything that is worse.
fn status(comparison: &Comparison, gates: &[Gate], bisect: bool) -> ExitCode {
    let outcome = match (gates, bisect) {
        ([], false) => return ExitCode::SUCCESS,
        ([], true) => {
            let is = |wanted: fn(&Verdict) -> bool| comparison.judged.iter().any(|judged| wanted(&judged.verdict));
            if is(|verdict| *verdict == Verdict::Worse) {
                Outcome::Failed
            } else if is(|verdict| !verdict.is_judged()) || comparison.failed.iter().any(FailedTrials::hide_candidate) {
                Outcome::Unknown
            } else {
                Outcome::Passed
            }
        }
        (gates, _) => gates.iter().map(|gate| gate.of(comparison)).max().unwrap_or(Outcome::Unknown),
    };
    for gate in gates {
        match gate.of(comparison) {
            Outcome::Failed => say(format_args!("linerate: failed: {gate}")),
            Outcome::Unknown => {
                say(format_args!("linerate: cannot tell: {gate}; {}", why_unknown(gate, comparison)));
            }
            Outcome::Passed => {}
        }
    }
    match outcome {
        Outcome::Failed => ExitCode::from(1),
        Outcome::Unknown if bisect => ExitCode::from(CANNOT_TELL),
        // As a run of which trials failed ends.
        _ if gates.iter().any(|gate| gate.hidden(comparison).next().is_some()) => ExitCode::from(NOT_MEASURED),
        _ => ExitCode::SUCCESS,
    }
}

/// The metric of this name.
pub(crate) fn metric(name: &str) -> Result<&'static Metric> {
    match Metric::find(name) {
        Some(metric) => Ok(metric),
        None => bail!("{}", no_metric(name)),
    }
}

fn gates(texts: &[String]) -> Result<Vec<Gate>> {
    let mut gates = Vec::new();
    for text in texts {
        match text.parse() {
            Ok(gate) => gates.push(gate),
            Err(complaint) => bail!("--fail-if: {complaint}"),
        }
    }
    Ok(gates)
}

/// A percentage as a part of the whole.
pub(crate) fn percentage(flag: &str, text: &str) -> Result<f64> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => bail!("{flag}: '{text}' is not allowed; write a percentage above 0 and at most 100, like 1%"),
    }
}
