//! The counters of a target that has no agent, read over ssh by a shell there: one connection, `cat` and `grep`, and no file left.
//! Knows no counter: which files are read, and what they mean, crate `host` knows.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::{ConnectOptions, ControlError, Endpoint, Guard, Link, Machine, noise};
use linerate_host::agentless::{DRIVER_STATISTICS, FileRequest, Files, environment_of, snapshot_of};
use linerate_host::counters::Snapshot;
use linerate_machine::environment::Environment;

use crate::interrupt;

/// How long a board may take over its files: an old one, whose processor has just been kept busy.
const LOOK_TIME: Duration = Duration::from_secs(15);
/// More than the files of any machine are.
const MOST_OCTETS: usize = 16 << 20;
const CHUNK: usize = 16 << 10;
/// Behind the mark of what `grep` prints of /proc/sys.
const SYSCTLS: &str = "sysctls";

/// A machine whose counters are read over ssh.
pub(crate) struct SshCounters {
    endpoint: Endpoint,
    options: ConnectOptions,
    /// `None`: it was lost, and is looked for again before the next look.
    shell: Option<Shell>,
}

/// What one look saw.
pub(crate) struct Reading {
    pub(crate) environment: Environment,
    pub(crate) counters: Snapshot,
}

struct Shell {
    writer: Box<dyn Write + Send>,
    said: Receiver<Vec<u8>>,
    /// Stands before each file: nothing in a file looks like it.
    mark: String,
    /// The last field: what is written ends first, and the shell with it.
    guard: Guard,
}

impl SshCounters {
    /// Opens the shell, and sees that it does what it is told.
    pub(crate) fn reach(endpoint: &Endpoint, options: &ConnectOptions) -> Result<SshCounters, ControlError> {
        let mut counters = SshCounters { endpoint: endpoint.clone(), options: options.clone(), shell: None };
        counters.read(&FileRequest::routes(), None)?;
        Ok(counters)
    }

    /// Looks at the machine from the interface that has this address; or one sentence.
    pub(crate) fn look(&mut self, address: IpAddr) -> Result<Reading, String> {
        let routes = self.read(&FileRequest::routes(), None).map_err(|error| error.to_string())?;
        let Some(interface) = routes.interface_of(address) else {
            return Err(format!(
                "the machine at {} has no interface in the subnet of {address}, so its counters are unknown; give the target's \
                 own address, or see that --counters names the same machine",
                self.endpoint
            ));
        };
        let files = self.read(&FileRequest::of(&interface), Some(&interface)).map_err(|error| error.to_string())?;
        Ok(Reading { environment: environment_of(&files, Some(&interface)), counters: snapshot_of(&files, &interface) })
    }

    fn read(&mut self, wanted: &FileRequest, drivers: Option<&str>) -> Result<Files, ControlError> {
        let mut shell = match self.shell.take() {
            Some(shell) => shell,
            None => Shell::of(self.endpoint.shell("target", &self.options)?).map_err(|why| self.lost(why))?,
        };
        // A person may have to type a password.
        let patience = LOOK_TIME.max(self.options.typing);
        match shell.read(wanted, drivers, patience) {
            Ok(files) => {
                self.shell = Some(shell);
                Ok(files)
            }
            Err(_) if interrupt::requested() => Err(ControlError::Interrupted),
            Err(why) => {
                let how = shell.guard.how_it_ended(Duration::from_millis(500));
                Err(self.lost(how.unwrap_or(why)))
            }
        }
    }

    fn lost(&self, why: String) -> ControlError {
        let machine = Machine { name: "target".to_owned(), endpoint: self.endpoint.to_string() };
        ControlError::Unreachable { machine, why: format!("its counters are to be read there, and {why}") }
    }
}

impl Shell {
    fn of(link: Link) -> Result<Shell, String> {
        let Link { mut reader, writer, guard, .. } = link;
        let unique = noise::draw(&mut [0; 8]).map_err(|error| error.to_string())?;
        let (says, said) = mpsc::sync_channel(64);
        let reading = move || {
            let mut buffer = vec![0; CHUNK];
            while let Ok(len @ 1..) = reader.read(&mut buffer) {
                if says.send(buffer[..len].to_vec()).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name("ssh-counters".to_owned())
            .spawn(reading)
            .map_err(|error| format!("this program cannot start a thread ({error}); see 'ulimit -u'"))?;
        Ok(Shell { writer, said, mark: format!("linerate-{unique}"), guard })
    }

    /// Has files printed, and takes them apart.
    fn read(&mut self, wanted: &FileRequest, drivers: Option<&str>, patience: Duration) -> Result<Files, String> {
        let script = script(&self.mark, wanted, drivers);
        self.writer.write_all(script.as_bytes()).and_then(|()| self.writer.flush()).map_err(|error| {
            format!("the shell there hears no more ({error}); see that a command over ssh works by hand")
        })?;
        let last = format!("\n{} .\n", self.mark);
        let (mut printed, deadline) = (Vec::new(), Instant::now() + patience);
        while !printed.ends_with(last.as_bytes()) {
            if interrupt::requested() || Instant::now() > deadline || printed.len() > MOST_OCTETS {
                return Err(format!(
                    "its shell did not print them within {} s; see that 'ssh' with a command works by hand",
                    patience.as_secs()
                ));
            }
            match self.said.recv_timeout(Duration::from_millis(100)) {
                Ok(more) => printed.extend(more),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("its shell ended; see that 'ssh' with a command works by hand".to_owned());
                }
            }
        }
        Ok(apart(&self.mark, &String::from_utf8_lossy(&printed)))
    }
}

/// What the shell is to do. Each file's text stands after a line with the mark and its path.
fn script(mark: &str, wanted: &FileRequest, drivers: Option<&str>) -> String {
    let FileRequest { whole, lines } = wanted;
    let (sysctls, lines): (Vec<&str>, Vec<&str>) =
        lines.iter().map(String::as_str).partition(|path| path.starts_with("/proc/sys/"));
    let mut script = format!(
        "for f in {}; do echo; echo \"{mark} $f\"; cat \"$f\" 2>/dev/null || {{ echo; echo \"{mark} !$f\"; }}; done\n",
        whole.join(" ")
    );
    if !lines.is_empty() {
        // The shell itself reads these: a process for each of some hundred files would keep a small board busy. What is
        // no file, or may not be read, leaves nothing.
        script += &format!(
            "for f in {}; do v=; {{ IFS= read -r v < \"$f\"; }} 2>/dev/null; \
             [ -n \"$v\" ] && {{ echo; echo \"{mark} $f\"; echo \"$v\"; }}; done\n",
            lines.join(" ")
        );
    }
    if !sysctls.is_empty() {
        // A number there is told to the first read of its file alone (proc_dointvec, kernel/sysctl.c), and dash and BusyBox read octet by
        // octet: of 212992 they had the 2. With the second file each line has its path before it.
        let sysctls = sysctls.join(" ");
        script += &format!("echo; echo \"{mark} {SYSCTLS}\"; grep -s '' /dev/null {sysctls} 2>/dev/null\n");
    }
    if let Some(interface) = drivers {
        script += &format!(
            "PATH=$PATH:/usr/sbin:/sbin; if command -v ethtool >/dev/null 2>&1; then echo; \
             echo \"{mark} {DRIVER_STATISTICS}\"; ethtool -S {interface} 2>/dev/null; fi\n"
        );
    }
    script + &format!("echo; echo \"{mark} .\"\n")
}

/// The files in what the shell printed; those that could not be read are not among them.
fn apart(mark: &str, printed: &str) -> Files {
    let mut texts = BTreeMap::new();
    // What stands before the first mark, the shell said of itself.
    for part in printed.split(&format!("\n{mark} ")).skip(1) {
        let Some((path, text)) = part.split_once('\n') else { continue };
        match path.strip_prefix('!') {
            None if path == SYSCTLS => {
                // Of an interface with a colon in its name, which old kernels let it have, nothing is found.
                for (path, value) in text.lines().filter_map(|line| line.split_once(':')) {
                    texts.entry(path.to_owned()).or_insert_with(|| value.to_owned());
                }
            }
            Some(path) => drop(texts.remove(path)),
            None => drop(texts.insert(path.to_owned(), text.to_owned())),
        }
    }
    Files::of(texts)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// What a shell of this machine prints.
    fn printed(shell: &[&str], script: &str) -> Option<String> {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        Some(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
    }

    #[test]
    fn every_shell_reads_the_same() {
        let mut seen = 0;
        for shell in [&["sh"][..], &["bash"], &["busybox", "sh"]] {
            let wanted = FileRequest {
                whole: vec!["/proc/net/snmp".to_owned(), "/no/such/file".to_owned()],
                lines: vec![
                    "/proc/sys/kernel/os*".to_owned(),
                    "/proc/sys/net/core/rmem_m*".to_owned(),
                    "/proc/sys/none".to_owned(),
                    "/proc/*/none*".to_owned(),
                    "/proc".to_owned(),
                ],
            };
            let Some(printed) = printed(shell, &format!("echo hello; {}", script("m-1", &wanted, Some("lo")))) else {
                continue;
            };
            assert!(printed.ends_with("\nm-1 .\n"), "{shell:?}: {printed}");
            let files = apart("m-1", &printed);
            assert!(files.text("/proc/net/snmp").unwrap().contains("Udp: "), "{shell:?}: {printed}");
            assert_eq!(files.text("/proc/sys/kernel/ostype").unwrap().trim(), "Linux", "{shell:?}");
            let number = "/proc/sys/net/core/rmem_max";
            let here = std::fs::read_to_string(number).unwrap();
            assert_eq!(files.text(number).unwrap().trim(), here.trim(), "{shell:?}");
            for none in ["/no/such/file", "/proc", "/proc/sys/none", "hello", ".", SYSCTLS] {
                assert!(!files.text(none).is_ok_and(|text| !text.is_empty()), "{shell:?} {none}: {printed}");
            }
            seen += 1;
        }
        assert!(seen > 0);
    }

    #[test]
    fn a_whole_look_at_this_machine() {
        let printed = printed(&["sh"], &script("m", &FileRequest::of("lo"), Some("lo"))).unwrap();
        let files = apart("m", &printed);
        assert_eq!(snapshot_of(&files, "lo").missing, [""; 0]);
        assert!(snapshot_of(&files, "lo").counters.iter().count() > 100);
        let environment = environment_of(&files, Some("lo"));
        assert_eq!(
            environment.boot_id,
            std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
        );
        assert!(environment.sysctls.len() > 10, "{:?}", environment.sysctls);
        for (name, value) in &environment.sysctls {
            let here = std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).unwrap();
            assert_eq!(
                value.split_whitespace().collect::<Vec<_>>(),
                here.split_whitespace().collect::<Vec<_>>(),
                "{name}"
            );
        }
    }
}
