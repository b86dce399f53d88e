//! `cargo xtask tidy`: the rules of this repository that no compiler knows.
//! Knows how a rule is run and told; `rust`, `texts`, `imports`, `map`, `circles` and `sentences` are the rules. They run as a test too.

mod circles;
mod files;
mod imports;
mod map;
mod rust;
mod sentences;
mod texts;
mod uses;
mod words;

use std::ffi::OsString;
use std::fmt;

use crate::licences;
use crate::program::{no_more, root};
use files::File;

/// A rule that a file breaks.
#[derive(Debug)]
pub struct Finding {
    /// Where, from the repository's top folder, with the line where one is meant.
    pub place: String,
    /// What, in a sentence that says what to do.
    pub what: String,
    /// It is worth a thought and breaks nothing.
    pub warning: bool,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { place: place.into(), what: what.into(), warning: false }
    }

    fn warning(place: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { warning: true, ..Finding::new(place, what) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.warning { "warning: " } else { "" };
        write!(f, "{word}{}: {}", self.place, self.what)
    }
}

/// Prints what breaks a rule.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    let findings = findings()?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    let broken = findings.iter().filter(|finding| !finding.warning).count();
    if broken > 0 {
        return Err(format!("{broken} places break a rule; see above"));
    }
    Ok(())
}

/// Every place that breaks a rule.
pub fn findings() -> Result<Vec<Finding>, String> {
    let files = files::all(&root())?;
    let mut findings: Vec<Finding> = files.iter().flat_map(rules).collect();
    findings.extend(imports::check(&files)?);
    findings.extend(map::check(&files));
    findings.extend(circles::check(&files));
    findings.extend(sentences::check(&files));
    let licences = licences::differences()?
        .into_iter()
        .map(|what| Finding::new(licences::DOCUMENT, format!("{what}; run cargo xtask licences")));
    findings.extend(licences);
    Ok(findings)
}

fn rules(file: &File) -> Vec<Finding> {
    let mut findings = texts::check(file);
    if file.path.ends_with(".rs") {
        findings.extend(rust::check(file));
    }
    findings
}
