//! A chart for a terminal: letters in rows and columns, of one colour, in block characters or in ASCII.
//!
//! ```text
//!   title, sentence
//!   ● baseline  ■ candidate
//!   y, unit of layer
//!   10 ┤     ●●●■■■
//!    0 └●●●●●──5──────10─ x, unit of layer
//! ```

mod flame;
mod flow;
mod grid;
mod plot;

use crate::chart::{Chart, Dash, Marks, Series, Symbol, Weight};
use crate::scale;
use crate::text;

/// The widest chart, and the narrowest: what is narrower wraps in the terminal.
const WIDEST: usize = 100;
const NARROWEST: usize = 30;

/// How a chart is written.
#[derive(Debug, Clone, Copy)]
struct Form {
    width: usize,
    ascii: bool,
}

impl Form {
    /// One of two characters.
    fn sign(self, block: char, ascii: char) -> char {
        if self.ascii { ascii } else { block }
    }

    /// A text in lines, each after this margin.
    fn lines(self, words: &str, margin: usize) -> String {
        let most = self.width.saturating_sub(margin).max(10);
        let lines = text::wrapped(words, most as f64, |text| text::columns(text) as f64);
        let lines = lines.into_iter().filter(|line| !line.is_empty());
        lines.map(|line| format!("{}{line}\n", " ".repeat(margin))).collect()
    }

    /// A text with an end.
    fn shortened(self, words: &str, most: usize) -> String {
        let short = text::shortened(words, most as f64, |text| text::columns(text) as f64);
        // An ellipsis is three dots there; one says it too.
        if self.ascii { short.replace('…', ".") } else { short }
    }
}

/// The chart for a terminal of this width, in lines. Without `ascii` it has block characters.
pub fn drawn(chart: &Chart, width: usize, ascii: bool) -> String {
    let form = Form { width: width.clamp(NARROWEST, WIDEST), ascii };
    let in_form = |words: &str| {
        let words = text::plain(words);
        if ascii { text::ascii(&words) } else { words }
    };
    let chart = &chart.with_texts(in_form);
    let mut drawn = form.lines(&chart.title, 0) + &form.lines(&chart.sentence, 0);
    let glyphs = Glyphs::of(chart, form);
    let (x, bar) = scale::x(chart);
    let plots = chart.panels.iter().filter(|panel| panel.has_plot()).count();
    drawn += &glyphs.legend(form);
    let mut shown = 0;
    for panel in &chart.panels {
        if panel.has_plot() {
            shown += 1;
            let plot = plot::Plot { chart, panel, x: &x, bar, glyphs: &glyphs, form, count: plots };
            drawn += &plot.drawn(shown == plots);
        }
        for series in &panel.series {
            let below = match &series.marks {
                Marks::Flow(flow) => flow::drawn(flow, form),
                Marks::Flame(flame) => flame::drawn(flame, form),
                _ => continue,
            };
            drawn += &(form.lines(&series.name, 0) + &below);
        }
    }
    drawn
}

/// Which character each name of the legend has.
struct Glyphs(Vec<Glyph>);

struct Glyph {
    series: String,
    /// In the legend.
    name: String,
    /// The legend shows that of a repeat too.
    has_each: bool,
    sign: char,
}

impl Glyphs {
    fn of(chart: &Chart, form: Form) -> Glyphs {
        let mut glyphs: Vec<Glyph> = Vec::new();
        let fills: &[char] = if form.ascii { &FILLS_ASCII } else { &FILLS };
        let signs: &[char] = if form.ascii { &SIGNS_ASCII } else { &SIGNS };
        for entry in chart.legend() {
            let series = entry.series;
            let is_area = matches!(series.marks, Marks::Bar(_) | Marks::Band(_));
            let all = if is_area { fills } else { signs };
            let wanted = match (&series.marks, series.symbol) {
                (Marks::Bar(_) | Marks::Band(_), _) => fills[series.color % fills.len()],
                (Marks::Ideal { .. }, _) => form.sign('·', '.'),
                (Marks::Step(_), _) if form.ascii => signs[series.color % signs.len()],
                (Marks::Step(_), _) => {
                    [signs[series.color % signs.len()], '─'][usize::from(series.dash == Dash::Solid)]
                }
                (_, symbol) => signs[symbol as usize % signs.len()],
            };
            let is_free = |sign: &char| glyphs.iter().all(|other| other.sign != *sign);
            let sign = Some(wanted).filter(|sign| is_free(sign));
            let sign = sign.or_else(|| all.iter().copied().find(is_free)).unwrap_or(wanted);
            let has_each = entry.each.is_some_and(|each| !is_area && !matches!(each.marks, Marks::Step(_)));
            glyphs.push(Glyph { series: series.name.clone(), name: entry.name, has_each, sign });
        }
        Glyphs(glyphs)
    }

    /// The names, each in one piece.
    fn legend(&self, form: Form) -> String {
        const BETWEEN: &str = "   ";
        let mut lines: Vec<String> = Vec::new();
        for Glyph { name, has_each, sign, .. } in self.0.iter().filter(|glyph| !glyph.name.is_empty()) {
            let each = if *has_each { format!(" {}", smaller(*sign, form)) } else { String::new() };
            let entry = form.shortened(&format!("{sign}{each} {name}"), form.width);
            match lines.last_mut() {
                Some(line) if text::columns(line) + BETWEEN.len() + text::columns(&entry) <= form.width => {
                    *line += BETWEEN;
                    *line += &entry;
                }
                _ => lines.push(entry),
            }
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// A series' character, smaller for one of several repeats.
    fn glyph(&self, series: &Series, form: Form) -> char {
        let own = self.0.iter().find(|glyph| glyph.series == series.name).map_or('?', |glyph| glyph.sign);
        match series.weight {
            Weight::Thin if !matches!(series.marks, Marks::Bar(_) | Marks::Band(_)) => smaller(own, form),
            _ => own,
        }
    }
}

/// That of a repeat.
fn smaller(sign: char, form: Form) -> char {
    match sign {
        '●' => '○',
        '■' => '□',
        '▲' => '△',
        '◆' => '◇',
        _ if form.ascii => '.',
        sign => sign,
    }
}

/// Areas, in the order of the colours.
const FILLS: [char; 10] = ['█', '░', '·', '▒', '▓', '=', '+', 'x', 'o', '%'];
const FILLS_ASCII: [char; 10] = ['#', '-', '.', '=', '+', 'x', 'o', '%', '@', '&'];
/// Points, in the order of the symbols; the last is a line without one.
const SIGNS: [char; 12] = ['●', '■', '▲', '◆', 'x', '+', '─', '*', '@', '%', '&', '$'];
const SIGNS_ASCII: [char; 12] = ['o', '#', '^', '*', 'x', '+', '-', '@', '%', '&', '$', '='];

const _: () = assert!(Symbol::None as usize == 6, "the signs follow the symbols' order");
