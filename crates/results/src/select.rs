//! Which records of a store are wanted.
//! Knows the columns that the store indexes; builds SQL, and runs none.

use linerate_trial::spec::Workload;
use rusqlite::types::Value;

use crate::id;
use crate::observation::TrialContext;

/// What a person calls the newest campaign.
pub const LAST: &str = "last";

/// What the wanted records have in common; an empty filter wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The plan's name.
    pub plan: Option<String>,
    /// The campaign's identifier.
    pub campaign: Option<String>,
    /// The record's identifier.
    pub record: Option<String>,
    /// Only those among these identifiers.
    pub among: Option<Vec<String>>,
    /// What traffic.
    pub workload: Option<Workload>,
    /// Made at this time or later, milliseconds since 1970: read from the record's identifier.
    pub since_ms: Option<u64>,
    /// Made before this time.
    pub until_ms: Option<u64>,
    /// At most this many, the newest ones, or the first by `sort`.
    pub limit: Option<u32>,
    /// How many of those are skipped first; with a limit only.
    pub offset: u32,
    /// In which order they count; by default the newest first.
    pub sort: Option<(Sort, Order)>,
}

/// By what records can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// When they were made.
    Time,
    /// Payload bits per second.
    Throughput,
    /// Lost / sent.
    Loss,
    /// Requests answered each second.
    Transactions,
}

/// Which come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smallest.
    Ascending,
    /// The largest.
    Descending,
}

impl Sort {
    const fn column(self) -> &'static str {
        match self {
            Sort::Time => "id",
            Sort::Throughput => "throughput_bps",
            Sort::Loss => "loss_ratio",
            Sort::Transactions => "transactions_per_s",
        }
    }
}

impl Filter {
    /// The clauses behind `FROM records`, newest record first, and what stands for their `?N`.
    pub(crate) fn clauses(&self) -> (String, Vec<Value>) {
        let conditions = [
            ("plan = ?", self.plan.clone()),
            ("campaign = ?", self.campaign.clone()),
            ("id = ?", self.record.clone()),
            (
                "id IN (SELECT value FROM json_each(?))",
                self.among.as_ref().map(|ids| serde_json::json!(ids).to_string()),
            ),
            ("workload = ?", self.workload.map(|workload| workload.name().to_owned())),
            ("id >= ?", self.since_ms.map(id::first_of)),
            ("id < ?", self.until_ms.map(id::first_of)),
        ];
        let (mut sql, mut values) = all_of(conditions);
        let (sort, order) = self.sort.unwrap_or((Sort::Time, Order::Descending));
        let direction = if order == Order::Ascending { "ASC" } else { "DESC" };
        sql += &match sort {
            Sort::Time => format!(" ORDER BY id {direction}"),
            // What has no such figure comes last either way.
            sort => format!(" ORDER BY {} {direction} NULLS LAST, id DESC", sort.column()),
        };
        if let Some(limit) = self.limit {
            values.push(Value::Integer(limit.into()));
            sql += &format!(" LIMIT ?{}", values.len());
            values.push(Value::Integer(self.offset.into()));
            sql += &format!(" OFFSET ?{}", values.len());
        }
        (sql, values)
    }
}

/// Which observations make one side of a comparison, or a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only of this campaign.
    pub campaign: Option<String>,
    /// Only this record.
    pub record: Option<String>,
    /// Made at this time or later, milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Made before this time.
    pub until_ms: Option<u64>,
    /// Only with these levels of factors, or these facts: name and value.
    pub levels: Vec<(String, String)>,
}

impl Selection {
    /// The clauses behind `FROM figures`, and what stands for their `?N`.
    pub(crate) fn clauses(&self) -> (String, Vec<Value>) {
        all_of([
            ("campaign = ?", self.campaign.clone()),
            ("record = ?", self.record.clone()),
            ("record >= ?", self.since_ms.map(id::first_of)),
            ("record < ?", self.until_ms.map(id::first_of)),
        ])
    }

    /// Whether a trial with this around it is wanted.
    pub(crate) fn wants(&self, around: &TrialContext) -> bool {
        self.levels.iter().all(|(name, value)| around.get(name) == Some(value))
    }
}

/// A WHERE clause of those conditions that have a value to compare with, and what stands for its `?N`.
fn all_of<const N: usize>(conditions: [(&str, Option<String>); N]) -> (String, Vec<Value>) {
    let (mut sql, mut values) = (String::new(), Vec::new());
    for (condition, value) in conditions {
        if let Some(value) = value {
            values.push(Value::Text(value));
            let word = if values.len() == 1 { "WHERE" } else { "AND" };
            sql += &format!(" {word} {}", condition.replace('?', &format!("?{}", values.len())));
        }
    }
    (sql, values)
}
