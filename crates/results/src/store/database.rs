//! The seam between the store and the engine that keeps it: SQL that both engines understand, values in and rows out.
//! Knows no table; what only one engine can do is in its own file.

use rusqlite::types::{FromSql, Value};
use rusqlite::{Connection, params_from_iter};

#[cfg(feature = "postgres")]
use super::postgres;
use super::sql_error::SqlError;
use crate::record::digest;

/// Where the tables are.
#[derive(Debug)]
pub(super) enum Database {
    /// A file.
    Sqlite(Connection),
    /// A server.
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Server>),
}

/// A row of an answer.
pub(super) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    #[cfg(feature = "postgres")]
    Postgres(&'r ::postgres::Row),
}

impl Row<'_> {
    /// The value of a column, from 0.
    pub(super) fn get<T: FromSql>(&self, at: usize) -> Result<T, SqlError> {
        match self {
            Row::Sqlite(row) => Ok(row.get(at)?),
            #[cfg(feature = "postgres")]
            Row::Postgres(row) => postgres::value(row, at),
        }
    }
}

impl Database {
    /// What `read` makes of each row. `?N` in the text stands for the value of number N, from 1.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        mut read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        match self {
            Database::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                let mut rows = statement.query(params_from_iter(values))?;
                let mut all = Vec::new();
                while let Some(row) = rows.next()? {
                    all.push(read(&Row::Sqlite(row))?);
                }
                Ok(all)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => {
                server.query(sql, values)?.iter().map(|row| read(&Row::Postgres(row))).collect()
            }
        }
    }

    /// The same of the first row.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: Vec<Value>,
        read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<Option<T>, SqlError> {
        Ok(self.rows(sql, values, read)?.into_iter().next())
    }

    /// Carries a statement out, and says how many rows it changed.
    pub(super) fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, SqlError> {
        match self {
            Database::Sqlite(connection) => {
                Ok(connection.prepare_cached(sql)?.execute(params_from_iter(values))? as u64)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.execute(sql, values),
        }
    }

    /// Adds a row, whose values are those of `columns`, to a table. One whose key is there already is an error.
    pub(super) fn insert(&self, table: &str, columns: &str, row: Vec<Value>) -> Result<(), SqlError> {
        self.execute(&insertion(table, columns, row.len()), row).map(drop)
    }

    /// Adds many, in a transaction. One whose key is there already stays as it is; how many were added.
    pub(super) fn insert_new(&self, table: &str, columns: &str, rows: Vec<Vec<Value>>) -> Result<u64, SqlError> {
        match self {
            Database::Sqlite(_) => rows.into_iter().try_fold(0, |added, row| {
                Ok(added + self.execute(&(insertion(table, columns, row.len()) + " ON CONFLICT DO NOTHING"), row)?)
            }),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.copy(table, columns, rows),
        }
    }

    /// Statements without values, one after another.
    pub(super) fn batch(&self, sql: &str) -> Result<(), SqlError> {
        match self {
            Database::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.batch(sql),
        }
    }

    /// All of it, or nothing. SQLite lets one transaction write at a time, from its beginning on.
    pub(super) fn transaction<T, E: From<SqlError>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.batch(match self {
            Database::Sqlite(_) => "BEGIN IMMEDIATE",
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => "BEGIN",
        })?;
        let done = work();
        match &done {
            Ok(_) => self.batch("COMMIT")?,
            // What went wrong is said; that nothing was done follows from it.
            Err(_) => drop(self.batch("ROLLBACK")),
        }
        done
    }

    /// All that is read meanwhile is of one moment, and a file is locked once.
    pub(super) fn reading<T, E: From<SqlError>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.batch(match self {
            Database::Sqlite(_) => "BEGIN",
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        })?;
        let done = work();
        // Nothing was changed, so nothing is lost.
        drop(self.batch("ROLLBACK"));
        done
    }

    /// In a transaction: no other one changes tables until it ends. SQLite's writers exclude each other anyway.
    pub(super) fn lock_tables(&self) -> Result<(), SqlError> {
        match self {
            Database::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.batch(postgres::LOCK),
        }
    }

    /// In a transaction: no other one writes to this campaign until it ends. SQLite's writers exclude each other anyway.
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables))]
    pub(super) fn lock_campaign(&self, id: &str) -> Result<(), SqlError> {
        match self {
            Database::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => {
                let id = vec![Value::Text(id.to_owned())];
                server.query("SELECT id FROM campaigns WHERE id = ?1 FOR UPDATE", id).map(drop)
            }
        }
    }

    /// The text that the derived tables were made from.
    pub(super) fn mark_of_figures(&self) -> Result<Option<String>, SqlError> {
        let sql = match self {
            Database::Sqlite(_) => {
                "SELECT sql FROM sqlite_schema WHERE name = 'figures' AND
                    (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('around', 'unmade')) = 2"
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => postgres::MARK,
        };
        Ok(self.first(sql, Vec::new(), |row| row.get(0))?.flatten())
    }

    /// Makes the derived tables from the text of SQLite's, so that their mark is the first of it, and raises a file's layout.
    pub(super) fn make_figures(&self, tables: &[String], layout: i64) -> Result<(), SqlError> {
        match self {
            Database::Sqlite(_) => self.batch(&format!("{}; PRAGMA user_version = {layout}", tables.join(";"))),
            #[cfg(feature = "postgres")]
            Database::Postgres(server) => server.make_figures(tables),
        }
    }

    /// What [`Database::digest_of_packed`] reads of a record: a server makes the digest, and sends no more.
    pub(super) fn packed(&self) -> &'static str {
        match self {
            Database::Sqlite(_) => "packed",
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => "encode(sha256(packed), 'hex')",
        }
    }

    /// The SHA-256 of a record as it is packed, in hexadecimal digits; absent where there is no such record.
    pub(super) fn digest_of_packed(&self, row: &Row<'_>, at: usize) -> Result<Option<String>, SqlError> {
        match self {
            Database::Sqlite(_) => Ok(row.get::<Option<Vec<u8>>>(at)?.map(digest)),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => row.get(at),
        }
    }
}

fn insertion(table: &str, columns: &str, count: usize) -> String {
    let marks: Vec<String> = (1..=count).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO {table} ({columns}) VALUES ({})", marks.join(", "))
}
