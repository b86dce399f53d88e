//! A chart as data, and its renderers: inline SVG, a terminal, a text table.
//! Knows no record, machine or file; callers make a [`Chart`] of them.
//!
//! ```
//! use linerate_chart::{Axis, Cell, Chart, Marks, Panel, Series, Table, svg, terminal};
//!
//! let table = Table::new(["offered, Mbit/s", "received, Mbit/s"])
//!     .row([Cell::number("100", 100.0), Cell::number("100", 100.0)])
//!     .row([Cell::number("900", 900.0), Cell::number("512", 512.0)]);
//! let chart = Chart::new("Throughput", "Above 500 Mbit/s the target loses what is offered.", table)
//!     .x(Axis::linear("offered load", "Mbit/s").of("UDP payload"))
//!     .panel(
//!         Panel::new(Axis::linear("throughput", "Mbit/s").of("UDP payload"))
//!             .series(Series::new("offered", Marks::Ideal { slope: 1.0 }, 6))
//!             .series(Series::new("received", Marks::line([(100.0, 100.0), (900.0, 512.0)]), 0)),
//!     );
//! assert!(svg::drawn(&chart, "throughput").starts_with("<svg "));
//! assert!(terminal::drawn(&chart, 80, true).is_ascii());
//! ```
#![forbid(unsafe_code)]

mod axis;
mod chart;
mod flame;
mod flow;
mod number;
mod palette;
mod scale;
pub mod svg;
mod table;
pub mod terminal;
mod text;
mod thin;
mod ticks;

pub use axis::{Axis, Range, Scale};
pub use chart::{Chart, Dash, Estimate, Marks, Panel, Point, Reference, Series, Span, Symbol, Weight};
pub use flame::{Flame, Frame};
pub use flow::{Branch, Flow, Stage};
pub use table::{Cell, TEXT_COLUMNS, Table};
