//! Files of several things of one kind: an interface's queues and interrupts, the CPUs, or the interface itself.
//! Documentation/networking/scaling.rst says what RPS, RFS and XPS are, Documentation/admin-guide/pm/ what CPUs have.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use linerate_machine::map::map_of;
use linerate_machine::setting::place::{Each, Files, Form, SettingPlace};
use linerate_machine::setting::syntax::PerItem;

use super::files::{read, write};
use super::{Mechanism, SettingError, Settings, Subject, kernel_removals, numbered};
use crate::{counters, interfaces};

const CPUS: &str = "devices/system/cpu";

/// The files of a setting, by number; one alone has number 0.
/// By number.
fn files_of(subject: &Subject, files: &Files) -> Result<Vec<(u32, PathBuf)>, SettingError> {
    let machine = &subject.settings.files;
    let interface = || {
        let path = machine.interface(subject.interface).map_err(|error| subject.not_read(&error, None))?;
        if path.exists() { Ok(path) } else { Err(subject.absent("there is no such interface")) }
    };
    let which = subject.rest().parse::<u32>();
    let file = files.file.replace('*', subject.rest());
    let (mut found, lacks) = match files.of {
        Each::Interface => (vec![(0, interface()?)], "the kernel has no such file"),
        Each::RxQueue | Each::TxQueue => {
            let prefix = if files.of == Each::RxQueue { "rx-" } else { "tx-" };
            let queues = numbered(&interface()?.join("queues"), prefix);
            (queues, "the interface has no such queue, or the kernel no such file")
        }
        Each::Interrupt => {
            let numbers = match which {
                Ok(number) => vec![number],
                Err(_) => interrupts(subject.interface).map_err(|error| subject.not_read(&error, None))?,
            };
            let path = |number| (number, machine.proc(&format!("irq/{number}")));
            (numbers.into_iter().map(path).collect(), "the interface has no such interrupt")
        }
        Each::Cpu => {
            let lacks = match files.form {
                Form::Word => "nobody governs the frequency of these CPUs",
                _ => "these CPUs have no such idle state",
            };
            (numbered(&machine.sys(CPUS), "cpu"), lacks)
        }
    };
    if let (Ok(number), true) = (which, subject.info.is_one_or_all()) {
        found.retain(|(of, _)| *of == number);
    }
    found.retain_mut(|(_, path)| {
        path.push(&file);
        path.exists()
    });
    found.sort_unstable();
    found.dedup();
    if found.is_empty() { Err(subject.absent(lacks)) } else { Ok(found) }
}

fn interrupts(interface: &str) -> io::Result<Vec<u32>> {
    let interrupts = counters::interrupts_of(&interfaces::link(interface)?)?;
    Ok(interrupts.iter().filter_map(|(name, _)| name.split_once(' ')?.0.parse().ok()).collect())
}

/// The names of a family by their numbers.
pub(super) fn names_of_each(settings: &Settings, family: &str) -> Vec<String> {
    let all = family.replace('*', "all");
    let Ok(subject) = settings.subject(&all) else { return Vec::new() };
    let SettingPlace::Files(files) = &subject.info.place else { return Vec::new() };
    let found = files_of(&subject, files).unwrap_or_default();
    found.iter().map(|(number, _)| family.replace('*', &number.to_string())).collect()
}

impl Mechanism for Files {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        let mut each = BTreeMap::new();
        for (number, path) in files_of(subject, self)? {
            each.insert(number, value_of(subject, self, &path)?);
        }
        Ok(PerItem::of(each).text())
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let found = files_of(subject, self)?;
        let wanted = of_each(subject, value, &found)?;
        for (number, path) in found {
            let Some(value) = wanted.get(&number) else { continue };
            let text = self.form.text(value).ok_or_else(|| subject.refused(value, "it is no value of it"))?;
            // What is so already is left alone: many interrupts that cannot be moved can be read.
            if value_of(subject, self, &path)? != *value {
                if self.of == Each::Interface {
                    kernel_removals::with_napis(subject, self.file, &path)?;
                }
                write(&path, &text).map_err(|error| match (error.raw_os_error(), self.of) {
                    (Some(libc::EIO), Each::Interrupt) => {
                        subject.refused(value, "the kernel keeps this interrupt where it is")
                    }
                    (Some(libc::EINVAL), _) if self.form == Form::Word => subject.refused(value, governors(&path)),
                    _ => subject.not_written(value, &error, None),
                })?;
            }
        }
        Ok(())
    }

    /// Whether there is a file for each number that the value names, and the kernel has the governor.
    fn check(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let found = files_of(subject, self)?;
        let wanted = of_each(subject, value, &found)?;
        for (cpu, path) in found.iter().filter(|_| self.form == Form::Word) {
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

    /// Of things by their numbers each, then all.
    fn names(&self, subject: &Subject) -> Vec<String> {
        let family = subject.info.name;
        if subject.info.is_one_or_all() {
            let each = names_of_each(subject.settings, family);
            let all = (!each.is_empty()).then(|| family.replace('*', "all"));
            return each.into_iter().chain(all).collect();
        }
        // `cpuidle/state*/disable`: every state that any CPU has.
        let Some((folder, prefix)) = self.file.split_once('*').and_then(|(before, _)| before.rsplit_once('/')) else {
            return vec![family.to_owned()];
        };
        let cpus = numbered(&subject.settings.files.sys(CPUS), "cpu");
        let numbers = cpus.iter().flat_map(|(_, cpu)| numbered(&cpu.join(folder), prefix));
        let numbers: BTreeSet<u32> = numbers.map(|(number, _)| number).collect();
        numbers.iter().map(|number| family.replace('*', &number.to_string())).collect()
    }
}

fn value_of(subject: &Subject, files: &Files, path: &Path) -> Result<String, SettingError> {
    let text = read(path).map_err(|error| match error.raw_os_error() {
        // xps_cpus of an interface with one queue (net/core/net-sysfs.c).
        Some(libc::ENOENT) => subject.absent("the interface has one queue only"),
        _ => subject.not_read(&error, None),
    })?;
    files.form.value(&text).ok_or_else(|| subject.absent(format!("'{text}' is not a value of it that is known")))
}

/// The value for each number that there is; a value for one that there is not is refused.
fn of_each(subject: &Subject, value: &str, found: &[(u32, PathBuf)]) -> Result<BTreeMap<u32, String>, SettingError> {
    match PerItem::parse(value) {
        Some(PerItem::All(value)) => Ok(map_of(found.iter().map(|(number, _)| (*number, value.clone())))),
        Some(PerItem::Each(each)) => match each.keys().find(|number| found.iter().all(|(one, _)| one != *number)) {
            None => Ok(each),
            Some(stranger) => Err(subject.refused(value, format!("there is no number {stranger}"))),
        },
        None => Err(subject.refused(value, "it is neither one value nor one for each number")),
    }
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
