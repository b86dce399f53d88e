//! The records of a store, and its campaigns, one line each.

use std::path::Path;

#[cfg(feature = "web")]
use linerate_results::select::Sort;
use linerate_results::store::{Campaign, Listed, Summary};
use serde_json::json;

#[cfg(feature = "web")]
use super::answer::Answer;
use super::apis;
use super::forms::{self, Piece};
#[cfg(feature = "web")]
use super::table_model::Sorted;
use super::table_model::{Cell, Table, Value};

/// The records, oldest first, with so many digits of their identifiers and of their campaigns'; where there are none, a
/// sentence that says where they would be.
pub(crate) fn list(listed: &[Listed], digits: [usize; 2], store: &Path, width: Option<u16>) -> String {
    if listed.is_empty() {
        return format!("No such records in {}.\n", store.display());
    }
    let table = table(listed, digits).filled();
    let sparing = sparing(listed, &table);
    forms::text(&[Piece::Table(table.sparing(&sparing))], width)
}

/// The columns that a narrow terminal does without, the first one first: what is the same in all rows tells none of them
/// apart, and the figures are what a list is for.
fn sparing(listed: &[Listed], table: &Table) -> Vec<&'static str> {
    // Of one plan the workload says what a row is of, if there are several.
    let says_more = |one: &Listed| listed[0].plan == one.plan && listed[0].workload != one.workload;
    let varying = match listed.iter().any(says_more) {
        false => ["trial", "system calls", "workload", "direction", "started", "campaign", "target"],
        true => ["trial", "system calls", "started", "direction", "campaign", "target", "workload"],
    };
    let same = ["workload", "direction", "target", "campaign", "plan"];
    let same: Vec<&str> = same.into_iter().filter(|name| table.is_same_in_all_rows(name)).collect();
    let others = varying.into_iter().filter(|name| !same.contains(name));
    same.iter().copied().chain(others).collect()
}

/// The same for a browser, in the order in which they come: each record and campaign has a link to its page, and a column by
/// which the store can sort one that does: `sort` says its link, and how rows are sorted now.
#[cfg(feature = "web")]
pub(crate) fn answer(
    listed: &[Listed],
    digits: [usize; 2],
    sort: impl Fn(Sort) -> (String, Option<&'static str>),
) -> Answer {
    let mut table = table(listed, digits).with_behind("campaign", &["Mbit/s", "lost", "transactions"]);
    for (row, one) in table.rows.iter_mut().zip(listed) {
        row[0] = row[0].clone().linked(format!("/record/{}", one.id));
        row[1] = row[1].clone().linked(format!("/campaign/{}", one.campaign));
    }
    for heading in &mut table.headings {
        let by = match heading.name.as_str() {
            "record" => Sort::Time,
            "Mbit/s" => Sort::Throughput,
            "lost" => Sort::Loss,
            "transactions" => Sort::Transactions,
            _ => continue,
        };
        let (link, now) = sort(by);
        heading.sorted = Some(Sorted { link, now });
    }
    Answer::of(vec![Piece::Table(table.filled())])
}

fn table(listed: &[Listed], digits: [usize; 2]) -> Table {
    let api = |one: &Listed| {
        let apis = one.apis.each_ref().map(Option::as_deref);
        let is_plain = apis.iter().flatten().all(|api| *api == "plain");
        Cell::text(if is_plain { String::new() } else { apis::pair(apis) })
    };
    let started = Started::of(listed.iter().map(|one| one.started_at.as_str()));
    let rows = listed.iter().map(|one| {
        // A factor of its own says it.
        let own = |name: &str, text: &str| Cell::text(if one.factors.contains_key(name) { "" } else { text });
        let levels: Vec<String> = one.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
        vec![
            Cell::text(first(&one.id, digits[0])),
            Cell::text(first(&one.campaign, digits[1])),
            Cell::text(started.cell(&one.started_at)),
            Cell::text(&one.plan),
            Cell::text(&one.target),
            Cell::text(format!("{}.{}", one.index, one.repeat)),
            own("workload", &one.workload),
            own("direction", &one.direction),
            Cell::long(levels.join(" ")),
            if one.failed {
                Value::Failed.into()
            } else {
                one.throughput_bps.map(|bps| Cell::number(bps / 1e6, 4)).into()
            },
            one.loss_ratio.map(Cell::percent).into(),
            one.transactions_per_s.map(|rate| Cell::count(rate.round() as u64)).into(),
            api(one),
        ]
    });
    let titles = [
        "record",
        "campaign",
        &started.title(),
        "plan",
        "target",
        "trial",
        "workload",
        "direction",
        "what varies",
        "Mbit/s",
        "lost\n%",
        "transactions\n1/s",
        "system calls",
    ];
    Table::new(titles, rows)
}

/// The campaigns, oldest first, with so many digits of their identifiers.
pub(crate) fn campaigns(campaigns: &[Summary], digits: usize, store: &Path, width: Option<u16>) -> String {
    if campaigns.is_empty() {
        return format!("No such campaigns in {}.\n", store.display());
    }
    forms::text(&[Piece::Table(table_of_campaigns(campaigns, digits).filled())], width)
}

/// The same for a browser, in the order in which they come, each with a link to its page.
#[cfg(feature = "web")]
pub(crate) fn answer_of_campaigns(campaigns: &[Summary], digits: usize) -> Answer {
    let mut table = table_of_campaigns(campaigns, digits);
    for (row, one) in table.rows.iter_mut().zip(campaigns) {
        row[0] = row[0].clone().linked(format!("/campaign/{}", one.campaign.id));
    }
    Answer::of(vec![Piece::Table(table.filled())])
}

fn table_of_campaigns(campaigns: &[Summary], digits: usize) -> Table {
    let started = Started::of(campaigns.iter().map(|one| one.campaign.started_at.as_str()));
    let rows = campaigns.iter().map(|one| {
        let Campaign { id, plan, target, planned, .. } = &one.campaign;
        let varied = one.levels.iter().filter(|(_, levels)| levels.len() > 1);
        let varied: Vec<String> = varied.map(|(name, levels)| format!("{name}×{}", levels.len())).collect();
        vec![
            Cell::text(first(id, digits)),
            Cell::text(started.cell(&one.campaign.started_at)),
            Cell::text(plan),
            Cell::text(target),
            Cell::numbers(format!("{}/{planned}", one.done)),
            if one.failed > 0 { Cell::count(one.failed) } else { Cell::default() },
            Cell::long(varied.join(" ")),
        ]
    });
    let titles = ["campaign", &started.title(), "plan", "target", "trials\ndone", "\nfailed", "what varied\n× levels"];
    Table::new(titles, rows)
}

/// The same for programs, an object a line.
pub(crate) fn campaigns_json(campaigns: &[Summary]) -> String {
    let line = |one: &Summary| {
        let Campaign { id, plan, target, host, started_at, planned, finished_at, .. } = &one.campaign;
        super::json::line(json!({
            "campaign": id, "plan": plan, "target": target, "host": host, "started_at": started_at,
            "finished_at": finished_at, "planned": planned, "done": one.done, "failed": one.failed, "factors": one.levels,
        }))
    };
    campaigns.iter().map(line).collect()
}

/// The digits of an identifier that a person needs to type.
fn first(id: &str, digits: usize) -> &str {
    id.get(..digits).unwrap_or(id)
}

/// Times to the minute under a year that all share; else days.
struct Started<'a> {
    year: Option<&'a str>,
}

impl<'a> Started<'a> {
    fn of(mut times: impl Iterator<Item = &'a str>) -> Started<'a> {
        let year = times.next().and_then(|time| time.get(..4));
        Started { year: year.filter(|year| times.all(|time| time.starts_with(year))) }
    }

    fn title(&self) -> String {
        self.year.map_or("started".to_owned(), |year| format!("started\n{year}"))
    }

    fn cell(&self, time: &str) -> String {
        let part = if self.year.is_some() { 5..16 } else { 0..10 };
        time.get(part).unwrap_or(time).replace('T', " ")
    }
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
            target: "root@board".to_owned(),
            factors: [("direction", "rx"), ("rate", "300M")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        };
        let plain = one(Some("plain"), Some("plain"));
        let text = list(&[one(None, None), plain], [8, 6], Path::new("store"), None);
        assert!(!text.contains("system calls") && !text.contains("plain"), "{text}");
        let narrow = list(&[one(Some("sendmmsg"), Some("recvmmsg"))], [8, 6], Path::new("store"), Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        let text =
            list(&[one(Some("plain"), Some("trunc")), one(None, Some("recvmmsg"))], [8, 6], Path::new("store"), None);
        assert!(
            text.contains("system calls")
                && text.contains("received by trunc")
                && text.contains("received by recvmmsg"),
            "{text}"
        );
    }

    #[test]
    fn a_terminal_of_80_columns_has_room() {
        let of = |at: u32, factors: &[(&str, &str)], bps: Option<f64>| Listed {
            id: format!("01M7Y{at}B7AB{at}9XK{at}"),
            campaign: "01M7Y0A2ZZ".to_owned(),
            plan: "udp-sweep".to_owned(),
            index: at,
            repeat: 0,
            workload: "udp-stream".to_owned(),
            direction: "rx".to_owned(),
            started_at: format!("2026-11-21T03:0{at}:30Z"),
            target: "root@sabrelite".to_owned(),
            factors: factors.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
            throughput_bps: bps,
            loss_ratio: bps.map(|_| 0.0125),
            transactions_per_s: None,
            failed: bps.is_none(),
            apis: [None, None],
        };
        let listed = [
            of(1, &[("direction", "rx"), ("rate", "50M")], Some(49.9e6)),
            of(2, &[("direction", "tx"), ("rate", "1G")], None),
        ];
        for width in [50, 60, 80, 100] {
            let text = list(&listed, [8, 6], Path::new("store"), Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            for word in ["01M7Y1B7", "direction=rx rate=50M", "49.90", "1.2", "failed"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
        let text = list(&listed, [8, 6], Path::new("store"), Some(60));
        assert!(text.contains("workload, target") && !text.contains("root@sabrelite"), "{text}");
        insta::assert_snapshot!(list(&listed, [8, 6], Path::new("store"), Some(100)));
    }

    #[test]
    fn campaigns_have_a_line_each() {
        let campaign = |id: &str, year: u32| Campaign {
            id: id.to_owned(),
            plan: "udp-sweep".to_owned(),
            plan_text: String::new(),
            target: "root@sabrelite".to_owned(),
            host: "local".to_owned(),
            started_at: format!("{year}-11-21T03:00:00Z"),
            planned: 40,
            finished_at: None,
        };
        let levels = |all: &[&str]| all.iter().map(|level| (*level).to_owned()).collect();
        let one = Summary {
            campaign: campaign("01M7Y0A2ZZ", 2026),
            done: 38,
            failed: 2,
            levels: [("rate", levels(&["50M", "100M"])), ("ip", levels(&["4"])), ("direction", levels(&["tx", "rx"]))]
                .map(|(name, levels)| (name.to_owned(), levels))
                .into(),
        };
        let other = Summary { campaign: campaign("01M8Y0A2ZZ", 2027), done: 1, failed: 0, levels: Default::default() };
        let text = campaigns(&[one.clone(), other], 6, Path::new("store"), Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
        let read: serde_json::Value = serde_json::from_str(&campaigns_json(&[one])).unwrap();
        assert_eq!((&read["done"], &read["factors"]["ip"][0]), (&json!(38), &json!("4")));
        assert!(campaigns(&[], 6, Path::new("store"), None).contains("No such campaigns"));
    }
}
