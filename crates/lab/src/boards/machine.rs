//! A board that runs in this process: QEMU, the cable to a namespace here, and the ways to its agent and its host.
//! Knows no packages: what the board is made of is there.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::definition::{AgentPort, Board, DeviceTree, LinuxSystem, Software};
use super::folder::{Folders, console_log};
use super::initramfs::{self, Archive};
use super::parts::Parts;
use super::relay::Relay;
use super::{BoardError, ReadyBoard, ReadySoftware};
use crate::link::{LOOPBACK, Links};
use crate::sys::Namespace;
use crate::{HOST_IPV4, HOST_IPV6, IPV4_PREFIX, IPV6_PREFIX};

/// A board that runs. It ends when this is dropped, and when this process or the thread that started it ends.
///
/// ```text
///   this process                          QEMU, in the namespace
///   target ── relay ── agent ═══ UART ═══ linerate-agent --line
///   host ──── agent in the namespace      board's eth0
///                198.18.0.1  eth0 (tap) ══════╛ 198.18.0.2
/// ```
/// A bare board has the cable and a console, and no agent.
#[derive(Debug)]
pub struct Machine {
    board: &'static Board,
    qemu: Child,
    folder: PathBuf,
    /// Open as long as the board is ours.
    _lock: File,
    /// The host's end of the cable is in it.
    _namespace: Arc<Namespace>,
}

/// The agent's program at the host's end of the cable, with its arguments.
#[derive(Clone, Debug)]
pub struct HostAgent {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; it then speaks on its standard input and output.
    pub arguments: Vec<OsString>,
}

/// How a board is started, beside its parts.
pub struct Boot<'a> {
    /// Where it can be found.
    pub folders: &'a Folders,
    /// What of linerate runs on it ([`Board::runs`]).
    pub program: &'a Path,
    /// That at the other end of its cable.
    pub host_agent: HostAgent,
    /// Asked again and again: whether nobody wants it any more.
    pub interrupted: fn() -> bool,
    /// Hears what is going on.
    pub say: &'a mut dyn FnMut(&str),
}

/// What makes a board's cable (Documentation/networking/tuntap.rst).
const TUN: &str = "/dev/net/tun";
/// QEMU opens its sockets and its end of the cable at once, on a machine that has time.
const QEMU_TIME: Duration = Duration::from_secs(30);
/// A board boots in ten seconds, and in ten times that where many others want the CPU.
const BOOT_TIME: Duration = Duration::from_secs(240);
/// What a bare board says first.
const GREETING: &str = "linerate firmware: ";
/// How often what is waited for is looked at.
const TICK: Duration = Duration::from_millis(50);

impl ReadyBoard {
    /// Starts the board, and returns when its agent is there. The calling thread must live as long as the board.
    pub fn boot(&self, boot: Boot<'_>) -> Result<Machine, BoardError> {
        let Boot { folders, program, host_agent, interrupted, say } = boot;
        File::options().read(true).write(true).open(TUN).map_err(|error| BoardError::NoCable { error })?;
        let (folder, lock) = folders.take(self.board.name)?;
        let software = match &self.software {
            ReadySoftware::Linux(system, parts) => linux(self.board, system, parts, &folder, program)?,
            ReadySoftware::Bare(bare) => firmware(bare.loaded_by, program),
        };
        let namespace = step("making a network namespace", Namespace::new())?;
        let namespace = Arc::new(namespace);
        say("starting QEMU");
        let qemu = self.start_qemu(&folder, &software, &namespace)?;
        let mut machine = Machine { board: self.board, qemu, folder, _lock: lock, _namespace: Arc::clone(&namespace) };
        let line = match self.software {
            ReadySoftware::Linux(..) => Some(machine.wait_for("open its sockets", interrupted, |machine| {
                Ok(UnixStream::connect(machine.folder.join("agent")).ok())
            })?),
            ReadySoftware::Bare(_) => None,
        };
        machine.wait_for("open its end of the cable", interrupted, |_| {
            let found = namespace.run(|| Links::new().index(c"eth0"));
            Ok(found.ok())
        })?;
        step("giving the host's end of the cable its addresses", namespace.run(plug_in_host))?;
        let relay = match line {
            Some(line) => {
                let (heard_sent, heard) = mpsc::channel();
                let relay = step("carrying the board's serial line", Relay::start(line, heard_sent))?;
                machine.wait_for_agent(&heard, interrupted, say)?;
                Some(relay)
            }
            None => {
                machine.wait_for("start the firmware", interrupted, |machine| {
                    Ok(console_log(&machine.folder).contains(GREETING).then_some(()))
                })?;
                None
            }
        };
        // Now, not before: who finds the sockets finds a board that answers.
        let listen = |name: &str| {
            let path = machine.folder.join(name);
            UnixListener::bind(&path).map_err(|error| BoardError::file(&path, error))
        };
        if let Some(relay) = relay {
            step("listening for controllers", relay.serve(listen("target")?))?;
        }
        step("listening for the host's controllers", serve_host(listen("host")?, namespace, host_agent))?;
        Ok(machine)
    }

    fn start_qemu(&self, folder: &Path, software: &[OsString], namespace: &Namespace) -> Result<Child, BoardError> {
        let qemu = &self.board.qemu;
        let said = File::create(folder.join("qemu.log")).map_err(|error| BoardError::file(folder, error))?;
        let mut command = self.board.qemu();
        command.args(software).args(["-monitor", "none"]);
        // In QEMU's options a comma within a value is written twice.
        let socket = |id: &str| {
            let path = folder.join(id).display().to_string().replace(',', ",,");
            format!("socket,id={id},path={path},server=on,wait=off")
        };
        let log = folder.join("console.log").display().to_string().replace(',', ",,");
        if !self.board.is_bare() {
            command.arg("-chardev").arg(socket("agent"));
        }
        command.arg("-chardev").arg(format!("{},logfile={log}", socket("console")));
        command.arg("-chardev").arg(socket("monitor")).args(["-mon", "chardev=monitor,mode=control"]);
        command.args(serial_ports(qemu.agent_port));
        command.args(["-netdev", "tap,id=n0,ifname=eth0,script=no,downscript=no"]).args(qemu.port);
        let also = said.try_clone().map_err(|error| BoardError::file(folder, error))?;
        command.stdin(Stdio::null()).stdout(said).stderr(also);
        step("entering the namespace", namespace.confine(&mut command))?;
        command.spawn().map_err(|error| BoardError::Dead(format!("{} cannot be started: {error}", qemu.program)))
    }
}

impl Board {
    /// QEMU with this board, and nothing on it or at it yet.
    fn qemu(&self) -> Command {
        let mut command = Command::new(self.qemu.program);
        command.args(self.qemu.machine).args(["-display", "none", "-no-reboot", "-nic", "none"]);
        command
    }

    /// QEMU with this firmware on a bare board, for a caller who has a cable of his own: what `-netdev` calls it, without a
    /// name. The console goes to a file. `None`: the board is not bare.
    pub fn bare_qemu(&self, file: &Path, cable: &str, console: &Path) -> Option<Command> {
        let Software::Bare(bare) = self.software else { return None };
        let mut command = self.qemu();
        command.args(firmware(bare.loaded_by, file)).args(["-monitor", "none", "-serial"]);
        command.arg(format!("file:{}", console.display()));
        command.args(["-netdev", &format!("{cable},id=n0")]).args(self.qemu.port).stdin(Stdio::null());
        Some(command)
    }
}

/// QEMU's words for a Linux system; its initramfs, with the agent, is made in the board's folder.
fn linux(
    board: &Board,
    system: &LinuxSystem,
    parts: &Parts,
    folder: &Path,
    agent: &Path,
) -> Result<Vec<OsString>, BoardError> {
    let image = folder.join("initramfs");
    fs::write(&image, initramfs(board, system, parts, agent)?).map_err(|error| BoardError::file(&image, error))?;
    let (kernel, tree) = (parts.kernel(), parts.tree());
    let mut words: Vec<&OsStr> = vec!["-kernel".as_ref(), kernel.as_ref(), "-initrd".as_ref(), image.as_ref()];
    words.extend(["-append", system.command_line].map(OsStr::new));
    if !matches!(system.tree, DeviceTree::Qemu) {
        words.extend(["-dtb".as_ref(), tree.as_os_str()]);
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

/// QEMU's words for a firmware.
fn firmware((option, before): (&str, &str), file: &Path) -> Vec<OsString> {
    // Of a file that is an option's value, a comma is written twice.
    let file = file.display().to_string();
    let file = if before.is_empty() { file } else { file.replace(',', ",,") };
    vec![option.into(), format!("{before}{file}").into()]
}

fn initramfs(board: &Board, system: &LinuxSystem, parts: &Parts, agent: &Path) -> Result<Vec<u8>, BoardError> {
    let read = |path: &Path| fs::read(path).map_err(|error| BoardError::file(path, error));
    let mut archive = Archive::default();
    for folder in ["bin", "lib", "modules", "proc", "sys", "dev", "etc"] {
        archive.folder(folder);
    }
    let mut modules = Vec::new();
    for path in parts.modules().map_err(|error| BoardError::file(Path::new("modules"), error))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        archive.file(&format!("modules/{name}"), &read(&path)?);
        modules.push(name);
    }
    for (inside, path) in parts.files().map_err(|error| BoardError::file(Path::new("files"), error))? {
        archive.file(&inside.to_string_lossy(), &read(&path)?);
    }
    archive.file("bin/linerate-agent", &read(agent)?);
    archive.file("init", initramfs::init(board.name, system, &modules).as_bytes());
    Ok(archive.finish())
}

fn serial_ports(port: AgentPort) -> Vec<String> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    match port {
        AgentPort::Serial { agent, console } => (0..=agent.max(console))
            .flat_map(|number| match number {
                n if n == agent => words("-serial chardev:agent"),
                n if n == console => words("-serial chardev:console"),
                _ => words("-serial null"),
            })
            .collect(),
        // The first virtio device: its number is in its name on the board.
        AgentPort::Virtio => {
            words("-serial chardev:console -device virtio-serial-pci -device virtserialport,chardev=agent,nr=1")
        }
        AgentPort::Nowhere => words("-serial chardev:console"),
    }
}

impl Machine {
    /// Which board it is.
    pub fn board(&self) -> &'static Board {
        self.board
    }

    /// Whether it has ended by itself, or by somebody's `lab down`.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.qemu.try_wait(), Ok(None))
    }

    /// Waits until `look` finds something.
    fn wait_for<T>(
        &mut self,
        what: &str,
        interrupted: fn() -> bool,
        mut look: impl FnMut(&mut Machine) -> Result<Option<T>, BoardError>,
    ) -> Result<T, BoardError> {
        let deadline = Instant::now() + QEMU_TIME;
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            self.must_live(interrupted)?;
            if Instant::now() >= deadline {
                return Err(BoardError::Dead(format!(
                    "QEMU did not {what} within {} s; try again when this machine has time",
                    QEMU_TIME.as_secs()
                )));
            }
            thread::sleep(TICK);
        }
    }

    fn wait_for_agent(
        &mut self,
        heard: &Receiver<()>,
        interrupted: fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), BoardError> {
        let began = Instant::now();
        let mut said = 0;
        loop {
            match heard.recv_timeout(TICK) {
                Ok(()) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
            }
            self.must_live(interrupted)?;
            let elapsed = began.elapsed();
            if elapsed >= BOOT_TIME {
                return Err(self.dead(&format!("did not bring its agent up within {} s", BOOT_TIME.as_secs())));
            }
            if elapsed.as_secs() > said {
                said = elapsed.as_secs();
                say(&format!("booting, {said} s"));
            }
        }
    }

    fn must_live(&mut self, interrupted: fn() -> bool) -> Result<(), BoardError> {
        if interrupted() {
            return Err(BoardError::Interrupted);
        }
        if self.has_ended() {
            return Err(self.dead("ended while it was started"));
        }
        Ok(())
    }

    /// What is known of a board that came to nothing: the last words of its console, or of QEMU.
    fn dead(&self, how: &str) -> BoardError {
        let console = console_log(&self.folder);
        let qemu = fs::read_to_string(self.folder.join("qemu.log")).unwrap_or_default();
        let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
        let words = last(&console).or_else(|| last(&qemu));
        let words = words.map(|words| format!(", its last words: \"{words}\"")).unwrap_or_default();
        BoardError::Dead(format!("the board {} {how}{words}; try again, or with --update", self.board.name))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        // The lock's file stays locked until the last moment: nobody takes the folder while it is emptied.
        for entry in fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok) {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

fn plug_in_host() -> io::Result<()> {
    let mut links = Links::new();
    links.set_up(LOOPBACK, true)?;
    let link = links.index(c"eth0")?;
    // As in the lab of namespaces: nothing of IPv6's own goes over the cable. A kernel without IPv6 refuses.
    let _ = links.no_address_of_its_own(link);
    links.set_up(link, true)?;
    links.add_address(link, IpAddr::V4(HOST_IPV4), IPV4_PREFIX)?;
    let _ = links.add_address(link, IpAddr::V6(HOST_IPV6), IPV6_PREFIX);
    Ok(())
}

/// Gives each controller that asks for the host an agent of its own inside the namespace.
fn serve_host(listener: UnixListener, namespace: Arc<Namespace>, agent: HostAgent) -> io::Result<()> {
    thread::Builder::new().name("lab-host".to_owned()).spawn(move || {
        let mut children: Vec<Child> = Vec::new();
        for socket in listener.incoming().filter_map(Result::ok) {
            children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            // Who gets no agent hears the end of the stream.
            if let Ok(child) = start_agent(socket, &namespace, &agent) {
                children.push(child);
            }
        }
    })?;
    Ok(())
}

fn start_agent(mut socket: UnixStream, namespace: &Namespace, agent: &HostAgent) -> io::Result<Child> {
    io::Write::write_all(&mut socket, b"ok\n")?;
    let mut command = Command::new(&agent.program);
    command.args(&agent.arguments).stderr(Stdio::null());
    command.stdin(OwnedFd::from(socket.try_clone()?)).stdout(OwnedFd::from(socket));
    namespace.confine(&mut command)?;
    command.spawn()
}

fn step<T>(doing: &str, result: io::Result<T>) -> Result<T, BoardError> {
    result.map_err(|error| BoardError::Kernel { doing: doing.to_owned(), why: error.to_string() })
}
