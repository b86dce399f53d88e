//! `linerate lab`: emulated boards, listed, started, looked into, ended.

mod double;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod services;
mod stay;

use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use linerate_lab::boards::{BOARDS, Board};
use linerate_lab::{Forwards, MiddleLab, PORTS};
use linerate_machine::sync::Mutex;

use super::boards::{Start, find, folders, start};
use crate::cli::{Cable, LabArgs};
use crate::interrupt;
use crate::output::{out, say, terminal};
use crate::progress::Progress;
use crate::render;

/// Carries the command out.
pub(crate) fn lab(arguments: &LabArgs) -> Result<ExitCode> {
    match arguments {
        LabArgs::List => list()?,
        LabArgs::Up { name, double, .. } if name == double::NAME => double::up(*double)?,
        LabArgs::Up { name, double, update, agent } if double.is_empty() => {
            up(name, &Start { update: *update, agent: agent.clone() })?;
        }
        LabArgs::Up { name, .. } => {
            bail!(
                "--capacity, --depth and --delay are of a double, not of {name}; leave them out, or: linerate lab up double"
            )
        }
        #[cfg(any(feature = "nats", feature = "postgres"))]
        LabArgs::Services(crate::cli::ServicesCommand::Up) => services::up()?,
        LabArgs::Shell { name } => shell(name)?,
        LabArgs::Log { name } => out!("{}", folders()?.find(&known(name)?)?.console_log()),
        LabArgs::Cable { name, state } => {
            folders()?.find(&known(name)?)?.set_cable(matches!(state, Cable::Plugged))?;
        }
        LabArgs::Down { name } => down(name.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What can be made beside boards: a machine between two others.
fn between() -> impl Iterator<Item = &'static str> {
    Forwards::ALL.into_iter().map(Forwards::name).chain([double::NAME])
}

fn known(name: &str) -> Result<String> {
    let name = name.strip_prefix("board:").unwrap_or(name);
    if between().any(|one| one == name) {
        bail!(
            "a {name} is no board: it ends with Ctrl-C where it was started, and lab up {name} says how it is entered"
        );
    }
    Ok(Board::find(name).map_err(anyhow::Error::msg)?.name.to_owned())
}

fn list() -> Result<()> {
    let folders = folders()?;
    let (running, agents) = (folders.running(), super::agents_folders());
    let rows = BOARDS.iter().map(|board| {
        let state = if running.iter().any(|name| name == board.name) {
            "runs".to_owned()
        } else {
            let lacks = board.lacks(&folders.cache);
            let agent =
                || find(board.runs(), &agents).err().map(|_| "its agent is not here; see docs/boards.md".to_owned());
            lacks.or_else(agent).unwrap_or_else(|| "ready".to_owned())
        };
        [board.name.to_owned(), board.driver.to_owned(), board.about.to_owned(), state]
    });
    out!("{}", render::words(["board", "driver", "what it is", "state"], rows, super::width()));
    out!(
        "\nlinerate run tcp --target board:{}    starts the board, measures, ends it\n\
         Boards show how drivers behave, not how fast they are (docs/lab.md).\n\
         Those called …-bare have no OS: linerate run udp-stream (docs/firmware.md).\n\
         linerate lab up bridge (or router, nat)    makes a machine that forwards between\n\
         two others, for --middle; double one that carries so many frames a second.\n",
        BOARDS[0].name
    );
    Ok(())
}

/// Starts a board and stays with it.
fn up(name: &str, wanted: &Start) -> Result<()> {
    if let Some(forwards) = Forwards::ALL.into_iter().find(|forwards| forwards.name() == name) {
        return up_between(forwards);
    }
    let beside = || format!("beside boards, there are: {}", between().collect::<Vec<_>>().join(", "));
    let name = known(name).map_err(|error| anyhow::anyhow!("{error}; {}", beside()))?;
    let board = Board::find(&name).map_err(anyhow::Error::msg)?;
    let progress = Progress::new(false);
    let mut started = start(board, wanted, &progress)?;
    out!("{name} runs: {}. As an endpoint it is board:{name}.\n", board.about);
    if board.is_bare() {
        out!(
            "It answers ARP, ping and iperf2's UDP test, and sends every other frame back:\n\n\
             linerate run udp-stream --target board:{name}\n\n\
             linerate lab log {name} shows what it counts, every 5 s.\n"
        );
    }
    out!("Not as on hardware: its speed; {}.\nCtrl-C, or linerate lab down {name}, ends it.\n", board.limits);
    while !started.has_ended() && !interrupt::requested() {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Makes a host, a target and a machine between them, and stays with them.
fn up_between(forwards: Forwards) -> Result<()> {
    stay::who_may(forwards.name())?;
    let lab = MiddleLab::up(forwards)?;
    lab.notes().iter().for_each(|note| say(format_args!("linerate: {note}")));
    let [target, host, middle] =
        [lab.target.path(), lab.host.path(), lab.middle.path()].map(|path| path.display().to_string());
    out!(
        "A {} runs between two machines. To measure through it:\n\n\
         linerate run udp-stream --target netns:{target} --host netns:{host} --middle netns:{middle}\n\n\
         Its interfaces are {} towards the host and {} towards the target; nsenter --net={middle} enters it.\n\
         Ctrl-C ends it.\n",
        forwards.name(),
        PORTS[0],
        PORTS[1]
    );
    stay::to_the_end();
    Ok(())
}

fn down(name: Option<&str>) -> Result<()> {
    let folders = folders()?;
    let names = match name {
        Some(name) => vec![known(name)?],
        None => folders.running(),
    };
    if names.is_empty() {
        say(format_args!("linerate: no board runs"));
    }
    for name in names {
        folders.find(&name)?.down()?;
        out!("{name} is down\n");
    }
    Ok(())
}

/// A console that has said nothing for so long has answered the commands it was given.
const QUIET: Duration = Duration::from_secs(2);
/// And one that goes on for ever is left after this.
const ANSWERS: Duration = Duration::from_secs(60);

/// Ctrl-]: what telnet(1) leaves by.
const LEAVE: u8 = 0x1d;

/// Connects this terminal with the board's console.
fn shell(name: &str) -> Result<()> {
    let name = known(name)?;
    let running = folders()?.find(&name)?;
    let mut console = UnixStream::connect(running.console())
        .with_context(|| format!("the console of {name} is taken; leave the other shell first"))?;
    let is_terminal = io::stdin().is_terminal();
    if is_terminal {
        say(format_args!("linerate: this is the console of {name}; Ctrl-] leaves it"));
    }
    let raw = if is_terminal { Some(Raw::enter()?) } else { None };
    let mut answers = console.try_clone()?;
    let heard = Arc::new(Mutex::new(Instant::now()));
    let last_heard = Arc::clone(&heard);
    std::thread::spawn(move || {
        let mut octets = [0; 4096];
        while let Ok(count @ 1..) = answers.read(&mut octets) {
            *heard.lock() = Instant::now();
            let mut output = terminal();
            if output.write_all(&octets[..count]).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
    });
    // The prompt that is there has been said already.
    console.write_all(b"\r")?;
    let mut octets = [0; 256];
    while let Ok(count @ 1..) = io::stdin().read(&mut octets) {
        let typed = &octets[..count];
        let end = typed.iter().position(|&octet| is_terminal && octet == LEAVE);
        if console.write_all(&typed[..end.unwrap_or(count)]).is_err() {
            drop(raw);
            bail!("{name} has ended");
        }
        if end.is_some() {
            break;
        }
    }
    if !is_terminal {
        // Commands from a file: what they say comes after they have been read. A console has no end of its own.
        let (began, quiet_since) = (Instant::now(), || *last_heard.lock());
        while began.max(quiet_since()).elapsed() < QUIET && began.elapsed() < ANSWERS {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// The terminal as the board's console needs it: each key as it is. Dropping it puts the terminal back.
struct Raw {
    before: String,
}

impl Raw {
    fn enter() -> Result<Raw> {
        let saved =
            Command::new("stty").arg("-g").stdin(Stdio::inherit()).output().context("stty cannot be started")?;
        let before = String::from_utf8_lossy(&saved.stdout).trim().to_owned();
        Command::new("stty").args(["raw", "-echo"]).status().context("stty cannot be started")?;
        Ok(Raw { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = Command::new("stty").arg(&self.before).status();
        say(format_args!(""));
    }
}
