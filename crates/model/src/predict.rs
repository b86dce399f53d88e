//! What a change gives: the sets' predictions, what they agree about, and what would make them agree more.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::cost::{Load, Workload};
use crate::fit::{Effort, Ensemble, Modelled, WITHIN, modelled};
use crate::flow::Resource;
use crate::machine::Machine;
use crate::parameter::Parameter;
use crate::random::SplitMix;
use crate::table::{Measured, Row};

/// Sets without which nothing is predicted.
const FEW: usize = 30;
/// The widest interval that is a prediction: so far from its middle, as a share of it.
const WIDE: f64 = 0.30;
/// A stream that loses frames in a larger share of the sets is none that is modelled.
const MANY: f64 = 0.1;
/// Of what the sets' middle misses the rows by, so much is taken for the fit's own error. Most of it is noise of the rows, which the
/// sets' differences have in them already: with all of it intervals are a third wider, and hold hidden truths more often than they
/// say (docs/predict.md).
const OWN_ERROR: f64 = 0.25;
/// A load of which a larger share arrives met no limit.
const ARRIVES: f64 = 0.97;
/// What is measured afterwards has noise of its own, drawn so many times for each set.
const DRAWS: usize = 16;
/// A parameter or a trial that goes with the prediction less than so is not named.
const WORTH_NAMING: f64 = 0.3;

/// Sets whose figures differ by less than such a share agree: nothing is to be told apart.
const NARROW: f64 = 0.01;

/// A prediction of throughput, Mbit/s of payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Which row.
    pub row: Row,
    /// The sets' median.
    pub median: f64,
    /// The interval that holds eight of ten measurements: the sets' differences, the fit's own error, and the noise that a row has.
    pub interval: (f64, f64),
    /// What it would be if the change did nothing: measured, or else as the sets have it. `None` where the change is of the load
    /// alone, and no row is like it.
    pub null: Option<Null>,
    /// What limits, in most sets.
    pub limit: Resource,
    /// The parameter that the sets' differences go with most, and how much (Spearman's rank correlation, squared).
    pub widest: Option<(Parameter, f64)>,
    /// The trial whose figure would tell most of the sets apart, and how much, likewise.
    pub trial: Option<(Load, f64)>,
    /// Why it is none, where it is none.
    pub refusal: Option<Refusal>,
}

impl Prediction {
    /// Whether its rows tell it, or it was never more than bounds.
    pub fn tells(&self) -> bool {
        matches!(self.refusal, None | Some(Refusal::Unmeasured))
    }

    /// Whether what was measured afterwards, Mbit/s, is inside the interval.
    pub fn holds(&self, mbps: f64) -> bool {
        (self.interval.0..=self.interval.1).contains(&mbps)
    }

    /// By how much the median and the null miss what was measured afterwards, Mbit/s.
    pub fn errors(&self, mbps: f64) -> (f64, Option<f64>) {
        ((self.median - mbps).abs(), self.null.map(|null| (null.mbps - mbps).abs()))
    }
}

/// How much nearer the medians are than the null, by their errors: 1 is right, 0 no better, less is worse. Those without a null
/// do not count. `None` where the null is right, and where nothing was predicted.
pub fn skill(errors: impl Iterator<Item = (f64, Option<f64>)>) -> Option<f64> {
    let errors = errors.filter_map(|(ours, null)| Some((ours, null?)));
    let (ours, nulls) = errors.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (nulls > 0.0).then(|| 1.0 - ours / nulls)
}

/// The figure without the change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Null {
    /// Mbit/s of payload.
    pub mbps: f64,
    /// A row of the table says so; else the sets do.
    pub measured: bool,
}

/// Why a prediction is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Too few sets reproduce the rows.
    FewSets(usize),
    /// The sets do not agree: the interval's half, as a share of its middle.
    Wide(f64),
    /// Nothing was measured: these are bounds.
    Unmeasured,
    /// The stream loses frames in so large a share of the sets, and recovery from loss is not modelled.
    StreamLoses(f64),
    /// Nobody said how this was set while the rows were measured, so what a change of it gives is not known.
    UnknownBefore(String),
    /// Everything that was offered in the rows arrived: no row says where the machine's limit is.
    NoLimitMet,
    /// Whether what the rows lost is what was too much, or a share of any load, they do not tell.
    LimitOrShare,
    /// No row is so far below its offered load that its repeats' differences are not as large, though some was lost.
    UnlikeRepeats,
}

impl Refusal {
    /// For programs.
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::FewSets(_) => "few-sets",
            Refusal::Wide(_) => "wide",
            Refusal::Unmeasured => "unmeasured",
            Refusal::StreamLoses(_) => "stream-loses",
            Refusal::UnknownBefore(_) => "unknown-before",
            Refusal::NoLimitMet => "no-limit-met",
            Refusal::LimitOrShare => "limit-or-share",
            Refusal::UnlikeRepeats => "unlike-repeats",
        }
    }
}

/// Predicts each of `asked`.
pub fn predict(
    machine: &Machine,
    ensemble: &Ensemble,
    measured: &[(Row, Measured)],
    asked: &[Row],
    effort: Effort,
) -> Vec<Prediction> {
    let trials = Trials::of(machine, ensemble, measured, asked, effort);
    asked.iter().map(|row| one(machine, ensemble, measured, row, &trials, effort)).collect()
}

fn one(
    machine: &Machine,
    ensemble: &Ensemble,
    measured: &[(Row, Measured)],
    row: &Row,
    trials: &Trials,
    effort: Effort,
) -> Prediction {
    let sets = &ensemble.sets;
    let each: Vec<Modelled> = sets.iter().map(|set| modelled(machine, set, row, effort.frames)).collect();
    let floor = floor(measured, row);
    let least = floor.filter(|floor| floor.is_sure).map_or(0.0, |floor| floor.mbps);
    let figures: Vec<f64> = each.iter().map(|one| one.mbps.max(least)).collect();
    let mut random = SplitMix(effort.seed ^ 0xe44);
    // No more arrives than is offered, however wrong the fit.
    let most = row.load.offered_mbps.unwrap_or(f64::INFINITY);
    let error = (OWN_ERROR * ensemble.error).hypot(noise(measured, row, middle(&figures)));
    let mut widen = |mbps: f64| (mbps * (1.0 + error * random.normal())).clamp(0.0, most.max(mbps));
    let mut widened: Vec<f64> = figures.iter().flat_map(|&mbps| [mbps; DRAWS]).map(&mut widen).collect();
    widened.sort_by(f64::total_cmp);
    let at = |share: f64| widened[((widened.len() - 1) as f64 * share).round() as usize];
    let (median, mut interval) = (middle(&figures), (at(0.1), at(0.9)));
    let null = null(machine, sets, measured, row, effort);
    let losing = each.iter().filter(|one| one.outcome.delivered < one.outcome.sent).count() as f64 / each.len() as f64;
    let half = (interval.1 - interval.0) / 2.0 / median.max(f64::MIN_POSITIVE);
    let unknown = row.set.iter().find(|set| !is_said(machine, measured, &set.axis));
    let refusal = if measured.is_empty() {
        Some(Refusal::Unmeasured)
    } else if let Some(set) = unknown {
        Some(Refusal::UnknownBefore(set.axis.clone()))
    } else if sets.len() < FEW {
        Some(Refusal::FewSets(sets.len()))
    } else if row.load.workload.is_stream() && losing > MANY {
        Some(Refusal::StreamLoses(losing))
    } else if floor.is_some_and(|floor| quantile(&figures, 0.1) < floor.mbps * (1.0 - floor.noise))
        || limit(measured, row).is_some_and(|limit| quantile(&figures, 0.9) > limit)
    {
        Some(Refusal::LimitOrShare)
    } else if half > WIDE {
        Some(Refusal::Wide(half))
    } else if is_beyond(measured, row) && !is_known(machine, most_often(&each)) {
        let is_of_way = |one: &Row| one.load.workload.sends() == row.load.workload.sends();
        let lost = |(one, measured): &(Row, Measured)| is_of_way(one) && measured.mbps < ARRIVES * offered(one);
        Some(if measured.iter().any(lost) { Refusal::UnlikeRepeats } else { Refusal::NoLimitMet })
    } else {
        None
    };
    // Whichever of the two it is: a limit lets so much through.
    if let (Some(Refusal::LimitOrShare), Some(floor)) = (&refusal, floor) {
        interval.1 = interval.1.max(most.min(floor.mbps * (1.0 + floor.noise)));
    }
    let agree = quantile(&figures, 0.9) - quantile(&figures, 0.1) <= NARROW * median;
    let goes_with = |other: &[f64]| if agree { 0.0 } else { spearman(other, &figures).powi(2) };
    let parameters = machine
        .unknown()
        .into_iter()
        .enumerate()
        .map(|(nth, parameter)| (parameter, goes_with(&sets.iter().map(|set| set[nth]).collect::<Vec<_>>())));
    let most = |best: Option<(Parameter, f64)>, one: (Parameter, f64)| match best {
        Some(best) if best.1 >= one.1 => Some(best),
        _ => Some(one),
    };
    let widest = parameters.fold(None, most).filter(|(_, share)| *share >= WORTH_NAMING);
    let trial = trials.best(goes_with).filter(|(_, share)| *share >= WORTH_NAMING);
    Prediction { row: row.clone(), median, interval, null, limit: most_often(&each), widest, trial, refusal }
}

/// What arrives of a load at least, by rows of as much or more.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Floor {
    mbps: f64,
    /// By how much less may be the same, as a share.
    noise: f64,
    /// Nothing is lost of some load, so what is lost of more is what was too much, and no share of any load.
    is_sure: bool,
}

/// Where so much of a load arrives, as much of a lower one does, or all of it. `None` where no row is of as much.
fn floor(measured: &[(Row, Measured)], row: &Row) -> Option<Floor> {
    let asked = row.load.offered_mbps?;
    let alike = alike(measured, row);
    let higher = alike.iter().filter(|(one, _)| offered(one) >= asked);
    let (_, best) = higher.max_by(|(_, a), (_, b)| a.mbps.total_cmp(&b.mbps))?;
    let is_sure = alike.iter().any(|(one, measured)| measured.mbps >= (1.0 - SAME_LOAD) * offered(one));
    Some(Floor { mbps: asked.min(best.mbps), noise: best.apart(), is_sure })
}

/// What arrives of a load at most if what its rows lost was too much. `None` where that is known: they are of several loads, or a row
/// lost nothing; and where no row loses, or less is asked.
fn limit(measured: &[(Row, Measured)], row: &Row) -> Option<f64> {
    let alike = alike(measured, row);
    let (first, best) = alike.iter().max_by(|(_, a), (_, b)| a.mbps.total_cmp(&b.mbps))?;
    let is_one = alike
        .iter()
        .all(|(one, measured)| distance(&one.load, &first.load) < SAME_LOAD && measured.mbps < ARRIVES * offered(one));
    (is_one && offered(row) > offered(first) * (1.0 + SAME_LOAD)).then(|| best.mbps * (1.0 + best.apart()))
}

/// The rows that differ from this one in what is offered alone.
fn alike<'m>(measured: &'m [(Row, Measured)], row: &Row) -> Vec<&'m (Row, Measured)> {
    let is_alike = |one: &Row| {
        one.load.workload == row.load.workload && one.load.payload == row.load.payload && one.set == row.set
    };
    measured.iter().filter(|(one, _)| is_alike(one)).collect()
}

/// Mbit/s; of a load without a limit any number.
fn offered(row: &Row) -> f64 {
    row.load.offered_mbps.unwrap_or(f64::INFINITY)
}

impl Measured {
    /// By how much another figure may differ and be the same, as a share.
    fn apart(&self) -> f64 {
        (1.0 - ARRIVES).max(WITHIN * self.noise)
    }
}

/// Whether the machine's file says how this is set, or every row does.
fn is_said(machine: &Machine, measured: &[(Row, Measured)], axis: &String) -> bool {
    let says = |(one, _): &(Row, Measured)| one.set.iter().any(|set| set.axis == *axis);
    !machine.assumed.contains(axis) || measured.iter().all(says)
}

/// The noise of a figure that is measured afterwards: the rows' median, or that of those rows that meet a limit, or do not, as this one
/// does, where that is more. What arrives of a load below the limit is known to a part in a thousand, and what a limit lets through is
/// not.
fn noise(measured: &[(Row, Measured)], row: &Row, mbps: f64) -> f64 {
    let meets = |row: &Row, mbps: f64| row.load.offered_mbps.is_none_or(|offered| mbps < ARRIVES * offered);
    let of = |rows: &dyn Fn(&Row, f64) -> bool| {
        let these = measured.iter().filter(|(row, measured)| rows(row, measured.mbps));
        middle(&these.map(|(_, measured)| measured.noise).collect::<Vec<_>>())
    };
    let limited = meets(row, mbps);
    of(&|_, _| true).max(of(&|row, mbps| meets(row, mbps) == limited))
}

/// Whether no row of this direction met a limit, and this one is of another machine, or of more than any of them offered.
fn is_beyond(measured: &[(Row, Measured)], row: &Row) -> bool {
    let sends = row.load.workload.sends();
    // What was lost says so itself; else, a set without a limit would reproduce what is nearer to its offered load.
    let limited = |(one, measured): &&(Row, Measured)| {
        let is_bridge = [one.load.workload, row.load.workload].contains(&Workload::Bridge);
        (is_bridge || one.load.workload.sends() == sends)
            && (measured.lost_at.is_some() || measured.mbps < offered(one) - WITHIN * measured.noise * measured.mbps)
    };
    if measured.iter().any(|row| limited(&row)) {
        return false;
    }
    let frames = |load: &Load| load.offered_mbps.unwrap_or(f64::INFINITY) / load.payload;
    let covers = |one: &Row| {
        one.load.workload == row.load.workload
            && one.load.offered_mbps >= row.load.offered_mbps.or(Some(f64::INFINITY))
            && frames(&one.load) >= frames(&row.load)
    };
    !row.set.is_empty() || !measured.iter().any(|(one, _)| covers(one))
}

/// Whether the machine's file says how much of this there is.
fn is_known(machine: &Machine, resource: Resource) -> bool {
    resource == Resource::Link && !machine.unknown().contains(&Parameter::LinkRate)
}

/// The same load with as much of what is set as was measured, or else the nearest size of the same traffic; of another offered
/// load, that no more of it is lost than of the nearest lower one, or of less than any, that as much arrives as did of the
/// nearest; where there is none of these, what the model has without the change. A load that nothing is set beside is its own
/// prediction then, and no null.
fn null(machine: &Machine, sets: &[Vec<f64>], measured: &[(Row, Measured)], row: &Row, effort: Effort) -> Option<Null> {
    let alike = measured.iter().filter(|(one, _)| is_as_much(&one.load, &row.load));
    let alike = alike.filter(|(one, _)| one.set.iter().all(|set| row.set.contains(set)));
    // Of the same size, or the nearest; of those with most of what is set, and of those the nearest load.
    let size = |one: &Row| (one.load.payload / row.load.payload).ln().abs();
    let place = |one: &Row| (size(one), Reverse(one.set.len()), distance(&one.load, &row.load));
    let nearest = alike.min_by(|(a, _), (b, _)| place(a).partial_cmp(&place(b)).unwrap_or(Ordering::Equal));
    if let Some((_, measured)) = nearest {
        return Some(Null { mbps: measured.mbps, measured: true });
    }
    let share = |(one, measured): &(Row, Measured)| Some((one.load.offered_mbps?, measured.mbps));
    let other_loads = measured.iter().filter(|(one, _)| {
        one.load.workload == row.load.workload && one.set.is_empty() && one.load.payload == row.load.payload
    });
    if let Some(asked) = row.load.offered_mbps {
        let nearest = other_loads.filter_map(share).min_by(|a, b| {
            // Lower ones first, and of those the highest.
            let place = |offered: f64| (offered > asked, (asked - offered).abs());
            place(a.0).partial_cmp(&place(b.0)).unwrap_or(Ordering::Equal)
        });
        if let Some((offered, mbps)) = nearest {
            let mbps = if offered > asked { mbps.min(asked) } else { mbps / offered * asked };
            return Some(Null { mbps, measured: true });
        }
    }
    if row.set.is_empty() {
        return None;
    }
    let without = Row { set: Vec::new(), ..row.clone() };
    let figures: Vec<f64> = sets.iter().map(|set| modelled(machine, set, &without, effort.frames).mbps).collect();
    Some(Null { mbps: middle(&figures), measured: false })
}

/// A sender is never quite at the rate that it was asked for: loads that differ by less are the same.
const SAME_LOAD: f64 = 0.005;

/// Whether as much is offered the same way.
fn is_as_much(one: &Load, other: &Load) -> bool {
    one.workload == other.workload && distance(one, other) < SAME_LOAD
}

/// By what share two offered loads differ.
fn distance(one: &Load, other: &Load) -> f64 {
    match (one.offered_mbps, other.offered_mbps) {
        (Some(one), Some(other)) => (one / other - 1.0).abs(),
        (one, other) if one == other => 0.0,
        _ => f64::INFINITY,
    }
}

fn most_often(each: &[Modelled]) -> Resource {
    let mut counts = BTreeMap::<Resource, usize>::new();
    for one in each {
        *counts.entry(one.outcome.limit()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map_or(Resource::Offered, |(resource, _)| resource)
}

/// Octets of payload that a segment has on an MTU of 1500, with timestamps.
const SEGMENT: f64 = 1448.0;

/// Trials of the machine as it is that were not measured, and what each set says of them.
struct Trials(Vec<(Load, Vec<f64>)>);

impl Trials {
    fn of(
        machine: &Machine,
        ensemble: &Ensemble,
        measured: &[(Row, Measured)],
        asked: &[Row],
        effort: Effort,
    ) -> Trials {
        let mut workloads: Vec<Workload> =
            measured.iter().map(|(row, _)| row).chain(asked).map(|row| row.load.workload).collect();
        workloads.dedup();
        workloads.extend([Workload::UdpRx, Workload::UdpTx]);
        // A segment is no longer than the MTU leaves it, which those that were measured tell.
        let streams = measured.iter().filter(|(row, _)| row.load.workload.is_tcp()).map(|(row, _)| row.load.payload);
        let longest = streams.max_by(f64::total_cmp).unwrap_or(SEGMENT);
        let mut loads: Vec<Load> = Vec::new();
        for workload in workloads {
            for payload in [100.0, 400.0, 1470.0] {
                let payload = if workload.is_tcp() { longest.min(payload) } else { payload };
                let load = Load { workload, payload, offered_mbps: None };
                if !loads.contains(&load) && measured.iter().all(|(row, _)| row.load != load) {
                    loads.push(load);
                }
            }
        }
        let figures = |load: &Load| {
            let row = Row { id: String::new(), load: *load, set: Vec::new() };
            let of = |set: &Vec<f64>| modelled(machine, set, &row, effort.frames).mbps;
            ensemble.sets.iter().map(of).collect()
        };
        Trials(loads.iter().map(|load| (*load, figures(load))).collect())
    }

    fn best(&self, goes_with: impl Fn(&[f64]) -> f64) -> Option<(Load, f64)> {
        let each = self.0.iter().map(|(load, figures)| (*load, goes_with(figures)));
        each.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn middle(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The figure below which so large a share of them is; 0 of none.
fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(0.0)
}

/// Spearman's rank correlation; 0 where one side is all the same.
fn spearman(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (ranks(one), ranks(other));
    let count = one.len() as f64;
    let mean = (count - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let deviation = (product(&one, &one) * product(&other, &other)).sqrt();
    if deviation > 0.0 { product(&one, &other) / deviation } else { 0.0 }
}

/// Each value's place in the order, the mean of places where values are the same.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = order[from..].iter().take_while(|&&at| values[at] == values[order[from]]).count();
        let rank = from as f64 + (same as f64 - 1.0) / 2.0;
        for &at in &order[from..from + same] {
            ranks[at] = rank;
        }
        from += same;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Set;

    #[test]
    fn skill_is_how_much_nearer_than_the_null() {
        assert_eq!(skill([(0.0, Some(5.0)), (0.0, Some(3.0)), (7.0, None)].into_iter()), Some(1.0));
        assert_eq!(skill([(4.0, Some(5.0)), (4.0, Some(3.0))].into_iter()), Some(0.0));
        assert_eq!(skill([(16.0, Some(8.0))].into_iter()), Some(-1.0));
        assert_eq!(skill([(1.0, Some(0.0))].into_iter()), None);
        assert_eq!(skill([(1.0, None)].into_iter()), None);
    }

    fn row(payload: f64, offered: f64) -> Row {
        let load = Load { workload: Workload::UdpRx, payload, offered_mbps: Some(offered) };
        Row { id: String::new(), load, set: Vec::new() }
    }

    #[test]
    fn a_limited_figure_is_as_noisy_as_limited_rows() {
        let of = |offered: f64, mbps: f64, noise: f64| (row(1470.0, offered), Measured { mbps, noise, lost_at: None });
        let mut rows = vec![of(40.0, 40.0, 0.01), of(70.0, 69.8, 0.01), of(90.0, 90.0, 0.01), of(115.0, 97.0, 0.1)];
        assert_eq!(noise(&rows, &row(1470.0, 200.0), 97.0), 0.1);
        assert_eq!(noise(&rows, &row(1470.0, 50.0), 50.0), 0.01);
        // Where no row is as it is, all rows say.
        rows.truncate(3);
        assert_eq!(noise(&rows, &row(1470.0, 200.0), 97.0), 0.01);
        // What was lost where a limit is has met one, however much its repeats differ.
        let (noisy, asked) = (Measured { mbps: 90.0, noise: 0.3, lost_at: None }, row(1470.0, 200.0));
        assert!(is_beyond(&[(row(1470.0, 115.0), noisy)], &asked));
        let lost = Measured { lost_at: Some(linerate_path::stage::Stage::Link), ..noisy };
        assert!(!is_beyond(&[(row(1470.0, 115.0), lost)], &asked));
    }

    #[test]
    fn what_every_row_says_is_said() {
        let machine = Machine::shipped("any").unwrap();
        let axis = "rx.hand_up".to_owned();
        let set = Set { axis: axis.clone(), value: "copy".to_owned() };
        let mut rows = vec![(row(1470.0, 100.0), Measured { mbps: 90.0, noise: 0.01, lost_at: None })];
        assert!(!is_said(&machine, &rows, &axis) && is_said(&machine.clone().saying(&set).unwrap(), &rows, &axis));
        rows[0].0.set.push(set);
        assert!(is_said(&machine, &rows, &axis));
        rows.push((row(1470.0, 200.0), rows[0].1));
        assert!(!is_said(&machine, &rows, &axis));
    }

    #[test]
    fn no_change_is_the_same_load_and_no_other() {
        let machine = Machine::shipped("any").unwrap();
        let effort = Effort { sets: 8, generations: 1, frames: 100, seed: 1 };
        let sets = crate::fit::unfitted(&machine, effort).sets;
        let of = |row: Row, mbps: f64| (row, Measured { mbps, noise: 0.01, lost_at: None });
        let mut measured = vec![
            of(row(1470.0, 500.0), 420.0),
            of(row(1470.0, 100.0), 90.0),
            of(row(1470.0, 102.0), 91.0),
            of(row(300.0, 500.0), 95.0),
        ];
        for _ in 0..2 {
            let null = |row: Row| null(&machine, &sets, &measured, &row, effort).expect("a row is like it");
            assert_eq!(null(row(1470.0, 500.0)), Null { mbps: 420.0, measured: true });
            assert_eq!(null(row(1470.0, 100.0)), Null { mbps: 90.0, measured: true });
            assert_eq!(null(row(1470.0, 101.0)), Null { mbps: 90.0 / 100.0 * 101.0, measured: true });
            // Of less than any, all arrives that does of the nearest.
            assert_eq!(null(row(1470.0, 10.0)), Null { mbps: 10.0, measured: true });
            assert_eq!(null(row(1470.0, 95.0)), Null { mbps: 90.0, measured: true });
            // Of a size that was not measured, the nearest.
            assert_eq!(null(row(64.0, 500.0)), Null { mbps: 95.0, measured: true });
            assert_eq!(null(row(1000.0, 500.0)), Null { mbps: 420.0, measured: true });
            measured.reverse();
        }
        // A load of another size and rate is like none of these, and not its own null.
        let mut other = row(64.0, 20.0);
        assert_eq!(null(&machine, &sets, &measured, &other, effort), None);
        other.set.push(Set { axis: "cpu.speed".to_owned(), value: "2".to_owned() });
        assert!(null(&machine, &sets, &measured, &other, effort).is_some_and(|null| !null.measured));
    }

    #[test]
    fn no_segment_is_asked_for_that_the_mtu_does_not_fit() {
        let machine = Machine::shipped("any").unwrap();
        let effort = Effort { sets: 8, generations: 1, frames: 100, seed: 1 };
        let ensemble = crate::fit::unfitted(&machine, effort);
        let longest = |measured: &[f64]| {
            let of = |payload: f64| Row {
                id: String::new(),
                load: Load { workload: Workload::TcpRx, payload, offered_mbps: None },
                set: Vec::new(),
            };
            let said = Measured { mbps: 40.0, noise: 0.01, lost_at: None };
            let rows: Vec<(Row, Measured)> = measured.iter().map(|payload| (of(*payload), said)).collect();
            let Trials(loads) = Trials::of(&machine, &ensemble, &rows, &[of(1448.0)], effort);
            let streams = loads.iter().filter(|(load, _)| load.workload.is_tcp()).map(|(load, _)| load.payload);
            streams.max_by(f64::total_cmp)
        };
        assert_eq!(longest(&[]), Some(1448.0));
        // What was measured is not asked for.
        assert_eq!(longest(&[548.0]), Some(400.0));
    }

    #[test]
    fn ranks_of_equal_values_are_their_mean() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 0.0]), [2.5, 1.0, 2.5, 0.0]);
        assert!((spearman(&[1.0, 2.0, 3.0], &[1.0, 8.0, 27.0]) - 1.0).abs() < 1e-12);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[5.0, 5.0, 5.0]), 0.0);
    }
}
