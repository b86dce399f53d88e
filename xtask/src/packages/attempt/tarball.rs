//! The tarball, unpacked into a root that has nothing else: no C library, no shell.
//! What runs there runs on any distribution.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{check_controller, here, inside};
use crate::packages::VERSION;
use crate::program::{must, output_of};

pub(super) fn check(folder: &Path, scratch: &Path, agents: &[&str]) -> Result<(), String> {
    let prefix = scratch.join("usr/local");
    fs::create_dir_all(&prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    let archive = folder.join(format!("linerate-{VERSION}-{}.tar.gz", here()?));
    // As docs/install.md says.
    must(Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(&archive).arg("-C").arg(&prefix))?;
    must(Command::new("sha256sum").args(["--check", "--quiet", "share/doc/linerate/SHA256SUMS"]).current_dir(&prefix))?;
    for file in ["share/man/man1/linerate.1", "share/man/man1/linerate-run.1", "share/doc/linerate/LICENSE-MIT"] {
        if !prefix.join(file).is_file() {
            return Err(format!("{} has no {file}", archive.display()));
        }
    }
    for (shell, file) in [
        ("bash", "share/bash-completion/completions/linerate"),
        ("zsh", "share/zsh/site-functions/_linerate"),
        ("fish", "share/fish/vendor_completions.d/linerate.fish"),
    ] {
        // The one that the packed program writes, and not another's; it names the program as a shell finds it.
        let text = fs::read_to_string(prefix.join(file)).map_err(|error| format!("{file}: {error}"))?;
        if !text.contains("linerate") || text.contains("target/") {
            return Err(format!("{file} is no completion of {shell} for linerate: {text}"));
        }
    }
    check_controller(scratch, &[], "/usr/local/bin/linerate")?;
    for machine in agents {
        let agent = format!("lib/linerate/agents/linerate-agent-{machine}");
        if !prefix.join(&agent).is_file() {
            return Err(format!("{} has no {agent}", archive.display()));
        }
    }
    if !agents.contains(&here()?) {
        return Ok(());
    }
    let agent = format!("/usr/local/lib/linerate/agents/linerate-agent-{}", here()?);
    let help = output_of(&mut inside(scratch, &[], &[&agent, "--help"]))?;
    if help.contains("--stdio") { Ok(()) } else { Err(format!("{agent} --help says: {help}")) }
}
