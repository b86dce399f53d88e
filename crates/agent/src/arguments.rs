//! The agent's command line.
//! Knows what may be asked, not how it is done.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use linerate_machine::units::OfferedLoad;

use crate::registers::DeviceMemory;
use crate::session::Permissions;
use crate::settings::Commands;

/// What the command line asks for.
pub struct Arguments {
    /// The network namespace to work in, as a path.
    pub netns: Option<PathBuf>,
    /// What to do there.
    pub task: Task,
}

/// What the agent does.
pub enum Task {
    /// Says something about itself.
    Print(String),
    /// Speaks on standard input and output until they end.
    Stdio,
    /// Speaks on a serial port, one conversation after the other.
    Line(PathBuf),
    /// Waits for controllers on a network address.
    Listen {
        /// Address and port; no name, for which a board seldom has a resolver, and this program none at all.
        address: SocketAddr,
        /// Where the key is.
        psk_file: PathBuf,
        /// What who has the key may have done beside measuring.
        permissions: Permissions,
    },
    /// Shows menus on standard input and output.
    Menu,
    /// Watches over another agent, and puts back what this journal says when it has ended.
    Watch(PathBuf),
    /// Makes a key.
    NewPsk(PathBuf),
}

fn help(program: &str) -> String {
    format!(
        "{program} generates, receives and counts test traffic on this machine,\nfor a controller (linerate).\n\n\
         Usage: {program} --stdio\n       \
         {program} --line DEVICE\n       \
         {program} --listen ADDRESS:PORT --psk-file FILE\n       \
         {program} --menu\n       \
         {program} --new-psk FILE\n\n\
         Options:\n  \
         --stdio           speak the control conversation on standard input and output\n  \
         --line DEVICE     speak it on a serial port that passes every byte as it is,\n                    \
                           one controller after the other\n  \
         --listen ADDR:PORT\n                    \
                           wait for controllers on the network; they must have the key\n  \
         --menu            menus for a person at this machine's console: settings,\n                    \
                           screens, tests, remote control\n  \
         --psk-file FILE   the key: 64 hexadecimal digits, readable by its owner only\n  \
         --new-psk FILE    make a new key\n  \
         --allow-commands  with --listen: let who has the key also run commands here,\n                    \
                           as custom settings need\n  \
         --allow-dev-mem   with --listen: let who has the key also read device\n                    \
                           registers in physical memory\n  \
         --allow-unanswered RATE\n                    \
                           with --listen: let who has the key also send datagrams to\n                    \
                           another tool's server that does not answer (ttcp, iperf2),\n                    \
                           wherever that is: at this rate (10M) and for 60 s at most\n  \
         --watch JOURNAL   wait for the end of standard input, then put settings back;\n                    \
                           an agent starts this by itself\n  \
         --netns PATH      work in this network namespace, such as /run/netns/NAME\n  \
         --help, --version\n"
    )
}

fn bits_per_second(text: &str) -> Result<u64, String> {
    match text.parse::<OfferedLoad>() {
        Ok(OfferedLoad::BitsPerSecond(bits)) => Ok(bits),
        _ => Err(format!("'{}' is not a rate in bits per second; write 10M or 1G", text.escape_debug())),
    }
}

/// An address and a port as they are written; the error is one sentence.
pub(crate) fn address_and_port(text: &str) -> Result<SocketAddr, String> {
    let bad = |_| format!("'{}' is not an address with a port; write 10.0.0.1:7777 or [::]:7777", text.escape_debug());
    text.parse().map_err(bad)
}

impl Arguments {
    /// Reads the command line; the error is one sentence.
    pub fn parse(program: &str, arguments: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
        use lexopt::prelude::{Long, Short, ValueExt};
        let mut parser = lexopt::Parser::from_args(arguments);
        let (mut stdio, mut listen, mut psk_file, mut new_psk, mut netns) = (false, None, None, None, None);
        let (mut watch, mut line, mut menu) = (None, None, false);
        let mut permissions =
            Permissions { commands: Commands::Refused, memory: DeviceMemory::Refused, unanswered: None };
        let see = |error: lexopt::Error| format!("{error}; see {program} --help");
        while let Some(argument) = parser.next().map_err(see)? {
            match argument {
                Long("stdio") => stdio = true,
                Long("line") => line = Some(PathBuf::from(parser.value().map_err(see)?)),
                Long("listen") => listen = Some(parser.value().and_then(|v| v.string()).map_err(see)?),
                Long("psk-file") => psk_file = Some(PathBuf::from(parser.value().map_err(see)?)),
                Long("new-psk") => new_psk = Some(PathBuf::from(parser.value().map_err(see)?)),
                Long("allow-commands") => permissions.commands = Commands::Allowed,
                Long("allow-dev-mem") => permissions.memory = DeviceMemory::Allowed,
                Long("allow-unanswered") => {
                    let text = parser.value().and_then(|v| v.string()).map_err(see)?;
                    permissions.unanswered = Some(bits_per_second(&text)?);
                }
                Long("menu") => menu = true,
                Long("watch") => watch = Some(PathBuf::from(parser.value().map_err(see)?)),
                Long("netns") => netns = Some(PathBuf::from(parser.value().map_err(see)?)),
                Long("help") | Short('h') => return Ok(Arguments { netns, task: Task::Print(help(program)) }),
                Long("version") | Short('V') => {
                    return Ok(Arguments {
                        netns,
                        task: Task::Print(format!("{program} {}\n", env!("CARGO_PKG_VERSION"))),
                    });
                }
                other => return Err(see(other.unexpected())),
            }
        }
        let task = match (stdio, menu, listen, new_psk, watch, line) {
            (true, false, None, None, None, None) => Task::Stdio,
            (false, true, None, None, None, None) => Task::Menu,
            (false, false, None, None, Some(journal), None) => Task::Watch(journal),
            (false, false, None, None, None, Some(device)) => Task::Line(device),
            (false, false, Some(address), None, None, None) => {
                let address = address_and_port(&address)?;
                let psk_file = psk_file.ok_or(
                    "--listen demands a key, so that nobody else can use this machine to send traffic: \
                     make one with --new-psk FILE and name it with --psk-file FILE",
                )?;
                Task::Listen { address, psk_file, permissions }
            }
            (false, false, None, Some(path), None, None) => Task::NewPsk(path),
            _ => {
                return Err(format!(
                    "give one of --stdio, --line, --listen, --menu and --new-psk; see {program} --help"
                ));
            }
        };
        Ok(Arguments { netns, task })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, complaint: &str) {
        let arguments = arguments.split_whitespace().map(OsString::from);
        match Arguments::parse("linerate-agent", arguments) {
            Ok(_) => assert_eq!(complaint, "", "accepted"),
            Err(sentence) => assert!(!complaint.is_empty() && sentence.contains(complaint), "{sentence}"),
        }
    }

    /// It is read on serial consoles too.
    #[test]
    fn help_is_no_wider_than_a_terminal() {
        for line in help("linerate-agent").lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn one_task_and_a_key_for_a_listener() {
        check("--stdio", "");
        check("--stdio --netns /run/netns/a", "");
        check("--listen 127.0.0.1:0 --psk-file key", "");
        check("--listen 127.0.0.1:0 --psk-file key --allow-commands", "");
        check("--listen 127.0.0.1:0 --psk-file key --allow-dev-mem", "");
        check("--listen 127.0.0.1:0 --psk-file key --allow-unanswered 10M", "");
        check("--listen 127.0.0.1:0 --psk-file key --allow-unanswered", "see linerate-agent --help");
        check("--listen 127.0.0.1:0 --psk-file key --allow-unanswered unlimited", "is not a rate");
        check("--watch journal", "");
        check("--watch journal --stdio", "give one of");
        check("--line /dev/ttyS1", "");
        check("--line /dev/ttyS1 --stdio", "give one of");
        check("--new-psk key", "");
        check("--menu", "");
        check("--menu --netns /run/netns/a", "");
        check("--menu --stdio", "give one of");
        check("--help", "");
        check("", "give one of");
        check("--stdio --listen 127.0.0.1:0", "give one of");
        check("--listen 127.0.0.1:0", "demands a key");
        check(
            "--listen localhost:7777 --psk-file key",
            "'localhost:7777' is not an address with a port; write 10.0.0.1:7777",
        );
        check("--listen", "see linerate-agent --help");
        check("--nonsense", "see linerate-agent --help");
        check("word", "see linerate-agent --help");
    }
}
