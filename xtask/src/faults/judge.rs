//! What linerate said of a case, held against the truth.
//! Runs nothing; the truth is in `truth`, and what was said in `trial::Outcome`.

use serde_json::Value;

use super::case::Case;
use super::trial::Outcome;
use super::truth::{self, CROWDED, LIMITS, RATES, Truth, Where};

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
    /// Others' programs had the CPUs for most of the trial: that is what limited it, whatever was planted.
    Drowned,
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
            Verdict::Drowned => "drowned",
            Verdict::Broken => "BROKEN",
        }
    }

    /// Whether it says anything of linerate.
    pub(super) const fn counts(self) -> bool {
        !matches!(self, Verdict::NoBite | Verdict::Drowned | Verdict::Broken)
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
    direction: String,
}

/// A case judged.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) number: u64,
    pub(super) family: String,
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
    /// Of a finding that names the rate of a slow part: the nearest rate that it tells, in Mbit/s, and whether that is it.
    pub(super) rate: Option<(f64, bool)>,
    /// Of an outage or a stop whose length is known: the nearest length of an event, in seconds, and whether that is it.
    pub(super) length: Option<(f64, bool)>,
}

/// From this share of what the way carries on, that is what limits.
const REACHED: f64 = 0.85;
/// A rate is named if it is told within this share.
const NEAR: f64 = 0.06;
/// A length is told if it is off by no more: slices are as coarse, and a program under load comes as late.
const NEAR_S: f64 = 0.1;

/// From this share of the time waiting for a CPU on, others' programs are the limit.
const DROWNED: f64 = 0.4;
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
    let explained = &outcome.explanation["findings"];
    let findings: Vec<Said> = explained.as_array().into_iter().flatten().map(said).collect();
    let is_crowded = outcome.others_cpu > CROWD;
    let is_at = |one: &Said, truth: &Truth| {
        let at = case.at.map(|end| end.to_string());
        let is_there = truth.place == Where::Any || one.machine.is_none() || at.is_none() || one.machine == at;
        is_there && case.way.is_none_or(|way| one.direction == way)
    };
    let is_cause =
        |one: &Said| truths.iter().any(|truth| truth.first.iter().any(|cause| one.is(cause)) && is_at(one, truth));
    // That others use this machine is true of any case then, and no answer to what was planted.
    let is_of_the_crowd = |one: &Said| is_crowded && CROWDED.contains(&one.name.as_str());
    let is_true = |one: &Said| {
        let also = || truths.iter().any(|truth| truth.also.iter().any(|also| one.is(also)));
        is_cause(one)
            || also()
            || is_of_the_crowd(one)
            || (kind != Kind::Healthy && LIMITS.contains(&one.name.as_str()))
    };
    let got_bps = outcome.record["result"]["throughput_bps"].as_f64().unwrap_or(0.0);
    let reaches = case.carries_bps.is_some_and(|carries| got_bps >= REACHED * carries as f64);
    let is_its_limit = |one: &Said| reaches && RATES.contains(&one.name.as_str());
    let is_beside = |one: &Said| is_of_the_crowd(one) || is_its_limit(one);
    let answers: Vec<&Said> = findings.iter().filter(|one| is_cause(one) || !is_beside(one)).collect();
    let sentence = sentence(outcome);
    let (largest_time, unaccounted_time) = time(&outcome.record["time_budget"]);
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
            None if answers.is_empty() && truths.iter().any(|truth| is_told(truth, outcome)) => Verdict::Right,
            None if answers.is_empty() => Verdict::Silent,
            None => Verdict::Wrong,
        },
    };
    // Then what was planted did not limit, and whatever is said is of the crowd.
    let is_drowned = is_crowded
        && !matches!(verdict, Verdict::Right | Verdict::Broken)
        && case.starts.iter().all(|start| start.quota.is_none() && start.words.is_empty())
        && largest_time.as_ref().is_some_and(|(name, share)| name.contains("cpu-wait") && *share >= DROWNED);
    let verdict = if is_drowned { Verdict::Drowned } else { verdict };
    let wrong = findings.iter().filter(|one| one.is_sure && !is_true(one) && verdict.counts());
    let sure_and_wrong = wrong.map(|one| one.name.clone()).collect();
    let payload = case.set.iter().find_map(|set| set.strip_prefix("message_size=")?.parse().ok()).unwrap_or(1448.0);
    // Ethernet's header, that of IP, and of UDP: either is a rate of this way, that of frames and that of payload.
    let share = payload / (payload + if case.is_ipv6 { 62.0 } else { 42.0 });
    let rate = case.carries_bps.and_then(|bps| {
        let told = |mbps| told_rate(explained, mbps);
        told(bps as f64 / 1e6).filter(|(_, is_it)| *is_it).or_else(|| told(bps as f64 / 1e6 * share))
    });
    let length = case.lasts_ms.map(|ms| told_length(&outcome.record["events"], ms as f64 / 1e3));
    let (number, family) = (case.number, case.families.join("+"));
    Judged {
        number,
        family,
        kind,
        verdict,
        sure_and_wrong,
        findings,
        largest_time,
        unaccounted_time,
        sentence,
        is_crowded,
        rate,
        length,
    }
}

impl Judged {
    /// Whether nothing of it misses a goal.
    pub(super) fn is_good(&self) -> bool {
        self.verdict == Verdict::Right && self.sure_and_wrong.is_empty()
    }
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
        direction: text("direction").unwrap_or_default(),
    }
}

/// The rate nearest to `mbps` that the first finding of a slow part tells, in its sentence or its evidence.
fn told_rate(findings: &Value, mbps: f64) -> Option<(f64, bool)> {
    let names_rates = |finding: &&Value| finding["name"].as_str().is_some_and(|name| RATES.contains(&name));
    let finding = findings.as_array()?.iter().find(names_rates)?;
    let evidence = finding["evidence"].as_array().into_iter().flatten();
    let texts = evidence.chain([&finding["sentence"]]).filter_map(Value::as_str);
    // "17.1 of 28.0 Mbit/s" is two rates, and tc(8) has "rate 18M".
    let rates = texts.flat_map(|text| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let tells = |at: usize| {
            let after = |words_on: usize| words.get(at + words_on).copied().unwrap_or_default();
            let of_two = after(1) == "of" && after(3).starts_with("Mbit/s");
            if of_two || after(1).starts_with("Mbit/s") {
                return words[at].parse::<f64>().ok();
            }
            let is_parameter = words[..at].last() == Some(&"rate");
            words[at].strip_suffix('M').filter(|_| is_parameter)?.parse().ok()
        };
        (0..words.len()).filter_map(tells).collect::<Vec<_>>()
    });
    let off = |rate: f64| (rate / mbps - 1.0).abs();
    let nearest = rates.min_by(|a, b| off(*a).total_cmp(&off(*b)));
    Some(nearest.map_or((0.0, false), |rate| (rate, off(rate) <= NEAR)))
}

/// The length nearest to `seconds` of any event; 0 where there is none.
fn told_length(events: &Value, seconds: f64) -> (f64, bool) {
    let off = |length: f64| (length - seconds).abs();
    let lengths = events.as_array().into_iter().flatten().filter_map(|event| event["for_s"].as_f64());
    let nearest = lengths.min_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or(0.0);
    (nearest, off(nearest) <= NEAR_S)
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
    let mut text = without_endpoints(&texts.into_iter().flatten().collect::<Vec<_>>().join(" ")).to_lowercase();
    truth::FITS_ALL.iter().for_each(|all| text = text.replace(all, ""));
    let at = case.at.map(|end| end.to_string()).unwrap_or_default();
    truth.words.iter().all(|group| group.split('|').any(|word| text.contains(&word.replace("{at}", &at))))
}

/// Whether what stands first, where nothing was lost, has the words of the cause.
fn is_told(truth: &Truth, outcome: &Outcome) -> bool {
    let trouble = outcome.explanation["trouble"].as_str().unwrap_or_default().to_lowercase();
    !truth.told.is_empty() && truth.told.split('|').any(|word| trouble.contains(word))
}

/// Endpoints in brackets, which name both machines whatever is wrong.
fn without_endpoints(text: &str) -> String {
    const BEGIN: [&str; 2] = [" (netns:", " (exec:"];
    let mut left = text.to_owned();
    while let Some(at) = BEGIN.iter().filter_map(|begin| left.find(begin)).min() {
        let end = left[at..].find(')').map_or(left.len(), |end| at + end + 1);
        left.replace_range(at..end, "");
    }
    left
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_both_machines_is_left_out() {
        let said = "the host (netns:/proc/1/fd/4) did not connect (down)";
        assert_eq!(without_endpoints(said), "the host did not connect (down)");
        assert_eq!(without_endpoints("a (exec:x"), "a");
        assert_eq!(without_endpoints("a"), "a");
    }

    #[test]
    fn a_rate_is_found_in_words() {
        let findings = serde_json::json!([
            { "name": "lossy-path", "sentence": "About 50 Mbit/s.", "evidence": [] },
            { "name": "shaper", "sentence": "It lets 47.9 Mbit/s pass.", "evidence": ["93 Mbit/s were asked"] },
        ]);
        assert_eq!(told_rate(&findings, 50.0), Some((47.9, true)));
        assert_eq!(told_rate(&findings, 80.0), Some((93.0, false)));
        assert_eq!(told_rate(&serde_json::json!([]), 80.0), None);
        let evidence = ["the discipline is tbf rate 18M burst 6056", "17.1 of 28.0 Mbit/s came through"];
        let findings = serde_json::json!([{ "name": "shaper", "sentence": "It limits.", "evidence": evidence }]);
        assert_eq!(told_rate(&findings, 18.0), Some((18.0, true)));
        assert_eq!(told_rate(&findings, 17.0), Some((17.1, true)));
        assert_eq!(told_rate(&findings, 28.0), Some((28.0, true)));
    }
}
