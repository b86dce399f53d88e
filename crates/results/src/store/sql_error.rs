//! What an engine answers instead of doing what it was asked.
//! Knows no store; what it means to a person is [`crate::error`]'s.

use rusqlite::types::FromSqlError;

/// What an engine answered instead of doing what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// SQLite did.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL did.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] ::postgres::Error),
    /// PostgreSQL's server says nothing any more.
    #[cfg(feature = "postgres")]
    #[error("no answer within {} s", .0.as_secs_f64())]
    Silent(std::time::Duration),
    /// A value is not of the type that its column has here.
    #[error("a column has an unexpected value: {0}")]
    Value(#[from] FromSqlError),
    /// A record cannot be packed.
    #[error("it cannot be packed: {0}")]
    Packed(#[from] std::io::Error),
}

impl SqlError {
    /// A row has a value that this program cannot read: it is the row's fault, and no other's.
    pub(super) fn is_of_a_value(&self) -> bool {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
        match self {
            SqlError::Sqlite(error) => matches!(
                error,
                FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
            ),
            SqlError::Value(_) => true,
            _ => false,
        }
    }

    /// A row of this key is there already.
    pub(super) fn is_duplicate(&self) -> bool {
        use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_TRIGGER};
        match self {
            SqlError::Sqlite(rusqlite::Error::SqliteFailure(failure, _)) => {
                [SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_TRIGGER].contains(&failure.extended_code)
            }
            #[cfg(feature = "postgres")]
            SqlError::Postgres(error) => error.code() == Some(&::postgres::error::SqlState::UNIQUE_VIOLATION),
            _ => false,
        }
    }
}
