//! The store: every record, and the campaigns they belong to; a file of SQLite's, or tables on a PostgreSQL server.
//! Knows no default path and no clock; where the file is and what time it is are arguments.

mod campaigns;
mod copy;
mod database;
mod figures;
mod packed;
#[cfg(feature = "postgres")]
mod postgres;
mod sql_error;
mod sqlite;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_machine::printable::in_line;
use linerate_trial::api::ApiUse;
use rusqlite::OpenFlags;
use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

pub use self::campaigns::{StoreEntry, Summary, TRIES};
pub use self::copy::Copied;
use self::database::{Database, Row};
use self::figures::ContextCache;
pub use self::figures::{CheckedRows, Point, RecordDigest};
use self::packed::Dictionary;
pub use self::sql_error::SqlError;
pub use crate::error::StoreError;
use crate::error::said;
use crate::id;
use crate::record::{FORMAT, FlowFigures, Record, digest, is_measurable};
use crate::select::{Filter, Selection};

/// Records on disk. Each is written in one transaction that has reached the disk when [`Store::insert`] returns:
/// a process killed at any instant loses no record that was inserted and leaves no half of one. Several processes
/// may write at the same time; each waits for the other.
#[derive(Debug)]
pub struct Store {
    database: Database,
    path: PathBuf,
    /// Its file is not there yet: until something is to be kept, the database is one in memory, with nothing in it.
    is_to_be_made: bool,
    /// Rows of what is derived may be gone, for nobody has looked yet.
    has_gaps: Cell<bool>,
    /// What other stores of this process have checked already.
    checked: Option<CheckedRows>,
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

/// What a list shows of a record; read without reading the record itself, where a digest says that it is what the record says.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

impl Listed {
    /// What the record says itself.
    fn of(record: &Record) -> Listed {
        let figures = record.result.as_ref();
        let api = |of: fn(&FlowFigures) -> &Option<ApiUse>| Some(of(&figures?.flow).as_ref()?.name.clone());
        Listed {
            id: record.id.clone(),
            campaign: record.campaign.clone(),
            plan: record.plan.clone(),
            index: record.trial.index,
            repeat: record.trial.repeat,
            workload: record.workload.name().to_owned(),
            direction: record.direction.name().to_owned(),
            started_at: record.started_at.clone(),
            target: record.target.endpoint.clone(),
            factors: record.trial.factors.clone(),
            throughput_bps: figures.and_then(|figures| figures.flow.throughput_bps).filter(is_possible),
            loss_ratio: figures.and_then(|figures| figures.flow.loss_ratio).filter(is_share),
            transactions_per_s: figures.and_then(|figures| figures.transactions_per_s).filter(is_possible),
            failed: figures.is_none(),
            apis: [api(|flow| &flow.sender_api), api(|flow| &flow.receiver_api)],
        }
    }

    /// By what columns are known to be the record's.
    fn digest(&self) -> String {
        digest(serde_json::to_string(self).unwrap_or_default())
    }
}

/// The longest part of an identifier that is shown, for it may be any text.
pub const LONGEST_ID: usize = 60;
/// Sees that a file can be made in a folder, by another name than the store's: who opens that at this moment must not lose it.
fn try_folder(folder: &Path) -> io::Result<()> {
    let user = fs::metadata("/proc/self").map_or(0, |own| own.uid());
    let trial = folder.join(format!(".linerate-{user}"));
    match File::create_new(&trial) {
        // Another process tries just now, or was killed over it: who can take it away can make one.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => drop(made?),
    }
    match fs::remove_file(&trial) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The version of the tables below, kept in the file's `user_version`.
const SCHEMA: i64 = 4;
impl Store {
    /// Opens the store in this file, or that a `postgres:` URL names; makes it when there is none. A file's folder must exist.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        if let Some(store) = Store::on_server(path, true) {
            return store;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(StoreError::NoFolder(folder.to_owned()));
        }
        Store::ready(sqlite::open(path, OpenFlags::SQLITE_OPEN_CREATE)?, path.to_owned())
    }

    /// The same, but what is not there is made when the first is kept in it: a run without a record leaves nothing behind. That it
    /// can be made is seen now. `with_folder`: the file's folder, too, is made then.
    pub fn open_to_keep(path: &Path, with_folder: bool) -> Result<Store, StoreError> {
        let is_there = path.to_str().is_some_and(is_url) || path.try_exists().unwrap_or(true) || path.is_symlink();
        if is_there {
            return Store::open(path);
        }
        let mut folders = path.ancestors().skip(1);
        let folder = folders.next().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let there = match with_folder {
            _ if folder.is_dir() => folder,
            true => folders.find(|folder| folder.is_dir()).unwrap_or(Path::new(".")),
            false => return Err(StoreError::NoFolder(folder.to_owned())),
        };
        try_folder(there).map_err(|error| match folder.is_dir() {
            true => StoreError::CannotOpen { path: path.to_owned(), why: error.to_string() },
            false => StoreError::CannotMakeFolder { folder: folder.to_owned(), why: error.to_string() },
        })?;
        Ok(Store { path: path.to_owned(), is_to_be_made: true, ..Store::in_memory()? })
    }

    /// Makes its file, if that is yet to be made.
    pub fn make(&mut self) -> Result<(), StoreError> {
        if self.is_to_be_made {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder).map_err(|error| StoreError::CannotMakeFolder {
                    folder: folder.to_owned(),
                    why: error.to_string(),
                })?;
            }
            *self = Store::open(&self.path)?;
        }
        Ok(())
    }

    /// Opens the store to read what it has; where there is none, nothing is made.
    pub fn open_existing(path: &Path) -> Result<Store, StoreError> {
        if let Some(store) = Store::on_server(path, false) {
            return store;
        }
        if path.try_exists().is_ok_and(|exists| !exists) {
            return Err(StoreError::NoRecords(path.to_owned()));
        }
        Store::ready(sqlite::open_existing(path)?, path.to_owned())
    }

    /// The same store, which looks once at what all of these look at: for a process that opens it again and again.
    pub fn checking_once(self, checked: &CheckedRows) -> Store {
        Store { checked: Some(checked.clone()), ..self }
    }

    /// Whether the store can be opened to be read; a server has this long to answer.
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "a file answers at once"))]
    pub fn answers(path: &Path, within: Duration) -> Result<(), StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(url) = path.to_str().filter(|text| is_url(text)) {
            return postgres::answers(url, within);
        }
        Store::open_existing(path).map(drop)
    }

    /// The store on a server, if this names one.
    #[cfg(feature = "postgres")]
    fn on_server(path: &Path, may_make: bool) -> Option<Result<Store, StoreError>> {
        let url = path.to_str().filter(|text| is_url(text))?;
        let opened = postgres::open(url, may_make);
        Some(opened.and_then(|(server, shown)| Store::ready(Database::Postgres(Box::new(server)), shown)))
    }

    #[cfg(not(feature = "postgres"))]
    fn on_server(path: &Path, _: bool) -> Option<Result<Store, StoreError>> {
        path.to_str().filter(|text| is_url(text)).map(|_| Err(StoreError::WithoutPostgres))
    }

    /// A store that ends with the process: for a run that asked to keep nothing, and for tests.
    pub fn in_memory() -> Result<Store, StoreError> {
        Store::ready(sqlite::in_memory()?, PathBuf::from(":memory:"))
    }

    /// With tables for what is derived from its records, made anew where they are another version's.
    fn ready(database: Database, path: PathBuf) -> Result<Store, StoreError> {
        let made = figures::make_current(&database);
        // A file is handed on, and anybody may have written into it; to count a server's rows takes as long as there are many.
        let has_gaps = Cell::new(matches!(database, Database::Sqlite(_)));
        let store = Store { database, path, is_to_be_made: false, has_gaps, checked: None };
        made.map_err(|error| store.said_deriving(error))?;
        Ok(store)
    }

    /// Why what is derived from the records cannot be made.
    fn said_deriving(&self, error: impl Into<SqlError>) -> StoreError {
        match said(&self.path, error) {
            StoreError::NotWritable(path) => StoreError::NotDerived(path),
            error => error,
        }
    }

    /// Waits for no disk from now on: for examples that are written once, and may be broken by a loss of power.
    #[cfg(any(test, feature = "sample"))]
    pub(crate) fn write_carelessly(&mut self) -> Result<(), StoreError> {
        let words = match self.database {
            Database::Sqlite(_) => "PRAGMA synchronous = OFF",
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => "SET synchronous_commit = off",
        };
        self.database.batch(words).map_err(|error| said(&self.path, error))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down that a campaign begins.
    pub fn campaign_begin(&mut self, campaign: &Campaign) -> Result<(), StoreError> {
        self.make()?;
        let Campaign { id, plan, plan_text, target, host, started_at, planned, finished_at } = campaign;
        let texts = [id, plan, plan_text, target, host, started_at];
        let mut values: Vec<Value> = texts.into_iter().map(|one| text(one)).collect();
        values.extend([Value::Integer(i64::from(*planned)), finished_at.as_deref().map_or(Value::Null, text)]);
        let sql = "INSERT INTO campaigns (id, plan, plan_text, target, host, started_at, planned, finished_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        self.database.execute(sql, values).map_err(|error| self.said_writing(id, error))?;
        Ok(())
    }

    /// Writes down that a campaign has run all its trials; how many, where nobody knew before.
    pub fn campaign_finish(&mut self, id: &str, finished_at: &str) -> Result<(), StoreError> {
        let sql = "UPDATE campaigns SET finished_at = ?2, planned = CASE planned WHEN 0
                   THEN (SELECT count(*) FROM records WHERE campaign = ?1) ELSE planned END WHERE id = ?1";
        let changed = self.database.execute(sql, vec![text(id), text(finished_at)]);
        match changed.map_err(|error| self.said_writing(id, error))? {
            0 => Err(StoreError::Unknown { what: "campaign", id: id.to_owned() }),
            _ => Ok(()),
        }
    }

    /// The campaign of this identifier.
    pub fn campaign(&self, id: &str) -> Result<Option<Campaign>, StoreError> {
        self.one_campaign("WHERE id = ?1", &[id])
    }

    /// The newest campaign of this plan on these endpoints that was broken off. Whether its plan is still the same
    /// is for the caller to see: [`Campaign::plan_text`].
    pub fn latest_unfinished(&self, plan: &str, target: &str, host: &str) -> Result<Option<Campaign>, StoreError> {
        self.one_campaign(
            "WHERE finished_at IS NULL AND plan = ?1 AND target = ?2 AND host = ?3 ORDER BY id DESC LIMIT 1",
            &[plan, target, host],
        )
    }

    /// The newest campaign of all.
    pub fn latest_campaign(&self) -> Result<Option<Campaign>, StoreError> {
        self.one_campaign("ORDER BY id DESC LIMIT 1", &[])
    }

    /// The campaign that is called `last`: the newest with records that does not only try a suggestion.
    /// Its identifier and its plan, whatever else of it can be read.
    pub fn last_campaign(&self) -> Result<Option<[String; 2]>, StoreError> {
        let sql = "SELECT id, plan FROM campaigns
                   WHERE plan != ?1 AND EXISTS (SELECT 1 FROM records WHERE campaign = campaigns.id)
                   ORDER BY id DESC LIMIT 1";
        let (found, _) = self.readable("campaign", sql, vec![text(TRIES)], |row| Ok([row.get(0)?, row.get(1)?]))?;
        Ok(found.into_iter().next())
    }

    /// The numbers of the campaign's trials that have figures. A failed trial is not among them, so that it is
    /// tried again when the campaign is carried on.
    pub fn finished_trials(&self, campaign: &str) -> Result<BTreeSet<u32>, StoreError> {
        let wanted = Selection { campaign: Some(campaign.to_owned()), ..Selection::default() };
        let seen = self.observations(&wanted)?.into_iter().filter(|seen| !seen.failed);
        Ok(seen.map(|seen| seen.index).collect())
    }

    /// Writes a record, for ever. When this returns, it is on the disk.
    ///
    /// A trial of a campaign has figures once: a process that stood still until another one carried its campaign on, and goes on itself,
    /// is told [`StoreError::Measured`], and writes nothing.
    pub fn insert(&mut self, record: &Record) -> Result<(), StoreError> {
        let json = written(record).map_err(|why| StoreError::BadRecord { id: record.id.clone(), why })?;
        self.make()?;
        match self.insert_text(record, &json) {
            Ok(None) => Ok(()),
            Ok(Some(id)) => {
                Err(StoreError::Measured { id, campaign: record.campaign.clone(), trial: record.trial.index })
            }
            Err(error) if error.is_duplicate() => Err(StoreError::Exists(record.id.clone())),
            Err(error) => Err(self.said_writing(&record.campaign, error)),
        }
    }

    /// The record of this identifier.
    pub fn record(&self, id: &str) -> Result<Record, StoreError> {
        self.reader()?.record(id)
    }

    /// Reads records one after another.
    pub fn reader(&self) -> Result<Reader<'_>, StoreError> {
        let dictionary = dictionary(&self.database).map_err(|error| said(&self.path, error))?.unwrap_or_default();
        Ok(Reader { store: self, dictionary })
    }

    /// The campaign's records, in the order of its trials; of one trial, in the order of time. And why not, of each that cannot be
    /// read.
    pub fn records_of(&self, campaign: &str) -> Result<(Vec<Record>, Vec<StoreError>), StoreError> {
        let (reader, mut records) = (self.reader()?, Vec::new());
        let sql = "SELECT id FROM records WHERE campaign = ?1 ORDER BY trial_index, id";
        let (ids, mut unreadable) = self.ids(sql, vec![text(campaign)])?;
        for id in ids {
            records.extend(reader.if_readable(&id, &mut unreadable)?.map(|(record, _)| record));
        }
        Ok((records, unreadable))
    }

    /// The records that the filter wants, oldest first.
    pub fn select(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        self.all(&self.identifiers(filter)?)
    }

    /// The same in brief, and why not, of each that cannot be read: of many records, the whole ones would not fit into memory.
    pub fn select_in_brief(&self, filter: &Filter) -> Result<(Vec<Record>, Vec<StoreError>), StoreError> {
        let mut records = Vec::new();
        let unreadable = self.each(filter, |record, _| records.push(record.into_brief()))?;
        Ok((records, unreadable))
    }

    /// Reads the records that the filter wants, oldest first, each with its JSON. One that cannot be read is not the end of it: the
    /// answer is why, of each such.
    pub fn each(&self, filter: &Filter, mut with: impl FnMut(Record, String)) -> Result<Vec<StoreError>, StoreError> {
        let reader = self.reader()?;
        let (ids, mut unreadable) = self.identified(filter)?;
        for id in ids {
            if let Some((record, json)) = reader.if_readable(&id, &mut unreadable)? {
                with(record, json);
            }
        }
        Ok(unreadable)
    }

    /// The identifiers of the records that the filter wants, oldest first.
    pub fn identifiers(&self, filter: &Filter) -> Result<Vec<String>, StoreError> {
        Ok(self.identified(filter)?.0)
    }

    /// The same, and why not, of each whose identifier cannot be read.
    fn identified(&self, filter: &Filter) -> Result<(Vec<String>, Vec<StoreError>), StoreError> {
        let (clauses, values) = filter.clauses();
        let (mut found, unreadable) = self.ids(&format!("SELECT id FROM records{clauses}"), values)?;
        found.reverse();
        Ok((found, unreadable))
    }

    /// What a list shows of the records that the filter wants, oldest first. And why not, of each of which neither the columns nor the
    /// record can be read.
    pub fn list(&self, filter: &Filter) -> Result<(Vec<Listed>, Vec<StoreError>), StoreError> {
        self.fill()?;
        let (clauses, values) = filter.clauses();
        let sql = format!(
            "SELECT id, campaign, plan, trial_index, repeat, workload, direction, started_at, throughput_bps, loss_ratio,
                    transactions_per_s, failed, sender_api, receiver_api, target,
                    (SELECT asked FROM figures WHERE record = id), (SELECT listed FROM figures WHERE record = id)
             FROM records{clauses}"
        );
        let (reader, mut arounds, mut lost) = (self.reader()?, ContextCache::of(self), Vec::new());
        let (found, mut unreadable) = self.readable("record", &sql, values, |row| {
            let columns = listed(row, &mut arounds);
            let known: Option<String> = row.get(16).unwrap_or_default();
            match columns {
                Ok(columns) if known.as_ref().is_some_and(|known| *known == columns.digest()) => Ok(Some(columns)),
                Err(error) if !error.is_of_a_value() => Err(error),
                columns => match (reader.record(&row.get::<String>(0)?), columns) {
                    (Ok(record), _) => Ok(Some(Listed::of(&record))),
                    // This program cannot read it, and made no digest of it.
                    (Err(_), Ok(columns)) if known.is_none() => Ok(Some(columns)),
                    (Err(why), _) => {
                        lost.push(why);
                        Ok(None)
                    }
                },
            }
        })?;
        unreadable.extend(lost);
        Ok((found.into_iter().rev().flatten().collect(), unreadable))
    }

    /// The record that has the figures of the same trial already, if one does; then nothing is written. One that cannot be read has none.
    fn insert_text(&self, record: &Record, json: &str) -> Result<Option<String>, SqlError> {
        self.database.transaction(|| {
            let dictionary = self.dictionary(json)?;
            if record.result.is_some() {
                self.database.lock_campaign(&record.campaign)?;
                let sql = "SELECT id, packed FROM records
                           WHERE campaign = ?1 AND trial_index = ?2 AND failed = 0 AND id <> ?3";
                let values = vec![text(&record.campaign), Value::Integer(record.trial.index.into()), text(&record.id)];
                let others = self.database.rows(sql, values, |row| {
                    let packed: Vec<u8> = row.get(1)?;
                    let other = unpacked(&dictionary, &packed).and_then(|text| read(&text)).ok();
                    Ok(other.filter(|other| other.trial.index == record.trial.index).map(|other| other.id))
                })?;
                if let Some(other) = others.into_iter().flatten().next() {
                    return Ok(Some(other));
                }
            }
            let packed = dictionary.pack(json)?;
            let sealed = digest(&packed);
            self.database.insert("records", COLUMNS, row(record, packed))?;
            figures::insert(&self.database, record, json, &sealed)?;
            Ok(None)
        })
    }

    /// Writes those of many records that are not there, once over a network for all of them, within a transaction; how many they were.
    fn insert_all(&self, records: &[(Record, String)]) -> Result<u64, SqlError> {
        let Some((_, first)) = records.first() else { return Ok(0) };
        let dictionary = self.dictionary(first)?;
        let packed = records.iter().map(|(_, json)| dictionary.pack(json)).collect::<Result<Vec<_>, _>>()?;
        let of_packed = records.iter().zip(&packed);
        let kept: Vec<_> = of_packed.map(|((record, json), packed)| (record, json.as_str(), digest(packed))).collect();
        let rows = records.iter().zip(packed).map(|((record, _), packed)| row(record, packed)).collect();
        let added = self.database.insert_new("records", COLUMNS, rows)?;
        figures::insert_all(&self.database, &kept)?;
        Ok(added)
    }

    /// What the store's records are packed against; in a new one it is of this text, which its first record has.
    fn dictionary(&self, json: &str) -> Result<Dictionary, SqlError> {
        match dictionary(&self.database)? {
            Some(dictionary) => Ok(dictionary),
            None => first_dictionary(&self.database, json),
        }
    }

    fn one_campaign(&self, clauses: &str, values: &[&str]) -> Result<Option<Campaign>, StoreError> {
        let values = values.iter().map(|one| text(one)).collect();
        let sql = format!("SELECT {CAMPAIGN} FROM campaigns {clauses}");
        let (found, unreadable) = self.readable("campaign", &sql, values, campaign)?;
        match (found.into_iter().next(), unreadable.into_iter().next()) {
            (None, Some(why)) => Err(why),
            (found, _) => Ok(found),
        }
    }

    fn ids(&self, sql: &str, values: Vec<Value>) -> Result<(Vec<String>, Vec<StoreError>), StoreError> {
        self.readable("record", sql, values, |row| row.get(0))
    }

    fn all(&self, ids: &[String]) -> Result<Vec<Record>, StoreError> {
        let reader = self.reader()?;
        ids.iter().map(|id| reader.record(id)).collect()
    }

    fn rows<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, StoreError> {
        self.database.rows(sql, values, read).map_err(|error| said(&self.path, error))
    }

    /// What `read` makes of each row, whose first column is the identifier of a record or of a campaign. And why not, of each row
    /// that cannot be read: a store from a stranger may have anything written into it.
    fn readable<T>(
        &self,
        what: &'static str,
        sql: &str,
        values: Vec<Value>,
        mut read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<(Vec<T>, Vec<StoreError>), StoreError> {
        let mut unreadable = Vec::new();
        let rows = self.rows(sql, values, |row| match read(row) {
            Err(error) if error.is_of_a_value() => {
                let id: String = row.get(0).unwrap_or_else(|_| "without a name".to_owned());
                let (id, why) = (in_line(&id, LONGEST_ID).into_owned(), format!("its columns are damaged ({error})"));
                unreadable.push(StoreError::Unreadable { what, id, why });
                Ok(None)
            }
            read => read.map(Some),
        })?;
        Ok((rows.into_iter().flatten().collect(), unreadable))
    }

    /// What a failure to write means; a full disk tells what is safe.
    fn said_writing(&self, campaign: &str, error: SqlError) -> StoreError {
        match said(&self.path, error) {
            StoreError::DiskFull { path, .. } => {
                let kept = self.finished_trials(campaign).map_or(0, |trials| trials.len() as u64);
                StoreError::DiskFull { path, kept }
            }
            other => other,
        }
    }
}

/// Records, one after another: a hundred thousand at once take gigabytes.
#[derive(Debug)]
pub struct Reader<'a> {
    store: &'a Store,
    dictionary: Dictionary,
}

impl Reader<'_> {
    /// The record of this identifier.
    pub fn record(&self, id: &str) -> Result<Record, StoreError> {
        self.with_text(id).map(|(record, _)| record)
    }

    /// The same, and the JSON that it is read from.
    pub fn with_text(&self, id: &str) -> Result<(Record, String), StoreError> {
        let sql = "SELECT packed FROM records WHERE id = ?1";
        let unreadable = |why| StoreError::Unreadable { what: "record", id: id.to_owned(), why };
        let packed = self.store.database.first(sql, vec![text(id)], |row| row.get::<Vec<u8>>(0));
        let packed = packed.map_err(|error| match error {
            error if error.is_of_a_value() => unreadable(error.to_string()),
            error => said(&self.store.path, error),
        })?;
        let packed = packed.ok_or_else(|| StoreError::Unknown { what: "record", id: id.to_owned() })?;
        let both = unpacked(&self.dictionary, &packed).and_then(|text| Ok((read(&text)?, text)));
        match both.map_err(unreadable)? {
            (record, _) if record.id != id => {
                Err(unreadable(format!("it is that of {}", in_line(&record.id, LONGEST_ID))))
            }
            both => Ok(both),
        }
    }

    /// The same; why not goes to the others that cannot be read.
    fn if_readable(&self, id: &str, unreadable: &mut Vec<StoreError>) -> Result<Option<(Record, String)>, StoreError> {
        match self.with_text(id) {
            Ok(both) => Ok(Some(both)),
            Err(why @ StoreError::Unreadable { .. }) => {
                unreadable.push(why);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// What the columns say that [`Store::list`] reads.
fn listed(row: &Row<'_>, arounds: &mut ContextCache<'_>) -> Result<Listed, SqlError> {
    let asked = row.get::<Option<i64>>(15)?.map(|number| arounds.asked(number)).transpose()?;
    Ok(Listed {
        id: row.get(0)?,
        campaign: row.get(1)?,
        plan: row.get(2)?,
        index: row.get(3)?,
        repeat: row.get(4)?,
        workload: row.get(5)?,
        direction: row.get(6)?,
        started_at: row.get(7)?,
        throughput_bps: measured(row, 8)?,
        loss_ratio: measured(row, 9)?.filter(is_share),
        transactions_per_s: measured(row, 10)?,
        failed: row.get(11)?,
        apis: [row.get(12)?, row.get(13)?],
        target: row.get(14)?,
        factors: asked.map(|asked| asked.factors.clone()).unwrap_or_default(),
    })
}

/// A figure of a column, where it can be one: a store from a stranger may have anything written into it.
fn measured(row: &Row<'_>, at: usize) -> Result<Option<f64>, SqlError> {
    Ok(row.get::<Option<f64>>(at)?.filter(is_possible))
}

fn is_possible(value: &f64) -> bool {
    is_measurable(*value) && *value >= 0.0
}

fn is_share(value: &f64) -> bool {
    (0.0..=1.0).contains(value)
}

/// What [`campaign`] reads.
const CAMPAIGN: &str = "id, plan, plan_text, target, host, started_at, planned, finished_at";

fn campaign(row: &Row<'_>) -> Result<Campaign, SqlError> {
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
        return Err(format!("'{}' is not an identifier of 26 characters", record.id));
    }
    let json = record.to_json().to_string();
    read(&json)?;
    Ok(json)
}

/// What records are packed against; absent before the first.
fn dictionary(database: &Database) -> Result<Option<Dictionary>, SqlError> {
    let octets = database.first("SELECT octets FROM dictionary", Vec::new(), |row| row.get::<Vec<u8>>(0))?;
    Ok(octets.as_deref().map(Dictionary::of))
}

/// The dictionary that this record brings, or another one that was quicker.
fn first_dictionary(database: &Database, json: &str) -> Result<Dictionary, SqlError> {
    let ours = Dictionary::of(json.as_bytes());
    let sql = "INSERT INTO dictionary (id, octets) VALUES (1, ?1) ON CONFLICT (id) DO NOTHING";
    database.execute(sql, vec![Value::Blob(ours.octets().to_vec())])?;
    Ok(dictionary(database)?.unwrap_or(ours))
}

/// The columns of a record's row.
const COLUMNS: &str = "id, campaign, plan, trial_index, repeat, workload, direction, started_at, target, host, throughput_bps, loss_ratio, \
                       transactions_per_s, failed, sender_api, receiver_api, packed";

/// A record's row.
fn row(record: &Record, packed: Vec<u8>) -> Vec<Value> {
    let figures = record.result.as_ref();
    let api = |of: fn(&FlowFigures) -> &Option<ApiUse>| of(&figures?.flow).as_ref().map(|api| api.name.as_str());
    let number = |value: Option<f64>| value.map_or(Value::Null, Value::Real);
    let word = |value: Option<&str>| value.map_or(Value::Null, text);
    vec![
        text(&record.id),
        text(&record.campaign),
        text(&record.plan),
        Value::Integer(record.trial.index.into()),
        Value::Integer(record.trial.repeat.into()),
        text(record.workload.name()),
        text(record.direction.name()),
        text(&record.started_at),
        text(&record.target.endpoint),
        text(&record.host.endpoint),
        number(figures.and_then(|figures| figures.flow.throughput_bps)),
        number(figures.and_then(|figures| figures.flow.loss_ratio)),
        number(figures.and_then(|figures| figures.transactions_per_s)),
        Value::Integer(figures.is_none().into()),
        word(api(|flow| &flow.sender_api)),
        word(api(|flow| &flow.receiver_api)),
        Value::Blob(packed),
    ]
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Whether this names a store on a server, and no file.
pub fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.bytes().all(|octet| octet.is_ascii_alphanumeric()))
}

/// Whether this can name a store, as far as is known without a look at it: a URL may have no password in it.
pub fn check_name(path: &Path) -> Result<(), StoreError> {
    #[cfg(feature = "postgres")]
    if let Some(url) = path.to_str().filter(|text| is_url(text)) {
        return postgres::check(url);
    }
    #[cfg(not(feature = "postgres"))]
    if path.to_str().is_some_and(is_url) {
        return Err(StoreError::WithoutPostgres);
    }
    Ok(())
}

fn unpacked(dictionary: &Dictionary, packed: &[u8]) -> Result<String, String> {
    dictionary.unpack(packed).map_err(|error| format!("its text cannot be unpacked: {error}"))
}

fn read(json: &str) -> Result<Record, String> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
    }
    let record = Record::from_json(json);
    // One of another format may be no record of ours at all, and its format then says why.
    let format = match &record {
        Ok(record) => record.format.clone(),
        Err(_) => serde_json::from_str::<Format>(json).map_err(|error| error.to_string())?.format,
    };
    if format != FORMAT {
        return Err(format!("its format is {format}, and this linerate reads {FORMAT}"));
    }
    record
}

#[cfg(test)]
mod tests;
