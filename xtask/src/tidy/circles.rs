//! The rule that no two files of a crate import each other, so that each can be read after what it needs.
//! Knows modules, `use` and paths, not types. Tests import what they like, and a folder's own file has what its files share.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::files::File;
use super::uses::Modules;

/// A table imports its rows, and each row the table's type: that much is a circle by design.
const TABLES: [(&str, &str); 10] = [
    ("crates/trial/src/spec.rs", "the table of options; their types say for which of its workloads they are"),
    ("crates/results/src/figures.rs", "the table of figures, whose rows are of `Figure`; `Metric` finds them by name"),
    ("crates/results/src/search.rs", "a record has its place in a search, and a search is told from its records"),
    ("crates/results/src/search/stages.rs", "the table of stages; RFC 6349's rows are made in a file of their own"),
    (
        "crates/results/src/record.rs",
        "the record; a part with a file of its own describes its machine as the record does",
    ),
    (
        "crates/linerate/src/measure/pair.rs",
        "the machines of a trial; the one in the middle is asked as the two ends are",
    ),
    ("crates/peers/src/protocol.rs", "the table of tools; the drivers run what it names, and the tools fill it in"),
    (
        "crates/host/src/traffic/frames/mod.rs",
        "a workload, and what its sockets are; datagrams are read as its frames are",
    ),
    (
        "crates/host/src/traffic/framing.rs",
        "names a codec's loop with its type, so that the loop has no foreign branch",
    ),
    ("xtask/src/faults/families.rs", "the table of what can be planted; each of its rows draws from others"),
];

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Each circle of files that is left when tables import nothing.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    check_but(files, &TABLES)
}

fn check_but(files: &[File], tables: &[(&'static str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for modules in Modules::of_crates(files) {
        let all: Imports = modules.all().map(|module| (module.file.clone(), modules.imported_by(module))).collect();
        let is_table = |path: &str| tables.iter().any(|(table, _)| *table == path);
        used.extend(circles(&all).into_iter().flatten().filter(|path| is_table(path)));
        let without: Imports = all.into_iter().filter(|(path, _)| !is_table(path)).collect();
        findings.extend(circles(&without).into_iter().map(|circle| told(&circle, &without)));
    }
    let idle = tables.iter().filter(|(table, _)| !used.contains(*table));
    findings.extend(idle.map(|(table, _)| Finding::new(*table, "is in no circle; take it off the list of tables")));
    findings
}

fn told(circle: &BTreeSet<String>, imports: &Imports) -> Finding {
    let arrows = circle.iter().flat_map(|from| {
        let inside = imports[from].intersection(circle);
        inside.map(move |to| format!("{} -> {}", short(from), short(to)))
    });
    let arrows = arrows.collect::<Vec<_>>().join(", ");
    let first = circle.first().expect("a circle has files");
    Finding::new(first, format!("{} files import each other ({arrows}); move what both need", circle.len()))
}

fn short(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(_, file)| file)
}

/// The sets of files each of which leads to every other one.
fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|from| (from.as_str(), reachable(imports, from))).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (from, to) in &reached {
        let circle: BTreeSet<String> =
            to.iter().filter(|other| reached[*other].contains(from)).map(|path| (*path).to_owned()).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            circles.push(circle);
        }
    }
    circles
}

/// What a file leads to, itself if it comes back to it.
fn reachable<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(path) = next.pop() {
        for to in imports.get(path).into_iter().flatten() {
            if imports.contains_key(to) && reached.insert(to.as_str()) {
                next.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_files(files: &[(&str, &str)], expected: &[&str]) {
        check_with(files, &[], expected);
    }

    #[track_caller]
    fn check_with(files: &[(&str, &str)], tables: &[(&'static str, &str)], expected: &[&str]) {
        let files = files
            .iter()
            .map(|(path, text)| File { path: format!("crates/a/src/{path}"), text: format!("//! Does this.\n{text}") });
        let findings = check_but(&files.collect::<Vec<_>>(), tables);
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(part), "{finding}");
        }
    }

    #[test]
    fn two_files_that_import_each_other() {
        let lib = ("lib.rs", "mod b;\nmod c;\npub use c::C;\n");
        check_files(
            &[lib, ("b.rs", "use crate::c::C;\n"), ("c.rs", "use super::b::{self, B};\n")],
            &["b.rs -> c.rs, c.rs -> b.rs"],
        );
        check_files(&[lib, ("b.rs", "use crate::c::C;\n"), ("c.rs", "pub struct C;\n")], &[]);
        // By a path in the code, and by a name that the crate's root hands on.
        check_files(
            &[lib, ("b.rs", "fn f() { crate::c::g() }\n"), ("c.rs", "use crate::b::B;\n")],
            &["import each other"],
        );
        check_files(&[lib, ("b.rs", "use crate::C;\n"), ("c.rs", "use crate::b::B;\n")], &["b.rs -> c.rs"]);
    }

    #[test]
    fn a_file_and_the_files_below_it() {
        let lib = ("lib.rs", "mod b;\n");
        let below = ("b/c.rs", "use super::B;\n");
        check_files(&[lib, ("b.rs", "mod c;\npub struct B;\nfn f() { c::g() }\n"), below], &[]);
        let b = ("b.rs", "mod c;\nmod d;\npub struct B;\n// c::g() says\nconst S: &str = \"c::g\";\n");
        check_files(&[lib, b, below, ("b/d.rs", "use super::c::C;\n")], &[]);
        let both = [lib, b, ("b/c.rs", "use super::d;\n"), ("b/d.rs", "use super::c::C;\n")];
        check_files(&both, &["b/c.rs: 2 files import each other"]);
    }

    #[test]
    fn a_table_and_its_rows() {
        let lib = ("lib.rs", "mod b;\nmod c;\n");
        let files = [lib, ("b.rs", "use crate::c::ROW;\npub struct Row;\n"), ("c.rs", "use crate::b::Row;\n")];
        check_with(&files, &[("crates/a/src/b.rs", "rows")], &[]);
        check_with(&files[..2], &[("crates/a/src/b.rs", "rows")], &["is in no circle"]);
    }

    #[test]
    fn tests_import_what_they_like() {
        let lib = ("lib.rs", "mod b;\nmod c;\n#[cfg(test)]\nmod d;\n");
        let c = ("c.rs", "pub struct C;\n\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n");
        check_files(&[lib, ("b.rs", "use crate::c::C;\n"), c, ("d.rs", "use crate::b::B;\n")], &[]);
    }
}
