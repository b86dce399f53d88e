//! `cargo xtask fresh`: does what README.md tells a stranger, in a clone of the last commit.
//! Knows no command of README.md; they stand there under a comment.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::markdown::shell_blocks;
use crate::program::{must, no_more, program, root};

/// Stands in README.md above each shell block that is run.
const COMMENT: &str = "<!-- run by cargo xtask fresh -->";

/// What cargo tells the programs that it starts; a stranger's shell has none of it.
const FROM_CARGO: [&str; 6] =
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_PRIMARY_", "CARGO_TARGET_", "LD_LIBRARY_PATH"];

/// Clones, and runs each block of README.md.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    let readme = fs::read_to_string(root().join("README.md")).map_err(|error| format!("README.md: {error}"))?;
    let blocks = shell_blocks(&readme, COMMENT);
    if blocks.is_empty() {
        return Err(format!("README.md has no shell block under the line {COMMENT}"));
    }
    let clone = std::env::temp_dir().join(format!("linerate-fresh-{}", std::process::id()));
    let path = clone.to_str().ok_or("the folder for temporary files has a name that is no text; set TMPDIR")?;
    must(&mut program("git", &["clone", "--quiet", "--no-hardlinks", &root().display().to_string(), path]))?;
    for block in blocks {
        let started = Instant::now();
        let mut shell = Command::new("bash");
        shell.args(["-euxo", "pipefail", "-c", block]).current_dir(&clone).env_remove("CARGO");
        for (name, _) in std::env::vars_os() {
            if FROM_CARGO.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                shell.env_remove(name);
            }
        }
        must(&mut shell).map_err(|error| format!("{error}; it ran in {path}, which is still there"))?;
        eprintln!("xtask: that took {} s", started.elapsed().as_secs());
    }
    fs::remove_dir_all(&clone).map_err(|error| format!("{path} cannot be removed: {error}"))
}
