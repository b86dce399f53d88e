//! Two sides held against each other: what differs around them, and what differs in their figures, for real or by
//! noise.
//! Measures nothing and prints nothing; chance and time do not come in.

mod around;
pub mod gate;
mod matching;
#[cfg(test)]
mod simulation;
pub mod verdict;

use std::sync::Arc;

use linerate_machine::end::End;
use linerate_stats::shift::{Method, Shift};
use linerate_stats::trend::{Unsteady, unsteady};
use linerate_stats::{ALPHA, holm, median};
use serde::Serialize;

pub use around::{Differs, DoubtCount};
pub use matching::{ComparedSide, FailedTrials, counted, null_sides, split};

use crate::figure::{About, Difference, METRICS, Metric};
use crate::observation::Observation;
use around::Broken;
use matching::Configuration;
use verdict::{Sides, Verdict};

/// What is compared, and how.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// What the sides are told apart by on purpose, such as `mtu`: said, and no reason against a comparison.
    pub compared: Vec<String>,
    /// The metrics to judge; where none are named, the usual ones that both sides have.
    pub metrics: Vec<&'static Metric>,
    /// A smaller difference than this does not matter, as a part of the baseline; absent, each metric's own.
    pub margin: Option<f64>,
    /// The sides are the two halves of one, measured in turns.
    pub halves: bool,
}

/// Two sides held against each other.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What the candidate is compared with.
    pub baseline: Side,
    /// What is compared with it.
    pub candidate: Side,
    /// What differs around them, on purpose or not.
    pub differs: Vec<Differs>,
    /// The doubts that the records carry.
    pub doubts: Vec<DoubtCount>,
    /// What a reader should know of the comparison as a whole.
    pub notes: Vec<String>,
    /// The judgements, by configuration.
    pub judged: Vec<Judged>,
    /// How many judgements share the accepted chance of a false alarm.
    pub family: usize,
    /// Configurations that only one side has: which side, and the configuration.
    pub unmatched: Vec<(String, String)>,
    /// What failed of each configuration.
    pub failed: Vec<FailedTrials>,
}

/// One of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// Records with figures.
    pub records: usize,
    /// Trials that failed.
    pub failed: usize,
    /// The campaigns that they come from.
    pub campaigns: Vec<String>,
    /// When the first started, RFC 3339.
    pub first: Option<String>,
    /// When the last started.
    pub last: Option<String>,
}

/// One metric of one configuration, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The configuration, as `rate=100M direction=tx`; empty where there is one only.
    pub configuration: String,
    /// The metric.
    #[serde(serialize_with = "name_of")]
    pub metric: &'static Metric,
    /// The values' medians and numbers, in the record's unit.
    pub baseline: Summary,
    /// The other side's.
    pub candidate: Summary,
    /// Candidate less baseline; absent where a side has no value.
    #[serde(flatten)]
    pub found: Option<ShiftEstimate>,
    /// What came of it.
    pub verdict: Verdict,
    /// Why this one is to be read with care.
    pub doubts: Vec<String>,
}

/// The values of one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// Their median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// The identifiers of the records that have them. Documents need them, a program has the records.
    #[serde(skip)]
    pub records: Arc<[String]>,
}

/// A shift, in the metric's unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShiftEstimate {
    /// Hodges and Lehmann's estimate.
    pub shift: f64,
    /// Its 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The difference as a part of the baseline: by ratios, as [`verdict::difference`] has it; absent where the baseline's median is 0,
    /// or the metric is told as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
    /// The interval's ends likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_interval: Option<(f64, f64)>,
    /// The test's p by itself.
    pub p: f64,
    /// As it counts among all that is judged (Holm).
    pub p_corrected: f64,
    /// Whether the repeats were taken as pairs.
    pub paired: bool,
    /// The smallest difference that this many repeats would have shown, of the same kind as the metric's margin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// The same in the metric's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectable_shift: Option<f64>,
}

/// Whether this trial says anything of what is called so, as [`CompareOptions::compared`] calls it.
pub fn is_told(trial: &Observation, name: &str) -> bool {
    let compared = [name.to_owned()];
    trial.around.facts().any(|(fact, _)| around::is_on_purpose(fact, &compared))
}

/// Holds two sides against each other.
pub fn compare(baseline: &[&Observation], candidate: &[&Observation], wish: &CompareOptions) -> Comparison {
    let matched = matching::matched(baseline, candidate, &wish.compared);
    let differs = around::differs(&matched, &wish.compared);
    let broken: Vec<Vec<Broken>> = matched.both.iter().map(|one| around::broken(one, &wish.compared)).collect();
    let mut trials: Vec<Trial<'_>> = Vec::new();
    for (configuration, broken) in matched.both.iter().zip(&broken) {
        for metric in metrics(configuration, &wish.metrics) {
            trials.push(Trial { configuration, broken, metric, sides: configuration.sides(metric) });
        }
    }
    let family = trials.iter().filter(|trial| trial.could_tell()).count();
    let alpha = ALPHA / family.max(1) as f64;
    // With more repeats, those count too that have too few yet.
    let alpha_with_more = ALPHA / trials.iter().filter(|trial| trial.why_not().is_none()).count().max(1) as f64;
    let shifts: Vec<Option<Shift>> =
        trials.iter().map(|trial| trial.why_not().is_none().then(|| trial.sides.shift(alpha))?).collect();
    let corrected = corrected(&trials, &shifts);
    let judged = trials.iter().zip(shifts).zip(corrected).map(|((trial, shift), p)| {
        let Trial { configuration, broken, metric, sides: all } = trial;
        let verdict = match (trial.why_not(), &shift) {
            (Some(why), _) => Verdict::NotComparable { why: why.clone() },
            (None, Some(shift)) => verdict::verdict(metric, all, shift, p, alpha_with_more, wish.margin),
            (None, None) => Verdict::CannotTell { more: None },
        };
        let base = median(&all.baseline);
        let mut doubts = around::doubtful(configuration, broken, metric);
        if wish.halves {
            doubts.extend(hidden_by_halves(configuration, metric, alpha));
        } else if configuration.one_after_the_other() {
            doubts.extend(unsteady_sides(configuration, metric, &verdict, alpha / 2.0));
        }
        let of_side = |which, median| {
            let records = configuration.ids(which, metric);
            Summary { count: records.len(), median, records }
        };
        Judged {
            configuration: configuration.name.clone(),
            metric,
            baseline: of_side(ComparedSide::Baseline, base),
            candidate: of_side(ComparedSide::Candidate, median(&all.candidate)),
            found: shift.map(|shift| found(metric, all, &shift, p, alpha)),
            verdict,
            doubts,
        }
    });
    let judged: Vec<Judged> = judged.collect();
    Comparison {
        baseline: Side::of(baseline),
        candidate: Side::of(candidate),
        doubts: around::doubts(&matched),
        notes: matching::notes(&matched, &judged),
        differs,
        judged,
        family,
        unmatched: matched.unmatched(),
        failed: matched.failed,
    }
}

impl Comparison {
    /// Marks what a comparison of a side with itself found different: there the noise is not what the tests take it
    /// for. `whose` is `baseline` or `candidate`.
    pub fn doubt_by(&mut self, whose: &str, itself: &Comparison) {
        self.doubt(itself, &|words| {
            format!("the {whose} differs from itself ({words}): its repeats are not alike, whatever the verdict says")
        });
    }

    /// The same by A/A pairs: `itself` holds their two sides against each other. What came of them is said in any case.
    pub fn doubt_by_pairs(&mut self, whose: &str, itself: &Comparison) {
        self.doubt(itself, &|words| {
            format!(
                "in the A/A trials of the {whose} like differs from like ({words}): noise alone makes such differences, \
                 whatever the verdict says"
            )
        });
        self.notes.push(format!("A/A trials of the {whose}: {}", itself.told_of_pairs()));
    }

    fn doubt(&mut self, itself: &Comparison, sentence: &dyn Fn(&str) -> String) {
        for alarm in itself.judged.iter().filter(|judged| judged.verdict.is_found()) {
            // Where the sides vary in different things, a configuration has another name in one of them alone.
            let has_name = self.judged.iter().any(|judged| judged.configuration == alarm.configuration);
            let same = |judged: &&mut Judged| {
                judged.metric.name == alarm.metric.name && (!has_name || judged.configuration == alarm.configuration)
            };
            for judged in self.judged.iter_mut().filter(same) {
                judged.doubts.push(sentence(&alarm.verdict.words(alarm.metric)));
            }
        }
    }

    /// What came of a comparison of the two sides of A/A pairs, in a sentence or two.
    pub fn told_of_pairs(&self) -> String {
        let of = |judged: &Judged| match judged.configuration.as_str() {
            "" => judged.metric.title.clone(),
            configuration => format!("{} ({configuration})", judged.metric.title),
        };
        let alarms: Vec<String> = self
            .judged
            .iter()
            .filter(|judged| judged.verdict.is_found())
            .map(|judged| format!("{} {}", of(judged), judged.verdict.words(judged.metric)))
            .collect();
        if !alarms.is_empty() {
            let what = "whatever makes that difference between like and like is in every other difference too.";
            return format!("the second side is not like the first: {}; {what}", alarms.join(", "));
        }
        let could = |judged: &&Judged| judged.found.is_some_and(|found| found.detectable.is_some());
        let Some(first) = self.judged.iter().find(could) else {
            return "too few repeats to tell whether the two sides are alike.".to_owned();
        };
        // Of the first metric, which is the one that people look at; where it is told least finely.
        let of_it = self.judged.iter().filter(|judged| judged.metric.name == first.metric.name);
        let coarsest = of_it.filter_map(|judged| judged.found?.detectable).fold(0.0, f64::max);
        let size = match first.metric.compared.difference {
            Difference::Relative => format!("{:.1} % of {}", coarsest * 100.0, first.metric.title),
            Difference::Absolute => {
                format!(
                    "{:.3} {} of {}",
                    coarsest * first.metric.unit.scale(),
                    first.metric.unit.of_difference(),
                    first.metric.title
                )
            }
        };
        format!("no difference was found between the two sides; one of {size} would have shown.")
    }
}

/// What is judged of a configuration: what both sides have values of.
fn metrics(configuration: &Configuration, wanted: &[&'static Metric]) -> Vec<&'static Metric> {
    let has = |metric: &Metric| {
        let any = |side: &[&Observation]| side.iter().any(|one| one.value(metric).is_some());
        any(&configuration.baseline) && any(&configuration.candidate)
    };
    if !wanted.is_empty() {
        return wanted.iter().copied().filter(|metric| has(metric)).collect();
    }
    let by_octets = METRICS.iter().any(|metric| metric.about == About::CpuByOctets(End::Target) && has(metric));
    METRICS
        .iter()
        .filter(|metric| metric.compared.usual && has(metric))
        // By packets and by octets, CPU time says nearly the same; each more judgement takes from the others.
        .filter(|metric| !(by_octets && matches!(metric.about, About::CpuByPackets(_))))
        .collect()
}

/// A metric of a configuration, which is judged where its two figures mean the same.
struct Trial<'a> {
    configuration: &'a Configuration<'a>,
    broken: &'a [Broken],
    metric: &'static Metric,
    sides: Sides,
}

impl Trial<'_> {
    /// Why the two figures cannot be held against each other.
    fn why_not(&self) -> Option<&String> {
        around::incomparable(self.broken, self.metric)
    }

    fn could_tell(&self) -> bool {
        self.why_not().is_none() && self.sides.could_tell()
    }
}

/// Holm's p for each trial, among those that could come to a finding at all; the others keep their own, which is above any level.
fn corrected(trials: &[Trial<'_>], shifts: &[Option<Shift>]) -> Vec<f64> {
    let places: Vec<usize> = (0..trials.len()).filter(|&at| trials[at].could_tell() && shifts[at].is_some()).collect();
    let mut corrected: Vec<f64> = shifts.iter().map(|shift| shift.map_or(1.0, |shift| shift.p)).collect();
    let p: Vec<f64> = places.iter().map(|&at| corrected[at]).collect();
    for (at, p) in places.into_iter().zip(holm(&p)) {
        corrected[at] = p;
    }
    corrected
}

/// What a verdict between one time and another is doubted for: that a side's values rose or fell all the while, which a difference may be
/// more of, or that they wandered, so that they say less than as many independent ones. `level` is that of each side's tests.
fn unsteady_sides(configuration: &Configuration<'_>, metric: &Metric, verdict: &Verdict, level: f64) -> Vec<String> {
    let of = |which: ComparedSide| {
        let side = which.name();
        let trend = |way: &str| {
            format!("the values of the {side} {way} from trial to trial, and the difference may be more of that")
        };
        let (is_found, is_told) = (verdict.is_found(), matches!(verdict, Verdict::Same { .. }) || verdict.is_found());
        match unsteady(&configuration.in_time(&[which], metric), level)? {
            Unsteady::Rises => is_found.then(|| trend("rise")),
            Unsteady::Falls => is_found.then(|| trend("fall")),
            Unsteady::Wanders => is_told.then(|| {
                format!(
                    "each value of the {side} is near the one before: its repeats are not independent, and the interval is too narrow"
                )
            }),
        }
    };
    [ComparedSide::Baseline, ComparedSide::Candidate].into_iter().filter_map(of).collect()
}

/// What two halves measured in turns have both alike, whatever comes of them.
fn hidden_by_halves(configuration: &Configuration<'_>, metric: &Metric, level: f64) -> Option<String> {
    let how = match unsteady(&configuration.in_time(&[ComparedSide::Baseline, ComparedSide::Candidate], metric), level)?
    {
        Unsteady::Rises => "the values rise from trial to trial",
        Unsteady::Falls => "the values fall from trial to trial",
        Unsteady::Wanders => "each value is near the one before",
    };
    Some(format!("{how}, which halves in turns hide: another time may differ by more than they do"))
}

fn found(metric: &Metric, sides: &Sides, shift: &Shift, p_corrected: f64, alpha: f64) -> ShiftEstimate {
    let of = verdict::unit_of_difference(metric, median(&sides.baseline));
    let is_part = metric.compared.difference == Difference::Relative;
    let relative = verdict::difference(metric, sides, shift).filter(|_| is_part);
    // Of next to nothing, a part may be more than a number can be.
    let part = |value: f64| Some(value).filter(|value| value.is_finite());
    ShiftEstimate {
        shift: shift.estimate,
        interval: shift.interval,
        relative: relative.and_then(|(value, _)| part(value)),
        relative_interval: relative.and_then(|(_, interval)| {
            let (low, high) = interval?;
            part(low).zip(part(high))
        }),
        p: shift.p,
        p_corrected,
        paired: shift.method == Method::SignedRank,
        detectable: of.and_then(|of| part(shift.detectable(alpha)? / of)),
        detectable_shift: shift.detectable(alpha),
    }
}

impl Side {
    fn of(observations: &[&Observation]) -> Side {
        let failed = observations.iter().filter(|one| one.failed).count();
        let mut campaigns: Vec<String> = observations.iter().map(|one| one.campaign.clone()).collect();
        campaigns.sort();
        campaigns.dedup();
        let started = || observations.iter().map(|one| &one.started_at);
        Side {
            records: observations.len() - failed,
            failed,
            campaigns,
            first: started().min().cloned(),
            last: started().max().cloned(),
        }
    }
}

fn name_of<S: serde::Serializer>(metric: &&'static Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&metric.name)
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;

    use super::*;
    use crate::record::{NullSide, Record};
    use crate::{id, sample};

    /// Eight rounds of these loads in one campaign, received as `through` says.
    fn campaign(
        name: &str,
        loads: &[u32],
        through: impl Fn(u32, u32) -> f64,
        change: impl Fn(&mut Record),
    ) -> Vec<Observation> {
        let mut made = Vec::new();
        for repeat in 0..8 {
            for &load in loads {
                let mut record = sample::udp(made.len() as u32, Direction::Rx, load, through(repeat, load));
                // Campaign B an hour after A.
                let hours = u64::from(name.as_bytes()[0]);
                record.id = id::id(hours * 3_600_000 + made.len() as u64, [1; 10]);
                (record.campaign, record.trial.repeat) = (name.to_owned(), repeat);
                change(&mut record);
                made.push(Observation::of(&record));
            }
        }
        made
    }

    fn all(side: &[Observation]) -> Vec<&Observation> {
        side.iter().collect()
    }

    fn noise(repeat: u32, load: u32) -> f64 {
        f64::from(load) * (0.9 + 0.0005 * f64::from(repeat * 3 % 8))
    }

    /// The verdict on a metric of each configuration.
    fn verdicts(comparison: &Comparison, metric: &str) -> Vec<(String, String)> {
        let of = comparison.judged.iter().filter(|judged| judged.metric.short() == metric);
        of.map(|judged| (judged.configuration.clone(), judged.verdict.words(judged.metric))).collect()
    }

    #[test]
    fn each_configuration_is_judged_by_itself() {
        let baseline = campaign("A", &[100, 200, 300], noise, |_| {});
        let candidate =
            campaign("B", &[100, 200, 400], |r, load| noise(r, load) * if load == 200 { 0.9 } else { 1.0 }, |_| {});
        let comparison = compare(&all(&baseline), &all(&candidate), &CompareOptions::default());
        let said = verdicts(&comparison, "throughput");
        assert_eq!(said[0].0, "rate=100M");
        assert!(said[0].1.starts_with("the same within 0."), "{said:?}");
        assert_eq!(said[1..], [("rate=200M".to_owned(), "slower".to_owned())]);
        assert_eq!(
            comparison.unmatched,
            [("baseline".to_owned(), "rate=300M".to_owned()), ("candidate".to_owned(), "rate=400M".to_owned())]
        );
        assert_eq!((comparison.baseline.records, comparison.differs.len()), (24, 0), "{:?}", comparison.differs);
    }

    #[test]
    fn repeats_of_the_two_sides_need_not_be_as_many() {
        let baseline = campaign("A", &[100], noise, |_| {});
        let candidate = campaign("B", &[100], |r, load| noise(r, load) * 0.9, |_| {});
        let wish = CompareOptions { metrics: vec![Metric::find("throughput").unwrap()], ..CompareOptions::default() };
        // Of 20, 35, 56 and 28 orders two are as extreme as can be: p is 0.1, 0.057, 0.036 and 0.071.
        for (n, m, words) in [(3, 3, "cannot"), (3, 4, "cannot"), (3, 5, "slower"), (5, 3, "slower"), (2, 6, "cannot")]
        {
            let comparison = compare(&all(&baseline)[..n], &all(&candidate)[..m], &wish);
            let judged = &comparison.judged[0];
            assert!(judged.verdict.words(judged.metric).starts_with(words), "{n} and {m}: {judged:?}");
            assert_eq!(comparison.family, usize::from(words == "slower"), "{n} and {m}");
            assert_eq!(judged.found.unwrap().detectable.is_some(), words == "slower", "{n} and {m}");
            // Nothing is corrected here: what could be no finding is a family of none.
            assert_eq!(judged.found.unwrap().p_corrected, judged.found.unwrap().p, "{n} and {m}");
        }
    }

    #[test]
    fn as_many_more_repeats_as_it_asks_for_come_to_a_finding() {
        let baseline = campaign("A", &[100], noise, |_| {});
        let candidate = campaign("B", &[100], |r, load| noise(r, load) * 0.9, |_| {});
        let judged = |n: usize| {
            let comparison = compare(&all(&baseline)[..n], &all(&candidate)[..n], &CompareOptions::default());
            let is_it = |judged: &&Judged| judged.metric.short() == "throughput";
            comparison.judged.iter().find(is_it).unwrap().verdict.clone()
        };
        // With three repeats nothing could be a finding, so nothing shares the level; with four all would.
        let Verdict::CannotTell { more: Some(more) } = judged(3) else { panic!("{:?}", judged(3)) };
        assert!(more > 1, "{more}");
        assert_eq!(judged(3 + more as usize), Verdict::Worse);
    }

    #[test]
    fn what_differs_decides_what_can_be_compared() {
        let baseline = campaign("A", &[100], noise, |_| {});
        let check = |on: &[&str], change: fn(&mut Record), metric: &str, contains: &str| {
            let candidate = campaign("B", &[100], noise, change);
            let wish = CompareOptions {
                compared: on.iter().map(|name| (*name).to_owned()).collect(),
                ..CompareOptions::default()
            };
            let comparison = compare(&all(&baseline), &all(&candidate), &wish);
            let said = verdicts(&comparison, metric);
            let judged = comparison.judged.iter().find(|judged| judged.metric.short() == metric).unwrap();
            let told = format!("{} | {}", said[0].1, judged.doubts.join(" | "));
            assert!(told.contains(contains), "'{contains}' is missing: {told}");
            assert!(!comparison.differs.is_empty());
        };
        let speed: fn(&mut Record) = |r| r.host.environment.nic.as_mut().unwrap().speed_mbps = Some(100);
        check(&[], speed, "throughput", "not comparable: the link's speed in Mbit/s (host) is 1000 against 100");
        check(&["host.speed_mbps"], speed, "throughput", "the same within");
        let ticks: fn(&mut Record) =
            |r| r.target.environment.cpu.irq_time = Some(linerate_machine::environment::IrqTime::Precise);
        check(&[], ticks, "target_us_per_kib", "not comparable: how the kernel accounts for interrupts (target)");
        check(&[], ticks, "host_us_per_kib", "the same within");
        check(&[], ticks, "throughput", "the same within");
        let agent: fn(&mut Record) = |r| r.target.environment.agent_version = Some("0.2.0".to_owned());
        check(&[], agent, "throughput", "the agent's version (target) is 0.1.0 against 0.2.0");
        check(&[], agent, "throughput", "the same within");
        let size: fn(&mut Record) = |r| drop(r.asked.insert("message_size".to_owned(), "64".to_owned()));
        check(&[], size, "loss", "not comparable: the size of messages");
        check(&["message_size"], size, "throughput", "the same within");
        let unread: fn(&mut Record) = |r| {
            r.result.as_mut().unwrap().flow.receiver_api.as_mut().unwrap().name = "trunc".to_owned();
        };
        check(&[], unread, "throughput", "not comparable: the API of the receivers is recvmmsg against trunc");
        check(&["receiver_api"], unread, "throughput", "the same within");
    }

    #[test]
    fn a_verdict_that_a_a_trials_contradict_is_doubted() {
        // Side b, measured in the same rounds, receives as much as side a, or a tenth less.
        let with_pairs = |name: &str, b: f64| {
            let mut all = Vec::new();
            for (side, factor) in [(NullSide::A, 1.0), (NullSide::B, b)] {
                let change = |record: &mut Record| record.trial.null_side = Some(side);
                all.extend(campaign(
                    name,
                    &[100, 200],
                    |r, load| noise(r, load) * if load == 200 { factor } else { 1.0 },
                    change,
                ));
            }
            all
        };
        let candidate = campaign("B", &[100, 200], noise, |_| {});
        let check = |b: f64, note: &str, doubted: usize| {
            let baseline = with_pairs("A", b);
            let baseline = all(&baseline);
            let mut comparison = compare(&counted(&baseline), &all(&candidate), &CompareOptions::default());
            assert_eq!(comparison.baseline.records, 16, "side b counts for nothing else");
            let (a, b) = null_sides(&baseline).unwrap();
            comparison.doubt_by_pairs("baseline", &compare(&a, &b, &CompareOptions::default()));
            let of = |judged: &&Judged| judged.doubts.iter().any(|doubt| doubt.starts_with("in the A/A trials"));
            let found: Vec<&Judged> = comparison.judged.iter().filter(of).collect();
            assert_eq!(found.len(), doubted, "{:?}", comparison.notes);
            assert!(found.iter().all(|judged| judged.configuration == "rate=200M"));
            assert!(comparison.notes.iter().any(|one| one.contains(note)), "{:?}", comparison.notes);
        };
        check(1.0, "A/A trials of the baseline: no difference was found between the two sides; one of", 0);
        check(0.9, "the second side is not like the first: throughput (rate=200M) slower, loss", 4);
        assert!(null_sides(&all(&candidate)).is_none());
    }

    /// What wanders, over 24 repeats: it goes away and comes back, in three turns.
    fn wandering(repeat: u32) -> f64 {
        let [at, turn] = [repeat % 8, repeat / 8 % 2].map(f64::from);
        90.0 + 0.1 * (4.0 - (at - 4.0).abs()) * (1.0 - 2.0 * turn) + 0.001 * at
    }

    #[test]
    fn repeats_that_follow_one_another_are_no_independent_ones() {
        let wish = CompareOptions { metrics: vec![Metric::find("throughput").unwrap()], ..CompareOptions::default() };
        // Three loads of eight rounds, as one configuration.
        let side = |name: &str, through: &dyn Fn(u32) -> f64| {
            let mut made = campaign(name, &[100, 100, 100], |_, _| 90.0, |_| {});
            let place = Metric::find("throughput").unwrap().place();
            for (at, one) in made.iter_mut().enumerate() {
                (one.repeat, one.values[place]) = (at as u32, Some(through(at as u32) * 1e6));
            }
            made
        };
        let noisy = |repeat: u32| 89.6 + 0.1 * f64::from(repeat * 7 % 9);
        let doubts = |baseline: &[Observation], candidate: &[Observation]| {
            let comparison = compare(&all(baseline), &all(candidate), &wish);
            let words = comparison.judged[0].verdict.words(comparison.judged[0].metric);
            let doubts = comparison.judged[0].doubts.iter().filter(|doubt| doubt.contains("near the one before"));
            (words, doubts.map(|doubt| doubt.split(" is").next().unwrap().to_owned()).collect::<Vec<_>>())
        };
        let (steady, other) = (side("A", &noisy), side("B", &|repeat| wandering(repeat)));
        let (words, whose) = doubts(&steady, &other);
        assert!(words.starts_with("the same within"), "{words}");
        assert_eq!(whose, ["each value of the candidate"]);
        let (words, whose) = doubts(&other, &side("C", &|repeat| noisy(repeat) * 0.9));
        assert_eq!((words.as_str(), &whose[..]), ("slower", &["each value of the baseline".to_owned()][..]));
        assert_eq!(doubts(&steady, &side("B", &noisy)).1, [""; 0]);
        // Halves in turns are alike whatever all of it did.
        let halves = |side: &[Observation]| {
            let (one, other) = split(&all(side));
            let judged = compare(&one, &other, &CompareOptions { halves: true, ..wish.clone() }).judged;
            judged[0].doubts.iter().find(|doubt| doubt.contains("halves")).map(|doubt| doubt[..15].to_owned())
        };
        assert_eq!(halves(&steady), None);
        assert_eq!(halves(&other).as_deref(), Some("each value is n"));
        assert_eq!(halves(&side("A", &|repeat| 90.0 + f64::from(repeat))).as_deref(), Some("the values rise"));
    }

    #[test]
    fn a_verdict_between_one_time_and_another_is_doubted_where_a_side_has_a_trend() {
        let wish = CompareOptions { metrics: vec![Metric::find("throughput").unwrap()], ..CompareOptions::default() };
        let falling = |repeat: u32, load: u32| f64::from(load) * 0.9 * 0.99_f64.powi(repeat as i32);
        let check = |baseline: &[Observation], candidate: &[Observation], want: &[&str]| {
            let comparison = compare(&all(baseline), &all(candidate), &wish);
            let judged = &comparison.judged[0];
            assert!(judged.verdict.is_found());
            let doubts = judged.doubts.iter().filter(|doubt| doubt.contains("from trial to trial"));
            let whose: Vec<&str> = doubts.map(|doubt| doubt.split(" from").next().unwrap()).collect();
            assert_eq!(whose, want);
        };
        let steady = campaign("A", &[100], noise, |_| {});
        check(&steady, &campaign("B", &[100], falling, |_| {}), &["the values of the candidate fall"]);
        let slower = campaign("B", &[100], |repeat, load| noise(repeat, load) * 0.9, |_| {});
        check(&steady, &slower, &[]);
        // Measured in turns, both sides have it alike.
        let turns = campaign("A", &[100], falling, |_| {});
        check(&turns, &campaign("A", &[100], |repeat, load| falling(repeat, load) * 0.5, |_| {}), &[]);
    }

    #[test]
    fn a_gate_cannot_tell_where_a_good_part_of_the_candidate_failed() {
        let baseline = campaign("A", &[100, 200], noise, |_| {});
        let gate: gate::Gate = "throughput worse 3%".parse().unwrap();
        // So many of the eight trials at each load.
        let check = |failed: [u32; 2], on_candidate: bool, want: gate::Outcome, doubted: usize| {
            let lacking = campaign("B", &[100, 200], noise, |record| {
                let at = usize::from(record.asked["rate"] == "200M");
                if record.trial.repeat < failed[at] {
                    (record.result, record.error) = (None, Some("it broke".to_owned()));
                }
            });
            let sides = if on_candidate { [&baseline, &lacking] } else { [&lacking, &baseline] };
            let comparison = compare(&all(sides[0]), &all(sides[1]), &CompareOptions::default());
            assert_eq!(gate.of(&comparison), want, "{failed:?} {:?}", comparison.failed);
            let is_it = |judged: &&Judged| judged.metric.short() == "throughput";
            let says = |judged: &&Judged| judged.doubts.iter().any(|doubt| doubt.contains("trials of the"));
            assert_eq!(comparison.judged.iter().filter(is_it).filter(says).count(), doubted, "{failed:?}");
        };
        check([0, 0], true, gate::Outcome::Passed, 0);
        check([0, 1], true, gate::Outcome::Passed, 1);
        check([0, 4], true, gate::Outcome::Unknown, 1);
        check([4, 4], true, gate::Outcome::Unknown, 2);
        // Of a load that nothing is left of there is no verdict.
        check([8, 0], true, gate::Outcome::Unknown, 0);
        check([0, 4], false, gate::Outcome::Passed, 1);
    }

    #[test]
    fn a_side_that_differs_from_itself_is_doubted() {
        // The first, fourth, fifth and eighth repeats are of another kind: no drift does that.
        let uneven = |repeat: u32, load: u32| noise(repeat, load) * if matches!(repeat % 4, 0 | 3) { 0.7 } else { 1.0 };
        let baseline = campaign("A", &[100], uneven, |_| {});
        let candidate = campaign("B", &[100], |r, load| noise(r, load) * 0.5, |_| {});
        let wish = CompareOptions { metrics: vec![Metric::find("throughput").unwrap()], ..CompareOptions::default() };
        let (one, other) = split(&all(&baseline));
        assert_eq!((one.len(), other.len()), (4, 4));
        let itself = compare(&one, &other, &wish);
        assert_eq!(verdicts(&itself, "throughput")[0].1, "faster");
        let mut comparison = compare(&all(&baseline), &all(&candidate), &wish);
        comparison.doubt_by("baseline", &itself);
        assert_eq!(verdicts(&comparison, "throughput")[0].1, "slower");
        assert!(
            comparison.judged[0].doubts.iter().any(|doubt| doubt.contains("the baseline differs from itself (faster)"))
        );
        assert!(comparison.notes[0].contains("not in turns"), "{:?}", comparison.notes);
    }
}
