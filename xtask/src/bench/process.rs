//! A program in one of the two machines: started, heard, and ended whatever happens.
//! Knows no program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::program::output_of;

/// A started program. What it prints goes into files, so that it never waits for a reader.
pub(super) struct Running {
    name: String,
    child: Child,
    outputs: [PathBuf; 2],
    ended: bool,
}

impl Running {
    /// In a network namespace. It dies with this program, however that ends (setpriv(1), --pdeathsig).
    pub(super) fn start(namespace: &Path, program: &str, words: &[&str]) -> Result<Running, String> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", namespace.display()));
        command.args(["setpriv", "--pdeathsig", "KILL", "--", program]).args(words);
        Running::of(program, command)
    }

    /// A command as it is.
    pub(super) fn of(name: &str, mut command: Command) -> Result<Running, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let outputs = ["out", "err"].map(|suffix| {
            std::env::temp_dir().join(format!("linerate-bench-{}-{number}.{suffix}", std::process::id()))
        });
        let create = |path: &PathBuf| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        command.stdin(Stdio::null()).stdout(create(&outputs[0])?).stderr(create(&outputs[1])?);
        let child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        Ok(Running { name: name.to_owned(), child, outputs, ended: false })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far: standard output, then standard error.
    pub(super) fn said(&self) -> String {
        let texts = self.outputs.each_ref().map(|path| fs::read(path).unwrap_or_default());
        texts.map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.ended |= !matches!(self.child.try_wait(), Ok(None));
        self.ended
    }

    /// Waits for its end, for so long; then ends it.
    pub(super) fn wait(&mut self, patience: Duration) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        while !self.has_ended() {
            if Instant::now() > deadline {
                self.end();
                return Err(format!("{} did not end within {} s", self.name, patience.as_secs()));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends it now.
    pub(super) fn end(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.ended = true;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        for path in &self.outputs {
            let _ = fs::remove_file(path);
        }
    }
}

/// Sends a signal by its name; the shell's own kill(1), because the program is a package of its own.
pub(super) fn signal(pid: u32, name: &str) -> Result<(), String> {
    output_of(Command::new("sh").args(["-c", &format!("kill -{name} {pid}")])).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::of("sh", command).unwrap()
    }

    #[test]
    fn what_is_said_is_heard() {
        let mut running = shell("echo out; echo err >&2");
        running.wait(Duration::from_secs(10)).unwrap();
        assert_eq!(running.said(), "out\nerr\n");
        let outputs = running.outputs.clone();
        drop(running);
        assert!(outputs.iter().all(|path| !path.exists()));
    }

    #[test]
    fn nothing_outlives_its_patience() {
        let mut running = shell("exec sleep 60");
        let pid = running.pid();
        assert!(running.wait(Duration::from_millis(50)).is_err());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
