//! What a store's records add up to, and what each configuration measured last: kept from look to look, so that only new
//! records are read.
//! Knows no form of output, and no clock.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::StoreError;
use crate::figure::Metric;
use crate::id;
use crate::observation::TrialRequest;
use crate::store::{RecordDigest, Store};

/// Records that come late, from a machine whose clock is behind, are found so far back without reading all anew.
const LATE_MS: u64 = 3_600_000;
/// The most pairs of machines that are told apart; the others are counted together.
const PAIRS: usize = 200;
/// The most configurations that are kept; the one that was measured longest ago gives way.
const CONFIGURATIONS: usize = 5000;

/// Two machines that measure with each other, as their endpoints were written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachinePair {
    /// The machine under test.
    pub target: String,
    /// The other one.
    pub host: String,
}

/// Where a figure is from; its history has this name, however many records there are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Configuration {
    /// Which machines.
    pub pair: MachinePair,
    /// The plan's name.
    pub plan: String,
    /// Workload, direction and the levels of factors: `udp-stream rx rate=50M`.
    pub words: String,
}

/// What a configuration measured last.
#[derive(Clone, Debug, PartialEq)]
pub struct LatestFigures {
    /// When, milliseconds since 1970.
    pub unix_ms: u64,
    /// In the order of the metrics, in the record's unit.
    pub values: Vec<Option<f64>>,
}

/// How trials came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// They have figures.
    pub done: u64,
    /// They have none.
    pub failed: u64,
}

/// What a store's records add up to.
#[derive(Clone, Debug)]
pub struct Tally {
    metrics: Vec<&'static Metric>,
    counted: u64,
    /// The newest record's time, and the identifiers within [`LATE_MS`] before it.
    newest_ms: u64,
    recent: BTreeSet<String>,
    /// In the order in which they came, so that none changes its place.
    pairs: Vec<(MachinePair, Outcomes)>,
    others: Outcomes,
    doubts: BTreeMap<String, u64>,
    last: BTreeMap<Configuration, LatestFigures>,
}

impl Tally {
    /// Nothing as yet; of these metrics the last values are kept.
    pub fn new(metrics: Vec<&'static Metric>) -> Tally {
        Tally {
            metrics,
            counted: 0,
            newest_ms: 0,
            recent: BTreeSet::new(),
            pairs: Vec::new(),
            others: Outcomes::default(),
            doubts: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// Adds what was stored since it looked last.
    pub fn follow(&mut self, store: &Store) -> Result<(), StoreError> {
        let there = store.count()?;
        self.add_since(store, &id::first_of(self.newest_ms.saturating_sub(LATE_MS)))?;
        // Records that are older than any clock is wrong came from another store; and none ever goes, so that another store is in
        // its place where there are fewer.
        if self.counted < there || (self.counted > there && self.counted > store.count()?) {
            self.clear();
            self.add_since(store, "")?;
        }
        Ok(())
    }

    /// Begins anew: there are no records any more.
    pub fn clear(&mut self) {
        *self = Tally::new(std::mem::take(&mut self.metrics));
    }

    fn add_since(&mut self, store: &Store, id: &str) -> Result<(), StoreError> {
        let metrics = self.metrics.clone();
        store.each_since(id, &metrics, |seen| self.add(seen))?;
        let oldest = id::first_of(self.newest_ms.saturating_sub(LATE_MS));
        self.recent = self.recent.split_off(&oldest);
        while self.last.len() > CONFIGURATIONS {
            let oldest = self.last.iter().min_by_key(|(_, last)| last.unix_ms).map(|(place, _)| place.clone());
            oldest.map(|place| self.last.remove(&place));
        }
        Ok(())
    }

    /// Adds a record, unless it was seen before.
    pub fn add(&mut self, seen: RecordDigest<'_>) {
        let unix_ms = id::made_at(seen.id).unwrap_or_default();
        if !self.recent.insert(seen.id.to_owned()) {
            return;
        }
        self.counted += 1;
        self.newest_ms = self.newest_ms.max(unix_ms);
        if self.recent.len() > 4096 {
            // Of a large store that is read at once, what is long past need not be known.
            let oldest = id::first_of(self.newest_ms.saturating_sub(LATE_MS));
            self.recent = self.recent.split_off(&oldest);
        }
        let fact = |name: &str| seen.asked.facts.get(name).cloned().unwrap_or_default();
        let pair = MachinePair { target: fact("target.endpoint"), host: fact("host.endpoint") };
        let outcomes = match self.pairs.iter().position(|(known, _)| *known == pair) {
            Some(place) => &mut self.pairs[place].1,
            None if self.pairs.len() < PAIRS => {
                self.pairs.push((pair.clone(), Outcomes::default()));
                let place = self.pairs.len() - 1;
                &mut self.pairs[place].1
            }
            None => &mut self.others,
        };
        match seen.failed {
            true => outcomes.failed += 1,
            false => outcomes.done += 1,
        }
        for kind in seen.doubts.split(',').filter(|kind| !kind.is_empty()) {
            *self.doubts.entry(kind.to_owned()).or_default() += 1;
        }
        // Failed trials and the second sides of A/A pairs have no figures that anybody watches.
        if seen.failed || seen.is_side_b {
            return;
        }
        let place = Configuration { pair, plan: fact("plan"), words: words(seen.asked) };
        let last = LatestFigures { unix_ms, values: seen.values.to_vec() };
        match self.last.get_mut(&place) {
            Some(known) if known.unix_ms > unix_ms => {}
            Some(known) => *known = last,
            None => drop(self.last.insert(place, last)),
        }
    }

    /// The metrics whose last values it keeps.
    pub fn metrics(&self) -> &[&'static Metric] {
        &self.metrics
    }

    /// How trials came out, by machines; of pairs beyond those that are told apart, together.
    pub fn outcomes(&self) -> (&[(MachinePair, Outcomes)], Outcomes) {
        (&self.pairs, self.others)
    }

    /// How many records have a doubt of each kind.
    pub fn doubts(&self) -> &BTreeMap<String, u64> {
        &self.doubts
    }

    /// What each configuration measured last, what was measured last first.
    pub fn last(&self) -> Vec<(&Configuration, &LatestFigures)> {
        let mut all: Vec<_> = self.last.iter().collect();
        all.sort_by(|(one, of_one), (other, of_other)| {
            of_other.unix_ms.cmp(&of_one.unix_ms).then_with(|| one.cmp(other))
        });
        all
    }
}

/// Workload and direction, and the levels of factors beside them.
fn words(asked: &TrialRequest) -> String {
    let kinds = ["workload", "direction"];
    let fact = |name: &&str| asked.get(name).map(str::to_owned);
    let levels = asked.factors.iter().filter(|(name, _)| !kinds.contains(&name.as_str()));
    let levels = levels.map(|(name, level)| format!("{name}={level}"));
    kinds.iter().filter_map(fact).chain(levels).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_trial::pace::SplitMix64;

    use super::*;
    use crate::record::Record;
    use crate::sample;

    fn record(unix_ms: u64, number: u8, rate: u32) -> Record {
        let mut record =
            sample::udp(u32::from(number), Direction::Rx, rate, f64::from(rate) - f64::from(number) / 10.0);
        record.id = id::id(unix_ms, [number; 10]);
        record.trial.factors = [("rate".to_owned(), format!("{rate}M"))].into();
        record
    }

    fn tally() -> Tally {
        Tally::new(vec![Metric::find("throughput").unwrap(), Metric::find("loss").unwrap()])
    }

    #[track_caller]
    fn check_alike(tally: &Tally, store: &Store) {
        let mut anew = self::tally();
        anew.follow(store).unwrap();
        assert_eq!(tally.last(), anew.last());
        assert_eq!((tally.doubts(), tally.counted), (anew.doubts(), anew.counted));
        let sorted = |tally: &Tally| {
            let mut pairs = tally.pairs.clone();
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            pairs
        };
        assert_eq!(sorted(tally), sorted(&anew));
    }

    #[test]
    fn the_last_of_each_configuration_and_how_many_there_were() {
        let mut store = Store::in_memory().unwrap();
        let mut tally = tally();
        tally.follow(&store).unwrap();
        assert!(tally.last().is_empty());
        for number in 0..4 {
            store
                .insert(&record(1_000_000_000_000 + u64::from(number), number, 100 * (1 + u32::from(number % 2))))
                .unwrap();
            tally.follow(&store).unwrap();
        }
        let mut failed = sample::failed(9);
        failed.id = id::id(1_000_000_000_009, [9; 10]);
        store.insert(&failed).unwrap();
        tally.follow(&store).unwrap();
        let last = tally.last();
        let told: Vec<_> =
            last.iter().map(|(place, last)| (place.words.as_str(), last.unix_ms, last.values[0])).collect();
        let values = [Some(199.7e6), Some(99.8e6)];
        assert_eq!(told.iter().map(|one| one.1).collect::<Vec<_>>(), [1_000_000_000_003, 1_000_000_000_002]);
        assert_eq!([told[0].0, told[1].0], ["udp-stream rx rate=200M", "udp-stream rx rate=100M"]);
        for (got, want) in told.iter().zip(values) {
            assert!((got.2.unwrap() - want.unwrap()).abs() < 1e5, "{got:?}");
        }
        let (pairs, others) = tally.outcomes();
        let all = pairs.iter().fold((0, 0), |sum, (_, one)| (sum.0 + one.done, sum.1 + one.failed));
        assert_eq!((all, others), ((4, 1), Outcomes::default()));
        check_alike(&tally, &store);
    }

    /// Records by chance: late ones, ones of long ago, of many machines. What was followed step by step is what is read at once.
    #[test]
    fn to_follow_is_to_read_anew() {
        let seed = std::env::var("LINERATE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
        eprintln!("LINERATE_SEED={seed}");
        let mut random = SplitMix64::new(seed);
        let mut store = Store::in_memory().unwrap();
        let mut tally = tally();
        let mut now = 1_700_000_000_000;
        for number in 0..60 {
            now += random.below(900_000);
            let back = [0, 0, random.below(LATE_MS - 1), random.below(40 * LATE_MS)][random.below(4) as usize];
            let mut record = record(now - back, number, 100 * (1 + random.below(3) as u32));
            record.target.endpoint = format!("ssh:board{}", random.below(4));
            store.insert(&record).unwrap();
            if random.below(3) == 0 {
                tally.follow(&store).unwrap();
                check_alike(&tally, &store);
            }
        }
    }

    #[test]
    fn another_store_in_its_place_is_read_anew() {
        let stored = |count: u8| {
            let mut store = Store::in_memory().unwrap();
            for number in 0..count {
                store.insert(&record(1_700_000_000_000 + u64::from(number), number + count, 100)).unwrap();
            }
            store
        };
        let mut tally = tally();
        for count in [20, 5, 9] {
            let store = stored(count);
            tally.follow(&store).unwrap();
            check_alike(&tally, &store);
        }
    }

    #[test]
    fn machines_beyond_those_that_are_told_apart_are_counted_together() {
        let mut store = Store::in_memory().unwrap();
        let mut tally = tally();
        for number in 0..PAIRS + 20 {
            let mut record = record(1_700_000_000_000 + number as u64, (number % 250) as u8, 100);
            record.target.endpoint = format!("ssh:board{number}");
            store.insert(&record).unwrap();
        }
        tally.follow(&store).unwrap();
        let (pairs, others) = tally.outcomes();
        assert_eq!((pairs.len(), others.done), (PAIRS, 20));
    }
}
