//! The records of a store, one line each.
//! Knows what a list reads of a record, which is little.

use std::path::Path;

use linerate_results::store::Listed;

use super::apis;
use super::number::{count, figure, percent};
use super::show::grid;

/// The records, oldest first; where there are none, a sentence that says where they would be.
pub(crate) fn list(listed: &[Listed], store: &Path) -> String {
    if listed.is_empty() {
        return format!("No such records in {}.\n", store.display());
    }
    let api = |one: &Listed| {
        let apis = one.apis.each_ref().map(Option::as_deref);
        let is_plain = apis.iter().flatten().all(|api| *api == "plain");
        if is_plain { String::new() } else { apis::pair(apis) }
    };
    // A column for figures that need it.
    let with_apis = listed.iter().any(|one| !api(one).is_empty());
    let titles = ["record", "started", "plan", "trial", "workload", "direction", "Mbit/s", "lost", "transactions/s"];
    let titles = titles.into_iter().chain(with_apis.then_some("API"));
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
        start.into_iter().chain(figures).chain(with_apis.then(|| api(one))).collect()
    });
    grid(titles.map(str::to_owned).collect(), rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_has_a_column() {
        let one = |sender: Option<&str>, receiver: Option<&str>| Listed {
            id: "x".to_owned(),
            campaign: "c".to_owned(),
            plan: "tcp-stream".to_owned(),
            index: 0,
            repeat: 0,
            workload: "tcp-stream".to_owned(),
            direction: "rx".to_owned(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            throughput_bps: Some(1e9),
            loss_ratio: None,
            transactions_per_s: None,
            failed: false,
            apis: [sender, receiver].map(|name| name.map(str::to_owned)),
        };
        let plain = one(Some("plain"), Some("plain"));
        let text = list(&[one(None, None), plain], Path::new("store"));
        assert!(!text.contains("API") && !text.contains("plain"), "{text}");
        let text = list(&[one(Some("plain"), Some("trunc")), one(None, Some("recvmmsg"))], Path::new("store"));
        assert!(text.contains("API") && text.contains("plain → trunc") && text.contains("→ recvmmsg"), "{text}");
    }
}
