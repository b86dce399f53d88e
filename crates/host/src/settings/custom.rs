//! Settings that a plan defines: a file, or a command to read and one to write.
//! Knows what a value looks like; what a command does is the plan's concern.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_machine::channel::channel;
use linerate_machine::thread;

use super::{Mechanism, SettingError, Subject, files};
use crate::command::{self, Children, CommandError};
use crate::files::value;
use crate::text_of;

/// A setting called `custom.NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Custom {
    /// Its name, without `custom.`.
    pub name: String,
    /// Where its value comes from.
    pub get: Access,
    /// Where a value goes.
    pub set: Access,
}

/// One way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads or writes this file.
    File(PathBuf),
    /// Runs this program with these arguments, without a shell. To read, what it prints is the value, without what
    /// surrounds it. To write, each `{value}` in an argument is the value; without one, it is the last argument.
    Command(Vec<String>),
}

/// How long a command may take, and a file: behind one of the kernel is a driver.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a value was not read or written; half a sentence each.
#[derive(Debug)]
enum Failure {
    Late(String),
    Other(String),
}

impl Failure {
    fn of(self, subject: &Subject, other: impl FnOnce(String) -> SettingError) -> SettingError {
        match self {
            Failure::Late(reason) => SettingError::Late { name: subject.name.to_owned(), reason },
            Failure::Other(reason) => other(reason),
        }
    }
}

impl Mechanism for Custom {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        let text = match &self.get {
            Access::File(path) => in_time(path, "read", PATIENCE, |path| {
                let bytes = value(files::open_named(path, OpenOptions::new().read(true))?)?;
                String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text"))
            }),
            Access::Command(words) => run(words, PATIENCE),
        };
        let text = text.map_err(|failure| failure.of(subject, |reason| subject.absent(reason)))?;
        match text.trim() {
            "" => Err(subject.absent("what reads it told nothing")),
            text if text.contains('\u{fffd}') => Err(subject.absent("what reads it told something that is no text")),
            text if text.contains('\n') => Err(subject.absent("what reads it told several lines; one is a value")),
            text => Ok(text.to_owned()),
        }
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let set = match &self.set {
            Access::File(path) => {
                let text = value.to_owned();
                in_time(path, "written", PATIENCE, move |path| {
                    files::open_named(path, OpenOptions::new().write(true).truncate(true))?.write_all(text.as_bytes())
                })
            }
            Access::Command(words) => {
                let mut words: Vec<String> = words.iter().map(|word| word.replace("{value}", value)).collect();
                if let Access::Command(asked) = &self.set
                    && !asked.iter().any(|word| word.contains("{value}"))
                {
                    words.push(value.to_owned());
                }
                run(&words, PATIENCE).map(drop)
            }
        };
        set.map_err(|failure| failure.of(subject, |reason| subject.refused(value, reason)))
    }
}

/// Has a thread do this with a file; one that is not done in time is left behind.
fn in_time<T: Send + 'static>(
    path: &Path,
    done: &str,
    patience: Duration,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let (result, results) = channel(1);
    let theirs = path.to_owned();
    let other = |error: io::Error| Failure::Other(format!("{}: {}", path.display(), text_of(&error)));
    thread::start("custom", 128 << 10, move || {
        let _ = result.send(work(&theirs));
    })
    .map_err(other)?;
    let late = |_| Failure::Late(format!("{} was not {done} within {} s", path.display(), patience.as_secs_f64()));
    results.recv_timeout(patience).map_err(late)?.map_err(other)
}

/// Runs a command and returns what it printed.
fn run(words: &[String], patience: Duration) -> Result<String, Failure> {
    let ended = command::run(words, &[], Children::End, patience, || false).map_err(|error| match error {
        CommandError::Late(..) => Failure::Late(error.to_string()),
        error => Failure::Other(error.to_string()),
    })?;
    let program = words.first().map(String::as_str).unwrap_or_default();
    if ended.printed.len() >= command::MOST_PRINTED {
        return Err(Failure::Other(format!("'{program}' printed more than a value")));
    }
    let status = ended.status;
    match ended.complaint() {
        _ if status.success() => Ok(ended.printed),
        None => Err(Failure::Other(format!("'{program}' failed ({status})"))),
        Some(complaint) => Err(Failure::Other(format!("'{program}' failed ({status}): {complaint}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::super::Settings;
    use super::*;

    fn words(text: &[&str]) -> Access {
        Access::Command(text.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn commands_and_files_are_read_and_written() {
        let path = std::env::temp_dir().join(format!("settings-custom-{}", std::process::id()));
        fs::write(&path, " 7 \n").unwrap();
        let file = path.to_str().unwrap();
        let by_file = |get, set| Custom { name: "it".to_owned(), get, set };
        for custom in [
            by_file(Access::File(path.clone()), Access::File(path.clone())),
            by_file(words(&["cat", file]), words(&["sh", "-c", "echo {value} > $0", file])),
            // No shell: what looks like one stays a value.
            by_file(words(&["cat", file]), words(&["sh", "-c", "printf %s \"$1\" > $0", file])),
        ] {
            let settings = Settings::new(None).with_custom(vec![custom]);
            assert_eq!(settings.names().iter().filter(|name| *name == "custom.it").count(), 1);
            let before = settings.get("custom.it").unwrap();
            settings.set("custom.it", "8").unwrap();
            assert_eq!(settings.get("custom.it").unwrap(), "8");
            settings.set("custom.it", &before).unwrap();
            assert_eq!(settings.get("custom.it").unwrap(), "7");
        }
        let last = Settings::new(None).with_custom(vec![by_file(words(&["cat", file]), words(&["false"]))]);
        assert!(last.set("custom.it", "$(reboot)").unwrap_err().to_string().contains("'false' failed"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn commands_that_fail_say_why_and_none_is_waited_for_without_end() {
        let short = Duration::from_millis(200);
        let words = |text: &[&str]| text.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (command, contains) in [
            (words(&["/no/such/program"]), "cannot be run"),
            (words(&["sh", "-c", "echo; echo why >&2; exit 3"]), "why"),
            (words(&["sleep", "60"]), "was not done within"),
            (words(&["sh", "-c", "sleep 60 & sleep 60"]), "was not done within"),
            (words(&[]), "empty"),
        ] {
            let start = Instant::now();
            let (Failure::Late(error) | Failure::Other(error)) = run(&command, short).unwrap_err();
            assert!(error.contains(contains), "{error}");
            assert!(start.elapsed() < Duration::from_secs(5));
        }
        // More than is read, and something left behind that holds the pipe.
        assert_eq!(run(&words(&["sh", "-c", "sleep 60 & echo 7"]), short).unwrap().trim(), "7");
        let much = run(&words(&["sh", "-c", "yes | head -c 100000"]), Duration::from_secs(5)).unwrap_err();
        assert!(matches!(&much, Failure::Other(error) if error.contains("printed more")), "{much:?}");
    }

    #[test]
    fn a_file_that_makes_wait_is_refused_or_given_up() {
        let path = std::env::temp_dir().join(format!("settings-pipe-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let pipe = Access::File(path.clone());
        let custom = Custom { name: "it".to_owned(), get: pipe.clone(), set: pipe };
        let settings = Settings::new(None).with_custom(vec![custom]);
        for error in [settings.get("custom.it").unwrap_err(), settings.set("custom.it", "7").unwrap_err()] {
            assert!(error.to_string().contains("it is no regular file"), "{error}");
        }
        let waits = in_time(&path, "read", Duration::from_millis(100), |path| fs::read(path));
        assert!(matches!(&waits, Err(Failure::Late(why)) if why.contains("was not read within 0.1 s")), "{waits:?}");
        // Which ends the thread.
        drop(OpenOptions::new().write(true).open(&path));
        fs::remove_file(&path).unwrap();
    }
}
