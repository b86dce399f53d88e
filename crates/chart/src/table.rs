//! The numbers of a chart, and their text form: for screen readers, mail, and a terminal without pictures.

/// Rows of cells under a head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// A name a column, with its unit.
    pub head: Vec<String>,
    /// Each as long as the head.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell: what is read, and what it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// As it is printed.
    pub text: String,
    /// The number that the text is of, unrounded; `None`: a name, or nothing was measured.
    pub value: Option<f64>,
    /// Which records it comes from.
    pub trace: String,
}

impl Table {
    /// A table without rows.
    pub fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// And this row.
    pub fn row<T: Into<Cell>>(mut self, cells: impl IntoIterator<Item = T>) -> Table {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}

impl Cell {
    /// A number and its text.
    pub fn number(text: impl Into<String>, value: f64) -> Cell {
        Cell { text: text.into(), value: Some(value), trace: String::new() }
    }

    /// Which records it comes from.
    pub fn from_records(self, trace: impl Into<String>) -> Cell {
        Cell { trace: trace.into(), ..self }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell { text: text.to_owned(), ..Cell::default() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}
