//! A machine without an agent, as the texts of its files tell of it: which interface has an address, what the machine is,
//! what it has counted. A controller reads the files by whatever way it has there, and this makes of them what an agent
//! would have told.
//! Knows which files to read, not the way.

use std::net::IpAddr;

pub use crate::counters::{DRIVER_STATISTICS, snapshot_of};
pub use crate::environment::environment_of;
pub use crate::files::{FileRequest, Files};

/// Files that say which interface has an address.
pub const ROUTES: [&str; 2] = ["/proc/net/route", "/proc/net/if_inet6"];

/// The device behind an interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    pub(crate) driver: Option<String>,
    /// Its name on its bus, the best first.
    pub(crate) bus: Vec<String>,
}

impl Device {
    /// What names it in /proc/interrupts, the best first.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.bus.iter().chain(&self.driver).cloned().collect()
    }
}

impl FileRequest {
    /// What tells where addresses are.
    pub fn routes() -> FileRequest {
        FileRequest { whole: ROUTES.map(str::to_owned).into(), lines: Vec::new() }
    }

    /// What counts, and what the machine is, seen from this interface.
    pub fn of(interface: &str) -> FileRequest {
        let mut wanted = Files::wanted_by(|files| {
            snapshot_of(files, interface);
            environment_of(files, Some(interface));
        });
        wanted.whole.retain(|path| path != DRIVER_STATISTICS);
        wanted
    }
}

/// Whether this can be an interface's name: it becomes part of a path, and of a command there. (The kernel's rules are
/// wider, dev_valid_name of net/core/dev.c.)
pub fn is_name(interface: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
    !interface.is_empty() && interface.len() < 16 && !interface.starts_with('.') && interface.chars().all(fits)
}

impl Files {
    pub(crate) fn device(&self, interface: &str) -> Device {
        let text = self.text(&format!("/sys/class/net/{interface}/device/uevent")).unwrap_or_default();
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        // A platform device is called by its address and its node's name (of_device_make_bus_id of drivers/of/device.c).
        let node = value("OF_FULLNAME=").and_then(|path| {
            let (name, address) = path.rsplit('/').next()?.split_once('@')?;
            Some(format!("{address}.{name}"))
        });
        let bus = [value("PCI_SLOT_NAME="), node].into_iter().flatten().collect();
        Device { driver: value("DRIVER="), bus }
    }

    /// The interface that an address of this machine is on; `None`: none that the files show.
    pub fn interface_of(&self, address: IpAddr) -> Option<String> {
        let name = match address {
            _ if address.is_loopback() => "lo".to_owned(),
            IpAddr::V4(address) => self.subnet(address.into())?,
            IpAddr::V6(address) => {
                let hex = address.octets().map(|octet| format!("{octet:02x}")).concat();
                // proc(5): address, number, prefix length, scope, flags, name.
                let text = self.text("/proc/net/if_inet6").ok()?;
                let mut words = text.lines().map(|line| line.split_whitespace());
                words.find_map(|mut words| (words.next()? == hex).then(|| words.last()).flatten())?.to_owned()
            }
        };
        is_name(&name).then_some(name)
    }

    /// The interface in whose subnet an IPv4 address is: no file says which one has it. Of several the longest prefix
    /// counts, then the smallest metric, as for packets that go there.
    fn subnet(&self, address: u32) -> Option<String> {
        let text = self.text("/proc/net/route").ok()?;
        let routes = text.lines().skip(1).filter_map(|line| {
            // proc(5): name, destination, gateway, flags, references, use, metric, mask. Addresses are numbers as the
            // machine's processor reads them, and its own order of octets is seen in a mask of ones alone.
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
            let (destination, gateway, mask) = (number(1)?, number(2)?, number(7)?);
            let metric: u32 = words.get(6)?.parse().ok()?;
            (gateway == 0 && mask != 0).then(|| (words[0].to_owned(), destination, mask, metric))
        });
        let routes: Vec<_> = routes.collect();
        // A mask has its ones in front: where one stands otherwise, the machine is little-endian.
        let is_little = routes.iter().any(|(_, _, mask, _)| mask.leading_ones() + mask.trailing_zeros() != 32);
        let is_little =
            is_little || routes.iter().all(|(_, _, mask, _)| *mask == u32::MAX) && cfg!(target_endian = "little");
        let ordered = |number: u32| if is_little { number.swap_bytes() } else { number };
        let fits = routes.iter().filter(|(_, destination, mask, _)| address & ordered(*mask) == ordered(*destination));
        let best = fits.min_by_key(|(_, _, mask, metric)| (std::cmp::Reverse(mask.count_ones()), *metric))?;
        Some(best.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(path: &str, text: &str) -> Files {
        Files::of([(path.to_owned(), text.to_owned())].into())
    }

    #[test]
    fn the_interface_of_an_ipv4_address_is_that_of_its_subnet() {
        const LITTLE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
            wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n\
            eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        const BIG: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
            eth7 C0A80100 00000000 0001 0 0 0 FFFFFF00 0 0 0\n";
        #[track_caller]
        fn check(text: &str, address: &str, want: Option<&str>) {
            let found = files("/proc/net/route", text).interface_of(address.parse().unwrap());
            assert_eq!(found.as_deref(), want, "{address}");
        }
        check(LITTLE, "192.168.1.9", Some("eth0"));
        check(LITTLE, "192.168.2.9", Some("eth1"));
        check(LITTLE, "10.0.0.1", None);
        check(LITTLE, "127.0.0.1", Some("lo"));
        check(BIG, "192.168.1.9", Some("eth7"));
        check(BIG, "1.168.192.9", None);
        check("Iface\n$(reboot) C0A80100 00000000 0001 0 0 0 FFFFFF00 0 0 0\n", "192.168.1.9", None);
        for nonsense in ["", "\n\n", "a b c\n", "h\nx x x x x x x x\n"] {
            check(nonsense, "192.168.1.9", None);
        }
    }

    #[test]
    fn the_interface_of_an_ipv6_address_is_written_down() {
        let text = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fd000000000000000000000000000002 02 40 00 80     eth0\n";
        let files = files("/proc/net/if_inet6", text);
        assert_eq!(files.interface_of("fd00::2".parse().unwrap()).as_deref(), Some("eth0"));
        assert_eq!(files.interface_of("fd00::3".parse().unwrap()), None);
        assert_eq!(files.interface_of("::1".parse().unwrap()).as_deref(), Some("lo"));
    }

    #[test]
    fn only_names_become_part_of_a_command() {
        for (name, is) in
            [("eth0", true), ("br-lan.5@x", true), ("a b", false), ("$(x)", false), ("../x", false), ("", false)]
        {
            assert_eq!(is_name(name), is, "{name}");
        }
    }
}
