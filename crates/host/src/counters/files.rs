//! The counters of a machine without an agent, from the texts of its files: as [`super::snapshot`] names and places them.
//! Knows which files, not how their texts came here. What only netlink tells (queueing disciplines, pause frames apart)
//! is absent, and is not missed.

use super::{Reading, Snapshot, cpu, driver, interrupts, neighbours, snmp, softnet};
use crate::elsewhere::{DRIVER_STATISTICS, Files};

/// Files with several lines each; `INTERFACE` stands for its name.
pub(crate) const TABLES: [&str; 9] = [
    "/proc/net/softnet_stat",
    "/proc/net/snmp",
    "/proc/net/netstat",
    "/proc/net/snmp6",
    "/proc/net/stat/arp_cache",
    "/proc/net/stat/ndisc_cache",
    "/proc/interrupts",
    "/proc/softirqs",
    "/sys/class/net/INTERFACE/device/uevent",
];
/// Files with a line each, as patterns of a shell.
pub(crate) const VALUES: [&str; 5] = [
    "/sys/class/net/INTERFACE/statistics/*",
    "/sys/class/net/INTERFACE/carrier_changes",
    "/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state*/name",
    "/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state*/usage",
    "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count",
];

/// The counters that concern `interface`.
pub fn snapshot_of(files: &Files, interface: &str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let folder = format!("/sys/class/net/{interface}/statistics/");
    let link = files.below(&folder).filter_map(|(name, text)| Some((name.to_owned(), text.trim().parse().ok()?)));
    let link: Vec<Reading> = link.collect();
    snapshot.add_known(&folder, "link ", (!link.is_empty()).then_some(link));
    let changes = files.get(&format!("/sys/class/net/{interface}/carrier_changes"));
    let changes = changes.and_then(|text| Some(("carrier_changes".to_owned(), text.trim().parse().ok()?)));
    snapshot.add_known("the carrier", "link ", Some(changes.into_iter().collect()));
    // No driver has to have any.
    let statistics = files.get(DRIVER_STATISTICS).map(driver::parse).unwrap_or_default();
    snapshot.add_known(DRIVER_STATISTICS, "driver ", Some(statistics));
    let mut table = |file: &str, prefix: &str, parse: fn(&str) -> Vec<Reading>, is_needed: bool| {
        let readings = files.get(file).map(parse);
        if is_needed || readings.is_some() {
            snapshot.add_known(file, prefix, readings);
        }
    };
    table("/proc/net/softnet_stat", "softnet ", softnet::parse, true);
    table("/proc/net/snmp", "", snmp::parse_pairs, true);
    table("/proc/net/netstat", "", snmp::parse_pairs, true);
    // Not on every kernel, nor in every namespace.
    table("/proc/net/snmp6", "", snmp::parse_lines, false);
    table("/proc/net/stat/arp_cache", "arp_cache ", neighbours::parse, false);
    table("/proc/net/stat/ndisc_cache", "ndisc_cache ", neighbours::parse, false);
    table("/proc/softirqs", "softirq ", interrupts::parse_softirqs, true);
    let texts = files.below("/sys/devices/system/cpu/");
    snapshot.add_known("the CPUs", "cpu ", Some(cpu::parse(texts)));
    let keys = files.device(interface).keys();
    let keys: Vec<&str> = std::iter::once(interface).chain(keys.iter().map(String::as_str)).collect();
    let of_device = files.get("/proc/interrupts").map(|text| interrupts::parse(text, &keys));
    snapshot.add_known("/proc/interrupts", "irq ", of_device);
    snapshot
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use linerate_trial::stage::{Counters, Stage};

    use super::*;

    /// This machine's own files.
    fn here(interface: &str) -> Files {
        let mut texts = BTreeMap::new();
        let mut take = |path: &Path| {
            if let Ok(text) = fs::read_to_string(path) {
                texts.insert(path.display().to_string(), text);
            }
        };
        TABLES.iter().for_each(|path| take(Path::new(path)));
        take(Path::new(&format!("/sys/class/net/{interface}/carrier_changes")));
        for entry in fs::read_dir(format!("/sys/class/net/{interface}/statistics")).unwrap().flatten() {
            take(&entry.path());
        }
        Files::of(texts)
    }

    #[test]
    fn what_files_tell_is_what_is_read_here() {
        let names = |counters: &Counters, skip: &[&str]| -> Vec<(Stage, String)> {
            let kept = |name: &str| !skip.iter().any(|skip| name.starts_with(skip));
            counters.iter().filter(|(_, name, _)| kept(name)).map(|(stage, name, _)| (stage, name.to_owned())).collect()
        };
        let (own, other) = (super::super::snapshot("lo"), snapshot_of(&here("lo"), "lo"));
        assert_eq!(other.missing, [""; 0]);
        // sysfs has not all that netlink has, and queueing disciplines are of netlink only.
        let skip = ["link rx_otherhost_dropped", "cpu ", "eth", "lo ", "pause "];
        let only_netlink =
            |name: &str| name.contains(" drops") || name.contains(" requeues") || name.contains("overlimits");
        let own: Vec<_> = names(&own.counters, &skip).into_iter().filter(|(stage, _)| *stage != Stage::Qdisc).collect();
        let own: Vec<_> = own.into_iter().filter(|(_, name)| !only_netlink(name)).collect();
        for one in &own {
            assert!(names(&other.counters, &[]).contains(one), "{one:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_said_once_and_nothing_is_made_up() {
        let none = snapshot_of(&Files::default(), "eth0");
        assert_eq!(none.counters.iter().count(), 0);
        let missing = ["statistics", "softnet_stat", "snmp", "netstat", "softirqs", "interrupts"];
        assert_eq!(none.missing.len(), missing.len(), "{:?}", none.missing);
        missing.iter().zip(&none.missing).for_each(|(file, said)| assert!(said.contains(file), "{said}"));
        let odd = [("/sys/class/net/eth0/statistics/rx_packets", "many"), ("/proc/net/snmp", "\u{0}\nUdp: a\n")];
        let odd = Files::of(odd.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        assert_eq!(snapshot_of(&odd, "eth0").counters.iter().count(), 0);
    }

    #[test]
    fn a_boards_files() {
        let texts = [
            ("/sys/class/net/eth0/statistics/rx_dropped", "7\n"),
            ("/sys/class/net/eth1/statistics/rx_dropped", "9\n"),
            ("/sys/class/net/eth0/device/uevent", "DRIVER=fec\nOF_FULLNAME=/soc/aips-bus@2100000/ethernet@2188000\n"),
            ("/proc/interrupts", " CPU0\n 150: 900 GIC 2188000.ethernet\n 151: 3 GIC fec\n"),
            (DRIVER_STATISTICS, "NIC statistics:\n     tx_dropped: 4\n     IEEE_rx_macerr: 5\n     q: 1\n     q: 2\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/name", "WAIT\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/usage", "20\n"),
            ("/sys/devices/system/cpu/cpu1/cpuidle/state1/name", "WAIT\n"),
            ("/sys/devices/system/cpu/cpu1/cpuidle/state1/usage", "22\n"),
        ];
        let files = Files::of(texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let counters = snapshot_of(&files, "eth0").counters;
        let found: BTreeMap<&str, u64> = counters.iter().map(|(_, name, value)| (name, value)).collect();
        let want = [
            ("cpu idle WAIT entered", 42),
            ("driver IEEE_rx_macerr", 5),
            ("driver q", 1),
            ("driver q#2", 2),
            ("driver tx_dropped", 4),
            ("irq 150 2188000.ethernet", 900),
            ("link rx_dropped", 7),
        ];
        assert_eq!(found, want.into_iter().collect());
    }
}
