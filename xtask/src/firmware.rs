//! `cargo xtask firmware`: the boards' firmware without an operating system, into target/agents, where `lab up` finds it.
//! Knows how it is built; what it is, its own workspace knows.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agents::{compiler_with_sources, zig};
use crate::elf::Elf;
use crate::program::{cargo, must, root};

const USAGE: &str = "it is: cargo xtask firmware [BOARD…], or: cargo xtask firmware --test";
const SETUP: &str = "cargo xtask setup agents";

/// Each board, and its target in Rust. All of them have libcore from Rust's own installer; here it is built.
const BOARDS: [(&str, &str); 6] = [
    ("sabrelite", "armv7a-none-eabi"),
    ("mcimx6ul-evk", "armv7a-none-eabi"),
    ("zynq-a9", "armv7a-none-eabi"),
    ("zcu102", "aarch64-unknown-none-softfloat"),
    ("sifive-u", "riscv64imac-unknown-none-elf"),
    ("microblaze-v", "riscv32imac-unknown-none-elf"),
];

/// Builds those that are named, or all, and says where they are.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut boards = Vec::new();
    for word in words {
        match word.to_str() {
            Some("--test") => return test(),
            Some(name) if !name.starts_with('-') => boards.push(named(name)?),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let boards = if boards.is_empty() { BOARDS.to_vec() } else { boards };
    let rustc = compiler_with_sources()
        .ok_or(format!("no Rust compiler here has the sources of its core library; '{SETUP}' installs Debian's"))?;
    let linker = linker()?;
    for (board, target) in boards {
        println!("{}", build(board, target, &rustc, &linker)?.display());
    }
    Ok(())
}

fn named(name: &str) -> Result<(&'static str, &'static str), String> {
    let names = || BOARDS.map(|(board, _)| board).join(", ");
    let found = BOARDS.into_iter().find(|(board, _)| *board == name);
    found.ok_or_else(|| format!("there is no firmware for '{name}'; there is for: {}", names()))
}

fn build(board: &str, target: &str, rustc: &Path, linker: &Path) -> Result<PathBuf, String> {
    let folder = root().join("target/firmware");
    let name = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    // These flags take the place of .cargo/config.toml's, which are for other crates. No folder of this machine is named.
    let flags =
        format!("-Clinker-flavor=ld -Crelocation-model=static --remap-path-prefix={}=linerate", root().display());
    let mut command = cargo(&["build", "--quiet", "--locked", "--release", "--bin=firmware"]);
    command.arg("--manifest-path").arg(root().join("firmware/Cargo.toml")).arg("--target-dir").arg(&folder);
    command.args(["--target", target, "--features", board]);
    // Building the core library is not yet a promise of cargo's. It has memcpy and its like, which nobody else brings.
    command.args(["-Zbuild-std=core", "-Zbuild-std-features=compiler-builtins-mem"]);
    command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags).env(name, linker);
    must(&mut command)?;
    let built = folder.join(target).join("release/firmware");
    let file = fs::read(&built).map_err(|error| format!("{} cannot be read: {error}", built.display()))?;
    if !Elf::read(&file).is_some_and(|elf| elf.is_static) {
        return Err(format!("{} is no static program", built.display()));
    }
    let place = root().join("target/agents").join(format!("linerate-firmware-{board}"));
    let new = place.with_extension("new");
    fs::create_dir_all(root().join("target/agents"))
        .and_then(|()| fs::write(&new, file))
        .and_then(|()| fs::rename(&new, &place))
        .map_err(|error| format!("{} cannot be written: {error}", place.display()))?;
    Ok(place)
}

/// A program that is zig's linker for ELF, which knows every board's processor.
fn linker() -> Result<PathBuf, String> {
    let zig = zig().ok_or(format!("zig, whose linker is used, is not installed; '{SETUP}' does that"))?;
    let path = root().join("target/firmware/linker");
    let text = format!("#!/bin/sh\nexec {zig} ld.lld \"$@\"\n");
    fs::create_dir_all(root().join("target/firmware"))
        .and_then(|()| fs::write(&path, text))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(path)
}

/// Formats, lints and tests what the boards answer, on this machine.
fn test() -> Result<(), String> {
    let there = |command: &mut Command| {
        command.current_dir(root().join("firmware")).env("CARGO_TARGET_DIR", root().join("target/firmware"));
        must(command)
    };
    there(&mut cargo(&["fmt", "--check"]))?;
    there(cargo(&["clippy", "--quiet", "--locked", "--lib", "--tests"]).args(["--", "-D", "warnings"]))?;
    there(&mut cargo(&["test", "--quiet", "--locked", "--lib"]))
}
