//! Why the store could not do something, in words that say what to try.
//! Knows what SQLite's errors mean to a person, and not what the store was about to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(feature = "postgres")]
use postgres::error::SqlState;
use rusqlite::ErrorCode;

use crate::select::LAST;
use crate::store::SqlError;

/// How long to wait for another process that writes. A transaction of ours takes milliseconds.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Why the store could not do something: one sentence each, ending in what to try.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder of the file does not exist.
    #[error("there is no folder {} for the store; make it, or name another file with --store", .0.display())]
    NoFolder(PathBuf),
    /// The folder of the usual file cannot be made.
    #[error("cannot make the folder {}: {why}; name a file with --store", folder.display())]
    CannotMakeFolder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The file cannot be opened or made.
    #[error("cannot open the store {}: {why}; check who owns it, or name another file with --store", path.display())]
    CannotOpen {
        /// The store's file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The file can be read and not written.
    #[error("the store {} cannot be written; make it and its folder writable, or name another file with --store", .0.display())]
    NotWritable(PathBuf),
    /// The file can be read and not written, and what is derived from its records is yet to be made.
    #[error(
        "the store {} cannot be written, and what other commands read of it is yet to be made there, as after another version of \
         linerate; make it and its folder writable, or copy it to where it is",
        .0.display()
    )]
    NotDerived(PathBuf),
    /// The file cannot be written, and what was written last is in the log beside it.
    #[error(
        "the store {at} cannot be written, nor read without that: what was written last is in {at}-wal; make it and its folder \
         writable, or copy both to a folder that is",
        at = .0.display()
    )]
    Unlogged(PathBuf),
    /// The file holds something else.
    #[error("{} is not a linerate store, and was left as it is; name another file with --store", .0.display())]
    NotAStore(PathBuf),
    /// The file was made by an earlier version of linerate, whose records this one does not read.
    #[error(
        "the store {} has layout {found}, of an earlier linerate whose records this one does not read; name another file \
         with --store, and read this one with the linerate that wrote it", path.display()
    )]
    Older {
        /// The store's file.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
    },
    /// A later program has written it.
    #[error(
        "the store {} has layout {found}, and this linerate knows layouts up to {known}; use a newer linerate, or \
         name another file with --store", path.display()
    )]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
        /// The latest that this program knows.
        known: i64,
    },
    /// Another process kept it locked.
    #[error(
        "the store {} was locked by another process for {} s; end that process, or name another file with --store",
        .0.display(), BUSY.as_secs()
    )]
    Locked(PathBuf),
    /// No room for a record.
    #[error(
        "the disk of the store {} is full; {}", path.display(),
        match kept {
            0 => "nothing of this campaign is kept; make room and start it again".to_owned(),
            _ => format!("{kept} finished trials of this campaign are kept; make room and carry on with --resume"),
        }
    )]
    DiskFull {
        /// The store's file.
        path: PathBuf,
        /// Finished trials of the campaign that are in it.
        kept: u64,
    },
    /// A record of this identifier is there already.
    #[error(
        "the store has a record {0} already, and a record is never changed; give the new one an identifier of its own"
    )]
    Exists(String),
    /// Another record has the figures of the same trial.
    #[error(
        "record {id} has the figures of trial {trial} of campaign {campaign} already, from another process that carried the \
         campaign on, so this trial's were not kept; end one of the two"
    )]
    Measured {
        /// The identifier of that record.
        id: String,
        /// The campaign's identifier.
        campaign: String,
        /// The trial's number in it, from 0.
        trial: u32,
    },
    /// Two stores have two records of one identifier.
    #[error("the record {id} is another one in {}, and a record is never changed; one of the two stores was tampered with", path.display())]
    Differs {
        /// Its identifier.
        id: String,
        /// The other store.
        path: PathBuf,
    },
    /// A record that could not be read again.
    #[error("the record {id} cannot be stored: {why}; please report this with the plan that you ran")]
    BadRecord {
        /// Its identifier.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// A stored record or campaign that this program cannot read: a later program wrote it, or it is damaged.
    #[error(
        "the {what} {id} cannot be read: {why}; a newer linerate may read it, else take a copy of the store from a backup"
    )]
    Unreadable {
        /// `record` or `campaign`.
        what: &'static str,
        /// Its identifier.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// No such record, or campaign.
    #[error("the store has no {what} {id}; 'linerate records list' shows what it has")]
    Unknown {
        /// `record` or `campaign`.
        what: &'static str,
        /// As it was given.
        id: String,
    },
    /// There is no store, or nothing in it.
    #[error("there are no records at {} yet: linerate run … makes some; --store says where", .0.display())]
    NoRecords(PathBuf),
    /// Nothing that a person could mean is called so.
    #[error(
        "the store has no campaign, record or plan '{0}'; 'linerate records campaigns' and 'linerate records list' show \
         what it has"
    )]
    NothingCalled(String),
    /// Fewer campaigns than were counted back over.
    #[error(
        "there is no {name}~{back}: there {} {campaigns} {}; 'linerate records campaigns' lists them",
        if *campaigns == 1 { "is" } else { "are" }, campaigns_of(name, *campaigns)
    )]
    TooFarBack {
        /// `last`, or a plan's name.
        name: String,
        /// How many before it.
        back: u32,
        /// How many there are.
        campaigns: u32,
    },
    /// More than one record or campaign begins like this.
    #[error("{} {what}s begin with '{prefix}': {}; give more of it", .matches.len(), first_of(.matches))]
    Ambiguous {
        /// `record` or `campaign`.
        what: &'static str,
        /// As it was given.
        prefix: String,
        /// What begins so: as much of each identifier as tells it from the others, and its plan.
        matches: Vec<String>,
    },
    /// The URL of a store on a server cannot be used.
    #[error(
        "this is no URL of a store: {why}; it is like postgres://USER@HOST/DATABASE, with ?sslmode= and disable, prefer or require behind it where that is to be said"
    )]
    BadUrl {
        /// What is wrong with it.
        why: String,
    },
    /// What a server wants to see of us, or we of it, cannot be used.
    #[error("the store {}: {why}", url.display())]
    NoAccess {
        /// The URL, without a password.
        url: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A database that has tables of the same names which are not a store's, or not all of a store's.
    #[error(
        "the store {}: {why}: its tables are not, or not all, linerate's; name an empty database (createdb makes one), or \
         restore this one",
        url.display()
    )]
    NotOurs {
        /// The URL, without a password.
        url: PathBuf,
        /// What it said.
        why: String,
    },
    /// The server cannot be reached, or does not let us in.
    #[error("cannot open the store {}: {why}; check that the server runs there and lets this user in, by a password of ~/.pgpass (mode 0600) or PGPASSWORD where it wants one", url.display())]
    NoServer {
        /// The URL, without a password.
        url: PathBuf,
        /// What it said.
        why: String,
    },
    /// The server is there, perhaps, and says nothing.
    #[error("the store {}: no answer within {} s; check that its server runs, and the way to it", url.display(), after.as_secs_f64())]
    Silent {
        /// The URL, without a password.
        url: PathBuf,
        /// How long it was waited for.
        after: Duration,
    },
    /// The program was built without the feature.
    #[error(
        "this linerate was built without PostgreSQL; build it with --features postgres, or name a file with --store"
    )]
    WithoutPostgres,
    /// A server did not do what it was asked.
    #[error("the store {}: {why}", url.display())]
    Server {
        /// The URL, without a password.
        url: PathBuf,
        /// What it said.
        why: String,
        /// It ends, or is gone: it says nothing of what was asked.
        is_away: bool,
    },
    /// Something else.
    #[error("the store {}: {why}; check the disk, and that the file is whole", path.display())]
    Other {
        /// The store's file.
        path: PathBuf,
        /// What the engine said.
        why: SqlError,
    },
}

impl StoreError {
    /// Whether the store fails whatever is asked of it: the same succeeds once its disk, its server or the way there is mended.
    pub fn is_of_its_place(&self) -> bool {
        use StoreError::{CannotOpen, DiskFull, Locked, NoServer, NotWritable, Other, Server, Silent, Unlogged};
        match self {
            CannotOpen { .. } | DiskFull { .. } | Locked(_) | NoServer { .. } | NotWritable(_) | Silent { .. } => true,
            Unlogged(_) | Other { why: SqlError::Sqlite(_), .. } => true,
            Server { is_away, .. } => *is_away,
            _ => false,
        }
    }
}

fn campaigns_of(name: &str, count: u32) -> String {
    let campaigns = if count == 1 { "campaign" } else { "campaigns" };
    if name == LAST { format!("{campaigns} with records") } else { format!("{campaigns} of {name} with records") }
}

/// As many as a sentence can bear.
fn first_of(matches: &[String]) -> String {
    const MOST: usize = 8;
    let more = if matches.len() > MOST { ", …" } else { "" };
    format!("{}{more}", matches[..matches.len().min(MOST)].join(", "))
}

/// What an engine's error means to a person.
pub(crate) fn said(path: &Path, error: impl Into<SqlError>) -> StoreError {
    let path = path.to_owned();
    let error = match error.into() {
        SqlError::Sqlite(error) => error,
        #[cfg(feature = "postgres")]
        SqlError::Postgres(error) => return of_server(path, &error),
        #[cfg(feature = "postgres")]
        SqlError::Silent(after) => return StoreError::Silent { url: path, after },
        why => return StoreError::Other { path, why },
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            let why = if path.is_dir() { "it is a folder".to_owned() } else { error.to_string() };
            StoreError::CannotOpen { path, why }
        }
        Some(ErrorCode::ReadOnly) => StoreError::NotWritable(path),
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore(path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(path),
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { path, kept: 0 },
        _ => StoreError::Other { path, why: SqlError::Sqlite(error) },
    }
}

#[cfg(feature = "postgres")]
fn of_server(url: PathBuf, error: &postgres::Error) -> StoreError {
    let why = postgres_said(error);
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            StoreError::NoAccess { url, why: format!("{why}; its owner may grant it: docs/teams.md says what") }
        }
        Some(&(SqlState::DUPLICATE_TABLE | SqlState::DUPLICATE_OBJECT | SqlState::UNDEFINED_TABLE))
        | Some(&(SqlState::UNDEFINED_COLUMN | SqlState::DUPLICATE_FUNCTION)) => StoreError::NotOurs { url, why },
        Some(&SqlState::DISK_FULL) => StoreError::DiskFull { path: url, kept: 0 },
        Some(state) => StoreError::Server { url, why, is_away: AWAY.contains(state) },
        // No word of the server's: the conversation broke off.
        None => StoreError::Server { url, why, is_away: true },
    }
}

/// What a server says that ends, or does not let anybody in yet.
#[cfg(feature = "postgres")]
const AWAY: [SqlState; 4] =
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS];

/// What a server's error says, with what is behind it: by itself it names only the step that failed. One line.
#[cfg(feature = "postgres")]
pub(crate) fn postgres_said(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().replace('\n', " ");
    }
    let behind = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{behind}").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_to_carry_on_only_what_can_be() {
        let said = |kept| StoreError::DiskFull { path: "x".into(), kept }.to_string();
        assert!(said(2).ends_with("2 finished trials of this campaign are kept; make room and carry on with --resume"));
        assert!(said(0).ends_with("nothing of this campaign is kept; make room and start it again"));
    }
}
