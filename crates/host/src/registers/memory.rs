//! Words at physical addresses: what must hold before one is read, and why one was not.
//! Knows no register; that an address is of one, the controller answers for.

use std::fs;
use std::io;
use std::ops::RangeInclusive;

use linerate_machine::registers::Device;

use super::device::ranges;
use crate::interfaces;
use crate::sys::device_memory::DeviceMemory;

/// One for each address, absent where it was not read; a sentence for each reason joins `missing`.
pub(super) fn words(
    interface: &str,
    device: &Device,
    addresses: &[u64],
    missing: &mut Vec<String>,
) -> Vec<Option<u32>> {
    if addresses.is_empty() {
        return Vec::new();
    }
    let mut say = |sentence: String| {
        if !missing.contains(&sentence) {
            missing.push(sentence);
        }
    };
    if cfg!(target_endian = "big") && is_pci(interface) {
        say(format!(
            "{interface} is on the PCI bus, whose registers /dev/mem shows byte-swapped on a big-endian machine; name \
             registers of its dump"
        ));
        return vec![None; addresses.len()];
    }
    let iomem = fs::read_to_string("/proc/iomem").unwrap_or_default();
    let memory = match DeviceMemory::open() {
        Ok(memory) => memory,
        Err(error) => {
            say(cannot_open(&error));
            return vec![None; addresses.len()];
        }
    };
    let asleep = asleep(interface);
    let mut words = Vec::new();
    for &address in addresses {
        let word = match may_read(address, &iomem, device, asleep.as_deref()) {
            Ok(()) => memory.word(address).map_err(|error| cannot_read(address, &error)),
            Err(sentence) => Err(sentence),
        };
        words.push(word.map_err(&mut say).ok());
    }
    words
}

/// Devices of that bus are little-endian whatever the machine is (PCI Local Bus Specification 3.0, 3.2.2.3); those of a chip
/// are as the chip.
fn is_pci(interface: &str) -> bool {
    let bus = fs::read_link(format!("/sys/class/net/{interface}/device/subsystem"));
    bus.is_ok_and(|bus| bus.ends_with("pci"))
}

/// Memory is nobody's register: whatever the controller's definitions say, it is not shown.
fn may_read(address: u64, iomem: &str, device: &Device, asleep: Option<&str>) -> Result<(), String> {
    let all: Vec<(RangeInclusive<u64>, &str)> = ranges(iomem).filter(|(range, _)| *range.end() != 0).collect();
    if all.is_empty() {
        return Err(
            "/proc/iomem tells no addresses, so nothing shows what is memory and what a device; run the agent as \
                    root"
                .to_owned(),
        );
    }
    if all.iter().any(|(range, owner)| range.contains(&address) && *owner == "System RAM") {
        return Err(format!(
            "{address:#010x} is memory (System RAM) and no device's; correct the definition's address"
        ));
    }
    // Without its clock a device does not answer, and the bus error that follows ends the process or the machine.
    let own = |base: &u64| all.iter().find(|(range, _)| range.contains(base)).map(|(range, _)| range.clone());
    let is_own = match &device.base {
        Some(base) => own(base).unwrap_or(*base..=base.saturating_add(0x3fff)).contains(&address),
        None => true,
    };
    match asleep {
        Some(sentence) if is_own => Err(sentence.to_owned()),
        _ => Ok(()),
    }
}

/// Why the device may have no clock now.
fn asleep(interface: &str) -> Option<String> {
    let is_up = interfaces::link(interface).is_ok_and(|link| link.flags & libc::IFF_UP as u32 != 0);
    if !is_up {
        return Some(format!(
            "{interface} is down, and reading registers of a device without its clock stops the machine; bring it up first"
        ));
    }
    let status = fs::read_to_string(format!("/sys/class/net/{interface}/device/power/runtime_status"));
    status.is_ok_and(|status| status.trim() == "suspended").then(|| {
        format!(
            "the device of {interface} is suspended, and reading registers without its clock stops the machine; \
             write 'on' to /sys/class/net/{interface}/device/power/control first"
        )
    })
}

fn cannot_open(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no /dev/mem; the kernel is built without it (CONFIG_DEVMEM), so use its register dump".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "/dev/mem may not be opened: it needs root (CAP_SYS_RAWIO) and no lockdown; run the agent as root"
                .to_owned()
        }
        _ => format!("/dev/mem cannot be opened: {error}; use the driver's register dump"),
    }
}

fn cannot_read(address: u64, error: &io::Error) -> String {
    match error.raw_os_error() {
        // Documentation/admin-guide/kernel-parameters.txt, iomem=.
        Some(libc::EPERM) => "the kernel refuses registers that a driver has claimed (CONFIG_STRICT_DEVMEM, \
                              CONFIG_IO_STRICT_DEVMEM, or lockdown); boot with iomem=relaxed, or use the register dump"
            .to_owned(),
        _ => format!("{address:#010x} cannot be read: {error}; correct the definition's address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IOMEM: &str =
        "02188000-0218bfff : 2188000.ethernet\n020c4000-020c7fff : ccm\n10000000-4fffffff : System RAM\n";

    #[track_caller]
    fn check(address: u64, iomem: &str, asleep: Option<&str>, complaint: &str) {
        let device = Device { base: Some(0x0218_8000), ..Device::default() };
        match may_read(address, iomem, &device, asleep) {
            Ok(()) => assert_eq!(complaint, "", "it may be read"),
            Err(sentence) => assert!(!complaint.is_empty() && sentence.contains(complaint), "{sentence}"),
        }
    }

    #[test]
    fn memory_is_not_shown_and_sleepers_are_not_woken() {
        check(0x0218_8084, IOMEM, None, "");
        check(0x1000_0000, IOMEM, None, "System RAM");
        check(0x0218_8084, "00000000-00000000 : System RAM\n", None, "tells no addresses");
        check(0x0218_8084, "", None, "tells no addresses");
        check(0x0218_8084, IOMEM, Some("eth0 is down"), "eth0 is down");
        // The clock controller has a clock.
        check(0x020c_4000, IOMEM, Some("eth0 is down"), "");
    }

    #[test]
    fn what_the_kernel_refuses_is_said_in_a_sentence() {
        let of = io::Error::from_raw_os_error;
        assert!(cannot_read(0x0218_8084, &of(libc::EPERM)).contains("iomem=relaxed"));
        assert!(cannot_open(&of(libc::ENOENT)).contains("CONFIG_DEVMEM"));
        assert!(cannot_open(&of(libc::EACCES)).contains("root"));
        assert!(asleep("no-such-one").unwrap().contains("is down"));
    }
}
