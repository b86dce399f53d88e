//! The chart: panels over one x axis, series, marks. Data only; places and colours are the renderers'.

use crate::axis::{Axis, Scale};
use crate::flame::Flame;
use crate::flow::Flow;
use crate::number::finite;
use crate::table::Table;
use crate::text::plain;

/// A figure with its words and its numbers. All have a title, a sentence and a table, for readers who cannot see the
/// marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What is shown. Renderers print it, so the page around need not.
    pub title: String,
    /// What it comes to, in one sentence. Renderers print it too.
    pub sentence: String,
    /// All values of the panels. `svg` and `terminal` leave it to the page around; see [`Table::text`].
    pub table: Table,
    /// The axis that the panels share.
    pub x: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// Series over one y axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What stands at its left edge.
    pub y: Axis,
    /// What it shows, the first at the bottom.
    pub series: Vec<Series>,
    /// Lines across it, with their names.
    pub references: Vec<Reference>,
    /// Half as high as others.
    pub is_small: bool,
}

/// Values with a name and a look. Series of one name, such as a result and its repeats, are one in the legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// The values.
    pub marks: Marks,
    /// Which of the eight colours; it starts again after them.
    pub color: usize,
    /// What tells lines apart without colour; bars are told apart by their hatching, which follows the colour.
    pub dash: Dash,
    /// What tells points apart without colour.
    pub symbol: Symbol,
    /// How much it stands out.
    pub weight: Weight,
}

/// The values of a series. What is not finite is as absent as `None`, and both are gaps.
#[derive(Debug, Clone, PartialEq)]
pub enum Marks {
    /// Points joined in their order; an absent one parts the line.
    Line(Vec<Point>),
    /// Each value holds until the next point's x, absent or not.
    Step(Vec<Point>),
    /// Points by themselves.
    Points(Vec<Point>),
    /// From low to high.
    Band(Vec<Span>),
    /// From zero, on the bars of the series before it at the same x.
    Bar(Vec<Point>),
    /// A value with what is known of it.
    Interval(Vec<Estimate>),
    /// A path, with what leaves it. It stands below the panel's other series, and needs no axes.
    Flow(Flow),
    /// Where time went. It stands there too.
    Flame(Flame),
    /// y = slope * x: where all that is offered arrives, 1.
    Ideal {
        /// Of the line.
        slope: f64,
    },
}

/// A value at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// What; `None`: nothing was measured.
    pub y: Option<f64>,
}

/// Two values at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Where.
    pub x: f64,
    /// From and to; `None`: nothing was measured.
    pub range: Option<(f64, f64)>,
}

/// A value with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Where.
    pub x: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The value, where there is one.
    pub middle: Option<f64>,
    /// The interval's upper end.
    pub high: f64,
}

/// A line across a panel, with its name.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// At an x: a knee, an event.
    X(f64, String),
    /// At a y: a limit.
    Y(f64, String),
}

/// How a line is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Dash {
    Solid,
    Dashed,
    Dotted,
    DashDot,
}

/// What marks a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Symbol {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Plus,
    /// A line without symbols.
    None,
}

/// How much a line stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A result.
    Normal,
    /// One of several repeats: a thin line without symbols, or symbols that are not filled.
    Thin,
}

impl Chart {
    /// A chart without panels.
    pub fn new(title: impl Into<String>, sentence: impl Into<String>, table: Table) -> Chart {
        let (title, sentence) = (title.into(), sentence.into());
        Chart { title, sentence, table, x: Axis::default(), panels: Vec::new() }
    }

    /// Over this axis.
    pub fn x(self, x: Axis) -> Chart {
        Chart { x, ..self }
    }

    /// And this panel below.
    pub fn panel(mut self, panel: Panel) -> Chart {
        self.panels.push(panel);
        self
    }
}

impl Chart {
    /// Whether its form for a terminal has all that its table has: a flame graph is a tree there.
    pub fn is_tree(&self) -> bool {
        let mut all = self.panels.iter().flat_map(|panel| &panel.series).peekable();
        all.peek().is_some() && all.all(|series| matches!(series.marks, Marks::Flame(_)))
    }
}

impl Panel {
    /// A panel that shows nothing.
    pub fn new(y: Axis) -> Panel {
        Panel { y, series: Vec::new(), references: Vec::new(), is_small: false }
    }

    /// And this series above the others.
    pub fn series(mut self, series: Series) -> Panel {
        self.series.push(series);
        self
    }

    /// And this line across.
    pub fn reference(mut self, reference: Reference) -> Panel {
        self.references.push(reference);
        self
    }

    /// Half as high.
    pub fn small(self) -> Panel {
        Panel { is_small: true, ..self }
    }
}

impl Panel {
    /// Whether it has something that needs axes; one without any series has them too.
    pub(crate) fn has_plot(&self) -> bool {
        self.series.is_empty() || self.series.iter().any(|series| series.marks.need_axes())
    }
}

/// A name in the legend, and the series that it stands for.
pub(crate) struct Entry<'a> {
    pub series: &'a Series,
    /// One of the repeats, where `series` is what they come to.
    pub each: Option<&'a Series>,
    pub name: String,
}

impl Series {
    fn has_values(&self) -> bool {
        let is_there = |value: Option<f64>| value.and_then(finite).is_some();
        match &self.marks {
            Marks::Line(points) | Marks::Step(points) | Marks::Points(points) | Marks::Bar(points) => {
                points.iter().any(|point| is_there(point.y))
            }
            Marks::Band(spans) => spans.iter().any(|span| span.range.is_some()),
            Marks::Interval(estimates) => !estimates.is_empty(),
            Marks::Flow(_) | Marks::Flame(_) | Marks::Ideal { .. } => true,
        }
    }

    /// The `number`th of a chart: its colour, dash and symbol follow. Series of one name should have one number.
    pub fn new(name: impl Into<String>, marks: Marks, number: usize) -> Series {
        const DASHES: [Dash; 4] = [Dash::Solid, Dash::Dashed, Dash::Dotted, Dash::DashDot];
        const SYMBOLS: [Symbol; 6] =
            [Symbol::Circle, Symbol::Square, Symbol::Triangle, Symbol::Diamond, Symbol::Cross, Symbol::Plus];
        let (dash, symbol) = (DASHES[number % DASHES.len()], SYMBOLS[number % SYMBOLS.len()]);
        Series { name: name.into(), marks, color: number, dash, symbol, weight: Weight::Normal }
    }

    /// As one of several repeats.
    pub fn thin(self) -> Series {
        Series { weight: Weight::Thin, ..self }
    }

    /// Interrupted so.
    pub fn dash(self, dash: Dash) -> Series {
        Series { dash, ..self }
    }

    /// Marked so.
    pub fn symbol(self, symbol: Symbol) -> Series {
        Series { symbol, ..self }
    }
}

impl Marks {
    /// A line through these.
    pub fn line<T: Into<Point>>(points: impl IntoIterator<Item = T>) -> Marks {
        Marks::Line(points.into_iter().map(Into::into).collect())
    }

    /// Steps at these.
    pub fn step<T: Into<Point>>(points: impl IntoIterator<Item = T>) -> Marks {
        Marks::Step(points.into_iter().map(Into::into).collect())
    }

    /// These points.
    pub fn points<T: Into<Point>>(points: impl IntoIterator<Item = T>) -> Marks {
        Marks::Points(points.into_iter().map(Into::into).collect())
    }

    /// Whether they have places on axes.
    pub(crate) fn need_axes(&self) -> bool {
        !matches!(self, Marks::Flow(_) | Marks::Flame(_))
    }

    /// Bars of these heights.
    pub fn bar<T: Into<Point>>(points: impl IntoIterator<Item = T>) -> Marks {
        Marks::Bar(points.into_iter().map(Into::into).collect())
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Point {
        Point { x, y: Some(y) }
    }
}

impl From<(f64, Option<f64>)> for Point {
    fn from((x, y): (f64, Option<f64>)) -> Point {
        Point { x, y }
    }
}

impl Chart {
    /// Each name with the first series that has it, and with the first of its repeats. What needs no axes names its parts itself.
    pub(crate) fn legend(&self) -> Vec<Entry<'_>> {
        fn entry<'a>((name, all): (&'a str, Vec<&'a Series>)) -> Option<Entry<'a>> {
            let of = |weight: Weight| all.iter().copied().find(|series| series.weight == weight);
            let (result, repeat) = (of(Weight::Normal), of(Weight::Thin));
            let has_values = all.iter().any(|series| series.has_values());
            let series = result.or(repeat)?;
            let each = repeat.filter(|_| result.is_some() && !name.is_empty());
            let name = match (has_values, each) {
                (false, _) => format!("{name} (no values)"),
                (true, Some(_)) => format!("{name}, and each run"),
                (true, None) => name.to_owned(),
            };
            Some(Entry { series, each, name })
        }
        let mut names: Vec<(&str, Vec<&Series>)> = Vec::new();
        let all = self.panels.iter().flat_map(|panel| &panel.series);
        for series in all.filter(|series| series.marks.need_axes()) {
            match names.iter_mut().find(|(name, _)| *name == series.name) {
                Some((_, others)) => others.push(series),
                None => names.push((&series.name, vec![series])),
            }
        }
        names.into_iter().filter_map(entry).collect()
    }

    /// This with every text as one line of characters that show: what another machine named moves nothing in a picture.
    pub(crate) fn plain(&self) -> Chart {
        self.with_texts(plain)
    }

    /// This with every text turned into another.
    pub(crate) fn with_texts(&self, plain: impl Fn(&str) -> String) -> Chart {
        let mut chart = Chart { title: plain(&self.title), sentence: plain(&self.sentence), ..self.clone() };
        let axes = chart.panels.iter_mut().map(|panel| &mut panel.y).chain([&mut chart.x]);
        for axis in axes {
            let names = match &mut axis.scale {
                Scale::Categories(names) => names.as_mut_slice(),
                _ => &mut [],
            };
            let own = [&mut axis.quantity, &mut axis.unit, &mut axis.layer];
            own.into_iter().chain(names).for_each(|text| *text = plain(text));
        }
        for panel in &mut chart.panels {
            for series in &mut panel.series {
                series.name = plain(&series.name);
                match &mut series.marks {
                    Marks::Flow(flow) => flow.with_texts(&plain),
                    Marks::Flame(flame) => flame.with_texts(&plain),
                    _ => {}
                }
            }
            for reference in &mut panel.references {
                let (Reference::X(_, name) | Reference::Y(_, name)) = reference;
                *name = plain(name);
            }
        }
        chart
    }
}
