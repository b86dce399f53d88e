//! An agent carried over ssh to a board that has none: what is left there, who puts settings back, what is said when it
//! cannot be.
//! Knows the board only as dropbear or OpenSSH show it; the board is a folder with BusyBox and hardly a tool.

mod machines;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linerate_lab::TARGET_IPV4;
use machines::{Bench, Ran, Running, signal};

const LONG: Duration = Duration::from_secs(40);
const IN_TIME: Duration = Duration::from_secs(15);

/// One short trial that leaves the CPUs in peace, and one that does not end.
const QUICK: [&str; 6] = ["--set", "warmup=0s", "--set", "rate=20M", "--set", "duration=200ms"];
const ENDLESS: [&str; 6] = ["--set", "warmup=0s", "--set", "rate=20M", "--set", "duration=60s"];

/// What a board has beside a shell: no scp, no sftp, no uname, no cksum.
const NO_TOOLS: [&str; 5] = ["sh", "cat", "mkdir", "chmod", "rm"];
/// A usual one.
const TOOLS: [&str; 8] = ["sh", "cat", "mkdir", "chmod", "rm", "uname", "cksum", "head"];

/// Which program lets people in.
#[derive(Clone, Copy, PartialEq)]
enum Daemon {
    /// In the board's folder, as its root.
    Dropbear,
    /// On this machine's own file system.
    OpenSsh,
}

/// A board: the target's namespace, with a file system and a daemon of its own.
struct Board {
    daemon: Child,
    /// Where the `ssh` is that knows the keys.
    path: String,
    /// Where agents are to be found.
    agents: String,
}

const PORT: u16 = 2222;

impl Board {
    /// `mounts` are shell commands that change the board's file system; they know its folder as `$ROOT`.
    fn start(bench: &Bench, daemon: Daemon, tools: &[&str], mounts: &str) -> Option<Board> {
        let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        if users.split_whitespace().nth(2) == Some("1") {
            eprintln!("SKIPPED carry: a daemon for logins needs root, not a user namespace");
            return None;
        }
        let needed = ["/usr/bin/ssh", "/usr/sbin/sshd", "/usr/sbin/dropbear", "/usr/bin/dropbearkey", "/bin/busybox"];
        if let Some(missing) = needed.iter().find(|path| !Path::new(path).exists()) {
            eprintln!("SKIPPED carry: {missing} is missing; 'cargo xtask setup' installs it");
            return None;
        }
        let root = bench.folder.0.join("board");
        for folder in ["bin", "dev", "etc", "proc", "root/.ssh", "tmp", "run/sshd"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let agent = agent();
        with_libraries(Path::new("/usr/sbin/dropbear"), &root);
        with_libraries(&agent, &root);
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        tools.iter().for_each(|tool| symlink("busybox", root.join("bin").join(tool)).unwrap());
        fs::copy("/usr/sbin/dropbear", root.join("dropbear")).unwrap();
        fs::write(root.join("etc/passwd"), "root::0:0:root:/root:/bin/sh\n").unwrap();
        fs::write(root.join("dev/null"), "").unwrap();

        let file = |name: &str| bench.folder.path(name);
        for key in ["host_key", "user_key", "wrong_key"] {
            quiet(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]));
        }
        let dropbear_key = root.join("host_key").display().to_string();
        quiet(Command::new("dropbearkey").args(["-t", "ed25519", "-f", &dropbear_key]));
        let authorized = root.join("root/.ssh/authorized_keys");
        fs::copy(file("user_key.pub"), &authorized).unwrap();
        for private in [authorized.parent().unwrap(), &root.join("root")] {
            fs::set_permissions(private, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let settings = format!(
            "Port {PORT}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n",
            file("host_key"),
            authorized.display()
        );
        fs::write(file("sshd_config"), settings).unwrap();
        let _ = fs::create_dir_all("/run/sshd");

        let serve = match daemon {
            Daemon::Dropbear => format!("exec chroot $ROOT /dropbear -F -E -s -p {PORT} -r /host_key -P /tmp/pid"),
            Daemon::OpenSsh => format!("exec /usr/sbin/sshd -D -e -f {}", file("sshd_config")),
        };
        // Mounts of a namespace of its own end with the daemon.
        let script = format!(
            "ROOT={}; mount --make-rprivate / && mount --bind /dev/null $ROOT/dev/null && mount --bind /proc $ROOT/proc \
             && {mounts} && {serve}",
            root.display()
        );
        let netns = format!("--net={}", bench.lab().target.path().display());
        let mut command = Command::new("nsenter");
        bench.dress(command.args([&netns, "unshare", "--mount", "sh", "-c", &script]));
        let log = fs::File::create(file("log")).unwrap();
        let daemon = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();

        let mine = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n",
            file("user_key"),
            file("known_hosts")
        );
        fs::write(file("ssh_config"), mine).unwrap();
        let (bin, agents) = (file("bin"), file("agents"));
        fs::create_dir(&bin).unwrap();
        fs::create_dir(&agents).unwrap();
        fs::copy(agent, format!("{agents}/linerate-agent-x86_64")).unwrap();
        let wrapper = format!("{bin}/ssh");
        fs::write(&wrapper, format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", file("ssh_config"))).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        let board = Board { daemon, path, agents };
        bench.wait_until("the board lets people in", IN_TIME, || {
            bench.lab().host.run(|| Ok(std::net::TcpStream::connect((TARGET_IPV4, PORT)).is_ok())).unwrap()
        });
        Some(board)
    }

    /// `linerate run udp-stream` from the host's machine.
    fn run(&self, bench: &Bench, more: &[&str]) -> Running {
        let target = format!("root@{TARGET_IPV4}:{PORT}");
        let mut command = bench.linerate(&["run", "udp-stream", "--target", &target, "--json"]);
        command.args(more).env("PATH", &self.path);
        bench.lab().host.run(|| Ok(Running::start(command))).unwrap()
    }

    fn run_carried(&self, bench: &Bench, more: &[&str]) -> Running {
        let mut words = vec!["--agents", self.agents.as_str()];
        words.extend(more);
        self.run(bench, &words)
    }

    /// The agents' folders on the board.
    fn folders(&self) -> Vec<PathBuf> {
        let seen = |folder: &str| PathBuf::from(format!("/proc/{}", self.daemon.id())).join("root").join(folder);
        let entries = ["tmp", "root", "run"].map(seen).into_iter().filter_map(|folder| fs::read_dir(folder).ok());
        let paths = entries.flatten().flatten().map(|entry| entry.path());
        let is_agents = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let chance = name.strip_prefix("linerate-").unwrap_or_default();
            chance.len() == 16 && chance.chars().all(|c| c.is_ascii_hexdigit())
        };
        paths.filter(is_agents).collect()
    }

    /// The processes of carried agents whose file is gone: number and arguments.
    fn agents(&self, bench: &Bench) -> Vec<(u32, String)> {
        let netns = fs::metadata(bench.lab().target.path()).unwrap();
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let ours = numbers.filter(|number| {
            use std::os::unix::fs::MetadataExt;
            let exe = fs::read_link(format!("/proc/{number}/exe")).unwrap_or_default();
            let theirs = fs::metadata(format!("/proc/{number}/ns/net"));
            exe.to_string_lossy().ends_with("linerate-agent (deleted)")
                && theirs.is_ok_and(|theirs| theirs.ino() == netns.ino())
        });
        let words = |number: u32| fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        ours.map(|number| (number, String::from_utf8_lossy(&words(number)).replace('\0', " "))).collect()
    }

    #[track_caller]
    fn check_nothing_is_left(&self, bench: &Bench) {
        bench.wait_until("no agent is left", IN_TIME, || self.agents(bench).is_empty());
        bench.wait_until("no folder is left", IN_TIME, || self.folders().is_empty());
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        signal(self.daemon.id(), "KILL");
        let _ = self.daemon.wait();
    }
}

/// The agent's program, which cargo does not build for the tests of another package.
fn agent() -> PathBuf {
    quiet(Command::new(env!("CARGO")).args(["build", "-q", "--package", "linerate-agent"]));
    Path::new(env!("CARGO_BIN_EXE_linerate")).with_file_name("linerate-agent")
}

#[track_caller]
fn quiet(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Gives the board what a program of this machine loads.
fn with_libraries(program: &Path, root: &Path) {
    let output = Command::new("ldd").arg(program).output().unwrap();
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let there = root.join(&word[1..]);
        // What runs already must not lose what it has loaded.
        if !there.exists() {
            fs::create_dir_all(there.parent().unwrap()).unwrap();
            fs::copy(word, there).unwrap();
        }
    }
}

#[track_caller]
fn check_measured(ran: &Ran) {
    let records = ran.check_done().json();
    assert_eq!(records.len(), 1, "{ran:#?}");
    assert!(records[0]["result"]["throughput_bps"].as_f64().is_some_and(|bps| bps > 0.0), "{ran:#?}");
}

fn mtu(bench: &Bench) -> String {
    // /sys shows the namespace that it was mounted in, which is another.
    let netns = format!("--net={}", bench.lab().target.path().display());
    let output = Command::new("nsenter").args([&netns, "ip", "-o", "link", "show", "eth0"]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    words.split_whitespace().skip_while(|word| *word != "mtu").nth(1).unwrap_or_default().to_owned()
}

#[test]
fn to_a_board_that_has_hardly_a_tool() {
    let Some(bench) = Bench::new("carry") else { return };
    let Some(board) = Board::start(&bench, Daemon::Dropbear, &NO_TOOLS, "true") else { return };
    check_measured(&board.run_carried(&bench, &QUICK).wait(LONG));
    board.check_nothing_is_left(&bench);
    let log = fs::read_to_string(bench.folder.path("log")).unwrap();
    assert_eq!(log.matches("auth succeeded").count(), 1, "one login for all: {log}");

    // Its settings go back when the agent is killed, though its file is gone, and when the controller is.
    let change = ["--set", "target.mtu=1400"];
    let words: Vec<&str> = ENDLESS.iter().chain(&change).copied().collect();
    let running = board.run_carried(&bench, &words);
    // The agent's own way there passes the cable too, so traffic tells nothing of the trial.
    bench.wait_until("the MTU is changed", LONG, || mtu(&bench) == "1400");
    assert_eq!(board.folders(), Vec::<PathBuf>::new(), "what runs needs no file");
    let agents = board.agents(&bench);
    assert_eq!(agents.len(), 2, "the agent and its watchdog: {agents:?}");
    agents.iter().filter(|(_, words)| words.contains("--stdio")).for_each(|(number, _)| signal(*number, "KILL"));
    running.wait(IN_TIME).check_sentence(&["the target (ssh:root@", "was lost"]);
    bench.wait_until("the MTU is back", IN_TIME, || mtu(&bench) == "1500");

    let running = board.run_carried(&bench, &words);
    bench.wait_until("the MTU is changed", LONG, || mtu(&bench) == "1400");
    running.signal("KILL");
    bench.wait_until("the MTU is back", IN_TIME, || mtu(&bench) == "1500");
    board.check_nothing_is_left(&bench);
}

#[test]
fn to_a_usual_board_and_left_there() {
    let Some(bench) = Bench::new("carry-keep") else { return };
    let Some(board) = Board::start(&bench, Daemon::Dropbear, &TOOLS, "true") else { return };
    let words: Vec<&str> = ["--keep-agent"].iter().chain(&QUICK).copied().collect();
    let ran = board.run_carried(&bench, &words).wait(LONG);
    check_measured(&ran);
    let place = ran.stderr.split("--remote-agent ").nth(1).expect(&ran.stderr);
    let place = place.lines().next().unwrap_or_default().trim();
    assert!(place.starts_with("/tmp/linerate-") && board.folders().len() == 1, "{place}");
    let mode = fs::metadata(&board.folders()[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let words: Vec<&str> = ["--remote-agent", place].iter().chain(&QUICK).copied().collect();
    check_measured(&board.run(&bench, &words).wait(LONG));
}

#[test]
fn to_a_machine_with_openssh() {
    let Some(bench) = Bench::new("carry-openssh") else { return };
    if Path::new("/usr/local/bin/linerate-agent").exists() {
        eprintln!("SKIPPED carry-openssh: this machine has an agent");
        return;
    }
    let Some(board) = Board::start(&bench, Daemon::OpenSsh, &TOOLS, "true") else { return };
    let before = board.folders();
    check_measured(&board.run_carried(&bench, &QUICK).wait(LONG));
    bench.wait_until("no agent is left", IN_TIME, || board.agents(&bench).is_empty());
    assert_eq!(board.folders(), before);
}

/// Without any agent that was built, linerate is its own on a machine of its kind; on one without its libraries it says so.
#[test]
fn itself_to_a_machine_of_its_own_kind() {
    let Some(bench) = Bench::new("carry-itself") else { return };
    let Some(board) = Board::start(&bench, Daemon::Dropbear, &TOOLS, "true") else { return };
    with_libraries(Path::new(env!("CARGO_BIN_EXE_linerate")), &bench.folder.0.join("board"));
    // Of the machine's own agents none may be found; those beside this program are nobody's.
    let program = bench.folder.path("own/bin/linerate");
    fs::create_dir_all(Path::new(&program).parent().unwrap()).unwrap();
    // A release has no such debugging information, and a board no time for it.
    quiet(Command::new("strip").args(["-o", &program, env!("CARGO_BIN_EXE_linerate")]));
    let run = |more: &[&str]| {
        let target = format!("root@{TARGET_IPV4}:{PORT}");
        let mut command = Command::new(&program);
        bench.dress(command.args(["run", "udp-stream", "--target", &target, "--json"]).args(QUICK).args(more));
        command.env("PATH", &board.path);
        bench.lab().host.run(|| Ok(Running::start(command))).unwrap().wait(LONG)
    };
    check_measured(&run(&["--set", "target.mtu=1400", "--set", "message_size=1K"]));
    bench.wait_until("the MTU is back", IN_TIME, || mtu(&bench) == "1500");
    board.check_nothing_is_left(&bench);

    let loader = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let root = bench.folder.0.join("board");
    let libraries = ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"].map(|of| root.join(of));
    let own = libraries.into_iter().flat_map(loader).filter(|path| path.to_string_lossy().contains("libm.so"));
    assert!(own.map(|path| fs::remove_file(path).unwrap()).count() > 0, "linerate needs libm");
    run(&[]).check_sentence(&["this very program, carried there, does not run", "libm", "cargo xtask agents"]);
    board.check_nothing_is_left(&bench);
}

#[test]
fn where_it_finds_no_place() {
    let Some(bench) = Bench::new("carry-place") else { return };
    // /tmp runs no programs, and the home folder is what is left.
    let noexec = "mount -t tmpfs -o noexec none $ROOT/tmp";
    let Some(board) = Board::start(&bench, Daemon::Dropbear, &TOOLS, noexec) else { return };
    check_measured(&board.run_carried(&bench, &QUICK).wait(LONG));
    board.check_nothing_is_left(&bench);
    drop(board);

    fs::remove_dir_all(bench.folder.0.join("board")).unwrap();
    let full = "mount -t tmpfs -o noexec none $ROOT/tmp && mount -t tmpfs -o size=64k none $ROOT/run && mount \
                --bind -o ro $ROOT/root $ROOT/root && mount -o remount,ro,bind $ROOT/root";
    for name in ["bin", "agents"] {
        fs::remove_dir_all(bench.folder.path(name)).unwrap();
    }
    for key in ["host_key", "user_key", "wrong_key", "known_hosts"] {
        let _ = fs::remove_file(bench.folder.path(key));
    }
    let Some(board) = Board::start(&bench, Daemon::Dropbear, &TOOLS, full) else { return };
    board.run_carried(&bench, &QUICK).wait(LONG).check_sentence(&[
        "the target (ssh:root@",
        "finds no place there",
        "/tmp runs no programs (noexec)",
        "/run: ",
        "No space left on device",
        "/root is not to be written in",
        "--remote-agent",
    ]);
    board.check_nothing_is_left(&bench);

    // No agent of that kind here.
    let empty = bench.folder.path("bin");
    let words: Vec<&str> = ["--agents", &empty].iter().chain(&QUICK).copied().collect();
    board.run(&bench, &words).wait(LONG).check_sentence(&[
        "linerate-agent-x86_64 is not in",
        "'cargo xtask agents x86_64'",
        "--agents",
    ]);
    // And a key that the board does not know.
    let settings = fs::read_to_string(bench.folder.path("ssh_config")).unwrap();
    fs::write(bench.folder.path("ssh_config"), settings.replace("user_key", "wrong_key")).unwrap();
    board.run_carried(&bench, &QUICK).wait(LONG).check_sentence(&["Permission denied", "works by hand"]);
}
