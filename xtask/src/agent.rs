//! `cargo xtask agent`: the agent as it is carried to a board, static and stripped, into target/agents.
//! Knows how it is built and what it must be; `agent_size` measures it.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::elf::Elf;
use crate::program::{cargo, must, no_more, root};

/// glibc, because its static library comes with every C compiler of Debian; musl would be one more thing to install.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds it and says where it is.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    let agent = build()?;
    println!("{}", agent.display());
    Ok(())
}

/// Builds it, and makes sure that it is what it should be.
pub(crate) fn build() -> Result<PathBuf, String> {
    let flags = format!("{} -Ctarget-feature=+crt-static", std::env::var("RUSTFLAGS").unwrap_or_default());
    // With --target the flags do not reach build scripts and procedural macros, which cannot be static.
    let mut build = cargo(&["build", "--package=linerate-agent", "--profile=agent", "--target", TARGET]);
    must(build.args(["--target-dir", "target"]).env("RUSTFLAGS", flags.trim()))?;

    let target = root().join("target");
    let built = target.join(TARGET).join("agent/linerate-agent");
    let file = fs::read(&built).map_err(|error| format!("{} cannot be read: {error}", built.display()))?;
    match Elf::read(&file) {
        Some(Elf { is_static: true, is_stripped: true }) => {}
        Some(Elf { is_static: false, .. }) => {
            return Err(format!("{} is not static: it names an interpreter (PT_INTERP)", built.display()));
        }
        Some(Elf { is_stripped: false, .. }) => {
            return Err(format!("{} is not stripped: it has a symbol table", built.display()));
        }
        None => return Err(format!("{} is no program for a 64-bit little-endian machine", built.display())),
    }
    let agents = target.join("agents");
    let agent = agents.join("linerate-agent-x86_64");
    // Beside its place and then into it, so that an agent that runs from there keeps its file.
    let new = agents.join(".linerate-agent-x86_64.new");
    fs::create_dir_all(&agents)
        .and_then(|()| fs::copy(&built, &new))
        .and_then(|_| fs::rename(&new, &agent))
        .map_err(|error| format!("{} cannot be written: {error}", agent.display()))?;
    Ok(agent)
}
