//! The rule of who may import whom: the table in ARCHITECTURE.md, held against `cargo metadata`.
//! Knows no crate by name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;
use super::files::File;
use crate::markdown::{code_words, table};
use crate::program::{cargo, output_of};

const DOCUMENT: &str = "ARCHITECTURE.md";
const PREFIX: &str = "linerate-";
/// A cell that allows everything.
const ALL: &str = "all";

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Each import that the table does not allow, and each crate that has no row.
pub(super) fn check(files: &[File]) -> Result<Vec<Finding>, String> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return Ok(vec![Finding::new(DOCUMENT, "is missing, and with it the table of who may import whom")]);
    };
    let metadata = output_of(&mut cargo(&["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(compare(&document.text, &actual(&metadata)))
}

/// Who imports whom, tests' imports left out: a test may use what its crate may not.
fn actual(metadata: &Value) -> Imports {
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = each(&metadata["packages"]);
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let of = |package: &Value| {
        let dependencies = each(&package["dependencies"]).into_iter().filter(|one| one["kind"].as_str() != Some("dev"));
        let ours = dependencies.filter_map(|one| one["name"].as_str().filter(|name| names.contains(name)).map(short));
        Some((short(package["name"].as_str()?), ours.collect()))
    };
    packages.iter().filter_map(of).collect()
}

fn short(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

fn compare(document: &str, actual: &Imports) -> Vec<Finding> {
    let Some(rows) = table(document, ["crate", "may import"]) else {
        return vec![Finding::new(DOCUMENT, "has no table with the columns 'crate' and 'may import'")];
    };
    let mut allowed: BTreeMap<&str, Option<BTreeSet<&str>>> = BTreeMap::new();
    for (name, imports) in rows {
        let set = (imports != ALL).then(|| code_words(imports).collect());
        allowed.extend(code_words(name).map(|name| (name, set.clone())));
    }
    let mut findings = Vec::new();
    for (name, imports) in actual {
        let Some(allowed) = allowed.get(name.as_str()) else {
            findings.push(Finding::new(DOCUMENT, format!("has no row for the crate `{name}`")));
            continue;
        };
        let Some(allowed) = allowed else { continue };
        for import in imports.iter().filter(|import| !allowed.contains(import.as_str())) {
            let what = format!("`{name}` imports `{import}`, which its row does not allow; mend the crate, or the row");
            findings.push(Finding::new(DOCUMENT, what));
        }
    }
    let gone = allowed.keys().filter(|name| !actual.contains_key(**name));
    findings.extend(gone.map(|name| Finding::new(DOCUMENT, format!("has a row for `{name}`, which is no crate"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| crate | may import |\n|---|---|\n| `a` | – |\n| `b` | `a` |\n| `c` | all |\n";

    #[track_caller]
    fn check_imports(metadata: &str, expected: &[&str]) {
        let findings = compare(TABLE, &actual(&serde_json::from_str(metadata).unwrap()));
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(part), "{finding}");
        }
    }

    #[test]
    fn only_what_the_table_allows() {
        let good = r#"{"packages": [
            {"name": "linerate-a", "dependencies": [{"name": "serde", "kind": null}, {"name": "linerate-b", "kind": "dev"}]},
            {"name": "linerate-b", "dependencies": [{"name": "linerate-a", "kind": null}]},
            {"name": "c", "dependencies": [{"name": "linerate-a", "kind": null}, {"name": "linerate-b", "kind": "build"}]}]}"#;
        check_imports(good, &[]);
        let bad = r#"{"packages": [
            {"name": "linerate-a", "dependencies": [{"name": "linerate-b", "kind": "build"}]},
            {"name": "linerate-b", "dependencies": []},
            {"name": "linerate-d", "dependencies": []}]}"#;
        check_imports(bad, &["`a` imports `b`", "no row for the crate `d`", "row for `c`"]);
    }

    #[test]
    fn a_document_without_the_table() {
        assert_eq!(compare("| crate | for |\n|---|---|\n", &Imports::new()).len(), 1);
    }
}
