//! A Rust file as words: names, numbers, `::` and single signs. Comments, texts and lifetimes are left out.

/// A word of a file.
pub(super) type Word<'a> = &'a str;

/// A file's words without what is there in tests alone.
pub(super) fn product_words(text: &str) -> Vec<Word<'_>> {
    let all = words(text);
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < all.len() {
        match all[at..] {
            ["#", "[", "cfg", "(", ..] if is_of_tests(&all[at..]) => at = behind_item(&all, at),
            _ => {
                kept.push(all[at]);
                at += 1;
            }
        }
    }
    kept
}

/// Whether what this attribute stands before is there in tests alone.
fn is_of_tests(words: &[Word<'_>]) -> bool {
    let end = words.iter().position(|word| *word == "]").unwrap_or(words.len());
    words[..end].contains(&"test") && !words[..end].contains(&"not")
}

/// Where the item ends that begins at an attribute: at a semicolon, or behind its braces.
fn behind_item(words: &[Word<'_>], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(from) {
        match *word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && *word == "}" {
                    return at + 1 + usize::from(words.get(at + 1) == Some(&";"));
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    words.len()
}

/// A file's words.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => text_len(rest),
            'r' | 'b' | 'c' if raw_len(rest).is_some() => raw_len(rest).unwrap_or(1),
            '\'' => quoted_len(rest),
            _ if first.is_whitespace() => first.len_utf8(),
            _ => {
                let is_in_name = |c: char| c.is_alphanumeric() || c == '_';
                let len = match rest.find(|c| !is_in_name(c)).unwrap_or(rest.len()) {
                    0 if rest.starts_with("::") => 2,
                    0 => first.len_utf8(),
                    len => len,
                };
                words.push(&rest[..len]);
                len
            }
        };
        rest = &rest[len..];
    }
    words
}

/// A text in double quotes.
fn text_len(rest: &str) -> usize {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(rest.len(), |(at, _)| at + 1)
}

/// A text with a letter before it: `r"…"`, `r#"…"#`, `b"…"`.
fn raw_len(rest: &str) -> Option<usize> {
    let letters = rest.find(|c: char| !matches!(c, 'r' | 'b' | 'c'))?;
    let signs = rest[letters..].find(|c| c != '#')?;
    let quote = letters + signs;
    if letters > 2 || !rest[quote..].starts_with('"') {
        return None;
    }
    if !rest[..letters].contains('r') {
        return (signs == 0).then(|| quote + text_len(&rest[quote..]));
    }
    let end = format!("\"{}", "#".repeat(signs));
    Some(rest[quote + 1..].find(&end).map_or(rest.len(), |at| quote + 1 + at + end.len()))
}

/// A character in single quotes, or the sign of a lifetime.
fn quoted_len(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3.min(rest.len())..].find('\'').map_or(rest.len(), |at| at + 4),
        Some((_, _)) if chars.next().is_some_and(|(_, c)| c == '\'') => {
            rest.char_indices().nth(3).map_or(rest.len(), |(at, _)| at)
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(words(text), expected, "{text}");
    }

    #[test]
    fn names_and_signs() {
        check("use a::{b, c};", &["use", "a", "::", "{", "b", ",", "c", "}", ";"]);
        check(
            "fn f<'a>(x: &'a [u8; 2])",
            &["fn", "f", "<", "a", ">", "(", "x", ":", "&", "a", "[", "u8", ";", "2", "]", ")"],
        );
    }

    #[test]
    fn what_is_there_in_tests_alone_is_left_out() {
        let text = "a #[cfg(test)] mod t { fn f() { g([1; 2]) } } b #[cfg(test)] #[path = \"x\"] mod u; c";
        assert_eq!(product_words(text), ["a", "b", "c"]);
        assert_eq!(
            product_words("#[cfg(not(test))] mod t; #[cfg(any(test, feature = \"s\"))] use u::{v}; w").len(),
            14
        );
    }

    #[test]
    fn comments_and_texts_are_no_words() {
        check("a // b::c\n/* d */ e", &["a", "e"]);
        check(r#"f("a::b \" c", 'x', '\'', '\u{41}', '"')"#, &["f", "(", ",", ",", ",", ",", ")"]);
        check("r#\"a \" b\"# b\"c\" br\"d\\\" raw bc", &["raw", "bc"]);
    }
}
