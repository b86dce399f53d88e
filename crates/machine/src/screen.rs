//! What a person looks at on a running machine: its tasks, sockets, buffers, statistics, as tables of values.
//! Knows how values are held against earlier ones, and not how they are read or drawn.

use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// One of the utility screens.
    Screen {
        /// Processes and threads of the kernel, by the CPU time that they used.
        Tasks = "tasks",
        /// Open sockets, those with data in their queues first.
        Sockets = "sockets",
        /// Memory of sockets and queues of the stack.
        Buffers = "buffers",
        /// The interface, its link and its counters.
        Interface = "interface",
        /// Counters of IP and ICMP.
        Ip = "ip",
        /// Counters of UDP.
        Udp = "udp",
        /// Counters of TCP.
        Tcp = "tcp",
        /// Addresses of every interface.
        Addresses = "addresses",
        /// Who measures here, and what is changed.
        RemoteControl = "remote-control",
        /// Frames, errors, drops and CPU load: what [`statistics`] makes a line of.
        Statistics = "statistics",
    }
}

impl Screen {
    /// As menus call it.
    pub const fn title(self) -> &'static str {
        match self {
            Screen::Tasks => "Tasks",
            Screen::Sockets => "Sockets",
            Screen::Buffers => "Buffer pools",
            Screen::Interface => "Interface",
            Screen::Ip => "IP statistics",
            Screen::Udp => "UDP statistics",
            Screen::Tcp => "TCP statistics",
            Screen::Addresses => "Addresses",
            Screen::RemoteControl => "Remote control",
            Screen::Statistics => "Statistics line",
        }
    }

    /// Those that menus list; the statistics line is watched by itself.
    pub fn listed() -> impl Iterator<Item = Screen> {
        Screen::ALL.into_iter().filter(|screen| *screen != Screen::Statistics)
    }
}

/// A screen of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The columns; the first one names a row.
    pub columns: Vec<Column>,
    /// The rows, with a value a column.
    pub rows: Vec<Vec<Value>>,
    /// Rows that there are besides, and that nobody reads on a screen.
    #[serde(default)]
    pub left_out: u64,
    /// What could not be read, a sentence each.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name, with the unit.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
}

words! {
    /// What the values of a column are.
    Kind {
        /// Text, or a name.
        Text = "text",
        /// A number as it is now.
        Number = "number",
        /// A number that only grows: its rate is of interest.
        Counter = "counter",
        /// Milliseconds of CPU time, which grow.
        CpuTime = "cpu-time",
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A text, of whomever.
    Text(String),
    /// Not known.
    Unknown,
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Unknown, Into::into)
    }
}

impl Value {
    /// As it is shown.
    pub fn text(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Unknown => "-".to_owned(),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl View {
    /// A screen without rows.
    pub fn new(columns: &[(&str, Kind)]) -> View {
        let columns = columns.iter().map(|(name, kind)| Column { name: (*name).to_owned(), kind: *kind }).collect();
        View { columns, ..View::default() }
    }

    /// Keeps the first `most` rows.
    pub fn at_most(mut self, most: usize) -> View {
        self.left_out += self.rows.len().saturating_sub(most) as u64;
        self.rows.truncate(most);
        self
    }

    /// With a column of rates behind every one that grows: what it grew by since `before`, so many seconds ago. A row that
    /// was not there, and a counter that fell, has no rate.
    pub fn with_rates(&self, before: &View, seconds: f64) -> View {
        let mut with = View { left_out: self.left_out, missing: self.missing.clone(), ..View::default() };
        for column in &self.columns {
            with.columns.push(column.clone());
            if let Some(name) = column.kind.rate() {
                with.columns.push(Column { name: name.to_owned(), kind: Kind::Number });
            }
        }
        for row in &self.rows {
            let then = before.row(row.first());
            let mut cells = Vec::new();
            for (at, (value, column)) in row.iter().zip(&self.columns).enumerate() {
                cells.push(value.clone());
                if column.kind.rate().is_some() {
                    let before = then.and_then(|row| row.get(at));
                    cells.push(rate(column.kind, value, before, seconds));
                }
            }
            with.rows.push(cells);
        }
        with
    }

    fn row(&self, name: Option<&Value>) -> Option<&Vec<Value>> {
        name.and_then(|name| self.rows.iter().find(|row| row.first() == Some(name)))
    }

    /// The number in the second column of the row of this name.
    fn number(&self, name: &str) -> Option<u64> {
        self.row(Some(&name.into())).and_then(|row| row.get(1)).and_then(Value::number)
    }
}

impl Kind {
    /// The name of the rate's column.
    const fn rate(self) -> Option<&'static str> {
        match self {
            Kind::Text | Kind::Number => None,
            Kind::Counter => Some("per s"),
            Kind::CpuTime => Some("CPU, %"),
        }
    }

    /// Whether values stand at the right of their column.
    pub fn is_number(self) -> bool {
        self != Kind::Text
    }
}

fn rate(kind: Kind, now: &Value, before: Option<&Value>, seconds: f64) -> Value {
    let growth = before.and_then(Value::number).zip(now.number()).and_then(|(then, now)| now.checked_sub(then));
    let Some(growth) = growth.filter(|_| seconds > 0.0) else { return Value::Unknown };
    // 10 ms of a second are one percent.
    let unit = if kind == Kind::CpuTime { 10.0 } else { 1.0 };
    Value::Text(short(growth as f64 / seconds / unit))
}

/// A rate, in as many digits as mean something.
fn short(rate: f64) -> String {
    if rate == 0.0 || rate >= 99.95 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// The rows of [`Screen::Statistics`].
pub mod row {
    /// Frames that the interface received.
    pub const RX_FRAMES: &str = "RX frames";
    /// Bytes in them.
    pub const RX_BYTES: &str = "RX bytes";
    /// Frames that it sent.
    pub const TX_FRAMES: &str = "TX frames";
    /// Bytes in them.
    pub const TX_BYTES: &str = "TX bytes";
    /// Damaged or unsent frames.
    pub const ERRORS: &str = "errors";
    /// Frames that were dropped.
    pub const DROPPED: &str = "dropped";
    /// Time of all CPUs that they were busy, ms.
    pub const BUSY: &str = "CPU busy, ms";
    /// All their time, ms.
    pub const CPU_TIME: &str = "CPU time, ms";
}

/// What moved between two looks at [`Screen::Statistics`], as one line: what an echo server says every five seconds.
pub fn statistics(now: &View, before: &View, seconds: f64) -> String {
    let growth = |name| before.number(name).zip(now.number(name)).and_then(|(then, now)| now.checked_sub(then));
    let per_second = |name, times: f64| {
        growth(name).filter(|_| seconds > 0.0).map_or("-".to_owned(), |growth| short(growth as f64 * times / seconds))
    };
    let count = |name| growth(name).map_or("-".to_owned(), |growth| growth.to_string());
    let load = growth(row::BUSY).zip(growth(row::CPU_TIME)).filter(|(_, all)| *all > 0);
    let load =
        load.map_or("-".to_owned(), |(busy, all)| format!("{:.0}", (busy as f64 / all as f64 * 100.0).min(100.0)));
    let mbps = |name| per_second(name, 8e-6);
    format!(
        "errors {} dropped {} TX {}/s {} Mbit/s RX {}/s {} Mbit/s CPU {load} %",
        count(row::ERRORS),
        count(row::DROPPED),
        per_second(row::TX_FRAMES, 1.0),
        mbps(row::TX_BYTES),
        per_second(row::RX_FRAMES, 1.0),
        mbps(row::RX_BYTES),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(rows: &[(&str, u64)]) -> View {
        let rows = rows.iter().map(|(name, value)| vec![(*name).into(), (*value).into()]).collect();
        View { rows, ..View::new(&[("name", Kind::Text), ("value", Kind::Counter)]) }
    }

    #[test]
    fn what_grew_has_a_rate() {
        let before = view(&[("a", 10), ("b", 5), ("c", 0)]);
        let now = view(&[("a", 60), ("b", 4), ("new", 7), ("c", 0)]).with_rates(&before, 4.0);
        let texts: Vec<Vec<String>> = now.rows.iter().map(|row| row.iter().map(Value::text).collect()).collect();
        assert_eq!(texts, [["a", "60", "12.5"], ["b", "4", "-"], ["new", "7", "-"], ["c", "0", "0"]]);
        assert_eq!(now.columns.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["name", "value", "per s"]);
        let none = view(&[("a", 1)]).with_rates(&view(&[("a", 1)]), 0.0);
        assert_eq!(none.rows[0][2], Value::Unknown);
    }

    #[test]
    fn time_of_a_cpu_is_a_part_of_it() {
        let of = |ms: u64| View {
            rows: vec![vec!["init".into(), ms.into()]],
            ..View::new(&[("task", Kind::Text), ("ms", Kind::CpuTime)])
        };
        assert_eq!(of(1500).with_rates(&of(500), 2.0).rows[0][2], Value::Text("50.0".to_owned()));
    }

    #[test]
    fn a_line_of_statistics() {
        let of = |frames, bytes, errors, busy, all| {
            view(&[
                (row::RX_FRAMES, frames),
                (row::RX_BYTES, bytes),
                (row::TX_FRAMES, 0),
                (row::TX_BYTES, 0),
                (row::ERRORS, errors),
                (row::BUSY, busy),
                (row::CPU_TIME, all),
            ])
        };
        let line = statistics(&of(402_400, 500_000_000, 3, 2700, 10_000), &of(0, 0, 1, 0, 0), 5.0);
        assert_eq!(line, "errors 2 dropped - TX 0/s 0 Mbit/s RX 80480/s 800 Mbit/s CPU 27 %");
        assert_eq!(
            statistics(&view(&[]), &view(&[]), 5.0),
            "errors - dropped - TX -/s - Mbit/s RX -/s - Mbit/s CPU - %"
        );
    }

    #[test]
    fn a_view_survives_the_conversation() {
        let view = View {
            rows: vec![vec!["a".into(), Value::Unknown], vec!["5".into(), 7.into()]],
            left_out: 3,
            missing: vec!["no".to_owned()],
            ..View::new(&[("name", Kind::Text), ("value", Kind::CpuTime)])
        };
        let text = serde_json::to_string(&view).unwrap();
        assert_eq!(serde_json::from_str::<View>(&text).unwrap(), view, "{text}");
    }
}
