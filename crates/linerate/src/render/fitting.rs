//! A table as text for a terminal: what becomes narrower, is left out, or goes to a part of its own, until it fits.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::layout::{Layout, SENTENCE};
use super::table_model::{Cell, FOR_SENTENCES, Heading, Table};

/// A column that a table spares for its sentences goes before they have fewer columns than this.
const VERDICT: usize = 18;

/// Which columns of the tables of an answer a terminal shows, and which it has no room for.
#[derive(Default)]
pub(super) struct Columns {
    shown: BTreeSet<String>,
    left_out: Vec<String>,
}

impl Columns {
    fn leave_out(&mut self, heading: &Heading) {
        let name = heading.full_name();
        if !self.left_out.contains(&name) {
            self.left_out.push(name);
        }
    }

    fn show(&mut self, table: &Table) {
        if !table.rows.is_empty() {
            self.shown.extend(table.headings.iter().map(Heading::full_name));
        }
    }

    /// The names of what was left out, for a sentence; nothing where nothing was.
    pub(super) fn left_out(&self) -> Option<String> {
        // One table may have room for a column that another one has none for.
        let said =
            |name: &String| if self.shown.contains(name) { format!("{name} (in some tables)") } else { name.clone() };
        (!self.left_out.is_empty()).then(|| self.left_out.iter().map(said).collect::<Vec<_>>().join(", "))
    }
}

impl Heading {
    /// The name, and whose it is.
    fn full_name(&self) -> String {
        match self.layer.as_str() {
            layer @ ("target" | "host") => format!("{} ({layer})", self.name),
            _ => self.name.clone(),
        }
    }
}

impl Table {
    /// For a terminal, without lines between rows; nothing without rows. With a width, headings become narrower, columns
    /// are left out, and then words wrapped, until it fits; `columns` is told which.
    pub(super) fn text(&self, width: Option<u16>, columns: &mut Columns) -> String {
        let Some(width) = width.map(usize::from) else { return Layout::of(self).drawn() };
        let mut table = Cow::Borrowed(self);
        loop {
            let mut layout = Layout::of(&table);
            if layout.narrow(width) {
                columns.show(&table);
                return layout.drawn();
            }
            let turns = table.headings.iter().enumerate().filter_map(|(at, heading)| Some((heading.left_out?, at)));
            let turn = turns
                .min()
                .filter(|(turn, _)| *turn != FOR_SENTENCES || !(layout.squeeze(width) && layout.is_readable(VERDICT)));
            match turn {
                Some((_, at)) => columns.leave_out(&table.to_mut().remove(at)),
                // What no wrapping makes narrow enough goes from the right; the first columns say what a row is.
                None if layout.squeeze(width) || table.headings.len() < 3 => {
                    columns.show(&table);
                    return layout.drawn();
                }
                None => {
                    let last = table.headings.len() - 1;
                    columns.leave_out(&table.to_mut().remove(last));
                }
            }
        }
    }

    /// The table in parts, each narrow enough: all begin with the columns that tell its rows apart.
    pub(super) fn parts(&self, width: usize) -> Vec<Table> {
        let fits = |table: &Table| fits(table, width);
        let repeated = self.naming(width * 2 / 3);
        let mut parts = Vec::new();
        let mut part = self.of_columns(&[]);
        let mut taken: Vec<usize> = Vec::new();
        for at in 0..self.headings.len() {
            let wider = self.of_columns(&[taken.as_slice(), &[at]].concat());
            if fits(&wider) || taken.len() < 2 {
                taken.push(at);
                part = wider;
                continue;
            }
            parts.push(part);
            taken = repeated.iter().copied().filter(|one| *one < at).chain([at]).collect();
            if !fits(&self.of_columns(&taken)) {
                taken = vec![0, at];
            }
            part = self.of_columns(&taken);
        }
        parts.push(part);
        parts
    }

    /// The first columns that tell rows apart, as far as they fit; one at least.
    fn naming(&self, width: usize) -> Vec<usize> {
        // An empty cell of words says what the one above it says.
        let mut texts: Vec<Vec<String>> = Vec::new();
        for row in &self.rows {
            let said = |(at, cell): (usize, &Cell)| match texts.last() {
                Some(above) if cell.is_empty() && !self.is_number(at) => above[at].clone(),
                _ => cell.shown(),
            };
            let row = row.iter().enumerate().map(said).collect();
            texts.push(row);
        }
        let kinds = |columns: &[usize]| {
            let names = texts.iter().map(|row| columns.iter().map(|at| row[*at].as_str()).collect::<Vec<_>>());
            names.collect::<BTreeSet<_>>().len()
        };
        let mut naming: Vec<usize> = Vec::new();
        for at in 0..self.headings.len() {
            let more = [naming.as_slice(), &[at]].concat();
            if kinds(&naming) == self.rows.len() || !fits(&self.of_columns(&more), width) {
                break;
            }
            if kinds(&more) > kinds(&naming) {
                naming = more;
            }
        }
        if naming.is_empty() { vec![0] } else { naming }
    }

    /// With every column, whether it fits or not.
    pub(super) fn whole_text(&self, width: usize) -> String {
        let mut layout = Layout::of(self);
        layout.fit(width);
        layout.drawn()
    }
}

/// Whether it can be read at this width.
fn fits(table: &Table, width: usize) -> bool {
    let mut layout = Layout::of(table);
    layout.fit(width) && layout.is_readable(SENTENCE)
}

/// A table for a terminal of this width, with an end to its last line; nothing without rows.
pub(super) fn grid<T: AsRef<str>>(
    names: impl IntoIterator<Item = T>,
    rows: impl IntoIterator<Item = Vec<Cell>>,
    width: Option<u16>,
) -> String {
    let text = Table::new(names, rows).text(width, &mut Columns::default());
    if text.is_empty() { text } else { text + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_makes_room_for_sentences_only_where_they_need_it() {
        let row = ["throughput", "898.9", "0.0123", "cannot tell: needs more repeats"].map(Cell::text);
        let table = Table::new(["metric", "baseline", "p", "verdict"], [row.to_vec()]).sparing_for_sentences("p");
        for (width, has_p) in [(80, true), (48, true), (44, false), (36, false)] {
            let text = table.text(Some(width), &mut Columns::default());
            assert_eq!(text.contains("0.0123"), has_p, "{width}: {text}");
        }
    }

    #[test]
    fn a_column_that_one_of_two_tables_has_no_room_for_is_not_said_to_be_left_out_of_both() {
        let table = |names: &[&str]| {
            let mut table = Table::new(names, [names.iter().map(|name| Cell::long(*name)).collect()]);
            table.headings.iter_mut().skip(1).for_each(|heading| heading.left_out = Some(1));
            table
        };
        let mut columns = Columns::default();
        table(&["direction", "latency", "throughput"]).text(Some(19), &mut columns);
        assert_eq!(columns.left_out().unwrap(), "latency, throughput");
        table(&["direction", "latency"]).text(Some(19), &mut columns);
        assert_eq!(columns.left_out().unwrap(), "latency (in some tables), throughput");
    }
}
