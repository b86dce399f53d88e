//! Counters of a machine without an agent: tests of the sources by texts of files.
//! Netlink has no part in them.

use std::collections::BTreeMap;

use linerate_path::stage::{Counters, Stage};
use linerate_trial::pace::SplitMix64;

use super::{snapshot, snapshot_of};
use crate::agentless::{DRIVER_STATISTICS, FileRequest, Files, environment_of};

/// This machine's own files, as somebody else would fetch them.
fn here(interface: &str) -> Files {
    let mut texts = BTreeMap::new();
    let own = Files::here();
    let wanted = FileRequest::of(interface);
    for pattern in wanted.whole.iter().chain(&wanted.lines) {
        texts.extend(own.texts(pattern));
        texts.extend(own.text(pattern).ok().map(|text| (pattern.clone(), text)));
    }
    Files::of(texts)
}

#[test]
fn what_files_tell_is_what_is_read_here() {
    let names = |counters: &Counters, skip: &[&str]| -> Vec<(Stage, String)> {
        let kept = |name: &str| !skip.iter().any(|skip| name.starts_with(skip));
        counters.iter().filter(|(_, name, _)| kept(name)).map(|(stage, name, _)| (stage, name.to_owned())).collect()
    };
    let (own, other) = (snapshot("lo"), snapshot_of(&here("lo"), "lo"));
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

/// A stranger's machine says what it likes: that breaks nothing here.
#[test]
fn spoilt_texts_break_nothing() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let wanted = FileRequest::of("lo");
    let named = |pattern: &String| (pattern.replace('*', "0"), "7\n".to_owned());
    let mut texts: BTreeMap<String, String> = wanted.whole.iter().chain(&wanted.lines).map(named).collect();
    let own = here("lo");
    for path in texts.keys().cloned().collect::<Vec<_>>() {
        texts.extend(own.text(&path).ok().map(|text| (path, text)));
    }
    texts.insert(DRIVER_STATISTICS.to_owned(), "NIC statistics:\n     rx: 4\n     rx: 5\n".to_owned());
    let words =
        ["18446744073709551615", "ffffffffffffffff", "-1", "", ":", "CPU0 CPU1", "\n", "\u{0}", "µ", "0x", "@/"];
    for _ in 0..200 {
        let spoilt = texts.iter().map(|(path, text)| {
            let mut text = text.clone();
            for _ in 0..random.below(6) {
                let word = words[random.below(words.len() as u64) as usize];
                text = match random.below(3) {
                    // Every number, or every line's end, is this.
                    0 => text.split(|c: char| c.is_ascii_digit()).collect::<Vec<_>>().join(word),
                    1 => text.replace('\n', word),
                    _ => {
                        let at = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect::<Vec<_>>();
                        let at = at[random.below(at.len() as u64) as usize];
                        format!("{}{word}{}", &text[..at], &text[at..])
                    }
                };
                text.truncate(text.floor_char_boundary(1 << 16));
            }
            (path.clone(), text)
        });
        let files = Files::of(spoilt.collect());
        snapshot_of(&files, "lo");
        environment_of(&files, Some("lo"));
    }
}
