//! What the processors did beside work: how often each idle state was entered, how long they ran at each frequency, how
//! often they were too hot.
//! Knows the files below /sys/devices/system/cpu; their folder is an argument. A virtual machine has none of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Reading;

/// What the files below `folder` tell.
pub(super) fn read(folder: &Path) -> Vec<Reading> {
    let mut texts = Vec::new();
    let mut take = |path: PathBuf| {
        if let (Ok(text), Ok(rest)) = (fs::read_to_string(&path), path.strip_prefix(folder)) {
            texts.push((rest.display().to_string(), text));
        }
    };
    for cpu in below(folder, "cpu") {
        for state in below(&cpu.join("cpuidle"), "state") {
            ["name", "usage"].into_iter().for_each(|file| take(state.join(file)));
        }
        ["core_throttle_count", "package_throttle_count"]
            .into_iter()
            .for_each(|file| take(cpu.join("thermal_throttle").join(file)));
    }
    below(&folder.join("cpufreq"), "policy").into_iter().for_each(|policy| take(policy.join("stats/time_in_state")));
    parse(texts.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

/// Over all CPUs together: `idle C6 entered` (Documentation/admin-guide/pm/cpuidle.rst), `frequency 996000 kHz, 10 ms`
/// (Documentation/cpu-freq/cpufreq-stats.rst) and `too hot` (Documentation/ABI/testing/sysfs-devices-system-cpu,
/// thermal_throttle). `texts`: of the files, by their paths below that folder.
pub(super) fn parse<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Reading> {
    let texts: BTreeMap<&str, &str> = texts.into_iter().collect();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |name: String, value: &str| {
        if let Ok(value) = value.trim().parse::<u64>() {
            *sums.entry(name).or_default() += value;
        }
    };
    for (path, text) in &texts {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        match file {
            "usage" => {
                if let Some(name) = texts.get(format!("{folder}/name").as_str()) {
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

/// The entries `NAME0`, `NAME1` … of a folder.
fn below(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_one = |entry: &fs::DirEntry| {
        entry
            .file_name()
            .to_str()
            .and_then(|text| text.strip_prefix(name))
            .is_some_and(|rest| rest.parse::<u32>().is_ok())
    };
    entries.flatten().filter(is_one).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_all_of_it() {
        let folder = std::env::temp_dir().join(format!("linerate-cpu-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for cpu in ["cpu0", "cpu1"] {
            write(&format!("{cpu}/cpuidle/state1/name"), "C6\n");
            write(&format!("{cpu}/cpuidle/state1/usage"), "20\n");
            write(&format!("{cpu}/thermal_throttle/core_throttle_count"), "3\n");
        }
        write("cpufreq/policy0/stats/time_in_state", "396000 11\n996000 89\nrubbish\n");
        write("cpuidle/current_driver", "none\n");
        let readings = read(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let want = [
            ("frequency 396000 kHz, 10 ms", 11),
            ("frequency 996000 kHz, 10 ms", 89),
            ("idle C6 entered", 40),
            ("too hot, core_throttle_count", 6),
        ];
        assert_eq!(readings, want.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(read(Path::new("/no/such/folder")), []);
    }
}
