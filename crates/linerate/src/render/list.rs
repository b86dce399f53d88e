//! The records of a store, one line each.
//! Knows what a list reads of a record, which is little.

use std::path::Path;

use linerate_results::store::Listed;

use super::number::{count, figure, percent};
use super::printable;
use super::show::grid;

/// The records, oldest first; where there are none, a sentence that says where they would be.
pub(crate) fn list(listed: &[Listed], store: &Path) -> String {
    if listed.is_empty() {
        return format!("No such records in {}.\n", store.display());
    }
    let titles = ["record", "started", "plan", "trial", "workload", "direction", "Mbit/s", "lost", "transactions/s"];
    let rows = listed.iter().map(|one| {
        let or_none = |text: Option<String>| text.unwrap_or_default();
        let started = one.started_at.get(..19).unwrap_or(&one.started_at).replace('T', " ");
        let figures = if one.failed {
            ["failed".to_owned(), String::new(), String::new()]
        } else {
            [
                or_none(one.throughput_bps.map(|bps| figure(bps / 1e6, 4))),
                or_none(one.loss_ratio.map(percent)),
                or_none(one.transactions_per_s.map(|rate| count(rate.round() as u64))),
            ]
        };
        let place = format!("{}.{}", one.index, one.repeat);
        let start = [one.id.clone(), started, one.plan.clone(), place, one.workload.clone(), one.direction.clone()];
        start.into_iter().chain(figures).collect()
    });
    printable(&grid(titles.map(str::to_owned).to_vec(), rows.collect()))
}
