//! The counters of this machine at one moment, by stage. One file a source.
//! Knows where counters are read; where each belongs is decided in [`sources`].
//!
//! A counter's name says its source, then its name there:
//!
//! | name | source |
//! |---|---|
//! | `link rx_dropped` | rtnetlink's statistics of the interface (struct rtnl_link_stats64) |
//! | `driver rx_queue_0_drops` | the driver's own statistics, as `ethtool -S` shows them |
//! | `phy phy_receive_errors_copper` | the PHY's own statistics, as `ethtool --phy-statistics` shows them |
//! | `pause rx_frames` | ethtool's pause statistics |
//! | `softnet dropped` | /proc/net/softnet_stat, all CPUs together, **of the machine**, not of the namespace |
//! | `eth0 tbf drops` | a root queueing discipline: device, kind |
//! | `eth0 fq_codel@1:2 drops` | one below another, with its parent's class; the root's counters include it |
//! | `Udp RcvbufErrors`, `Udp6 RcvbufErrors`, `TcpExt TCPTimeouts` | /proc/net/snmp, snmp6, netstat |
//! | `irq 38 eth0-rx-0` | /proc/interrupts |
//! | `softirq NET_RX` | /proc/softirqs, of the machine |
//! | `arp_cache table_fulls`, `ndisc_cache res_failed` | /proc/net/stat, **of the machine**, not of the namespace |
//! | `xfrm XfrmInPolBlock` | /proc/net/xfrm_stat: what IPsec's policies and states refuse |
//! | `nf_conntrack drop` | /proc/net/stat, of the namespace |
//! | `cpu idle C6 entered`, `cpu too hot, core_throttle_count` | /sys/devices/system/cpu, all CPUs together |

use std::io;

use linerate_path::stage::{Counters, Stage};

use crate::files::Files;
use crate::interfaces::{self, Link};
use sources::{Read, SOURCES, Source, Width};

mod cpu;
mod driver;
mod interrupts;
#[cfg(test)]
mod kernels;
mod link;
mod net_stat;
mod pause;
mod per_cpu;
mod phy;
pub(crate) mod qdisc;
mod snmp;
mod softnet;
mod sources;
#[cfg(test)]
mod told_tests;

pub(crate) use interrupts::of_device as interrupts_of;
pub use sources::stage_of;

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

/// A counter's stage, whole name and value.
type Placed = (Stage, String, u64);

/// Where the text of `ethtool -S` stands among another machine's files.
pub const DRIVER_STATISTICS: &str = "ethtool -S";

/// A machine as its counters' sources see it.
pub(crate) struct Machine<'a> {
    pub(crate) files: &'a Files,
    pub(crate) interface: &'a str,
    /// What rtnetlink tells of the interface, on the machine that this runs on.
    pub(crate) link: Option<Link>,
}

/// Reads every counter that concerns `interface`, in the calling thread's network namespace.
pub fn snapshot(interface: &str) -> Snapshot {
    snapshot_of(&Files::here(), interface)
}

/// Reads the counters that are the machine's, and of none of its interfaces.
pub fn snapshot_of_machine() -> Snapshot {
    read(&Files::here(), None, |source| !source.is_of_interface)
}

/// Reads those of an interface alone.
pub fn snapshot_of_interface(interface: &str) -> Snapshot {
    read(&Files::here(), Some(interface), |source| source.is_of_interface)
}

/// The interface's own statistics by the names that Linux gives them, such as `rx_packets`; none where it cannot be read.
pub fn of_link(interface: &str) -> Vec<(String, u64)> {
    let machine = Machine { files: &Files::here(), interface, link: interfaces::link(interface).ok() };
    machine.link.as_ref().and_then(|_| link::read(&machine).ok()).unwrap_or_default()
}

/// The same of a machine with these files. What only netlink tells of another machine is absent, and not missed.
pub fn snapshot_of(files: &Files, interface: &str) -> Snapshot {
    read(files, Some(interface), |_| true)
}

fn read(files: &Files, interface: Option<&str>, is_wanted: impl Fn(&Source) -> bool) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let named = interface;
    let interface = named.unwrap_or_default();
    let mut machine = Machine { files, interface, link: None };
    let mut exists = true;
    if files.are_here() && named.is_some() {
        match interfaces::link(interface) {
            Ok(link) => {
                snapshot.short_link = link.statistics64.is_none();
                machine.link = Some(link);
            }
            Err(error) => {
                exists = false;
                snapshot.missing.push(format!(
                    "The interface '{interface}' could not be read ({error}), so its counters are unknown; check its name."
                ));
            }
        }
    }
    for source in SOURCES.iter().filter(|source| is_wanted(source) && (exists || !source.is_of_interface)) {
        let prefix = source.prefix;
        let place = |(name, value)| {
            let name = format!("{prefix}{name}");
            (stage_of(&name), name, value)
        };
        let placed = |readings: Vec<Reading>| readings.into_iter().map(place).collect();
        let read = match source.read {
            Read::File(path, parse) => files.text(path).map(|text| placed(parse(&text))),
            Read::By(read) => read(&machine).map(placed),
            Read::Placed(read) => read(&machine),
        };
        match read {
            Ok(readings) => {
                readings.into_iter().for_each(|(stage, name, value)| snapshot.counters.add(stage, name, value))
            }
            Err(error) if source.is_optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => snapshot.missing.push(match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("The counters of {} may not be read ({error}); try as root.", source.name)
                }
                _ => format!("The counters of {} could not be read ({error}).", source.name),
            }),
        }
    }
    snapshot
}

impl Snapshot {
    /// What the counters grew by since an earlier snapshot, while this end moved so many octets of payload. Those of 32
    /// bits are left out where they may have wrapped unseen: a full turn looks like no growth.
    pub fn since(&self, before: &Snapshot, octets: u64) -> Counters {
        let mut growth = self.counters.since(&before.counters);
        // A discipline that was not there was made since, and counts from zero.
        let disciplines = self.counters.0.get(&Stage::Qdisc).into_iter().flatten();
        let is_new = |name: &str| before.missing.is_empty() && before.counters.get(Stage::Qdisc, name).is_none();
        for (name, value) in disciplines.filter(|(name, _)| is_new(name)) {
            growth.add(Stage::Qdisc, name.clone(), *value);
        }
        let native = cfg!(target_pointer_width = "32");
        for names in growth.0.values_mut() {
            names.retain(|name, _| !is_short(name, self.short_link, native) || octets < most_octets(name));
        }
        growth
    }
}

/// Whether a counter has 32 bits, given the width of the interface's statistics and of a machine word.
fn is_short(name: &str, short_link: bool, short_word: bool) -> bool {
    match sources::width_of(name) {
        Width::Long => false,
        Width::Short => true,
        Width::Link => short_link,
        Width::Word => short_word && !name.ends_with("Octets"),
    }
}

/// The most payload that cannot have made a counter of 32 bits wrap, other traffic of half as much included: as octets, or
/// as packets, which carry a hundred at least when they are many.
fn most_octets(name: &str) -> u64 {
    if name.ends_with("_bytes") { 1 << 31 } else { 100 << 31 }
}

#[cfg(test)]
mod tests {
    use linerate_path::stage::Stage;

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
    fn a_discipline_that_was_made_since_counts_from_zero() {
        let of = |names: &[(&str, u64)]| {
            let mut snapshot = Snapshot::default();
            names.iter().for_each(|(name, value)| snapshot.counters.add(Stage::Qdisc, *name, *value));
            snapshot
        };
        let (before, after) = (of(&[("eth0 mq drops", 7)]), of(&[("eth0 mq drops", 9), ("eth0 tbf drops", 285)]));
        let growth = after.since(&before, 0);
        let grown: Vec<_> = growth.iter().map(|(_, name, value)| (name, value)).collect();
        assert_eq!(grown, [("eth0 mq drops", 2), ("eth0 tbf drops", 285)]);
        // Whose counters could not be read before may have counted then.
        let unread = Snapshot { missing: vec!["the disciplines".to_owned()], ..Snapshot::default() };
        assert_eq!(after.since(&unread, 0), Counters::default());
    }

    #[test]
    fn what_may_have_turned_unseen_is_left_out() {
        let snapshot = |value: u64, short_link| {
            let mut snapshot = Snapshot { short_link, ..Snapshot::default() };
            for name in ["link rx_bytes", "link rx_packets", "softnet processed", "driver rx_bytes", "IpExt InOctets"] {
                snapshot.counters.add(stage_of(name), name, value);
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
