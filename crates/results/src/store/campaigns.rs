//! Campaigns and records by the names that people give them, and what a list of campaigns shows.
//! Knows names and identifiers; what else is wanted of records is a [`crate::select::Selection`].

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::Value;

use super::database::Row;
use super::figures::ContextCache;
use super::sql_error::SqlError;
use super::{CAMPAIGN, Campaign, Store, StoreError, campaign};
use crate::select::{LAST, Selection};

/// The plan of those campaigns that only try a suggestion. No plan of a user's has a blank in its name.
pub const TRIES: &str = "explain --try";

/// What is called by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEntry {
    /// The campaign of this identifier.
    Campaign(String),
    /// The record of this identifier.
    Record(String),
}

/// What a list shows of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The campaign itself.
    pub campaign: Campaign,
    /// Trials with figures.
    pub done: u32,
    /// Trials that were tried and have none.
    pub failed: u32,
    /// The levels of each factor.
    pub levels: BTreeMap<String, BTreeSet<String>>,
}

impl Store {
    /// What a person calls so: `last`, or a plan's name for its last campaign, or so many campaigns before it; else an
    /// identifier or the beginning of it, in capitals or not. Campaigns without records, and those that only try a suggestion,
    /// are not counted. An identifier's beginning that one campaign has means it, whatever records begin so too.
    pub fn called(&self, name: &str, back: u32) -> Result<StoreEntry, StoreError> {
        let of_plan =
            if name == LAST { self.with_records("plan != ?1", TRIES)? } else { self.with_records("plan = ?1", name)? };
        if let Some(id) = of_plan.get(back as usize) {
            return Ok(StoreEntry::Campaign(id.clone()));
        }
        if !of_plan.is_empty() {
            return Err(StoreError::TooFarBack { name: name.to_owned(), back, campaigns: of_plan.len() as u32 });
        }
        if name == LAST {
            return Err(StoreError::NoRecords(self.path.clone()));
        }
        // Only campaigns are counted back over.
        let nothing = || StoreError::NothingCalled(if back == 0 { name.to_owned() } else { format!("{name}~{back}") });
        if name.is_empty() || back > 0 {
            return Err(nothing());
        }
        if let Some(id) = self.campaign_beginning(name)? {
            return Ok(StoreEntry::Campaign(id));
        }
        self.record_beginning(name)?.map(StoreEntry::Record).ok_or_else(nothing)
    }

    /// The campaign whose identifier begins so, in capitals or not, if it is one.
    pub fn campaign_beginning(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.only_one_beginning("campaign", "campaigns", name)
    }

    /// The same of a record.
    pub fn record_beginning(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.only_one_beginning("record", "records", name)
    }

    fn only_one_beginning(&self, what: &'static str, table: &str, name: &str) -> Result<Option<String>, StoreError> {
        let mut found = self.beginning_with(table, name)?;
        if found.len() < 2 {
            return Ok(found.pop().map(|(id, _)| id));
        }
        let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
        let digits = digits_to_tell(&ids, &ids);
        let matches = found.iter().map(|(id, plan)| format!("{} ({plan})", id.get(..digits).unwrap_or(id)));
        Err(StoreError::Ambiguous { what, prefix: name.to_owned(), matches: matches.collect() })
    }

    /// The campaigns, oldest first, and what became of their trials; with `plan` only of this one, and `limit` at most so many,
    /// the newest. And why not, of each that cannot be read.
    pub fn campaigns(
        &self,
        plan: Option<&str>,
        limit: Option<u32>,
    ) -> Result<(Vec<Summary>, Vec<StoreError>), StoreError> {
        let (mut clauses, mut values) = match plan {
            Some(plan) => ("WHERE plan = ?1".to_owned(), vec![Value::Text(plan.to_owned())]),
            None => (String::new(), Vec::new()),
        };
        clauses += " ORDER BY id DESC";
        if let Some(limit) = limit {
            values.push(Value::Integer(limit.into()));
            clauses += &format!(" LIMIT ?{}", values.len());
        }
        self.fill()?;
        let counts = ["records", "figures"].map(|table| {
            let tried = format!("(SELECT count(DISTINCT trial_index) FROM {table} WHERE campaign = campaigns.id");
            format!("{tried} AND failed = 0), {tried})")
        });
        let sql = format!("SELECT {CAMPAIGN}, {} FROM campaigns {clauses}", counts.join(", "));
        let (mut all, unreadable) = self.readable("campaign", &sql, values, |row| {
            let counts = |at| Ok::<[u32; 2], SqlError>([row.get(at)?, row.get(at + 1)?]);
            let ([done, tried], derived) = (counts(8)?, counts(10)?);
            let summary = Summary { campaign: campaign(row)?, done, failed: tried - done, levels: BTreeMap::new() };
            Ok((summary, derived == [done, tried]))
        })?;
        // Where the two accounts of its records differ, one is damaged, or a record is.
        for (one, _) in all.iter_mut().filter(|(_, is_agreed)| !is_agreed) {
            let wanted = Selection { campaign: Some(one.campaign.id.clone()), ..Selection::default() };
            let seen = self.observations(&wanted)?;
            let tried: BTreeSet<u32> = seen.iter().map(|seen| seen.index).collect();
            let done: BTreeSet<u32> = seen.iter().filter(|seen| !seen.failed).map(|seen| seen.index).collect();
            (one.done, one.failed) = (done.len() as u32, (tried.len() - done.len()) as u32);
        }
        let mut all: Vec<Summary> = all.into_iter().map(|(one, _)| one).rev().collect();
        let levels = self.derived(|_| {
            let mut arounds = ContextCache::of(self);
            let of_campaign = |one: &Summary| {
                let sql = "SELECT DISTINCT asked FROM figures WHERE campaign = ?1";
                let id = vec![Value::Text(one.campaign.id.clone())];
                self.database.rows(sql, id, |row| arounds.asked(row.get(0)?))
            };
            all.iter().map(of_campaign).collect::<Result<Vec<_>, _>>()
        })?;
        for (one, levels) in all.iter_mut().zip(levels) {
            for (factor, level) in levels.iter().flat_map(|asked| &asked.factors) {
                one.levels.entry(factor.clone()).or_default().insert(level.clone());
            }
        }
        Ok((all, unreadable))
    }

    /// How many digits of these campaigns' identifiers tell each from every other campaign, so that a list can be short.
    pub fn digits_of_campaigns(&self, ids: &[&str]) -> Result<usize, StoreError> {
        self.digits(&["campaigns"], ids)
    }

    /// How many digits of these records' identifiers tell each from every other record, and from every campaign.
    pub fn digits_of_records(&self, ids: &[&str]) -> Result<usize, StoreError> {
        self.digits(&["campaigns", "records"], ids)
    }

    /// Of all identifiers only an identifier's neighbours matter, which an index has at hand.
    fn digits(&self, tables: &[&str], ids: &[&str]) -> Result<usize, StoreError> {
        let mut all: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        for table in tables {
            let sql = format!(
                "SELECT (SELECT max(id) FROM {table} WHERE id < value), (SELECT min(id) FROM {table} WHERE id > value)
                 FROM json_each(?1)"
            );
            let wanted = vec![Value::Text(serde_json::json!(ids).to_string())];
            // What is no text has no digits.
            let read = |row: &Row<'_>| Ok([0, 1].map(|at| row.get::<Option<String>>(at).unwrap_or_default()));
            let found = self.rows(&sql, wanted, read)?;
            all.extend(found.into_iter().flatten().flatten());
        }
        all.sort_unstable();
        all.dedup();
        Ok(digits_to_tell(&all.iter().map(String::as_str).collect::<Vec<_>>(), ids))
    }

    /// The campaigns with records whose plan is so, the newest first.
    fn with_records(&self, condition: &str, plan: &str) -> Result<Vec<String>, StoreError> {
        let sql = format!(
            "SELECT id FROM campaigns WHERE {condition} AND EXISTS (SELECT 1 FROM records WHERE campaign = campaigns.id)
             ORDER BY id DESC"
        );
        Ok(self.readable("campaign", &sql, vec![Value::Text(plan.to_owned())], |row| row.get(0))?.0)
    }

    /// Identifier and plan of what begins so.
    fn beginning_with(&self, table: &str, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        let first = prefix.to_ascii_uppercase();
        // `Z` is the last digit there is: every identifier that begins so lies between.
        let last = format!("{first}{}", "Z".repeat(26_usize.saturating_sub(first.len())));
        let sql = format!("SELECT id, plan FROM {table} WHERE id >= ?1 AND id <= ?2 ORDER BY id LIMIT 1000");
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        Ok(self.readable("record", &sql, vec![Value::Text(first), Value::Text(last)], read)?.0)
    }
}

/// How many digits tell each of `ids` from all others of `all`, which are sorted; a few at least, which read well.
fn digits_to_tell(all: &[&str], ids: &[&str]) -> usize {
    let alike = |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let needed = ids.iter().map(|id| {
        let at = all.partition_point(|other| other < id);
        let before = at.checked_sub(1).map(|before| all[before]);
        let after = all[at..].iter().find(|other| *other != id).copied();
        before.into_iter().chain(after).map(|other| alike(id, other) + 1).max().unwrap_or(0)
    });
    needed.max().unwrap_or(0).max(LEAST_DIGITS)
}

/// Campaigns of an hour differ in the sixth digit.
const LEAST_DIGITS: usize = 6;

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;

    use super::*;
    use crate::record::Record;
    use crate::sample;

    /// Campaigns of these names and plans, each with so many records.
    fn store(campaigns: &[(&str, &str, u32)]) -> Store {
        let mut store = Store::in_memory().unwrap();
        let mut index = 0;
        for (id, plan, records) in campaigns {
            let begun = Campaign {
                id: (*id).to_owned(),
                plan: (*plan).to_owned(),
                plan_text: String::new(),
                target: "netns:b".to_owned(),
                host: "netns:a".to_owned(),
                started_at: "2026-11-21T03:00:00Z".to_owned(),
                planned: 3,
                finished_at: None,
            };
            store.campaign_begin(&begun).unwrap();
            for _ in 0..*records {
                let record = sample::udp(index, Direction::Rx, 100 * (index + 1), 100.0);
                let (campaign, plan) = ((*id).to_owned(), (*plan).to_owned());
                store.insert(&Record { campaign, plan, ..record }).unwrap();
                index += 1;
            }
        }
        store
    }

    #[test]
    fn campaigns_and_records_are_called_by_many_names() {
        let store =
            store(&[("02A", "tcp", 2), ("02B", "udp", 1), ("03C", "tcp", 1), ("03D", TRIES, 1), ("03E", "tcp", 0)]);
        let check = |name: &str, back: u32, want: Result<&str, &str>| {
            let found = store.called(name, back);
            match (&found, want) {
                (Ok(StoreEntry::Campaign(id) | StoreEntry::Record(id)), Ok(want)) => {
                    assert_eq!(id, want, "{name}~{back}")
                }
                (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{name}~{back}: {error}"),
                _ => panic!("{name}~{back}: {found:?}"),
            }
        };
        check("last", 0, Ok("03C"));
        check("last", 1, Ok("02B"));
        check("last", 2, Ok("02A"));
        check("last", 7, Err("there is no last~7: there are 3 campaigns with records; "));
        check("udp", 0, Ok("02B"));
        check("udp", 1, Err("there is no udp~1: there is 1 campaign of udp with records"));
        check("tcp", 0, Ok("03C"));
        check("tcp", 1, Ok("02A"));
        check(TRIES, 0, Ok("03D"));
        check("03d", 0, Ok("03D"));
        check("02b", 0, Ok("02B"));
        check("02", 0, Err("2 campaigns begin with '02': 02A (tcp), 02B (udp); give more of it"));
        check("03E", 0, Ok("03E"));
        check("02b", 1, Err("no campaign, record or plan '02b~1'"));
        let (records, _) = store.list(&Default::default()).unwrap();
        check(&records[1].id, 0, Ok(&records[1].id));
        check(&records[1].id.to_lowercase(), 0, Ok(&records[1].id));
        check(&records[0].id[..2], 0, Err("5 records begin with"));
        for unknown in ["", "zebra", "%", "é", "7ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ", "x' OR 1=1 --"] {
            check(unknown, 0, Err("no campaign, record or plan"));
        }
        let empty = Store::in_memory().unwrap();
        assert!(matches!(empty.called("last", 0), Err(StoreError::NoRecords(_))));
    }

    #[test]
    fn campaigns_are_summed_up() {
        let mut store = store(&[("02A", "tcp", 2), ("02B", "udp", 0)]);
        let failed = Record { campaign: "02A".to_owned(), ..sample::failed(2) };
        store.insert(&failed).unwrap();
        let (all, _) = store.campaigns(None, None).unwrap();
        let counts: Vec<_> = all.iter().map(|one| (one.campaign.id.as_str(), one.done, one.failed)).collect();
        assert_eq!(counts, [("02A", 2, 1), ("02B", 0, 0)]);
        assert_eq!(all[0].levels["rate"].iter().filter(|rate| ["100M", "200M"].contains(&rate.as_str())).count(), 2);
        let plans = |plan, limit| -> Vec<String> {
            store.campaigns(plan, limit).unwrap().0.into_iter().map(|one| one.campaign.id).collect()
        };
        assert_eq!((plans(Some("udp"), None), plans(None, Some(1))), (vec!["02B".to_owned()], vec!["02B".to_owned()]));
        assert!(plans(Some("nothing"), None).is_empty());
    }

    #[test]
    fn neighbours_tell_as_much_as_all_identifiers() {
        let store = store(&[("01M7Y0", "tcp", 40), ("01M7Y1", "udp", 3), ("01M7Z0", "tcp", 0)]);
        let (records, _) = store.list(&Default::default()).unwrap();
        let of_records: Vec<&str> = records.iter().map(|one| one.id.as_str()).collect();
        let mut all = [&of_records[..], &["01M7Y0", "01M7Y1", "01M7Z0"]].concat();
        all.sort_unstable();
        for ids in [&of_records[..], &of_records[7..9], &of_records[42..], &[]] {
            assert_eq!(store.digits_of_records(ids).unwrap(), digits_to_tell(&all, ids), "{ids:?}");
        }
        assert_eq!(store.digits_of_campaigns(&["01M7Y0"]).unwrap(), LEAST_DIGITS);
    }

    #[test]
    fn identifiers_are_as_short_as_they_can_be() {
        let all = ["01M7Y0AAAA", "01M7Y0AAAB", "01M7Y1AAAA", "02M7Y1AAAA"];
        assert_eq!(digits_to_tell(&all, &all[..1]), 10);
        assert_eq!(digits_to_tell(&all, &all[2..3]), 6);
        assert_eq!(digits_to_tell(&all, &all[3..]), LEAST_DIGITS);
        assert_eq!(digits_to_tell(&all[..1], &all[..1]), LEAST_DIGITS);
        assert_eq!(digits_to_tell(&[], &[]), LEAST_DIGITS);
    }
}
