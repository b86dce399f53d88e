//! The rule of file names in ARCHITECTURE.md and docs/internals.md: each file and folder that they name is there, in the crate that
//! it is named under.

use super::Finding;
use super::files::File;
use crate::markdown::code_words;

const DOCUMENTS: [&str; 2] = ["ARCHITECTURE.md", "docs/internals.md"];

/// Each name that leads to nothing.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let documents = files.iter().filter(|file| DOCUMENTS.contains(&file.path.as_str()));
    documents.flat_map(|document| check_document(document, files)).collect()
}

fn check_document(document: &File, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut of_crate = None;
    for (number, line) in (1..).zip(document.text.lines()) {
        // A part of the code map goes on in lines that are set in.
        if !line.starts_with("  ") {
            of_crate = code_words(line).next().filter(|word| line.starts_with("- `") && word.starts_with("crates/"));
        }
        for word in code_words(line).filter(|word| is_file(word)) {
            let is_there = |file: &File| {
                let inside = of_crate.is_none_or(|folder| word == folder || file.path.starts_with(folder));
                inside && leads_to(word, &file.path)
            };
            if !files.iter().any(is_there) {
                let of = of_crate.map_or_else(String::new, |folder| format!(" in {folder}"));
                findings.push(Finding::new(format!("{}:{number}", document.path), format!("there is no {word}{of}")));
            }
        }
    }
    findings
}

fn is_file(word: &str) -> bool {
    let is_path = !word.contains([' ', '<', '*', '(']);
    is_path && (word.ends_with('/') || [".rs", ".toml", ".md"].iter().any(|end| word.ends_with(end)))
}

/// Whether the word is the file, its name with some of its folders, or a folder above it.
fn leads_to(word: &str, path: &str) -> bool {
    match word.strip_suffix('/') {
        Some(_) => path.starts_with(word) || path.contains(&format!("/{word}")),
        None => path == word || path.strip_suffix(word).is_some_and(|above| above.ends_with('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_page(page: &str, expected: &[&str]) {
        let paths = ["crates/a/src/b.rs", "crates/a/src/c/d.rs", "crates/e/src/f.rs", "docs/g.md"];
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let mut files: Vec<File> = paths.iter().map(|path| file(path, "")).collect();
        files.push(file(DOCUMENTS[0], page));
        let findings = check(&files);
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(part), "{finding}");
        }
    }

    #[test]
    fn what_is_named_is_there() {
        check_page(
            "- `crates/a`: `b.rs` (what `E` is), `c/` and\n  `c/d.rs`, `d.rs`.\n| x | `e/src/f.rs`, docs/g.md, `docs/` |\n",
            &[],
        );
        check_page("- `crates/a`: `b.rs`,\n  `f.rs`.\n", &["ARCHITECTURE.md:2: there is no f.rs in crates/a"]);
        check_page("| know | `e/src/luck.rs`, `h/` |\n", &["no e/src/luck.rs", "no h/"]);
        check_page("`a file.rs`, `*.rs`, `a::b`\n", &[]);
    }
}
