//! How the CPUs save power: the frequency governor and the idle states.
//! Knows the files below /sys/devices/system/cpu; Documentation/admin-guide/pm/ says what they do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use linerate_trial::setting::syntax::OfEach;

use super::files::{Files, read, write};
use super::{SettingError, Subject, numbered, queues};

const CPUS: &str = "devices/system/cpu";

/// The file of a setting below a CPU's directory.
fn file_of(setting: &str, which: &str) -> String {
    match setting {
        "governor" => "cpufreq/scaling_governor".to_owned(),
        // Documentation/admin-guide/pm/cpuidle.rst, "Power Management Quality of Service for CPUs".
        "cpuidle.max_latency_us" => "power/pm_qos_resume_latency_us".to_owned(),
        _ => format!("cpuidle/state{which}/disable"),
    }
}

/// A file's text as a value.
fn value_of(setting: &str, text: &str) -> String {
    match (setting, text) {
        // "0" is no restriction and "n/a" is no latency at all (drivers/base/power/sysfs.c).
        ("cpuidle.max_latency_us", "0") => "unlimited".to_owned(),
        ("cpuidle.max_latency_us", "n/a") => "0".to_owned(),
        ("cpuidle.state.*", "0") => "on".to_owned(),
        ("cpuidle.state.*", _) => "off".to_owned(),
        (_, text) => text.to_owned(),
    }
}

fn text_of<'a>(setting: &str, value: &'a str) -> &'a str {
    match (setting, value) {
        ("cpuidle.max_latency_us", "unlimited") => "0",
        ("cpuidle.max_latency_us", "0") => "n/a",
        ("cpuidle.state.*", "on") => "0",
        ("cpuidle.state.*", _) => "1",
        (_, value) => value,
    }
}

/// `cpuidle.state.0` and so on, of all states that any CPU has.
pub(super) fn state_names(files: &Files) -> Vec<String> {
    let cpus = numbered(&files.sys(CPUS), "cpu");
    let states = cpus.iter().flat_map(|(_, cpu)| numbered(&cpu.join("cpuidle"), "state"));
    let states: BTreeSet<u32> = states.map(|(number, _)| number).collect();
    states.iter().map(|number| format!("cpuidle.state.{number}")).collect()
}

fn files_of(
    subject: &Subject,
    files: &Files,
    setting: &str,
    which: &str,
) -> Result<BTreeMap<u32, PathBuf>, SettingError> {
    let file = file_of(setting, which);
    let cpus = numbered(&files.sys(CPUS), "cpu");
    let found: BTreeMap<u32, PathBuf> =
        cpus.into_iter().map(|(cpu, path)| (cpu, path.join(&file))).filter(|(_, path)| path.exists()).collect();
    if found.is_empty() {
        return Err(subject.absent(match setting {
            "governor" => "nobody governs the frequency of these CPUs",
            _ => "these CPUs have no such idle state",
        }));
    }
    Ok(found)
}

pub(super) fn get(subject: &Subject, files: &Files, setting: &str, which: &str) -> Result<String, SettingError> {
    let each = files_of(subject, files, setting, which)?
        .into_iter()
        .map(|(cpu, path)| Ok((cpu, read(&path).map_err(|error| subject.not_read(&error, None))?)))
        .map(|read| read.map(|(cpu, text)| (cpu, value_of(setting, &text))))
        .collect::<Result<BTreeMap<u32, String>, SettingError>>()?;
    Ok(OfEach::of(each).text())
}

pub(super) fn set(
    subject: &Subject,
    files: &Files,
    setting: &str,
    which: &str,
    value: &str,
) -> Result<(), SettingError> {
    let found = files_of(subject, files, setting, which)?;
    let wanted = queues::of_each(subject, value, found.keys().copied())?;
    for (cpu, path) in found {
        let Some(value) = wanted.get(&cpu) else { continue };
        let now = read(&path).map_err(|error| subject.not_read(&error, None))?;
        if value_of(setting, &now) != *value {
            write(&path, text_of(setting, value)).map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL) if setting == "governor" => subject.refused(value, governors(&path)),
                _ => subject.not_written(value, &error, None),
            })?;
        }
    }
    Ok(())
}

/// Whether these CPUs have it, and the kernel the governor.
pub(super) fn check(
    subject: &Subject,
    files: &Files,
    setting: &str,
    which: &str,
    value: &str,
) -> Result<(), SettingError> {
    let found = files_of(subject, files, setting, which)?;
    let wanted = queues::of_each(subject, value, found.keys().copied())?;
    for (cpu, path) in found.iter().filter(|_| setting == "governor") {
        let known = read(&path.with_file_name("scaling_available_governors"));
        let is_there = |governor: &String| match &known {
            Ok(known) => known.split_whitespace().any(|one| one == governor),
            Err(_) => true,
        };
        if wanted.get(cpu).is_some_and(|governor| !is_there(governor)) {
            return Err(subject.refused(value, governors(path)));
        }
    }
    Ok(())
}

fn governors(path: &Path) -> String {
    match read(&path.with_file_name("scaling_available_governors")) {
        Ok(known) => format!("this kernel has {known}"),
        Err(_) => "this kernel has no such governor".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Settings;

    /// A machine of two CPUs with two idle states, as sysfs shows it.
    #[test]
    fn each_cpu_is_set_and_put_back() {
        let root = std::env::temp_dir().join(format!("settings-cpu-{}", std::process::id()));
        let cpus = root.join("sys/devices/system/cpu");
        for cpu in ["cpu0", "cpu1"] {
            for (file, text) in [
                ("cpufreq/scaling_governor", "schedutil\n"),
                ("power/pm_qos_resume_latency_us", "0\n"),
                ("cpuidle/state0/disable", "0\n"),
                ("cpuidle/state1/disable", "0\n"),
            ] {
                fs::create_dir_all(cpus.join(cpu).join(file).parent().unwrap()).unwrap();
                fs::write(cpus.join(cpu).join(file), text).unwrap();
            }
        }
        fs::create_dir_all(cpus.join("cpufreq")).unwrap();
        let settings = Settings::below(&root);
        let check = |name: &str, value: &str, file: &str, texts: [&str; 2]| {
            let before = settings.get(name).unwrap();
            settings.set(name, value).unwrap();
            assert_eq!(settings.get(name).unwrap(), value);
            for (cpu, text) in ["cpu0", "cpu1"].iter().zip(texts) {
                assert_eq!(fs::read_to_string(cpus.join(cpu).join(file)).unwrap().trim(), text, "{name} {cpu}");
            }
            settings.set(name, &before).unwrap();
            assert_eq!(settings.get(name).unwrap(), before);
        };
        check("governor", "performance", "cpufreq/scaling_governor", ["performance"; 2]);
        check("governor", "0=performance 1=powersave", "cpufreq/scaling_governor", ["performance", "powersave"]);
        check("cpuidle.max_latency_us", "20", "power/pm_qos_resume_latency_us", ["20"; 2]);
        check("cpuidle.max_latency_us", "0", "power/pm_qos_resume_latency_us", ["n/a"; 2]);
        check("cpuidle.state.1", "off", "cpuidle/state1/disable", ["1"; 2]);
        for (name, contains) in [("cpuidle.state.7", "no such idle state"), ("governor", "no number 9")] {
            let error = settings.set(name, if name == "governor" { "9=x" } else { "off" }).unwrap_err().to_string();
            assert!(error.contains(contains), "{error}");
        }
        assert_eq!(settings.check("governor", "anything"), Ok(()), "nobody says which there are");
        for cpu in ["cpu0", "cpu1"] {
            fs::write(cpus.join(cpu).join("cpufreq/scaling_available_governors"), "performance schedutil\n").unwrap();
        }
        assert_eq!(settings.check("governor", "performance"), Ok(()));
        let error = settings.check("governor", "turbo").unwrap_err().to_string();
        assert!(error.contains("governor cannot be turbo: this kernel has performance schedutil"), "{error}");
        let names = settings.names();
        for name in ["governor", "cpuidle.max_latency_us", "cpuidle.state.0", "cpuidle.state.1"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
