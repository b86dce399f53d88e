//! The records of a store, one line each.
//! Knows what a list reads of a record, which is little.

use std::path::Path;

use linerate_results::store::Listed;

use super::apis;
use super::forms::{self, Piece};
use super::table_model::{Cell, Table, Value};

/// The records, oldest first; where there are none, a sentence that says where they would be.
pub(crate) fn list(listed: &[Listed], store: &Path, width: Option<u16>) -> String {
    if listed.is_empty() {
        return format!("No such records in {}.\n", store.display());
    }
    let api = |one: &Listed| {
        let apis = one.apis.each_ref().map(Option::as_deref);
        let is_plain = apis.iter().flatten().all(|api| *api == "plain");
        Cell::text(if is_plain { String::new() } else { apis::pair(apis) })
    };
    let rows = listed.iter().map(|one| {
        let started = one.started_at.get(..19).unwrap_or(&one.started_at).replace('T', " ");
        let rate = one.throughput_bps.map(|bps| Cell::number(bps / 1e6, 4));
        vec![
            Cell::text(&one.id),
            Cell::text(started),
            Cell::text(&one.plan),
            Cell::text(format!("{}.{}", one.index, one.repeat)),
            Cell::text(&one.workload),
            Cell::text(&one.direction),
            if one.failed { Value::Failed.into() } else { rate.into() },
            one.loss_ratio.map(Cell::percent).into(),
            one.transactions_per_s.map(|rate| Cell::count(rate.round() as u64)).into(),
            api(one),
        ]
    });
    let titles = [
        "record",
        "started",
        "plan",
        "trial",
        "workload",
        "direction",
        "Mbit/s",
        "lost",
        "transactions/s",
        "system calls",
    ];
    // A column for figures that need it.
    let table = Table::new(titles, rows).filled().sparing(&["trial", "plan", "system calls", "started"]);
    forms::text(&[Piece::Table(table)], width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_has_a_column() {
        let one = |sender: Option<&str>, receiver: Option<&str>| Listed {
            id: "01M7Y0".repeat(4) + "AB",
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
        let text = list(&[one(None, None), plain], Path::new("store"), None);
        assert!(!text.contains("system calls") && !text.contains("plain"), "{text}");
        let narrow = list(&[one(Some("sendmmsg"), Some("recvmmsg"))], Path::new("store"), Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        let text = list(&[one(Some("plain"), Some("trunc")), one(None, Some("recvmmsg"))], Path::new("store"), None);
        assert!(
            text.contains("system calls")
                && text.contains("received by trunc")
                && text.contains("received by recvmmsg"),
            "{text}"
        );
    }
}
