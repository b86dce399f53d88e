//! Which of the licences that a crate offers it is taken under: an SPDX expression, and what is chosen of it.
//! Knows no text of a licence.

use std::collections::BTreeSet;

/// The licences that are chosen where a crate offers several, the first of these first: short texts that need no more than to
/// be handed on.
const PREFERRED: [&str; 7] = ["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "Unicode-3.0", "Apache-2.0"];

/// The licences that must all be kept to. `None`: this is no expression (SPDX specification, annex *License expressions*; a
/// slash is cargo's older word for OR).
pub(super) fn chosen(expression: &str) -> Option<BTreeSet<&str>> {
    let mut words = Words { rest: expression };
    let all = any_of(&mut words)?;
    words.rest.trim().is_empty().then_some(all)
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let len = match rest.find(|sign: char| sign.is_whitespace() || "()/".contains(sign)) {
            Some(0) => 1,
            found => found.unwrap_or(rest.len()),
        };
        &rest[..len]
    }

    fn next(&mut self) -> &'a str {
        let word = self.peek();
        self.rest = &self.rest.trim_start()[word.len()..];
        word
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let found = words.contains(&self.peek());
        if found {
            self.next();
        }
        found
    }
}

/// `A OR B`, of which one is chosen.
fn any_of<'a>(words: &mut Words<'a>) -> Option<BTreeSet<&'a str>> {
    let mut best = all_of(words)?;
    while words.takes(&["OR", "/"]) {
        let other = all_of(words)?;
        if rank(&other) < rank(&best) {
            best = other;
        }
    }
    Some(best)
}

/// `A AND B`, which binds closer.
fn all_of<'a>(words: &mut Words<'a>) -> Option<BTreeSet<&'a str>> {
    let mut all = one(words)?;
    while words.takes(&["AND"]) {
        all.extend(one(words)?);
    }
    Some(all)
}

fn one<'a>(words: &mut Words<'a>) -> Option<BTreeSet<&'a str>> {
    if words.takes(&["("]) {
        let inner = any_of(words)?;
        return words.takes(&[")"]).then_some(inner);
    }
    let name = words.next();
    if name.is_empty() || ["AND", "OR", "WITH", ")", "/"].contains(&name) {
        return None;
    }
    // An exception allows more than the licence does; keeping to the licence keeps to both.
    if words.takes(&["WITH"]) {
        words.next();
    }
    Some([name].into())
}

/// The fewest licences, then those that stand first above.
fn rank(all: &BTreeSet<&str>) -> (usize, usize) {
    let place = |name: &&str| PREFERRED.iter().position(|one| one == name).unwrap_or(PREFERRED.len());
    (all.len(), all.iter().map(place).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: &str) {
        let chosen = chosen(expression).map(|all| all.into_iter().collect::<Vec<_>>().join(" + "));
        assert_eq!(chosen.unwrap_or_default(), expected, "{expression}");
    }

    #[test]
    fn one_of_those_that_are_offered() {
        check("MIT", "MIT");
        check("Apache-2.0 OR MIT", "MIT");
        check("MIT/Apache-2.0", "MIT");
        check("Apache-2.0 OR BSL-1.0", "Apache-2.0");
        check("Unlicense OR MIT", "MIT");
        check("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", "MIT");
        check("(MIT OR Apache-2.0) AND Unicode-3.0", "MIT + Unicode-3.0");
        check("ISC AND (Apache-2.0 OR ISC) AND Apache-2.0 AND MIT", "Apache-2.0 + ISC + MIT");
        check("CDDL-1.0", "CDDL-1.0");
    }

    #[test]
    fn what_is_no_expression() {
        for text in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "AND", "MIT)", "OR MIT", "()"] {
            assert_eq!(chosen(text), None, "{text}");
        }
    }
}
