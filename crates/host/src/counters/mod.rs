//! The counters of this machine at one moment, by stage. One file a source.
//! Knows where counters are read; where each belongs is decided in [`places`].
//!
//! A counter's name says its source, then its name there:
//!
//! | name | source |
//! |---|---|
//! | `link rx_dropped` | rtnetlink's statistics of the interface (struct rtnl_link_stats64) |
//! | `driver rx_queue_0_drops` | the driver's own statistics, as `ethtool -S` shows them |
//! | `pause rx_frames` | ethtool's pause statistics |
//! | `softnet dropped` | /proc/net/softnet_stat, all CPUs together, **of the machine**, not of the namespace |
//! | `eth0 tbf drops` | a root queueing discipline: device, kind |
//! | `eth0 fq_codel@1:2 drops` | one below another, with its parent's class; the root's counters include it |
//! | `Udp RcvbufErrors`, `Udp6 RcvbufErrors`, `TcpExt TCPTimeouts` | /proc/net/snmp, snmp6, netstat |
//! | `irq 38 eth0-rx-0` | /proc/interrupts |
//! | `softirq NET_RX` | /proc/softirqs, of the machine |
//! | `arp_cache table_fulls`, `ndisc_cache res_failed` | /proc/net/stat, **of the machine**, not of the namespace |
//! | `cpu idle C6 entered`, `cpu too hot, core_throttle_count` | /sys/devices/system/cpu, all CPUs together |

use std::fs;
use std::io;
use std::path::Path;

use linerate_trial::stage::Counters;

use crate::interfaces::{self, Link};
use crate::sys::ethtool::Ethtool;

mod cpu;
mod driver;
pub(crate) mod files;
mod interrupts;
#[cfg(test)]
mod kernels;
mod link;
mod neighbours;
mod pause;
pub mod places;
mod qdisc;
mod snmp;
mod softnet;

/// The counters at one moment, and what could not be read.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The counters; subtract an earlier snapshot's with [`Snapshot::since`].
    pub counters: Counters,
    /// The interface's statistics are of 32 bits: a kernel before 2.6.35.
    short_link: bool,
    /// Sources that should be there and could not be read, one sentence each. A source that the kernel or the
    /// driver does not have is not among them.
    pub missing: Vec<String>,
}

/// A counter as a source gives it: its name there, and its value.
pub(crate) type Reading = (String, u64);

/// Reads every counter that concerns `interface`, in the calling thread's network namespace.
pub fn snapshot(interface: &str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let link = match interfaces::link(interface) {
        Ok(link) => link,
        Err(error) => {
            snapshot.missing.push(format!(
                "The interface '{interface}' could not be read ({error}), so its counters are unknown; check its name."
            ));
            Link { name: interface.to_owned(), ..Link::default() }
        }
    };
    let exists = link.index != 0;
    if exists {
        snapshot.short_link = link.statistics64.is_none();
        snapshot.add("link statistics", "link ", link::read(&link));
        snapshot.add("driver statistics", "driver ", driver::read(interface));
        snapshot.add("pause statistics", "pause ", pause::read(interface));
        match qdisc::read(&link) {
            Ok(readings) => {
                for (stage, name, value) in readings {
                    snapshot.counters.add(stage, name, value);
                }
            }
            Err(error) => snapshot.lacks("queueing disciplines", &error),
        }
    }
    snapshot.add("/proc/net/softnet_stat", "softnet ", net_file("softnet_stat").map(|text| softnet::parse(&text)));
    for file in ["snmp", "netstat"] {
        snapshot.add(&format!("/proc/net/{file}"), "", net_file(file).map(|text| snmp::parse_pairs(&text)));
    }
    match net_file("snmp6") {
        // A kernel without IPv6 has no such file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        text => snapshot.add("/proc/net/snmp6", "", text.map(|text| snmp::parse_lines(&text))),
    }
    for table in ["arp_cache", "ndisc_cache"] {
        match neighbours::read(table) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            readings => snapshot.add(&format!("/proc/net/stat/{table}"), &format!("{table} "), readings),
        }
    }
    snapshot.add("the CPUs", "cpu ", Ok(cpu::read(Path::new("/sys/devices/system/cpu"))));
    if exists {
        snapshot.add("/proc/interrupts", "irq ", interrupts_of(&link));
    }
    let softirqs = fs::read_to_string("/proc/softirqs").map(|text| interrupts::parse_softirqs(&text));
    snapshot.add("/proc/softirqs", "softirq ", softirqs);
    snapshot
}

impl Snapshot {
    /// What the counters grew by since an earlier snapshot, while this end moved so many octets of payload. Those of 32
    /// bits are left out where they may have wrapped unseen: a full turn looks like no growth.
    pub fn since(&self, before: &Snapshot, octets: u64) -> Counters {
        let mut growth = self.counters.since(&before.counters);
        let native = cfg!(target_pointer_width = "32");
        for names in growth.0.values_mut() {
            names.retain(|name, _| !is_short(name, self.short_link, native) || octets < most_octets(name));
        }
        growth
    }

    fn add(&mut self, source: &str, prefix: &str, readings: io::Result<Vec<Reading>>) {
        match readings {
            Ok(readings) => {
                for (name, value) in readings {
                    let name = format!("{prefix}{name}");
                    self.counters.add(places::stage_of(&name), name, value);
                }
            }
            Err(error) => self.lacks(source, &error),
        }
    }

    /// The same of readings that are known, or not.
    fn add_known(&mut self, source: &str, prefix: &str, readings: Option<Vec<Reading>>) {
        match readings {
            Some(readings) => self.add(source, prefix, Ok(readings)),
            None => self.missing.push(format!("The counters of {source} could not be read.")),
        }
    }

    fn lacks(&mut self, source: &str, error: &io::Error) {
        self.missing.push(match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("The counters of {source} may not be read ({error}); try as root.")
            }
            _ => format!("The counters of {source} could not be read ({error})."),
        });
    }
}

/// Whether a counter has 32 bits, given the width of the interface's statistics and of a machine word. /proc/net/snmp and
/// its like print words, but for octets (include/net/snmp.h); softnet_stat and interrupts are of 32 bits on every machine.
/// A driver's own are read as 64, whatever its hardware has.
fn is_short(name: &str, short_link: bool, short_word: bool) -> bool {
    let of_stack =
        ["Ip", "Icmp", "Udp", "Tcp"].iter().any(|group| name.starts_with(group)) && !name.ends_with("Octets");
    name.starts_with("softnet ")
        || name.starts_with("irq ")
        || name.starts_with("softirq ")
        || (name.starts_with("link ") && short_link)
        || (of_stack && short_word)
}

/// So much payload cannot have made a counter of 32 bits turn once, other traffic of half as much included: as octets, or
/// as packets, which carry a hundred at least when they are many.
fn most_octets(name: &str) -> u64 {
    if name.ends_with("_bytes") { 1 << 31 } else { 100 << 31 }
}

/// The interrupts of the device behind `link`: number and name, and how often.
pub(crate) fn interrupts_of(link: &Link) -> io::Result<Vec<Reading>> {
    let driver = Ethtool::new(&link.name).and_then(|ethtool| ethtool.driver_info()).unwrap_or_default();
    let keys =
        [Some(link.name.as_str()), link.parent_device.as_deref(), driver.bus.as_deref(), driver.driver.as_deref()];
    let keys: Vec<&str> = keys.into_iter().flatten().collect();
    fs::read_to_string("/proc/interrupts").map(|text| interrupts::parse(&text, &keys))
}

/// A file of /proc/net in the thread's own network namespace.
fn net_file(name: &str) -> io::Result<String> {
    // /proc/net is that of the process's first thread; /proc/thread-self came with Linux 3.17.
    fs::read_to_string(format!("/proc/thread-self/net/{name}"))
        .or_else(|_| fs::read_to_string(format!("/proc/net/{name}")))
}

#[cfg(test)]
mod tests {
    use linerate_trial::stage::Stage;

    use super::*;

    #[test]
    fn this_machine_has_the_usual_counters() {
        let snapshot = snapshot("lo");
        assert_eq!(snapshot.missing, [""; 0]);
        for (stage, name) in [
            (Stage::DriverRxRing, "link rx_packets"),
            (Stage::DriverRxRing, "link rx_dropped"),
            (Stage::SoftirqBacklog, "softnet dropped"),
            (Stage::ReceiverSocket, "Udp RcvbufErrors"),
            (Stage::SoftirqBacklog, "softirq NET_RX"),
        ] {
            assert!(snapshot.counters.get(stage, name).is_some(), "{stage} {name}");
        }
    }

    #[test]
    fn what_may_have_turned_unseen_is_left_out() {
        let snapshot = |value: u64, short_link| {
            let mut snapshot = Snapshot { short_link, ..Snapshot::default() };
            for name in ["link rx_bytes", "link rx_packets", "softnet processed", "driver rx_bytes", "IpExt InOctets"] {
                snapshot.counters.add(places::stage_of(name), name, value);
            }
            snapshot
        };
        let left = |short_link, octets| -> Vec<String> {
            let growth = snapshot(700, short_link).since(&snapshot(200, short_link), octets);
            growth.iter().map(|(_, name, _)| name.to_owned()).collect()
        };
        assert_eq!(left(true, 1 << 20).len(), 5);
        // 35 s at a gigabit.
        let after = left(true, 1 << 32);
        assert!(after.len() == 4 && !after.contains(&"link rx_bytes".to_owned()), "{after:?}");
        assert_eq!(left(false, 1 << 32).len(), 5);
        // Two hours at 10 Gbit/s.
        assert!(!left(false, 9 << 40).contains(&"softnet processed".to_owned()));
        assert_eq!(left(true, 9 << 40).len(), 2);
        assert!(is_short("Udp InDatagrams", false, true) && !is_short("Udp InDatagrams", false, false));
        assert!(!is_short("IpExt InOctets", false, true));
    }

    #[test]
    fn an_interface_that_is_not_there_is_said_so_and_the_rest_is_read() {
        let snapshot = snapshot("no-such-one");
        assert_eq!(snapshot.missing.len(), 1, "{:?}", snapshot.missing);
        assert!(snapshot.missing[0].contains("'no-such-one'"));
        assert!(snapshot.counters.get(Stage::ReceiverSocket, "Udp RcvbufErrors").is_some());
        assert!(snapshot.counters.iter().all(|(_, name, _)| !name.starts_with("link ")));
    }
}
