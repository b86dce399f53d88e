//! What a release is: its version, its time, and the machines that its controllers are for.
//! Knows how programs for it are built; not how they are packed.

use std::path::PathBuf;

use super::archive::Epoch;
use crate::agents::{MACHINES, Machine, Panic, Toolchain, named, place, program_for, put_at};
use crate::program::{must, output_of, program, root};

/// What the controllers of packages can do, beside what is built by default.
pub(crate) const FEATURES: &str = "linerate/authentication,linerate/postgres,linerate/nats";

/// A kind of machine that controllers are packed for.
#[derive(Debug)]
pub(super) struct Controller {
    /// As agents are called.
    pub(super) machine: &'static str,
    /// As Debian calls it.
    pub(super) debian: &'static str,
    /// As images call it (Go's GOARCH).
    pub(super) image: &'static str,
}

pub(super) const CONTROLLERS: [Controller; 2] = [
    Controller { machine: "x86_64", debian: "amd64", image: "amd64" },
    Controller { machine: "aarch64", debian: "arm64", image: "arm64" },
];

/// How controllers are compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// For people: the profile `dist`.
    Dist,
    /// To see that packing works: built in minutes, slow and large.
    Quick,
}

impl Controller {
    fn machine(&self) -> Result<&'static Machine, String> {
        named(self.machine)
    }

    /// Where its program is put.
    pub(super) fn place(&self) -> PathBuf {
        root().join("target/controllers").join(format!("linerate-{}", self.machine))
    }

    /// Whether its program runs on this machine.
    pub(super) fn runs_here(&self) -> bool {
        self.machine == std::env::consts::ARCH
    }
}

/// Builds the controllers, static as the agents are.
pub(super) fn build(controllers: &[&Controller], speed: Speed) -> Result<(), String> {
    let machines = controllers.iter().map(|one| one.machine()).collect::<Result<Vec<_>, _>>()?;
    let folder = root().join("target/boards");
    let mut command = Toolchain::of_sources()?.build(&machines, &folder, Panic::Unwinds)?;
    let (profile, inner) = match speed {
        Speed::Dist => ("dist", "dist"),
        Speed::Quick => ("dev", "debug"),
    };
    command.args(["--locked", "--package=linerate", "--bin=linerate"]);
    must(command.arg(format!("--features={FEATURES}")).arg(format!("--profile={profile}")))?;
    for (controller, machine) in controllers.iter().zip(machines) {
        let built = folder.join(machine.target).join(inner).join("linerate");
        put_at(&program_for(machine, &built)?, &controller.place())?;
    }
    Ok(())
}

/// The agents, by the names of their machines. In a release there are all; to see that packing works, those that are built are
/// enough, and the others are named.
pub(super) fn agents(speed: Speed) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let (mut agents, mut missing) = (Vec::new(), Vec::new());
    for machine in &MACHINES {
        match std::fs::read(place(machine)) {
            Ok(program) => agents.push((machine.name, program)),
            Err(_) => missing.push(machine.name),
        }
    }
    if missing.is_empty() {
        return Ok(agents);
    }
    let sentence = format!("no agents for {}; cargo xtask agents builds them", missing.join(", "));
    if speed == Speed::Dist || agents.is_empty() {
        return Err(sentence);
    }
    eprintln!("xtask: packed without these: {sentence}");
    Ok(agents)
}

/// The workspace's version, which is every package's.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// When the release was made: SOURCE_DATE_EPOCH (reproducible-builds.org, *SOURCE_DATE_EPOCH specification*), or the time of the
/// last commit.
pub(super) fn epoch() -> Result<Epoch, String> {
    let (text, from) = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => (text, "SOURCE_DATE_EPOCH"),
        Err(_) => {
            let said = output_of(&mut program("git", &["log", "-1", "--format=%ct"]));
            let said =
                said.map_err(|error| format!("{error}; without git, set SOURCE_DATE_EPOCH to seconds since 1970"))?;
            (said, "git")
        }
    };
    let seconds =
        text.trim().parse().map_err(|_| format!("{from} says '{}', which are no seconds since 1970", text.trim()))?;
    Ok(Epoch(seconds))
}
