//! The store in a file: SQLite's tables, its layout's number, and how the file is written.
//! Knows no record.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::database::Database;
use super::{SCHEMA, StoreError};
use crate::error::{BUSY, said};

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

/// By what lists are sorted. A store of before gets them when it is opened; one that cannot be written does without.
const INDEXES: &str = "
    CREATE INDEX IF NOT EXISTS records_by_throughput ON records (throughput_bps, id);
    CREATE INDEX IF NOT EXISTS records_by_loss ON records (loss_ratio, id);
    CREATE INDEX IF NOT EXISTS records_by_transactions ON records (transactions_per_s, id);
";
const INDEXED: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name IN
    ('records_by_throughput', 'records_by_loss', 'records_by_transactions')";

/// How many of the tables are there, and are tables: views and virtual ones have no page of their own.
const TRUE_TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name IN
    ('campaigns', 'records', 'dictionary')";

/// Opens the file to read what it has, and to write where that may be.
pub(super) fn open_existing(path: &Path) -> Result<Database, StoreError> {
    match open(path, OpenFlags::empty()) {
        // Of one that is ahead of its log, or in a folder that cannot be written, SQLite makes a file beside it even to read.
        Err(StoreError::CannotOpen { .. } | StoreError::NotWritable(_)) if path.is_file() => open_to_read(path),
        opened => opened,
    }
}

/// Opens a file that nobody changes, for it cannot be written: that needs no other file, if the write-ahead log has nothing.
pub(super) fn open_to_read(path: &Path) -> Result<Database, StoreError> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(StoreError::Unlogged(path.to_owned()));
    }
    let said = |error| said(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(unchanging(path), flags).map_err(said)?;
    distrust(&connection).map_err(said)?;
    if is_new(&connection, path)? {
        return Err(StoreError::NoRecords(path.to_owned()));
    }
    Ok(Database::Sqlite(connection))
}

/// The URI of a file that nobody changes meanwhile (sqlite.org/uri.html).
fn unchanging(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let octets = absolute.as_os_str().as_encoded_bytes().iter();
    let written = octets.map(|octet| match octet {
        b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(*octet).to_string(),
        octet => format!("%{octet:02X}"),
    });
    format!("file:{}?immutable=1", written.collect::<String>())
}

/// Opens the file; makes the tables in a new one, where `more` permits that. Its folder must exist.
pub(super) fn open(path: &Path, more: OpenFlags) -> Result<Database, StoreError> {
    // Without SQLITE_OPEN_URI, so that a file may be called `file:x?mode=memory`.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| said(path, error))?;
    distrust(&connection).map_err(|error| said(path, error))?;
    if more.is_empty() && is_new(&connection, path)? {
        return Err(StoreError::NoRecords(path.to_owned()));
    }
    ready(connection, path)
}

/// A store that ends with the process.
pub(super) fn in_memory() -> Result<Database, StoreError> {
    let path = PathBuf::from(":memory:");
    let connection = Connection::open_in_memory().map_err(|error| said(&path, error))?;
    ready(connection, &path)
}

/// Makes the tables in a new file, and sets how it is written.
fn ready(connection: Connection, path: &Path) -> Result<Database, StoreError> {
    let said = |error| said(path, error);
    connection.busy_timeout(BUSY).map_err(said)?;
    let new = is_new(&connection, path)?;
    write_ahead(&connection, path)?;
    // In the write-ahead log, FULL syncs at every commit: a record survives the loss of power, not only of the
    // process (sqlite.org/pragma.html#pragma_synchronous).
    connection.pragma_update(None, "synchronous", "FULL").map_err(said)?;
    if new {
        make_tables(&connection, path)?;
    }
    let indexes: i64 = connection.query_row(INDEXED, [], |row| row.get(0)).map_err(said)?;
    if indexes < 3 && connection.execute_batch(&format!("BEGIN IMMEDIATE; {INDEXES} COMMIT")).is_err() {
        // Lists are slower then, and the same.
        let _ = connection.execute_batch("ROLLBACK");
    }
    Ok(Database::Sqlite(connection))
}

/// Nothing that a stranger has written into the file's schema is executed: a store has no views, and its own
/// triggers call no function that could do harm.
fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    for word in [DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA] {
        connection.set_db_config(word, false)?;
    }
    Ok(())
}

/// Whether the file is empty; an error when it is no store, or a later one.
fn is_new(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| said(path, error));
    let (tables, application, version) = (
        number("SELECT count(*) FROM sqlite_schema")?,
        number("PRAGMA application_id")?,
        number("PRAGMA user_version")?,
    );
    match (tables, application, version) {
        (0, 0, 0) => Ok(true),
        (_, APPLICATION, SCHEMA | WITHOUT_FIGURES) if number(TRUE_TABLES)? < 3 => {
            Err(StoreError::NotAStore(path.to_owned()))
        }
        (_, APPLICATION, SCHEMA | WITHOUT_FIGURES) => Ok(false),
        (_, APPLICATION, found) if (1..WITHOUT_FIGURES).contains(&found) => {
            Err(StoreError::Older { path: path.to_owned(), found })
        }
        (_, APPLICATION, found) if found > SCHEMA => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA })
        }
        _ => Err(StoreError::NotAStore(path.to_owned())),
    }
}

/// Turns on the write-ahead log. SQLite does not wait for other processes while it changes the mode, so two
/// that open a new store at the same time must be patient here.
fn write_ahead(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let pause = Duration::from_millis(50);
    let mut patience = BUSY.as_millis() / pause.as_millis();
    loop {
        // A file system without shared memory keeps its old journal: slower, and as safe.
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && patience > 0 => {
                patience -= 1;
                std::thread::sleep(pause);
            }
            Err(error) => return Err(said(path, error)),
        }
    }
}

fn make_tables(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let said = |error| said(path, error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(said)?;
    // Another process may have made them since we looked.
    let made = is_new(connection, path).and_then(|new| {
        if !new {
            return Ok(());
        }
        let names = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {WITHOUT_FIGURES};");
        connection.execute_batch(&format!("{TABLES}{names}")).map_err(said)
    });
    connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" }).map_err(said)?;
    made
}
