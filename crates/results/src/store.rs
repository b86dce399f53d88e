//! The store: one SQLite file with every record, and the campaigns they belong to.
//! Knows no default path and no clock; where the file is and what time it is are arguments.

mod campaigns;
mod figures;
mod packed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_trial::api::ApiUse;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior, ffi, params};
use serde::{Deserialize, Serialize};

pub use self::campaigns::{Picked, Summary, TRIES};
use self::figures::Arounds;
pub use self::figures::Point;
use self::packed::Dictionary;
pub use crate::error::StoreError;
use crate::error::{BUSY, said};
use crate::id;
use crate::record::{FORMAT, FlowFigures, Record};
use crate::select::Filter;

/// Records on disk. Each is written in one transaction that has reached the disk when [`Store::insert`] returns:
/// a process killed at any instant loses no record that was inserted and leaves no half of one. Several processes
/// may write at the same time; each waits for the other.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// A plan being carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Campaign {
    /// Its identifier, as [`crate::id::id`] makes them.
    pub id: String,
    /// The plan's name.
    pub plan: String,
    /// The plan as it was given, so that it can be carried on without its file.
    pub plan_text: String,
    /// How the target's agent is reached.
    pub target: String,
    /// How the host's agent is reached.
    pub host: String,
    /// When it began, RFC 3339, UTC.
    pub started_at: String,
    /// How many trials it has in all.
    pub planned: u32,
    /// When its last trial ended, RFC 3339, UTC; absent while it is under way or was broken off.
    pub finished_at: Option<String>,
}

/// What a list shows of a record; read without reading the record itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The record's identifier.
    pub id: String,
    /// The campaign's identifier.
    pub campaign: String,
    /// The plan's name.
    pub plan: String,
    /// Which trial of the campaign, from 0.
    pub index: u32,
    /// Which repeat of its configuration, from 0.
    pub repeat: u32,
    /// What traffic.
    pub workload: String,
    /// Which way.
    pub direction: String,
    /// When it started, RFC 3339, UTC.
    pub started_at: String,
    /// How the target's agent was reached.
    pub target: String,
    /// The levels that distinguish its configuration: factor → level.
    pub factors: BTreeMap<String, String>,
    /// Payload bits per second at the receiving application.
    pub throughput_bps: Option<f64>,
    /// Lost / sent.
    pub loss_ratio: Option<f64>,
    /// Requests answered each second.
    pub transactions_per_s: Option<f64>,
    /// The trial has no figures.
    pub failed: bool,
    /// What the sender and the receiver of a stream used; absent where it is not known.
    pub apis: [Option<String>; 2],
}

/// The version of the tables below, kept in the file's `user_version`.
const SCHEMA: i64 = 4;
/// A store whose figures in columns have yet to be made.
const WITHOUT_FIGURES: i64 = 3;
/// "line" in ASCII, kept in the file's `application_id`: how a store is told from any other SQLite file.
const APPLICATION: i64 = 0x6c69_6e65;

/// Columns beside `packed`, which is the record, repeat what it says, for lists and filters. `dictionary` has one row, which
/// the first record brings. REPLACE deletes rows without asking the DELETE
/// trigger (sqlite.org/lang_conflict.html), so a trigger of its own refuses a second insert.
const TABLES: &str = "
    CREATE TABLE campaigns (
        id TEXT PRIMARY KEY NOT NULL,
        plan TEXT NOT NULL,
        plan_text TEXT NOT NULL,
        target TEXT NOT NULL,
        host TEXT NOT NULL,
        started_at TEXT NOT NULL,
        planned INTEGER NOT NULL,
        finished_at TEXT
    ) STRICT;
    CREATE TABLE records (
        id TEXT PRIMARY KEY NOT NULL,
        campaign TEXT NOT NULL,
        plan TEXT NOT NULL,
        trial_index INTEGER NOT NULL,
        repeat INTEGER NOT NULL,
        workload TEXT NOT NULL,
        direction TEXT NOT NULL,
        started_at TEXT NOT NULL,
        target TEXT NOT NULL,
        host TEXT NOT NULL,
        throughput_bps REAL,
        loss_ratio REAL,
        transactions_per_s REAL,
        failed INTEGER NOT NULL,
        sender_api TEXT,
        receiver_api TEXT,
        packed BLOB NOT NULL
    ) STRICT;
    CREATE TABLE dictionary (id INTEGER PRIMARY KEY CHECK (id = 1), octets BLOB NOT NULL) STRICT;
    CREATE INDEX records_by_campaign ON records (campaign, trial_index);
    CREATE INDEX records_by_plan ON records (plan, id);
    CREATE TRIGGER records_are_written_once BEFORE INSERT ON records
        WHEN EXISTS (SELECT 1 FROM records WHERE id = NEW.id)
        BEGIN SELECT RAISE(ABORT, 'a record, once written, is never changed'); END;
    CREATE TRIGGER records_are_never_changed BEFORE UPDATE ON records
        BEGIN SELECT RAISE(ABORT, 'a record, once written, is never changed'); END;
    CREATE TRIGGER records_are_never_deleted BEFORE DELETE ON records
        BEGIN SELECT RAISE(ABORT, 'a record, once written, is never deleted'); END;
    CREATE TRIGGER dictionary_is_never_changed BEFORE UPDATE ON dictionary
        BEGIN SELECT RAISE(ABORT, 'records are packed against it, so it is never changed'); END;
    CREATE TRIGGER dictionary_is_never_deleted BEFORE DELETE ON dictionary
        BEGIN SELECT RAISE(ABORT, 'records are packed against it, so it is never deleted'); END;
";

impl Store {
    /// Opens the store in this file; makes it when there is none. Its folder must exist.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(StoreError::NoFolder(folder.to_owned()));
        }
        Store::opened(path, OpenFlags::SQLITE_OPEN_CREATE)?.ready()
    }

    /// Opens the store in this file to read what it has; where there is none, nothing is made.
    pub fn open_existing(path: &Path) -> Result<Store, StoreError> {
        if path.try_exists().is_ok_and(|exists| !exists) {
            return Err(StoreError::NoRecords(path.to_owned()));
        }
        let store = Store::opened(path, OpenFlags::empty())?;
        if store.is_new()? { Err(StoreError::NoRecords(path.to_owned())) } else { store.ready() }
    }

    fn opened(path: &Path, more: OpenFlags) -> Result<Store, StoreError> {
        // Without SQLITE_OPEN_URI, so that a file may be called `file:x?mode=memory`.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| said(path, error))?;
        Ok(Store { connection, path: path.to_owned() })
    }

    /// A store that ends with the process: for a run that asked to keep nothing, and for tests.
    pub fn in_memory() -> Result<Store, StoreError> {
        let path = PathBuf::from(":memory:");
        let connection = Connection::open_in_memory().map_err(|error| said(&path, error))?;
        Store { connection, path }.ready()
    }

    /// Waits for no disk from now on: for examples that are written once, and may be broken by a loss of power.
    #[cfg(any(test, feature = "sample"))]
    pub(crate) fn write_carelessly(&mut self) -> Result<(), StoreError> {
        self.connection.pragma_update(None, "synchronous", "OFF").map_err(|error| said(&self.path, error))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down that a campaign begins.
    pub fn campaign_begin(&mut self, campaign: &Campaign) -> Result<(), StoreError> {
        let Campaign { id, plan, plan_text, target, host, started_at, planned, finished_at } = campaign;
        self.connection
            .execute(
                "INSERT INTO campaigns (id, plan, plan_text, target, host, started_at, planned, finished_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![id, plan, plan_text, target, host, started_at, planned, finished_at],
            )
            .map_err(|error| self.said_writing(id, error))?;
        Ok(())
    }

    /// Writes down that a campaign has run all its trials; how many, where nobody knew before.
    pub fn campaign_finish(&mut self, id: &str, finished_at: &str) -> Result<(), StoreError> {
        let changed = self
            .connection
            .execute(
                "UPDATE campaigns SET finished_at = ?2, planned = CASE planned WHEN 0
                 THEN (SELECT count(*) FROM records WHERE campaign = ?1) ELSE planned END WHERE id = ?1",
                params![id, finished_at],
            )
            .map_err(|error| self.said_writing(id, error))?;
        if changed == 0 { Err(StoreError::Unknown { what: "campaign", id: id.to_owned() }) } else { Ok(()) }
    }

    /// The campaign of this identifier.
    pub fn campaign(&self, id: &str) -> Result<Option<Campaign>, StoreError> {
        self.one_campaign("WHERE id = ?1", &[&id])
    }

    /// The newest campaign of this plan on these endpoints that was broken off. Whether its plan is still the same
    /// is for the caller to see: [`Campaign::plan_text`].
    pub fn latest_unfinished(&self, plan: &str, target: &str, host: &str) -> Result<Option<Campaign>, StoreError> {
        self.one_campaign(
            "WHERE finished_at IS NULL AND plan = ?1 AND target = ?2 AND host = ?3 ORDER BY id DESC LIMIT 1",
            &[&plan, &target, &host],
        )
    }

    /// The newest campaign of all.
    pub fn latest_campaign(&self) -> Result<Option<Campaign>, StoreError> {
        self.one_campaign("ORDER BY id DESC LIMIT 1", &[])
    }

    /// The numbers of the campaign's trials that have figures. A failed trial is not among them, so that it is
    /// tried again when the campaign is carried on.
    pub fn finished_trials(&self, campaign: &str) -> Result<BTreeSet<u32>, StoreError> {
        self.rows(
            "SELECT trial_index FROM records WHERE campaign = ?1 AND failed = 0",
            vec![Value::Text(campaign.to_owned())],
            |row| row.get(0),
        )
        .map(BTreeSet::from_iter)
    }

    /// Writes a record, for ever. When this returns, it is on the disk.
    pub fn insert(&mut self, record: &Record) -> Result<(), StoreError> {
        let json = written(record).map_err(|why| StoreError::BadRecord { id: record.id.clone(), why })?;
        self.insert_text(record, &json).map_err(|error| match &error {
            rusqlite::Error::SqliteFailure(failure, _)
                if [ffi::SQLITE_CONSTRAINT_PRIMARYKEY, ffi::SQLITE_CONSTRAINT_TRIGGER]
                    .contains(&failure.extended_code) =>
            {
                StoreError::Exists(record.id.clone())
            }
            _ => self.said_writing(&record.campaign, error),
        })
    }

    /// The record of this identifier.
    pub fn record(&self, id: &str) -> Result<Record, StoreError> {
        let mut found =
            self.records("SELECT id, packed FROM records WHERE id = ?1", vec![Value::Text(id.to_owned())])?;
        found.pop().ok_or_else(|| StoreError::Unknown { what: "record", id: id.to_owned() })
    }

    /// The campaign's records, in the order of its trials; of one trial, in the order of time.
    pub fn records_of(&self, campaign: &str) -> Result<Vec<Record>, StoreError> {
        self.records(
            "SELECT id, packed FROM records WHERE campaign = ?1 ORDER BY trial_index, id",
            vec![Value::Text(campaign.to_owned())],
        )
    }

    /// The records that the filter wants, oldest first.
    pub fn select(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        let (clauses, values) = filter.clauses();
        let mut found = self.records(&format!("SELECT id, packed FROM records{clauses}"), values)?;
        found.reverse();
        Ok(found)
    }

    /// What a list shows of the records that the filter wants, oldest first.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        let (clauses, values) = filter.clauses();
        let sql = format!(
            "SELECT id, campaign, plan, trial_index, repeat, workload, direction, started_at, throughput_bps, loss_ratio,
                    transactions_per_s, failed, sender_api, receiver_api, target,
                    (SELECT asked FROM figures WHERE record = id) FROM records{clauses}"
        );
        let mut arounds = Arounds::of(self);
        let mut found = self.rows(&sql, values, |row| {
            // A record that this program cannot read has no row of figures.
            let asked = row.get::<_, Option<i64>>(15)?.map(|number| arounds.asked(number)).transpose()?;
            Ok(Listed {
                id: row.get(0)?,
                campaign: row.get(1)?,
                plan: row.get(2)?,
                index: row.get(3)?,
                repeat: row.get(4)?,
                workload: row.get(5)?,
                direction: row.get(6)?,
                started_at: row.get(7)?,
                throughput_bps: row.get(8)?,
                loss_ratio: row.get(9)?,
                transactions_per_s: row.get(10)?,
                failed: row.get(11)?,
                apis: [row.get(12)?, row.get(13)?],
                target: row.get(14)?,
                factors: asked.map(|asked| asked.factors.clone()).unwrap_or_default(),
            })
        })?;
        found.reverse();
        Ok(found)
    }

    /// Looks at the file, makes the tables in a new one, and sets how it is written.
    fn ready(self) -> Result<Store, StoreError> {
        let said = |error| said(&self.path, error);
        self.connection.busy_timeout(BUSY).map_err(said)?;
        let new = self.is_new()?;
        self.write_ahead()?;
        // In the write-ahead log, FULL syncs at every commit: a record survives the loss of power, not only of the
        // process (sqlite.org/pragma.html#pragma_synchronous).
        self.connection.pragma_update(None, "synchronous", "FULL").map_err(said)?;
        if new {
            self.make_tables()?;
        }
        if !figures::are_current(&self.connection).map_err(said)? {
            self.make_figures()?;
        }
        Ok(self)
    }

    /// Makes what is derived from the records, in a store that has none or that of another version of linerate.
    fn make_figures(&self) -> Result<(), StoreError> {
        let said = |error| said(&self.path, error);
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(said)?;
        let made = || {
            // Another process may have made them since we looked.
            if !figures::are_current(&self.connection)? {
                figures::make(&self.connection)?;
            }
            self.connection.pragma_update(None, "user_version", SCHEMA)
        };
        let made = made();
        self.connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" }).map_err(said)?;
        made.map_err(said)
    }

    /// Whether the file is empty; an error when it is no store, or a later one.
    fn is_new(&self) -> Result<bool, StoreError> {
        let number = |sql| self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let said = |error| said(&self.path, error);
        let (tables, application, version) = (
            number("SELECT count(*) FROM sqlite_schema").map_err(said)?,
            number("PRAGMA application_id").map_err(said)?,
            number("PRAGMA user_version").map_err(said)?,
        );
        match (tables, application, version) {
            (0, 0, 0) => Ok(true),
            (_, APPLICATION, SCHEMA | WITHOUT_FIGURES) => Ok(false),
            (_, APPLICATION, found) if (1..WITHOUT_FIGURES).contains(&found) => {
                Err(StoreError::Older { path: self.path.clone(), found })
            }
            (_, APPLICATION, found) if found > SCHEMA => {
                Err(StoreError::Newer { path: self.path.clone(), found, known: SCHEMA })
            }
            _ => Err(StoreError::NotAStore(self.path.clone())),
        }
    }

    /// Turns on the write-ahead log. SQLite does not wait for other processes while it changes the mode, so two
    /// that open a new store at the same time must be patient here.
    fn write_ahead(&self) -> Result<(), StoreError> {
        let pause = Duration::from_millis(50);
        let mut patience = BUSY.as_millis() / pause.as_millis();
        loop {
            // A file system without shared memory keeps its old journal: slower, and as safe.
            match self.connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
                Ok(_) => return Ok(()),
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(pause);
                }
                Err(error) => return Err(said(&self.path, error)),
            }
        }
    }

    fn make_tables(&self) -> Result<(), StoreError> {
        let said = |error| said(&self.path, error);
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(said)?;
        // Another process may have made them since we looked.
        let made = self.is_new().and_then(|new| {
            if !new {
                return Ok(());
            }
            let names = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {WITHOUT_FIGURES};");
            self.connection.execute_batch(&format!("{TABLES}{names}")).map_err(said)
        });
        self.connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" }).map_err(said)?;
        made
    }

    fn insert_text(&mut self, record: &Record, json: &str) -> Result<(), rusqlite::Error> {
        let figures = record.result.as_ref();
        let api = |of: fn(&FlowFigures) -> &Option<ApiUse>| of(&figures?.flow).as_ref().map(|api| api.name.as_str());
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let dictionary = match dictionary(&transaction)? {
            Some(dictionary) => dictionary,
            None => {
                let dictionary = Dictionary::of(json.as_bytes());
                transaction.execute("INSERT INTO dictionary (id, octets) VALUES (1, ?1)", [dictionary.octets()])?;
                dictionary
            }
        };
        let packed = dictionary.pack(json).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        transaction.execute(
            "INSERT INTO records (id, campaign, plan, trial_index, repeat, workload, direction, started_at, target,
                                  host, throughput_bps, loss_ratio, transactions_per_s, failed, sender_api,
                                  receiver_api, packed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            params![
                record.id,
                record.campaign,
                record.plan,
                record.trial.index,
                record.trial.repeat,
                record.workload.name(),
                record.direction.name(),
                record.started_at,
                record.target.endpoint,
                record.host.endpoint,
                figures.and_then(|figures| figures.flow.throughput_bps),
                figures.and_then(|figures| figures.flow.loss_ratio),
                figures.and_then(|figures| figures.transactions_per_s),
                figures.is_none(),
                api(|flow| &flow.sender_api),
                api(|flow| &flow.receiver_api),
                packed,
            ],
        )?;
        figures::insert(&transaction, record)?;
        transaction.commit()
    }

    fn one_campaign(&self, clauses: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Option<Campaign>, StoreError> {
        self.connection
            .query_row(&format!("SELECT {CAMPAIGN} FROM campaigns {clauses}"), values, campaign)
            .optional()
            .map_err(|error| said(&self.path, error))
    }

    /// Records from rows of (id, packed).
    fn records(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Record>, StoreError> {
        let rows = self.rows(sql, values, |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let dictionary = dictionary(&self.connection).map_err(|error| said(&self.path, error))?.unwrap_or_default();
        let record = |(id, packed): (String, Vec<u8>)| {
            read_packed(&dictionary, &packed).map_err(|why| StoreError::Unreadable { id, why })
        };
        rows.into_iter().map(record).collect()
    }

    fn rows<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: impl FnMut(&Row<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<Vec<T>, StoreError> {
        let all = || -> Result<Vec<T>, rusqlite::Error> {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map(rusqlite::params_from_iter(values), read)?.collect()
        };
        all().map_err(|error| said(&self.path, error))
    }

    /// What a failure to write means; a full disk tells what is safe.
    fn said_writing(&self, campaign: &str, error: rusqlite::Error) -> StoreError {
        if error.sqlite_error_code() != Some(ErrorCode::DiskFull) {
            return said(&self.path, error);
        }
        let kept = self.finished_trials(campaign).map_or(0, |trials| trials.len() as u64);
        StoreError::DiskFull { path: self.path.clone(), kept }
    }
}

/// What [`campaign`] reads.
const CAMPAIGN: &str = "id, plan, plan_text, target, host, started_at, planned, finished_at";

fn campaign(row: &Row<'_>) -> Result<Campaign, rusqlite::Error> {
    Ok(Campaign {
        id: row.get(0)?,
        plan: row.get(1)?,
        plan_text: row.get(2)?,
        target: row.get(3)?,
        host: row.get(4)?,
        started_at: row.get(5)?,
        planned: row.get(6)?,
        finished_at: row.get(7)?,
    })
}

/// The record as text that [`read`] is sure to read again.
fn written(record: &Record) -> Result<String, String> {
    if !id::is_id(&record.id) {
        return Err(format!("'{}' is no identifier of 26 characters", record.id));
    }
    let json = record.to_json().to_string();
    read(&json)?;
    Ok(json)
}

/// What records are packed against; absent before the first.
fn dictionary(connection: &Connection) -> Result<Option<Dictionary>, rusqlite::Error> {
    let octets =
        connection.query_row("SELECT octets FROM dictionary", [], |row| row.get::<_, Vec<u8>>(0)).optional()?;
    Ok(octets.as_deref().map(Dictionary::of))
}

fn read_packed(dictionary: &Dictionary, packed: &[u8]) -> Result<Record, String> {
    read(&dictionary.unpack(packed).map_err(|error| format!("its text cannot be unpacked: {error}"))?)
}

fn read(json: &str) -> Result<Record, String> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
    }
    let Format { format } = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if format != FORMAT {
        return Err(format!("its format is {format}, and this linerate reads {FORMAT}"));
    }
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_trial::spec::Workload;

    use super::*;
    use crate::observation::Observation;
    use crate::sample;
    use crate::select::Selection;

    /// A folder that goes away with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("linerate-results-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn campaign(id: &str) -> Campaign {
        Campaign {
            id: id.to_owned(),
            plan: "example".to_owned(),
            plan_text: "[plan]\nname = \"example\"".to_owned(),
            target: "netns:b".to_owned(),
            host: "netns:a".to_owned(),
            started_at: "2026-11-21T03:00:00Z".to_owned(),
            planned: 3,
            finished_at: None,
        }
    }

    #[test]
    fn every_kind_of_record_survives() {
        let mut store = Store::in_memory().unwrap();
        let records = [
            sample::udp(0, Direction::Rx, 600, 400.0),
            sample::tcp(1, Direction::Tx, 936.4, true),
            sample::rr(2, "64"),
            sample::both(3),
            sample::failed(4),
            sample::full(),
        ];
        for record in &records {
            store.insert(record).unwrap();
            let read = store.record(&record.id).unwrap();
            assert_eq!(read.to_json(), record.to_json());
            assert_eq!(read, *record);
        }
        assert_eq!(store.records_of(&records[0].campaign).unwrap().len(), records.len());
        assert_eq!(store.finished_trials(&records[0].campaign).unwrap(), BTreeSet::from([0, 1, 2, 3, 12]));
    }

    #[test]
    fn a_record_is_never_changed() {
        let mut store = Store::in_memory().unwrap();
        let record = sample::udp(0, Direction::Rx, 600, 400.0);
        store.insert(&record).unwrap();
        let again = Record { plan: "other".to_owned(), ..record.clone() };
        assert!(matches!(store.insert(&again), Err(StoreError::Exists(_))));
        let columns = "id, campaign, plan, trial_index, repeat, workload, direction, started_at, target, host,
            throughput_bps, loss_ratio, transactions_per_s, failed, sender_api, receiver_api, packed";
        for sql in [
            "UPDATE records SET plan = 'other'".to_owned(),
            "DELETE FROM records".to_owned(),
            format!("INSERT OR REPLACE INTO records ({columns}) SELECT {columns} FROM records"),
        ] {
            assert!(store.connection.execute(&sql, []).unwrap_err().to_string().contains("never"), "{sql}");
        }
        assert_eq!(store.record(&record.id).unwrap(), record);
    }

    #[test]
    fn what_could_not_be_read_again_is_refused() {
        let mut store = Store::in_memory().unwrap();
        let mut record = sample::udp(0, Direction::Rx, 600, 400.0);
        record.intervals[0].start_s = f64::NAN;
        let error = store.insert(&record).unwrap_err();
        assert!(error.to_string().contains("start_s"), "{error}");
        record.intervals.clear();
        record.result.as_mut().unwrap().flow.jitter_s = Some(f64::NAN);
        store.insert(&record).unwrap();
        assert_eq!(store.record(&record.id).unwrap().result.unwrap().flow.jitter_s, None, "no figure is absent");
        record.id = "7".to_owned();
        assert!(matches!(store.insert(&record), Err(StoreError::BadRecord { .. })));
    }

    #[test]
    fn a_campaign_is_carried_on() {
        let mut store = Store::in_memory().unwrap();
        for id in ["1", "2", "3"] {
            store.campaign_begin(&campaign(id)).unwrap();
        }
        store.campaign_finish("3", "2026-11-21T03:09:00Z").unwrap();
        assert_eq!(store.latest_unfinished("example", "netns:b", "netns:a").unwrap().unwrap().id, "2");
        assert_eq!(store.latest_unfinished("example", "netns:c", "netns:a").unwrap(), None);
        assert_eq!(store.campaign("3").unwrap().unwrap().finished_at.as_deref(), Some("2026-11-21T03:09:00Z"));
        assert_eq!(store.latest_campaign().unwrap().unwrap().id, "3");
        assert!(matches!(store.campaign_finish("4", ""), Err(StoreError::Unknown { .. })));
        assert_eq!(store.finished_trials("2").unwrap(), BTreeSet::new());
    }

    #[test]
    fn an_older_store_gets_its_figures() {
        let folder = Folder::new("older");
        let path = folder.0.join("records.db");
        let records = [sample::udp(0, Direction::Rx, 600, 400.0), sample::rr(1, "64"), sample::failed(2)];
        let mut store = Store::open(&path).unwrap();
        records.iter().for_each(|record| store.insert(record).unwrap());
        let all = Selection::default();
        let want: Vec<Observation> = records.iter().map(Observation::of).collect();
        assert_eq!(store.observations(&all).unwrap(), want);
        let drop_them = "DROP TABLE figures; DROP TABLE around; PRAGMA user_version = 3;";
        store.connection.execute_batch(drop_them).unwrap();
        drop(store);
        // One of them, an older linerate wrote in a way that this one does not understand.
        let strange = "INSERT INTO records SELECT '01ARZ3NDEKTSV4RRFFQ69G5FAV', campaign, plan, trial_index, repeat,
            workload, direction, started_at, target, host, throughput_bps, loss_ratio, transactions_per_s, failed,
            NULL, NULL, x'7b7d' FROM records LIMIT 1";
        Connection::open(&path).unwrap().execute(strange, []).unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.observations(&all).unwrap(), want);
        let version: i64 = store.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version, SCHEMA);
        // Of another derivation: made again.
        store.connection.execute_batch("DROP TABLE figures; CREATE TABLE figures (x)").unwrap();
        drop(store);
        assert_eq!(Store::open(&path).unwrap().observations(&all).unwrap(), want);
    }

    #[test]
    fn observations_are_selected() {
        let mut store = Store::in_memory().unwrap();
        for index in 0..3 {
            store.insert(&sample::udp(index, Direction::Rx, 100, 100.0)).unwrap();
        }
        store.insert(&sample::udp(3, Direction::Tx, 200, 200.0)).unwrap();
        store.insert(&sample::ttcp(4, 0)).unwrap();
        let mut side_b = sample::ttcp(5, 0);
        side_b.trial.null_side = Some(crate::record::NullSide::B);
        store.insert(&side_b).unwrap();
        let check = |wanted: Selection, want: &[u32]| {
            let found: Vec<u32> = store.observations(&wanted).unwrap().iter().map(|one| one.index).collect();
            assert_eq!(found, want, "{wanted:?}");
            let metric = crate::figure::Metric::find("throughput").unwrap();
            let points = want.iter().filter(|index| **index != 5).count();
            assert_eq!(store.points(metric, &wanted).unwrap().len(), points, "side b of A/A trials is in no history");
        };
        let none = Selection::default;
        let level = |name: &str, value: &str| Selection { levels: vec![(name.to_owned(), value.to_owned())], ..none() };
        check(none(), &[0, 1, 2, 3, 4, 5]);
        check(level("rate", "200M"), &[3]);
        check(level("workload", "tcp-stream"), &[4, 5]);
        check(level("target.kernel", "6.12.48"), &[0, 1, 2, 3, 4, 5]);
        check(level("rate", "7M"), &[]);
        let start = 1_795_230_000_000;
        check(Selection { since_ms: Some(start + 1000), until_ms: Some(start + 3000), ..none() }, &[1, 2]);
        check(Selection { campaign: Some("other".to_owned()), ..none() }, &[]);
    }

    #[test]
    fn lists_are_filtered() {
        let mut store = Store::in_memory().unwrap();
        for index in 0..5 {
            store.insert(&sample::udp(index, Direction::Rx, 100, 100.0)).unwrap();
        }
        store.insert(&sample::ttcp(5, 0)).unwrap();
        let check = |filter: Filter, want: &[u32]| {
            let listed: Vec<u32> = store.list(&filter).unwrap().iter().map(|listed| listed.index).collect();
            let selected: Vec<u32> = store.select(&filter).unwrap().iter().map(|record| record.trial.index).collect();
            assert_eq!((&listed[..], &selected[..]), (want, want), "{filter:?}");
        };
        let none = Filter::default;
        check(none(), &[0, 1, 2, 3, 4, 5]);
        check(Filter { limit: Some(2), ..none() }, &[4, 5]);
        check(Filter { plan: Some("ttcp".to_owned()), ..none() }, &[5]);
        check(Filter { workload: Some(Workload::UdpStream), limit: Some(2), ..none() }, &[3, 4]);
        check(Filter { campaign: Some("x' OR 1=1 --".to_owned()), ..none() }, &[]);
        let start = 1_795_230_000_000;
        check(Filter { since_ms: Some(start + 3000), workload: Some(Workload::UdpStream), ..none() }, &[3, 4]);
    }

    #[track_caller]
    fn check_refusal(path: &Path, contains: &str) {
        let error = Store::open(path).unwrap_err().to_string();
        assert!(error.contains(contains) && error.contains("--store"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn what_is_no_store_is_left_alone() {
        let folder = Folder::new("refusals");
        let file = |name: &str| folder.0.join(name);
        check_refusal(&file("none/here/x.db"), "there is no folder");
        check_refusal(&folder.0, "it is a folder");
        check_refusal(Path::new("/proc/linerate.db"), "cannot open");
        std::fs::write(file("text"), "dear diary, ".repeat(500)).unwrap();
        check_refusal(&file("text"), "not a linerate store");
        assert_eq!(std::fs::read(file("text")).unwrap().len(), 6000);
        Connection::open(file("other.db")).unwrap().execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
        let before = std::fs::read(file("other.db")).unwrap();
        check_refusal(&file("other.db"), "not a linerate store");
        assert_eq!(std::fs::read(file("other.db")).unwrap(), before);
        drop(Store::open(&file("later.db")).unwrap());
        Connection::open(file("later.db")).unwrap().pragma_update(None, "user_version", SCHEMA + 1).unwrap();
        check_refusal(&file("later.db"), "use a newer linerate");
        Connection::open(file("later.db")).unwrap().pragma_update(None, "user_version", 2).unwrap();
        check_refusal(&file("later.db"), "of an earlier linerate");
        let readonly = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None);
        assert!(said(&folder.0, readonly).to_string().contains("cannot be written"));
    }

    #[test]
    fn a_full_disk_keeps_what_was_finished() {
        let folder = Folder::new("full");
        let mut store = Store::open(&folder.0.join("records.db")).unwrap();
        let pages: i64 = store.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        // SQLite answers SQLITE_FULL at this limit, as it does when the file system has no room.
        store.connection.pragma_update_and_check(None, "max_page_count", pages + 20, |_| Ok(())).unwrap();
        let mut kept = 0;
        let error = loop {
            match store.insert(&sample::udp(kept, Direction::Rx, 600, 400.0)) {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
        };
        assert!(kept > 2, "{error}");
        assert!(error.to_string().contains(&format!("{kept} finished trials of this campaign are kept")), "{error}");
        drop(store);
        let mut store = Store::open(&folder.0.join("records.db")).unwrap();
        assert_eq!(store.list(&Filter::default()).unwrap().len() as u32, kept);
        store.insert(&sample::udp(kept, Direction::Rx, 600, 400.0)).unwrap();
    }

    #[test]
    fn a_lock_is_waited_for_and_then_named() {
        let folder = Folder::new("locked");
        let path = folder.0.join("records.db");
        let other = Store::open(&path).unwrap();
        let mut store = Store::open(&path).unwrap();
        store.connection.busy_timeout(Duration::from_millis(50)).unwrap();
        other.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.insert(&sample::ttcp(0, 0)).unwrap_err().to_string();
        assert!(error.contains("locked by another process"), "{error}");
        other.connection.execute_batch("COMMIT").unwrap();
        store.insert(&sample::ttcp(0, 0)).unwrap();
    }

    #[test]
    fn many_may_make_and_write_a_store_at_the_same_time() {
        let folder = Folder::new("many");
        let path = folder.0.join("records.db");
        let (writers, each) = (6, 8);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let path = &path;
                scope.spawn(move || {
                    let mut store = Store::open(path).unwrap();
                    for k in 0..each {
                        store.insert(&sample::udp(writer * each + k, Direction::Rx, 600, 400.0)).unwrap();
                    }
                });
            }
        });
        assert_eq!(Store::open(&path).unwrap().list(&Filter::default()).unwrap().len() as u32, writers * each);
    }
}
