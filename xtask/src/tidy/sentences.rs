//! The rule that no product code looks into a sentence: what decides is a fact's kind and fields, not its wording.
//! Knows what holds sentences by how it is named.

use super::Finding;
use super::files::File;
use super::uses::Modules;
use super::words::{Word, product_words};

/// What holds a sentence, or makes one.
const SENTENCES: [&str; 8] =
    ["sentence", "evidence", "error", "message", "complaint", "wrong_if", "reason", "to_string"];
/// What looks into a text.
const LOOKS: [&str; 12] = [
    "contains",
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "split",
    "rsplit",
    "split_once",
    "rsplit_once",
    "find",
    "matches",
    "replace",
];
/// What stands between, and leaves the text what it is.
const BETWEEN: [&str; 8] =
    ["as_str", "as_ref", "as_deref", "to_string", "to_lowercase", "to_ascii_lowercase", "unwrap_or_default", "trim"];

/// Each place that takes a sentence apart.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let crates = Modules::of_crates(files);
    let is_product = |file: &&File| {
        file.path.starts_with("crates/") && crates.iter().any(|one| one.all().any(|module| module.file == file.path))
    };
    let looks = files.iter().filter(is_product).flat_map(|file| {
        let words = product_words(&file.text);
        let found: Vec<String> = (0..words.len()).filter_map(|at| look(&words[at..])).collect();
        found
            .into_iter()
            .map(|what| Finding::new(&file.path, format!("{what} looks into a sentence; ask the fact's kind")))
    });
    looks.collect()
}

/// `sentence.contains(…` and the like, where these words begin with it.
fn look(words: &[Word<'_>]) -> Option<String> {
    let (holder, mut rest) = words.split_first().filter(|(holder, _)| SENTENCES.contains(holder))?;
    if *holder == "to_string" {
        rest = rest.strip_prefix(&["(", ")"])?;
    }
    while let [".", between, "(", ")", ..] = rest
        && BETWEEN.contains(between)
    {
        rest = &rest[4..];
    }
    match rest {
        // Escaping is of any text.
        [".", "replace", ..] if *holder == "to_string" => None,
        [".", look, "(", ..] if LOOKS.contains(look) => Some(format!("{holder}.{look}()")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_code(code: &str, expected: &[&str]) {
        let file = |name: &str, text: &str| File { path: format!("crates/a/src/{name}.rs"), text: text.to_owned() };
        let findings = check(&[file("lib", "mod b;\n#[cfg(test)]\nmod c;\n"), file("b", code), file("c", code)]);
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(part), "{finding}");
        }
    }

    #[test]
    fn a_sentence_is_not_taken_apart() {
        check_code("fn f() { if one.evidence.contains(\"nobody\") {} }", &["b.rs: evidence.contains() looks"]);
        check_code(
            "fn f() { error.to_string().to_lowercase().starts_with(\"no\") }",
            &["error.starts_with()", "to_string.starts"],
        );
        check_code("fn f() { record.error.as_deref().unwrap_or_default().split(';') }", &["error.split()"]);
        check_code("fn f() { error.kind(); sentence.is_empty(); names.contains(x); self.message.len() }", &[]);
        check_code("// error.contains(x)\n#[cfg(test)]\nmod tests { fn f() { error.contains(x) } }", &[]);
    }
}
