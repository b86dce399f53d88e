//! Which device an interface is: driver, place, and where its registers begin.
//! Knows sysfs, the device tree and /proc/iomem; reads no register.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use linerate_machine::registers::Device;

use crate::sys::ethtool::Ethtool;

/// The device behind the interface. A virtual interface has a driver and nothing else.
pub fn identify(interface: &str) -> Device {
    let driver = Ethtool::new(interface).and_then(|ethtool| ethtool.driver_info()).ok().and_then(|info| info.driver);
    let safe = !interface.is_empty() && !interface.contains('/') && interface != "." && interface != "..";
    let Some(path) = safe
        .then(|| Path::new("/sys/class/net").join(interface).join("device"))
        .and_then(|link| fs::canonicalize(link).ok())
    else {
        return Device { driver, ..Device::default() };
    };
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let compatible = strings(&fs::read(path.join("of_node/compatible")).unwrap_or_default());
    let resource = fs::read_to_string(path.join("resource")).unwrap_or_default();
    let claimed = fs::read_to_string("/proc/iomem").unwrap_or_default();
    let base = first_bar(&resource)
        .or_else(|| claimed_by(&claimed, name.as_deref()?))
        .or_else(|| address_in_name(name.as_deref()?));
    Device { driver, name, compatible, base }
}

/// What the device tree calls the machine.
pub(super) fn machine_compatible() -> Vec<String> {
    strings(&fs::read("/proc/device-tree/compatible").unwrap_or_default())
}

/// A range of physical addresses, and whose it is: a line of /proc/iomem. Without root, all of them are zero.
pub(super) fn ranges(iomem: &str) -> impl Iterator<Item = (RangeInclusive<u64>, &str)> {
    iomem.lines().filter_map(|line| {
        let (range, owner) = line.split_once(" : ")?;
        let (first, last) = range.trim().split_once('-')?;
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        Some((hex(first)?..=hex(last)?, owner))
    })
}

/// Strings that each end in NUL, as the device tree has them.
fn strings(bytes: &[u8]) -> Vec<String> {
    bytes
        .split(|&b| b == 0)
        .filter(|one| !one.is_empty())
        .map(|one| String::from_utf8_lossy(one).into_owned())
        .collect()
}

/// The first memory of a PCI device: `resource` has a line of first, last and flags for each (IORESOURCE_MEM, 0x200).
fn first_bar(resource: &str) -> Option<u64> {
    resource.lines().find_map(|line| {
        let mut words = line.split_whitespace().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        let (first, _, flags) = (words.next()??, words.next()??, words.next()??);
        (first != 0 && flags & 0x200 != 0).then_some(first)
    })
}

/// Where a device has claimed its registers. The owner is the device's name, on newer kernels the node's behind it.
fn claimed_by(iomem: &str, name: &str) -> Option<u64> {
    ranges(iomem)
        .find(|(range, owner)| *range.start() != 0 && owner.split_whitespace().next() == Some(name))
        .map(|(range, _)| *range.start())
}

/// A device of the device tree bears its address in its name: `2188000.ethernet`.
fn address_in_name(name: &str) -> Option<u64> {
    let (address, node) = name.split_once('.')?;
    let is_address =
        address.len() >= 4 && !node.is_empty() && node.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    u64::from_str_radix(address, 16).ok().filter(|_| is_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IOMEM: &str = "\
00000000-00000000 : nobody
02188000-0218bfff : 2188000.ethernet ethernet@2188000
10000000-4fffffff : System RAM
  10008000-10bfffff : Kernel code
febc0000-febdffff : e1000
";

    #[test]
    fn a_device_is_where_it_says() {
        assert_eq!(claimed_by(IOMEM, "2188000.ethernet"), Some(0x0218_8000));
        assert_eq!(claimed_by(IOMEM, "nobody"), None, "all zeros are for those who may not see");
        assert_eq!(address_in_name("2188000.ethernet"), Some(0x0218_8000));
        assert_eq!(address_in_name("e000b000.ethernet"), Some(0xe000_b000));
        for no_address in ["0000:00:03.0", "fec.0", "virtio0", "1-1.2:1.0"] {
            assert_eq!(address_in_name(no_address), None, "{no_address}");
        }
        let resource = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                        0x000000000000c000 0x000000000000c03f 0x0000000000040101\n\
                        0x00000000febc0000 0x00000000febdffff 0x0000000000040200\n";
        assert_eq!(first_bar(resource), Some(0xfebc_0000));
        assert_eq!(first_bar("garbage\n0x1\n"), None);
    }

    #[test]
    fn a_virtual_interface_has_no_place() {
        let lo = identify("lo");
        assert_eq!((lo.name, lo.base, lo.compatible), (None, None, Vec::new()));
        assert_eq!(identify("../../../etc").base, None);
    }
}
