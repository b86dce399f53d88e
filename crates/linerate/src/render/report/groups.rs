//! Records that belong together, and by what they are told apart.
//! Knows factors, and no figure.

use std::collections::BTreeMap;

use linerate_results::record::Record;

/// Runs in groups of the same key, in the order in which the keys come.
pub(super) fn by<'a, K: Ord + Clone>(
    records: impl IntoIterator<Item = &'a Record>,
    key: impl Fn(&Record) -> K,
) -> Vec<(K, Vec<&'a Record>)> {
    let mut groups: Vec<(K, Vec<&Record>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for record in records {
        let its = key(record);
        match places.get(&its) {
            Some(at) => groups[*at].1.push(record),
            None => {
                places.insert(its.clone(), groups.len());
                groups.push((its, vec![record]));
            }
        }
    }
    groups
}

/// The levels of the factors but these, as words.
pub(super) fn varied(record: &Record, beside: &[&str]) -> String {
    let levels = record.trial.factors.iter().filter(|(name, _)| !beside.contains(&name.as_str()));
    levels.map(|(name, level)| format!("{name}={level}")).collect::<Vec<_>>().join(", ")
}
