//! An agent for a machine that has none: the right one is carried there over ssh, started, and removed.
//! Knows nothing of the conversation that follows, and asks of the machine no more than a shell and `cat`, `mkdir`,
//! `chmod` and `rm`: boards with dropbear have no scp and no sftp.
//!
//! ```text
//!  session 1   has it linerate-agent?  yes: becomes it
//!              │ no: says what it is; then it makes folders, as it is told,
//!              │ and at the end of its input, however that comes, removes them
//!  session 2   │  one of its own programs, of which the header is read
//!  session 3   │  cat > FOLDER/linerate-agent
//!  session 4   │  FOLDER/linerate-agent --stdio: the conversation
//! ```
//! They share one connection, the first one's, so that a password is typed once.

use std::io::{Cursor, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::bare_machine::{BareMachine, HEADER};
use crate::connect_options::{ConnectOptions, receive_unless};
use crate::error::ControlError;
use crate::link::{Hints, Link, Start};
use crate::noise;
use crate::ssh::{Share, Ssh, socket};

/// The first session's script: in one line, and without a single quote or an exclamation mark, so that every login
/// shell passes it on as it is.
///
/// `try FOLDER` makes a folder, where programs can be run from, and drops the one before; `keep` and `drop` are said
/// of it at last.
const SESSION: &str = r#"for a in linerate-agent /usr/local/bin/linerate-agent; do if command -v $a >/dev/null 2>&1; then exec $a --stdio; fi; done; echo "linerate-bare"; echo "uname $(uname -m 2>/dev/null)"; echo "home $HOME"; while read -r l; do case $l in Features*|isa*) echo "$l";; esac; done 2>/dev/null </proc/cpuinfo; echo end; trap "" HUP; umask 077; d=; drop() { case $d in ?*) rm -rf "$d";; esac; d=; }; while read -r c n; do case $c in try) drop; if mkdir "$n" 2>/dev/null; then d=$n; if { : >"$n/try"; } 2>/dev/null && chmod 700 "$n/try" && "$n/try" 2>/dev/null; then rm -f "$n/try"; echo yes; else echo noexec; fi; else echo nodir; fi;; keep) d=; echo yes;; drop) drop; echo yes;; esac; done; drop"#;

/// What it says first when it is not an agent.
const BARE: &str = "linerate-bare";

/// Folders that a machine may have for what is temporary, in the order in which they are tried. /tmp is often in
/// memory, which a board has little of, but flash is written only so often.
const FOLDERS: [&str; 5] = ["/tmp", "/var/tmp", "/run", "/dev/shm", "HOME"];

/// How long a person may type a password.
const TYPING: Duration = Duration::from_secs(120);
/// How long a session has for what takes no time there.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the copying may take: as over a line of 160 kbit/s.
const COPY: Duration = Duration::from_secs(120);
/// What a session says is no longer than this, but for a file that is read back.
const LONGEST: u64 = 64 << 10;

/// Reaches the machine's own agent or, where it has none, carries one there.
pub(crate) fn reach(
    ssh: Ssh<'_>,
    options: &ConnectOptions,
    unreachable: &dyn Fn(String) -> ControlError,
) -> Result<Link, ControlError> {
    let socket = socket();
    let carrier = Carrier { ssh, options, unreachable, socket };
    let share = carrier.socket.as_deref().map_or(Share::Alone, Share::First);
    let mut first = carrier.start(share, &format!("exec /bin/sh -c '{SESSION}'"), "linerate-agent")?;
    let patience = if ssh.may_ask { TYPING } else { options.connect_timeout };
    let line = carrier.line(&mut first, patience)?;
    if line.trim_end() != BARE {
        // The agent's greeting, or what else a machine says: the conversation judges it.
        first.put_back(line.into_bytes());
        return Ok(first);
    }
    let (mut bare, mut home) = (BareMachine::default(), String::new());
    let until = Instant::now() + ANSWER;
    loop {
        let line = carrier.line(&mut first, ANSWER)?;
        if Instant::now() > until {
            return Err(unreachable("it goes on and on about itself; see what its shell says by ssh".to_owned()));
        }
        match line.trim_end().split_once(' ') {
            Some(("uname", name)) => bare.uname = name.trim().to_owned(),
            Some(("home", folder)) => home = folder.to_owned(),
            _ if line.trim_end() == "end" => break,
            _ if bare.abilities.len() < LONGEST as usize => bare.abilities += &line,
            _ => {}
        }
    }
    // `cat` itself is a program of that machine, and the one that is surely there.
    let program = "(head -c 64 /proc/self/exe || cat /proc/self/exe || cat /bin/sh) 2>/dev/null";
    bare.program = carrier.run(program, Vec::new(), HEADER as u64, ANSWER)?.said;
    let agent = carrier.pick(&bare)?;
    let folder = carrier.put(&mut first, &agent.program, &home)?;
    let program = format!("{folder}/linerate-agent");
    let mut command = program.clone();
    if agent.is_linerate {
        command.push_str(" agent");
    }
    let mut link = carrier.start(carrier.further(), &format!("exec {command} --stdio"), &program)?;
    let greeting = carrier.line(&mut link, ANSWER).map_err(|error| match agent.is_linerate {
        true => carrier.cannot_itself(agent.name, error),
        false => error,
    })?;
    if options.keep_agent {
        carrier.tell(&mut first, "keep")?;
        let command = if agent.is_linerate { format!("'{command}'") } else { command };
        link.notes.push(format!("its agent ({}) stays there; use it with --remote-agent {command}", agent.name));
    } else {
        // A program runs on without its file. So nothing stays behind, though all should end here at once.
        carrier.tell(&mut first, "drop")?;
    }
    link.put_back(greeting.into_bytes());
    link.keep(first);
    Ok(link)
}

/// What is carried.
struct Agent {
    /// For which machines it is.
    name: &'static str,
    program: Vec<u8>,
    /// It is this very program, which is an agent when it is told so.
    is_linerate: bool,
}

struct Carrier<'a> {
    ssh: Ssh<'a>,
    options: &'a ConnectOptions,
    unreachable: &'a dyn Fn(String) -> ControlError,
    socket: Option<PathBuf>,
}

/// A session that has ended.
struct Session {
    said: Vec<u8>,
    complaint: String,
    status: Option<i32>,
}

impl Carrier<'_> {
    fn further(&self) -> Share<'_> {
        self.socket.as_deref().map_or(Share::Alone, Share::Further)
    }

    /// Starts a session that goes on.
    fn start(&self, share: Share<'_>, remote: &str, program: &str) -> Result<Link, ControlError> {
        let start = Start { may_ask: self.ssh.may_ask, hints: self.ssh.hints(program) };
        Link::start(self.ssh.command(share, remote), start).map_err(|error| self.no_shell(&error))
    }

    fn no_shell(&self, error: &std::io::Error) -> ControlError {
        (self.unreachable)(format!("/bin/sh cannot be started: {error}; see that this machine has one"))
    }

    /// A line that a session says.
    fn line(&self, link: &mut Link, patience: Duration) -> Result<String, ControlError> {
        let mut reader = std::mem::replace(&mut link.reader, Box::new(std::io::empty()));
        let (said, heard) = mpsc::sync_channel(1);
        let read = move || {
            let (mut line, mut octet) = (Vec::new(), [0]);
            while line.len() < LONGEST as usize && matches!(reader.read(&mut octet), Ok(1)) {
                line.push(octet[0]);
                if octet[0] == b'\n' {
                    break;
                }
            }
            let _ = said.send((line, reader));
        };
        let no_thread = |error| (self.unreachable)(format!("this program cannot start a thread ({error})"));
        crate::start_thread("linerate-line", read).map_err(no_thread)?;
        match receive_unless(&heard, patience, self.options.interrupted) {
            Ok((line, reader)) if !line.is_empty() => {
                link.reader = reader;
                Ok(String::from_utf8_lossy(&line).into_owned())
            }
            Ok(_) => {
                let end = link.guard.how_it_ended(Duration::from_millis(500));
                Err((self.unreachable)(end.unwrap_or_else(|| "its shell ended; try again".to_owned())))
            }
            Err(_) if (self.options.interrupted)() => Err(ControlError::Interrupted),
            Err(_) => {
                let seconds = patience.as_secs_f64();
                Err((self.unreachable)(format!("it said nothing within {seconds} s; try ssh to it by hand")))
            }
        }
    }

    /// Says a line to the first session, and hears the answer.
    fn tell(&self, first: &mut Link, line: &str) -> Result<String, ControlError> {
        let sent = first.writer.write_all(format!("{line}\n").as_bytes()).and_then(|()| first.writer.flush());
        // A session that has ended says so to who listens.
        let _ = sent;
        Ok(self.line(first, ANSWER)?.trim_end().to_owned())
    }

    /// Runs a command there, gives it `input`, and hears the first `most` octets of what it says.
    fn run(&self, remote: &str, input: Vec<u8>, most: u64, patience: Duration) -> Result<Session, ControlError> {
        let mut command: Command = self.ssh.command(self.further(), &format!("exec /bin/sh -c '{remote}'"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| self.no_shell(&error))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (said, heard) = mpsc::sync_channel(1);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A session that ends early does not read the rest, and says why.
                let _ = stdin.map(|mut stdin| stdin.write_all(&input));
            });
            let complaint = scope.spawn(move || {
                let mut words = Vec::new();
                let _ = stderr.map(|stderr| stderr.take(LONGEST).read_to_end(&mut words));
                String::from_utf8_lossy(&words).into_owned()
            });
            scope.spawn(move || {
                let mut octets = Vec::new();
                let _ = stdout.map(|stdout| stdout.take(most).read_to_end(&mut octets));
                let _ = said.send(octets);
            });
            let result = receive_unless(&heard, patience, self.options.interrupted);
            // What has said enough, or is late, is not waited for; what has said all is about to end.
            let is_done = matches!(&result, Ok(octets) if (octets.len() as u64) < most);
            if !is_done {
                let _ = child.kill();
            }
            let status = child.wait().ok().and_then(|status| status.code());
            let complaint = complaint.join().unwrap_or_default();
            match result {
                Ok(said) => Ok(Session { said, complaint, status }),
                Err(_) if (self.options.interrupted)() => Err(ControlError::Interrupted),
                Err(_) => {
                    let seconds = patience.as_secs_f64();
                    Err((self.unreachable)(format!("it was not done within {seconds} s; see that its network is well")))
                }
            }
        })
    }

    /// The agent for this machine.
    fn pick(&self, bare: &BareMachine) -> Result<Agent, ControlError> {
        let name = bare.agent().map_err(|what| {
            (self.unreachable)(format!(
                "it has no agent, and none of linerate's is for it ({what}): build the package linerate-agent for it, \
                 and name it with --remote-agent"
            ))
        })?;
        let file = format!("linerate-agent-{name}");
        for folder in &self.options.agents {
            match std::fs::read(folder.join(&file)) {
                Ok(program) => return Ok(Agent { name, program, is_linerate: false }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let path = folder.join(&file);
                    return Err((self.unreachable)(format!("{} cannot be read: {error}", path.display())));
                }
            }
        }
        if self.options.carry_itself && name == std::env::consts::ARCH {
            // What runs, though its file may have been replaced since.
            if let Ok(program) = std::fs::read("/proc/self/exe") {
                return Ok(Agent { name, program, is_linerate: true });
            }
        }
        let folders: Vec<String> = self.options.agents.iter().map(|folder| folder.display().to_string()).collect();
        Err((self.unreachable)(format!(
            "it has no agent, and {file} is not in {}; build it with 'cargo xtask agents {name}', or name its folder \
             with --agents",
            if folders.is_empty() { "any folder".to_owned() } else { folders.join(", ") }
        )))
    }

    /// This program needs the libraries that it was built with, and a static agent none.
    fn cannot_itself(&self, name: &str, error: ControlError) -> ControlError {
        match error {
            ControlError::Unreachable { why, .. } => (self.unreachable)(format!(
                "it has no agent, and this very program, carried there, does not run: {why}; build the static agent with \
                 'cargo xtask agents {name}'"
            )),
            other => other,
        }
    }

    /// Puts the agent into a folder there, and returns that.
    fn put(&self, first: &mut Link, agent: &[u8], home: &str) -> Result<String, ControlError> {
        // Without chance the folder's making still fails where another has been.
        let unique = noise::draw(&mut [0; 8]).unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
        let mut refused = Vec::new();
        for folder in FOLDERS {
            let place = if folder == "HOME" { home } else { folder };
            if !place.starts_with('/') || !place.chars().all(is_plain) {
                continue;
            }
            let folder = format!("{}/linerate-{unique}", place.trim_end_matches('/'));
            match self.tell(first, &format!("try {folder}"))?.as_str() {
                "yes" => {}
                "noexec" => {
                    refused.push(format!("{place} runs no programs (noexec)"));
                    continue;
                }
                _ => {
                    refused.push(format!("{place} is not to be written in"));
                    continue;
                }
            }
            match self.copy(&folder, agent)? {
                Ok(()) => return Ok(folder),
                Err(why) => refused.push(format!("{place}: {why}")),
            }
        }
        // The last one is dropped with the session.
        Err((self.unreachable)(format!(
            "an agent of {} KiB finds no place there: {}; make room, or put it where it can run and name it with \
             --remote-agent",
            agent.len().div_ceil(1024),
            refused.join("; ")
        )))
    }

    /// Copies, and sees that what arrived is what was sent. `Ok(Err)`: there, it cannot be.
    fn copy(&self, folder: &str, agent: &[u8]) -> Result<Result<(), String>, ControlError> {
        let file = format!("{folder}/linerate-agent");
        // cksum(1) is in POSIX and in most of BusyBox; where it is not, the file itself comes back.
        let remote = format!("cat >{file} && chmod 700 {file} && {{ cksum <{file} 2>/dev/null || cat {file}; }}");
        let most = agent.len() as u64 + 1;
        let session = self.run(&remote, agent.to_vec(), most, COPY)?;
        if session.status == Some(0) {
            let sum = format!("{} {}", cksum(agent), agent.len());
            let same = session.said == agent || String::from_utf8_lossy(&session.said).trim() == sum;
            return Ok(if same { Ok(()) } else { Err("what arrived is not what was sent".to_owned()) });
        }
        let words: Vec<&str> = session.complaint.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let words: String = words.join(" / ").chars().filter(|c| !c.is_control()).take(300).collect();
        if session.status == Some(255) {
            let hints: Hints = self.ssh.hints("cat");
            return Err((self.unreachable)(format!(
                "the agent could not be copied: {words}; {}",
                hints.ssh_failed.unwrap_or_default()
            )));
        }
        let status = session.status.map_or("a signal".to_owned(), |status| format!("status {status}"));
        Ok(Err(if words.is_empty() { format!("cat ended with {status}") } else { words }))
    }
}

impl Link {
    /// What was read already is read again first.
    fn put_back(&mut self, octets: Vec<u8>) {
        let rest = std::mem::replace(&mut self.reader, Box::new(std::io::empty()));
        self.reader = Box::new(Cursor::new(octets).chain(rest));
    }
}

/// The sum of cksum(1): POSIX, the CRC of ISO/IEC 8802-3 over the octets and then their number.
fn cksum(octets: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x04C1_1DB7;
    let shifted = |sum: u32| if sum & 1 << 31 == 0 { sum << 1 } else { sum << 1 ^ POLYNOMIAL };
    let table: [u32; 256] = std::array::from_fn(|octet| (0..8).fold((octet as u32) << 24, |sum, _| shifted(sum)));
    let add = |sum: u32, octet: u8| sum << 8 ^ table[usize::from((sum >> 24) as u8 ^ octet)];
    let mut sum = octets.iter().fold(0, |sum, octet| add(sum, *octet));
    let mut len = octets.len();
    while len > 0 {
        sum = add(sum, (len & 0xFF) as u8);
        len >>= 8;
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_goes_through_every_login_shell() {
        assert!(!SESSION.contains(['\'', '!', '\n', '\\', '`']));
    }

    #[test]
    fn a_sum_is_that_of_cksum() {
        // As `printf 123456789 | cksum` and `printf '' | cksum` say.
        assert_eq!(cksum(b"123456789"), 930_766_865);
        assert_eq!(cksum(b""), 4_294_967_295);
    }
}
