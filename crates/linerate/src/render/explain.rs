//! What a record shows, for people and programs: what went wrong, where the packets went, what limits it, what to try.
//! Concludes nothing; findings come from `results`.

use linerate_machine::end::Direction;
use linerate_results::findings::{Finding, MissingFact, Suggestion, Symptom, absent, findings, limit, symptom};
use linerate_results::record::Record;

use super::answer::Answer;
use super::forms::Piece;
use super::number::second;
use super::predict::PredictedGain;
use super::summary::summary_beside_budget;
use super::{budget, check, json, registers, sentence, time, wrapped};

/// A record explained.
pub(crate) struct Explained<'a> {
    record: &'a Record,
    findings: Vec<Finding>,
    absent: Vec<MissingFact>,
    /// What a model says of the first suggestion, where the records tell.
    pub(crate) guess: Option<PredictedGain>,
}

impl<'a> Explained<'a> {
    /// Everything that the record shows; of its findings `only` the one of this name, if one is given.
    pub(crate) fn of(record: &'a Record, only: Option<&str>) -> Explained<'a> {
        let mut findings = findings(record);
        findings.retain(|finding| only.is_none_or(|name| finding.name == name));
        Explained { record, findings, absent: absent(record), guess: None }
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What is to be tried first.
    pub(crate) fn suggestion(&self) -> Option<&Suggestion> {
        self.findings.iter().find_map(|finding| finding.tries.first())
    }

    /// One object.
    pub(crate) fn json(&self) -> String {
        let value = serde_json::json!({
            "format": "linerate.explanation/1",
            "record": self.record.id,
            "trouble": symptom(self.record).sentence,
            "limit": limit(self.record),
            "time_budget": self.record.time_budget,
            "events": self.record.events,
            "findings": self.findings,
            "absent": self.absent,
            "predicted": self.guess.as_ref().map(PredictedGain::json),
        });
        json::line(value)
    }

    /// For people.
    pub(crate) fn answer(&self) -> Answer {
        let record = self.record;
        let started = second(&record.started_at);
        let mut pieces = vec![Piece::Heading(format!(
            "{} {} of {started}, target {}, host {}{} (record {})",
            record.workload,
            record.direction,
            record.target.endpoint,
            record.host.endpoint,
            record.middle.as_ref().map_or(String::new(), |middle| format!(", middle {}", middle.machine.endpoint)),
            record.id
        ))];
        let mut lines = vec![symptom(record).sentence];
        lines.extend(limit(record));
        // Of datagrams the budget says the same, and better.
        lines.extend(summary_beside_budget(record).lines().map(str::to_owned));
        pieces.push(Piece::Lines(lines));
        pieces.extend(budget::pieces(record));
        pieces.extend(time::pieces(record));
        self.say_findings(&mut pieces);
        let doubts = record.doubts.iter().map(|doubt| format!("{}: {}", doubt.kind().name(), doubt));
        let absent = self.absent.iter().map(|absent| format!("{}: {}.", capital(&absent.what), absent.how));
        let tried = record.examination.as_ref().map(check::lines).unwrap_or_default();
        let last = [
            ("What was tried right after", Piece::Lines(tried)),
            ("What the CPUs did, measured part", Piece::Text(super::profile::of_record(record, None))),
            ("What changed in registers, whole trial", Piece::Text(registers::changes(record))),
            ("What to doubt", Piece::Lines(doubts.collect())),
            ("What the record does not know", Piece::Lines(absent.collect())),
        ];
        pieces.extend(last.into_iter().flat_map(|(title, piece)| piece.under(title)));
        Answer::of(pieces)
    }

    fn say_findings(&self, pieces: &mut Vec<Piece>) {
        pieces.push(Piece::Heading(match self.findings.len() {
            0 => "What limits it".to_owned(),
            1 => "What limits it: one finding".to_owned(),
            many => format!("What limits it: {many} findings, the most likely answer first"),
        }));
        if self.findings.is_empty() {
            pieces.push(Piece::Lines(vec![nothing(self.record)]));
        }
        for (at, finding) in self.findings.iter().enumerate() {
            // What is on a way, and not of a machine, may be on either.
            let is_of_either = self.record.direction == Direction::Both && finding.machine.is_none();
            let way = if is_of_either { format!("{}: ", finding.direction) } else { String::new() };
            pieces.push(Piece::Heading(format!(
                "{}. {way}{} ({}: {})",
                at + 1,
                finding.sentence,
                finding.sure.name(),
                finding.name
            )));
            pieces.push(evidence(finding));
        }
        if let Some(first) = self.suggestion() {
            pieces.push(Piece::Heading(format!("Does {}={} help?", first.name, first.value)));
            let tried = format!(
                "linerate explain --try {} measures it both ways in turns, and puts everything back",
                self.record.id
            );
            pieces.push(Piece::Lines(self.guess.iter().map(PredictedGain::says).chain([tried]).collect()));
        }
    }
}

/// What a finding rests on, what to try, and what would show that it is wrong.
pub(super) fn evidence(finding: &Finding) -> Piece {
    let mut lines = vec![format!("Because {}.", finding.evidence.join("; "))];
    let tries: Vec<String> = finding.tries.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
    if !tries.is_empty() {
        lines.push(format!("Try {}.", tries.join(", or ")));
    }
    lines.push(finding.wrong_if.clone());
    Piece::Lines(lines)
}

fn nothing(record: &Record) -> String {
    match symptom(record) {
        Symptom { is_there: false, .. } => "No problem found (docs/findings.md).".to_owned(),
        Symptom { is_there: true, .. } if record.error.is_some() => {
            "Nothing in the record says more than the failure itself. 'linerate records show' has every counter that moved."
                .to_owned()
        }
        Symptom { is_there: true, .. } => {
            "Nothing in the record says. 'linerate records show' has every counter that moved.".to_owned()
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// What a run keeps of each record until its end: which, and its first finding.
pub(crate) struct FirstFinding {
    pub(crate) record: String,
    pub(crate) direction: Direction,
    pub(crate) failed: bool,
    pub(crate) limit: Option<String>,
    pub(crate) finding: Option<Finding>,
}

impl FirstFinding {
    pub(crate) fn of(record: &Record) -> FirstFinding {
        FirstFinding {
            record: record.id.clone(),
            direction: record.direction,
            failed: record.result.is_none(),
            limit: limit(record),
            finding: findings(record).into_iter().next(),
        }
    }
}

/// Three lines for the end of a run, for each direction: what limits it most, on what evidence, and where to read on. Empty without
/// trials.
pub(crate) fn in_three_lines(firsts: &[FirstFinding], width: Option<u16>) -> String {
    let Some(last) = firsts.last() else { return String::new() };
    let strongest = strongest(firsts);
    if strongest.is_empty() {
        let said = match (&last.limit, last.failed) {
            (_, true) => "The last trial has no figures.",
            (Some(limit), false) => limit,
            (None, false) => "No rule found anything that limits.",
        };
        let more = format!("linerate explain {} shows what is known.", last.record);
        return wrapped(&format!("{}\n", sentence(&format!("{said} {more}"))), width);
    }
    let lines = strongest.iter().flat_map(|one| {
        let because = one.finding.evidence.first().map(|clause| format!("Because {clause}."));
        let advice = match one.finding.tries.first() {
            Some(change) => format!("Try {}={}: linerate explain --try {}", change.name, change.value, one.record),
            None => format!("More: linerate explain {}", one.record),
        };
        [Some(one.sentence()), because, Some(advice)].into_iter().flatten()
    });
    let text: String = lines.map(|line| format!("{}\n", sentence(&line))).collect();
    wrapped(&text, width)
}

/// The first of the same, for records that nobody can ask for again.
pub(crate) fn in_a_line(firsts: &[FirstFinding], width: Option<u16>) -> String {
    let strongest = strongest(firsts);
    let text: String = strongest.iter().map(|one| format!("{}\n", sentence(&one.sentence()))).collect();
    wrapped(&text, width)
}

/// What limits the trials of a direction, or of several alike.
struct Strongest<'a> {
    /// Told where a run has trials of others too.
    directions: Vec<Direction>,
    /// Its trials go both ways at once.
    is_both: bool,
    record: &'a str,
    finding: &'a Finding,
    /// In how many trials of how many it is the first finding.
    same: usize,
    of: usize,
}

impl Strongest<'_> {
    /// With `(sure, in 3 of 5 trials)`.
    fn sentence(&self) -> String {
        // What is on a way, and not of a machine, may be on either.
        let way = Some(self.finding.direction).filter(|_| self.is_both && self.finding.machine.is_none());
        let directions = [join(&self.directions), join(way.as_slice())];
        let direction: String = directions.iter().filter(|one| !one.is_empty()).map(|one| format!("{one}: ")).collect();
        let of = if self.of > 1 { format!(", in {} of {} trials", self.same, self.of) } else { String::new() };
        format!("{direction}{} ({}{of})", self.finding.sentence, self.finding.sure.name())
    }
}

/// Of each direction what its trials have in common: the finding that has most weight in all of them together, as the trial says it
/// in which it has most.
fn strongest(firsts: &[FirstFinding]) -> Vec<Strongest<'_>> {
    let weigh = |finding: &Finding| f64::from(finding.sure as u8) + finding.weight;
    let of_direction = |direction: Direction| {
        let (mut of, mut alike) = (0, Vec::<(f64, Strongest<'_>)>::new());
        for first in firsts.iter().filter(|first| first.direction == direction) {
            of += 1;
            let Some(finding) = &first.finding else { continue };
            let is_same = |other: &Finding| (other.name, other.machine) == (finding.name, finding.machine);
            match alike.iter_mut().find(|(_, one)| is_same(one.finding)) {
                Some((sum, one)) => {
                    *sum += weigh(finding);
                    one.same += 1;
                    if weigh(finding) >= weigh(one.finding) {
                        (one.finding, one.record) = (finding, &first.record);
                    }
                }
                None => {
                    let is_both = direction == Direction::Both;
                    let record = &first.record;
                    let directions = vec![direction];
                    alike.push((weigh(finding), Strongest { directions, is_both, record, finding, same: 1, of: 0 }));
                }
            }
        }
        let (_, one) = alike.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Strongest { of, ..one })
    };
    let mut all: Vec<Strongest<'_>> = Vec::new();
    for one in Direction::ALL.into_iter().filter_map(of_direction) {
        let said = |one: &Strongest<'_>| (one.finding.sentence.clone(), one.finding.sure, one.is_both);
        match all.iter_mut().find(|other| said(other) == said(&one)) {
            Some(other) => {
                other.directions.extend(one.directions);
                (other.same, other.of) = (other.same + one.same, other.of + one.of);
            }
            None => all.push(one),
        }
    }
    let is_of_all = |one: &Strongest<'_>| firsts.iter().all(|first| one.directions.contains(&first.direction));
    all.iter_mut().filter(|one| is_of_all(one)).for_each(|one| one.directions.clear());
    all
}

fn join(directions: &[Direction]) -> String {
    directions.iter().map(Direction::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use linerate_results::findings::cases;

    use super::*;

    #[test]
    fn a_board_that_overruns() {
        let case = cases::cases().into_iter().find(|case| case.name.starts_with("fec: FIFO")).unwrap();
        let explained = Explained::of(&case.record, None);
        insta::assert_snapshot!("a_board_that_overruns", explained.answer().text(Some(110)));
        insta::assert_snapshot!("a_board_that_overruns_in_markdown", explained.answer().markdown());
        let json: serde_json::Value = serde_json::from_str(&explained.json()).unwrap();
        assert_eq!(json["findings"][0]["name"], "fifo-overrun");
        assert_eq!(json["findings"][0]["tries"][0]["name"], "target.pause.tx");
    }

    #[test]
    fn a_clean_run_and_one_of_which_nothing_is_known() {
        let mut record = cases::cases().remove(0).record;
        insta::assert_snapshot!("a_clean_run", Explained::of(&record, None).answer().text(Some(110)));
        // As an old agent without root may leave it.
        record.target.environment = Default::default();
        record.host.environment.nic = None;
        (record.target.cpu, record.host.cpu, record.loss_budget, record.unaccounted) = (None, None, None, None);
        let flow = &mut record.result.as_mut().unwrap().flow;
        (flow.packets_lost, flow.loss_ratio) = (Some(9_000), Some(0.2));
        insta::assert_snapshot!(
            "a_run_of_which_nothing_is_known",
            Explained::of(&record, None).answer().text(Some(110))
        );
    }

    #[test]
    fn the_end_of_a_run() {
        let lines = |name: &str| {
            let all = cases::cases();
            let firsts: Vec<FirstFinding> = all
                .iter()
                .filter(|case| case.name.starts_with(name))
                .map(|case| FirstFinding::of(&case.record))
                .collect();
            in_three_lines(&firsts, None)
        };
        let overrun = lines("fec: FIFO");
        assert_eq!(overrun.lines().count(), 3, "{overrun}");
        assert!(
            overrun.contains("(sure)") && overrun.contains("Try target.pause.tx=on: linerate explain --try 0"),
            "{overrun}"
        );
        assert!(lines("igb").contains("in 1 of 2 trials"), "{}", lines("igb"));
        assert!(lines("requests in").starts_with("No rule found anything"), "{}", lines("requests in"));
        assert_eq!(in_three_lines(&[], None), "");
    }

    #[test]
    fn the_end_of_a_run_both_ways() {
        let all = cases::cases();
        let first = |name: &str| FirstFinding::of(&all.iter().find(|case| case.name.starts_with(name)).unwrap().record);
        let firsts = |names: &[&str]| names.iter().map(|name| first(name)).collect::<Vec<FirstFinding>>();
        let (tx, rx, once) =
            ("a token bucket at the sender's egress", "losses without SACK", "window scaling that is taken");
        let said = in_a_line(&firsts(&[tx, rx, rx, once]), None);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("tx: A shaper at the target's own egress limits. (likely)"), "{said}");
        assert!(
            lines[1].starts_with("rx: TCP repairs what is lost without")
                && lines[1].ends_with("(likely, in 2 of 3 trials)"),
            "{said}"
        );
        // Of both directions the same is said once.
        let again = FirstFinding { direction: Direction::Rx, ..first(tx) };
        let said = in_a_line(&[first(tx), again], None);
        assert!(said.starts_with("A shaper at") && said.ends_with("(likely, in 2 of 2 trials)\n"), "{said}");
        let again = FirstFinding { direction: Direction::Both, ..first(tx) };
        let said =
            in_a_line(&[first(tx), first(rx), FirstFinding { direction: Direction::Tx, ..first(tx) }, again], None);
        assert_eq!(said.lines().count(), 3, "{said}");
        // What most of them have is said, though one weighs more alone.
        let said = in_a_line(&firsts(&["segments that an egress filter", "segments that an egress filter", rx]), None);
        assert!(
            said.starts_with("Packets vanished in the host before its link") && said.contains("in 2 of 3 trials"),
            "{said}"
        );
    }
}
