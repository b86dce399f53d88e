//! The store on a PostgreSQL server, for a team: how it is reached, its tables, and SQLite's words in its own.
//! Knows no record.
//!
//! Text is compared octet by octet (COLLATE "C"), as SQLite does: lists come in the same order.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ::postgres::binary_copy::BinaryCopyInWriter;
use ::postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use ::postgres::{Client, Row, Statement};
use bytes::BytesMut;
use rusqlite::types::{FromSql, FromSqlError, Value, ValueRef};

use super::sql_error::SqlError;
use crate::error::{StoreError, said};

mod connect;

use connect::PATIENCE;

/// The layouts that there have been, the latest last; a store of an earlier one is brought on step by step.
const MIGRATIONS: [&str; 2] = [
    r#"
    CREATE TABLE campaigns (
        id text COLLATE "C" PRIMARY KEY,
        plan text COLLATE "C" NOT NULL,
        plan_text text NOT NULL,
        target text COLLATE "C" NOT NULL,
        host text COLLATE "C" NOT NULL,
        started_at text COLLATE "C" NOT NULL,
        planned bigint NOT NULL,
        finished_at text COLLATE "C"
    );
    CREATE TABLE records (
        id text COLLATE "C" PRIMARY KEY,
        campaign text COLLATE "C" NOT NULL,
        plan text COLLATE "C" NOT NULL,
        trial_index bigint NOT NULL,
        repeat bigint NOT NULL,
        workload text COLLATE "C" NOT NULL,
        direction text COLLATE "C" NOT NULL,
        started_at text COLLATE "C" NOT NULL,
        target text COLLATE "C" NOT NULL,
        host text COLLATE "C" NOT NULL,
        throughput_bps double precision,
        loss_ratio double precision,
        transactions_per_s double precision,
        failed bigint NOT NULL,
        sender_api text COLLATE "C",
        receiver_api text COLLATE "C",
        packed bytea NOT NULL
    );
    CREATE TABLE dictionary (id bigint PRIMARY KEY CHECK (id = 1), octets bytea NOT NULL);
    CREATE INDEX records_by_campaign ON records (campaign, trial_index);
    CREATE INDEX records_by_plan ON records (plan, id);
    CREATE FUNCTION linerate_is_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'what % has is never changed and never deleted', TG_TABLE_NAME; END $$;
    CREATE TRIGGER written_once BEFORE UPDATE OR DELETE ON records
        FOR EACH ROW EXECUTE FUNCTION linerate_is_written_once();
    CREATE TRIGGER never_emptied BEFORE TRUNCATE ON records EXECUTE FUNCTION linerate_is_written_once();
    CREATE TRIGGER written_once BEFORE UPDATE OR DELETE ON dictionary
        FOR EACH ROW EXECUTE FUNCTION linerate_is_written_once();
    CREATE TRIGGER never_emptied BEFORE TRUNCATE ON dictionary EXECUTE FUNCTION linerate_is_written_once();
"#,
    // By what lists are sorted.
    "
    CREATE INDEX records_by_throughput ON records (throughput_bps DESC NULLS LAST, id DESC);
    CREATE INDEX records_by_loss ON records (loss_ratio DESC NULLS LAST, id DESC);
    CREATE INDEX records_by_transactions ON records (transactions_per_s DESC NULLS LAST, id DESC);
    ",
];

/// `line` in ASCII: who makes or changes tables holds this advisory lock.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(1818848869)";

/// The text that the derived tables were made from. By the catalogue's rows: to_regclass() may answer from a cache.
pub(super) const MARK: &str = "SELECT description FROM pg_description WHERE classoid = 'pg_class'::regclass AND objsubid = 0 \
     AND objoid IN (SELECT oid FROM pg_class WHERE relname = 'figures' AND relnamespace IN \
                    (SELECT oid FROM pg_namespace WHERE nspname = ANY (current_schemas(false))))";

/// A conversation with a server, in a thread of its own: the client waits for an answer without an end.
pub(super) struct Server {
    questions: mpsc::Sender<Question>,
    url: String,
    /// After this time without an answer another connection asks whether the server is there.
    patience: Duration,
    /// It gave no answer, and gets no question any more.
    is_silent: Cell<bool>,
    prepared: RefCell<HashMap<String, Statement>>,
}

/// What is asked of the client; it sends the answer to its caller.
type Question = Box<dyn FnOnce(&mut Client) + Send>;

/// As long as a server that is there may take for an answer: it may bring a store's layout up to date, or wait for who does.
const LONGEST: Duration = Duration::from_secs(600);

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a PostgreSQL server")
    }
}

/// Whether the URL can be, before anything is reached.
pub(super) fn check(url: &str) -> Result<(), StoreError> {
    connect::config(url).map(drop)
}

/// Opens the store that this URL names, and brings its layout up to date; where it has no tables it makes them, or says
/// that it has no records. The second is the URL as it may be shown.
pub(super) fn open(url: &str, may_make: bool) -> Result<(Server, PathBuf), StoreError> {
    let (server, has_tables, shown) = reach(url, PATIENCE)?;
    if !may_make && !has_tables {
        return Err(StoreError::NoRecords(shown));
    }
    let known = MIGRATIONS.len() as i64;
    // What is left undone is undone by the server, when the conversation ends.
    let found = server.bring_on().map_err(|error| said(&shown, error))?;
    if found > known {
        return Err(StoreError::Newer { path: shown, found, known });
    }
    Ok((server, shown))
}

/// Whether the server that this URL names has a store; it has this long to answer, and is asked for no more: to bring its
/// layout up to date may take longer.
pub(super) fn answers(url: &str, within: Duration) -> Result<(), StoreError> {
    let (_, has_tables, shown) = reach(url, within)?;
    if has_tables { Ok(()) } else { Err(StoreError::NoRecords(shown)) }
}

/// The server that this URL names, whether it has tables, and the URL as it may be shown. One that lets us in and says nothing after
/// that is given up as one that never did.
fn reach(url: &str, patience: Duration) -> Result<(Server, bool, PathBuf), StoreError> {
    let name = url.to_owned();
    let ((server, has_tables), shown) = connect::ask(url, patience, move |client| {
        let server = Server::new(client, name, patience);
        let has_tables = server.has_tables();
        (server, has_tables)
    })?;
    let has_tables = has_tables.map_err(|error| said(&shown, error))?;
    Ok((server, has_tables, shown))
}

impl Server {
    fn new(mut client: Client, url: String, patience: Duration) -> Server {
        let (questions, asked) = mpsc::channel::<Question>();
        thread::spawn(move || asked.iter().for_each(|question| question(&mut client)));
        Server { questions, url, patience, is_silent: Cell::new(false), prepared: RefCell::default() }
    }

    /// What the server answers. One that says nothing, and is not there for another conversation either, is given up.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Client) -> Result<T, ::postgres::Error> + Send + 'static,
    ) -> Result<T, SqlError> {
        let (told, heard) = mpsc::sync_channel(1);
        let began = Instant::now();
        if !self.is_silent.get() {
            let _ = self.questions.send(Box::new(move |client| drop(told.send(question(client)))));
        }
        loop {
            match heard.recv_timeout(self.patience) {
                Ok(answer) => return Ok(answer?),
                Err(RecvTimeoutError::Timeout) if began.elapsed() < LONGEST && self.is_there() => {}
                Err(_) => {
                    self.is_silent.set(true);
                    return Err(SqlError::Silent(self.patience));
                }
            }
        }
    }

    /// Whether it answers anybody, be it that it lets nobody in. A pooler whose server is gone lets in, and no more.
    fn is_there(&self) -> bool {
        let answered = connect::ask(&self.url, self.patience, |mut client| drop(client.batch_execute("SELECT 1")));
        !matches!(answered, Err(StoreError::Silent { .. }))
    }

    fn has_tables(&self) -> Result<bool, SqlError> {
        let sql = "SELECT 1 FROM information_schema.tables WHERE table_name = 'linerate' AND \
                   table_schema = ANY (current_schemas(false))";
        Ok(!self.query(sql, Vec::new())?.is_empty())
    }

    /// The layout that was found, raised to the latest if it is an earlier one.
    fn bring_on(&self) -> Result<i64, SqlError> {
        self.batch("BEGIN")?;
        self.batch(LOCK)?;
        if !self.has_tables()? {
            self.batch("CREATE TABLE linerate (layout bigint NOT NULL); INSERT INTO linerate VALUES (0)")?;
        }
        let rows = self.query("SELECT layout FROM linerate", Vec::new())?;
        let found: i64 = rows.first().map_or(Ok(0), |row| value(row, 0))?;
        for (at, step) in MIGRATIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
            self.batch(step)?;
            self.execute("UPDATE linerate SET layout = ?1", vec![Value::Integer(at as i64 + 1)])?;
        }
        self.batch("COMMIT")?;
        Ok(found)
    }

    pub(super) fn query(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, SqlError> {
        let statement = self.prepare(sql)?;
        let values: Vec<Parameter> = values.into_iter().map(Parameter).collect();
        self.ask(move |client| client.query(&statement, &references(&values)))
    }

    pub(super) fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, SqlError> {
        let statement = self.prepare(sql)?;
        let values: Vec<Parameter> = values.into_iter().map(Parameter).collect();
        self.ask(move |client| client.execute(&statement, &references(&values)))
    }

    /// Adds rows by COPY, which takes many at once and bears no conflict: into a table of this conversation's own, and on from there.
    pub(super) fn copy(&self, table: &str, columns: &str, rows: Vec<Vec<Value>>) -> Result<u64, SqlError> {
        self.batch(&format!(
            "CREATE TEMPORARY TABLE IF NOT EXISTS incoming_{table} ON COMMIT DELETE ROWS AS SELECT {columns} FROM {table} WITH NO DATA"
        ))?;
        let of_columns = self.prepare(&format!("SELECT {columns} FROM incoming_{table}"))?;
        let types: Vec<Type> = of_columns.columns().iter().map(|column| column.type_().clone()).collect();
        let copy = format!("COPY incoming_{table} ({columns}) FROM STDIN (FORMAT binary)");
        self.ask(move |client| {
            let mut writer = BinaryCopyInWriter::new(client.copy_in(&copy)?, &types);
            for row in rows {
                let values: Vec<Parameter> = row.into_iter().map(Parameter).collect();
                writer.write(&references(&values))?;
            }
            writer.finish()
        })?;
        let sql =
            format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM incoming_{table} ON CONFLICT DO NOTHING");
        self.execute(&sql, Vec::new())
    }

    pub(super) fn batch(&self, sql: &str) -> Result<(), SqlError> {
        let sql = sql.to_owned();
        self.ask(move |client| client.batch_execute(&sql))
    }

    /// The derived tables, from the text of SQLite's.
    pub(super) fn make_figures(&self, tables: &[String]) -> Result<(), SqlError> {
        tables.iter().try_for_each(|table| self.batch(&table_in_its_words(table)))?;
        let mark = tables.first().map_or(String::new(), |table| table.replace('\'', "''"));
        self.batch(&format!("COMMENT ON TABLE figures IS '{mark}'"))
    }

    fn prepare(&self, sql: &str) -> Result<Statement, SqlError> {
        if let Some(known) = self.prepared.borrow().get(sql) {
            return Ok(known.clone());
        }
        let words = in_its_words(sql);
        let statement = self.ask(move |client| client.prepare(&words))?;
        self.prepared.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn references(values: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// `?N` is `$N`; a list of texts comes as JSON, which has its own function here.
fn in_its_words(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find('?') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = behind.split_at(digits);
        match before.strip_suffix("json_each(") {
            Some(before) => text += &format!("{before}json_array_elements_text(CAST(${number} AS text)::json"),
            None => text += &format!("{before}${number}"),
        }
        rest = after;
    }
    text + rest
}

/// SQLite's text of a table, with the types that it has here.
fn table_in_its_words(sql: &str) -> String {
    sql.replace(" STRICT", "")
        .replace(", WITHOUT ROWID", "")
        .replace(" TEXT", " text COLLATE \"C\"")
        .replace(" INTEGER", " bigint")
        .replace(" REAL", " double precision")
}

/// A column of a row, as the types that the store reads.
pub(super) fn value<T: FromSql>(row: &Row, at: usize) -> Result<T, SqlError> {
    let of = match *row.columns().get(at).ok_or(FromSqlError::InvalidType)?.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(ValueRef::Integer),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(at)?.map(ValueRef::Real),
        Type::TEXT => row.try_get::<_, Option<&str>>(at)?.map(|text| ValueRef::Text(text.as_bytes())),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(at)?.map(ValueRef::Blob),
        _ => return Err(FromSqlError::InvalidType.into()),
    };
    Ok(T::column_result(of.unwrap_or(ValueRef::Null))?)
}

/// A value of ours, as the type that the server expects at its place.
#[derive(Debug)]
struct Parameter(Value);

impl ToSql for Parameter {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (&self.0, of) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Integer(number), &Type::INT8) => number.to_sql(of, out),
            (Value::Real(number), &Type::FLOAT8) => number.to_sql(of, out),
            (Value::Text(text), &Type::TEXT) => text.as_str().to_sql(of, out),
            (Value::Blob(octets), &Type::BYTEA) => octets.as_slice().to_sql(of, out),
            (value, of) => Err(format!("{value:?} is no {of}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const LET_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
    const DONE: &[u8] = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

    /// A conversation with a server that lets this one in and says nothing after that, and the server's side of it.
    fn silent(listener: &TcpListener) -> (Server, TcpStream) {
        let url = format!("postgres://ann@{}/lab", listener.local_addr().unwrap());
        thread::scope(|scope| {
            let letting_in = scope.spawn(|| let_in(listener));
            let (client, _) = connect::ask(&url, PATIENCE, |client| client).unwrap();
            (Server::new(client, url, Duration::from_millis(300)), letting_in.join().unwrap())
        })
    }

    fn let_in(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 8, "a greeting");
        stream.write_all(LET_IN).unwrap();
        stream
    }

    #[test]
    fn a_server_that_falls_silent_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (server, _held) = silent(&listener);
        let began = Instant::now();
        let error = server.batch("SELECT 1").unwrap_err();
        assert!(matches!(error, SqlError::Silent(_)), "{error}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert!(matches!(server.batch("ROLLBACK"), Err(SqlError::Silent(_))));
        assert!(began.elapsed() < Duration::from_secs(3), "nothing is waited for any more");
    }

    #[test]
    fn a_server_that_is_slow_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (server, mut held) = silent(&listener);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Whether it is there is asked twice.
                for _ in 0..2 {
                    let mut asking = let_in(&listener);
                    assert!(asking.read(&mut [0; 64]).unwrap() > 0);
                    asking.write_all(DONE).unwrap();
                }
                held.write_all(DONE).unwrap();
            });
            server.batch("SELECT 1").unwrap();
        });
    }

    #[test]
    fn values_and_lists_are_written_in_its_words() {
        let check = |ours: &str, theirs: &str| assert_eq!(in_its_words(ours), theirs);
        check("SELECT 1", "SELECT 1");
        check("a = ?1 AND b = ?12 AND c", "a = $1 AND b = $12 AND c");
        check(
            "id IN (SELECT value FROM json_each(?3)) LIMIT ?4",
            "id IN (SELECT value FROM json_array_elements_text(CAST($3 AS text)::json)) LIMIT $4",
        );
    }
}
