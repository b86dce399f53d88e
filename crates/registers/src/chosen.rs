//! Which definitions fit a device, which of their registers are asked for, and which words that takes.
//! Knows no values; [`super::decode`] takes them from what was read.

use linerate_machine::pattern::fits_stars;
use linerate_machine::registers::{Device, PhyPlace, RegisterRequest};
use linerate_machine::text::nearest;

use super::definition::{Definitions, DeviceDefinition, DumpLayout, Field, Mode, Register, RegisterPlace};

/// The registers that a device has, as far as they are defined.
pub struct Chosen<'a> {
    /// Those of definitions that fit, then those of definitions that belong to no device.
    items: Vec<Item<'a>>,
}

/// A register of a certain device.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Whose register it is.
    pub device: &'a DeviceDefinition,
    /// Its definition.
    pub register: &'a Register,
    /// The physical address of the device's first register, if known.
    base: Option<u64>,
    /// Its definition belongs to this device, and not to any machine.
    fits: bool,
}

/// A register that is asked for, and which fields of it.
#[derive(Clone, Debug)]
pub struct Selected<'a> {
    /// The register, and its device.
    pub item: Item<'a>,
    /// All, when none is named.
    pub fields: Vec<&'a Field>,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// In the order in which they were asked for.
    pub registers: Vec<Selected<'a>>,
    /// Registers that are left out because reading clears them.
    pub spared: Vec<&'a Register>,
}

impl<'a> Chosen<'a> {
    /// `phy_id`: registers 2 and 3 of the PHY, if it has been read.
    pub fn of(definitions: &'a Definitions, device: &Device, phy_id: Option<u32>) -> Chosen<'a> {
        let mut items = Vec::new();
        for fits in [true, false] {
            for definition in &definitions.devices {
                let Some(is_bound) = fits_to(definition, device, phy_id) else { continue };
                if is_bound == fits {
                    let base = device.base.filter(|_| is_bound).or(match &definition.bases[..] {
                        [(base, _)] => Some(*base),
                        _ => None,
                    });
                    items.extend(definition.registers.iter().map(|register| Item {
                        device: definition,
                        register,
                        base,
                        fits,
                    }));
                }
            }
        }
        Chosen { items }
    }

    /// Whether there is a definition of the MAC.
    pub fn knows_mac(&self) -> bool {
        self.items.iter().any(|item| item.fits && !item.register.place.is_phy())
    }

    /// Whether a definition that fits knows the layout of a dump.
    pub fn knows_dump(&self, knows: impl Fn(Option<DumpLayout>) -> bool) -> bool {
        self.items.iter().any(|item| item.fits && knows(item.device.dump))
    }

    /// The registers of these names, or all that can be read and belong to the device. Those that reading clears are
    /// taken when named, or all of them with `clearing`. The error is one sentence.
    pub fn select(&self, names: &[String], clearing: bool) -> Result<Selection<'a>, String> {
        let mut selection = Selection::default();
        if names.is_empty() {
            for item in self.items.iter().filter(|item| item.fits && item.register.readable()) {
                if item.register.clears() && !clearing {
                    selection.spared.push(item.register);
                } else {
                    selection.add(*item, None);
                }
            }
            return Ok(selection);
        }
        for name in names {
            let found = self.find(name)?;
            let is_pattern = name.contains('*');
            for (item, field) in found {
                if !item.register.readable() {
                    if is_pattern {
                        continue;
                    }
                    return Err(format!(
                        "{} cannot be read: what is written there is not what stands there",
                        item.register.name
                    ));
                }
                // A pattern is no name: who writes * does not know what it will read.
                if is_pattern && item.register.clears() && !clearing {
                    selection.spared.push(item.register);
                } else {
                    selection.add(item, field);
                }
            }
        }
        Ok(selection)
    }

    fn find(&self, name: &str) -> Result<Vec<(Item<'a>, Option<&'a Field>)>, String> {
        let (register, field) = name.split_once('.').map_or((name, None), |(register, field)| (register, Some(field)));
        let address = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let mut found: Vec<Item<'_>> = Vec::new();
        for item in &self.items {
            // A PHY's place has a point of its own: mii.1.
            let is_place = item.place_text().eq_ignore_ascii_case(name);
            let is_it = match address {
                Some(address) => item.address() == Some(address),
                None if register.contains('*') => is_like(&item.register.name, register),
                None => item.register.is_called(register) || is_place,
            };
            // The first definition of a name wins: the user's own come first.
            if is_it && !found.iter().any(|other| other.register.is_called(&item.register.name)) {
                found.push(*item);
            }
        }
        if found.is_empty() {
            return Err(self.unknown(name));
        }
        let Some(field) = field.filter(|_| address.is_none() && !name.starts_with("mii.") && !name.starts_with("mmd."))
        else {
            return Ok(found.into_iter().map(|item| (item, None)).collect());
        };
        let with_field = |item: &Item<'a>| {
            let of_it = item.register.fields.iter().find(|one| one.name.eq_ignore_ascii_case(field));
            Some((*item, Some(of_it?)))
        };
        let fields: Vec<_> = found.iter().filter_map(with_field).collect();
        if fields.is_empty() {
            let register = found[0].register;
            let names: Vec<&str> = register.fields.iter().map(|one| one.name.as_str()).collect();
            let has = if names.is_empty() { "no fields".to_owned() } else { names.join(", ") };
            return Err(format!("{} has no field {field}; it has {has}", register.name));
        }
        Ok(fields)
    }

    fn unknown(&self, name: &str) -> String {
        if name.starts_with("0x") {
            return format!(
                "no definition names a register at {name}, and only those are read; write one (docs/registers.md) and \
                 give it with --definitions"
            );
        }
        let register = name.split('.').next().unwrap_or_default().to_ascii_uppercase();
        // Who leaves a vendor's prefix away means the register all the same.
        let suffix = format!("_{register}");
        let names = || self.items.iter().map(|item| item.register.name.as_str());
        let near = names()
            .find(|one| one.to_ascii_uppercase().ends_with(&suffix))
            .or_else(|| nearest(&register, names()).or_else(|| nearest(&register.to_ascii_lowercase(), names())));
        match near {
            Some(near) => format!("no register is called {name}; did you mean {near}?"),
            None if !self.knows_mac() => format!(
                "no register is called {name}: there are no definitions for this device; write some (docs/registers.md) \
                 and give them with --definitions"
            ),
            None => format!("no register is called {name}; without a name, all that can be read are shown"),
        }
    }
}

impl<'a> Selection<'a> {
    fn add(&mut self, item: Item<'a>, field: Option<&'a Field>) {
        let known = self.registers.iter_mut().find(|one| one.item.register.name == item.register.name);
        match (known, field) {
            (Some(known), Some(field)) if !known.fields.is_empty() => {
                if !known.fields.iter().any(|one| one.name == field.name) {
                    known.fields.push(field);
                }
            }
            (Some(known), None) => known.fields.clear(),
            (Some(_), Some(_)) => {}
            (None, field) => self.registers.push(Selected { item, fields: field.into_iter().collect() }),
        }
    }

    /// The words that these registers take. Memory is asked for where `memory` allows it and no dump has the register;
    /// `dump` is whether a dump is to be had.
    pub fn wanted(&self, dump: bool, memory: bool, phy_address: Option<u8>) -> RegisterRequest {
        let mut wanted = RegisterRequest { phy_address, ..RegisterRequest::default() };
        for Selected { item, .. } in &self.registers {
            // What latches is read twice: what has been, then what is.
            let times = if item.register.latches() { 2 } else { 1 };
            if let Some(place) = item.phy_place() {
                wanted.phy.extend(std::iter::repeat_n(place, times));
            } else if dump && item.register.dump.is_some() {
                wanted.dump = true;
            } else if let Some(address) = item.address().filter(|_| memory) {
                wanted.memory.extend(std::iter::repeat_n(address, times));
            }
        }
        wanted
    }
}

impl Item<'_> {
    /// The physical address, where it is known.
    pub fn address(&self) -> Option<u64> {
        match self.register.place {
            RegisterPlace::Offset(offset) => self.base?.checked_add(offset),
            RegisterPlace::Address(address) => Some(address),
            RegisterPlace::Mii(_) | RegisterPlace::Mmd(..) => None,
        }
    }

    /// Where it is, for people.
    pub fn place_text(&self) -> String {
        match (self.register.place, self.address()) {
            (_, Some(address)) => format!("{address:#010x}"),
            (RegisterPlace::Offset(offset), None) => format!("+{offset:#05x}"),
            (RegisterPlace::Mii(register), _) => format!("mii.{register}"),
            (RegisterPlace::Mmd(device, register), _) => format!("mmd.{device}.{register}"),
            (RegisterPlace::Address(address), None) => format!("{address:#010x}"),
        }
    }

    /// The PHY's register.
    pub fn phy_place(&self) -> Option<PhyPlace> {
        match self.register.place {
            RegisterPlace::Mii(register) => Some(PhyPlace { device: None, register }),
            RegisterPlace::Mmd(device, register) => Some(PhyPlace { device: Some(device), register }),
            RegisterPlace::Offset(_) | RegisterPlace::Address(_) => None,
        }
    }
}

impl Register {
    /// Whether a field keeps an event until it is read.
    pub fn latches(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.access.mode, Mode::LatchLow | Mode::LatchHigh))
    }
}

/// Whether a definition is of this device: `Some(true)`; of no device in particular: `Some(false)`; of another: `None`.
fn fits_to(definition: &DeviceDefinition, device: &Device, phy_id: Option<u32>) -> Option<bool> {
    if definition.registers.iter().all(|register| register.place.is_phy()) {
        return match definition.phy_id {
            None => Some(true),
            Some((value, mask)) => (phy_id? & mask == value & mask).then_some(true),
        };
    }
    if definition.drivers.is_empty() && definition.compatible.is_empty() {
        return Some(false);
    }
    let driver_fits =
        definition.drivers.is_empty() || device.driver.as_ref().is_some_and(|one| definition.drivers.contains(one));
    let compatible_fits = match (definition.compatible.is_empty(), device.compatible.is_empty()) {
        (true, _) => true,
        (false, false) => device.compatible.iter().any(|one| definition.compatible.contains(one)),
        // Kernels without a device tree: the place tells what the device is.
        (false, true) => device.base.is_some_and(|base| definition.bases.iter().any(|(known, _)| *known == base)),
    };
    (driver_fits && compatible_fits).then_some(true)
}

/// `ENET_IEEE_*`: whether a name is like a pattern, whatever the case of its letters.
fn is_like(name: &str, pattern: &str) -> bool {
    fits_stars(&pattern.to_ascii_lowercase(), &name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as registers;

    fn fec() -> Device {
        Device {
            driver: Some("fec".to_owned()),
            name: Some("2188000.ethernet".to_owned()),
            compatible: vec!["fsl,imx6q-fec".to_owned()],
            base: Some(0x0218_8000),
        }
    }

    fn definitions() -> Definitions {
        registers::definitions(&[]).unwrap()
    }

    #[track_caller]
    fn check(names: &str, found: &[&str]) {
        let definitions = definitions();
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        let chosen = Chosen::of(&definitions, &fec(), None);
        let selection = chosen.select(&names, false).unwrap();
        let got: Vec<&str> = selection.registers.iter().map(|one| one.item.register.name.as_str()).collect();
        assert_eq!(got, found);
    }

    #[test]
    fn registers_are_found_by_name_place_and_pattern() {
        check("ENET_RCR", &["ENET_RCR"]);
        check("enet_rcr.fce ENET_RCR.MAX_FL", &["ENET_RCR"]);
        check("0x02188084", &["ENET_RCR"]);
        check("mii.1 bmcr", &["BMSR", "BMCR"]);
        check("ENET_IEEE_T_FDXFC ENET_IEEE_R_MACERR", &["ENET_IEEE_T_FDXFC", "ENET_IEEE_R_MACERR"]);
        check("ENET_*_FDXFC", &["ENET_IEEE_T_FDXFC", "ENET_IEEE_R_FDXFC"]);
        check("B*", &["BMCR"]);
    }

    #[track_caller]
    fn refused(name: &str, complaint: &str) {
        let definitions = definitions();
        let error = Chosen::of(&definitions, &fec(), None).select(&[name.to_owned()], true).unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }

    #[test]
    fn what_is_not_defined_is_not_read() {
        refused("RCR", "did you mean ENET_RCR?");
        refused("ENET_RCX", "did you mean ENET_RC");
        refused("ENET_RCR.FCX", "it has GRS, NLC, MAX_FL");
        refused("0x02188085", "no definition names a register at 0x02188085");
        refused("0x10000000", "only those are read");
        refused("MMDDR", "cannot be read");
    }

    #[test]
    fn reading_clears_nothing_in_passing() {
        let definitions = definitions();
        let chosen = Chosen::of(&definitions, &fec(), None);
        let all = chosen.select(&[], false).unwrap();
        assert!(all.registers.iter().all(|one| !one.item.register.clears()));
        let spared: Vec<&str> = all.spared.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(spared, ["BMSR", "ANER", "STAT1000", "PSESR"]);
        assert!(chosen.select(&["BM*".to_owned()], false).unwrap().spared[0].is_called("BMSR"));
        assert_eq!(chosen.select(&["BMSR".to_owned()], false).unwrap().registers.len(), 1);
        assert!(chosen.select(&[], true).unwrap().spared.is_empty());
    }

    #[test]
    fn words_come_from_the_dump_before_memory() {
        let definitions = definitions();
        let chosen = Chosen::of(&definitions, &fec(), None);
        let names = ["ENET_RCR", "ENET_FTRL", "BMSR"].map(str::to_owned);
        let selection = chosen.select(&names, false).unwrap();
        let link = PhyPlace { device: None, register: 1 };
        let wanted = selection.wanted(true, false, None);
        assert_eq!((wanted.dump, &wanted.memory[..], &wanted.phy[..]), (true, &[][..], &[link, link][..]));
        assert_eq!(selection.wanted(true, true, None).memory, [0x0218_81b0]);
        let wanted = selection.wanted(false, true, None);
        assert_eq!((wanted.dump, &wanted.memory[..]), (false, &[0x0218_8084, 0x0218_81b0][..]));
    }

    #[test]
    fn definitions_fit_by_driver_compatible_and_place() {
        let definitions = definitions();
        let knows = |device: &Device| Chosen::of(&definitions, device, None).knows_mac();
        assert!(knows(&fec()));
        // Linux 3.0 has no device tree for it: the address tells.
        assert!(knows(&Device { compatible: Vec::new(), ..fec() }));
        assert!(!knows(&Device { compatible: Vec::new(), base: Some(0x4000), ..fec() }));
        assert!(!knows(&Device { compatible: vec!["fsl,imx25-fec".to_owned()], ..fec() }));
        assert!(!knows(&Device { driver: Some("veth".to_owned()), ..Device::default() }));
        assert!(knows(&Device { driver: Some("e1000".to_owned()), ..Device::default() }));
        let macb = |compatible: &str| Device {
            driver: Some("macb".to_owned()),
            compatible: vec![compatible.to_owned(), "cdns,gem".to_owned()],
            ..Device::default()
        };
        let gem = macb("xlnx,zynqmp-gem");
        let chosen = Chosen::of(&definitions, &gem, None);
        assert!(chosen.select(&["NCFGR".to_owned()], false).unwrap().registers[0].item.register.is_called("net_cfg"));
    }

    #[test]
    fn a_definition_of_no_device_is_read_by_name_only() {
        let mut definitions = definitions();
        let own = "device clocks\nmanual RM, 18\nCCM_CCGR1 0x020c406c rw Gates\nENET_RCR 0x02188084 rw Mine\n";
        definitions.devices.splice(0..0, super::super::parse::parse("own", own).unwrap());
        let chosen = Chosen::of(&definitions, &fec(), None);
        let all = chosen.select(&[], true).unwrap();
        assert!(!all.registers.iter().any(|one| one.item.device.name == "clocks"));
        let [gates] = &chosen.select(&["CCM_CCGR1".to_owned()], false).unwrap().registers[..] else { panic!() };
        assert_eq!(gates.item.place_text(), "0x020c406c");
        let [rcr] = &chosen.select(&["ENET_RCR".to_owned()], false).unwrap().registers[..] else { panic!() };
        assert_eq!(rcr.item.device.name, "enet", "the device's own before a stranger's");
    }

    #[test]
    fn patterns() {
        for (name, pattern, is) in [
            ("ENET_RCR", "*", true),
            ("ENET_RCR", "enet_*", true),
            ("ENET_RCR", "*RCR", true),
            ("ENET_RCR", "E*_*R", true),
            ("ENET_RCR", "*TCR", false),
            ("ENET_RCR", "RCR*", false),
            ("AA", "AA*A", false),
        ] {
            assert_eq!(is_like(name, pattern), is, "{name} {pattern}");
        }
    }
}
