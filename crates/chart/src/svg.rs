//! A chart as inline SVG: whole without scripts and style sheets, on its own light ground, the same bytes each time.
//!
//! ```text
//!   title                       bold
//!   sentence
//!   ── a  -- b                  legend
//!   y, unit of layer            each panel's
//!   10 ┤        ╭───
//!    0 ┤───────╯
//!      0        5        10
//!           x, unit of layer
//! ```

mod flame;
mod flow;
mod legend;
mod marks;
mod page;
mod plot;

use crate::chart::{Chart, Marks, Panel};
use crate::number::place;
use crate::palette::GROUND;
use crate::text;
use page::{EDGE, Page, SIZE, WIDTH, escaped, width};

/// The chart as an `<svg>` element. The page that it stands in must have no other with this id, whose characters are
/// best letters, digits and hyphens.
pub fn drawn(chart: &Chart, id: &str) -> String {
    let chart = &chart.plain();
    let mut page = Page { id: page::id(id), ..Page::default() };
    let mut y = EDGE;
    for line in lines(&chart.title, 15.0) {
        y += 19.0;
        page.bold_text(EDGE, y - 4.0, 15.0, &line);
    }
    for line in lines(&chart.sentence, SIZE) {
        y += 16.0;
        page.text(EDGE, y - 4.0, page::Anchor::Start, SIZE, &line);
    }
    y = legend::drawn(&mut page, chart, y + 6.0);
    let plots: Vec<&Panel> = chart.panels.iter().filter(|panel| panel.has_plot()).collect();
    if !plots.is_empty() {
        y = plot::drawn(&mut page, chart, &plots, y);
    }
    for panel in &chart.panels {
        for series in &panel.series {
            match &series.marks {
                Marks::Flow(flow) => y = flow::drawn(&mut page, &series.name, flow, y),
                Marks::Flame(flame) => y = flame::drawn(&mut page, &series.name, flame, y),
                _ => {}
            }
        }
    }
    finished(&page, chart, y + EDGE)
}

fn lines(words: &str, size: f64) -> Vec<String> {
    let (most, width) = (WIDTH - 2.0 * EDGE, width(size));
    let lines = text::wrapped(words, most, width);
    text::at_most(lines, 4, most, width).into_iter().filter(|line| !line.is_empty()).collect()
}

fn finished(page: &Page, chart: &Chart, height: f64) -> String {
    let (id, height, total) = (&page.id, place(height.ceil()), place(WIDTH));
    let mut hatchings = String::new();
    for number in &page.hatchings {
        let (color, path) = (crate::palette::color(*number), crate::palette::hatching(*number).unwrap_or_default());
        let (width, cap) = if path.contains("h.01") { ("3", " stroke-linecap=\"round\"") } else { ("1.5", "") };
        hatchings += &format!(
            "<pattern id=\"{id}-hatch-{number}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
             <rect width=\"8\" height=\"8\" fill=\"{GROUND}\"/>\
             <path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"{cap}/></pattern>\n"
        );
    }
    let defs = if hatchings.is_empty() { String::new() } else { format!("<defs>\n{hatchings}</defs>\n") };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total} {height}\" width=\"{total}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" \
         font-family=\"DejaVu Sans, Verdana, Arial, Helvetica, sans-serif\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{defs}\
         <rect width=\"{total}\" height=\"{height}\" fill=\"{GROUND}\"/>\n{}</svg>\n",
        escaped(&chart.title),
        escaped(&chart.sentence),
        page.svg
    )
}
