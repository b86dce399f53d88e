//! The system's ssh as a child process: its arguments, and one connection for several sessions.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::link::Hints;
use crate::private;

/// A machine that is reached by ssh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ssh<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) host: &'a str,
    pub(crate) port: Option<u16>,
    pub(crate) connect_timeout: Duration,
    /// A password may be typed: there is a terminal.
    pub(crate) may_ask: bool,
    /// Options beside those that it always has.
    pub(crate) more: &'a [String],
}

/// A session's part in a connection (ssh_config(5), ControlMaster): the first makes it and the others use it, so that
/// a password is typed once. The connection ends when its first session has, and all others have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Share<'a> {
    /// A connection of its own, or as ssh's configuration says.
    Alone,
    /// Others may use this one, by this socket.
    First(&'a Path),
    /// Over the connection that has this socket.
    Further(&'a Path),
}

impl Ssh<'_> {
    /// Runs `remote` there, by the user's shell there.
    pub(crate) fn command(&self, share: Share<'_>, remote: &str) -> Command {
        let mut command = shell(self.may_ask, "exec ssh \"$@\"");
        command.args(self.arguments(share, remote));
        command
    }

    fn arguments(&self, share: Share<'_>, remote: &str) -> Vec<String> {
        // No terminal and no escape character: the stream is ours. Forwardings of the user's configuration would only
        // fail when the port is taken. A dead network ends ssh after 6 s.
        let mut arguments: Vec<String> =
            ["-T", "-e", "none", "-o", "ClearAllForwardings=yes"].map(str::to_owned).into();
        // Earlier than our own patience ends: ssh knows better what failed.
        let seconds = self.connect_timeout.as_secs().saturating_sub(2).max(1);
        let connect = format!("ConnectTimeout={seconds}");
        for option in [connect.as_str(), "ServerAliveInterval=2", "ServerAliveCountMax=3"] {
            arguments.extend(["-o".to_owned(), option.to_owned()]);
        }
        if !self.may_ask {
            arguments.extend(["-o".to_owned(), "BatchMode=yes".to_owned()]);
        }
        arguments.extend_from_slice(self.more);
        let socket = |path: &Path| ["-S".to_owned(), path.display().to_string()];
        match share {
            Share::Alone => {}
            Share::First(path) => {
                // Whatever the user's configuration says: nothing stays behind.
                arguments.extend(["-o", "ControlMaster=yes", "-o", "ControlPersist=no"].map(str::to_owned));
                arguments.extend(socket(path));
            }
            Share::Further(path) => {
                arguments.extend(["-o", "ControlMaster=no"].map(str::to_owned));
                arguments.extend(socket(path));
            }
        }
        if let Some(port) = self.port {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(user) = self.user {
            arguments.extend(["-l".to_owned(), user.to_owned()]);
        }
        arguments.extend(["--".to_owned(), self.host.to_owned(), remote.to_owned()]);
        arguments
    }

    /// What to try when a session ended; `program` is what was to run there.
    pub(crate) fn hints(&self, program: &str) -> Hints {
        let port = self.port.map(|port| format!("-p {port} ")).unwrap_or_default();
        let user = self.user.map(|user| format!("-l {user} ")).unwrap_or_default();
        let host = self.host;
        Hints {
            // 127 comes from either side: the shell here, or the one there.
            not_found: format!(
                "{program} was not found on {host} (or ssh not here); install it there, or name its path with \
                 --remote-agent"
            ),
            ssh_failed: Some(match Path::new("/sys/class/net").join(host).exists() {
                true => format!(
                    "'{host}' is an interface of this machine, and a machine is wanted, like root@board: linerate finds its \
                     interface by the address"
                ),
                false => format!("see that 'ssh {port}{user}{host}' works by hand"),
            }),
        }
    }
}

/// A shell that runs `script`; arguments that follow are `$1`…
///
/// A command that may ask for a password has to stay in the terminal's foreground process group, where Ctrl-C
/// reaches it. So it is started with the signals of the keyboard ignored, which exec(3) preserves and ssh respects
/// (clientloop.c leaves a signal ignored that it found ignored): the controller ends it in order.
pub(crate) fn shell(may_ask: bool, script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    let script = if may_ask { format!("trap '' INT QUIT; {script}") } else { script.to_owned() };
    command.arg("-c").arg(script).arg("linerate");
    command
}

/// A name for a connection's socket, in a folder that is this user's only: who can use the socket can log in there.
/// `None`: there is no such folder, and each session has its own connection.
pub(crate) fn socket() -> Option<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // The owner of a process's folder is its effective user, proc(5).
    let user = fs::metadata("/proc/self").ok()?.uid();
    let folder = std::env::temp_dir().join(format!("linerate-ssh-{user}"));
    private::own(&folder, user).ok()?;
    // Who can reach the socket can log in: it is not for others to see either.
    let is_ours = fs::metadata(&folder).ok()?.mode() & 0o077 == 0;
    // sun_path holds 108 octets (unix(7)), and ssh adds a random end while it makes the socket.
    let path = folder.join(format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    (is_ours && path.as_os_str().len() < 80).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: Ssh<'_> = Ssh {
        user: Some("root"),
        host: "::1",
        port: Some(22),
        connect_timeout: Duration::from_secs(8),
        may_ask: false,
        more: &[],
    };

    #[test]
    fn ssh_takes_the_host_for_a_host() {
        let arguments = B.arguments(Share::Alone, "linerate-agent --stdio");
        assert!(arguments.ends_with(&["--".into(), "::1".into(), "linerate-agent --stdio".into()]), "{arguments:?}");
        assert!(arguments.windows(2).any(|pair| pair == ["-p", "22"]));
        assert!(arguments.windows(2).any(|pair| pair == ["-l", "root"]));
        assert!(arguments.contains(&"BatchMode=yes".to_owned()));
        let asking = Ssh { may_ask: true, ..B }.arguments(Share::Alone, "");
        assert!(!asking.contains(&"BatchMode=yes".to_owned()), "a password can be typed");
    }

    #[test]
    fn sessions_share_a_connection_by_a_private_socket() {
        let path = socket().expect("a folder for temporary files");
        assert_ne!(socket(), Some(path.clone()));
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let first = B.arguments(Share::First(&path), "");
        assert!(first.contains(&"ControlMaster=yes".to_owned()) && first.contains(&path.display().to_string()));
        let further = B.arguments(Share::Further(&path), "");
        assert!(further.contains(&"ControlMaster=no".to_owned()) && further.contains(&path.display().to_string()));
    }
}
