//! A map of pairs, for programs of few octets.

use std::collections::BTreeMap;

/// The pairs as a map, put in one after the other. Collecting them would sort them first and build the map at once: sooner for
/// thousands of pairs, and some kilobytes of an agent for each type of pairs.
pub fn map_of<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(pairs);
    map
}
