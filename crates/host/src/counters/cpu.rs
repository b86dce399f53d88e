//! What the processors did beside work: how often each idle state was entered, how long they ran at each frequency, how
//! often they were too hot.
//! A virtual machine has none of the files.

use std::collections::BTreeMap;
use std::io;

use super::{Machine, Reading};

pub(super) fn read(machine: &Machine) -> io::Result<Vec<Reading>> {
    let of_cpus = |file: &str| machine.files.lines(&format!("/sys/devices/system/cpu/cpu*/{file}"));
    let files = ["cpuidle/state*/name", "cpuidle/state*/usage", "thermal_throttle/*_throttle_count"];
    let mut texts: Vec<(String, String)> = files.into_iter().flat_map(of_cpus).collect();
    texts.extend(machine.files.texts("/sys/devices/system/cpu/cpufreq/policy*/stats/time_in_state"));
    Ok(parse(&texts.into_iter().collect()))
}

/// Over all CPUs together: `idle C6 entered` (Documentation/admin-guide/pm/cpuidle.rst), `frequency 996000 kHz, 10 ms`
/// (Documentation/cpu-freq/cpufreq-stats.rst) and `too hot` (Documentation/ABI/testing/sysfs-devices-system-cpu,
/// thermal_throttle). `texts`: of the files, by their paths.
fn parse(texts: &BTreeMap<String, String>) -> Vec<Reading> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |name: String, value: &str| {
        if let Ok(value) = value.trim().parse::<u64>() {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(value);
        }
    };
    for (path, text) in texts {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        match file {
            "usage" => {
                if let Some(name) = texts.get(&format!("{folder}/name")) {
                    add(format!("idle {} entered", name.trim()), text);
                }
            }
            "time_in_state" => {
                for (frequency, time) in text.lines().filter_map(|line| line.split_once(' ')) {
                    add(format!("frequency {frequency} kHz, 10 ms"), time);
                }
            }
            file if file.ends_with("_throttle_count") => add(format!("too hot, {file}"), text),
            _ => {}
        }
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;

    #[test]
    fn a_machine_with_all_of_it() {
        let mut texts = BTreeMap::new();
        let mut write = |path: &str, text: &str| {
            texts.insert(format!("/sys/devices/system/cpu/{path}"), text.to_owned());
        };
        for cpu in ["cpu0", "cpu1"] {
            write(&format!("{cpu}/cpuidle/state1/name"), "C6\n");
            write(&format!("{cpu}/cpuidle/state1/usage"), "20\n");
            write(&format!("{cpu}/thermal_throttle/core_throttle_count"), "3\n");
        }
        write("cpufreq/policy0/stats/time_in_state", "396000 11\n996000 89\nrubbish\n");
        write("cpuidle/current_driver", "none\n");
        let read = |texts| read(&Machine { files: &Files::of(texts), interface: "eth0", link: None }).unwrap();
        let readings = read(texts);
        let want = [
            ("frequency 396000 kHz, 10 ms", 11),
            ("frequency 996000 kHz, 10 ms", 89),
            ("idle C6 entered", 40),
            ("too hot, core_throttle_count", 6),
        ];
        assert_eq!(readings, want.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(read(BTreeMap::new()), []);
    }
}
