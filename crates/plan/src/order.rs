//! In which order the trials of a round run: the plan's, or one left to chance and balanced.
//! Knows no clock and draws no seed: the same seed gives the same order every time.

use linerate_machine::words;
use linerate_results::record::NullSide;
use linerate_trial::pace::SplitMix64;

use super::WantedSetting;

words! {
    /// The order of the trials within a round.
    RoundOrder {
        /// As the plan's factors vary.
        Plan = "plan",
        /// By chance in each round, from a seed that is recorded.
        Random = "random",
    }
}

/// What a round measures once: a configuration, or one side of an A/A pair of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    /// Which configuration of the plan.
    pub(super) configuration: usize,
    /// Which side of an A/A pair.
    pub(super) side: Option<NullSide>,
    /// How the machines are set for it.
    pub(super) settings: &'a [WantedSetting],
}

/// Settings from here on are changed as seldom in a round as can be; cheaper ones are a write to a file.
const DEAR: u8 = 1;
/// The dearest of all.
const MOST: u8 = 9;

/// The order of round `repeat`, `before` being that of the round before it.
///
/// By chance, every second round is the one before it turned round. Of any two configurations each then comes first
/// in half the rounds, and not only about half of them: a drift in the course of a round, or of two, is on both sides
/// of every difference alike, and `compare` may take the values of a round as pairs. What is drawn is a permutation
/// (Fisher and Yates' shuffle), of groups that share their dear settings and then within each group, so that such a
/// setting changes no more often than in the plan's order.
///
/// In the plan's order, the two sides of an A/A pair change places from round to round.
pub(super) fn round_of<'a>(
    entries: &[Entry<'a>],
    repeat: u32,
    before: Vec<Entry<'a>>,
    chance: Option<&mut SplitMix64>,
) -> Vec<Entry<'a>> {
    match chance {
        Some(_) if repeat % 2 == 1 => before.into_iter().rev().collect(),
        Some(chance) => shuffled(entries.to_vec(), MOST, chance),
        None => {
            let mut round = entries.to_vec();
            if repeat % 2 == 1 {
                round.chunk_by_mut(|a, b| a.configuration == b.configuration).for_each(<[_]>::reverse);
            }
            round
        }
    }
}

/// Shuffles groups that share their settings of the cost `dear`, and each group within itself by the cheaper ones.
fn shuffled<'a>(mut entries: Vec<Entry<'a>>, dear: u8, chance: &mut SplitMix64) -> Vec<Entry<'a>> {
    if dear < DEAR {
        shuffle(&mut entries, chance);
        return entries;
    }
    let of = |entry: &Entry<'a>| -> Vec<&'a WantedSetting> {
        entry.settings.iter().filter(|wanted| wanted.dear() == dear).collect()
    };
    let mut groups: Vec<(Vec<&WantedSetting>, Vec<Entry<'a>>)> = Vec::new();
    for entry in entries {
        let shared = of(&entry);
        match groups.iter_mut().find(|(other, _)| *other == shared) {
            Some((_, group)) => group.push(entry),
            None => groups.push((shared, vec![entry])),
        }
    }
    shuffle(&mut groups, chance);
    groups.into_iter().flat_map(|(_, group)| shuffled(group, dear - 1, chance)).collect()
}

fn shuffle<T>(items: &mut [T], chance: &mut SplitMix64) {
    for last in (1..items.len()).rev() {
        items.swap(last, chance.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::{Changes, Plan, PlannedTrial};

    fn trials(text: &str, changes: &Changes) -> Vec<PlannedTrial> {
        let text = format!("format = \"linerate.plan/1\"\n{text}");
        Plan::parse(&text, "test.toml", "test").unwrap().trials_of(changes).unwrap()
    }

    fn seeded(seed: u32, repeat: u32) -> Changes {
        Changes { seed: Some(seed), repeat: Some(repeat), ..Changes::default() }
    }

    /// The configurations of each round, in their order.
    fn rounds(trials: &[PlannedTrial]) -> Vec<Vec<u32>> {
        let mut rounds: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        trials.iter().for_each(|one| rounds.entry(one.repeat).or_default().push(one.configuration));
        rounds.into_values().collect()
    }

    const SIX: &str = "workload = 'udp-stream'\n[factors]\ndirection = 'tx,rx'\nrate = '1M..3M:1M'\n";

    #[test]
    fn each_comes_first_in_half_the_rounds_and_a_seed_repeats_them() {
        let ordered = rounds(&trials(SIX, &seeded(7, 8)));
        assert_eq!(ordered, rounds(&trials(SIX, &seeded(7, 8))));
        assert_ne!(ordered, rounds(&trials(SIX, &seeded(8, 8))));
        for (a, b) in (0..6).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let place = |round: &[u32], one: u32| round.iter().position(|other| *other == one).unwrap();
            let first = ordered.iter().filter(|round| place(round, a) < place(round, b)).count();
            assert_eq!(first, 4, "{a} before {b} in {ordered:?}");
        }
        let different: BTreeSet<&Vec<u32>> = ordered.iter().collect();
        assert!(different.len() >= 6, "{ordered:?}");
        // More rounds begin as fewer do, so that a longer campaign is the shorter one, gone on.
        assert_eq!(rounds(&trials(SIX, &seeded(7, 12)))[..8], ordered);
    }

    #[test]
    fn every_order_is_as_likely() {
        let text = "workload = 'udp-stream'\n[factors]\nrate = '1M..3M:1M'\n";
        let mut counts: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for seed in 0..6000 {
            *counts.entry(rounds(&trials(text, &seeded(seed, 1))).remove(0)).or_default() += 1;
        }
        // Six orders; 1,000 of each, give or take five standard deviations (29).
        assert!(counts.len() == 6 && counts.values().all(|count| count.abs_diff(1000) < 145), "{counts:?}");
    }

    #[test]
    fn dear_settings_change_no_more_often() {
        let text = "workload = 'tcp-stream'\n[factors]\ndirection = 'tx,rx'\ntarget.gro = 'on,off'\n\
                    target.mtu = [1500, 4000, 9000]\ntarget.speed = [100, '1G']\n";
        let trials = trials(text, &seeded(3, 6));
        let changes = |name: &str| {
            let level = |one: &PlannedTrial| one.factors.iter().find(|(other, _)| other == name).unwrap().1.clone();
            trials.windows(2).filter(|two| level(&two[0]) != level(&two[1])).count()
        };
        assert_eq!(changes("target.speed"), 1);
        // Two changes in each of 12 rounds, and one between two rounds unless they meet.
        assert!((24..=35).contains(&changes("target.mtu")), "{}", changes("target.mtu"));
        assert!(changes("target.gro") > 50);
    }

    #[test]
    fn sides_of_an_a_a_pair_change_places() {
        let pairs = |changes: &Changes| -> Vec<Vec<String>> {
            let mut rounds: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for one in trials("workload = 'tcp-stream'\nnull = true\n[factors]\ndirection = 'tx,rx'\n", changes) {
                let side = one.null_side.unwrap().name();
                rounds.entry(one.repeat).or_default().push(format!("{}{side}", one.configuration));
            }
            rounds.into_values().collect()
        };
        let planned = Changes { repeat: Some(2), ..Changes::default() };
        assert_eq!(pairs(&planned), [["0a", "0b", "1a", "1b"], ["0b", "0a", "1b", "1a"]]);
        let random = pairs(&seeded(1, 2));
        assert_eq!(random[0], random[1].iter().rev().cloned().collect::<Vec<_>>());
        let asked = Changes { null: true, ..Changes::default() };
        assert_eq!(trials("workload = 'tcp-stream'\n", &asked).len(), 2);
    }
}
