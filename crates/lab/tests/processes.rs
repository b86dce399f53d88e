//! What is left of a lab after its process, and labs without root: whole processes, this program started again.
//! Knows nothing of rates. Has a main of its own, because the test harness has threads and a user namespace wants none.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::{HOST_IPV6, Lab, Privilege, Shape, TARGET_IPV4, TARGET_IPV6, enter_user_namespace, privilege};

/// Set in the environment of the process that holds a lab.
const ROLE: &str = "LINERATE_LAB_TEST_ROLE";

const TESTS: [(&str, Test); 5] = [
    ("nothing_is_left_after_the_lab_is_dropped", nothing_is_left_after_the_lab_is_dropped),
    ("nothing_is_left_after_sigkill", nothing_is_left_after_sigkill),
    ("a_child_process_can_enter_the_machines", a_child_process_can_enter_the_machines),
    ("a_lab_needs_no_root", a_lab_needs_no_root),
    ("a_refusal_names_the_switch", a_refusal_names_the_switch),
];

type Test = fn() -> Result<(), Skip>;

/// What this machine lacks for a test.
struct Skip(&'static str);

fn main() -> ExitCode {
    if env::var_os(ROLE).is_some() {
        return match hold() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("failed: {error}");
                ExitCode::FAILURE
            }
        };
    }
    // A name, as cargo's own harness takes it; its options mean nothing here.
    let wanted = env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, test) in TESTS.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        match test() {
            Ok(()) => println!("test {name} ... ok"),
            Err(Skip(why)) => println!("test {name} ... skipped, {why}"),
        }
    }
    ExitCode::SUCCESS
}

/// The other role: makes a lab, tries it, says where it is, keeps it until standard input ends.
fn hold() -> Result<(), Box<dyn std::error::Error>> {
    let privilege = privilege();
    match privilege {
        Privilege::Root => {}
        Privilege::UserNamespace => enter_user_namespace()?,
        Privilege::None { why } => return Err(why.into()),
    }
    let lab = Lab::up(&Shape::modest_board())?;
    for target in ["[::]:0", "0.0.0.0:0"] {
        let receiver = lab.target.run(|| UdpSocket::bind(target))?;
        receiver.set_read_timeout(Some(Duration::from_secs(5)))?;
        let port = receiver.local_addr()?.port();
        let sender = lab.host.run(|| UdpSocket::bind(target))?;
        match target {
            "[::]:0" => sender.send_to(b"there", (TARGET_IPV6, port))?,
            _ => sender.send_to(b"there", (TARGET_IPV4, port))?,
        };
        let (_, from) = receiver.recv_from(&mut [0; 16])?;
        if target == "[::]:0" && from.ip() != HOST_IPV6 {
            return Err(format!("came from {from}").into());
        }
    }
    let counted = lab.receive_queue_counts()?.is_some_and(|counts| counts.packets > 0);
    println!(
        "ready {} {} notes={} counted={counted}",
        lab.host.path().display(),
        lab.target.path().display(),
        lab.notes().len()
    );
    let output = Command::new("nsenter")
        .arg(format!("--net={}", lab.target.path().display()))
        .args(["cat", "/proc/thread-self/net/dev"])
        .output();
    match output {
        Ok(output) => println!("child {:?}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat())),
        Err(_) => println!("child cannot be tried"),
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A process that holds a lab; it ends with this value.
struct Holder {
    process: Child,
    /// Dropped to end it in peace.
    stdin: Option<ChildStdin>,
    host: PathBuf,
    target: PathBuf,
    ready: String,
    child: String,
}

impl Holder {
    fn start(mut command: Command) -> Result<Holder, String> {
        let mut process = command
            .env(ROLE, "hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let stdin = process.stdin.take();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
        let ready = line();
        if !ready.starts_with("ready ") {
            process.wait().unwrap();
            return Err(ready);
        }
        let child = line();
        let mut words = ready.split(' ').skip(1).map(PathBuf::from);
        let (host, target) = (words.next().unwrap(), words.next().unwrap());
        Ok(Holder { process, stdin, host, target, ready, child })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn myself() -> Command {
    Command::new(env::current_exe().unwrap())
}

/// The links of the namespace that the tests run in.
fn links() -> Vec<String> {
    let dev = fs::read_to_string("/proc/net/dev").unwrap();
    dev.lines().skip(2).map(|line| line.split(':').next().unwrap().trim().to_owned()).collect()
}

/// A link here whose other end is in `netns`: the kernel takes both away when that namespace is destroyed, which
/// nothing else shows of a namespace without a name.
fn witness(name: &str, netns: &Path) -> Result<(), Skip> {
    let ip = |arguments: &[&str]| Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    match ip(&["link", "add", name, "type", "veth", "peer", "name", name, "netns", &netns.display().to_string()]) {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Skip("needs ip(8) of iproute2")),
    }
}

/// Ends a holder and sees that its two namespaces are destroyed and no link is left here.
fn check_nothing_is_left(end: impl FnOnce(&mut Holder)) -> Result<(), Skip> {
    if privilege() != Privilege::Root {
        return Err(Skip("needs root"));
    }
    let before = links();
    let mut holder = Holder::start(myself()).unwrap();
    assert_eq!(links(), before, "a lab has no link outside itself");
    let names = ["h", "t"].map(|end| format!("lab{end}{}", std::process::id()));
    witness(&names[0], &holder.host)?;
    witness(&names[1], &holder.target)?;
    assert_eq!(links().len(), before.len() + 2);
    end(&mut holder);
    holder.process.wait().unwrap();
    // Namespaces are destroyed in the background.
    let deadline = Instant::now() + Duration::from_secs(10);
    while links() != before {
        assert!(Instant::now() < deadline, "still there: {:?}, before: {before:?}", links());
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn nothing_is_left_after_the_lab_is_dropped() -> Result<(), Skip> {
    check_nothing_is_left(|holder| drop(holder.stdin.take()))
}

fn nothing_is_left_after_sigkill() -> Result<(), Skip> {
    check_nothing_is_left(|holder| holder.process.kill().unwrap())
}

#[track_caller]
fn check_works(holder: &Holder) -> Result<(), Skip> {
    assert!(holder.ready.ends_with("notes=0 counted=true"), "{}", holder.ready);
    if holder.child == "child cannot be tried" {
        return Err(Skip("needs nsenter"));
    }
    assert!(holder.child.contains("eth0:") && holder.child.contains("ifb0:"), "{}", holder.child);
    Ok(())
}

fn a_child_process_can_enter_the_machines() -> Result<(), Skip> {
    if privilege() != Privilege::Root {
        return Err(Skip("needs root"));
    }
    check_works(&Holder::start(myself()).unwrap())
}

/// A copy that any user can run, and `setpriv` to become one.
fn as_nobody(test: &str, wrap: &[&str]) -> Result<(Command, TemporaryCopy), Skip> {
    if privilege() != Privilege::Root {
        return Err(Skip("needs root, to become another user"));
    }
    if Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err(Skip("needs setpriv of util-linux"));
    }
    let copy = env::temp_dir().join(format!("linerate-lab-{test}-{}", std::process::id()));
    fs::copy(env::current_exe().unwrap(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).args(wrap).arg(&copy).current_dir("/");
    Ok((command, TemporaryCopy(copy)))
}

struct TemporaryCopy(PathBuf);

impl Drop for TemporaryCopy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn a_lab_needs_no_root() -> Result<(), Skip> {
    let (command, _copy) = as_nobody("user", &[])?;
    match Holder::start(command) {
        Ok(holder) => check_works(&holder),
        // Right on a kernel that forbids it, as long as the sentence says so.
        Err(why) if why.contains("run as root") => Err(Skip("this kernel forbids user namespaces to users")),
        Err(why) => panic!("{why}"),
    }
}

/// The limit is one of each user namespace, so the switch is thrown in one of its own, not on this machine.
fn a_refusal_names_the_switch() -> Result<(), Skip> {
    let script =
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --bounding-set=-all \"$0\"";
    let (command, _copy) = as_nobody("refused", &["unshare", "--user", "--map-root-user", "sh", "-c", script])?;
    let why = match Holder::start(command) {
        Ok(_) => panic!("made a lab where none is allowed"),
        Err(why) => why,
    };
    if why.is_empty() {
        return Err(Skip("needs unshare, and user namespaces for users"));
    }
    assert!(why.contains("user.max_user_namespaces = 0"), "{why}");
    Ok(())
}
