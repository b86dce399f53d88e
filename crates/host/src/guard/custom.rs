//! Reads and sets what only the user knows how to: by a file, or by commands.
//! Knows no journal.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linerate_trial::change::Custom;

/// How long a command may take.
const COMMAND_TIME: Duration = Duration::from_secs(10);
/// A value is short; what a command prints beyond this is left unread.
const LONGEST: u64 = 4096;

/// The value now.
pub(super) fn get(custom: &Custom) -> Result<String, String> {
    match custom {
        Custom::Commands { get, .. } => run(get, None),
        Custom::File { file } => fs::read_to_string(file)
            .map(|text| text.trim().to_owned())
            .map_err(|error| format!("{file} cannot be read: {error}; see that it is there")),
    }
}

/// Sets the value.
pub(super) fn set(custom: &Custom, value: &str) -> Result<(), String> {
    match custom {
        Custom::Commands { set, .. } => run(set, Some(value)).map(|_| ()),
        Custom::File { file } => {
            // Not made where it is missing: a file of a device is there or the device has no such thing.
            let write = || {
                fs::OpenOptions::new()
                    .write(true)
                    .truncate(true)
                    .open(file)
                    .and_then(|mut open| io::Write::write_all(&mut open, value.as_bytes()))
            };
            write().map_err(|error| format!("{file} does not take '{value}': {error}; see what is allowed there"))
        }
    }
}

/// Runs a command to its end and returns what it printed.
fn run(command: &str, argument: Option<&str>) -> Result<String, String> {
    let wrong = |what: String| format!("'{command}' {what}; try it by hand on that machine");
    let mut child = Command::new("/bin/sh")
        .args(["-c", command, "linerate"])
        .args(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| wrong(format!("cannot be started: {error}")))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let readers = (std::thread::spawn(move || read(stdout)), std::thread::spawn(move || read(stderr)));
    let deadline = Instant::now() + COMMAND_TIME;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                // std cannot signal a group. The child is not yet waited for, so its number cannot be another's.
                let group = format!("kill -9 -{}", child.id());
                let _ = Command::new("/bin/sh").args(["-c", &group]).stderr(Stdio::null()).status();
                let _ = child.wait();
                return Err(wrong(format!("had not ended after {} s", COMMAND_TIME.as_secs())));
            }
        }
    };
    // A process that it left behind may hold the pipes open for ever.
    let until = Instant::now() + Duration::from_millis(200);
    let said = |reader: std::thread::JoinHandle<String>| {
        while !reader.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if reader.is_finished() { reader.join().unwrap_or_default() } else { String::new() }
    };
    let (out, err) = (said(readers.0), said(readers.1));
    if status.success() {
        return Ok(out.trim().to_owned());
    }
    let words = err.trim().lines().last().map(|line| format!(" and said \"{line}\"")).unwrap_or_default();
    Err(wrong(format!("ended with {status}{words}")))
}

fn read(stream: Option<impl Read>) -> String {
    let mut octets = Vec::new();
    if let Some(stream) = stream {
        let mut bounded = stream.take(LONGEST);
        let _ = bounded.read_to_end(&mut octets);
        let _ = io::copy(&mut bounded.into_inner(), &mut io::sink());
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files() {
        let path = std::env::temp_dir().join(format!("linerate-custom-{}", std::process::id()));
        fs::write(&path, "7\n").unwrap();
        let file = path.display().to_string();
        let commands = Custom::Commands { get: format!("cat {file}"), set: format!("echo \"$1\" > {file}") };
        let file = Custom::File { file };
        assert_eq!((get(&commands).unwrap(), get(&file).unwrap()), ("7".to_owned(), "7".to_owned()));
        set(&commands, "a b").unwrap();
        assert_eq!(get(&file).unwrap(), "a b");
        set(&file, "9").unwrap();
        assert_eq!(get(&commands).unwrap(), "9");
        fs::remove_file(&path).unwrap();
        assert!(set(&file, "9").unwrap_err().contains("does not take '9'"));
        let sentence = get(&commands).unwrap_err();
        assert!(sentence.contains("No such file") && sentence.contains("by hand"), "{sentence}");
    }
}
