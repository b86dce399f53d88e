//! Boards that a command needs: those that run are used, others are started for its time.
//! Knows which endpoints are boards; [`linerate_lab::boards`] starts them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use linerate_control::Endpoint;
use linerate_lab::boards::{Arch, Board, Boot, Folders, HostAgent, Machine};
use linerate_lab::{Privilege, enter_user_namespace, privilege};
use linerate_machine::end::End;

use crate::interrupt;
use crate::progress::Progress;

/// A way to be a board's agent that the user names instead of looking for one.
const AGENTS: &str = "LINERATE_AGENTS";

/// The board that runs for a command. It ends with this.
pub(crate) struct Started {
    machine: Machine,
}

impl Started {
    /// Whether it has ended before its time.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.machine.has_ended()
    }
}

/// What is wanted of a board.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    /// Ask for the newest packages.
    pub(crate) update: bool,
    /// The agent's program for it.
    pub(crate) agent: Option<PathBuf>,
}

/// Sees that the boards among these endpoints run. Call it before the first thread is started and before Ctrl-C is
/// listened to: without root, the process enters a user namespace.
pub(crate) fn start_for(endpoints: &[&Endpoint], progress: &Progress) -> Result<Option<Started>> {
    let mut names: Vec<&str> = endpoints
        .iter()
        .filter_map(|endpoint| match endpoint {
            Endpoint::Board { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    names.dedup();
    let name = match names.as_slice() {
        [] => return Ok(None),
        [name] => *name,
        _ => bail!("{} have no cable between them; measure each board with its own host", names.join(" and ")),
    };
    let board = Board::find(name).map_err(anyhow::Error::msg)?;
    if folders()?.find(name).is_ok() {
        return Ok(None);
    }
    start(board, &Start::default(), progress).map(Some)
}

/// The host that a run has if the user named none: the other end of a board's cable, or this machine.
pub(crate) fn usual_host(target: &Endpoint, host: &Endpoint) -> Endpoint {
    match (target, host) {
        (Endpoint::Board { name, end: End::Target }, Endpoint::Local) => {
            Endpoint::Board { name: name.clone(), end: End::Host }
        }
        _ => host.clone(),
    }
}

/// Starts a board; progress is shown.
pub(crate) fn start(board: &'static Board, wanted: &Start, progress: &Progress) -> Result<Started> {
    let folders = folders()?;
    let agent = match &wanted.agent {
        Some(path) => path.clone(),
        None => agent_for(board.arch())?,
    };
    let mut say = |text: &str| progress.doing(&format!("{}: {text}", board.name));
    let ready = board.ready(&folders.cache, wanted.update, &mut say)?;
    match privilege() {
        Privilege::Root => {}
        Privilege::UserNamespace => enter_user_namespace()?,
        Privilege::None { why } => bail!("{why}"),
    }
    interrupt::listen();
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let host_agent = HostAgent { program, arguments: ["agent", "--stdio"].map(Into::into).into() };
    let boot = Boot { folders: &folders, agent: &agent, host_agent, interrupted: interrupt::requested, say: &mut say };
    let machine = ready.boot(boot)?;
    progress.clear();
    Ok(Started { machine })
}

/// The folders of this user's boards.
pub(crate) fn folders() -> Result<Folders> {
    Folders::of_user().context("there is no home folder to keep boards in; set HOME or XDG_CACHE_HOME")
}

/// The agent's program for a processor: in a folder that the user names, or where agents are.
fn agent_for(arch: Arch) -> Result<PathBuf> {
    let name = format!("linerate-agent-{}", arch.name());
    let named = std::env::var_os(AGENTS).map(PathBuf::from);
    let folders = named.into_iter().chain(super::agents_folders());
    let found = folders.map(|folder| folder.join(&name)).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "there is no {name} beside this program; build it with 'cargo xtask agents {}', and name its folder with \
             {AGENTS} if it is elsewhere",
            arch.name()
        )
    })
}
