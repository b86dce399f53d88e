//! Rules of Rust files: a module doc, `unsafe` at its address, and a length that can be read.
//! Knows no syntax tree; lines and words are enough for these.

use super::Finding;
use super::files::File;

/// The only places of the word, one for each crate that needs it.
const UNSAFE_ADDRESSES: [&str; 3] = ["crates/host/src/sys/", "crates/lab/src/sys.rs", "firmware/src/machine.rs"];

/// Whose standard output and standard error people read; output.rs in each makes printable what goes there.
const WRITERS: [&str; 2] = ["crates/linerate/src/", "crates/agent/src/"];

/// Lines of a file without its tests: past this, ask what its second subject is.
const LONG: usize = 600;
const TOO_LONG: usize = 1000;
/// Lines of a main.rs, which reads as a sentence.
const LONG_MAIN: usize = 60;

/// What breaks a rule in this file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(module_doc(file));
    findings.extend(length(file));
    if !UNSAFE_ADDRESSES.iter().any(|address| file.path.starts_with(address)) {
        findings.extend(unsafe_words(file));
    }
    if WRITERS.iter().any(|writer| file.path.starts_with(writer)) && !file.path.ends_with("/src/output.rs") {
        findings.extend(ways_around_output(file));
    }
    findings
}

fn module_doc(file: &File) -> Option<Finding> {
    let said = file.text.lines().next().and_then(|line| line.strip_prefix("//! ")).is_some_and(|text| text.len() > 3);
    (!said).then(|| Finding::new(&file.path, "opens without its //! line: what it is for"))
}

fn length(file: &File) -> Option<Finding> {
    let lines = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().lines().count();
    let is_main = file.path.ends_with("/main.rs");
    match lines {
        TOO_LONG.. => Some(Finding::new(&file.path, format!("{lines} lines; part it by subject, at most {TOO_LONG}"))),
        LONG.. => Some(Finding::warning(&file.path, format!("{lines} lines; which is its second subject?"))),
        LONG_MAIN.. if is_main => {
            Some(Finding::warning(&file.path, format!("{lines} lines; a main.rs reads as a sentence")))
        }
        _ => None,
    }
}

/// What writes to a terminal as it is.
fn ways_around_output(file: &File) -> impl Iterator<Item = Finding> {
    const WAYS: [&str; 5] = ["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!("];
    let tests = file.text.find("#[cfg(test)]\nmod ").unwrap_or(file.text.len());
    let lines = (1..).zip(file.text[..tests].lines());
    let broken = lines.filter(|(_, line)| {
        let code = line.split("//").next().unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let begins = |way: &str| {
            code.match_indices(way).any(|(at, _)| !code[..at].ends_with(is_word) && !code[..at].ends_with('.'))
        };
        begins("stdout()") || begins("stderr()") || WAYS.iter().any(|way| begins(way))
    });
    broken.map(|(number, _)| {
        let what = "writes past output.rs, which makes printable what other machines say; use what is there";
        Finding::new(format!("{}:{number}", file.path), what)
    })
}

fn unsafe_words(file: &File) -> impl Iterator<Item = Finding> {
    // In two parts, because this file is held against the rule as well.
    let (keyword, lint) = (concat!("un", "safe"), concat!("allow(un", "safe_code"));
    let lines = (1..).zip(file.text.lines());
    let broken = lines.filter(move |(_, line)| {
        let code = line.split("//").next().unwrap_or_default();
        let is_word = |part: char| !(part.is_alphanumeric() || part == '_');
        code.contains(lint) || code.split(is_word).any(|word| word == keyword)
    });
    broken.map(move |(number, _)| {
        let what = format!("{keyword} code; it may stand only in {}", UNSAFE_ADDRESSES.join(" and "));
        Finding::new(format!("{}:{number}", file.path), what)
    })
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

    const DOC: &str = "//! Does this.\n//! Knows not that.\n";

    #[test]
    fn every_file_says_what_it_is_for() {
        check_file("a.rs", DOC, &[]);
        check_file("a.rs", "//! Does this.\n", &[]);
        check_file("a.rs", "", &["its //! line"]);
        check_file("a.rs", "//!\n", &["its //! line"]);
        check_file("a.rs", "// Does this.\n", &["its //! line"]);
    }

    #[test]
    fn the_keyword_has_its_address() {
        let code = format!("{DOC}fn f() {{ {} {{ g() }} }}\n", concat!("un", "safe"));
        check_file("crates/trial/src/a.rs", &code, &["a.rs:3: "]);
        check_file("crates/host/src/sys/a.rs", &code, &[]);
        check_file("crates/lab/src/sys.rs", &code, &[]);
        check_file("a.rs", &format!("{DOC}#![{})]\n", concat!("allow(un", "safe_code")), &["a.rs:3: "]);
        check_file("a.rs", &format!("{DOC}#![forbid({}_code)] // {0}\n", concat!("un", "safe")), &[]);
    }

    #[test]
    fn what_people_read_is_written_in_one_place() {
        let around = |path: &str, code: &str, found: usize| {
            let expected = ["writes past output.rs"];
            check_file(path, &format!("{DOC}{code}\n"), &expected[..found]);
        };
        around("crates/linerate/src/a.rs", "fn f() { println!(); }", 1);
        around("crates/linerate/src/a.rs", "fn f() { std::io::stderr().write_all(b); }", 1);
        around("crates/agent/src/a.rs", "fn f() { eprint!(\"{a}\"); }", 1);
        around("crates/agent/src/output.rs", "fn f() { eprint!(\"{a}\"); }", 0);
        around("crates/linerate/src/a.rs", "// As println!() does.\nfn f() { child.stdout(); out!() }", 0);
        around("crates/linerate/src/a.rs", "fn f() { out!(); sprintln!(); let stdout = 1; }", 0);
        around("crates/linerate/src/a.rs", "#[cfg(test)]\nmod tests { fn f() { println!() } }", 0);
        around("crates/lab/src/a.rs", "fn f() { println!(); }", 0);
    }

    #[test]
    fn long_files_are_told_and_tests_do_not_count() {
        let lines = |count: usize| format!("{DOC}{}", "x\n".repeat(count));
        check_file("a.rs", &lines(590), &[]);
        check_file("a.rs", &lines(600), &["warning: a.rs: 602 lines"]);
        check_file("a.rs", &lines(1000), &["1002 lines; part it"]);
        check_file("a.rs", &format!("{}#[cfg(test)]\nmod tests {{\n{}", lines(10), lines(1000)), &[]);
        check_file("a/main.rs", &lines(70), &["warning: a/main.rs"]);
    }
}
