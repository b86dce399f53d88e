//! The machine: kernel, model, processors, memory.
//! Knows /proc and /sys of a Linux machine; every file there may be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use linerate_machine::environment::{Cpu, Environment, IdleState, IrqTime};
use linerate_machine::map::map_of;

use crate::cpu::accounts_irq_by_ticks;
use crate::files::Files;
use crate::sys;

const CPUS: &str = "/sys/devices/system/cpu";

/// Everything about the machine that concerns no interface.
pub(super) fn describe(files: &Files) -> Environment {
    let here = files.are_here();
    let text = |path: &str| files.text(path).ok();
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let kernel = |file: &str| files.line(&format!("/proc/sys/kernel/{file}"));
    // Before Linux 6.1 no file has it.
    let uname = if here { sys::machine::kernel_name() } else { None };
    Environment {
        machine: model(files),
        compatible: compatible(files),
        memory_octets: text("/proc/meminfo").and_then(|text| memory_octets(&text)),
        cpu: Cpu {
            model: cpu_model(&cpuinfo),
            count: text("/proc/stat").and_then(|text| cpu_count(&text)),
            governor: governors(files),
            max_frequency_khz: cpufreq(files, "scaling_max_freq").iter().filter_map(|text| text.parse().ok()).max(),
            irq_time: if here { accounts_irq_by_ticks() } else { None }
                .map(|ticks| if ticks { IrqTime::Ticks } else { IrqTime::Precise }),
            idle_states: idle_states(files),
        },
        virtualization: virtualization(files, &cpuinfo),
        command_line: files.line("/proc/cmdline"),
        kernel_version: uname.as_ref().map(|uname| uname.version.clone()).or_else(|| kernel("version")),
        architecture: uname.as_ref().map(|uname| uname.architecture.clone()).or_else(|| kernel("arch")),
        boot_id: kernel("random/boot_id"),
        // What programs here are told, which a personality may change (setarch --uname-2.6).
        kernel: uname.map(|uname| uname.release).or_else(|| kernel("osrelease")),
        ..Environment::default()
    }
}

fn model(files: &Files) -> Option<String> {
    files.line("/proc/device-tree/model").or_else(|| {
        let parts = ["sys_vendor", "product_name", "product_version"];
        let parts: Vec<String> =
            parts.iter().filter_map(|part| files.line(&format!("/sys/class/dmi/id/{part}"))).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    })
}

/// Strings that each end in NUL (Devicetree Specification 0.4, 2.2.4).
fn compatible(files: &Files) -> Vec<String> {
    let text = files.text("/proc/device-tree/compatible").unwrap_or_default();
    text.split('\0').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

/// The first processor's name, by whatever key its architecture uses.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == wanted && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    // x86 and 32-bit ARM; ARM before Linux 3.8; MIPS; PowerPC.
    ["model name", "Processor", "cpu model", "cpu"].into_iter().find_map(value).or_else(|| {
        // 64-bit ARM gives numbers only.
        Some(format!("ARM implementer {} part {}", value("CPU implementer")?, value("CPU part")?))
    })
}

/// CPUs that are online: lines `cpu0`, `cpu1` … of /proc/stat.
fn cpu_count(stat: &str) -> Option<u32> {
    let cpus = stat
        .lines()
        .filter(|line| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
    Some(cpus.count() as u32).filter(|count| *count > 0)
}

/// `MemTotal:        2048 kB`.
fn memory_octets(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn governors(files: &Files) -> Option<String> {
    let governors = cpufreq(files, "scaling_governor");
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(","))
}

/// What each CPU's file of this name says, once each.
fn cpufreq(files: &Files, file: &str) -> BTreeSet<String> {
    files.lines(&format!("{CPUS}/cpu*/cpufreq/{file}")).into_iter().map(|(_, text)| text.trim().to_owned()).collect()
}

/// The idle states of the first CPU (Documentation/admin-guide/pm/cpuidle.rst), in the driver's order.
fn idle_states(files: &Files) -> Vec<IdleState> {
    let of_each = |file: &str| -> BTreeMap<u32, String> {
        let found = files.lines(&format!("{CPUS}/cpu0/cpuidle/state*/{file}")).into_iter();
        let number = |path: &str| path.rsplit('/').nth(1)?.strip_prefix("state")?.parse().ok();
        map_of(found.filter_map(|(path, text)| Some((number(&path)?, text.trim().to_owned()))))
    };
    let (names, latencies, disabled) = (of_each("name"), of_each("latency"), of_each("disable"));
    let state = |(number, name)| IdleState {
        name,
        exit_latency_us: latencies.get(&number).and_then(|text| text.parse().ok()),
        disabled: disabled.get(&number).map(|text| text != "0"),
    };
    names.into_iter().map(state).collect()
}

fn virtualization(files: &Files, cpuinfo: &str) -> Option<String> {
    files
        .line("/sys/hypervisor/type")
        .or_else(|| files.line("/proc/device-tree/hypervisor/compatible").map(|text| text.replace('\0', " ")))
        .or_else(|| under_a_hypervisor(cpuinfo).then(|| "yes".to_owned()))
}

/// x86 has a CPU flag for it (CPUID leaf 1, ECX bit 31, which no processor sets by itself).
fn under_a_hypervisor(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("flags"))
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Whether the running kernel is this version or a newer one.
pub(crate) fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.trim().parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_by_architecture() {
        for (cpuinfo, want) in [
            ("processor\t: 0\nmodel name\t: AMD EPYC\n", Some("AMD EPYC")),
            // Linux 3.0 on an i.MX6, as reports of that board show it.
            ("Processor\t: ARMv7 Processor rev 10 (v7l)\nprocessor\t: 0\n", Some("ARMv7 Processor rev 10 (v7l)")),
            ("system type\t: QCA9558\nprocessor\t: 0\ncpu model\t: MIPS 74Kc V5.0\n", Some("MIPS 74Kc V5.0")),
            ("processor\t: 0\ncpu\t\t: 405GP\nclock\t: 300MHz\n", Some("405GP")),
            ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n", Some("ARM implementer 0x41 part 0xd08")),
            ("rubbish", None),
            ("", None),
        ] {
            assert_eq!(cpu_model(cpuinfo).as_deref(), want);
        }
    }

    #[test]
    fn idle_states_of_a_board() {
        let mut texts = BTreeMap::new();
        for (number, name, latency) in [(0, "WFI", "1"), (1, "WAIT", "50")] {
            for (file, text) in [("name", name), ("latency", latency), ("disable", "0")] {
                texts.insert(format!("{CPUS}/cpu0/cpuidle/state{number}/{file}"), format!("{text}\n"));
            }
        }
        let states = idle_states(&Files::of(texts));
        let wait = IdleState { name: "WAIT".to_owned(), exit_latency_us: Some(50), disabled: Some(false) };
        assert_eq!((states.len(), &states[1]), (2, &wait));
        assert_eq!(idle_states(&Files::default()), []);
    }

    #[test]
    fn numbers() {
        assert_eq!(cpu_count("cpu  1 2 3\ncpu0 1 2\ncpu12 1 2\ncpus\nintr 5\n"), Some(2));
        assert_eq!(cpu_count(""), None);
        assert_eq!(memory_octets("MemTotal:         61440 kB\nMemFree: 5 kB\n"), Some(61_440 << 10));
        for garbage in ["", "MemTotal: many kB", "MemTotal: 5", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(memory_octets(garbage), None);
        }
        assert!(under_a_hypervisor("flags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!under_a_hypervisor("flags\t\t: fpu\nbugs: hypervisor\n"));
    }
}
