//! `[boot.NAME]` of a plan file.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use linerate_machine::setting::{self, BOOT};
use linerate_machine::units::{format_duration, parse_duration};
use toml::Spanned;
use toml::de::DeValue;

use super::{Entry, Reader, entries, scalar};
use crate::PlanError;
use crate::boot::{Boot, Checks};

/// Servers that test their memory take this long, and boards a fifth of it.
const WAIT: Duration = Duration::from_secs(120);
const WAIT_ALLOWED: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
const KEYS: [&str; 5] = ["command", "kernel", "build", "srcversion", "wait"];

impl<'t> Reader<'t> {
    /// `[boot.NAME]`, each of them.
    pub(super) fn boots(&self, entry: &Entry<'t>) -> Result<Vec<Boot>, PlanError> {
        let wrong = |at: &Range<usize>| {
            let sentence = "what a machine is booted as is written as [boot.NAME], with a command";
            self.complaint(at, sentence.to_owned())
        };
        let mut read = Vec::new();
        for own in entries(entry.value.get_ref().as_table().ok_or_else(|| wrong(&entry.at))?) {
            setting::canonical(BOOT, own.key).map_err(|error| self.complaint(&own.at, error.to_string()))?;
            let keys = entries(own.value.get_ref().as_table().ok_or_else(|| wrong(&own.at))?);
            for key in &keys {
                self.known(key, &KEYS)?;
            }
            let find = |name: &str| keys.iter().find(|key| key.key == name);
            let text = |name: &str| find(name).map(|key| self.string(key).map(str::to_owned)).transpose();
            let checks = Checks {
                kernel: text("kernel")?,
                build: text("build")?,
                srcversion: find("srcversion").map(|key| self.srcversions(key)).transpose()?.unwrap_or_default(),
            };
            let command = self.boot_command(find("command").ok_or_else(|| wrong(&own.at))?)?;
            let wait = find("wait").map(|key| self.boot_wait(key)).transpose()?.unwrap_or(WAIT);
            read.push(Boot { name: own.key.to_owned(), command, checks, wait });
        }
        Ok(read)
    }

    /// A line for the shell, or a program with its arguments.
    fn boot_command(&self, entry: &Entry<'t>) -> Result<Vec<String>, PlanError> {
        let wrong = || {
            let sentence = "command: write a line for the shell like \"ssh root@board reboot\", or a program with its \
                            arguments, like [\"./relay\", \"off-on\"]";
            self.complaint(&entry.value.span(), sentence.to_owned())
        };
        match entry.value.get_ref() {
            DeValue::String(line) if !line.trim().is_empty() => Ok(["/bin/sh", "-c", line].map(str::to_owned).to_vec()),
            DeValue::Array(words) if !words.is_empty() => {
                let words = words.iter().map(|word| word.get_ref().as_str().map(str::to_owned));
                words.collect::<Option<_>>().ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    fn srcversions(&self, entry: &Entry<'t>) -> Result<Vec<(String, String)>, PlanError> {
        let wrong = |at: Range<usize>| {
            let sentence = "srcversion: write modules and what `modinfo -F srcversion MODULE` prints, like { fec = \
                            \"1F0E3D9C0B5A7E2D4C6B8A9\" }";
            self.complaint(&at, sentence.to_owned())
        };
        let table = entry.value.get_ref().as_table().ok_or_else(|| wrong(entry.value.span()))?;
        let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let read = |(module, version): (&Spanned<_>, &Spanned<DeValue<'t>>)| {
            let module: &std::borrow::Cow<'_, str> = module.get_ref();
            let version_text = version.get_ref().as_str().filter(|text| is_word(text));
            match version_text {
                Some(text) if is_word(&module.replace('-', "_")) => Ok((module.to_string(), text.to_owned())),
                _ => Err(wrong(version.span())),
            }
        };
        table.iter().map(read).collect()
    }

    fn boot_wait(&self, entry: &Entry<'t>) -> Result<Duration, PlanError> {
        let text = scalar(entry.value.get_ref());
        let wait = text.and_then(|text| parse_duration(&text).ok()).filter(|wait| WAIT_ALLOWED.contains(wait));
        wait.ok_or_else(|| {
            let (least, most) = (format_duration(*WAIT_ALLOWED.start()), format_duration(*WAIT_ALLOWED.end()));
            let sentence = format!("wait: write a time like \"120s\", {least} to {most}");
            self.complaint(&entry.value.span(), sentence)
        })
    }
}
