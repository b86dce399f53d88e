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
    pub fn listed() -> &'static [Screen] {
        // It is the last.
        &Screen::ALL[..Screen::Statistics as usize]
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

    /// What a row's value grew by since this view, so many seconds ago, as a rate. A row that was not there, and a counter that fell,
    /// has none.
    pub fn rate(&self, row: &[Value], at: usize, kind: Kind, seconds: f64) -> Value {
        let then = self.rows.iter().find(|then| then.first() == row.first()).and_then(|then| then.get(at));
        let Some(growth) = growth(row.get(at), then).filter(|_| seconds > 0.0) else { return Value::Unknown };
        // 10 ms of a second are one percent.
        let unit = if kind == Kind::CpuTime { 10.0 } else { 1.0 };
        Value::Text(short(growth as f64 / seconds / unit))
    }

    /// The value in the second column of the row of this name.
    fn value(&self, name: &str) -> Option<&Value> {
        let is_named = |row: &&Vec<Value>| matches!(row.first(), Some(Value::Text(text)) if text == name);
        self.rows.iter().find(is_named)?.get(1)
    }
}

impl Kind {
    /// What the column of its rates is called.
    pub const fn rate(self) -> Option<&'static str> {
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

fn growth(now: Option<&Value>, then: Option<&Value>) -> Option<u64> {
    match (now, then) {
        (Some(Value::Number(now)), Some(Value::Number(then))) => now.checked_sub(*then),
        _ => None,
    }
}

/// A rate, in as many digits as mean something.
fn short(rate: f64) -> String {
    digits(rate, if rate == 0.0 || rate >= 99.95 { 0 } else { 1 })
}

fn digits(number: f64, digits: usize) -> String {
    format!("{number:.digits$}")
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

/// What a figure of [`statistics`] is held against.
#[derive(Clone, Copy)]
enum Over {
    Nothing,
    Seconds,
    CpuTime,
}

/// What moved between two looks at [`Screen::Statistics`], as one line: what an echo server says every five seconds.
pub fn statistics(now: &View, before: &View, seconds: f64) -> String {
    // What stands before a figure, a factor, and what it is held against; a count is of the time between.
    const FIGURES: [(&str, &str, f64, Over); 7] = [
        ("errors ", row::ERRORS, 1.0, Over::Nothing),
        (" dropped ", row::DROPPED, 1.0, Over::Nothing),
        (" TX ", row::TX_FRAMES, 1.0, Over::Seconds),
        ("/s ", row::TX_BYTES, 8e-6, Over::Seconds),
        (" Mbit/s RX ", row::RX_FRAMES, 1.0, Over::Seconds),
        ("/s ", row::RX_BYTES, 8e-6, Over::Seconds),
        (" Mbit/s CPU ", row::BUSY, 100.0, Over::CpuTime),
    ];
    let growth = |name| growth(now.value(name), before.value(name)).map(|growth| growth as f64);
    let mut line = String::new();
    for (text, name, factor, over) in &FIGURES {
        line += text;
        let over_what = match over {
            Over::Nothing => Some(1.0),
            Over::Seconds => Some(seconds),
            Over::CpuTime => growth(row::CPU_TIME),
        };
        let figure =
            growth(name).zip(over_what.filter(|what| *what > 0.0)).map(|(growth, what)| growth * factor / what);
        line += &match (figure, over) {
            (None, _) => "-".to_owned(),
            (Some(figure), Over::Seconds) => short(figure),
            (Some(count), Over::Nothing) => digits(count, 0),
            // What the kernel counts as idle may go back.
            (Some(load), Over::CpuTime) => digits(load.min(100.0), 0),
        };
    }
    line + " %"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(rows: &[(&str, u64)]) -> View {
        let rows = rows.iter().map(|(name, value)| vec![(*name).into(), (*value).into()]).collect();
        View { rows, ..View::new(&[("name", Kind::Text), ("value", Kind::Counter)]) }
    }

    #[test]
    fn all_screens_but_the_statistics_line_are_listed() {
        let listed: Vec<Screen> = Screen::ALL.into_iter().filter(|screen| *screen != Screen::Statistics).collect();
        assert_eq!(Screen::listed(), listed);
    }

    #[test]
    fn what_grew_has_a_rate() {
        let before = view(&[("a", 10), ("b", 5), ("c", 0)]);
        let now = view(&[("a", 60), ("b", 4), ("new", 7), ("c", 0)]);
        let rates =
            |seconds| now.rows.iter().map(|row| before.rate(row, 1, Kind::Counter, seconds).text()).collect::<Vec<_>>();
        assert_eq!(rates(4.0), ["12.5", "-", "-", "0"]);
        assert_eq!(rates(0.0), ["-"; 4]);
    }

    #[test]
    fn time_of_a_cpu_is_a_part_of_it() {
        let of = |ms: u64| View {
            rows: vec![vec!["init".into(), ms.into()]],
            ..View::new(&[("task", Kind::Text), ("ms", Kind::CpuTime)])
        };
        assert_eq!(of(500).rate(&of(1500).rows[0], 1, Kind::CpuTime, 2.0), Value::Text("50.0".to_owned()));
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
        let load = |busy, all, seconds| statistics(&of(9, 9, 9, busy, all), &of(9, 9, 9, 0, 0), seconds);
        assert_eq!(load(7, 5, 5.0), "errors 0 dropped - TX 0/s 0 Mbit/s RX 0/s 0 Mbit/s CPU 100 %");
        assert_eq!(load(0, 0, 0.0), "errors 0 dropped - TX -/s - Mbit/s RX -/s - Mbit/s CPU - %");
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
