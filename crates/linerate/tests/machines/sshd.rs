//! An sshd of a test on a port of loopback, with keys of its own.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{Bench, signal};

/// A child that is killed with the value, and with its process group.
pub struct Helper(pub Child);

impl Drop for Helper {
    fn drop(&mut self) {
        signal(self.0.id(), "KILL");
        let _ = self.0.wait();
    }
}

/// It ends with the value.
pub struct Sshd {
    _daemon: Helper,
    pub port: u16,
    /// Where the `ssh` is that knows the keys.
    pub path: String,
}

impl Sshd {
    /// `None`, and a line that says so, without one.
    pub fn start(bench: &Bench) -> Option<Sshd> {
        let (sshd, keygen) = (Path::new("/usr/sbin/sshd"), Path::new("/usr/bin/ssh-keygen"));
        if !(sshd.exists() && keygen.exists() && Path::new("/usr/bin/ssh").exists()) {
            eprintln!("SKIPPED ssh: install openssh-server and openssh-client");
            return None;
        }
        // sshd becomes other users on its way, of which a user namespace of one user has none.
        let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        if users.split_whitespace().nth(2) == Some("1") {
            eprintln!("SKIPPED ssh: sshd needs root, not a user namespace");
            return None;
        }
        let file = |name: &str| bench.folder.path(name);
        for key in ["host_key", "user_key"] {
            let made = Command::new(keygen).args(["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]).status().unwrap();
            assert!(made.success());
        }
        fs::copy(file("user_key.pub"), file("authorized_keys")).unwrap();
        // Privilege separation wants an empty folder, which a system that never started sshd lacks.
        let _ = fs::create_dir_all("/run/sshd");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n",
            file("host_key"),
            file("authorized_keys")
        );
        fs::write(file("sshd_config"), settings).unwrap();
        let tried = Command::new(sshd).args(["-t", "-f", &file("sshd_config")]).output().unwrap();
        if !tried.status.success() {
            eprintln!("SKIPPED ssh: sshd cannot run here: {}", String::from_utf8_lossy(&tried.stderr));
            return None;
        }
        let mut command = Command::new(sshd);
        bench.dress(&mut command);
        command.args(["-D", "-e", "-f", &file("sshd_config")]).stderr(Stdio::null());
        let daemon = Helper(command.spawn().unwrap());
        let mine = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking accept-new\n",
            file("user_key"),
            file("known_hosts")
        );
        fs::write(file("ssh_config"), mine).unwrap();
        let bin = file("bin");
        fs::create_dir(&bin).unwrap();
        let wrapper = format!("{bin}/ssh");
        fs::write(&wrapper, format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", file("ssh_config"))).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        bench.wait_until("sshd listens", Duration::from_secs(10), || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        Some(Sshd { _daemon: daemon, port, path })
    }
}
