//! `cargo xtask packages --try`: each package used as its readers would, in roots where nothing else is.
//! Knows files by their names, as whoever downloads them does; nothing of how they were packed.

mod debian;
mod image;
mod recipes;
mod tarball;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::SUMS;
use super::release::CONTROLLERS;
use crate::program::{must, output_of};
use crate::scratch::Scratch;

/// Tries all that is in `folder`, with the agents for these machines. `is_whole`: it was built as it is given to people, and its
/// sizes are held to.
pub(super) fn run(folder: &Path, agents: &[&str], is_whole: bool) -> Result<(), String> {
    must(Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(folder))?;
    let scratch = Scratch::new("packages")?;
    tarball::check(folder, &scratch.folder("tarball")?, agents)?;
    image::check(folder, &scratch.folder("image")?, is_whole)?;
    recipes::check(folder, &scratch.folder("recipes")?, agents)?;
    debian::check(folder, &scratch.folder("debian")?)?;
    println!("xtask: tarball, image, recipes and Debian packages do what they should");
    Ok(())
}

/// The machine's name in the names of files; `None`: nothing is packed for this one.
fn here() -> Result<&'static str, String> {
    let here = CONTROLLERS.iter().find(|one| one.runs_here());
    here.map(|one| one.machine).ok_or_else(|| format!("no controller is packed for {}", std::env::consts::ARCH))
}

/// A program in a root of its own, with a loopback of its own and nothing of this machine (bwrap(1)). `more`: bwrap's options.
fn inside(root: &Path, more: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    command
        .arg("--bind")
        .arg(root)
        .arg("/")
        .args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"]);
    command.args(["--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--clearenv"]);
    command.args(["--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/sbin:/usr/bin:/sbin:/bin"]);
    command.args(more).arg("--").args(words);
    command
}

/// A controller in there says its version and its licences, has its agents beside it, and measures over the loopback.
fn check_controller(root: &Path, more: &[&str], program: &str) -> Result<(), String> {
    let said = |words: &[&str]| output_of(&mut inside(root, more, &[&[program][..], words].concat()));
    let version = said(&["--version"])?;
    if version.trim() != format!("linerate {}", super::VERSION) {
        return Err(format!("{program} --version says '{}'", version.trim()));
    }
    let licences = said(&["licences"])?;
    if !["COMMON DEVELOPMENT AND DISTRIBUTION LICENSE", "musl"].iter().all(|words| licences.contains(words)) {
        return Err(format!("{program} licences lacks some of them"));
    }
    let run = ["run", "udp-stream", "--target", "local", "--set", "duration=1s", "--set", "rate=20M"];
    let records = said(&[&run[..], &["--set", "direction=rx", "--quiet", "--json"]].concat())?;
    let record: Value = serde_json::from_str(&records).map_err(|error| format!("{program} run: {error}: {records}"))?;
    // Asked for 20 Mbit/s over a loopback, within what a busy machine's clock does to a second.
    match record["result"]["throughput_bps"].as_f64() {
        Some(bps) if (15e6..25e6).contains(&bps) => Ok(()),
        _ => Err(format!("{program} run: 20 Mbit/s were asked for, and the record says {}", record["result"])),
    }
}
