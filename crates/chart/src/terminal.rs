//! A chart for a terminal.

use crate::chart::Chart;

/// The chart for a terminal of this width.
pub fn drawn(chart: &Chart, width: usize, ascii: bool) -> String {
    let _ = (width, ascii);
    chart.title.clone()
}
