//! `cargo xtask licences`: writes THIRD-PARTY-LICENCES.txt, which packages carry and `linerate licences` prints.
//! Knows what stands in it; `linked` knows what is in a program, `expression` and `texts` licences.

mod expression;
mod linked;
mod texts;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::program::{no_more, root};
use linked::{About, Linked};
use texts::Texts;

/// The document.
pub(crate) const DOCUMENT: &str = "THIRD-PARTY-LICENCES.txt";
/// What is in a static program and is no crate: written by hand.
const RUNTIME: &str = "packaging/runtime-licences.txt";

const HEAD: &str = "\
What linerate and linerate-agent are made of, beside their own code
====================================================================

linerate itself is under the MIT licence or the Apache licence 2.0, as you choose: LICENSE-MIT, LICENSE-APACHE.

These crates are linked into its programs: into all of them, or into those for some machines and with some features. Behind each
stand the licences that it is offered under. Where that is a choice, linerate takes the one whose text stands below. Sources are
in Rust's package registry under the same names and versions, and where the line says.

";

const BETWEEN: &str = "
No file of inferno (CDDL-1.0) was changed.

Static programs also contain the standard library of Rust, the C library musl and SQLite; their notices stand at the end.

";

/// Writes the document.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    let page = page()?;
    fs::write(root().join(DOCUMENT), page).map_err(|error| format!("{DOCUMENT} cannot be written: {error}"))
}

/// What the document says, made anew.
fn page() -> Result<String, String> {
    let manifests = linked::about()?;
    let (mut list, mut texts, mut without) = (String::new(), Texts::default(), Vec::new());
    for one in linked::crates()? {
        let about =
            manifests.get(&one).ok_or_else(|| format!("cargo metadata knows no {} {}", one.name, one.version))?;
        list += &format!("{}\n    {}", line(&one), about.licence);
        list += &if about.repository.is_empty() { "\n".to_owned() } else { format!("; {}\n", about.repository) };
        let chosen = expression::chosen(&about.licence)
            .ok_or_else(|| format!("{}: '{}' is not an SPDX expression", line(&one), about.licence))?;
        let mut missing = chosen.clone();
        for file in licence_files(&about.folder)? {
            let of: BTreeSet<&str> = chosen.iter().filter(|one| texts::is_text_of(&file, one)).copied().collect();
            if !of.is_empty() {
                missing.retain(|licence| !of.contains(licence));
                texts.add(&line(&one), &of, &file);
            }
        }
        without.extend(missing.into_iter().map(|licence| (line(&one), licence, notice(&one, about))));
    }
    for (component, licence, notice) in without {
        texts.add_usual(&component, licence, notice)?;
    }
    let runtime = fs::read_to_string(root().join(RUNTIME)).map_err(|error| format!("{RUNTIME}: {error}"))?;
    Ok(format!("{HEAD}{list}{BETWEEN}{}{}\n{runtime}", texts.print(), "=".repeat(80)))
}

/// As the document names a crate.
fn line(linked: &Linked) -> String {
    format!("{} {}", linked.name, linked.version)
}

/// For a crate that brings no notice.
fn notice(linked: &Linked, about: &About) -> String {
    match about.authors.join(", ") {
        authors if authors.is_empty() => format!("Copyright (c) the authors of {}", linked.name),
        authors => format!("Copyright (c) {authors}"),
    }
}

/// The texts of the files that are named like licences, in the order of their names.
fn licence_files(folder: &Path) -> Result<Vec<String>, String> {
    const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|one| name.starts_with(one)) && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    // What is no text is no licence.
    Ok(paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect())
}

/// The crates that are linked and that the document does not name, and those that it names and that are not linked.
pub(crate) fn differences() -> Result<Vec<String>, String> {
    let page = fs::read_to_string(root().join(DOCUMENT)).unwrap_or_default();
    Ok(differences_of(&page, &linked::crates()?))
}

fn differences_of(page: &str, crates: &BTreeSet<Linked>) -> Vec<String> {
    let head = page.split(BETWEEN).next().unwrap_or_default();
    let behind = head.split_once(HEAD).map_or("", |(_, list)| list);
    let named: BTreeSet<&str> = behind.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    let linked: BTreeSet<String> = crates.iter().map(line).collect();
    let missing = linked.iter().filter(|one| !named.contains(one.as_str())).map(|one| format!("does not name {one}"));
    let gone =
        named.iter().filter(|one| !linked.contains(**one)).map(|one| format!("names {one}, which is not linked"));
    missing.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_is_named_and_no_other() {
        let crates: BTreeSet<Linked> =
            ["a", "b"].map(|name| Linked { name: name.to_owned(), version: "1.0.0".to_owned() }).into();
        let page = |list: &str| format!("{HEAD}{list}{BETWEEN}a 1.0.0\nc 1.0.0\n");
        assert!(differences_of(&page("a 1.0.0\n    MIT\nb 1.0.0\n    MIT\n"), &crates).is_empty());
        assert_eq!(
            differences_of(&page("a 1.0.0\n    MIT\nb 1.0.1\n    MIT\n"), &crates),
            ["does not name b 1.0.0", "names b 1.0.1, which is not linked"]
        );
        assert_eq!(differences_of("", &crates).len(), 2);
    }

    #[test]
    fn the_document_is_what_would_be_written() {
        let page = page().unwrap();
        assert_eq!(fs::read_to_string(root().join(DOCUMENT)).unwrap(), page, "run cargo xtask licences");
        // Nothing that is linked is without a text of its own licence.
        for mark in
            ["COMMON DEVELOPMENT AND DISTRIBUTION LICENSE", "UNICODE LICENSE V3", "Rich Felker", "public domain"]
        {
            assert!(page.contains(mark), "{mark}");
        }
        assert!(page.contains("inferno 0.12"));
    }
}
