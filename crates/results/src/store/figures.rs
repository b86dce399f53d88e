//! A second account of every record in the store: its figures in columns, and what stood around it once for all
//! records that share it. For comparisons and histories, which read a hundred thousand records at once.
//! Everything here is derived: it can be thrown away and made again from the records, and a row that does not fit its record is.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use linerate_machine::sync::Mutex;
use rusqlite::types::{FromSqlError, Value};

use super::database::{Database, Row};
use super::sql_error::SqlError;
use super::{Listed, SCHEMA, Store, StoreError, measured, read, said, text, unpacked};
use crate::figure::{METRICS, Metric};
use crate::observation::{Facts, Observation, TrialContext, TrialRequest};
use crate::record::{NullSide, Record, digest};
use crate::select::Selection;

/// To be raised when [`Observation::of`] says other things of the same record: the tables are then made anew.
const DERIVATION: u32 = 7;

const COLUMNS: &str = "record, digest, campaign, started_at, trial_index, repeat, configuration, null_side, doubts, failed, asked, machines, listed";

/// Records whose rows are made in one transaction: other writers wait no longer than that takes.
const BATCH: usize = 200;

/// The tables; `unmade` has the identifiers of the records whose rows are yet to be made. What is kept of `figures` in the file is
/// this text, by which an older derivation is known.
fn tables() -> [String; 4] {
    let metrics: String = METRICS.iter().map(|metric| format!(", \"{}\" REAL", metric.name)).collect();
    [
        format!(
            "CREATE TABLE figures (record TEXT PRIMARY KEY NOT NULL, digest TEXT NOT NULL, campaign TEXT NOT NULL, started_at TEXT NOT NULL, \
             trial_index INTEGER NOT NULL, repeat INTEGER NOT NULL, configuration INTEGER, null_side TEXT, \
             doubts TEXT NOT NULL, failed INTEGER NOT NULL, asked INTEGER NOT NULL, machines INTEGER NOT NULL, listed TEXT NOT NULL{metrics}, seal TEXT NOT NULL) STRICT, WITHOUT ROWID /* derivation {DERIVATION} */"
        ),
        "CREATE INDEX figures_by_campaign ON figures (campaign)".to_owned(),
        "CREATE TABLE around (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT".to_owned(),
        "CREATE TABLE unmade (record TEXT PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID".to_owned(),
    ]
}

/// One point of a history: a figure of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The campaign's identifier.
    pub campaign: Arc<str>,
    /// When the trial started, RFC 3339.
    pub started_at: String,
    /// What stood around it.
    pub around: TrialContext,
    /// The figure, in the record's unit.
    pub value: f64,
}

/// How many rows are read at once: a server sends all of an answer.
const AT_ONCE: usize = 20_000;

/// The rows that were held against their records: of each campaign, how many. A process that opens its store again and again looks at a
/// campaign once, and again when it has more of them: to look takes four times as long as to read.
#[derive(Clone, Debug, Default)]
pub struct CheckedRows(Arc<Mutex<HashMap<String, i64>>>);

impl CheckedRows {
    fn has(&self, counts: &[(String, i64)]) -> bool {
        let checked = self.0.lock();
        counts.iter().all(|(campaign, rows)| checked.get(campaign) == Some(rows))
    }

    fn add(&self, counts: Vec<(String, i64)>) {
        self.0.lock().extend(counts);
    }
}

/// A record, as far as a follower of a store looks at it.
#[derive(Clone, Copy, Debug)]
pub struct RecordDigest<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// The names of its doubts, joined by commas.
    pub doubts: &'a str,
    /// It has no figures.
    pub failed: bool,
    /// It is the second side of an A/A pair, which no median has.
    pub is_side_b: bool,
    /// What was asked.
    pub asked: &'a TrialRequest,
    /// Its figures, in the order that was asked for.
    pub values: &'a [Option<f64>],
}

/// Makes the tables for what is derived from the records, in a store that has none or that of another version of linerate. Who reads
/// them fills them: opening a store to write takes no longer than this.
pub(super) fn make_current(database: &Database) -> Result<(), SqlError> {
    if are_current(database)? {
        return Ok(());
    }
    database.transaction(|| {
        // Another process may have made them since we looked.
        database.lock_tables()?;
        if are_current(database)? { Ok(()) } else { make(database) }
    })
}

/// Whether the tables are there, and of this derivation.
fn are_current(database: &Database) -> Result<bool, SqlError> {
    Ok(database.mark_of_figures()?.is_some_and(|found| found == tables()[0]))
}

/// Makes the tables, and says that every record's row is yet to be made.
fn make(database: &Database) -> Result<(), SqlError> {
    database.batch("DROP TABLE IF EXISTS figures; DROP TABLE IF EXISTS around; DROP TABLE IF EXISTS unmade;")?;
    database.make_figures(&tables(), SCHEMA)?;
    // A record whose identifier cannot be read is left out, as it could not be compared either.
    let id = |row: &Row<'_>| match row.get::<String>(0) {
        Err(error) if error.is_of_a_value() => Ok(None),
        id => id.map(Some),
    };
    let ids = database.rows("SELECT id FROM records ORDER BY id", Vec::new(), id)?;
    let ids: Vec<String> = ids.into_iter().flatten().collect();
    for ids in ids.chunks(AT_ONCE) {
        database.execute("INSERT INTO unmade (record) SELECT value FROM json_each(?1)", vec![list(ids)])?;
    }
    Ok(())
}

/// Texts as the value of a `json_each(?1)`.
fn list<T: serde::Serialize>(texts: T) -> Value {
    Value::Text(serde_json::json!(texts).to_string())
}

/// A record with its JSON, and the digest of that as the store has it packed.
pub(super) type PackedRecord<'a> = (&'a Record, &'a str, String);

/// Adds a record's row; in the transaction that adds the record.
pub(super) fn insert(database: &Database, record: &Record, json: &str, packed: &str) -> Result<(), SqlError> {
    insert_all(database, &[(record, json, packed.to_owned())])
}

/// The same for many records, of which some may be there.
pub(super) fn insert_all(database: &Database, records: &[PackedRecord<'_>]) -> Result<(), SqlError> {
    let mut arounds = BTreeMap::new();
    let rows = records.iter().map(|(record, json, packed)| {
        let seen = Observation::of(record);
        let numbers = texts_around(&seen).map(|text| {
            let number = number_of(&text);
            arounds.insert(number, text);
            number
        });
        row((record, seen), json, numbers, packed)
    });
    let rows = rows.collect();
    let arounds = arounds.into_iter().map(|(number, text)| vec![Value::Integer(number), Value::Text(text)]);
    database.insert_new("around", "id, text", arounds.collect())?;
    database.insert_new("figures", &columns(), rows)?;
    Ok(())
}

/// The number of what stands around a record: of its digest, so that each text is kept once, and one that has another number was
/// not written so.
fn number_of(text: &str) -> i64 {
    i64::from_str_radix(&digest(text)[..15], 16).expect("fifteen of its digits")
}

fn texts_around(seen: &Observation) -> [String; 2] {
    [serde_json::to_string(&*seen.around.asked).unwrap_or_default(), seen.around.machines.text()]
}

fn row((record, seen): (&Record, Observation), json: &str, numbers: [i64; 2], packed: &str) -> Vec<Value> {
    let Observation {
        id, campaign, started_at, index, repeat, configuration, null_side, doubts, failed, values, ..
    } = seen;
    let mut row: Vec<Value> = [id, digest(json), campaign, started_at].map(Value::Text).into();
    row.extend([Value::Integer(index.into()), Value::Integer(repeat.into())]);
    row.push(configuration.map_or(Value::Null, |number| Value::Integer(number.into())));
    row.push(null_side.map_or(Value::Null, |side| Value::Text(side.name().to_owned())));
    row.push(Value::Text(doubts));
    row.push(Value::Integer(failed.into()));
    row.extend(numbers.map(Value::Integer));
    row.push(Value::Text(Listed::of(record).digest()));
    // What is no number SQLite keeps as nothing.
    row.extend(values.into_iter().map(|value| value.filter(|value| !value.is_nan()).map_or(Value::Null, Value::Real)));
    row.push(Value::Text(seal(&row, packed)));
    row
}

const TAKES: &str = "a String takes what is written";

/// By what a row is known again: a digest of all that it says, with that of its record as the store has it packed.
fn seal(row: &[Value], packed: &str) -> String {
    let mut all = String::with_capacity(1024);
    // Each with its length, so that no two rows come to one text.
    let add = |all: &mut String, text: &str| write!(all, "{}:{text}", text.len()).expect(TAKES);
    add(&mut all, packed);
    for value in row {
        match value {
            Value::Null => all.push_str("1:-"),
            Value::Integer(number) => add(&mut all, &number.to_string()),
            // Most of a row, and a store has millions of them: without a text of their own.
            Value::Real(number) => {
                let bits = number.to_bits();
                write!(all, "{}:{bits:x}", bits.checked_ilog2().map_or(1, |top| top / 4 + 1)).expect(TAKES);
            }
            Value::Text(text) => add(&mut all, text),
            Value::Blob(octets) => add(&mut all, &digest(octets)),
        }
    }
    digest(all)
}

/// The columns of [`row`].
fn columns() -> String {
    format!("{COLUMNS}{}, seal", metric_columns())
}

fn metric_columns() -> String {
    METRICS.iter().map(|metric| format!(", \"{}\"", metric.name)).collect()
}

impl Store {
    /// What a comparison needs of the records that are wanted, in the order in which they were made.
    pub fn observations(&self, wanted: &Selection) -> Result<Vec<Observation>, StoreError> {
        self.derived(|misfits| self.database.reading(|| self.observations_read(wanted, misfits)))
    }

    /// What is read of the derived tables. Rows that do not fit their records are made anew, and if the tables
    /// have what cannot be read, all are: they say nothing that the records do not.
    pub(super) fn derived<T>(&self, read: impl Fn(&mut Vec<String>) -> Result<T, SqlError>) -> Result<T, StoreError> {
        self.fill()?;
        let mut misfits = Vec::new();
        let found = match read(&mut misfits) {
            Err(error) if error.is_of_a_value() => {
                let made = self.database.transaction(|| make(&self.database));
                made.map_err(|error| self.said_deriving(error))?;
                self.fill()?;
                read(&mut Vec::new())
            }
            Ok(_) if !misfits.is_empty() => {
                misfits.chunks(BATCH).try_for_each(|ids| self.make_rows(ids))?;
                read(&mut Vec::new())
            }
            found => found,
        };
        found.map_err(|error| said(&self.path, error))
    }

    /// Makes the rows that are yet to be made.
    pub(super) fn fill(&self) -> Result<(), StoreError> {
        let sql = format!("SELECT record FROM unmade ORDER BY record LIMIT {BATCH}");
        loop {
            let ids: Vec<String> = self.rows(&sql, Vec::new(), |row| row.get(0))?;
            if ids.is_empty() {
                return self.close_gaps();
            }
            self.make_rows(&ids)?;
        }
    }

    /// Makes the rows that are gone, though nobody said that they are yet to be made: as by a stranger who has written into the tables. Once
    /// in a process, for those of records that cannot be read stay away.
    fn close_gaps(&self) -> Result<(), StoreError> {
        if !self.has_gaps.replace(false) {
            return Ok(());
        }
        let counts = "SELECT (SELECT count(*) FROM records) - (SELECT count(*) FROM figures)";
        if self.rows(counts, Vec::new(), |row| row.get::<i64>(0))?.first().is_none_or(|gone| *gone <= 0) {
            return Ok(());
        }
        let sql = "SELECT id FROM records WHERE NOT EXISTS (SELECT 1 FROM figures WHERE figures.record = records.id) ORDER BY id";
        let id = |row: &Row<'_>| match row.get::<String>(0) {
            Err(error) if error.is_of_a_value() => Ok(None),
            id => id.map(Some),
        };
        let ids: Vec<String> = self.rows(sql, Vec::new(), id)?.into_iter().flatten().collect();
        ids.chunks(BATCH).try_for_each(|ids| self.make_rows(ids))
    }

    /// Makes the rows of these records, whatever there was of them. A record that this program cannot read has none, as it could not
    /// be compared either.
    fn make_rows(&self, ids: &[String]) -> Result<(), StoreError> {
        let said = |error| said(&self.path, error);
        let dictionary = super::dictionary(&self.database).map_err(said)?.unwrap_or_default();
        let sql = "SELECT packed FROM records WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id";
        let packed = |row: &Row<'_>| match row.get::<Vec<u8>>(0) {
            Err(error) if error.is_of_a_value() => Ok(None),
            packed => packed.map(Some),
        };
        let found = self.rows(sql, vec![list(ids)], packed)?.into_iter().flatten();
        let found: Vec<(Record, String, Vec<u8>)> = found
            .filter_map(|packed| {
                let json = unpacked(&dictionary, &packed).ok()?;
                Some((read(&json).ok()?, json, packed))
            })
            .collect();
        let kept: Vec<PackedRecord<'_>> =
            found.iter().map(|(record, json, packed)| (record, json.as_str(), digest(packed))).collect();
        let made = self.database.transaction(|| {
            for table in ["figures", "unmade"] {
                let sql = format!("DELETE FROM {table} WHERE record IN (SELECT value FROM json_each(?1))");
                self.database.execute(&sql, vec![list(ids)])?;
            }
            insert_all(&self.database, &kept)
        });
        made.map_err(|error| self.said_deriving(error))
    }

    /// The records among those that are wanted whose rows are not what was made of them: somebody has written into the one or the other.
    fn misfits(
        &self,
        wanted: &Selection,
        (clauses, values): &(String, Vec<Value>),
        arounds: &mut ContextCache<'_>,
        misfits: &mut Vec<String>,
    ) -> Result<(), SqlError> {
        let database = &self.database;
        // Of a part of a campaign nothing is remembered.
        let is_whole = wanted.record.is_none() && wanted.since_ms.is_none() && wanted.until_ms.is_none();
        let checked = self.checked.as_ref().filter(|_| is_whole);
        let mut counts = Vec::new();
        if let Some(checked) = checked {
            let sql = format!("SELECT campaign, count(*) FROM figures{clauses} GROUP BY campaign");
            counts = database.rows(&sql, values.clone(), |row| Ok((row.get(0)?, row.get(1)?)))?;
            if checked.has(&counts) {
                return Ok(());
            }
        }
        self.check_index(clauses, values)?;
        let packed = database.packed();
        let sql = format!(
            "SELECT {}, (SELECT {packed} FROM records WHERE id = figures.record) FROM figures{clauses}",
            columns()
        );
        let last = COLUMNS.split(',').count() + METRICS.len();
        let read = |row: &Row<'_>| {
            let around = arounds.get(row.get(10)?, row.get(11)?)?;
            if checked.is_none() && !wanted.wants(&around) {
                return Ok(None);
            }
            let (id, sealed): (String, String) = (row.get(0)?, row.get(last)?);
            let packed = database.digest_of_packed(row, last + 1)?;
            // One of [`Store::lengthen`]'s.
            if packed.is_none() && sealed.is_empty() {
                return Ok(None);
            }
            let said = (0..last).map(|at| row.get(at)).collect::<Result<Vec<Value>, SqlError>>()?;
            let fits = packed.is_some_and(|packed| seal(&said, &packed) == sealed);
            Ok((!fits).then_some(id))
        };
        let found: Vec<String> = database.rows(&sql, values.clone(), read)?.into_iter().flatten().collect();
        if let Some(checked) = checked.filter(|_| found.is_empty()) {
            checked.add(counts);
        }
        misfits.extend(found);
        Ok(())
    }

    /// A row of a file that is there, and that the index of campaigns does not lead to, is missed by nobody: then all are made anew. A
    /// server sees to its indexes itself.
    fn check_index(&self, clauses: &str, values: &[Value]) -> Result<(), SqlError> {
        if !matches!(self.database, Database::Sqlite(_)) {
            return Ok(());
        }
        // An expression keeps from that index.
        let sql = format!(
            "SELECT (SELECT count(*) FROM (SELECT id AS record, campaign FROM records WHERE EXISTS
                 (SELECT 1 FROM figures WHERE record = records.id AND campaign || '' = records.campaign)) AS known{clauses})
                 - (SELECT count(*) FROM figures{clauses})"
        );
        match self.database.first(&sql, values.to_vec(), |row| row.get::<i64>(0))? {
            Some(missed @ 1..) => Err(FromSqlError::OutOfRange(missed).into()),
            _ => Ok(()),
        }
    }

    fn observations_read(&self, wanted: &Selection, misfits: &mut Vec<String>) -> Result<Vec<Observation>, SqlError> {
        let (clauses, values) = wanted.clauses();
        let sql = format!("SELECT {COLUMNS}{} FROM figures{clauses} ORDER BY record", metric_columns());
        let mut arounds = ContextCache::of(self);
        arounds.read_all(&clauses, &values)?;
        self.misfits(wanted, &wanted.clauses(), &mut arounds, misfits)?;
        let mut read = |row: &Row<'_>| -> Result<Option<Observation>, SqlError> {
            let around = arounds.get(row.get(10)?, row.get(11)?)?;
            if !wanted.wants(&around) {
                return Ok(None);
            }
            let value = |at: usize| measured(row, 13 + at);
            Ok(Some(Observation {
                id: row.get(0)?,
                campaign: row.get(2)?,
                started_at: row.get(3)?,
                index: row.get(4)?,
                repeat: row.get(5)?,
                configuration: row.get(6)?,
                null_side: row.get::<Option<String>>(7)?.as_deref().and_then(NullSide::parse),
                doubts: row.get(8)?,
                failed: row.get(9)?,
                around,
                values: (0..METRICS.len()).map(value).collect::<Result<_, _>>()?,
            }))
        };
        Ok(self.database.rows(&sql, values, &mut read)?.into_iter().flatten().collect())
    }

    /// The identifiers of the records among these that have no figures here because they could not be read when these were
    /// made, in order. What stands around such a record nobody knows, but for its plan.
    pub fn unread(&self, wanted: &Selection) -> Result<Vec<String>, StoreError> {
        self.fill()?;
        let (clauses, values) = wanted.clauses();
        let sql = format!(
            "SELECT record, plan FROM (SELECT id AS record, campaign, plan FROM records
                 WHERE NOT EXISTS (SELECT 1 FROM figures WHERE figures.record = records.id)) AS unread{clauses} ORDER BY record"
        );
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (found, _): (Vec<(String, String)>, _) = self.readable("record", &sql, values, read)?;
        let is_of_plan = |plan: &str| wanted.levels.iter().all(|(name, level)| name != "plan" || level == plan);
        Ok(found.into_iter().filter(|(_, plan)| is_of_plan(plan)).map(|(id, _)| id).collect())
    }

    /// The identifiers of the records that are wanted, the newest first; of many, the first `most`, and no more is read than those take.
    pub fn wanted(&self, wanted: &Selection, most: usize) -> Result<Vec<String>, StoreError> {
        self.derived(|_| self.wanted_read(wanted, most))
    }

    fn wanted_read(&self, wanted: &Selection, most: usize) -> Result<Vec<String>, SqlError> {
        let mut arounds = ContextCache::of(self);
        let (mut found, mut before) = (Vec::new(), None::<String>);
        while found.len() < most {
            let (mut clauses, mut values) = wanted.clauses();
            if let Some(before) = before {
                let word = if values.is_empty() { "WHERE" } else { "AND" };
                values.push(text(&before));
                clauses += &format!(" {word} record < ?{}", values.len());
            }
            let sql =
                format!("SELECT record, asked, machines FROM figures{clauses} ORDER BY record DESC LIMIT {AT_ONCE}");
            let read = self.database.rows(&sql, values, |row| {
                let around = arounds.get(row.get(1)?, row.get(2)?)?;
                Ok((row.get::<String>(0)?, wanted.wants(&around)))
            })?;
            before = read.last().map(|(id, _)| id.clone());
            found.extend(read.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(id, _)| id));
            if before.is_none() {
                break;
            }
        }
        found.truncate(most);
        Ok(found)
    }

    /// The figures of all records so many times more, as of earlier campaigns: for examples of long histories, which read nothing else.
    #[cfg(any(test, feature = "sample"))]
    pub fn lengthen(&mut self, times: u64) -> Result<(), StoreError> {
        self.fill()?;
        let columns = format!("{COLUMNS}{}", metric_columns());
        let earlier = |name: &str| format!("'0' || (100000 + k) || substr({name}, 8)");
        let copied = columns.replacen("record,", &format!("{},", earlier("record")), 1);
        let copied = copied.replacen(" campaign,", &format!(" {},", earlier("campaign")), 1);
        let sql = format!(
            "INSERT INTO figures ({columns}, seal)
                 WITH RECURSIVE nth(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM nth WHERE k < {times})
                 SELECT {copied}, '' FROM nth, figures ORDER BY 1"
        );
        self.database.batch(&sql).map_err(|error| said(&self.path, error))
    }

    /// How many records the store has whose figures can be read.
    pub fn count(&self) -> Result<u64, StoreError> {
        self.fill()?;
        let all = self.rows("SELECT count(*) FROM figures", Vec::new(), |row| row.get::<i64>(0))?;
        Ok(all.first().copied().unwrap_or_default().unsigned_abs())
    }

    /// How many campaigns have begun, and how many of them have run all their trials.
    pub fn count_campaigns(&self) -> Result<[u64; 2], StoreError> {
        let count = |row: &Row<'_>| Ok([row.get::<i64>(0)?, row.get::<i64>(1)?].map(i64::unsigned_abs));
        let all = self.rows("SELECT count(*), count(finished_at) FROM campaigns", Vec::new(), count)?;
        Ok(all.first().copied().unwrap_or_default())
    }

    /// The records from this identifier on, in the order of their identifiers, one at a time: of a million, only what is
    /// made of them is kept. `values` are of these metrics.
    pub fn each_since(
        &self,
        id: &str,
        metrics: &[&Metric],
        mut with: impl FnMut(RecordDigest<'_>),
    ) -> Result<(), StoreError> {
        let columns: String = metrics.iter().map(|metric| format!(", \"{}\"", metric.name)).collect();
        let (mut from, mut relation) = (id.to_owned(), ">=");
        loop {
            let sql = format!(
                "SELECT record, doubts, failed, null_side, asked{columns} FROM figures WHERE record {relation} ?1 \
                 ORDER BY record LIMIT {AT_ONCE}"
            );
            let read = self.derived(|_| {
                let mut arounds = ContextCache::of(self);
                self.database.rows(&sql, vec![text(&from)], |row| {
                    let values = (0..metrics.len()).map(|at| measured(row, 5 + at)).collect::<Result<Vec<_>, _>>()?;
                    let is_side_b = row.get::<Option<String>>(3)?.as_deref() == Some(NullSide::B.name());
                    let (id, doubts): (String, String) = (row.get(0)?, row.get(1)?);
                    Ok((id, doubts, row.get(2)?, is_side_b, arounds.asked(row.get(4)?)?, values))
                })
            })?;
            for (id, doubts, failed, is_side_b, asked, values) in &read {
                let (failed, is_side_b) = (*failed, *is_side_b);
                with(RecordDigest { id, doubts, failed, is_side_b, asked, values });
            }
            match read.into_iter().next_back() {
                Some((last, ..)) => (from, relation) = (last, ">"),
                None => return Ok(()),
            }
        }
    }

    /// One metric of the records that are wanted, of the last `last` campaigns that have it, the oldest campaign first. Records
    /// without it are left out, and so is side b of A/A trials, as from every median.
    ///
    /// From the newest campaigns on, by their index: what is older is not read, however much there is of it.
    pub fn points(&self, metric: &Metric, wanted: &Selection, last: usize) -> Result<Vec<Point>, StoreError> {
        self.derived(|misfits| self.database.reading(|| self.points_read(metric, wanted, last, misfits)))
    }

    /// Holds the rows of all campaigns against their records, which who asks first for a history would wait for: for a process that
    /// [looks once](Store::checking_once).
    pub fn check(&self) -> Result<(), StoreError> {
        let (wanted, mut next) = (Selection::default(), Some(AFTER_ALL.to_owned()));
        while let Some(later) = next {
            // A few campaigns at a time, so that writers are not blocked.
            let check = |misfits: &mut Vec<String>| {
                let Some(range) = self.campaigns_before(&later, CAMPAIGNS)? else { return Ok(None) };
                self.misfits(&wanted, &clauses_within(&wanted, Some(&range)), &mut ContextCache::of(self), misfits)?;
                let [oldest, _] = range;
                Ok(Some(oldest))
            };
            next = self.derived(|misfits| self.database.reading(|| check(misfits)))?;
        }
        Ok(())
    }

    fn points_read(
        &self,
        metric: &Metric,
        wanted: &Selection,
        last: usize,
        misfits: &mut Vec<String>,
    ) -> Result<Vec<Point>, SqlError> {
        let mut arounds = ContextCache::of(self);
        if wanted.record.is_some() {
            return self.points_of(metric, wanted, None, &mut arounds, misfits);
        }
        let mut campaigns: Vec<Vec<Point>> = Vec::new();
        let mut next = match &wanted.campaign {
            Some(campaign) => Some([campaign.clone(), campaign.clone()]).filter(|_| last > 0),
            None => self.campaigns_before(AFTER_ALL, last)?,
        };
        while let Some(range) = next {
            let points = self.points_of(metric, wanted, Some(&range), &mut arounds, misfits)?;
            campaigns.extend(points.chunk_by(|one, other| one.campaign == other.campaign).rev().map(<[Point]>::to_vec));
            let left = if wanted.campaign.is_some() { 0 } else { last - campaigns.len() };
            next = self.campaigns_before(&range[0], left)?;
        }
        Ok(campaigns.into_iter().rev().flatten().collect())
    }

    /// The oldest and the newest of the last campaigns that have records, at most so many, of those before this one. Identifiers
    /// sort by time.
    fn campaigns_before(&self, later: &str, most: usize) -> Result<Option<[String; 2]>, SqlError> {
        let values = vec![text(later), Value::Integer(most.min(CAMPAIGNS) as i64)];
        let mut all = self.database.rows(BEFORE, values, |row| row.get::<String>(0))?.into_iter();
        Ok(all.next().map(|newest| [all.next_back().unwrap_or_else(|| newest.clone()), newest]))
    }

    fn points_of(
        &self,
        metric: &Metric,
        wanted: &Selection,
        campaigns: Option<&[String; 2]>,
        arounds: &mut ContextCache<'_>,
        misfits: &mut Vec<String>,
    ) -> Result<Vec<Point>, SqlError> {
        self.misfits(wanted, &clauses_within(wanted, campaigns), arounds, misfits)?;
        let (sql, values) = points_query(metric, wanted, campaigns);
        let mut last: Option<Arc<str>> = None;
        let mut read = |row: &Row<'_>| -> Result<Option<Point>, SqlError> {
            let around = arounds.get(row.get(2)?, row.get(3)?)?;
            if !wanted.wants(&around) {
                return Ok(None);
            }
            let name: Arc<str> = row.get(0)?;
            let campaign = last.take_if(|last| **last == *name).unwrap_or(name);
            last = Some(Arc::clone(&campaign));
            let Some(value) = measured(row, 4)? else { return Ok(None) };
            Ok(Some(Point { campaign, started_at: row.get(1)?, around, value }))
        };
        Ok(self.database.rows(&sql, values, &mut read)?.into_iter().flatten().collect())
    }
}

/// Behind every campaign.
const AFTER_ALL: &str = "\u{10ffff}";

/// The last campaigns before one, each found by the index: a server takes longer for a question than for its answer.
pub(super) const BEFORE: &str = "WITH RECURSIVE latest(campaign) AS (
        SELECT max(campaign) FROM figures WHERE campaign < ?1
        UNION ALL
        SELECT (SELECT max(campaign) FROM figures WHERE campaign < latest.campaign) FROM latest WHERE campaign IS NOT NULL)
    SELECT campaign FROM latest WHERE campaign IS NOT NULL LIMIT ?2";
/// How many of them are checked at a time.
const CAMPAIGNS: usize = 50;

/// Asks for one metric of what is wanted, from the first of two campaigns to the second.
pub(super) fn points_query(
    metric: &Metric,
    wanted: &Selection,
    campaigns: Option<&[String; 2]>,
) -> (String, Vec<Value>) {
    let (clauses, values) = clauses_within(wanted, campaigns);
    let (and, name) = (if values.is_empty() { "WHERE" } else { "AND" }, &metric.name);
    let sql = format!(
        "SELECT campaign, started_at, asked, machines, \"{name}\" FROM figures{clauses} {and} \"{name}\" IS NOT NULL \
         AND null_side IS DISTINCT FROM '{}' ORDER BY campaign, record",
        NullSide::B.name()
    );
    (sql, values)
}

/// What is wanted of these campaigns, from the first to the second.
fn clauses_within(wanted: &Selection, campaigns: Option<&[String; 2]>) -> (String, Vec<Value>) {
    let (mut clauses, mut values) = wanted.clauses();
    for (campaign, relation) in campaigns.into_iter().flatten().zip([">=", "<="]) {
        let and = if values.is_empty() { "WHERE" } else { "AND" };
        values.push(text(campaign));
        clauses += &format!(" {and} campaign {relation} ?{}", values.len());
    }
    (clauses, values)
}

/// The clause for what stands around the rows of these clauses.
fn of_figures(clauses: &str) -> String {
    format!(" WHERE id IN (SELECT asked FROM figures{clauses} UNION SELECT machines FROM figures{clauses})")
}

/// What stands around records, each part read once. One that is gone, or is not what was written, is an error of a value.
pub(super) struct ContextCache<'a> {
    database: &'a Database,
    /// Read, and not looked at yet.
    texts: HashMap<i64, String>,
    asked: HashMap<i64, Arc<TrialRequest>>,
    machines: HashMap<i64, Arc<Facts>>,
}

impl ContextCache<'_> {
    pub(super) fn of(store: &Store) -> ContextCache<'_> {
        ContextCache {
            database: &store.database,
            texts: HashMap::new(),
            asked: HashMap::new(),
            machines: HashMap::new(),
        }
    }

    /// Reads what stands around all records of these clauses at once: a server takes longer for a question than for its answer.
    fn read_all(&mut self, clauses: &str, values: &[Value]) -> Result<(), SqlError> {
        let sql = format!("SELECT id, text FROM around{}", of_figures(clauses));
        self.texts.extend(self.database.rows(&sql, values.to_vec(), |row| Ok((row.get(0)?, row.get(1)?)))?);
        Ok(())
    }

    /// What was asked, by its number.
    pub(super) fn asked(&mut self, number: i64) -> Result<Arc<TrialRequest>, SqlError> {
        let read = |text: String| serde_json::from_str(&text).unwrap_or_default();
        part(self.database, &mut self.texts, &mut self.asked, number, read)
    }

    fn get(&mut self, asked: i64, machines: i64) -> Result<TrialContext, SqlError> {
        let machines = part(self.database, &mut self.texts, &mut self.machines, machines, Facts::of_text)?;
        Ok(TrialContext { asked: self.asked(asked)?, machines })
    }
}

fn part<T>(
    database: &Database,
    texts: &mut HashMap<i64, String>,
    known: &mut HashMap<i64, Arc<T>>,
    id: i64,
    of_text: impl FnOnce(String) -> T,
) -> Result<Arc<T>, SqlError> {
    if let Some(known) = known.get(&id) {
        return Ok(Arc::clone(known));
    }
    let text = match texts.remove(&id) {
        Some(text) => Some(text),
        None => database.first("SELECT text FROM around WHERE id = ?1", vec![Value::Integer(id)], |row| row.get(0))?,
    };
    let text = text.filter(|text: &String| number_of(text) == id).ok_or(FromSqlError::OutOfRange(id))?;
    let part = Arc::new(of_text(text));
    known.insert(id, Arc::clone(&part));
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores hold seals: another one for the same row has all rows made anew.
    #[test]
    fn a_seal_is_of_each_value_with_its_length() {
        let reals = [0.0, -0.0, 5e-324, 1.5, -1e300, f64::INFINITY, 5e-324 * 16.0, 5e-324 * 15.0];
        let mut row = vec![Value::Null, Value::Text("1:-".to_owned()), Value::Text(String::new())];
        row.extend([0, -7, i64::MIN, i64::MAX].map(Value::Integer));
        row.extend(reals.map(Value::Real));
        row.push(Value::Blob(vec![0, 255]));
        let words = row.iter().map(|value| match value {
            Value::Null => "-".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => format!("{:x}", number.to_bits()),
            Value::Text(text) => text.clone(),
            Value::Blob(octets) => digest(octets),
        });
        let all = std::iter::once("c".to_owned()).chain(words);
        let plain: String = all.map(|word| format!("{}:{word}", word.len())).collect();
        assert_eq!(seal(&row, "c"), digest(plain));
        assert_eq!(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
