//! Records that belong together, and by what they are told apart.
//! Knows factors, and no figure.

use std::collections::BTreeSet;

use linerate_results::record::Record;

use crate::render::groups::in_groups;

/// Runs in groups of the same key, in the order in which the keys come.
pub(super) fn by<'a, K: Ord + Clone>(
    records: impl IntoIterator<Item = &'a Record>,
    key: impl Fn(&Record) -> K,
) -> Vec<(K, Vec<&'a Record>)> {
    in_groups(records.into_iter().filter(|record| record.trial.is_repeat()), |record| key(record))
}

/// In the order of the plan, whatever the order in which they were measured.
pub(super) fn as_planned<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<&'a Record> {
    let mut records: Vec<&Record> = records.into_iter().collect();
    records.sort_by_key(|record| (&record.campaign, &record.plan, record.trial.configuration));
    records
}

/// What tells the configurations of these records apart: what all of them have alike is not worth a word.
pub(super) struct Distinction {
    alike: BTreeSet<String>,
    workloads: bool,
    directions: bool,
}

impl Distinction {
    pub(super) fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Distinction {
        let mut records = records.into_iter();
        let Some(first) = records.next() else {
            return Distinction { alike: BTreeSet::new(), workloads: false, directions: false };
        };
        let mut apart =
            Distinction { alike: first.trial.factors.keys().cloned().collect(), workloads: false, directions: false };
        for record in records {
            apart.workloads |= record.workload != first.workload;
            apart.directions |= record.direction != first.direction;
            apart.alike.retain(|name| record.trial.factors.get(name) == first.trial.factors.get(name));
        }
        apart
    }

    /// The levels of the factors but these; empty where nothing else varies.
    pub(super) fn levels(&self, record: &Record, beside: &[&str]) -> String {
        let told = |name: &String| !beside.contains(&name.as_str()) && !self.alike.contains(name);
        let levels = record.trial.factors.iter().filter(|(name, _)| told(name));
        levels.map(|(name, level)| format!("{name}={level}")).collect::<Vec<_>>().join(", ")
    }

    /// The workload and the direction, where they vary, and the levels of the factors but these.
    pub(super) fn configuration(&self, record: &Record, beside: &[&str]) -> String {
        let kinds = [(self.workloads, record.workload.name()), (self.directions, record.direction.name())];
        let kinds: Vec<&str> = kinds.into_iter().filter(|(vary, _)| *vary).map(|(_, name)| name).collect();
        let all = [kinds.join(" "), self.levels(record, &[&["workload", "direction"], beside].concat())];
        match all.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => format!("{} {}", record.workload, record.direction),
            words => words,
        }
    }
}

/// What was asked of a record's trial, in a few words.
pub(super) fn levels(record: &Record) -> String {
    let factors = record.trial.factors.iter().map(|(name, level)| format!("{name}={level}"));
    let asked = [("workload", record.workload.name()), ("direction", record.direction.name())];
    let asked = asked.into_iter().filter(|(name, _)| !record.trial.factors.contains_key(*name));
    factors.chain(asked.map(|(_, is)| is.to_owned())).collect::<Vec<_>>().join(", ")
}
