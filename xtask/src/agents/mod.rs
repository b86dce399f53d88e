//! `cargo xtask agents`: the agent as it is carried to boards, static and stripped, into target/agents.
//! Knows what it must be when it is built; `toolchain` knows how, `machines` for what.

mod machines;
mod toolchain;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::elf::Elf;
use crate::program::{must, no_more, root};
pub(crate) use machines::{MACHINES, Machine};
pub(crate) use toolchain::{Toolchain, ZIG, compiler_with_sources};

const USAGE: &str = "it is: cargo xtask agents [MACHINE…] [--rustup]";

/// Builds those that are named, or all, and says where they are.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let (mut machines, mut rustup) = (Vec::new(), false);
    for word in words {
        match word.to_str() {
            Some("--rustup") => rustup = true,
            Some(name) if !name.starts_with('-') => machines.push(named(name)?),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if machines.is_empty() {
        machines = MACHINES.iter().filter(|machine| !rustup || machine.has_std).collect();
    }
    let toolchain = if rustup { Toolchain::of_rustup(&machines)? } else { Toolchain::of_sources()? };
    for agent in build(&machines, &toolchain)? {
        println!("{}", agent.display());
    }
    Ok(())
}

/// `cargo xtask agent`: the one for this kind of machine.
pub fn run_one(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    no_more(words)?;
    println!("{}", build_one()?.display());
    Ok(())
}

/// The one for x86_64.
pub(crate) fn build_one() -> Result<PathBuf, String> {
    let agents = build(&[named("x86_64")?], &Toolchain::of_sources()?)?;
    agents.into_iter().next().ok_or_else(|| "nothing was built".to_owned())
}

/// Builds them, and makes sure that they are what they should be.
pub(crate) fn build(machines: &[&Machine], toolchain: &Toolchain) -> Result<Vec<PathBuf>, String> {
    let folder = root().join("target/boards");
    let mut command = toolchain.build(machines, &folder);
    must(command.args(["--package=linerate-agent", "--profile=agent"]))?;
    machines.iter().map(|machine| put(machine, &folder.join(machine.target).join("agent/linerate-agent"))).collect()
}

fn named(name: &str) -> Result<&'static Machine, String> {
    let list =
        || MACHINES.iter().map(|machine| format!("\n  {:<8} {}", machine.name, machine.about)).collect::<String>();
    let machine = MACHINES.iter().find(|machine| machine.name == name);
    machine.ok_or_else(|| format!("there is no agent for '{name}'; there are:{}", list()))
}

/// Puts what was built for a machine where agents are looked for.
fn put(machine: &Machine, built: &Path) -> Result<PathBuf, String> {
    let file = fs::read(built).map_err(|error| format!("{} cannot be read: {error}", built.display()))?;
    match Elf::read(&file) {
        Some(elf) if elf.kind != machine.kind => {
            return Err(format!("{} is for another machine: {:?}", built.display(), elf.kind));
        }
        Some(Elf { is_static: false, .. }) => {
            return Err(format!("{} is not static: it names an interpreter (PT_INTERP)", built.display()));
        }
        Some(Elf { is_stripped: false, .. }) => {
            return Err(format!("{} is not stripped: it has a symbol table", built.display()));
        }
        Some(_) => {}
        None => return Err(format!("{} is no program", built.display())),
    }
    let agents = root().join("target/agents");
    let agent = agents.join(format!("linerate-agent-{}", machine.name));
    // Beside its place and then into it, so that an agent that runs from there keeps its file.
    let new = agents.join(format!(".linerate-agent-{}.new", machine.name));
    fs::create_dir_all(&agents)
        .and_then(|()| fs::copy(built, &new))
        .and_then(|_| fs::rename(&new, &agent))
        .map_err(|error| format!("{} cannot be written: {error}", agent.display()))?;
    Ok(agent)
}
