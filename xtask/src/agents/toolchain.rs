//! The two ways to compile for a board: a compiler with its own sources and zig to link, or rustup's targets.
//! Knows how a build is started, not what is done with it.
//!
//! Rust's standard library comes ready for few of a board's machines, and for none of them from Debian; with its
//! sources it is built like any other crate. Zig has a C library (musl) and a linker for all of them in one package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::machines::Machine;
use crate::program::{cargo, is_installed, output_of, program, root};

/// How to compile.
pub(crate) enum Toolchain {
    /// The standard library is built from the compiler's sources.
    Sources {
        /// The compiler.
        rustc: PathBuf,
    },
    /// `rustup target add`.
    Rustup,
}

/// What a program does when it panics.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Panic {
    /// It ends: an agent must not be left half alive.
    Aborts,
    /// The thread ends: a server goes on serving others.
    Unwinds,
}

/// What a compiler with sources has in its sysroot.
const SOURCES: &str = "lib/rustlib/src/rust/library/Cargo.lock";
/// Where setup puts zig, beside what else is built: a Python environment.
pub(crate) const ZIG: &str = "target/zig";
/// How it is got.
const SETUP: &str = "cargo xtask setup agents";

impl Toolchain {
    /// The compiler that has its sources with it, and zig.
    pub(crate) fn of_sources() -> Result<Toolchain, String> {
        let rustc = compiler_with_sources().ok_or(format!(
            "no Rust compiler here has the sources of its standard library; '{SETUP}' installs Debian's, \
             'rustup component add rust-src' adds them to rustup's"
        ))?;
        if zig_path().is_none() {
            return Err(format!("cargo-zigbuild and zig are not installed; '{SETUP}' does that"));
        }
        Ok(Toolchain::Sources { rustc })
    }

    /// The targets that rustup has installed.
    pub(crate) fn of_rustup(machines: &[&Machine]) -> Result<Toolchain, String> {
        let sysroot = output_of(program("rustc", &["--print", "sysroot"]).env_remove("RUSTC"))?;
        let rustlib = Path::new(sysroot.trim()).join("lib/rustlib");
        let missing = |machine: &&&Machine| !rustlib.join(machine.target).join("lib").is_dir();
        let missing: Vec<&str> = machines.iter().filter(missing).map(|machine| machine.target).collect();
        if missing.is_empty() {
            Ok(Toolchain::Rustup)
        } else {
            Err(format!("the compiler lacks targets; install them: rustup target add {}", missing.join(" ")))
        }
    }

    /// The command that builds a package's program for these machines, which have the same features, statically, into `folder`.
    pub(crate) fn build(&self, machines: &[&Machine], folder: &Path, panic: Panic) -> Result<Command, String> {
        let features = machines.first().map_or("", |machine| machine.features);
        let given = std::env::var("RUSTFLAGS").unwrap_or_default();
        let mut flags = format!("{given} -Ctarget-feature=+crt-static{features}");
        // These flags take the place of .cargo/config.toml's, which says why.
        flags += " --cfg=curve25519_dalek_backend=\"serial\"";
        if panic == Panic::Aborts {
            // Names in a backtrace are stripped anyway, and the tables would be a tenth of the file.
            flags += " -Cforce-unwind-tables=no";
            if matches!(self, Toolchain::Sources { .. }) {
                // Zig links so that code stands at one address; what could stand anywhere would be larger.
                flags += " -Crelocation-model=static";
                // LLVM for PowerPC makes one block of all constants, which saves registers where addresses come out of a table; where they
                // do not, each first use takes one more instruction. The option is taken for every machine, and changes no other's code.
                flags += " -Cllvm-args=-ppc-global-merge=false";
            }
        }
        // What a panic says names no folder of this machine.
        for (path, name) in [(Some(root()), "linerate"), (cargo_home(), "cargo")] {
            flags += &path.map(|path| format!(" --remap-path-prefix={}={name}", path.display())).unwrap_or_default();
        }
        let mut command = match self {
            Toolchain::Rustup => {
                // These targets bring their C library along, and the compiler its linker.
                flags += " -Clinker=rust-lld -Clink-self-contained=yes";
                cargo(&["build"])
            }
            Toolchain::Sources { rustc } => {
                // Zig brings the C library.
                flags += " -Clink-self-contained=no";
                let mut command = program("cargo-zigbuild", &["zigbuild"]);
                if panic == Panic::Aborts {
                    command.arg("-Zbuild-std=std,panic_abort");
                    // Nothing that reads backtraces: a program without symbols has none, and it would be a tenth of the file. Sorting,
                    // printing and searching as small as they are written.
                    command.arg("-Zbuild-std-features=optimize_for_size");
                } else {
                    command.arg("-Zbuild-std=std,panic_unwind");
                }
                // Building the standard library is not yet a promise of cargo's.
                command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
                command.env("PATH", zig_path().unwrap_or_default());
                command
            }
        };
        for machine in machines {
            if let (Toolchain::Sources { .. }, Some(zig)) = (self, machine.zig) {
                let name = format!("CARGO_TARGET_{}_LINKER", machine.target.to_uppercase().replace('-', "_"));
                command.env(name, linker(zig, folder)?);
            }
            // With --target the flags do not reach build scripts and procedural macros, which cannot be static.
            command.args(["--target", machine.target]);
        }
        command.env("RUSTFLAGS", flags.trim()).arg("--target-dir").arg(folder);
        Ok(command)
    }
}

/// A program that links for what zig calls `zig`: cargo-zigbuild's, told the name.
fn linker(zig: &str, folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join(format!("linker-{zig}"));
    let text = format!("#!/bin/sh\nexec cargo-zigbuild zig cc -- -g -fno-sanitize=all -target {zig} \"$@\"\n");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(path)
}

/// Where a compiler has the sources of its standard library: the manifest of its workspace.
pub(crate) fn sources_manifest(rustc: &Path) -> Option<PathBuf> {
    let sysroot = output_of(Command::new(rustc).args(["--print", "sysroot"])).unwrap_or_default();
    let lock = Path::new(sysroot.trim()).join(SOURCES);
    (!sysroot.is_empty() && lock.is_file()).then(|| lock.with_extension("toml"))
}

/// The first compiler that has its own standard library's sources with it: a library of another version's does not
/// compile.
pub(crate) fn compiler_with_sources() -> Option<PathBuf> {
    // Debian's is not always the first in PATH.
    let candidates = ["rustc", "/usr/bin/rustc"].map(PathBuf::from);
    candidates.into_iter().find(|rustc| sources_manifest(rustc).is_some())
}

/// PATH with cargo-zigbuild and the Python that has zig, or one that has both already; `None`: they are nowhere.
fn zig_path() -> Option<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = root().join(ZIG).join("bin");
    if own.join("cargo-zigbuild").is_file() {
        return std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path))).ok();
    }
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    (has("cargo-zigbuild") && has("zig")).then_some(path)
}

/// Zig, as a shell's words: the Python environment's, or the one in PATH.
pub(crate) fn zig() -> Option<String> {
    let own = root().join(ZIG).join("bin/python");
    if own.is_file() {
        return Some(format!("'{}' -m ziglang", own.display()));
    }
    is_installed("zig").then(|| "zig".to_owned())
}

fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}
