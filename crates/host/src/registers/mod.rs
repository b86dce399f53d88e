//! Raw words of a network device's registers, by the three ways there are: the driver's dump, the PHY's management bus,
//! and physical memory. Knows no register's name; the words are decoded where the definitions are.

mod device;
mod memory;

use std::io;

use linerate_machine::registers::{Device, Dump, MOST_DUMP, PhyPlace, Readings, RegisterRequest};

use crate::environment::kernel_is_at_least;
use crate::sys::ethtool::Ethtool;

pub use device::identify;

/// Reads what is wanted of `interface`. What cannot be read is absent, and a sentence says why. Reading changes some
/// registers: which, only the caller can know.
pub fn read(interface: &str, wanted: &RegisterRequest) -> Readings {
    let device = device::identify(interface);
    let mut missing = Vec::new();
    let mut readings = Readings { phy: vec![None; wanted.phy.len()], ..Readings::default() };
    match Ethtool::new(interface) {
        Err(error) => missing.push(format!("{interface} cannot be asked: {error}; name another interface")),
        Ok(ethtool) => {
            // Before the dump: that of e1000 clears a register of the PHY.
            if !wanted.phy.is_empty() {
                match phy(&ethtool, interface, wanted, &mut readings) {
                    Ok(()) => {}
                    Err(sentence) => missing.push(sentence),
                }
            }
            if wanted.dump {
                readings.dump = dump(&ethtool, interface, &device).map_err(|sentence| missing.push(sentence)).ok();
            }
        }
    }
    readings.memory = memory::words(interface, &device, &wanted.memory, &mut missing);
    Readings { device, missing, ..readings }
}

fn dump(ethtool: &Ethtool, interface: &str, device: &Device) -> Result<Dump, String> {
    if let Some(sentence) = crashes(device) {
        return Err(sentence);
    }
    match ethtool.register_dump(MOST_DUMP) {
        Ok((version, words)) => Ok(Dump { version, words }),
        Err(error) => Err(match error.raw_os_error() {
            Some(libc::EPERM) => {
                format!("the registers of {interface} need root (CAP_NET_ADMIN); run the agent as root")
            }
            Some(libc::EOPNOTSUPP) => format!(
                "{interface} has no register dump: its driver{} offers none; name PHY registers, or try --allow-dev-mem",
                device.driver.as_ref().map_or(String::new(), |driver| format!(" {driver}"))
            ),
            _ => format!("the register dump of {interface} failed: {error}; see 'ethtool -d {interface}' there"),
        }),
    }
}

/// A dump that would take the machine down. The fec driver read registers that the i.MX 6UL and 6ULL do not have, an
/// external abort, until Linux 6.1 (commit 0a8b43b12dd7), which knows the 6UL by its machine's name and the 6ULL not.
fn crashes(device: &Device) -> Option<String> {
    let is_6ul = device.compatible.iter().any(|one| one == "fsl,imx6ul-fec");
    let knows_6ul = || kernel_is_at_least(6, 1) && device::machine_compatible().iter().any(|one| one == "fsl,imx6ul");
    (is_6ul && !knows_6ul()).then(|| {
        "this kernel's register dump would crash on the i.MX 6UL and 6ULL; take Linux 6.1 or newer on a 6UL, or name \
         registers with --allow-dev-mem"
            .to_owned()
    })
}

fn phy(ethtool: &Ethtool, interface: &str, wanted: &RegisterRequest, readings: &mut Readings) -> Result<(), String> {
    let address = match wanted.phy_address {
        Some(address) => u16::from(address),
        None => ethtool.phy_address().map_err(|error| no_phy(interface, &error))?,
    };
    readings.phy_address = u8::try_from(address).ok().filter(|&address| address < 32);
    let mut failed = None;
    for (place, value) in wanted.phy.iter().zip(&mut readings.phy) {
        match ethtool.phy_register(phy_id(address, *place), place.register) {
            Ok(read) => *value = Some(read),
            Err(error) => {
                failed.get_or_insert((*place, error));
            }
        }
    }
    match failed {
        None => Ok(()),
        Some((_, error)) if readings.phy.iter().all(Option::is_none) => Err(no_phy(interface, &error)),
        Some((PhyPlace { device: Some(device), register }, error)) => Err(format!(
            "PHY register {device}.{register} of {interface} cannot be read: {error}; not every driver speaks clause 45"
        )),
        Some((PhyPlace { device: None, register }, error)) => {
            Err(format!("PHY register {register} of {interface} cannot be read: {error}; leave it out"))
        }
    }
}

/// What the ioctl calls a PHY: its address; of clause 45, MDIO_PHY_ID_C45 with port and device (linux/mdio.h).
fn phy_id(address: u16, place: PhyPlace) -> u16 {
    const MDIO_PHY_ID_C45: u16 = 0x8000;
    match place.device {
        None => address,
        Some(device) => MDIO_PHY_ID_C45 | (address & 0x1f) << 5 | u16::from(device & 0x1f),
    }
}

fn no_phy(interface: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            format!("the PHY registers of {interface} need root (CAP_NET_ADMIN); run the agent as root")
        }
        Some(libc::EOPNOTSUPP | libc::ENODEV) => format!(
            "{interface} has no PHY that its driver lets one read; a switch or a virtual interface has none, and some \
             drivers need the interface up"
        ),
        Some(libc::EINVAL) => {
            format!("the driver of {interface} reads no PHY registers now; bring the interface up and try again")
        }
        _ => format!("the PHY of {interface} cannot be read: {error}; bring the interface up and try again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phy_of_clause_45_has_its_port_and_device_in_one_number() {
        let place = |device| PhyPlace { device, register: 0 };
        assert_eq!(phy_id(4, place(None)), 4);
        // MDIO_PHY_ID_C45 | 4 << 5 | 3 (linux/mdio.h, mdio_phy_id_c45).
        assert_eq!(phy_id(4, place(Some(3))), 0x8083);
    }

    #[test]
    fn the_loopback_says_why_it_has_no_registers() {
        let wanted = RegisterRequest {
            dump: true,
            phy: vec![PhyPlace { device: None, register: 1 }; 2],
            ..RegisterRequest::default()
        };
        let readings = read("lo", &wanted);
        assert_eq!((readings.dump, readings.phy, readings.memory), (None, vec![None, None], Vec::new()));
        let [phy, dump] = &readings.missing[..] else { panic!("{:?}", readings.missing) };
        assert!(dump.contains("no register dump") || dump.contains("need root"), "{dump}");
        assert!(phy.contains("has no PHY") || phy.contains("need root"), "{phy}");
    }

    #[test]
    fn a_dump_that_would_crash_is_not_asked_for() {
        let device = |compatible: &str| Device { compatible: vec![compatible.to_owned()], ..Device::default() };
        assert_eq!(crashes(&device("fsl,imx6q-fec")), None);
        // Whatever kernel runs the test: no machine that runs it is an i.MX 6UL.
        assert!(crashes(&device("fsl,imx6ul-fec")).unwrap().contains("would crash"));
    }
}
