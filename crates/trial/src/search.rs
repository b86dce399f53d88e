//! The most that comes through: which load to try next, and what the trials have decided (RFC 9971, MLRsearch).
//! Knows no machine and no clock: it is asked for a trial, and told what came of it.
//!
//! Several goals are searched for at once, for a trial of one tells of the others. Each goal is approached by way of coarser
//! ones: fewer seconds of trials, wider apart. Loads are rungs of a ladder ([`loads::Loads`]); what trials make of a load is
//! [`bounds`]'.

pub mod bounds;
pub mod goal;
pub mod loads;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bounds::{Bounds, Target, Trial};
use goal::Goal;
use loads::Loads;

/// How many coarser goals lie before each.
const COARSER: i32 = 2;
/// The longest that trials are made where the path holds packets back, seconds (RFC 2544, section 24).
const LONGEST_S: f64 = 60.0;

/// The trial that a search wants next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NextTrial {
    /// Of the ladder.
    pub rung: u32,
    /// In the ladder's unit.
    pub load: f64,
    /// Seconds.
    pub trial_s: f64,
    /// What has lost a larger part of its packets is of high loss for every goal, whatever comes after; `None`: how much is lost
    /// says which load comes next, so that it has to be measured to its end.
    pub forgiven: Option<f64>,
}

/// What was found for a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct GoalResult {
    /// What was searched for.
    pub goal: Goal,
    /// The largest load below the upper bound that keeps to the goal; absent: none does.
    pub lower: Option<f64>,
    /// The smallest load that does not; absent: all do.
    pub upper: Option<f64>,
    /// What came through at the lower bound: the load less the loss of the trial that stands at the exceed ratio.
    pub conditional_throughput: Option<f64>,
    /// How many trials the two bounds rest on.
    pub trials: usize,
    /// Both bounds are known, no farther apart than was asked for.
    pub is_regular: bool,
    /// The highest load of all keeps to the goal: there is no upper bound to be found.
    pub is_unlimited: bool,
    /// Seconds of a trial that counted in full: the goal's, or more where the path holds packets back.
    pub trial_s: f64,
    /// The longest, in seconds, for which the path held packets back and lost none that counts; absent: not for long.
    pub held_s: Option<f64>,
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    goals: Vec<Goal>,
    loads: Loads,
    approaches: Vec<Approach>,
    trials: BTreeMap<u32, Vec<Trial>>,
    opening: Option<Opening>,
    held_s: Option<f64>,
}

/// The first trials: at the most, and at what came through then.
#[derive(Clone, Copy, Debug)]
struct Opening {
    rung: u32,
    trial_s: f64,
    loss_ratio: f64,
    width: u32,
    /// The trial before this one.
    before: Option<u32>,
    left: u8,
}

/// One goal, and how far the search for it is.
#[derive(Clone, Debug)]
struct Approach {
    /// The coarsest first, the goal itself last.
    targets: Vec<Target>,
    at: usize,
    /// What bounded the coarser target.
    hint: Bounds,
    /// Rungs to go on where a bound is missing.
    stride: u32,
    /// The bound from which it was gone on last.
    from: Option<u32>,
}

impl Search {
    /// A search for these goals from `least` to `most`; `None`: there is no goal, one that cannot be, or nothing lies between the
    /// two.
    pub fn new(goals: Vec<Goal>, least: f64, most: f64) -> Option<Search> {
        if !goals.iter().all(Goal::is_sound) {
            return None;
        }
        let width = goals.iter().map(|goal| goal.width).min_by(f64::total_cmp)?;
        let loads = Loads::new(least, most, width)?;
        let approaches: Vec<Approach> = goals.iter().map(|goal| Approach::to(goal, &loads)).collect();
        let first = approaches.iter().map(|approach| approach.targets[0]);
        let opening = Opening {
            rung: loads.top(),
            trial_s: first.clone().map(|target| target.trial_s).fold(0.0, f64::max),
            loss_ratio: first.clone().map(|target| target.loss_ratio).fold(1.0, f64::min),
            width: first.map(|target| target.width).max()?,
            before: None,
            left: 2,
        };
        Some(Search { goals, loads, approaches, trials: BTreeMap::new(), opening: Some(opening), held_s: None })
    }

    /// The trial to measure now; `None`: all is found.
    pub fn ask(&mut self) -> Option<NextTrial> {
        let (rung, trial_s) = match &self.opening {
            Some(opening) => (opening.rung, opening.trial_s),
            None => self.wanted()?,
        };
        let forgiven = self.opening.is_none().then(|| self.most_forgiven());
        Some(NextTrial { rung, load: self.loads.load(rung), trial_s, forgiven })
    }

    /// The most that any goal lets a trial lose.
    fn most_forgiven(&self) -> f64 {
        self.goals.iter().map(|goal| goal.loss_ratio).fold(0.0, f64::max)
    }

    /// The highest rung.
    pub fn top(&self) -> u32 {
        self.loads.top()
    }

    /// The load of a rung that was asked for.
    pub fn load(&self, rung: u32) -> f64 {
        self.loads.load(rung)
    }

    /// The rung of a load that was found.
    pub fn rung(&self, load: f64) -> u32 {
        self.loads.at_most(load)
    }

    /// What a trial came to.
    pub fn heard(&mut self, trial: Trial) {
        self.trials.entry(trial.rung).or_default().push(trial);
        self.look_at_held(&trial);
        let Some(opening) = self.opening.take() else { return };
        self.opening = opening.after(&trial, &self.loads);
        if self.opening.is_none() {
            let tried = [opening.before.unwrap_or(trial.rung), trial.rung];
            let hint = Bounds { lower: tried.into_iter().min(), upper: tried.into_iter().max() };
            self.approaches.iter_mut().for_each(|approach| approach.begin(0, hint));
        }
    }

    /// A buffer that is not full yet lets through what the path does not carry: trials get longer until it is full, or what it
    /// took is less than the width. A busy machine's late end lengthens them too, until it is as little.
    fn look_at_held(&mut self, trial: &Trial) {
        let width = self.goals.iter().map(|goal| goal.width).fold(1.0, f64::min);
        let held_s = trial.held_ratio * trial.intended_s;
        if trial.loss_ratio > self.most_forgiven() || trial.held_ratio < width {
            return;
        }
        self.held_s = Some(self.held_s.map_or(held_s, |longest| longest.max(held_s)));
        let trial_s = (2.0 * trial.intended_s).min(LONGEST_S);
        for target in self.approaches.iter_mut().flat_map(|approach| &mut approach.targets) {
            target.trial_s = target.trial_s.max(trial_s);
            target.sum_s = target.sum_s.max(target.trial_s);
        }
    }

    /// What is known of each goal by now, in their order.
    pub fn found(&self) -> Vec<GoalResult> {
        let found = |(goal, approach): (&Goal, &Approach)| {
            let target = approach.targets.last().expect("a goal is its own last target");
            let bounds = Bounds::of(target, &self.trials);
            let of = |rung: Option<u32>| rung.and_then(|rung| self.trials.get(&rung));
            let loss = of(bounds.lower).map(|trials| target.quantile_loss(trials));
            let lower = bounds.lower.map(|rung| self.loads.load(rung));
            let is_near = |lower, upper| upper - lower <= target.width;
            GoalResult {
                goal: goal.clone(),
                lower,
                upper: bounds.upper.map(|rung| self.loads.load(rung)),
                conditional_throughput: lower.zip(loss).map(|(load, loss)| load * (1.0 - loss)),
                trials: [bounds.lower, bounds.upper].into_iter().filter_map(of).map(Vec::len).sum(),
                is_regular: bounds.lower.zip(bounds.upper).is_some_and(|(lower, upper)| is_near(lower, upper)),
                is_unlimited: bounds.lower == Some(self.loads.top()),
                trial_s: target.trial_s,
                held_s: self.held_s,
            }
        };
        self.goals.iter().zip(&self.approaches).map(found).collect()
    }

    /// Of what the goals want the lowest load, and of that the longest trial: it tells the most of the others.
    fn wanted(&mut self) -> Option<(u32, f64)> {
        let (trials, top) = (&self.trials, self.loads.top());
        let wanted = self.approaches.iter_mut().filter_map(|approach| approach.wants(trials, top));
        wanted.min_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)))
    }
}

impl Opening {
    /// The next of the first trials, or none.
    fn after(self, trial: &Trial, loads: &Loads) -> Option<Opening> {
        // What came through, if more loses all of what is more.
        let passed = loads.load(trial.rung) * (1.0 - trial.loss_ratio) / (1.0 - self.loss_ratio);
        let rung = if trial.loss_ratio > self.loss_ratio {
            // A load that was decided a rung below tells no more.
            loads.at_most(passed).min(trial.rung.saturating_sub(self.width))
        } else {
            trial.rung + self.width
        };
        let is_known = rung >= loads.top() || self.before == Some(rung) || rung == trial.rung;
        (self.left > 0 && !is_known).then(|| Opening { rung, before: Some(trial.rung), left: self.left - 1, ..self })
    }
}

impl Approach {
    fn to(goal: &Goal, loads: &Loads) -> Approach {
        let width = loads.rungs(goal.width);
        let part = (goal.initial_s / goal.sum_s).powf(1.0 / f64::from(COARSER));
        let target = |coarser: i32| {
            let sum_s = if coarser == COARSER { goal.initial_s } else { goal.sum_s * part.powi(coarser) };
            let (loss_ratio, exceed_ratio) = (goal.loss_ratio, goal.exceed_ratio);
            Target { loss_ratio, exceed_ratio, trial_s: goal.trial_s.min(sum_s), sum_s, width: width << coarser }
        };
        let targets = (0..=COARSER).rev().map(target).collect();
        Approach { targets, at: 0, hint: Bounds::default(), stride: 0, from: None }
    }

    /// Turns to a target, near what bounded the one before.
    fn begin(&mut self, at: usize, hint: Bounds) {
        (self.at, self.hint, self.from) = (at, hint, None);
        self.stride = self.targets[at].width * 2;
    }

    /// The rung to try, and for how many seconds; `None`: the goal is reached.
    fn wants(&mut self, trials: &BTreeMap<u32, Vec<Trial>>, top: u32) -> Option<(u32, f64)> {
        loop {
            let target = self.targets[self.at];
            let bounds = Bounds::of(&target, trials);
            if let Some(rung) = self.rung(&bounds, target.width, top) {
                return Some((rung, target.trial_s));
            }
            if self.at + 1 == self.targets.len() {
                return None;
            }
            self.begin(self.at + 1, bounds);
        }
    }

    fn rung(&mut self, bounds: &Bounds, width: u32, top: u32) -> Option<u32> {
        self.within_hint(bounds, width).or_else(|| match (bounds.lower, bounds.upper) {
            (None, None) => Some(top),
            (None, Some(0)) => None,
            (None, Some(upper)) => Some(upper.saturating_sub(self.stride_from(upper))),
            (Some(lower), None) if lower >= top => None,
            (Some(lower), None) => Some((lower + self.stride_from(lower)).min(top)),
            (Some(lower), Some(upper)) => self.between(lower, upper, width),
        })
    }

    /// What bounded a coarser target probably bounds this one, too: first its middle, where that is all that is missing.
    fn within_hint(&self, bounds: &Bounds, width: u32) -> Option<u32> {
        let middle = self.hint.lower.zip(self.hint.upper).and_then(|(lower, upper)| {
            let apart = upper.saturating_sub(lower);
            (apart > width && apart <= 2 * width).then_some(lower + apart / 2)
        });
        [middle, self.hint.lower, self.hint.upper].into_iter().flatten().find(|rung| bounds.lack(*rung))
    }

    fn between(&mut self, lower: u32, upper: u32, width: u32) -> Option<u32> {
        if upper - lower <= width {
            return None;
        }
        let middle = lower + (upper - lower) / 2;
        // Where this target is not where the hint was, it is near it all the same.
        let below = self.hint.lower.is_some_and(|hint| upper <= hint);
        let above = self.hint.upper.is_some_and(|hint| lower >= hint);
        Some(match (below, above) {
            (true, false) => upper.saturating_sub(self.stride_from(upper)).max(middle),
            (false, true) => (lower + self.stride_from(lower)).min(middle),
            _ => middle,
        })
    }

    /// How far to go on from this bound: twice as far each time that another one is missed.
    fn stride_from(&mut self, bound: u32) -> u32 {
        if self.from.is_some_and(|from| from != bound) {
            self.stride = self.stride.saturating_mul(2);
        }
        self.from = Some(bound);
        self.stride
    }
}
