//! Registers around a trial: which words both machines read, and what a record says of them.
//! Knows no traffic; the agents read at both ends of it.

use std::sync::OnceLock;

use linerate_machine::registers::{AroundTrial, PhyPlace, Readings, RegisterRequest};

use crate::changes::RegisterChanges;

use super::chosen::{Chosen, Selected};
use super::decode::{knows_layout, value};
use super::definition::{Access, Definitions, Field, Mode, Register, RegisterPlace};
use super::difference::difference;

/// What comes with linerate; parsed once.
fn shipped() -> &'static Definitions {
    static SHIPPED: OnceLock<Definitions> = OnceLock::new();
    SHIPPED.get_or_init(|| Definitions { devices: super::shipped() })
}

/// What to read of any machine: its driver's dump, and the registers that every PHY has. Memory is for who asks for it.
pub fn wanted() -> RegisterRequest {
    let mut wanted = RegisterRequest { dump: true, ..RegisterRequest::default() };
    for register in shipped().devices.iter().flat_map(|device| &device.registers).filter(|one| one.readable()) {
        if let RegisterPlace::Mii(number) = register.place {
            let times = if register.latches() { 2 } else { 1 };
            wanted.phy.extend(std::iter::repeat_n(PhyPlace { device: None, register: number }, times));
        }
    }
    wanted
}

/// What the trial changed.
pub fn changes(around: AroundTrial) -> RegisterChanges {
    let AroundTrial { wanted, before, after } = around;
    let (before, after) = (before.fitted(&wanted), after.fitted(&wanted));
    let chosen = Chosen::of(shipped(), &after.device, phy_id(&wanted, &after));
    let mut changes = RegisterChanges { notes: notes(&chosen, &before, &after), ..RegisterChanges::default() };
    let selection = chosen.select(&[], true).unwrap_or_default();
    for Selected { item, .. } in &selection.registers {
        let both = (value(item, &wanted, &before), value(item, &wanted, &after));
        let (Some(before), Some(after)) = both else { continue };
        changes.compared += 1;
        if item.register.clears() {
            changes.cleared.push(item.register.name.clone());
        }
        changes.stood.extend(stood(item.register, before.now, after.now));
        changes.changed.extend(difference(item, before, after));
    }
    changes
}

/// What is set, or is a state with a name, and is the same before and after.
fn stood(register: &Register, before: u32, after: u32) -> Vec<(String, String)> {
    let is_set = |access: Access| !access.counter && access.mode == Mode::ReadWrite;
    if register.fields.is_empty() {
        let is_it = is_set(register.access) && before == after;
        return if is_it { vec![(register.name.clone(), format!("{after:#x}"))] } else { Vec::new() };
    }
    let is_state = |field: &Field| field.access.mode == Mode::ReadOnly && !field.values.is_empty();
    let fields = register.fields.iter().filter(|field| is_set(field.access) || is_state(field));
    let value = |field: &Field| {
        let number = field.of(after);
        field.meaning(number).map_or_else(|| number.to_string(), |meaning| format!("{number} ({meaning})"))
    };
    fields
        .filter(|field| field.of(before) == field.of(after))
        .map(|field| (format!("{}.{}", register.name, field.name), value(field)))
        .collect()
}

/// Why registers are missing, once each.
fn notes(chosen: &Chosen<'_>, before: &Readings, after: &Readings) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for sentence in before.missing.iter().chain(&after.missing) {
        if !notes.contains(sentence) {
            notes.push(sentence.clone());
        }
    }
    if let Some(dump) = &after.dump
        && !chosen.knows_dump(|layout| knows_layout(layout, dump))
    {
        let driver = after.device.driver.as_deref().unwrap_or("an unknown one");
        notes.push(format!(
            "there are no definitions for the register dump of this device (driver {driver}, version {:#x})",
            dump.version
        ));
    }
    notes
}

/// Registers 2 and 3 of the PHY, where both were read.
pub fn phy_id(wanted: &RegisterRequest, readings: &Readings) -> Option<u32> {
    let of = |number| {
        let place = PhyPlace { device: None, register: number };
        let at = wanted.phy.iter().position(|one| *one == place)?;
        readings.phy.get(at).copied().flatten().map(u32::from)
    };
    Some(of(2)? << 16 | of(3)?)
}

#[cfg(test)]
mod tests {
    use linerate_machine::registers::{Device, Dump};

    use crate::changes::ChangeKind;

    use super::*;

    fn readings(wanted: &RegisterRequest, rcr: u32, phy: u16) -> Readings {
        let mut words = vec![0; 0x1000];
        words[0x84 / 4] = rcr;
        words[0x270 / 4] = 40;
        Readings {
            device: Device {
                driver: Some("fec".to_owned()),
                compatible: vec!["fsl,imx6q-fec".to_owned()],
                base: Some(0x0218_8000),
                ..Device::default()
            },
            dump: Some(Dump { version: 2, words }),
            phy_address: Some(6),
            phy: vec![Some(phy); wanted.phy.len()],
            ..Readings::default()
        }
    }

    #[test]
    fn a_record_says_what_changed_and_what_was_cleared() {
        let wanted = wanted();
        assert!(wanted.dump && wanted.memory.is_empty() && wanted.validate().is_ok());
        let before = readings(&wanted, 0x05ee_0264, 4);
        let mut after = readings(&wanted, 0x05ee_0244, 4);
        after.dump.as_mut().unwrap().words[0x270 / 4] = 52;
        let changes = changes(AroundTrial { wanted, before, after });
        let names: Vec<&str> = changes.changed.iter().map(|one| one.name.as_str()).collect();
        // The PHY's counter shows its value: the first reading cleared it.
        assert_eq!(names, ["ENET_RCR", "ENET_IEEE_T_FDXFC", "STAT1000"]);
        // What is set and stood: all of the register but the field that changed.
        let of_rcr: Vec<_> = changes.stood.iter().filter(|(name, _)| name.starts_with("ENET_RCR.")).collect();
        assert!(of_rcr.iter().any(|(name, is)| *name == "ENET_RCR.MAX_FL" && is.starts_with("1518")), "{of_rcr:?}");
        let fce = changes.changed[0].fields[0].name.clone();
        assert!(!changes.stood.contains_key(&format!("ENET_RCR.{fce}")));
        assert!(!changes.stood.keys().any(|name| name.starts_with("ENET_IEEE_T_FDXFC")), "a counter is no setting");
        assert_eq!(
            (changes.changed[0].before.as_str(), changes.changed[0].after.as_str()),
            ("0x05ee0264", "0x05ee0244")
        );
        assert_eq!(changes.changed[0].fields[0].name, "FCE");
        assert_eq!(changes.changed[1].what, Some(ChangeKind::Counted { count: 12, at_least: false, cleared: false }));
        assert_eq!(changes.cleared, ["BMSR", "ANER", "STAT1000", "PSESR"]);
        assert_eq!(changes.notes, Vec::<String>::new());
        assert!(changes.compared > 60, "{}", changes.compared);
    }

    #[test]
    fn a_hostile_answer_says_nothing_of_any_register() {
        let wanted = wanted();
        let mut after = readings(&wanted, 1, 4);
        after.phy.truncate(3);
        after.dump = Some(Dump { version: 7, words: vec![1; 3] });
        let before = readings(&wanted, 0, 4);
        let changes = changes(AroundTrial { wanted, before, after });
        assert_eq!((changes.compared, changes.changed.len()), (0, 0));
        let [short, layout] = &changes.notes[..] else { panic!("{:?}", changes.notes) };
        assert!(short.contains("answered 3 of"), "{short}");
        assert!(layout.contains("driver fec, version 0x7"), "{layout}");
    }

    #[test]
    fn a_veth_has_no_registers_and_the_record_says_so() {
        let sentence = "veth0 has no register dump".to_owned();
        let nothing = Readings { missing: vec![sentence.clone()], ..Readings::default() };
        let wanted = RegisterRequest::default();
        let changes = changes(AroundTrial { wanted, before: nothing.clone(), after: nothing });
        assert_eq!((changes.compared, changes.notes), (0, vec![sentence]));
    }
}
