//! Text of strangers made harmless, how wide it is, and where its lines end.
//! Widths in pixels are estimates from above: what is given room by them fits with any common sans serif.

/// What stands for a character that does not show in its place.
const REPLACEMENT: char = '\u{fffd}';
/// Characters of a text; more of a name is no name.
const LONGEST: usize = 2000;

/// One line of characters that show in their places: no control or format character, nothing that XML forbids.
pub(crate) fn plain(text: &str) -> String {
    let mut clean = String::new();
    let mut marks = 0;
    for c in text.trim().chars().take(LONGEST) {
        // More than two marks on a letter would reach into other lines.
        marks = if is_mark(c) { marks + 1 } else { 0 };
        match c {
            // Several blanks are one, as XML has it.
            c if c.is_whitespace() && clean.ends_with(' ') => {}
            c if c.is_whitespace() => clean.push(' '),
            _ if marks > 2 => {}
            c if shows(c) => clean.push(c),
            _ => clean.push(REPLACEMENT),
        }
    }
    clean
}

/// Whether a character shows: what the standard library does not escape for people, once it is not the first.
fn shows(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

/// Whether it stands on the character before it.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && shows(c) && c.escape_debug().count() > 1
}

/// In ASCII, the signs of units and sentences as they are typed.
pub(crate) fn ascii(text: &str) -> String {
    let mut typed = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii() => typed.push(c),
            'µ' | 'μ' => typed.push('u'),
            '×' => typed.push('x'),
            '–' | '—' | '−' | '‐' | '‑' => typed.push('-'),
            '…' => typed.push_str("..."),
            '→' => typed.push_str("->"),
            '←' => typed.push_str("<-"),
            '≤' => typed.push_str("<="),
            '≥' => typed.push_str(">="),
            '±' => typed.push_str("+/-"),
            '·' => typed.push('*'),
            '‘' | '’' => typed.push('\''),
            '“' | '”' => typed.push('"'),
            c if is_mark(c) => {}
            _ => typed.push('?'),
        }
    }
    typed
}

/// The width of a text in a sans serif of this size. DejaVu Sans is the widest of the common ones; its widths, rounded up.
pub(crate) fn pixels(text: &str, size: f64) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | '\'' => 0.29,
        ' ' | '.' | ',' | 'I' | '|' | ':' | ';' | '/' | '\\' => 0.35,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '!' | '`' => 0.43,
        'c' | 's' | 'k' | 'z' | '"' => 0.59,
        'v' | 'x' | 'y' | '*' | '_' | 'J' => 0.6,
        'a'..='l' | 'n'..='v' | '0'..='9' | '$' | '?' | 'L' | 'F' | 'E' => 0.64,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | 'O' | 'Q' => 1.0,
        '\u{1100}'.. if columns_of(c) == 2 => 1.25,
        c if columns_of(c) == 0 => 0.0,
        c if c.is_ascii() || c.is_alphabetic() => 0.84,
        _ => 1.05,
    };
    text.chars().map(of).sum::<f64>() * size
}

/// Columns of a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Wide characters are those of East Asia and pictures (Unicode's East_Asian_Width, by its blocks).
fn columns_of(c: char) -> usize {
    match u32::from(c) {
        0x20..0x300 => 1,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => 2,
        0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ if is_mark(c) => 0,
        _ => 1,
    }
}

/// Lines of at most this width, broken at blanks, and within words that are wider.
pub(crate) fn wrapped(text: &str, most: f64, width: impl Fn(&str) -> f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let last = lines.last_mut().expect("there is a first line");
        let joined = if last.is_empty() { word.to_owned() } else { format!("{last} {word}") };
        if width(&joined) <= most {
            *last = joined;
            continue;
        }
        let mut rest = word;
        while !rest.is_empty() {
            let end = fitting(rest, most, &width);
            let (part, after) = rest.split_at(end);
            match lines.last_mut() {
                Some(last) if last.is_empty() => part.clone_into(last),
                _ => lines.push(part.to_owned()),
            }
            rest = after;
        }
    }
    lines
}

/// Where a text ends that fits; after its first character at least.
fn fitting(text: &str, most: f64, width: impl Fn(&str) -> f64) -> usize {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let mut fits = 0;
    for end in ends {
        if fits > 0 && width(&text[..end]) > most {
            break;
        }
        fits = end;
    }
    fits
}

/// The text, or its beginning and an ellipsis.
pub(crate) fn shortened(text: &str, most: f64, width: impl Fn(&str) -> f64) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let end = fitting(text, most - width("…"), &width);
    format!("{}…", text[..end].trim_end())
}

/// Of lines, at most this many; the last says that there are more.
pub(crate) fn at_most(mut lines: Vec<String>, count: usize, most: f64, width: impl Fn(&str) -> f64) -> Vec<String> {
    if lines.len() > count {
        let rest = lines.split_off(count - 1).join(" ");
        lines.push(shortened(&rest, most, width));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_would_obey_is_replaced() {
        assert_eq!(
            plain("a\u{1b}[2J\u{202e}b\u{2028}c\n\td\u{200b}\u{fffe}"),
            "a\u{fffd}[2J\u{fffd}b c d\u{fffd}\u{fffd}"
        );
        assert_eq!(
            plain(" µs → größer … \"quoted\" 10.0.0.1 日本 e\u{301} "),
            "µs → größer … \"quoted\" 10.0.0.1 日本 e\u{301}"
        );
        assert_eq!(plain(&format!("e{}x", "\u{301}".repeat(50))), "e\u{301}\u{301}x");
        assert_eq!(ascii("12 µs ≤ 3 × 4 … 日"), "12 us <= 3 x 4 ... ?");
    }

    #[test]
    fn lines_end_at_blanks_and_have_a_width() {
        let lines = |text, most| wrapped(text, most, |text| columns(text) as f64);
        assert_eq!(lines("one two three", 7.0), ["one two", "three"]);
        assert_eq!(lines("abcdefghij k", 4.0), ["abcd", "efgh", "ij k"]);
        assert_eq!(lines("", 4.0), [""]);
        assert_eq!(lines("日本", 1.0), ["日", "本"]);
        assert_eq!(shortened("abcdef", 4.0, |text| columns(text) as f64), "abc…");
        assert_eq!(at_most(lines("a b c d", 1.0), 2, 1.0, |text| columns(text) as f64), ["a", "b…"]);
    }
}
