//! What is linked into the programs of a package: the crates of the lock file that cargo puts into them, for every machine.
//! Knows no licence's text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agents::targets;
use crate::packages::FEATURES;
use crate::program::{cargo, output_of};

/// A crate from outside that is in one of the programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Linked {
    pub(super) name: String,
    pub(super) version: String,
}

/// What its manifest says of a crate.
pub(super) struct About {
    /// The SPDX expression.
    pub(super) licence: String,
    pub(super) authors: Vec<String>,
    /// Where its source is to be had, beside the registry.
    pub(super) repository: String,
    /// Where its files are on this machine.
    pub(super) folder: PathBuf,
}

/// Every crate from outside that is linked into linerate or an agent. What runs only while they are compiled (build scripts,
/// procedural macros), and what tests alone use, is in neither.
pub(super) fn crates() -> Result<BTreeSet<Linked>, String> {
    let mut command = cargo(&["tree", "--locked", "--package=linerate", "--package=linerate-agent"]);
    command.args(["--edges=normal,no-proc-macro", "--prefix=none", "--format={p}"]);
    command.arg(format!("--features={FEATURES}"));
    command.args(targets().flat_map(|target| ["--target", target]));
    Ok(output_of(&mut command)?.lines().filter_map(read).collect())
}

/// A line of `cargo tree`: `name v1.2.3`, and behind that the folder of what is ours, or a mark.
fn read(line: &str) -> Option<Linked> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let is_ours = words.next().is_some_and(|word| word.starts_with("(/"));
    (!is_ours).then(|| Linked { name: name.to_owned(), version: version.to_owned() })
}

/// What the manifests say.
pub(super) fn about() -> Result<BTreeMap<Linked, About>, String> {
    let mut command = cargo(&["metadata", "--format-version=1", "--locked"]);
    command.arg(format!("--features={FEATURES}"));
    // Without this, cargo fetches what only other systems need, too.
    command.args(targets().flat_map(|target| ["--filter-platform", target]));
    let said: Value =
        serde_json::from_str(&output_of(&mut command)?).map_err(|error| format!("cargo metadata: {error}"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |package: &Value| {
        let linked = Linked { name: text(&package["name"]), version: text(&package["version"]) };
        let authors = package["authors"].as_array().into_iter().flatten().map(text).collect();
        let about = About {
            licence: text(&package["license"]),
            authors,
            repository: text(&package["repository"]),
            folder: Path::new(package["manifest_path"].as_str()?).parent()?.to_owned(),
        };
        Some((linked, about))
    };
    Ok(said["packages"].as_array().into_iter().flatten().filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargos_tree() {
        let linked = |name: &str, version: &str| Some(Linked { name: name.to_owned(), version: version.to_owned() });
        assert_eq!(read("hyper v1.12.0"), linked("hyper", "1.12.0"));
        assert_eq!(read("serde v1.0.229 (*)"), linked("serde", "1.0.229"));
        assert_eq!(read("linerate-wire v0.1.0 (/somewhere/crates/wire)"), None);
        assert_eq!(read(""), None);
    }
}
