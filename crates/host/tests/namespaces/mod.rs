//! Two network namespaces joined by a veth, for tests that need a link of their own.
//! Knows no addresses and no settings; each test sets the link up by a shell's commands.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use linerate_host::sys;

/// The name of the interface at both ends.
pub const LINK: &str = "link0";

/// Two namespaces; they go away with the value.
pub struct Pair {
    /// The first.
    pub a: String,
    /// The second.
    pub b: String,
}

impl Pair {
    /// Two namespaces, set up by `commands` (see [`Pair::run`]). `None`, with a sentence, where they cannot be made.
    pub fn make(test: &str, commands: &str) -> Option<Pair> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = |end| format!("host-{}-{}-{end}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let pair = Pair { a: name("a"), b: name("b") };
        match pair.run(&format!("command -v tc ethtool; ip netns add $A; ip netns add $B; {commands}")) {
            Ok(_) => Some(pair),
            Err(error) => {
                println!(
                    "SKIPPED {test}: no namespaces can be made here ({error}); run as root with iproute2, ethtool"
                );
                None
            }
        }
    }

    /// What a shell's commands print, with $A, $B and $LINK for the names. The first that fails ends them.
    pub fn run(&self, commands: &str) -> Result<String, String> {
        let names = [("A", self.a.as_str()), ("B", &self.b), ("LINK", LINK)];
        let output =
            Command::new("sh").args(["-ec", commands]).envs(names).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{commands}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// As [`Pair::run`], of what cannot fail.
    #[track_caller]
    pub fn must(&self, commands: &str) -> String {
        self.run(commands).unwrap()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// Runs `work` on a thread of its own in a namespace. Its /sys is the one of this process, as an agent's is.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let path = Path::new("/run/netns").join(name);
    let work = || {
        sys::namespace::enter(&path).unwrap();
        work()
    };
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}
