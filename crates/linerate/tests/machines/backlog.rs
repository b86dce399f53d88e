//! A softirq backlog that is too short, for as long as a test needs it.
//! Knows no trial; the backlog is the whole machine's, so it is put back however the test ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Of the machine: namespaces have none of their own (net/core/sysctl_net_core.c, netns_core_table).
const FILE: &str = "/proc/sys/net/core/netdev_max_backlog";

/// Every CPU's backlog holds no more than so many packets until this is dropped.
///
/// A shell waits for the end of its standard input, which comes when the value is dropped and when its process is
/// killed, and puts the old length back. It holds a lock meanwhile, so that another run of the tests does not take the
/// short one for the old one.
pub struct ShortBacklog(Child);

impl ShortBacklog {
    /// Shortens it to this many packets.
    pub fn of(packets: u32) -> io::Result<ShortBacklog> {
        let lock = File::create(std::env::temp_dir().join("linerate-test-backlog.lock"))?;
        lock.lock()?;
        let old = fs::read_to_string(FILE)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("cat >/dev/null; echo {} >{FILE}", old.trim())]);
        // In a group of its own: Ctrl-C ends the test, not what cleans up behind it.
        let waiting = ShortBacklog(shell.stdin(Stdio::piped()).stdout(lock).process_group(0).spawn()?);
        fs::write(FILE, packets.to_string())?;
        Ok(waiting)
    }
}

impl Drop for ShortBacklog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
