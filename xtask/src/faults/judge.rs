//! What linerate said of a case, held against the truth.
//! Runs nothing; the truth is in `truth`, and what was said in `trial::Outcome`.

use serde_json::Value;

use super::case::Case;
use super::trial::Outcome;
use super::truth::{self, CROWDED, LIMITS, Truth, Where};

/// What came of a case, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The true cause is first; or nothing is said of a world without fault.
    Right,
    /// The true cause is there, and not first.
    Later,
    /// Another cause, and not the true one.
    Wrong,
    /// No cause is named.
    Silent,
    /// Of a healthy world, a fault is claimed.
    False,
    /// Of a trial that cannot begin, the sentence does not name the cause.
    Vague,
    /// The fault did nothing, by its witness; or a healthy world lost packets by its own doing.
    NoBite,
    /// There is no answer to judge: the world was not made, or linerate did not end.
    Broken,
}

impl Verdict {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::Later => "later",
            Verdict::Wrong => "WRONG",
            Verdict::Silent => "SILENT",
            Verdict::False => "FALSE",
            Verdict::Vague => "VAGUE",
            Verdict::NoBite => "no bite",
            Verdict::Broken => "BROKEN",
        }
    }

    /// Whether it says anything of linerate.
    pub(super) const fn counts(self) -> bool {
        !matches!(self, Verdict::NoBite | Verdict::Broken)
    }
}

/// What kind of question a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Fault,
    Healthy,
    Refused,
}

/// A finding, as far as it is judged.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) name: String,
    pub(super) is_sure: bool,
    sentence: String,
    sureness: String,
    machine: Option<String>,
}

/// A case judged.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) kind: Kind,
    pub(super) verdict: Verdict,
    /// Findings that are not true, and are stated as sure.
    pub(super) sure_and_wrong: Vec<String>,
    pub(super) findings: Vec<Said>,
    /// The largest line of the time budget, and what is unaccounted; where there is one.
    pub(super) largest_time: Option<(String, f64)>,
    pub(super) unaccounted_time: Option<f64>,
    /// The first sentence that a user reads.
    pub(super) sentence: String,
    pub(super) is_crowded: bool,
}

/// From so much of one CPU on, others' programs are felt.
const CROWD: f64 = 0.25;

/// Holds what was said against the truth.
pub(super) fn judge(case: &Case, outcome: &Outcome) -> Judged {
    let truths: Vec<&Truth> = case.families.iter().map(|family| truth::of(family)).collect();
    let truth = truths[0];
    let kind = match truth {
        truth if truth.is_healthy => Kind::Healthy,
        truth if truth.is_refused() => Kind::Refused,
        _ => Kind::Fault,
    };
    let findings: Vec<Said> = outcome.explanation["findings"].as_array().into_iter().flatten().map(said).collect();
    let is_crowded = outcome.others_cpu > CROWD;
    let is_at = |one: &Said, truth: &Truth| {
        let at = case.at.map(|end| end.to_string());
        truth.place == Where::Any || one.machine.is_none() || at.is_none() || one.machine == at
    };
    let is_cause =
        |one: &Said| truths.iter().any(|truth| truth.first.iter().any(|cause| one.is(cause)) && is_at(one, truth));
    // That others use this machine is true of any case then, and no answer to what was planted.
    let is_of_the_crowd = |one: &Said| is_crowded && CROWDED.contains(&one.name.as_str());
    let is_true = |one: &Said| {
        let also = || truths.iter().any(|truth| truth.also.iter().any(|also| one.is(also)));
        is_cause(one) || also() || is_of_the_crowd(one) || (kind != Kind::Healthy && LIMITS.contains(&one.name.as_str()))
    };
    let answers: Vec<&Said> = findings.iter().filter(|one| is_cause(one) || !is_of_the_crowd(one)).collect();
    let sentence = sentence(outcome);
    let relay_lost = outcome.account["overflowed"].as_u64().unwrap_or(0);
    let verdict = match kind {
        _ if outcome.explanation.is_null() && outcome.said.is_empty() => Verdict::Broken,
        _ if !outcome.bites.iter().all(|(_, bites)| *bites) || relay_lost > 0 => Verdict::NoBite,
        Kind::Healthy if findings.iter().all(is_true) && outcome.record["error"].is_null() => Verdict::Right,
        Kind::Healthy => Verdict::False,
        Kind::Refused if names_cause(case, truth, outcome) => Verdict::Right,
        Kind::Refused => Verdict::Vague,
        Kind::Fault => match answers.iter().position(|one| is_cause(one)) {
            Some(0) => Verdict::Right,
            Some(_) => Verdict::Later,
            None if answers.is_empty() => Verdict::Silent,
            None => Verdict::Wrong,
        },
    };
    let wrong = findings.iter().filter(|one| one.is_sure && !is_true(one) && verdict.counts());
    let sure_and_wrong = wrong.map(|one| one.name.clone()).collect();
    let (largest_time, unaccounted_time) = time(&outcome.record["time_budget"]);
    Judged { kind, verdict, sure_and_wrong, findings, largest_time, unaccounted_time, sentence, is_crowded }
}

impl Said {
    /// Whether it is this of the table of truths: a rule's name, or `name/words` that its sentence must have.
    fn is(&self, entry: &str) -> bool {
        let (name, words) = entry.split_once('/').unwrap_or((entry, ""));
        self.name == name && self.sentence.contains(words)
    }

    /// For the table: name, machine, sureness.
    pub(super) fn text(&self) -> String {
        let machine = self.machine.as_ref().map(|machine| format!(" {machine}")).unwrap_or_default();
        format!("{}{machine} {}", self.name, self.sureness)
    }
}

fn said(finding: &Value) -> Said {
    let text = |key: &str| finding[key].as_str().map(str::to_owned);
    let sureness = text("sure").unwrap_or_default();
    Said {
        name: text("name").unwrap_or_default(),
        is_sure: sureness == "sure",
        sentence: text("sentence").unwrap_or_default(),
        sureness,
        machine: text("machine"),
    }
}

/// What stands first for a user: the first finding; else what went wrong; else what was said on standard error.
fn sentence(outcome: &Outcome) -> String {
    let explanation = &outcome.explanation;
    let first = explanation["findings"][0]["sentence"].as_str().or(explanation["trouble"].as_str());
    let said = outcome.said.lines().find(|line| !line.trim().is_empty());
    first.or(said).unwrap_or_default().to_owned()
}

/// Whether what a user reads of a trial that cannot begin has the words of its cause.
fn names_cause(case: &Case, truth: &Truth, outcome: &Outcome) -> bool {
    let explanation = &outcome.explanation;
    let first = &explanation["findings"][0];
    let texts = [first["sentence"].as_str(), explanation["trouble"].as_str(), Some(&outcome.said)];
    let text = texts.into_iter().flatten().collect::<Vec<_>>().join(" ").to_lowercase();
    let at = case.at.map(|end| end.to_string()).unwrap_or_default();
    truth.words.iter().all(|group| group.split('|').any(|word| text.contains(&word.replace("{at}", &at))))
}

/// The largest line of a time budget, of all that have one direction or none, and the unaccounted share.
fn time(budget: &Value) -> (Option<(String, f64)>, Option<f64>) {
    let lines = budget.as_array().into_iter().flatten();
    let lines: Vec<(String, f64)> = lines
        .filter_map(|line| {
            let end = line["end"].as_str().map(|end| format!(" {end}")).unwrap_or_default();
            Some((format!("{}{end}", line["limit"].as_str()?), line["share"].as_f64()?))
        })
        .collect();
    let largest = lines.iter().max_by(|a, b| a.1.total_cmp(&b.1)).cloned();
    let unaccounted = lines.iter().filter(|(name, _)| name.starts_with("unaccounted")).map(|(_, share)| *share);
    let unaccounted = largest.is_some().then(|| unaccounted.fold(0.0, f64::max));
    (largest, unaccounted)
}
