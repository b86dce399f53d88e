//! The program on a machine: the control conversation on one side, the machine on the other.
//! Knows no plans, no records, and no other machine than its own.
//!
//! The same code is `linerate-agent` on a board and `linerate agent` beside the controller.
#![forbid(unsafe_code)]

mod arguments;
mod foreign;
mod menu;
mod output;
mod probe;
mod profile;
mod refusal;
mod registers;
mod screens;
mod session;
mod settings;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use linerate_control::{Limits, Link, Listener, Psk, serial};
use linerate_host::guard;
use linerate_host::sys::namespace;

use arguments::{Arguments, Task};
use session::Permissions;

/// Runs the agent with these arguments, which exclude the program's name. `program` is how the user called it.
pub fn run(program: &str, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let result = Arguments::parse(program, arguments).and_then(|arguments| carry_out(program, arguments));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            output::say(program, &sentence);
            ExitCode::from(2)
        }
    }
}

fn carry_out(program: &str, arguments: Arguments) -> Result<(), String> {
    // Before the first thread: a namespace is a thread's, and threads inherit it.
    if let Some(path) = &arguments.netns {
        enter(path)?;
    }
    match arguments.task {
        Task::Print(text) => output::print(&text),
        Task::NewPsk(path) => {
            Psk::generate_to(&path).map_err(|error| error.to_string())?;
            let said = format!("A new key is in {}. Copy it to the controller, and keep it secret.\n", path.display());
            output::print(&said);
        }
        Task::Stdio => {
            let link = Link::stdio().map_err(|error| format!("standard input and output cannot be used: {error}"))?;
            // The user who started this process can run commands here anyway.
            session::converse(link, program, Permissions::ALL);
        }
        Task::Line(device) => {
            let cannot = |error: std::io::Error| {
                format!("cannot use {}: {error}; see that it is a serial port of this machine", device.display())
            };
            let open = || std::fs::File::options().read(true).write(true).open(&device);
            let (said, answers) = open().and_then(|port| Ok((port.try_clone()?, port))).map_err(cannot)?;
            // Access to the serial port is access to the machine.
            serial::converse_in_turn(said, answers, |link| session::converse(link, program, Permissions::ALL))
                .map_err(cannot)?;
        }
        Task::Menu => menu::run(program)?,
        Task::Watch(journal) => guard::watch(&journal)?,
        Task::Listen { address, psk_file, permissions } => {
            let psk = Psk::read(&psk_file).map_err(|error| error.to_string())?;
            let listener = Listener::bind(address, psk, Limits::default())
                .map_err(|error| format!("cannot listen on {address}: {error}; choose another address or port"))?;
            if let Ok(address) = listener.local_addr() {
                output::say(program, &format!("listening on {address}"));
            }
            // Also before the first controller comes: the machine may have other uses than measuring.
            for note in guard::recover().notes {
                output::say(program, &note);
            }
            let program = program.to_owned();
            listener.serve(move |link, _| session::converse(link, &program, permissions));
        }
    }
    Ok(())
}

fn enter(path: &Path) -> Result<(), String> {
    let cannot = |error: std::io::Error| {
        format!(
            "cannot enter the network namespace {}: {error}; that needs root, and 'ip netns list' shows those there are",
            path.display()
        )
    };
    namespace::enter(path).map_err(cannot)
}
