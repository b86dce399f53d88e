//! An answer as a browser gets it: whole, and each table and picture by itself, in every form.
//! Knows no address and no record.

use linerate_chart::Chart;
use linerate_results::figure::Digits;
use maud::Markup;
use serde_json::{Map, Value as Json};

use super::answer::Answer;
use super::forms::{self, Piece, chart_numbers};
use super::table_model::{Cell, Table, Value};
use super::{csv, html, json};

/// A table or a picture of an answer, counted from 1 in the order in which they stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Table(usize),
    Figure(usize),
}

impl Answer {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Text that is laid out already.
    pub(crate) fn laid_out(text: impl Into<String>) -> Answer {
        Answer::of(vec![Piece::Text(text.into())])
    }

    /// This one, and the other below it.
    pub(crate) fn followed_by(mut self, other: Answer) -> Answer {
        self.pieces.extend(other.pieces);
        self
    }

    /// How many tables it has.
    pub(crate) fn tables(&self) -> usize {
        forms::unfolded(&self.pieces).iter().filter(|piece| matches!(piece, Piece::Table(_))).count()
    }

    /// As a part of a page; `forms` is what the address of each table and picture begins with.
    pub(crate) fn html(&self, forms: &str) -> Markup {
        html::part(&self.pieces, forms)
    }

    /// The same where no address has its tables: they move with what runs.
    pub(crate) fn inner(&self) -> Markup {
        html::moving(&self.pieces)
    }

    /// With every column, whatever the width.
    pub(crate) fn whole_text(&self, width: u16) -> String {
        forms::whole_text(&self.pieces, width, false)
    }

    /// A part as CSV, figures in the units of their headings; `None`: there is no such part.
    pub(crate) fn csv_of(&self, part: Part) -> Option<String> {
        let table = self.table(part)?;
        let titles: Vec<String> = table.headings.iter().map(|heading| heading.in_one_line()).collect();
        let rows = table.rows.iter().map(|row| row.iter().map(plain).collect::<Vec<_>>());
        Some(csv::lines(titles.iter().map(String::as_str), rows))
    }

    /// The same as a list of objects.
    pub(crate) fn json_of(&self, part: Part) -> Option<String> {
        let table = self.table(part)?;
        let object = |row: &Vec<Cell>| {
            let names = table.headings.iter().map(|heading| heading.in_one_line());
            Json::Object(names.zip(row.iter().map(json_value)).collect::<Map<_, _>>())
        };
        Some(json::line(Json::Array(table.rows.iter().map(object).collect())))
    }

    /// The same, ready to paste.
    pub(crate) fn markdown_of(&self, part: Part) -> Option<String> {
        Some(self.table(part)?.markdown())
    }

    /// A picture as a file.
    pub(crate) fn svg_of(&self, part: Part) -> Option<String> {
        let Part::Figure(number) = part else { return None };
        Some(linerate_chart::svg::drawn(self.charts().nth(number.checked_sub(1)?)?, "figure"))
    }

    fn table(&self, part: Part) -> Option<Table> {
        match part {
            Part::Figure(number) => Some(chart_numbers(self.charts().nth(number.checked_sub(1)?)?)),
            Part::Table(number) => {
                let tables = forms::unfolded(&self.pieces).into_iter().filter_map(|piece| match piece {
                    Piece::Table(table) => Some(table),
                    _ => None,
                });
                tables.into_iter().nth(number.checked_sub(1)?).cloned()
            }
        }
    }

    fn charts(&self) -> impl Iterator<Item = &Chart> {
        forms::unfolded(&self.pieces).into_iter().filter_map(|piece| match piece {
            Piece::Chart(chart) => Some(&**chart),
            _ => None,
        })
    }
}

/// The value of a cell, as far as it is one number; of one that has no end, its word stands there, as on the page.
fn number(cell: &Cell) -> Option<f64> {
    let value = match &cell.value {
        Value::Number(value, Digits::Percent) => Some(value * 100.0),
        Value::Number(value, _) => Some(*value),
        Value::Numbers(text) => text.replace(',', "").parse().ok(),
        Value::Nothing | Value::Text(_) | Value::Spread(..) | Value::Failed => None,
    };
    value.filter(|value: &f64| value.is_finite())
}

fn plain(cell: &Cell) -> String {
    number(cell).map_or_else(|| cell.shown().trim().to_owned(), |value| value.to_string())
}

fn json_value(cell: &Cell) -> Json {
    match number(cell) {
        Some(value) => value.into(),
        None if cell.is_empty() => Json::Null,
        None => cell.shown().trim().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let rows = vec![
            vec![Cell::text("a, \"b\""), Cell::number(1234.5, 2), Cell::percent(0.0125), Cell::count(21_874_u64)],
            vec![Cell::text("<c>"), Cell::default(), Cell::numbers("2+3"), Cell::default()],
            vec![Cell::text("d"), Cell::number(f64::INFINITY, 3), Cell::default(), Cell::default()],
        ];
        let table = Table::new(["name", "rate\nMbit/s", "lost\n%", "count"], rows);
        let inner = Table::new(["x"], vec![vec![Cell::text("in")]]);
        Answer::of(vec![
            Piece::Table(table),
            Piece::Folded("more".to_owned(), vec![Piece::Table(inner)]),
            Piece::Lines(vec!["<script>".to_owned()]),
        ])
    }

    #[test]
    fn tables_by_themselves_keep_their_figures() {
        let answer = answer();
        assert_eq!(
            answer.csv_of(Part::Table(1)).unwrap().lines().collect::<Vec<_>>(),
            ["name,rate Mbit/s,lost %,count", "\"a, \"\"b\"\"\",1234.5,1.25,21874", "<c>,,2+3,", "d,unlimited,,"]
        );
        let read: Json = serde_json::from_str(&answer.json_of(Part::Table(1)).unwrap()).unwrap();
        assert_eq!((&read[0]["rate Mbit/s"], &read[1]["count"]), (&1234.5.into(), &Json::Null));
        assert_eq!(read[2]["rate Mbit/s"], "unlimited");
        assert!(answer.markdown_of(Part::Table(2)).unwrap().contains("in"));
        for none in [Part::Table(0), Part::Table(3), Part::Figure(1), Part::Figure(0)] {
            assert_eq!((answer.csv_of(none), answer.svg_of(none)), (None, None), "{none:?}");
        }
    }

    #[test]
    fn the_page_numbers_tables_as_the_forms_do() {
        let page = answer().html("/x?a=1&").into_string();
        assert!(page.contains("/x?a=1&amp;table=1&amp;form=csv") && page.contains("table=2&amp;form=json"), "{page}");
        assert!(!page.contains("<script>") && !page.contains("style="), "{page}");
        // Read aloud: a column without a name is no word of the table's.
        let table = Table::new(["", "target", "host"], vec![vec![Cell::text("mtu"), Cell::default(), Cell::default()]]);
        let page = Answer::of(vec![Piece::Table(table)]).html("/x?").into_string();
        assert!(page.contains("aria-label=\"target, host\""), "{page}");
    }
}
