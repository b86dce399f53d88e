//! Interrupts of the interface, from /proc/interrupts, and the network's softirqs, from /proc/softirqs.
//! Knows the two tables; which words name the interface's device is an argument.

use std::io;

use super::{Machine, Reading, per_cpu};
use crate::files::Files;
use crate::interfaces::Link;
use crate::sys::ethtool::Ethtool;

/// Those of the machine's interface.
pub(super) fn read(machine: &Machine) -> io::Result<Vec<Reading>> {
    if let Some(link) = &machine.link {
        return of_device(link);
    }
    let keys = machine.files.device(machine.interface).keys();
    let keys: Vec<&str> = std::iter::once(machine.interface).chain(keys.iter().map(String::as_str)).collect();
    machine.files.text("/proc/interrupts").map(|text| parse(&text, &keys))
}

/// The interrupts of the device behind `link`: number and name, and how often.
pub(crate) fn of_device(link: &Link) -> io::Result<Vec<Reading>> {
    let driver = Ethtool::new(&link.name).and_then(|ethtool| ethtool.driver_info()).unwrap_or_default();
    let keys =
        [Some(link.name.as_str()), link.parent_device.as_deref(), driver.bus.as_deref(), driver.driver.as_deref()];
    let keys: Vec<&str> = keys.into_iter().flatten().collect();
    Files::here().text("/proc/interrupts").map(|text| parse(&text, &keys))
}

/// The interrupts whose description has one of `keys` as a word: the interface's name, its device, its bus
/// address, its driver. Keys are tried in turn, and the first that is found anywhere wins, because a driver's
/// name also stands for its other ports. Counts of all CPUs together.
pub(super) fn parse(text: &str, keys: &[&str]) -> Vec<Reading> {
    let rows = rows(text);
    for key in keys.iter().filter(|key| !key.is_empty()) {
        let found: Vec<Reading> = rows
            .iter()
            .filter(|row| has_word(&row.rest, key))
            .map(|row| (format!("{} {}", row.label, row.action()), row.total))
            .collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// `NET_RX` and `NET_TX`, of all CPUs together.
pub(super) fn parse_softirqs(text: &str) -> Vec<Reading> {
    rows(text)
        .into_iter()
        .filter(|row| row.label == "NET_RX" || row.label == "NET_TX")
        .map(|row| (row.label, row.total))
        .collect()
}

struct Row {
    label: String,
    total: u64,
    /// What follows the counts: chip, number on the chip, names.
    rest: String,
}

impl Row {
    /// The names at the end: `eth0-rx-0`, or several with commas where devices share the line.
    fn action(&self) -> String {
        let words: Vec<&str> = self.rest.split_whitespace().collect();
        let mut from = words.len().saturating_sub(1);
        while from > 0 && words[from - 1].ends_with(',') {
            from -= 1;
        }
        words[from..].concat()
    }
}

/// The rows under a header of CPUs. A CPU that is offline has no column, so the header counts them.
fn rows(text: &str) -> Vec<Row> {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |header| header.split_whitespace().filter(|w| w.starts_with("CPU")).count());
    if cpus == 0 {
        return Vec::new();
    }
    lines
        .filter_map(|line| {
            let (label, rest) = line.split_once(':')?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            // ERR and MIS have one number only; they belong to no device.
            let counts = words.get(..cpus)?;
            let total = per_cpu::sum(counts.iter().map(|count| count.parse().ok()))?;
            Some(Row { label: label.trim().to_owned(), total, rest: words[cpus..].join(" ") })
        })
        .collect()
}

/// Whether `key` stands in `text` with nothing alphanumeric at either side: `eth1` is not in `eth10-rx`.
fn has_word(text: &str, key: &str) -> bool {
    text.match_indices(key).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + key.len()..].chars().next();
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, keys: &[&str], want: &[(&str, u64)]) {
        let want: Vec<Reading> = want.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(parse(text, keys), want);
    }

    // Recorded on Linux 6.18 on a virtual machine, shortened.
    const VIRTUAL: &str = "           CPU0       CPU1       \n \
         26:          0         14  IO-APIC   4-edge      ttyS0\n \
         38:          5       4081 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n \
         39:       3464          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0\n \
         40:          7          0 PCI-MSIX-0000:00:04.0   0-edge      virtio20-config\n\
         NMI:          0          0   Non-maskable interrupts\nERR:          0\n";

    // The shape of Linux 3.0 on an i.MX6, from its source: no number on the chip, two lines for one device.
    const BOARD: &str = "            CPU0       CPU1\n 55:        120          0       GIC  sdhci, eth0\n\
         150:        900          4       GIC  enet\n151:          3          0       GIC  enet\n";

    #[test]
    fn lines_of_the_device_by_the_best_key() {
        let both = [("38 virtio2-input.0", 4086), ("39 virtio2-output.0", 3464)];
        check(VIRTUAL, &["eth0", "virtio2", "0000:00:03.0"], &both);
        check(VIRTUAL, &["eth0", "0000:00:03.0"], &both);
        check(VIRTUAL, &["eth0", "", "nothing"], &[]);
        check(BOARD, &["eth0", "enet"], &[("55 sdhci,eth0", 120)]);
        check(BOARD, &["eth1", "enet"], &[("150 enet", 904), ("151 enet", 3)]);
        check(" CPU0\n 1: 5 chip eth10-rx\n 2: 6 chip eth1-TxRx-0\n", &["eth1"], &[("2 eth1-TxRx-0", 6)]);
    }

    #[test]
    fn softirqs() {
        let text = "                    CPU0       CPU1       \n      NET_TX:          6          3\n      \
                    NET_RX:       3393       3751\n       BLOCK:          0      86288\n";
        assert_eq!(parse_softirqs(text), [("NET_TX".to_owned(), 9), ("NET_RX".to_owned(), 7144)]);
    }

    #[test]
    fn what_makes_no_sense_is_absent() {
        for text in ["", "\n", "no header\n1: 5 eth0\n", " CPU0 CPU1\n 1: 5 eth0\n", " CPU0\n eth0\n 2: x eth0\n"] {
            check(text, &["eth0"], &[]);
            assert_eq!(parse_softirqs(text), []);
        }
    }
}
