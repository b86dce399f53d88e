//! `cargo xtask picture`: what a program printed, as an SVG picture of a terminal, for README.md.
//! Knows lines of text, and no escape sequences.

use std::ffi::OsString;
use std::fmt::Write;
use std::io::Read;

use crate::program::no_more;

/// Columns of the picture; longer lines go on in the next.
const COLUMNS: usize = 124;
const WIDTH: f64 = 7.2;
const HEIGHT: usize = 16;
const EDGE: usize = 14;

/// Reads standard input and writes the picture to standard output.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input: {error}"))?;
    print!("{}", svg(&text));
    Ok(())
}

fn svg(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let letters: Vec<char> = line.chars().collect();
        let pieces = letters.chunks(COLUMNS).map(|piece| piece.iter().collect());
        lines.extend(pieces);
        if letters.is_empty() {
            lines.push(String::new());
        }
    }
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, height) = ((columns as f64 * WIDTH) as usize + 2 * EDGE, lines.len() * HEIGHT + 2 * EDGE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n\
         <g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"12\" fill=\"#d8dee9\">\n"
    );
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let y = EDGE + HEIGHT * number + 12;
        let length = line.chars().count() as f64 * WIDTH;
        let line = line.replace('&', "&amp;").replace('<', "&lt;");
        // The length is given, so that columns stand in columns whatever font there is.
        let _ = writeln!(
            svg,
            "<text x=\"{EDGE}\" y=\"{y}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
             xml:space=\"preserve\">{line}</text>"
        );
    }
    svg + "</g>\n</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_text_and_a_long_one_is_several() {
        let picture = svg(&format!("a <b> & c\n\n{}\n", "x".repeat(COLUMNS + 1)));
        assert!(picture.contains("a &lt;b> &amp; c</text>"), "{picture}");
        assert_eq!(picture.matches("<text").count(), 3, "the empty line is none, the long one two");
    }
}
