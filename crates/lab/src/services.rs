//! Servers that a team has, each in a folder of its own and for this machine alone: to try them, and for tests.
//! Knows how they are started and ended, and nothing of what is kept there.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// How long a server may take to begin, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A PostgreSQL server that listens in its folder only; it ends with this, and with the thread that started it.
#[derive(Debug)]
pub struct Postgres {
    server: Child,
    folder: PathBuf,
    /// Of one that is reached by TLS.
    port: Option<u16>,
}

impl Postgres {
    /// Whether the programs are installed.
    pub fn is_installed() -> bool {
        program("initdb").is_some() && program("postgres").is_some()
    }

    /// Makes a database in a folder that is not there yet, and starts its server. The error is a sentence.
    pub fn start(folder: &Path) -> io::Result<Postgres> {
        Postgres::made(folder, None)
    }

    /// The same, reached over TCP on the loopback and by TLS alone, with this certificate and its key.
    pub fn encrypted(folder: &Path, certificate: &Path, key: &Path) -> io::Result<Postgres> {
        Postgres::made(folder, Some([certificate, key]))
    }

    fn made(folder: &Path, tls: Option<[&Path; 2]>) -> io::Result<Postgres> {
        let missing = || io::Error::other("PostgreSQL is not installed; apt-get install postgresql");
        let (initdb, postgres) = (program("initdb").ok_or_else(missing)?, program("postgres").ok_or_else(missing)?);
        fs::create_dir(folder)?;
        // It refuses to be root.
        let user = unprivileged()?;
        if let Some((uid, gid)) = user {
            chown(folder, Some(uid), Some(gid))?;
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(0o711))?;
        let data = folder.join("data");
        let mut make = as_user(user, &initdb);
        make.args(["--no-sync", "--auth=trust", "--username=linerate", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data);
        let made = make.current_dir(folder).stdin(Stdio::null()).output()?;
        if !made.status.success() {
            return Err(io::Error::other(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr).trim())));
        }
        let port = tls.map(|_| free_port()).transpose()?;
        if let Some(files) = tls {
            keep_keys(folder, files, user)?;
            // No user comes over TCP in the clear.
            fs::write(data.join("pg_hba.conf"), "local all all trust\nhostssl all all 127.0.0.1/32 trust\n")?;
        }
        let server = serve(user, &postgres, folder, port)?;
        let mut running = Postgres { server, folder: folder.to_owned(), port };
        running.wait_ready()?;
        Ok(running)
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        if let Some(port) = self.port {
            return format!("postgres://linerate@localhost:{port}/postgres?sslmode=require");
        }
        let encoded: String = self.folder.display().to_string().replace('%', "%25").replace('/', "%2F");
        format!("postgres://linerate@{encoded}/postgres")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Kills it as a crash would, and starts it again on what it had written.
    pub fn crash(&mut self) -> io::Result<()> {
        self.server.kill()?;
        self.server.wait()?;
        let postgres = program("postgres").ok_or(io::ErrorKind::NotFound)?;
        let began = Instant::now();
        // It refuses to begin before the last process of the one that was killed has noticed.
        loop {
            self.server = serve(unprivileged()?, &postgres, &self.folder, self.port)?;
            match self.wait_ready() {
                Err(_) if began.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(100)),
                ready => return ready,
            }
        }
    }

    fn wait_ready(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let socket = self.folder.join(format!(".s.PGSQL.{}", self.port.unwrap_or(5432)));
        // It makes its socket when it is about to listen; the pid file's last line tells when it does.
        let pid = self.server.id().to_string();
        let is_ready = |folder: &Path| {
            let status = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
            let line = |number: usize| status.lines().nth(number).map(str::trim);
            // One that was killed leaves its file behind.
            line(0) == Some(pid.as_str()) && line(7) == Some("ready")
        };
        while !(socket.exists() && is_ready(&self.folder)) {
            if let Some(ended) = self.server.try_wait()? {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("postgres ended ({ended}): {}", log.trim())));
            }
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("postgres is not ready after 30 s"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // What it had is not wanted any more: no need to end it gently.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// What a NATS server's users may do, in its folder.
const RIGHTS: &str = "rights.conf";

/// A NATS server with JetStream, on the loopback of the network namespace in which it was started; it ends with this, and with the
/// thread that started it.
#[derive(Debug)]
pub struct Nats {
    server: Child,
    folder: PathBuf,
    port: u16,
}

impl Nats {
    /// Whether the program is installed.
    pub fn is_installed() -> bool {
        nats_server().is_some()
    }

    /// Starts a server in a folder that is not there yet. The error is a sentence.
    pub fn start(folder: &Path) -> io::Result<Nats> {
        Nats::made(folder, None)
    }

    /// The same, which speaks TLS alone, with this certificate and its key.
    pub fn encrypted(folder: &Path, certificate: &Path, key: &Path) -> io::Result<Nats> {
        Nats::made(folder, Some([certificate, key]))
    }

    fn made(folder: &Path, tls: Option<[&Path; 2]>) -> io::Result<Nats> {
        fs::create_dir(folder)?;
        if let Some((uid, gid)) = unprivileged()? {
            chown(folder, Some(uid), Some(gid))?;
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(0o711))?;
        tls.map_or(Ok(()), |files| keep_keys(folder, files, unprivileged()?))?;
        let port = free_port()?;
        let mut running = Nats { server: Nats::serve(folder, port)?, folder: folder.to_owned(), port };
        running.wait_ready()?;
        Ok(running)
    }

    /// The URL of the queue.
    pub fn url(&self) -> String {
        let scheme = if self.folder.join(KEYS[0]).exists() { "tls" } else { "nats" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Its port on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) -> io::Result<()> {
        self.server.kill()?;
        self.server.wait().map(drop)
    }

    /// Lets users do no more than the server's configuration in this text says, from its next start on.
    pub fn restrict(&self, rights: &str) -> io::Result<()> {
        fs::write(self.folder.join(RIGHTS), rights)
    }

    /// Starts it again on what it had written.
    pub fn again(&mut self) -> io::Result<()> {
        self.server = Nats::serve(&self.folder, self.port)?;
        self.wait_ready()
    }

    fn serve(folder: &Path, port: u16) -> io::Result<Child> {
        let program = nats_server()
            .ok_or_else(|| io::Error::other("nats-server is not installed; apt-get install nats-server"))?;
        let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
        let mut server = as_user(unprivileged()?, &program);
        server.args(["--addr", "127.0.0.1", "--jetstream", "--port", &port.to_string(), "--store_dir"]);
        server.arg(folder.join("data")).current_dir(folder);
        let [certificate, key] = KEYS.map(|name| folder.join(name));
        if certificate.exists() {
            server.arg("--tls").arg("--tlscert").arg(certificate).arg("--tlskey").arg(key);
        }
        let rights = folder.join(RIGHTS);
        if rights.exists() {
            server.arg("--config").arg(rights);
        }
        server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
    }

    fn wait_ready(&mut self) -> io::Result<()> {
        let began = Instant::now();
        // It listens only when JetStream has read what it kept.
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Some(ended) = self.server.try_wait()? {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(io::Error::other(format!("nats-server ended ({ended}): {last}")));
            }
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("nats-server is not ready after 30 s"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Debian has it where only root's PATH leads.
fn nats_server() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("nats-server")).find(|file| file.is_file())
}

/// The files of one that speaks TLS, in its folder.
const KEYS: [&str; 2] = ["certificate.pem", "key.pem"];

/// Copies a certificate and its key to where the server's user reads them, and nobody else the key.
fn keep_keys(folder: &Path, files: [&Path; 2], user: Option<(u32, u32)>) -> io::Result<()> {
    for (name, file) in KEYS.into_iter().zip(files) {
        let place = folder.join(name);
        fs::copy(file, &place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600))?;
        if let Some((uid, gid)) = user {
            chown(&place, Some(uid), Some(gid))?;
        }
    }
    Ok(())
}

/// One that is free now; who else takes it meanwhile makes the start fail, in a sentence.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn serve(user: Option<(u32, u32)>, postgres: &Path, folder: &Path, port: Option<u16>) -> io::Result<Child> {
    let log = fs::File::create(folder.join("log"))?;
    let mut server = as_user(user, postgres);
    server.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    match port {
        None => server.args(["-c", "listen_addresses="]),
        Some(port) => {
            let [certificate, key] = KEYS.map(|name| folder.join(name).display().to_string());
            server.args(["-c", "listen_addresses=127.0.0.1", "-c", "ssl=on"]).args(["-c", &format!("port={port}")]);
            server.args(["-c", &format!("ssl_cert_file={certificate}"), "-c", &format!("ssl_key_file={key}")])
        }
    };
    server.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    server.spawn()
}

/// A program of the server's; Debian keeps them in a folder of their own.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_version = |version: u32| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"));
    let folders = (13..=30).rev().map(of_version).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Whom a server runs as that root starts: user and group. `None`: as the user who starts it.
fn unprivileged() -> io::Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    let found = find("postgres").or_else(|| find("nobody"));
    found.map(Some).ok_or_else(|| io::Error::other("there is no user postgres or nobody to run the server as"))
}

/// The program as this user, killed when the thread that starts it ends.
fn as_user(user: Option<(u32, u32)>, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some((uid, gid)) = user {
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]);
    }
    command.arg("--").arg(program);
    command
}
