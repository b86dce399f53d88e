//! SVG as it is written: elements with presentation attributes and nothing else.
//! No `style`, `class` or script, because some pages forbid them and the picture must still be right.

use std::fmt::Write;

use crate::number::place;
use crate::palette::{INK, SOFT};
use crate::text;

/// Sizes of text.
pub(super) const SIZE: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;
/// The picture's width, and what stays free at its edges: a column of a page, and of a sheet of A4.
pub(super) const WIDTH: f64 = 720.0;
pub(super) const EDGE: f64 = 12.0;

/// Where a text is anchored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What has been drawn.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub svg: String,
    /// What stands before the ids of this picture.
    pub id: String,
    /// The hatchings in use, by their numbers.
    pub hatchings: std::collections::BTreeSet<usize>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stroke<'a> {
    pub color: &'a str,
    pub width: f64,
    pub dashes: Option<&'a str>,
}

impl<'a> Stroke<'a> {
    pub(super) fn new(color: &'a str, width: f64) -> Stroke<'a> {
        Stroke { color, width, dashes: None }
    }

    fn attributes(&self) -> String {
        let dashes = self.dashes.map_or_else(String::new, |dashes| format!(" stroke-dasharray=\"{dashes}\""));
        format!(" stroke=\"{}\" stroke-width=\"{}\"{dashes}", self.color, place(self.width))
    }
}

impl Page {
    /// A line of text.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, words: &str) {
        self.written(x, y, anchor, size, INK, "", words);
    }

    /// A line of text of less weight.
    pub(super) fn soft_text(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, words: &str) {
        self.written(x, y, anchor, size, SOFT, "", words);
    }

    /// A bold line of text.
    pub(super) fn bold_text(&mut self, x: f64, y: f64, size: f64, words: &str) {
        self.written(x, y, Anchor::Start, size, INK, " font-weight=\"bold\"", words);
    }

    /// A line of text on a mark, which still tells a pointer what it is.
    pub(super) fn label(&mut self, x: f64, y: f64, size: f64, words: &str) {
        self.written(x, y, Anchor::Start, size, INK, " pointer-events=\"none\"", words);
    }

    #[allow(clippy::too_many_arguments, reason = "the ways to it above have names")]
    fn written(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, color: &str, more: &str, words: &str) {
        if words.is_empty() {
            return;
        }
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, size, words) = (place(x), place(y), place(size), escaped(words));
        let _ = writeln!(
            self.svg,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{color}\"{anchor}{more}>{words}</text>"
        );
    }

    /// A path without a filling.
    pub(super) fn path(&mut self, path: &str, stroke: Stroke<'_>, title: &str) {
        self.shape(path, "none", Some(stroke), title);
    }

    /// A path with a filling, which is a colour or one of this picture's hatchings.
    pub(super) fn shape(&mut self, path: &str, fill: &str, stroke: Option<Stroke<'_>>, title: &str) {
        if path.is_empty() {
            return;
        }
        let stroke = stroke.map_or_else(String::new, |stroke| stroke.attributes());
        let _ = writeln!(self.svg, "<path d=\"{path}\" fill=\"{fill}\"{stroke}{}", ended("path", title));
    }

    /// A rectangle as a piece of a path.
    pub(super) fn strip(at: Rect) -> String {
        let Rect { x, y, width, height } = at;
        let (x, y, width, height) = (place(x), place(y), place(width), place(height));
        format!("M{x} {y}h{width}v{height}h-{width}z")
    }

    /// An area that lets through what is below it.
    pub(super) fn tint(&mut self, path: &str, color: &str) {
        let _ = writeln!(self.svg, "<path d=\"{path}\" fill=\"{color}\" fill-opacity=\"0.18\"/>");
    }

    /// Dots at the places of a path.
    pub(super) fn round_dots(&mut self, path: &str, color: &str, title: &str) {
        let _ = writeln!(
            self.svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"3.5\" stroke-linecap=\"round\"{}",
            ended("path", title)
        );
    }

    /// A rectangle.
    pub(super) fn rect(&mut self, at: Rect, fill: &str, stroke: Option<Stroke<'_>>, title: &str) {
        let stroke = stroke.map_or_else(String::new, |stroke| stroke.attributes());
        let Rect { x, y, width, height } = at;
        let (x, y, width, height) = (place(x), place(y), place(width), place(height));
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"{stroke}{}",
            ended("rect", title)
        );
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke<'_>) {
        let path = format!("M{} {}L{} {}", place(from.0), place(from.1), place(to.0), place(to.1));
        self.path(&path, stroke, "");
    }

    /// What a bar of this number is filled with.
    pub(super) fn filling(&mut self, number: usize) -> String {
        let number = number % crate::palette::COLORS.len();
        match crate::palette::hatching(number) {
            None => crate::palette::color(number).to_owned(),
            Some(_) => {
                self.hatchings.insert(number);
                format!("url(#{}-hatch-{number})", self.id)
            }
        }
    }
}

/// A place and a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Rect {
    pub(super) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// The end of an element, with what a pointer over it is told.
fn ended(name: &str, title: &str) -> String {
    if title.is_empty() { "/>".to_owned() } else { format!("><title>{}</title></{name}>", escaped(title)) }
}

/// Text within an element or an attribute.
pub(super) fn escaped(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// An id that is one wherever it is put.
pub(super) fn id(wanted: &str) -> String {
    let sign = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    let id: String = wanted.chars().take(64).map(sign).collect();
    if id.starts_with(|c: char| c.is_ascii_alphabetic()) { id } else { format!("chart-{id}") }
}

/// The width of a text of this size.
pub(super) fn width(size: f64) -> impl Fn(&str) -> f64 + Copy {
    move |words| text::pixels(words, size)
}
