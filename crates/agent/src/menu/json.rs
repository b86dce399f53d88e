//! A value in a line of JSON, by its place: to read the whole line would take types, or a tree, for all that it holds.
//! Knows no numbers and no escapes: a value is its text.

/// The value there, by the names on the way to it: `["event", "finished"]`.
pub(super) fn at<'a>(value: &'a str, place: &[&str]) -> Option<&'a str> {
    place.iter().try_fold(value, |value, name| member(value, name))
}

/// The number there.
pub(super) fn number(value: &str, place: &[&str]) -> Option<f64> {
    at(value, place)?.parse().ok()
}

fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = Parts(object.strip_prefix('{')?.as_bytes());
    while let Some(key) = parts.next() {
        let value = parts.next()?;
        if unquoted(key) == name {
            return Some(value);
        }
    }
    None
}

/// A text without its quotes.
fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// The elements of an array; `None`: it is none.
pub(super) fn elements(array: &str) -> Option<Parts<'_>> {
    array.strip_prefix('[').map(|rest| Parts(rest.as_bytes()))
}

/// What the rest of an array holds, or of an object: names and values by turns.
pub(super) struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (mut depth, mut is_quoted, mut is_escaped) = (0_u32, false, false);
        let end = self.0.iter().position(|octet| {
            match octet {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                b'[' | b'{' => depth += 1,
                b',' | b':' | b']' | b'}' if depth == 0 => return true,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            false
        })?;
        let part = str::from_utf8(self.0.get(..end)?).ok()?.trim();
        self.0 = self.0.get(end + 1..)?;
        Some(part).filter(|part| !part.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_value_is_found_by_its_place() {
        let line = json!({"a": {"n": [1, "x]}\\\"", {"k": []}], "b\"": 7}, "text": "a:b,c}", "last": {"n": 18446744073709551615_u64}});
        for line in [line.to_string(), serde_json::to_string_pretty(&line).unwrap()] {
            assert_eq!(at(&line, &["text"]), Some("\"a:b,c}\""));
            assert_eq!(number(&line, &["last", "n"]), Some(u64::MAX as f64));
            let all: Vec<Value> =
                elements(at(&line, &["a", "n"]).unwrap()).unwrap().map(|one| one.parse().unwrap()).collect();
            assert_eq!(all, [json!(1), json!("x]}\\\""), json!({"k": []})]);
            for place in ["", "b", "a.x", "text.n", "a.n.k", "last.n.m"] {
                let names: Vec<&str> = place.split('.').collect();
                assert_eq!(at(&line, &names), None, "{place}");
            }
        }
    }

    #[test]
    fn nonsense_holds_nothing() {
        for line in ["", "{", "}", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":}", "{]", "{\"a\":1", "a", "ä", "{ä", "\\"] {
            assert_eq!(at(line, &["a"]), None, "{line}");
        }
        assert_eq!(elements("[]").unwrap().count(), 0);
        assert!(elements("{}").is_none());
    }
}
