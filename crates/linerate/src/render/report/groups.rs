//! Records that belong together, and by what they are told apart.
//! Knows factors, and no figure.

use linerate_results::record::Record;

/// Runs in groups of the same key, in the order in which the keys come.
pub(super) fn by<'a, K: PartialEq>(
    records: impl IntoIterator<Item = &'a Record>,
    key: impl Fn(&Record) -> K,
) -> Vec<(K, Vec<&'a Record>)> {
    let mut groups: Vec<(K, Vec<&Record>)> = Vec::new();
    for record in records {
        let its = key(record);
        match groups.iter_mut().find(|(other, _)| *other == its) {
            Some((_, group)) => group.push(record),
            None => groups.push((its, vec![record])),
        }
    }
    groups
}

/// The levels of the factors but these, as words.
pub(super) fn varied(record: &Record, beside: &[&str]) -> String {
    let levels = record.trial.factors.iter().filter(|(name, _)| !beside.contains(&name.as_str()));
    levels.map(|(name, level)| format!("{name}={level}")).collect::<Vec<_>>().join(", ")
}
