//! Boards that a command needs: those that run are used, others are started for its time.
//! Knows which endpoints are boards; [`linerate_lab::boards`] starts them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use linerate_control::Endpoint;
use linerate_lab::boards::{Board, Boot, Folders, HostAgent, Machine, Program};
use linerate_lab::{Privilege, TARGET_IPV4, enter_user_namespace, privilege};
use linerate_machine::end::{End, PerEnd};
use linerate_trial::tool::Tool;

use crate::interrupt;
use crate::progress::Progress;

/// The folder of agents and firmwares that the user names instead of the usual ones.
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
    /// The agent's program for it, or its firmware.
    pub(crate) agent: Option<PathBuf>,
}

/// Sees that the boards among these endpoints run. Call it before the first thread is started and before Ctrl-C is
/// listened to: without root, the process enters a user namespace. `agents`: the folders that may have the board's.
pub(crate) fn start_for(endpoints: &[&Endpoint], agents: &[PathBuf], progress: &Progress) -> Result<Option<Started>> {
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
    let speaks_with = |endpoint: &&Endpoint| matches!(endpoint, Endpoint::Board { end: End::Target, .. });
    if board.is_bare() && endpoints.iter().any(speaks_with) {
        bail!(
            "{name} has no operating system, and so no agent; it can only be measured, by udp-stream, and 'linerate lab log \
             {name}' shows what it counts"
        );
    }
    if folders()?.find(name).is_ok() {
        return Ok(None);
    }
    start(board, &Start { update: false, agent: Some(find(board.runs(), agents)?) }, progress).map(Some)
}

/// The two ends of a run. The host, if the user named none, is the other end of a board's cable, or this machine. The
/// target, where it is a board without an agent, is its iperf2 server.
pub(crate) fn ends(target: Endpoint, host: Endpoint) -> PerEnd<Endpoint> {
    let Endpoint::Board { name, end: End::Target } = &target else { return PerEnd { target, host } };
    let host = match host {
        Endpoint::Local => Endpoint::Board { name: name.clone(), end: End::Host },
        host => host,
    };
    let is_bare = Board::find(name).is_ok_and(Board::is_bare);
    let server = Endpoint::Foreign { tool: Tool::Iperf2, host: TARGET_IPV4.to_string(), port: None };
    PerEnd { target: if is_bare { server } else { target }, host }
}

/// Starts a board; progress is shown.
pub(crate) fn start(board: &'static Board, wanted: &Start, progress: &Progress) -> Result<Started> {
    let folders = folders()?;
    let on_board = match &wanted.agent {
        Some(path) => path.clone(),
        None => find(board.runs(), &super::agents_folders())?,
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
    let boot =
        Boot { folders: &folders, program: &on_board, host_agent, interrupted: interrupt::requested, say: &mut say };
    let machine = ready.boot(boot)?;
    progress.clear();
    Ok(Started { machine })
}

/// The folders of this user's boards.
pub(crate) fn folders() -> Result<Folders> {
    Folders::of_user().context("there is no home folder to keep boards in; set HOME or XDG_CACHE_HOME")
}

/// What of linerate runs on a board: in a folder that the user names, or where agents are.
pub(super) fn find(program: Program, agents: &[PathBuf]) -> Result<PathBuf> {
    let (name, built_by) = match program {
        Program::Agent(arch) => (format!("linerate-agent-{}", arch.name()), format!("agents {}", arch.name())),
        Program::Firmware(name) => (format!("linerate-firmware-{name}"), format!("firmware {name}")),
    };
    let named = std::env::var_os(AGENTS).map(PathBuf::from);
    let found = named.iter().chain(agents).map(|folder| folder.join(&name)).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "there is no {name} beside this program; build it with 'cargo xtask {built_by}', and name its folder with \
             --agents or {AGENTS} if it is elsewhere"
        )
    })
}
