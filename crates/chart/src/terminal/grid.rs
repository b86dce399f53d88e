//! Characters in rows and columns, and who put them there.

/// Rows from the bottom up, each of the same length.
pub(super) struct Grid {
    cells: Vec<Vec<(char, usize)>>,
    pub columns: usize,
    pub rows: usize,
}

impl Grid {
    pub(super) fn new(columns: usize, rows: usize) -> Grid {
        Grid { cells: vec![vec![(' ', usize::MAX); columns]; rows], columns, rows }
    }

    /// The column and the row of a place, each from 0 to 1.
    pub(super) fn cell(&self, x: f64, y: f64) -> (usize, usize) {
        let of = |place: f64, count: usize| ((place * count as f64) as usize).min(count.saturating_sub(1));
        (of(x, self.columns), of(y, self.rows))
    }

    /// Puts a character; where it is `shared`, another series' keeps every second column, so that both show.
    pub(super) fn put(&mut self, (column, row): (usize, usize), glyph: char, series: usize, shared: bool) {
        let Some(cell) = self.cells.get_mut(row).and_then(|row| row.get_mut(column)) else { return };
        let is_contested = shared && cell.1 != usize::MAX && cell.1 != series;
        if !is_contested || column % 2 == series % 2 {
            *cell = (glyph, if shared { series } else { usize::MAX });
        }
    }

    /// A row without the blanks at its end.
    pub(super) fn row(&self, row: usize) -> String {
        let row: String = self.cells[row].iter().map(|(glyph, _)| *glyph).collect();
        row.trim_end().to_owned()
    }
}
