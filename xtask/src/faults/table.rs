//! The table of cases as they end, and the figures of the goals.
//! Judges nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::case::Case;
use super::judge::{Judged, Kind, Verdict};
use super::trial::Outcome;

/// The line above the table.
pub(super) fn heading(seed: u64) -> String {
    format!(
        "seed {seed}; a case again: cargo xtask faults --seed {seed} --only NUMBER --keep\n\
         {:>4} {:<8} {:<10} {:<22} {:<34} {:<30} verdict",
        "case", "between", "workload", "family", "bite", "first finding"
    )
}

/// A case's lines: what it was and what was said; and of one that went wrong, what was planted and what a user reads.
pub(super) fn row(case: &Case, outcome: &Outcome, judged: &Judged) -> String {
    let bites: Vec<&str> = outcome.bites.iter().map(|(text, _)| text.as_str()).collect();
    let first = judged.findings.first().map(|finding| finding.text());
    let mut notes = String::new();
    if !judged.sure_and_wrong.is_empty() {
        let _ = write!(notes, " and SURE: {}", judged.sure_and_wrong.join(", "));
    }
    if let Some((name, share)) = &judged.largest_time {
        let _ = write!(notes, "  [{name} {:.0} %", share * 100.0);
        let is_more = |share: &f64| *share > 0.05 && name != "unaccounted";
        let unaccounted = judged.unaccounted_time.filter(is_more);
        let _ = unaccounted.map(|share| write!(notes, ", unaccounted {:.0} %", share * 100.0));
        notes.push(']');
    }
    if let Some((rate, false)) = judged.rate {
        let carries = case.carries_bps.unwrap_or_default() as f64 / 1e6;
        let _ = write!(notes, "  (tells {rate} of {carries} Mbit/s)");
    }
    if let Some((length, false)) = judged.length {
        let _ = write!(notes, "  (tells {length:.2} of {:.2} s)", case.lasts_ms.unwrap_or_default() as f64 / 1e3);
    }
    if judged.is_crowded {
        let _ = write!(notes, "  (others had {:.1} CPUs)", outcome.others_cpu);
    }
    let mut line = format!(
        "{:>4} {:<8} {:<10} {:<22} {:<34} {:<30} {}{notes}",
        case.number,
        case.between.name(),
        case.plan,
        case.families.join("+"),
        bites.join(", "),
        first.unwrap_or_else(|| "-".to_owned()),
        judged.verdict.name(),
    );
    if !judged.is_good() {
        let _ = write!(line, "\n       planted: {}; {}", case.what.join("; "), case.set.join(" "));
        let _ = write!(line, "\n       says:    {}", judged.sentence);
        let others: Vec<String> = judged.findings.iter().skip(1).map(|finding| finding.text()).collect();
        if !others.is_empty() {
            let _ = write!(line, "\n       besides: {}", others.join(", "));
        }
    }
    line
}

/// A case without an answer.
pub(super) fn broken(case: &Case, why: &str) -> String {
    let what = case.what.join("; ");
    format!(
        "{:>4} {:<8} {:<10} {:<22} {}: {why}\n       planted: {what}; {}",
        case.number,
        case.between.name(),
        case.plan,
        case.families.join("+"),
        Verdict::Broken.name(),
        case.set.join(" "),
    )
}

/// What the goals ask, and whether they are met.
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) is_met: bool,
}

/// A goal: its name, how many hold of how many, and the least share or the most.
struct Goal {
    what: &'static str,
    count: usize,
    of: usize,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    /// With a count that is allowed however few there are.
    AtMost(f64),
}

impl Goal {
    fn is_met(&self) -> bool {
        let (count, of) = (self.count as f64, self.of as f64);
        match self.bound {
            Bound::AtLeast(share) => count >= share * of,
            Bound::AtMost(share) => count <= share * of,
        }
    }

    fn line(&self) -> String {
        let share = if self.of == 0 { 0.0 } else { 100.0 * self.count as f64 / self.of as f64 };
        let goal = match self.bound {
            Bound::AtLeast(share) => format!("at least {:.0} %", share * 100.0),
            Bound::AtMost(0.0) => "none".to_owned(),
            Bound::AtMost(share) => format!("at most {:.0} %", share * 100.0),
        };
        let met = if self.is_met() { "" } else { "  MISSED" };
        format!("{:<46} {:>4} of {:<4} {share:>5.1} %   goal: {goal}{met}\n", self.what, self.count, self.of)
    }
}

/// Over all cases; `broken` of them had no answer.
pub(super) fn summary(judged: &[Judged], broken: usize) -> Summary {
    let count = |of: &dyn Fn(&Judged) -> bool| judged.iter().filter(|one| one.verdict.counts() && of(one)).count();
    let verdict = |kind: Kind, verdict: Verdict| count(&|one| one.kind == kind && one.verdict == verdict);
    let of = |kind: Kind| count(&|one| one.kind == kind);
    let faults = of(Kind::Fault);
    let goals = [
        Goal {
            what: "faults: the true cause is first",
            count: verdict(Kind::Fault, Verdict::Right),
            of: faults,
            bound: Bound::AtLeast(0.95),
        },
        Goal {
            what: "faults: silent",
            count: verdict(Kind::Fault, Verdict::Silent),
            of: faults,
            bound: Bound::AtMost(0.0),
        },
        Goal {
            what: "all: wrong and sure",
            count: count(&|one| !one.sure_and_wrong.is_empty()),
            of: count(&|_| true),
            bound: Bound::AtMost(0.0),
        },
        Goal {
            what: "healthy: a false finding",
            count: verdict(Kind::Healthy, Verdict::False),
            of: of(Kind::Healthy),
            bound: Bound::AtMost(0.01),
        },
        Goal {
            what: "cannot begin: the sentence names the cause",
            count: verdict(Kind::Refused, Verdict::Right),
            of: of(Kind::Refused),
            bound: Bound::AtLeast(0.95),
        },
        Goal {
            what: "time budget: at most 5 % unaccounted",
            count: count(&|one| one.unaccounted_time.is_some_and(|share| share <= 0.05)),
            of: count(&|one| one.unaccounted_time.is_some()),
            bound: Bound::AtLeast(0.9),
        },
    ];
    let by_place = |one: &Judged| one.findings.first().is_some_and(|first| first.name == "unaccounted");
    let only_place = count(&|one| one.verdict == Verdict::Right && by_place(one));
    let (told, named) = (count(&|one| one.rate.is_some()), count(&|one| one.rate.is_some_and(|(_, is_it)| is_it)));
    let no_bite = judged.iter().filter(|one| one.verdict == Verdict::NoBite).count();
    let mut text: String = goals.iter().map(Goal::line).collect();
    let drowned = judged.iter().filter(|one| one.verdict == Verdict::Drowned).count();
    let _ = writeln!(
        text,
        "not counted: {no_bite} without a bite, {drowned} drowned by others' programs, {broken} without an answer"
    );
    let later = verdict(Kind::Fault, Verdict::Later);
    let wrong = verdict(Kind::Fault, Verdict::Wrong);
    let _ = writeln!(text, "of the faults, the true cause stands later in {later}, another was named in {wrong}");
    let _ = writeln!(text, "of {told} findings of a slow part of the way, {named} tell its rate within 6 %");
    let _ = writeln!(text, "of the right ones, {only_place} name only where packets vanished, and no pattern");
    let (known, told) = (count(&|one| one.length.is_some()), count(&|one| one.length.is_some_and(|(_, is_it)| is_it)));
    let _ = writeln!(text, "of {known} outages and stops of known length, {told} are told within 0.1 s");
    let mut missed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in judged.iter().filter(|one| one.verdict.counts() && one.verdict != Verdict::Right) {
        missed.entry(&one.family).or_default().push(format!("{} {}", one.number, one.verdict.name()));
    }
    for (family, cases) in missed {
        let _ = writeln!(text, "  {family:<24} {}", cases.join(", "));
    }
    Summary { text, is_met: goals.iter().all(Goal::is_met) && broken == 0 }
}
