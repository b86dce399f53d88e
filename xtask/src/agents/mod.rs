//! `cargo xtask agents`: the agent as it is carried to boards, static and stripped, into target/agents.
//! Knows what it must be when it is built; `toolchain` knows how, `machines` for what.

mod machines;
mod smoke;
mod toolchain;

use std::ffi::OsString;
use std::fs;
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::elf::{Elf, loaded};
use crate::measured::write_part;
use crate::program::{must, no_more, root};
pub(crate) use machines::{MACHINES, Machine};
use smoke::Smoke;
pub(crate) use toolchain::{Panic, Toolchain, ZIG, compiler_with_sources, sources_manifest, zig};

const USAGE: &str = "it is: cargo xtask agents [MACHINE…] [--rustup | --built] [--smoke] [--write]";

/// What Rust calls the machines that agents are built for.
pub(crate) fn targets() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|machine| machine.target)
}

/// What a board with 8 MiB of flash, or 32 MiB of memory, can spare.
pub(crate) const FILE_LIMIT: f64 = 2.5 * MIB;
pub(crate) const IDLE_LIMIT: f64 = 6.0 * MIB;
const MIB: f64 = 1024.0 * 1024.0;

/// The document and its part that `--write` replaces.
const DOCUMENT: &str = "docs/boards.md";
const PART: &str = "agents";

/// Builds those that are named, or all, and says where they are; with `--smoke` sees that they work.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let (mut machines, mut rustup, mut built) = (Vec::new(), false, false);
    let (mut write, mut try_out) = (false, false);
    for word in words {
        match word.to_str() {
            Some("--rustup") => rustup = true,
            Some("--built") => built = true,
            Some("--smoke") => try_out = true,
            Some("--write") => write = true,
            Some(name) if !name.starts_with('-') => machines.push(named(name)?),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if machines.is_empty() {
        machines = MACHINES.iter().filter(|machine| !rustup || machine.has_std).collect();
    }
    if write && machines.len() < MACHINES.len() {
        return Err("--write is for the table of all; leave the names out".to_owned());
    }
    let agents = if built {
        machines.iter().map(|machine| place(machine)).collect()
    } else {
        let toolchain = if rustup { Toolchain::of_rustup(&machines)? } else { Toolchain::of_sources()? };
        eprintln!(
            "xtask: building {} of {} agents: from nothing, three to four minutes each on two CPUs; after that, seconds",
            machines.len(),
            MACHINES.len()
        );
        let start = Instant::now();
        let built = build(&machines, &toolchain)?;
        eprintln!("xtask: built in {} s", start.elapsed().as_secs());
        built
    };
    for agent in &agents {
        println!("{}", agent.display());
    }
    if !write && !try_out {
        return Ok(());
    }
    let smoke = Smoke::up()?;
    let (mut rows, mut over) = (String::new(), Vec::new());
    for (machine, agent) in machines.into_iter().zip(&agents) {
        smoke.check(machine, agent)?;
        let file = fs::metadata(agent).map_err(|error| format!("{}: {error}", agent.display()))?.len() as f64;
        let idle = smoke.idle(machine, agent)? as f64;
        if file > FILE_LIMIT || idle > IDLE_LIMIT {
            over.push(machine.name);
        }
        let (name, about) = (machine.name, machine.about);
        rows += &format!("| `{name}` | {about} | {:.2} | {:.2} |\n", file / MIB, idle / MIB);
    }
    let (file, idle) = (FILE_LIMIT / MIB, IDLE_LIMIT / MIB);
    let head = "| agent | for | file, MiB | resident, idle, MiB |\n|---|---|--:|--:|\n";
    let table = format!("{head}{rows}| *at most* | | {file} | {idle} |\n");
    print!("{table}");
    if write {
        write_part(DOCUMENT, PART, &table)?;
    }
    if over.is_empty() { Ok(()) } else { Err(format!("over the limits: {}", over.join(", "))) }
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
    // Flags are of all machines of a command.
    let (plain, featured): (Vec<&Machine>, Vec<&Machine>) =
        machines.iter().copied().partition(|machine| machine.features.is_empty());
    let alike = featured.chunk_by(|one, other| one.features == other.features);
    for group in iter::once(&plain[..]).filter(|plain| !plain.is_empty()).chain(alike) {
        let mut command = toolchain.build(group, &folder, Panic::Aborts)?;
        must(command.args(["--package=linerate-agent", "--profile=agent"]))?;
    }
    machines.iter().map(|machine| put(machine, &folder.join(machine.target).join("agent/linerate-agent"))).collect()
}

pub(crate) fn named(name: &str) -> Result<&'static Machine, String> {
    let list =
        || MACHINES.iter().map(|machine| format!("\n  {:<8} {}", machine.name, machine.about)).collect::<String>();
    let machine = MACHINES.iter().find(|machine| machine.name == name);
    machine.ok_or_else(|| format!("there is no agent for '{name}'; there are:{}", list()))
}

/// Where the agent for a machine is.
pub(crate) fn place(machine: &Machine) -> PathBuf {
    root().join("target/agents").join(format!("linerate-agent-{}", machine.name))
}

/// Puts what was built for a machine where agents are looked for.
fn put(machine: &Machine, built: &Path) -> Result<PathBuf, String> {
    let agent = place(machine);
    put_at(&program_for(machine, built)?, &agent)?;
    Ok(agent)
}

/// What was built for a machine, without what no kernel reads, if it is what is given to others.
pub(crate) fn program_for(machine: &Machine, built: &Path) -> Result<Vec<u8>, String> {
    let file = fs::read(built).map_err(|error| format!("{} cannot be read: {error}", built.display()))?;
    match Elf::read(&file) {
        Some(elf) if elf.kind != machine.kind => {
            return Err(format!("{} is for another machine: {:?}", built.display(), elf.kind));
        }
        Some(Elf { is_static: false, .. }) => {
            return Err(format!("{} is not static: it names an interpreter (PT_INTERP)", built.display()));
        }
        Some(_) => {}
        None => return Err(format!("{} is no program", built.display())),
    }
    let program = loaded(&file).ok_or_else(|| format!("{} is cut off", built.display()))?;
    // Not every linker strips; what is left has no sections.
    if !Elf::read(&program).is_some_and(|elf| elf.is_stripped) {
        return Err(format!("{} is not stripped: it has a symbol table", built.display()));
    }
    Ok(program)
}

/// Writes a program beside its place and then into it, so that one that runs from there keeps its file.
pub(crate) fn put_at(program: &[u8], place: &Path) -> Result<(), String> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let new = place.with_file_name(format!(".{name}.new"));
    fs::create_dir_all(place.parent().unwrap_or(Path::new(".")))
        .and_then(|()| fs::write(&new, program))
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&new, place))
        .map_err(|error| format!("{} cannot be written: {error}", place.display()))
}
