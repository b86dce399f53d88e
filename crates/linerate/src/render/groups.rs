//! What belongs together, in groups of the same key.
//! Knows no record.

use std::collections::BTreeMap;

/// In groups of the same key, in the order in which the keys come.
pub(super) fn in_groups<T, K: Ord + Clone>(
    all: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for one in all {
        let its = key(&one);
        match places.get(&its) {
            Some(at) => groups[*at].1.push(one),
            None => {
                places.insert(its.clone(), groups.len());
                groups.push((its, vec![one]));
            }
        }
    }
    groups
}
