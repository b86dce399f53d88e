//! Rules of all text files: no path or package host of somebody's machine, and links that lead somewhere.
//! Knows files only by their names.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::files::File;
use crate::markdown::links;
use crate::program::root;

/// What tells where the work was done instead of what was done. In parts, because this file is checked as well.
const FOREIGN: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("deb.debian", ".org"),
];

/// What breaks a rule in this file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Cargo writes the registry's address there.
    if !file.path.ends_with("Cargo.lock") {
        findings.extend(foreign(file));
    }
    if file.path.ends_with(".md") {
        findings.extend(dead_links(file));
    }
    findings
}

fn foreign(file: &File) -> impl Iterator<Item = Finding> {
    (1..).zip(file.text.lines()).filter_map(|(number, line): (usize, _)| {
        let word = FOREIGN.iter().find(|word| line.contains(**word))?;
        Some(Finding::new(format!("{}:{number}", file.path), format!("mentions {word}; say it without")))
    })
}

fn dead_links(file: &File) -> impl Iterator<Item = Finding> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    links(&file.text).filter_map(move |(number, link)| {
        let path = link.split('#').next().unwrap_or_default();
        if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
            return None;
        }
        let leads = inside(&folder.join(path)).is_some_and(|path| root().join(path).exists());
        (!leads).then(|| Finding::new(format!("{}:{number}", file.path), format!("{link} leads to no file here")))
    })
}

/// The path without `.` and `..`; `None`: it leads out of the repository.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir if inside.pop() => {}
            _ => return None,
        }
    }
    Some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: &[&str]) {
        let findings = check(&File { path: path.to_owned(), text: text.to_owned() });
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(part), "{finding}");
        }
    }

    #[test]
    fn machines_are_not_mentioned() {
        check_file("a.toml", &format!("x\ny = \"{}x\"\n", FOREIGN[0]), &["a.toml:2: mentions"]);
        check_file("a/Cargo.lock", FOREIGN[2], &[]);
        check_file("a.md", "network/workload, rfc-editor.org/rfc/rfc3550", &[]);
    }

    #[test]
    fn links_lead_somewhere() {
        check_file("docs/a.md", "[x](../xtask/Cargo.toml) [y](#part) [z](https://www.rfc-editor.org/)", &[]);
        check_file("docs/a.md", "\n[x](../xtask/no.toml)", &["docs/a.md:2: ../xtask/no.toml leads"]);
        check_file("docs/a.md", "[x](../../etc/passwd)", &["leads to no file"]);
        check_file("README.md", "[x](docs/record-format.md#names)", &[]);
    }
}
