//! Emulated boards: QEMU with the real Linux drivers of their ports and an agent inside, or with our own firmware and no OS;
//! and a cable to a host here.
//! Knows nothing of trials and records, and makes no conversation: it carries the octets of one.
//!
//! A board lives in the process that started it and ends with it, however that ends. Others find it by the sockets
//! in its folder.

mod bare;
mod definition;
mod folder;
mod initramfs;
mod machine;
mod malta;
mod mcimx6ul_evk;
mod monitor;
mod parts;
mod relay;
mod sabrelite;
mod table;
mod virt;
mod zcu102;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use definition::{Arch, Board, Program};
pub use folder::{Folders, Running};
pub use machine::{Boot, HostAgent, Machine};
pub use table::BOARDS;

use definition::{BareMetal, DeviceTree, LinuxSystem, Software};
use parts::Parts;

/// Why there is no board. Each is a sentence that ends in what to try.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// Programs are not installed.
    #[error("{} {} not installed; install {} with: apt-get install {}", .programs.join(", "),
        if .programs.len() == 1 { "is" } else { "are" }, if .programs.len() == 1 { "it" } else { "them" },
        .packages.join(" "))]
    Missing {
        /// The programs.
        programs: Vec<&'static str>,
        /// Debian's packages that have them.
        packages: Vec<&'static str>,
    },
    /// QEMU does not have the board yet, or not right.
    #[error(
        "{program} is version {found}, and this board needs QEMU {since} or later: Debian 13 has it, Debian 12 in \
        bookworm-backports"
    )]
    OldQemu {
        /// QEMU's program.
        program: &'static str,
        /// Its version, as far as it tells.
        found: String,
        /// The first that will do.
        since: u32,
    },
    /// The packages that a board is made of could not be had.
    #[error("{0}")]
    Parts(String),
    /// A file could not be read or written.
    #[error("{}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The kernel refused a step.
    #[error("{doing} failed: {why}")]
    Kernel {
        /// The step, as a clause.
        doing: String,
        /// The kernel's words.
        why: String,
    },
    /// No tap can be made.
    #[error(
        "a board's cable cannot be made: /dev/net/tun: {error}; run as root, or have root run: modprobe tun; chmod 666 /dev/net/tun"
    )]
    NoCable {
        /// Why.
        error: io::Error,
    },
    /// Another process has it.
    #[error("the board {0} runs already; use it as board:{0}, or end it with: linerate lab down {0}")]
    Runs(String),
    /// It is not there.
    #[error("the board {0} does not run; start it with: linerate lab up {0}")]
    RunsNot(String),
    /// It started and came to nothing.
    #[error("{0}")]
    Dead(String),
    /// Nobody wants it any more.
    #[error("interrupted")]
    Interrupted,
}

impl BoardError {
    fn file(path: &Path, error: io::Error) -> BoardError {
        BoardError::File { path: path.to_owned(), error }
    }
}

/// A board whose parts are all there: it can be started without the network.
#[derive(Debug)]
pub struct ReadyBoard {
    board: &'static Board,
    software: ReadySoftware,
}

/// What runs on the board, as far as it comes from outside of linerate.
#[derive(Debug)]
enum ReadySoftware {
    Linux(LinuxSystem, Parts),
    Bare(BareMetal),
}

impl Board {
    /// Sees that all is there to start the board: programs, and parts in the cache, which are fetched if it has none,
    /// or `update` asks for the newest. `say` hears what takes time.
    pub fn ready(
        &'static self,
        cache: &Path,
        update: bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<ReadyBoard, BoardError> {
        let software = match self.software {
            Software::Linux(system) => {
                let cached = Parts::cached(cache, self.name).filter(|_| !update);
                missing(&self.programs(cached.is_none().then_some(&system)))?;
                let parts = match cached {
                    Some(parts) => parts,
                    None => Parts::fetch(cache, self.name, &system, say)?,
                };
                ReadySoftware::Linux(system, parts)
            }
            Software::Bare(bare) => {
                self.check_bare(bare)?;
                ReadySoftware::Bare(bare)
            }
        };
        Ok(ReadyBoard { board: self, software })
    }

    /// What is not yet on this machine and in the cache; `None`: the board can be started without the network.
    pub fn lacks(&'static self, cache: &Path) -> Option<String> {
        let system = match self.software {
            Software::Linux(system) => system,
            Software::Bare(bare) => return self.check_bare(bare).err().map(|error| error.to_string()),
        };
        let has_parts = Parts::cached(cache, self.name).is_some();
        match missing(&self.programs((!has_parts).then_some(&system))) {
            Err(error) => Some(error.to_string()),
            Ok(()) if !has_parts => Some("its kernel is not in the cache yet; lab up fetches it".to_owned()),
            Ok(()) => None,
        }
    }

    /// Sees that QEMU is there, and new enough for this board.
    fn check_bare(&self, bare: BareMetal) -> Result<(), BoardError> {
        missing(&self.programs(None))?;
        let program = self.qemu.program;
        let said = Command::new(program).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
        let found = qemu_version(&String::from_utf8_lossy(&said)).to_owned();
        let is_enough =
            found.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= bare.since);
        if is_enough { Ok(()) } else { Err(BoardError::OldQemu { program, found, since: bare.since }) }
    }

    /// The programs that it takes, with Debian's packages of them; also those that fetch this system's parts.
    fn programs(&self, fetching: Option<&LinuxSystem>) -> Vec<(&'static str, &'static str)> {
        let mut programs = vec![(self.qemu.program, self.qemu.package)];
        if let Some(system) = fetching {
            programs.extend([("apt-get", "apt"), ("dpkg-deb", "dpkg"), ("depmod", "kmod")]);
            programs.extend(match system.tree {
                DeviceTree::Qemu => None,
                DeviceTree::Kernel { .. } => Some(("fdtput", "device-tree-compiler")),
                DeviceTree::Own(_) => Some(("dtc", "device-tree-compiler")),
            });
        }
        programs
    }
}

/// The version in `QEMU emulator version 7.2.22 (Debian …)`.
fn qemu_version(said: &str) -> &str {
    said.split_once("version ").and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("unknown")
}

fn missing(needed: &[(&'static str, &'static str)]) -> Result<(), BoardError> {
    let (programs, mut packages): (Vec<_>, Vec<_>) =
        needed.iter().filter(|(program, _)| !is_there(program)).copied().unzip();
    packages.dedup();
    if programs.is_empty() { Ok(()) } else { Err(BoardError::Missing { programs, packages }) }
}

/// Whether a program is in the path, or where administrators' programs are, which is not in everybody's.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let also = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(also).any(|folder| folder.join(program).is_file())
}

/// A program of the administrator's, found also where it is not in the user's path.
fn program(name: &str) -> Command {
    let found =
        ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|path| path.is_file());
    found.map_or_else(|| Command::new(name), Command::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_command_that_installs_it() {
        let needed = [("sh", "dash"), ("no-such-qemu", "qemu-nowhere"), ("no-such-tool", "qemu-nowhere")];
        let sentence = missing(&needed).unwrap_err().to_string();
        assert_eq!(
            sentence,
            "no-such-qemu, no-such-tool are not installed; install them with: apt-get install qemu-nowhere"
        );
        assert!(missing(&needed[..1]).is_ok());
    }

    #[test]
    fn qemu_says_its_version() {
        assert_eq!(qemu_version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright"), "7.2.22");
        assert_eq!(qemu_version(""), "unknown");
    }

    #[test]
    fn boards_are_found_by_name() {
        for board in BOARDS {
            assert_eq!(Board::find(board.name).unwrap().about, board.about);
        }
        let sentence = Board::find("sabre").unwrap_err();
        assert!(sentence.starts_with("there is no board 'sabre'; there are: sabrelite, mcimx6ul-evk"), "{sentence}");
    }
}
