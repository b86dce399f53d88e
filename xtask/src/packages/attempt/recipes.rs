//! The Yocto recipe and the Buildroot package, as far as Python and make can tell without BitBake and Buildroot: their code is
//! run for every machine, and what it installs is looked at. Their own checkers are not here.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::packages::VERSION;
use crate::packages::archive::sha256;
use crate::program::must;

/// Runs a recipe's code with what BitBake would give it.
const BITBAKE: &str = include_str!("recipe.py");

/// A machine as Buildroot's configuration calls it, and the agent for it.
const BUILDROOT: [(&str, &str); 9] = [
    ("BR2_ARCH=\"x86_64\"", "x86_64"),
    ("BR2_ARCH=\"aarch64\"", "aarch64"),
    ("BR2_ARCH=\"arm\" BR2_arm=y BR2_ARM_EABIHF=y BR2_ARM_CPU_ARMV7A=y", "armv7"),
    ("BR2_ARCH=\"arm\" BR2_arm=y BR2_ARM_CPU_ARMV7A=y", "armv5"),
    ("BR2_ARCH=\"arm\" BR2_arm=y BR2_ARM_CPU_ARMV5=y", "armv5"),
    ("BR2_ARCH=\"mips\"", "mips"),
    ("BR2_ARCH=\"mipsel\"", "mipsel"),
    ("BR2_ARCH=\"powerpc\"", "powerpc"),
    ("BR2_ARCH=\"riscv64\"", "riscv64"),
];

pub(super) fn check(folder: &Path, scratch: &Path, agents_of: &[&str]) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", scratch.display());
    for name in ["linerate-yocto", "linerate-buildroot", "linerate-agents"] {
        let archive = folder.join(format!("{name}-{VERSION}.tar.gz"));
        must(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(scratch))?;
    }
    let agents = scratch.join(format!("linerate-agents-{VERSION}"));
    let script = scratch.join("recipe.py");
    fs::write(&script, BITBAKE).map_err(wrong)?;
    let recipe = format!("meta-linerate/recipes-benchmark/linerate-agent/linerate-agent-bin_{VERSION}.bb");
    let recipe = scratch.join(format!("linerate-yocto-{VERSION}")).join(recipe);
    let archive = folder.join(format!("linerate-agents-{VERSION}.tar.gz"));
    // For a machine whose agent was not built, what would be installed is not there.
    must(Command::new("python3").arg("-B").arg(&script).arg(&recipe).arg(&archive).arg(&agents).args(agents_of))?;

    let package = scratch.join(format!("linerate-buildroot-{VERSION}/package/linerate-agent"));
    let hashes = fs::read_to_string(package.join("linerate-agent.hash")).map_err(wrong)?;
    for line in hashes.lines().filter(|line| line.starts_with("sha256")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, sum, name] = words[..] else { return Err(format!("linerate-agent.hash: {line}")) };
        let place = if name.ends_with(".tar.gz") { folder.join(name) } else { agents.join(name) };
        if sha256(&fs::read(&place).map_err(wrong)?)? != sum {
            return Err(format!("linerate-agent.hash has another checksum of {name}"));
        }
    }
    for (config, machine) in BUILDROOT.into_iter().filter(|(_, machine)| agents_of.contains(machine)) {
        let target = scratch.join("target");
        let (build, config) = (agents.display(), config.replace(' ', "\n"));
        let text = format!(
            "qstrip = $(strip $(subst \",,$(1)))\nINSTALL = install\nTARGET_DIR = {}\n{config}\n\
             BR2_PACKAGE_LINERATE_AGENT = y\nBR2_PACKAGE_LINERATE_AGENT_RELEASE = \"file:///srv\"\n\
             include {}\n{build}/.stamp:\n\t$(LINERATE_AGENT_INSTALL_TARGET_CMDS)\n",
            target.display(),
            package.join("linerate-agent.mk").display()
        );
        let makefile = scratch.join("Makefile");
        fs::write(&makefile, text).map_err(wrong)?;
        must(Command::new("make").args(["--silent", "-f"]).arg(&makefile).arg(agents.join(".stamp")))?;
        let (there, wanted) = (target.join("usr/bin/linerate-agent"), agents.join(format!("linerate-agent-{machine}")));
        if fs::read(&there).map_err(wrong)? != fs::read(&wanted).map_err(wrong)? {
            return Err(format!("linerate-agent.mk installs another agent than {machine} for {config}"));
        }
        fs::remove_dir_all(&target).map_err(wrong)?;
    }
    Ok(())
}
