//! A table before it is drawn: typed cells under headings, and the marks of notes that are about them.
//! Terminals (`layout.rs`) and Markdown show the same table; whether a column is of numbers its cells say.

use std::borrow::Cow;

use linerate_results::figure::{Digits, Figure};

use super::markdown::{escaped, line};
use super::number;

/// The turn of a column that is left out last, and only where sentences need its room.
pub(super) const FOR_SENTENCES: u8 = u8::MAX;

/// What stands in a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Value {
    #[default]
    Nothing,
    Text(String),
    /// In the unit of its heading; of [`Digits::Percent`], a share of 1.
    Number(f64, Digits),
    /// A median, the smallest and the largest.
    Spread([f64; 3], Digits),
    /// Numbers with words or signs between them.
    Numbers(String),
    Failed,
}

/// A value, and the numbers of the notes that are about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) value: Value,
    marks: Vec<usize>,
    pub(super) trace: Option<Box<Trace>>,
    /// Where a browser finds more of it.
    #[cfg(feature = "web")]
    pub(super) link: Option<Box<str>>,
}

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trace {
    /// The figure, or the middle of several, in the record's unit.
    pub(super) value: f64,
    /// What it is, like `throughput_bps`, in words that scripts use.
    pub(super) figure: String,
    /// The identifiers of the records that have it.
    pub(super) records: Vec<String>,
}

impl Cell {
    /// A word or two, cut where it is longer than a table can bear.
    pub(super) fn text(text: impl AsRef<str>) -> Cell {
        Cell::kept(super::cell(text.as_ref()))
    }

    /// A sentence or a value that is shown whole.
    pub(super) fn long(text: impl AsRef<str>) -> Cell {
        Cell::kept(super::sentence(text.as_ref()))
    }

    fn kept(text: Cow<'_, str>) -> Cell {
        if text.is_empty() { Cell::default() } else { Value::Text(text.into_owned()).into() }
    }

    pub(super) fn numbers(text: impl Into<String>) -> Cell {
        let text = text.into();
        if text.is_empty() { Cell::default() } else { Value::Numbers(text).into() }
    }

    pub(super) fn count(count: impl Into<u64>) -> Cell {
        Cell::numbers(number::count(count.into()))
    }

    /// Two counts of a kind.
    pub(super) fn pair(one: u64, other: u64) -> Cell {
        Cell::numbers(format!("{}+{}", number::count(one), number::count(other)))
    }

    pub(super) fn number(value: f64, digits: i32) -> Cell {
        Value::Number(value, Digits::Significant(digits)).into()
    }

    pub(super) fn percent(share: f64) -> Cell {
        Value::Number(share, Digits::Percent).into()
    }

    /// A figure in its unit for people.
    pub(super) fn figure(figure: &Figure, value: f64) -> Cell {
        Value::Number(scaled(figure, value), figure.unit.digits()).into()
    }

    /// The same with another digit, where one tells more.
    pub(super) fn in_full(figure: &Figure, value: f64) -> Cell {
        match figure.unit.digits() {
            Digits::Significant(digits @ 4..) => Cell::number(scaled(figure, value), digits + 1),
            _ => Cell::figure(figure, value),
        }
    }

    /// The median of several, with the smallest and the largest.
    pub(super) fn spread(figure: &Figure, values: [f64; 3]) -> Cell {
        Value::Spread(values.map(|value| scaled(figure, value)), figure.unit.digits()).into()
    }

    pub(super) fn mark(&mut self, number: usize) {
        if !self.marks.contains(&number) {
            self.marks.push(number);
        }
    }

    pub(super) fn marked(mut self, marks: Vec<usize>) -> Cell {
        self.marks = marks;
        self
    }

    pub(super) fn traced(mut self, trace: Trace) -> Cell {
        self.trace = Some(Box::new(trace));
        self
    }

    #[cfg(feature = "web")]
    pub(super) fn linked(mut self, link: impl Into<Box<str>>) -> Cell {
        self.link = Some(link.into());
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.value == Value::Nothing
    }

    fn is_number(&self) -> bool {
        !matches!(self.value, Value::Nothing | Value::Text(_))
    }

    /// As people read it.
    pub(super) fn shown(&self) -> String {
        let value = match &self.value {
            Value::Nothing => String::new(),
            Value::Text(text) | Value::Numbers(text) => text.clone(),
            Value::Number(value, digits) => number::written(*value, *digits),
            Value::Spread(values, digits) => {
                let [middle, low, high] = values.map(|value| number::written(value, *digits));
                if low == high { middle } else { format!("{middle} ({low} to {high})") }
            }
            Value::Failed => "failed".to_owned(),
        };
        format!("{value}{}", marks(&self.marks, &value))
    }
}

/// Shares are written as such, other figures in their unit.
fn scaled(figure: &Figure, value: f64) -> f64 {
    if figure.unit.digits() == Digits::Percent { value } else { value * figure.unit.scale() }
}

fn marks(marks: &[usize], behind: &str) -> String {
    let mut marks = marks.to_vec();
    marks.sort_unstable();
    let text = number::ranges(&marks).join(",");
    let text = if text.is_empty() { text } else { format!("[{text}]") };
    if text.is_empty() || behind.is_empty() { text } else { format!(" {text}") }
}

impl From<Value> for Cell {
    fn from(value: Value) -> Cell {
        Cell { value, ..Cell::default() }
    }
}

impl From<Option<Cell>> for Cell {
    fn from(cell: Option<Cell>) -> Cell {
        cell.unwrap_or_default()
    }
}

/// What a column holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Heading {
    pub(super) name: String,
    /// Its unit; empty for words and counts.
    pub(super) unit: String,
    /// What the figure counts, or whose it is; empty where the name says it.
    pub(super) layer: String,
    /// The socket APIs, where they are not what an ordinary program uses.
    pub(super) apis: String,
    /// A narrow terminal can do without it; the lowest number goes first.
    pub(super) left_out: Option<u8>,
    pub(super) marks: Vec<usize>,
    /// Where a browser finds the rows in its order.
    #[cfg(feature = "web")]
    pub(super) sorted: Option<Sorted>,
}

/// How rows are, or can be, sorted by a column.
#[cfg(feature = "web")]
#[derive(Clone, Debug)]
pub(super) struct Sorted {
    /// What shows them so, or the other way round.
    pub(super) link: String,
    /// They are: ascending, as `aria-sort` says it.
    pub(super) now: Option<&'static str>,
}

impl Heading {
    pub(super) fn new(name: impl Into<String>) -> Heading {
        Heading { name: name.into(), ..Heading::default() }
    }

    /// Of a text like `throughput\nMbit/s`, the unit on its second line.
    fn of(text: &str) -> Heading {
        let (name, unit) = text.split_once('\n').unwrap_or((text, ""));
        Heading { unit: unit.to_owned(), ..Heading::new(name) }
    }

    /// Its name, and the marks behind it.
    pub(super) fn marked_name(&self) -> String {
        let name = super::cell(&self.name);
        format!("{name}{}", marks(&self.marks, &name))
    }

    /// The figure of the other machine stands beside it, and both share what is written above them.
    pub(super) fn is_pair_with(&self, next: &Heading) -> bool {
        (self.layer.as_str(), next.layer.as_str()) == ("target", "host")
            && (&self.name, &self.unit, &self.marks) == (&next.name, &next.unit, &next.marks)
    }

    pub(super) fn in_one_line(&self) -> String {
        let layer: Vec<&str> = [self.layer.as_str(), &self.apis].into_iter().filter(|word| !word.is_empty()).collect();
        let layer = if layer.is_empty() { String::new() } else { format!("({})", layer.join(", ")) };
        let words = [self.marked_name(), self.unit.clone(), layer];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// Headings, and rows of as many cells or fewer.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) headings: Vec<Heading>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// What the rows from this one on are about.
    pub(super) titles: Vec<(usize, String)>,
}

impl Table {
    /// A table under these names, each with its unit on a second line.
    pub(super) fn new<T: AsRef<str>>(
        names: impl IntoIterator<Item = T>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Table {
        let headings: Vec<Heading> = names.into_iter().map(|name| Heading::of(name.as_ref())).collect();
        let mut table = Table { headings, rows: rows.into_iter().collect(), titles: Vec::new() };
        table.rows.iter_mut().for_each(|row| row.resize(table.headings.len(), Cell::default()));
        table
    }

    /// Lets a narrow terminal do without these columns, the first one first.
    pub(super) fn sparing(mut self, names: &[&str]) -> Table {
        for (turn, name) in (1..).zip(names) {
            self.headings.iter_mut().filter(|heading| heading.name == *name).for_each(|h| h.left_out = Some(turn));
        }
        self
    }

    /// The column that is left out last, and only where a sentence would stand with a word on each line.
    pub(super) fn sparing_for_sentences(mut self, name: &str) -> Table {
        self.headings.iter_mut().filter(|heading| heading.name == name).for_each(|h| h.left_out = Some(FOR_SENTENCES));
        self
    }

    /// Whether a column tells no row from another, of which there are several.
    pub(super) fn is_same_in_all_rows(&self, name: &str) -> bool {
        let Some(at) = self.headings.iter().position(|heading| heading.name == name) else { return false };
        self.rows.len() > 1 && self.rows.iter().all(|row| row[at].value == self.rows[0][at].value)
    }

    /// Without the columns that no row fills.
    pub(super) fn filled(mut self) -> Table {
        for at in (0..self.headings.len()).rev() {
            if self.rows.iter().all(|row| row[at].is_empty()) {
                self.remove(at);
            }
        }
        self
    }

    /// The columns of these names stand right behind this one, in their order: on a narrow screen they are to be seen.
    #[cfg(feature = "web")]
    pub(super) fn with_behind(mut self, first: &str, names: &[&str]) -> Table {
        let place = |table: &Table, name: &str| table.headings.iter().position(|heading| heading.name == name);
        for name in names.iter().rev() {
            let (Some(from), Some(first)) = (place(&self, name), place(&self, first)) else { continue };
            let to = if from > first { first + 1 } else { first };
            let heading = self.headings.remove(from);
            self.headings.insert(to, heading);
            for row in &mut self.rows {
                let cell = row.remove(from);
                row.insert(to, cell);
            }
        }
        self
    }

    pub(super) fn remove(&mut self, at: usize) -> Heading {
        self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        self.headings.remove(at)
    }

    /// Where the first column tells several rows what they are about, it stands above them instead of beside them.
    pub(super) fn title_by_first(&mut self) {
        if self.rows.iter().all(|row| !row[0].is_empty()) {
            return;
        }
        let firsts = self.rows.iter().enumerate().filter(|(_, row)| !row[0].is_empty());
        self.titles = firsts.map(|(at, row)| (at, row[0].shown())).collect();
        self.remove(0);
    }

    /// Words to the left; what is all numbers to the right.
    pub(super) fn is_number(&self, at: usize) -> bool {
        let mut filled = self.rows.iter().map(|row| &row[at]).filter(|cell| !cell.is_empty()).peekable();
        filled.peek().is_some() && filled.all(Cell::is_number)
    }

    /// A mark that every figure of a column bears stands once, behind the column's name.
    pub(super) fn hoist_marks(&mut self) {
        for at in 0..self.headings.len() {
            let column = || self.rows.iter().map(|row| &row[at]).filter(|cell| !cell.is_empty());
            // What failed is no figure.
            if !self.is_number(at) || column().count() < 2 || column().any(|cell| cell.value == Value::Failed) {
                continue;
            }
            let mut shared = column().next().map(|cell| cell.marks.clone()).unwrap_or_default();
            shared.retain(|mark| column().all(|cell| cell.marks.contains(mark)));
            self.rows.iter_mut().for_each(|row| row[at].marks.retain(|mark| !shared.contains(mark)));
            self.headings[at].marks = shared;
        }
    }

    pub(super) fn of_columns(&self, columns: &[usize]) -> Table {
        let headings = columns.iter().map(|at| self.headings[*at].clone()).collect();
        let rows = self.rows.iter().map(|row| columns.iter().map(|at| row[*at].clone()).collect()).collect();
        Table { headings, rows, titles: self.titles.clone() }
    }

    /// As Markdown writes tables (GitHub Flavored Markdown, section 4.10).
    pub(super) fn markdown(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let columns = 0..self.headings.len();
        let mut text = line(self.headings.iter().map(|heading| escaped(&heading.in_one_line())));
        text += &line(columns.map(|at| if self.is_number(at) { "---:" } else { "---" }.to_owned()));
        for (at, row) in self.rows.iter().enumerate() {
            for (_, title) in self.titles.iter().filter(|(before, _)| *before == at) {
                let blanks = std::iter::repeat_n(String::new(), self.headings.len() - 1);
                text += &line(std::iter::once(escaped(title)).chain(blanks));
            }
            text += &line(row.iter().map(|cell| escaped(cell.shown().trim())));
        }
        text
    }
}

/// Sentences that stand beneath a table once, and in it as numbers.
#[derive(Default)]
pub(super) struct Footnotes(Vec<String>);

impl Footnotes {
    pub(super) fn marks<'a>(&mut self, sentences: impl Iterator<Item = &'a String>) -> Vec<usize> {
        let mut number = |sentence: &String| {
            let at = self.0.iter().position(|known| known == sentence).unwrap_or_else(|| {
                self.0.push(sentence.clone());
                self.0.len() - 1
            });
            at + 1
        };
        sentences.map(&mut number).collect()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        (1..).zip(&self.0).map(|(number, sentence)| format!("[{number}] {sentence}.")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_rows_are_about_stands_above_them() {
        let row = |texts: [&str; 2]| texts.map(Cell::text).to_vec();
        let mut table = Table::new(["configuration", "metric"], [row(["tx", "a"]), row(["", "b"]), row(["rx", "a"])]);
        table.title_by_first();
        assert_eq!(table.titles, [(0, "tx".to_owned()), (2, "rx".to_owned())]);
        assert_eq!(table.headings.len(), 1);
        let mut table = Table::new(["configuration", "metric"], [row(["tx", "a"]), row(["rx", "a"])]);
        table.title_by_first();
        assert!(table.titles.is_empty(), "a title for each row is a line more for each");
        assert_eq!(table.headings.len(), 2);
    }
}
