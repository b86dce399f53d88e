//! A table as a terminal shows it: names over units over rows, blanks between columns.

use super::table_model::Table;

/// The blanks between columns, where there is room.
const GAP: usize = 2;
/// A word longer than this is a path or an identifier, and can be broken; of two columns any.
const LONG: usize = 24;
/// Where there is a choice, a sentence in a cell has so many columns.
pub(super) const SENTENCE: usize = 14;
const NARROWEST: usize = 10;

/// A table, and how wide each of its columns is.
pub(super) struct Layout<'a> {
    table: &'a Table,
    cells: Vec<Vec<String>>,
    numbers: Vec<bool>,
    /// What stands over a column, or over two of the same figure.
    names: Vec<Name>,
    /// What stands between the names and the rows.
    units: Vec<String>,
    widths: Vec<usize>,
    gap: usize,
}

struct Name {
    text: String,
    first: usize,
    columns: usize,
}

impl<'a> Layout<'a> {
    /// As wide as it needs to be.
    pub(super) fn of(table: &'a Table) -> Layout<'a> {
        let columns = table.headings.len();
        let cells: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.iter().map(super::table_model::Cell::shown).collect()).collect();
        let (mut names, mut units): (Vec<Name>, Vec<String>) = (Vec::new(), Vec::new());
        while units.len() < columns {
            let first = units.len();
            let heading = &table.headings[first];
            match table.headings.get(first + 1).filter(|next| heading.is_pair_with(next)) {
                Some(next) => {
                    let text = format!("{} {}", heading.name, heading.unit).trim_end().to_owned();
                    let marks = heading.marked_name().split_off(super::cell(&heading.name).len());
                    names.push(Name { text: text + &marks, first, columns: 2 });
                    units.extend([heading.layer.clone(), next.layer.clone()]);
                }
                None => {
                    let whose = if ["target", "host"].contains(&heading.layer.as_str()) { &heading.layer } else { "" };
                    let text = format!("{whose} {}", heading.marked_name()).trim().to_owned();
                    names.push(Name { text, first, columns: 1 });
                    units.push(super::cell(&heading.unit).into_owned());
                }
            }
        }
        let numbers = (0..columns).map(|at| table.is_number(at)).collect();
        let mut layout = Layout { table, cells, numbers, names, units, widths: Vec::new(), gap: GAP };
        layout.widths = layout.widths_with(length);
        layout
    }

    /// What the columns need, by what a heading needs.
    fn widths_with(&self, of_heading: fn(&str) -> usize) -> Vec<usize> {
        let body = |at: usize| self.cells.iter().map(|row| length(&row[at])).max().unwrap_or(0);
        let mut widths: Vec<usize> =
            (0..self.units.len()).map(|at| body(at).max(of_heading(&self.units[at]))).collect();
        for name in &self.names {
            let has = spanned(&widths, name, self.gap);
            widths[name.first] += of_heading(&name.text).saturating_sub(has);
        }
        widths
    }

    /// Whether every sentence has so many columns, or as many as it needs.
    pub(super) fn is_readable(&self, sentence: usize) -> bool {
        let body = |at: usize| self.cells.iter().map(|row| length(&row[at])).max().unwrap_or(0);
        (0..self.widths.len()).all(|at| self.numbers[at] || self.widths[at] >= body(at).min(sentence))
    }

    fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + self.gap * self.widths.len().saturating_sub(1)
    }

    /// Breaks headings between words, and puts columns closer together, as far as this width needs it; whether that is
    /// enough.
    pub(super) fn narrow(&mut self, width: usize) -> bool {
        for gap in [GAP, 1] {
            self.gap = gap;
            self.widths = self.widths_with(length);
            let least = self.widths_with(longest_word);
            while self.width() > width {
                let can = (0..least.len()).filter(|at| self.widths[*at] > least[*at]);
                let Some(most) = can.max_by_key(|at| self.widths[*at] - least[*at]) else { break };
                self.widths[most] -= 1;
            }
            if self.width() <= width {
                return true;
            }
        }
        false
    }

    /// Breaks headings first and then words; whether that is enough.
    pub(super) fn fit(&mut self, width: usize) -> bool {
        self.narrow(width) || self.squeeze(width)
    }

    /// Wraps words in cells until the table has this width; whether it has.
    pub(super) fn squeeze(&mut self, width: usize) -> bool {
        let mut whole: Vec<usize> = (0..self.widths.len())
            .map(|at| {
                let words = self.cells.iter().map(|row| longest_word(&row[at])).max().unwrap_or(0);
                words.max(longest_word(&self.units[at]))
            })
            .collect();
        for name in self.names.iter().filter(|name| name.columns == 1) {
            whole[name.first] = whole[name.first].max(longest_word(&name.text));
        }
        let longest = if self.widths.len() < 3 { NARROWEST } else { LONG };
        // Words first; then numbers with words between them; in the end long words are broken.
        let stages: [&dyn Fn(usize, bool) -> usize; 3] =
            [&|at, number| if number { usize::MAX } else { whole[at] }, &|at, _| whole[at], &|at, number| {
                if number { whole[at] } else { whole[at].min(longest) }
            }];
        // Columns closer together are read more easily than numbers that are broken; long words are broken only where nothing
        // else helps.
        for (gap, last) in [(GAP, 1), (1, 1), (GAP, 2), (1, 3)] {
            self.gap = gap;
            self.widths = self.widths_with(longest_word);
            for stage in &stages[..last] {
                while self.width() > width {
                    let can = (0..self.widths.len()).filter(|at| self.widths[*at] > stage(*at, self.numbers[*at]));
                    let Some(widest) = can.max_by_key(|at| self.widths[*at]) else { break };
                    self.widths[widest] -= 1;
                }
            }
            if self.width() <= width {
                return true;
            }
        }
        false
    }

    pub(super) fn drawn(&self) -> String {
        if self.cells.is_empty() {
            return String::new();
        }
        let mut lines = Vec::new();
        let names: Vec<Vec<String>> =
            self.names.iter().map(|name| wrapped_in(&name.text, spanned(&self.widths, name, self.gap))).collect();
        let high = names.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..high {
            let mut line = String::new();
            for (name, texts) in self.names.iter().zip(&names) {
                // The last line of a name stands right above its unit.
                let text = (at + texts.len()).checked_sub(high).and_then(|at| texts.get(at));
                let text = text.map_or("", String::as_str);
                self.append(&mut line, text, spanned(&self.widths, name, self.gap), self.numbers[name.first]);
            }
            lines.push(line);
        }
        self.row(&self.units, &mut lines);
        for (at, row) in self.cells.iter().enumerate() {
            let titles = self.table.titles.iter().filter(|(before, _)| *before == at);
            for (_, title) in titles {
                lines.extend(wrapped_in(&super::sentence(title), self.width().max(40)));
            }
            self.row(row, &mut lines);
        }
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()).collect();
        lines.join("\n")
    }

    fn append(&self, line: &mut String, text: &str, width: usize, to_the_right: bool) {
        if !line.is_empty() {
            line.push_str(&" ".repeat(self.gap));
        }
        line.push_str(&if to_the_right { format!("{text:>width$}") } else { format!("{text:<width$}") });
    }

    /// A row, on as many lines as its longest cell needs.
    fn row(&self, texts: &[String], lines: &mut Vec<String>) {
        let cells: Vec<Vec<String>> =
            texts.iter().zip(&self.widths).map(|(text, width)| wrapped_in(text, *width)).collect();
        for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let text = cell.get(at).map_or("", String::as_str);
                self.append(&mut line, text, self.widths[column], self.numbers[column]);
            }
            lines.push(line);
        }
    }
}

fn spanned(widths: &[usize], name: &Name, gap: usize) -> usize {
    widths[name.first..name.first + name.columns].iter().sum::<usize>() + gap * (name.columns - 1)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn longest_word(text: &str) -> usize {
    super::unbroken(text).into_iter().map(length).max().unwrap_or(0)
}

/// Lines of at most this width, broken between words; only a word that is longer is broken itself, behind a dot or the like
/// if it has one. The blanks before a first word stay.
fn wrapped_in(text: &str, width: usize) -> Vec<String> {
    if length(text) <= width || width == 0 {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    let words = text.trim_start_matches(' ');
    let mut line = " ".repeat((text.len() - words.len()).min(width - 1));
    for word in super::unbroken(words) {
        let is_begun = !line.trim().is_empty();
        if is_begun && length(&line) + 1 + length(word) > width {
            lines.push(std::mem::take(&mut line));
        } else if is_begun {
            line.push(' ');
        }
        let mut rest = word;
        while length(&line) + length(rest) > width {
            let room = width - length(&line);
            let end = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
            let dot = rest[..end].rfind(['.', '-', '_', '/', ',', ':', '=']).map(|at| at + 1);
            let (now, then) = rest.split_at(dot.filter(|_| room > 1).unwrap_or(end));
            lines.push(std::mem::take(&mut line) + now);
            rest = then;
        }
        line.push_str(rest);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::super::table_model::Cell;
    use super::*;

    #[test]
    fn columns_are_closer_together_before_a_number_is_broken() {
        let cells = ["throughput", "Mbit/s", "898.9", "899.4"].map(Cell::text);
        let numbers = ["+0.00135 % [-0.233, +0.200]", "0.971"].map(Cell::numbers);
        let row = [cells.to_vec(), numbers.to_vec(), vec![Cell::long("the same within 0.24 %")]].concat();
        let table = Table::new(["metric", "unit", "baseline", "candidate", "difference", "p", "verdict"], [row]);
        let mut layout = Layout::of(&table);
        assert!(layout.fit(80));
        let drawn = layout.drawn();
        assert!(drawn.contains("+0.00135 % [-0.233, +0.200] 0.971 the same"), "{drawn}");
    }

    #[test]
    fn words_are_broken_only_where_they_do_not_fit() {
        assert_eq!(wrapped_in("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped_in("abcdefghijkl mn", 8), ["abcdefgh", "ijkl mn"]);
        assert_eq!(wrapped_in("  of which tx", 10), ["  of which", "tx"]);
        assert_eq!(wrapped_in("net.ipv4.tcp_rmem", 10), ["net.ipv4.", "tcp_rmem"]);
        assert_eq!(wrapped_in("", 5), [""]);
        assert!(wrapped_in("one  two   three four", 6).iter().all(|line| line.len() <= 6));
    }
}
