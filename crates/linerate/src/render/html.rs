//! Answers of headings, tables and sentences as one HTML document that needs nothing else: no script, nothing fetched.
//! What it says does not rest on its style sheet: Jenkins serves reports without (`default-src 'none'`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use linerate_chart::Chart;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::forms::{Piece, chart_numbers};
use super::number::ranges;
#[cfg(feature = "web")]
use super::table_model::Sorted;
use super::table_model::{Cell, Heading, Table, Trace};
use super::{cell, sentence};

/// Of a document: dark on light, and the same on paper.
const STYLE: &str = "\
body{margin:0;background:#fff;color:#1a1a1a;font:16px/1.5 system-ui,sans-serif}\
main{max-width:72rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}\
h1{font-size:1.6rem}h2{font-size:1.3rem;margin-top:2.5rem;border-bottom:1px solid #767676}h3{font-size:1.05rem}\
.wide{overflow-x:auto;max-width:100%}\
table{border-collapse:collapse;margin:.5rem 0;overflow-wrap:normal}\
th,td{padding:.2rem .6rem;border-bottom:1px solid #bbb;vertical-align:top}th:not([align]){text-align:left}\
th small{display:block;font-weight:normal}\
pre{overflow-x:auto;font-size:.85rem;line-height:1.35}\
summary{cursor:pointer;font-weight:bold;padding:.3rem 0}\
figure{margin:1rem 0}svg{max-width:100%;height:auto}\
@media screen{td.long:not(:first-child){min-width:12rem}}@media screen and (min-width:50rem){td:not(.long){white-space:nowrap}}\
@media screen and (max-width:50rem){.picture svg{max-width:none;width:45rem}}\
a{color:#0b4f8a}:focus-visible{outline:3px solid #0b4f8a}\
@page{margin:1cm}@page many{size:landscape;margin:1cm}\
@media print{body{font-size:10pt}main{max-width:none;padding:0}.wide{overflow:visible}.many{page:many}\
table{font-size:8pt}.many table{font-size:7pt}.most table{font-size:6pt}th,td{padding:.15em .3em}td{max-width:28em;overflow-wrap:break-word}\
pre{white-space:pre-wrap;overflow:visible;font-size:8pt}h2,h3,summary{break-after:avoid}tr,svg{break-inside:avoid}\
details::details-content{display:block;content-visibility:visible}summary{list-style:none}figure details:not([open]){display:none}}";

/// The most columns on paper in portrait, and in landscape; more need small print.
const UPRIGHT: usize = 10;
const ACROSS: usize = 16;

/// A cell of more characters has room for a few words in a line, however many columns there are.
const LONG_CELL: usize = 30;

/// What stands around the pieces.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// What programs read of it: a name, and a text.
    pub(super) meta: (&'a str, &'a str),
    /// The numbers by which the document calls records.
    pub(super) numbers: &'a BTreeMap<String, usize>,
    /// What is attached: the link's words, the file's name, and the octets, already in a data URL.
    pub(super) attached: Option<[&'a str; 3]>,
}

/// What lets a document have its own style sheet and its pictures, and nothing else, and run nothing (CSP 3, 2.3.1).
#[cfg(feature = "web")]
pub(crate) fn policy() -> String {
    use base64::Engine;
    use sha2::{Digest, Sha256};
    let style = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
    format!("sandbox; default-src 'none'; style-src 'sha256-{style}'; img-src data:")
}

pub(super) fn document(page: &Page<'_>, pieces: &[Piece]) -> String {
    let title = sentence(page.title);
    let (name, content) = page.meta;
    let called = Called {
        numbers: Some(page.numbers),
        sets: RefCell::default(),
        forms: None,
        #[cfg(feature = "web")]
        is_linked: false,
    };
    let inner = body(pieces, &called, &Count::default());
    let sets = called.sets.into_inner();
    let head = html! {
        meta name=(name) content=(content);
        style { (PreEscaped(STYLE)) }
    };
    let body = html! {
        main {
            h1 { (title) }
            (inner)
            @if !sets.is_empty() {
                details {
                    summary { "Sets of records" }
                    @for (set, number) in sets.iter().zip(1..) {
                        p { "Set " (number) ": " (set) }
                    }
                }
            }
            @if let Some([words, file, url]) = page.attached {
                p { a id="records-attached" download=(file) href=(url) { (words) } }
            }
        }
    };
    let mut text = frame(&title, &head, &body);
    text.push('\n');
    text
}

/// The frame of every page: its title, what stands in its head beside that, and its body.
pub(crate) fn frame(title: &str, head: &Markup, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                (head)
            }
            body { (body) }
        }
    };
    markup.into_string()
}

/// The pieces as a part of a page, whose tables and pictures can be had by themselves at addresses that begin with `forms`.
#[cfg(feature = "web")]
pub(super) fn part(pieces: &[Piece], forms: &str) -> Markup {
    let called = Called { numbers: None, sets: RefCell::default(), forms: Some(forms), is_linked: true };
    body(pieces, &called, &Count::default())
}

/// The same of what moves, and cannot be had by itself.
#[cfg(feature = "web")]
pub(super) fn moving(pieces: &[Piece]) -> Markup {
    let called = Called { numbers: None, sets: RefCell::default(), forms: None, is_linked: true };
    body(pieces, &called, &Count::default())
}

/// `drawn` counts the pictures: each has an identifier.
fn body(pieces: &[Piece], called: &Called<'_>, drawn: &Count) -> Markup {
    html! {
        @for piece in pieces {
            @match piece {
                Piece::Section(title) => h2 { (sentence(title)) },
                Piece::Heading(title) => h3 { (sentence(title)) },
                Piece::Table(table) => (self::table(table, called, drawn, None)),
                Piece::Lines(lines) => (self::lines(lines)),
                Piece::Chart(chart) => (self::chart(chart, called, drawn)),
                Piece::Text(text) => pre tabindex="0" { (printable(text)) },
                Piece::Folded(title, pieces) => details {
                    summary { (sentence(title)) }
                    (body(pieces, called, drawn))
                },
            }
            // One piece a line, so that two reports can be held against each other.
            "\n"
        }
    }
}

/// How many pictures and tables there are so far.
#[derive(Default)]
struct Count {
    figures: std::cell::Cell<usize>,
    tables: std::cell::Cell<usize>,
}

fn next(count: &std::cell::Cell<usize>) -> usize {
    count.set(count.get() + 1);
    count.get()
}

fn lines(lines: &[String]) -> Markup {
    html! {
        @match lines {
            [] => {}
            [one] => p { (with_code(&sentence(one))) },
            several => ul { @for line in several { li { (with_code(&sentence(line))) } } },
        }
    }
}

/// A text in which what stands between backticks is code, as in Markdown; one backtick without a partner is itself.
pub(crate) fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Text of several lines, each without what a reader would obey.
fn printable(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("{}\n", sentence(line))).collect()
}

/// `of`: the picture whose numbers it has.
fn table(table: &Table, called: &Called<'_>, drawn: &Count, of: Option<usize>) -> Markup {
    let number = of.map_or_else(|| format!("table={}", next(&drawn.tables)), |figure| format!("figure={figure}"));
    if table.rows.is_empty() {
        return html! {};
    }
    // On paper it has a sheet across.
    let class = match table.headings.len() {
        columns if columns <= UPRIGHT => "wide",
        columns if columns <= ACROSS => "wide many",
        _ => "wide many most",
    };
    // Presentation attributes, for where the style sheet is taken away.
    let aligned: Vec<_> = (0..table.headings.len()).map(|at| table.is_number(at).then_some("right")).collect();
    let align = |at: usize| aligned.get(at).copied().flatten();
    let names = table.headings.iter().map(|heading| cell(&heading.name)).filter(|name| !name.trim().is_empty());
    let label = names.collect::<Vec<_>>().join(", ");
    html! {
        div class=(class) role="region" tabindex="0" aria-label=(label) {
            table {
                thead {
                    tr {
                        @for (at, heading) in table.headings.iter().enumerate() {
                            (self::heading(heading, align(at)))
                        }
                    }
                }
                tbody {
                    @for (at, row) in table.rows.iter().enumerate() {
                        @for (_, title) in table.titles.iter().filter(|(before, _)| *before == at) {
                            tr { th colspan=(table.headings.len()) scope="rowgroup" { (sentence(title)) } }
                        }
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @let is_long = align(at).is_none() && cell.shown().chars().count() > LONG_CELL;
                                td class=[is_long.then_some("long")] align=[align(at)] { (figure(cell, called)) }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(forms) = called.forms {
            (downloads(forms, &number, &["csv", "json", "markdown"], &label))
        }
    }
}

/// Links to a table or a picture by itself.
fn downloads(forms: &str, number: &str, kinds: &[&str], label: &str) -> Markup {
    html! {
        p class="forms" {
            @for (at, kind) in kinds.iter().enumerate() {
                @if at > 0 { " · " }
                @let name = match *kind { "csv" => "CSV", "json" => "JSON", "svg" => "SVG", _ => "Markdown" };
                a href=(format!("{forms}{number}&form={kind}")) aria-label=(format!("{name} of the table or figure: {label}")) { (name) }
            }
        }
    }
}

#[cfg(feature = "web")]
fn heading(heading: &Heading, align: Option<&str>) -> Markup {
    let name = heading.in_one_line();
    let name = sentence(&name);
    match &heading.sorted {
        Some(Sorted { link, now }) => html! {
            th scope="col" align=[align] aria-sort=[now] { a href=(link) { (name) } }
        },
        None => html! { th scope="col" align=[align] { (name) } },
    }
}

#[cfg(not(feature = "web"))]
fn heading(heading: &Heading, align: Option<&str>) -> Markup {
    html! { th scope="col" align=[align] { (sentence(&heading.in_one_line())) } }
}

/// What a cell says; of a figure also its value in full, and the records that it comes from.
fn figure(cell: &Cell, called: &Called<'_>) -> Markup {
    let shown = cell.shown();
    let shown = sentence(shown.trim());
    let told = match &cell.trace {
        None => html! { (shown) },
        // Of a picture whose figures no list of records stands behind.
        Some(trace) if trace.records.is_empty() => html! { data value=(trace.value) { (shown) } },
        Some(trace) => {
            let (figure, records) = (super::cell(&trace.figure), called.records(trace));
            let said = format!("{figure} of {records}");
            html! { data value=(trace.value) data-figure=(figure) data-records=(records) title=(said) { (shown) } }
        }
    };
    #[cfg(feature = "web")]
    if let Some(link) = cell.link.as_ref().filter(|_| called.is_linked) {
        return html! { a href=(link) { (told) } };
    }
    told
}

/// The picture, which names and describes itself, and its numbers, for readers who cannot see it or want them.
fn chart(chart: &Chart, called: &Called<'_>, drawn: &Count) -> Markup {
    let number = next(&drawn.figures);
    html! {
        figure {
            // A narrow screen scrolls it: as small as the screen nobody could read it.
            div class="wide picture" role="region" tabindex="0" aria-label=(sentence(&chart.title)) {
                (PreEscaped(linerate_chart::svg::drawn(chart, &format!("figure-{number}"))))
            }
            @if let Some(forms) = called.forms {
                (downloads(forms, &format!("figure={number}"), &["svg"], &chart.title))
            }
            details {
                summary { "The numbers: " (sentence(&chart.title)) }
                (table(&chart_numbers(chart), called, drawn, Some(number)))
            }
        }
    }
}

/// What records are called.
struct Called<'a> {
    /// Their numbers in a document; elsewhere their identifiers.
    numbers: Option<&'a BTreeMap<String, usize>>,
    /// Where their tables and pictures are by themselves.
    forms: Option<&'a str>,
    /// Cells may lead to other pages.
    #[cfg(feature = "web")]
    is_linked: bool,
    /// Lists that are too long to stand at each figure, in the order in which they came.
    sets: RefCell<Vec<String>>,
}

/// A list of records with so many parts stands once, as a set.
const LONG: usize = 32;

impl Called<'_> {
    /// Which records, by their numbers: `records 1-4, 7`, or `500 records, set 3`.
    fn records(&self, trace: &Trace) -> String {
        let Some(numbers) = self.numbers else {
            return match &trace.records[..] {
                [one] => format!("record {one}"),
                several => format!("{} records", several.len()),
            };
        };
        let mut found: Vec<usize> = trace.records.iter().filter_map(|id| numbers.get(id).copied()).collect();
        found.sort_unstable();
        let word = if found.len() == 1 { "record" } else { "records" };
        let parts = ranges(&found);
        if parts.len() < LONG {
            return format!("{word} {}", parts.join(", "));
        }
        let set = parts.join(", ");
        let mut sets = self.sets.borrow_mut();
        let at = sets.iter().position(|other| *other == set).unwrap_or_else(|| {
            sets.push(set);
            sets.len() - 1
        });
        format!("{} records, set {}", found.len(), at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::with_code;

    #[test]
    fn what_stands_between_backticks_is_code() {
        for (text, shown) in [
            ("swept `iperf -u -b` by hand", "swept <code>iperf -u -b</code> by hand"),
            ("`<b>` and `two`", "<code>&lt;b&gt;</code> and <code>two</code>"),
            ("one ` alone", "one ` alone"),
            ("none", "none"),
        ] {
            assert_eq!(with_code(text).into_string(), shown);
        }
    }
}
