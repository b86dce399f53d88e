//! What a calibration says of the tester: the most that it carries of the same traffic, with nothing between its ports.
//! Knows no store; whose records they are is for who reads them.

use std::collections::BTreeMap;

use linerate_trial::spec::Spec;

use super::searched;
use crate::record::Record;

/// What calibrations are called as campaigns.
pub const CALIBRATION: &str = "calibration";

/// What a search chooses itself, and what changes nothing of what a tester carries.
const FREE: [&str; 9] =
    ["rate", "duration", "bytes", "seed", "interval", "warmup", "registers", "drop_reasons", "cpu_method"];

/// The most that the tester carries of traffic like this, by these records of one calibration; bits per second in each
/// direction. `None`: it was of other traffic, or found no limit.
pub fn limit_bps(records: &[Record], like: &Spec) -> Option<f64> {
    let wanted = kept(like.asked());
    let is_like = |record: &&Record| kept(record.asked.clone()) == wanted;
    let alike: Vec<&Record> = records.iter().filter(is_like).collect();
    let found = searched(alike.iter().copied()).into_iter().filter(|one| one.asked.calibrates);
    let limits = found.filter(|one| one.is_known()).filter_map(|one| {
        let is_limited = one.found.iter().all(|found| !found.is_unlimited);
        one.throughput_bps().filter(|_| is_limited)
    });
    limits.min_by(f64::total_cmp)
}

fn kept(asked: impl IntoIterator<Item = (impl Into<String>, String)>) -> BTreeMap<String, String> {
    let all = asked.into_iter().map(|(name, value)| (name.into(), value));
    all.filter(|(name, _)| !FREE.contains(&name.as_str())).collect()
}
