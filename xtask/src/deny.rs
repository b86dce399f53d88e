//! `cargo xtask deny`: cargo-deny over all dependencies, and the tool itself, of one version, where it is not there yet.
//! Knows no licence and no crate; deny.toml does.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::program::{cargo, must, no_more, root};

/// There is no package of it in Debian, and PyPI's is too old for deny.toml. Six minutes of one CPU, once.
const VERSION: &str = "0.20.2";
/// Where it is put, beside what else is built.
const TOOLS: &str = "target/tools";

/// Licences, bans and sources; and advisories, where their database can be had.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    let tool = installed()?;
    // `--locked`: what is checked is what is built.
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&tool);
        command.current_dir(root()).args(["--locked"]).args(arguments);
        command
    };
    must(&mut deny(&["check", "licenses", "bans", "sources"]))?;
    // The database is a repository elsewhere, which changes without a change here.
    if deny(&["fetch", "db"]).status().is_ok_and(|status| status.success()) {
        must(&mut deny(&["check", "advisories"]))
    } else {
        eprintln!("SKIPPED cargo deny check advisories: the database of RustSec could not be fetched");
        Ok(())
    }
}

/// The tool of the right version, installed if need be.
fn installed() -> Result<PathBuf, String> {
    let folder = root().join(TOOLS);
    let tool = folder.join("bin/cargo-deny");
    let said = Command::new(&tool).arg("--version").output();
    if !said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == format!("cargo-deny {VERSION}")) {
        let mut install = cargo(&["install", "cargo-deny", "--locked", "--force", "--version", VERSION, "--root"]);
        // Its speed does not matter, and building it fast does.
        install.arg(&folder).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
        must(install.env("CARGO_TARGET_DIR", root().join("target/tools/build")))?;
    }
    Ok(tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::targets;

    #[test]
    fn what_is_built_is_what_is_checked() {
        let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
        let list = text.split_once("targets = [").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
        let mut named: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        let mut built: Vec<&str> = targets().chain(["x86_64-unknown-linux-gnu"]).collect();
        named.sort_unstable();
        built.sort_unstable();
        assert_eq!(named, built, "deny.toml's targets, and those that cargo xtask agents builds");
    }
}
