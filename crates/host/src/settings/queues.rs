//! Which CPUs an interface's queues and interrupts use, and how its NAPI polls: files of sysfs and /proc/irq.
//! Knows the files' forms; Documentation/networking/scaling.rst says what RPS, RFS and XPS are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_trial::setting::syntax::{OfEach, format_cpus, parse_cpus};
use linerate_trial::units::{format_duration, parse_duration};

use super::files::{Files, read, write};
use super::{SettingError, Settings, Subject, numbered};
use crate::{counters, interfaces};

/// How a file has its value.
#[derive(Clone, Copy)]
enum Form {
    /// Hexadecimal, 32 CPUs to a word, the lowest last.
    Mask,
    /// As it is.
    List,
    Number,
    Switch,
    Nanoseconds,
}

impl Form {
    fn of(setting: &str) -> Form {
        match setting {
            "rps.*" | "xps.*" => Form::Mask,
            "irq_affinity.*" => Form::List,
            "napi.threaded" => Form::Switch,
            "gro_flush_timeout" => Form::Nanoseconds,
            _ => Form::Number,
        }
    }

    /// A file's text as a value; `None` where it is none of this form.
    fn value(self, text: &str) -> Option<String> {
        Some(match self {
            Form::Mask => format_cpus(&cpus_of_mask(text)?),
            Form::List => format_cpus(&parse_cpus(text)?),
            Form::Number => text.parse::<u64>().ok()?.to_string(),
            Form::Switch => match text {
                "0" => "off".to_owned(),
                "1" => "on".to_owned(),
                _ => return None,
            },
            Form::Nanoseconds => format_duration(Duration::from_nanos(text.parse().ok()?)),
        })
    }

    fn text(self, value: &str) -> Option<String> {
        Some(match self {
            Form::Mask => mask_of_cpus(&parse_cpus(value)?),
            Form::List if value == "none" => String::new(),
            Form::List | Form::Number => value.to_owned(),
            Form::Switch => if value == "on" { "1" } else { "0" }.to_owned(),
            Form::Nanoseconds => parse_duration(value).ok()?.as_nanos().to_string(),
        })
    }
}

/// `f,00000003` of CPUs 0, 1 and 32 to 35 (Documentation/core-api/printk-formats.rst, "bitmap").
fn cpus_of_mask(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (at, word) in text.rsplit(',').enumerate() {
        let word = u32::from_str_radix(word.trim_start_matches("0x"), 16).ok()?;
        cpus.extend((0..32).filter(|bit| word & 1 << bit != 0).map(|bit| at as u32 * 32 + bit));
    }
    Some(cpus)
}

fn mask_of_cpus(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let word = |at: u32| cpus.iter().filter(|&&cpu| cpu / 32 == at).fold(0u32, |word, cpu| word | 1 << (cpu % 32));
    (0..words).rev().map(|at| format!("{:08x}", word(at))).collect::<Vec<_>>().join(",")
}

/// The files of a setting, by number; one without a number where there is one only.
fn files_of(
    subject: &Subject,
    files: &Files,
    setting: &str,
    which: &str,
) -> Result<BTreeMap<u32, PathBuf>, SettingError> {
    let interface = || {
        let path = files.interface(subject.interface).map_err(|error| subject.not_read(&error, None))?;
        if path.exists() { Ok(path) } else { Err(subject.absent("there is no such interface")) }
    };
    let of_queues = |prefix: &str, file: &str| -> Result<BTreeMap<u32, PathBuf>, SettingError> {
        let queues = numbered(&interface()?.join("queues"), prefix);
        Ok(queues.into_iter().map(|(number, path)| (number, path.join(file))).collect())
    };
    let mut found = match setting {
        "irq_affinity.*" => {
            let file = |number| (number, files.proc(&format!("irq/{number}/smp_affinity_list")));
            match which.parse() {
                Ok(number) => BTreeMap::from([file(number)]),
                Err(_) => interrupts(subject.interface)
                    .map_err(|error| subject.not_read(&error, None))?
                    .into_iter()
                    .map(file)
                    .collect(),
            }
        }
        "rps.*" => of_queues("rx-", "rps_cpus")?,
        "xps.*" => of_queues("tx-", "xps_cpus")?,
        "rfs.rps_flow_cnt" => of_queues("rx-", "rps_flow_cnt")?,
        "napi.threaded" => BTreeMap::from([(0, interface()?.join("threaded"))]),
        file => BTreeMap::from([(0, interface()?.join(file))]),
    };
    if let Ok(number) = which.parse::<u32>() {
        found.retain(|of, _| *of == number);
    }
    found.retain(|_, path| path.exists());
    if found.is_empty() {
        let what = match setting {
            "irq_affinity.*" => "the interface has no such interrupt",
            "rps.*" | "xps.*" | "rfs.rps_flow_cnt" => "the interface has no such queue, or the kernel no such file",
            _ => "the kernel has no such file",
        };
        return Err(subject.absent(what));
    }
    Ok(found)
}

fn interrupts(interface: &str) -> io::Result<Vec<u32>> {
    let interrupts = counters::interrupts_of(&interfaces::link(interface)?)?;
    Ok(interrupts.iter().filter_map(|(name, _)| name.split_once(' ')?.0.parse().ok()).collect())
}

/// The names of a family: each by its number, then all.
pub(super) fn names(settings: &Settings, family: &str) -> Vec<String> {
    let each = names_of_each(settings, family);
    let all = (!each.is_empty()).then(|| family.replace('*', "all"));
    each.into_iter().chain(all).collect()
}

/// The names of a family by their numbers.
pub(super) fn names_of_each(settings: &Settings, family: &str) -> Vec<String> {
    let all = family.replace('*', "all");
    let Ok(subject) = settings.of_interface(&all) else { return Vec::new() };
    let Ok(found) = files_of(&subject, &settings.files, family, "all") else { return Vec::new() };
    found.keys().map(|number| family.replace('*', &number.to_string())).collect()
}

pub(super) fn get(subject: &Subject, files: &Files, setting: &str, which: &str) -> Result<String, SettingError> {
    let form = Form::of(setting);
    let each = files_of(subject, files, setting, which)?
        .into_iter()
        .map(|(number, path)| Ok((number, value_of(subject, form, &path)?)))
        .collect::<Result<BTreeMap<u32, String>, SettingError>>()?;
    Ok(OfEach::of(each).text())
}

fn value_of(subject: &Subject, form: Form, path: &Path) -> Result<String, SettingError> {
    let text = read(path).map_err(|error| match error.raw_os_error() {
        // xps_cpus of an interface with one queue (net/core/net-sysfs.c).
        Some(libc::ENOENT) => subject.absent("the interface has one queue only"),
        _ => subject.not_read(&error, None),
    })?;
    form.value(&text).ok_or_else(|| subject.absent(format!("'{text}' is no value of it that is known")))
}

/// Whether there is a file for each number that the value names.
pub(super) fn check(
    subject: &Subject,
    files: &Files,
    setting: &str,
    which: &str,
    value: &str,
) -> Result<(), SettingError> {
    let found = files_of(subject, files, setting, which)?;
    of_each(subject, value, found.keys().copied()).map(|_| ())
}

pub(super) fn set(
    subject: &Subject,
    files: &Files,
    setting: &str,
    which: &str,
    value: &str,
) -> Result<(), SettingError> {
    let form = Form::of(setting);
    let found = files_of(subject, files, setting, which)?;
    let wanted = of_each(subject, value, found.keys().copied())?;
    for (number, path) in found {
        let Some(value) = wanted.get(&number) else { continue };
        let text = form.text(value).ok_or_else(|| subject.refused(value, "it is no value of it"))?;
        // What is so already is left alone: many interrupts that cannot be moved can be read.
        if value_of(subject, form, &path)? != *value {
            write(&path, &text).map_err(|error| match error.raw_os_error() {
                Some(libc::EIO) => subject.refused(value, "the kernel keeps this interrupt where it is"),
                _ => subject.not_written(value, &error, None),
            })?;
        }
    }
    Ok(())
}

/// The value for each number that there is; a value for one that there is not is refused.
pub(super) fn of_each(
    subject: &Subject,
    value: &str,
    numbers: impl Iterator<Item = u32>,
) -> Result<BTreeMap<u32, String>, SettingError> {
    let numbers: Vec<u32> = numbers.collect();
    match OfEach::parse(value) {
        Some(OfEach::All(value)) => Ok(numbers.into_iter().map(|number| (number, value.clone())).collect()),
        Some(OfEach::Each(each)) => match each.keys().find(|number| !numbers.contains(number)) {
            None => Ok(each),
            Some(stranger) => Err(subject.refused(value, format!("there is no number {stranger}"))),
        },
        None => Err(subject.refused(value, "it is neither one value nor one for each number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_lists() {
        for (mask, cpus, written) in [
            ("0", "none", "00000000"),
            ("3", "0-1", "00000003"),
            ("00000000,00000003", "0-1", "00000003"),
            ("f,00000001", "0,32-35", "0000000f,00000001"),
            ("80000000,00000000,00000000", "95", "80000000,00000000,00000000"),
        ] {
            assert_eq!(Form::Mask.value(mask).as_deref(), Some(cpus));
            assert_eq!(Form::Mask.text(cpus).as_deref(), Some(written));
        }
        assert_eq!(Form::Mask.value("nonsense"), None);
    }

    #[test]
    fn values_of_files() {
        assert_eq!(Form::Nanoseconds.value("20000").as_deref(), Some("20us"));
        assert_eq!(Form::Nanoseconds.text("20us").as_deref(), Some("20000"));
        assert_eq!(Form::Nanoseconds.text("0s").as_deref(), Some("0"));
        assert_eq!(Form::List.value("").as_deref(), Some("none"));
        // A kernel that can poll busily says 2; it could not be put back as on or off.
        assert_eq!(Form::Switch.value("2"), None);
    }
}
