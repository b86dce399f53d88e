//! Settings that a plan defines: a file, or a command to read and one to write.
//! Knows what a value looks like; what a command does is the plan's concern.

use std::path::PathBuf;
use std::time::Duration;

use super::{Mechanism, SettingError, Subject, files};
use crate::command::{self, Children};
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

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Mechanism for Custom {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        let text = match &self.get {
            Access::File(path) => std::fs::read_to_string(path)
                .map_err(|error| subject.absent(format!("{}: {}", path.display(), text_of(&error))))?,
            Access::Command(words) => run(words, PATIENCE).map_err(|reason| subject.absent(reason))?,
        };
        match text.trim() {
            "" => Err(subject.absent("what reads it told nothing")),
            text if text.contains('\n') => Err(subject.absent("what reads it told several lines; one is a value")),
            text => Ok(text.to_owned()),
        }
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        match &self.set {
            Access::File(path) => files::write(path, value)
                .map_err(|error| subject.refused(value, format!("{}: {}", path.display(), text_of(&error)))),
            Access::Command(words) => {
                let mut words: Vec<String> = words.iter().map(|word| word.replace("{value}", value)).collect();
                if let Access::Command(asked) = &self.set
                    && !asked.iter().any(|word| word.contains("{value}"))
                {
                    words.push(value.to_owned());
                }
                run(&words, PATIENCE).map(drop).map_err(|reason| subject.refused(value, reason))
            }
        }
    }
}

/// Runs a command and returns what it printed. The error is half a sentence.
fn run(words: &[String], patience: Duration) -> Result<String, String> {
    let ended = command::run(words, &[], Children::End, patience, || false).map_err(|error| error.to_string())?;
    let program = words.first().map(String::as_str).unwrap_or_default();
    if ended.printed.len() >= command::MOST_PRINTED {
        return Err(format!("'{program}' printed more than a value"));
    }
    let status = ended.status;
    match ended.complaint() {
        _ if status.success() => Ok(ended.printed),
        None => Err(format!("'{program}' failed ({status})")),
        Some(complaint) => Err(format!("'{program}' failed ({status}): {complaint}")),
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
            let error = run(&command, short).unwrap_err();
            assert!(error.contains(contains), "{error}");
            assert!(start.elapsed() < Duration::from_secs(5));
        }
        // More than is read, and something left behind that holds the pipe.
        assert_eq!(run(&words(&["sh", "-c", "sleep 60 & echo 7"]), short).unwrap().trim(), "7");
        let much = run(&words(&["sh", "-c", "yes | head -c 100000"]), Duration::from_secs(5)).unwrap_err();
        assert!(much.contains("printed more"), "{much}");
    }
}
