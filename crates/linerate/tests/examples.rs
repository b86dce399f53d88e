//! The reports in docs/examples/ follow from the records in them, in the words of this program. Measures nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MEND: &str = "`cargo xtask examples --again` writes them anew from the records in them, without measuring";
/// Of a report's HTML with its records: what a mail server and a repository bear.
const MOST_OCTETS: u64 = 800_000;
/// Of a line of plain text; quoted twice it has less than 80.
const COLUMNS: usize = 72;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples")
}

/// The names of the files with this extension.
fn names(extension: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|its| its == extension));
    files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn report(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    let output = command.arg("report").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_example_has_all_its_files_and_a_line() {
    let html = names("html");
    assert_eq!(html.len(), 5, "{html:?}");
    assert_eq!(html, names("txt"));
    let list = fs::read_to_string(folder().join("README.md")).unwrap();
    for name in &html {
        assert!(folder().join(format!("{name}.md")).is_file(), "{name} has no words of its author");
        assert!(list.contains(&format!("({name}.html)")), "README.md does not tell of {name}");
    }
}

#[test]
fn every_example_follows_from_its_records() {
    for name in names("html") {
        let path = |extension: &str| folder().join(format!("{name}.{extension}"));
        let html = path("html");
        assert!(fs::metadata(&html).unwrap().len() <= MOST_OCTETS, "{name}.html is larger than {MOST_OCTETS} octets");
        let verdict = report(&["verify", html.to_str().unwrap()]);
        let is_true = verdict.starts_with("Verified: ") && verdict.ends_with("records give them.\n");
        assert!(is_true, "{name}.html: {verdict}{MEND}");
        let notes = path("md");
        let again = report(&["--from", html.to_str().unwrap(), "--notes", notes.to_str().unwrap(), "--text"]);
        let text = fs::read_to_string(path("txt")).unwrap();
        assert!(text == again, "{name}.txt or {name}.md is of another time than {name}.html: {MEND}");
        let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "{name}.txt has a line of more than {COLUMNS} columns");
    }
}

/// No figure is typed: what the list says of a report is what the report says.
#[test]
fn the_list_says_what_the_reports_say() {
    let list = fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, said) = list.split_once("<!-- Written by").unwrap();
    let (said, _) = said.split_once("<!-- The end").unwrap();
    let parts: Vec<&str> = said.split("\n### ").skip(1).collect();
    assert_eq!(parts.len(), 5);
    for (part, name) in parts.into_iter().zip(names("html")) {
        assert!(part.starts_with(&format!("{name}: ")), "{part}");
        let [html, notes] = ["html", "md"].map(|extension| folder().join(format!("{name}.{extension}")));
        let [html, notes] = [&html, &notes].map(|path| path.to_str().unwrap());
        let report = report(&["--from", html, "--notes", notes, "--markdown"]);
        let (beginning, _) = report.split_once("\n## ").unwrap();
        let lines: Vec<&str> = part.lines().skip(1).filter(|line| !line.is_empty()).collect();
        assert!(lines.len() > 2, "{part}");
        let other = lines.iter().find(|line| !beginning.lines().any(|one| one == **line));
        assert_eq!(other, None, "README.md is of another time than {name}.html: {MEND}");
    }
}

#[test]
fn no_example_tells_of_a_machine() {
    for name in names("html") {
        let records = report(&["extract", folder().join(format!("{name}.html")).to_str().unwrap()]);
        let text = fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
        for identity in ["netns:", "root=", "console=", "/tmp/", "/home/"] {
            assert!(!records.contains(identity) && !text.contains(identity), "{name} has '{identity}'");
        }
        assert!(text.contains("were replaced by pseudonyms"), "{name} is made without --anonymous");
    }
}
