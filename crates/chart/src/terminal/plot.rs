//! A panel with axes, in characters.

use crate::chart::{Chart, Marks, Panel, Point, Reference, Series, Span, Weight};
use crate::scale::{self, Bar, Places, Tick};
use crate::text;

use super::grid::Grid;
use super::{Form, Glyphs};

/// Rows of a panel that stands alone, of one of several, and of a small one.
const ALONE: usize = 12;
const TALL: usize = 10;
const LOW: usize = 6;

/// A panel and what it is drawn with.
pub(super) struct Plot<'a> {
    pub chart: &'a Chart,
    pub panel: &'a Panel,
    pub x: &'a Places,
    /// How wide bars are, as a share of the x axis.
    pub bar: f64,
    pub glyphs: &'a Glyphs,
    pub form: Form,
    /// How many panels there are.
    pub count: usize,
}

impl Plot<'_> {
    /// The panel; the last one has the labels of the x axis.
    pub(super) fn drawn(&self, is_last: bool) -> String {
        let form = self.form;
        let rows = match (self.panel.is_small, self.count) {
            (true, _) => LOW,
            (false, 1) => ALONE,
            (false, _) => TALL,
        };
        let y = scale::y(self.chart, self.panel, rows.div_ceil(2));
        let labels = labelled(&y.ticks(rows.div_ceil(2)), rows, form);
        let margin = labels.iter().map(|label| text::columns(label)).max().unwrap_or(0).max(5);
        let mut grid = Grid::new(form.width.saturating_sub(margin + 2).max(10), rows);
        self.references(&mut grid, &y);
        self.areas(&mut grid, &y);
        for pass in [Pass::Ideal, Pass::Thin, Pass::Normal] {
            let series = self.panel.series.iter().enumerate().filter(|(_, series)| pass_of(series) == Some(pass));
            series.for_each(|(number, series)| self.series(&mut grid, &y, number, series));
        }
        let mut drawn = form.lines(&self.panel.y.label(), 0);
        for row in (0..rows).rev() {
            let label = &labels[row + 1];
            let edge = if label.is_empty() { form.sign('│', '|') } else { form.sign('┤', '+') };
            let blanks = " ".repeat(margin - text::columns(label));
            drawn += format!("{blanks}{label} {edge}{}", grid.row(row)).trim_end();
            drawn.push('\n');
        }
        let blanks = " ".repeat(margin - text::columns(&labels[0]));
        let corner = form.sign('└', '+');
        drawn += &format!(
            "{blanks}{} {corner}{}\n",
            labels[0],
            if is_last { self.axis(grid.columns) } else { self.line(grid.columns) }
        );
        if is_last {
            drawn += &self.below(margin + 2, grid.columns);
        }
        drawn += &self.named_references(margin + 2);
        let notes = self.panel.series.iter().filter_map(|series| scale::without_place(series, self.x, &y));
        notes.for_each(|note| drawn += &form.lines(&format!("{note}."), margin + 2));
        drawn
    }

    fn line(&self, columns: usize) -> String {
        self.form.sign('─', '-').to_string().repeat(columns)
    }

    /// The x axis with the labels in it, as many as there is room for.
    fn axis(&self, columns: usize) -> String {
        let line = self.form.sign('─', '-');
        let (every, most) = if self.x.names().is_some() { self.names(columns) } else { (1, 12) };
        let mut axis = String::new();
        for tick in self.x.ticks(columns / 10).iter().step_by(every) {
            let label = self.form.shortened(&tick.label, most);
            let wide = text::columns(&label);
            let middle = (tick.at * columns as f64) as usize;
            let start = middle.saturating_sub(wide / 2).min(columns.saturating_sub(wide));
            let used = text::columns(&axis);
            if start > used || (used == 0 && start == 0) {
                axis.extend(std::iter::repeat_n(line, start - used));
                axis += &label;
            }
        }
        let rest = columns.saturating_sub(text::columns(&axis));
        axis + &line.to_string().repeat(rest)
    }

    /// Of names, which stand at the axis, every second, third, …; and how long one may be.
    fn names(&self, columns: usize) -> (usize, usize) {
        let of = |value| self.x.place(value).unwrap_or(0.0);
        let slot = ((of(1.0) - of(0.0)) * columns as f64).max(0.01);
        let every = (((self.longest().min(10) + 3) as f64 / slot).ceil() as usize).max(1);
        (every, ((slot * every as f64) as usize).saturating_sub(2).max(1))
    }

    /// Columns of the longest name.
    fn longest(&self) -> usize {
        self.x.names().into_iter().flatten().map(|name| text::columns(name)).max().unwrap_or(0)
    }

    /// What stands below the x axis: its label, and names that had no room within it.
    fn below(&self, margin: usize, columns: usize) -> String {
        let mut below = self.form.lines(&self.chart.x.label(), margin);
        if let Some(names) = self.x.names().filter(|_| self.longest() > self.names(columns).1) {
            below += &self.form.lines(&format!("From left to right: {}.", names.join("; ")), margin);
        }
        below
    }

    fn references(&self, grid: &mut Grid, y: &Places) {
        for reference in &self.panel.references {
            match reference {
                Reference::X(value, _) => {
                    let Some(x) = self.x.place(*value) else { continue };
                    for row in 0..grid.rows {
                        let (column, _) = grid.cell(x, 0.0);
                        grid.put((column, row), self.form.sign('┊', ':'), 0, false);
                    }
                }
                Reference::Y(value, _) => {
                    let Some(y) = y.place(*value) else { continue };
                    for column in 0..grid.columns {
                        let (_, row) = grid.cell(0.0, y);
                        grid.put((column, row), self.form.sign('╌', '-'), 0, false);
                    }
                }
            }
        }
    }

    fn named_references(&self, margin: usize) -> String {
        let named = self.panel.references.iter().map(|reference| match reference {
            Reference::X(_, name) => (self.form.sign('┊', ':'), name),
            Reference::Y(_, name) => (self.form.sign('╌', '-'), name),
        });
        let named = named.filter(|(_, name)| !name.is_empty());
        named.map(|(sign, name)| self.form.lines(&format!("{sign} {name}"), margin)).collect()
    }

    /// Bands, and bars: each column has those of one x, the highest of those that it stands for.
    fn areas(&self, grid: &mut Grid, y: &Places) {
        for series in &self.panel.series {
            let Marks::Band(spans) = &series.marks else { continue };
            let glyph = self.glyphs.glyph(series, self.form);
            let place = |span: &Span| {
                let (a, b) = span.range?;
                Some((self.x.place(span.x)?, y.place(a.min(b))?, y.place(a.max(b))?))
            };
            let mut before = None;
            for span in spans {
                let at = place(span);
                if let Some(at) = at {
                    let from = before.unwrap_or(at);
                    let parts = grid.columns * 2;
                    for part in 0..=parts {
                        let share = part as f64 / parts as f64;
                        let between = |a: f64, b: f64| a + (b - a) * share;
                        let x = between(from.0, at.0);
                        let (column, low) = grid.cell(x, between(from.1, at.1));
                        let (_, high) = grid.cell(x, between(from.2, at.2));
                        (low..=high).for_each(|row| grid.put((column, row), glyph, 0, false));
                    }
                }
                before = at;
            }
        }
        let stacks: Vec<(&Series, Vec<Bar>)> =
            self.panel.series.iter().zip(scale::stacks(self.panel)).filter_map(|(a, b)| Some((a, b?))).collect();
        let columns = self.columns_of_bars(grid, &stacks);
        for (column, x) in columns.iter().enumerate() {
            let Some(x) = x else { continue };
            let bars = stacks.iter().filter_map(|(series, bars)| {
                let bar = bars.iter().find(|bar| bar.x == *x)?;
                let place = |value| y.place(value).unwrap_or_else(|| y.zero()) * grid.rows as f64;
                Some((self.glyphs.glyph(series, self.form), place(bar.from), place(bar.to)))
            });
            column_of_bars(grid, column, &bars.collect::<Vec<_>>(), self.form);
        }
    }

    fn columns_of_bars(&self, grid: &Grid, stacks: &[(&Series, Vec<Bar>)]) -> Vec<Option<f64>> {
        let mut columns: Vec<Option<(f64, f64)>> = vec![None; grid.columns];
        let length = grid.columns as f64;
        // Bars of a few columns touch, for a blank column would be as wide as they are.
        let wide = self.bar * length;
        let wide = if wide < 4.0 { wide / 0.72 } else { wide };
        for bar in stacks.iter().flat_map(|(_, bars)| bars) {
            let Some(x) = self.x.place(bar.x) else { continue };
            let first = (x * length - wide / 2.0 + 1e-6).round().max(0.0) as usize;
            let first = first.min(grid.columns - 1);
            let end = ((x * length + wide / 2.0 + 1e-6).round() as usize).clamp(first + 1, grid.columns.max(first + 1));
            for column in &mut columns[first..end.min(grid.columns)] {
                let size = bar.to.abs();
                if column.is_none_or(|(other, largest)| other == bar.x || size > largest) {
                    let largest =
                        column.filter(|(other, _)| *other == bar.x).map_or(size, |(_, largest)| size.max(largest));
                    *column = Some((bar.x, largest));
                }
            }
        }
        columns.into_iter().map(|column| column.map(|(x, _)| x)).collect()
    }

    fn series(&self, grid: &mut Grid, y: &Places, number: usize, series: &Series) {
        let glyph = self.glyphs.glyph(series, self.form);
        let is_shared = series.weight == Weight::Normal;
        let place = |point: &Point| Some((self.x.place(point.x)?, y.place(point.y?)?));
        let mut put = |(x, y): (f64, f64)| {
            let cell = grid.cell(x, y);
            grid.put(cell, glyph, number, is_shared);
        };
        let columns = self.form.width as f64;
        // What lies between two places, at least one in each column.
        let mut joined = |from: (f64, f64), to: (f64, f64)| {
            let parts = ((to.0 - from.0).abs() * columns * 2.0).ceil().clamp(1.0, 4.0 * columns);
            for part in 0..=parts as usize {
                let share = part as f64 / parts;
                put((from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share));
            }
        };
        match &series.marks {
            Marks::Line(points) => {
                let mut before = None;
                for point in points {
                    let at = place(point);
                    if let Some(at) = at {
                        joined(before.unwrap_or(at), at);
                    }
                    before = at;
                }
            }
            Marks::Step(points) => {
                let mut holds: Option<(f64, f64)> = None;
                for point in points {
                    let Some(x) = self.x.place(point.x) else { continue };
                    if let Some((from, y)) = holds {
                        joined((from, y), (x, y));
                    }
                    holds = point.y.and_then(|value| y.place(value)).map(|y| (x, y));
                    if let Some(at) = holds {
                        joined(at, at);
                    }
                }
            }
            Marks::Points(points) => points.iter().filter_map(place).for_each(|at| joined(at, at)),
            Marks::Interval(estimates) => {
                for one in estimates {
                    let Some(x) = self.x.place(one.x) else { continue };
                    if let (Some(low), Some(high)) = (y.place(one.low), y.place(one.high)) {
                        for part in 0..=30 {
                            let at = (x, low + (high - low) * f64::from(part) / 30.0);
                            let cell = grid.cell(at.0, at.1);
                            grid.put(cell, self.form.sign('│', '|'), number, false);
                        }
                    }
                    if let Some(middle) = one.middle.and_then(|middle| y.place(middle)) {
                        let cell = grid.cell(x, middle);
                        grid.put(cell, glyph, number, is_shared);
                    }
                }
            }
            Marks::Ideal { slope } => {
                for column in 0..grid.columns {
                    let x = (column as f64 + 0.5) / grid.columns as f64;
                    let value = self.x.value(x) * slope;
                    if let Some(at) = y.place(value).filter(|_| y.holds(value)) {
                        let cell = grid.cell(x, at);
                        grid.put(cell, glyph, number, false);
                    }
                }
            }
            Marks::Band(_) | Marks::Bar(_) | Marks::Flow(_) | Marks::Flame(_) => {}
        }
    }
}

/// What is drawn when: results over repeats over what would be ideal.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Ideal,
    Thin,
    Normal,
}

fn pass_of(series: &Series) -> Option<Pass> {
    match (&series.marks, series.weight) {
        (Marks::Bar(_) | Marks::Band(_) | Marks::Flow(_) | Marks::Flame(_), _) => None,
        (Marks::Ideal { .. }, _) => Some(Pass::Ideal),
        (_, Weight::Thin) => Some(Pass::Thin),
        (_, Weight::Normal) => Some(Pass::Normal),
    }
}

/// The labels of the rows' upper edges; the first is the axis' own.
fn labelled(ticks: &[Tick], rows: usize, form: Form) -> Vec<String> {
    let mut labels = vec![String::new(); rows + 1];
    for tick in ticks {
        let row = (tick.at * rows as f64).round() as usize;
        if labels[row].is_empty() {
            labels[row] = form.shortened(&tick.label, 14);
        }
    }
    labels
}

/// The least share of a stack that has a cell, however low it is.
const LEAST_SHARE: f64 = 0.005;

/// A column of a stack; `bars`: characters, and from where to where in rows.
fn column_of_bars(grid: &mut Grid, column: usize, bars: &[(char, f64, f64)], form: Form) {
    let mut cells: Vec<Option<char>> = vec![None; grid.rows];
    for (row, cell) in cells.iter_mut().enumerate() {
        let (bottom, middle) = (row as f64, row as f64 + 0.5);
        // A full block ends at a quarter of a row, for there is half a block; others at half a row.
        let block = bars.iter().find(|(glyph, from, to)| *glyph == '█' && *from <= bottom && *to > bottom);
        let filled = block.map_or(0.0, |(_, _, to)| to - bottom);
        let at_middle = bars.iter().find(|(_, from, to)| from.min(*to) <= middle && middle < from.max(*to));
        *cell = match at_middle {
            _ if filled >= 0.75 => Some('█'),
            _ if filled >= 0.25 => Some('▄'),
            at_middle => at_middle.filter(|(glyph, ..)| *glyph != '█').map(|(glyph, ..)| *glyph),
        };
    }
    if let [(_, _, end), second @ (_, from, _), ..] = bars
        && from == end
    {
        not_rounded_away(&mut cells, *second);
    }
    let mut is_empty = true;
    for (row, glyph) in cells.into_iter().enumerate().filter_map(|(row, cell)| Some((row, cell?))) {
        grid.put((column, row), glyph, 0, false);
        is_empty = false;
    }
    // What is more than nothing does not look like nothing.
    if let Some((_, from, to)) = bars.iter().find(|(_, from, to)| from != to).filter(|_| is_empty) {
        let (_, row) = grid.cell(0.0, from.min(*to) / grid.rows as f64);
        grid.put((column, row), form.sign('▁', '_'), 0, false);
    }
}

/// Gives the second bar of a stack a cell where rounding has left it none.
fn not_rounded_away(cells: &mut [Option<char>], (glyph, from, to): (char, f64, f64)) {
    if to <= from || to - from < LEAST_SHARE * to || cells.contains(&Some(glyph)) {
        return;
    }
    let row = (((from + to) / 2.0) as usize).min(cells.len() - 1);
    // The first bar keeps a cell.
    let is_last = row == 0 && cells.len() > 1 && cells[0].is_some();
    cells[row + usize::from(is_last)] = Some(glyph);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of eight rows from the bottom up, of what arrived, what was lost and what was not sent, in rows.
    #[track_caller]
    fn check(arrived: f64, lost: f64, not_sent: f64, want: &str) {
        let mut grid = Grid::new(1, 8);
        let (sent, offered) = (arrived + lost, arrived + lost + not_sent);
        let bars = [('█', 0.0, arrived), ('░', arrived, sent), ('·', sent, offered)];
        column_of_bars(&mut grid, 0, &bars, Form { width: 80, ascii: false });
        let column: String = (0..8).map(|row| grid.row(row).chars().next().unwrap_or(' ')).collect();
        assert_eq!(column.trim_end(), want, "{arrived} {lost} {not_sent}");
    }

    #[test]
    fn what_is_lost_is_not_rounded_away() {
        check(4.0, 2.0, 1.0, "████░░·");
        check(4.0, 0.0, 0.0, "████");
        // Less than half a per cent.
        check(4.0, 0.01, 0.0, "████");
        check(4.0, 0.03, 0.0, "████░");
        check(4.5, 0.94, 0.56, "████░·");
        check(4.7, 0.7, 0.0, "████▄░");
        check(4.26, 1.2, 0.0, "████░");
        check(4.3, 1.6, 0.0, "████▄░");
        check(4.6, 1.85, 0.0, "████▄░");
        // The first bar keeps a cell.
        check(0.5, 0.1, 0.0, "▄░");
        check(1.0, 0.2, 0.0, "█░");
        check(0.0, 3.0, 0.0, "░░░");
        check(0.0, 0.2, 0.0, "░");
    }
}
