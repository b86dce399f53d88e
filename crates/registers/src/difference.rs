//! What a register did between two readings.
//! Knows nothing of when they were; a counter's, a latch's and a setting's difference are three different things.

use crate::changes::{ChangeKind, FieldChange, RegisterChange};

use super::chosen::Item;
use super::decode::{Value, kept_event};
use super::definition::{Access, Field, Mode};

/// `None`: it stands as it did, and has counted nothing.
///
/// A register that reading clears was cleared by the reading before, so what the reading after shows *is* what happened
/// in between.
pub fn difference(item: &Item<'_>, before: Value, after: Value) -> Option<RegisterChange> {
    let register = item.register;
    let width = register.place.width();
    let mut change = RegisterChange {
        name: register.name.clone(),
        address: item.place_text(),
        about: register.about.clone(),
        before: hex(before.now, width),
        after: hex(if register.access.mode == Mode::ReadClears { after.first } else { after.now }, width),
        what: None,
        fields: Vec::new(),
    };
    if register.fields.is_empty() {
        let whole = Whole { access: register.access, mask: u32::MAX >> (32 - width) };
        change.what = Some(whole.did([before.first, before.now], [after.first, after.now])?);
        return Some(change);
    }
    change.fields = register.fields.iter().filter_map(|field| field_change(field, before, after)).collect();
    // Bits that the manual reserves may change too, and are shown by the register's value alone.
    let named = register.fields.iter().fold(0, |mask, field| mask | field.mask() << field.low);
    let reserved_differ = (before.now ^ after.now) & !named != 0 && !register.access.mode.clears();
    change.what = (reserved_differ && change.fields.is_empty()).then_some(ChangeKind::Changed);
    (change.what.is_some() || !change.fields.is_empty()).then_some(change)
}

fn field_change(field: &Field, before: Value, after: Value) -> Option<FieldChange> {
    let of = |value: Value| [field.of(value.first), field.of(value.now)];
    let whole = Whole { access: field.access, mask: field.mask() };
    let mut what = whole.did(of(before), of(after));
    let [after_first, after_now] = of(after);
    let [_, before_now] = of(before);
    // It was down, and is up as before.
    if what.is_none() && kept_event(field, after) {
        what = Some(ChangeKind::Latched);
    }
    let shown = if field.access.mode == Mode::ReadClears { after_first } else { after_now };
    Some(FieldChange {
        name: field.name.clone(),
        bits: field.bits(),
        before: before_now,
        after: shown,
        what: what?,
        meaning: field.meaning(shown).map(str::to_owned),
    })
}

/// Bits that belong together: a field, or a register without fields.
struct Whole {
    access: Access,
    mask: u32,
}

impl Whole {
    /// Each end is its first and its last reading.
    fn did(&self, [_, before]: [u32; 2], [after_first, after]: [u32; 2]) -> Option<ChangeKind> {
        let Access { mode, counter, sticks } = self.access;
        match (mode, counter) {
            (Mode::ReadClears, true) => (after_first != 0).then_some(ChangeKind::Counted {
                count: after_first.into(),
                at_least: sticks && after_first == self.mask,
                cleared: true,
            }),
            (Mode::ReadClears, false) => (after_first != 0).then_some(ChangeKind::Latched),
            (_, true) if after == before => {
                // At its top it may have missed everything.
                let stuck = sticks && after == self.mask;
                stuck.then_some(ChangeKind::Counted { count: 0, at_least: true, cleared: false })
            }
            (_, true) if after > before => Some(ChangeKind::Counted {
                count: u64::from(after - before),
                // One that went more than half of the way round may have gone round before.
                at_least: if sticks { after == self.mask } else { after - before > self.mask / 2 },
                cleared: false,
            }),
            (_, true) if sticks => Some(ChangeKind::WentBack),
            (_, true) => {
                let count = u64::from(after) + u64::from(self.mask) + 1 - u64::from(before);
                // Half of its range in one trial is less likely than somebody who cleared it.
                let wrapped = count <= u64::from(self.mask / 2);
                Some(if wrapped {
                    ChangeKind::Counted { count, at_least: false, cleared: false }
                } else {
                    ChangeKind::WentBack
                })
            }
            (_, false) => (after != before).then_some(ChangeKind::Changed),
        }
    }
}

fn hex(value: u32, width: u32) -> String {
    format!("{value:#0digits$x}", digits = 2 + width as usize / 4)
}

#[cfg(test)]
mod tests {
    use linerate_machine::registers::Device;

    use super::*;
    use crate::chosen::Chosen;
    use crate::definition::Definitions;

    const TEXT: &str = "device mac\ndriver mac\nbase 0x1000 chip\nmanual M\n\
        RCR +0x0 rw Control\n    FCE 5 .\n        1 = on\nPLAIN +0x4 rw .\nOCTETS +0x8 ro,counter .\nLOST +0xc rc,counter,sticks .\n\
        SHORT +0x10 ro .\n    N 7:0 ro,counter .\nPAUSED +0x20 ro .\n    N 15:0 ro,counter .\nOLD +0x14 ro,counter,sticks .\nEVENTS +0x18 rc .\n    RXO 6 .\n    LSC 2 .\n\
        EIR +0x1c w1c .\n    UN 19 .\nLINK mii.1 ro .\n    JABBER 1 lh .\n    LSTATUS 2 ll .\nIDLE mii.10 ro .\n    FAULT 15 lh .\n    ERRORS 7:0 rc,counter,sticks .\n";

    /// What the register did, as `FIELD:what`.
    fn did(name: &str, before: [u32; 2], after: [u32; 2]) -> String {
        let definitions = Definitions { devices: super::super::parse::parse("mac", TEXT).unwrap() };
        let device = Device { driver: Some("mac".to_owned()), ..Device::default() };
        let chosen = Chosen::of(&definitions, &device, None);
        let selection = chosen.select(&[name.to_owned()], true).unwrap();
        let value = |[first, now]: [u32; 2]| Value { first, now };
        let Some(change) = difference(&selection.registers[0].item, value(before), value(after)) else {
            return String::new();
        };
        let text = |what: &ChangeKind| match what {
            ChangeKind::Changed => "changed".to_owned(),
            ChangeKind::Counted { count, at_least, cleared } => {
                format!("{}{count}{}", if *at_least { ">=" } else { "" }, if *cleared { " cleared" } else { "" })
            }
            ChangeKind::WentBack => "went back".to_owned(),
            ChangeKind::Latched => "latched".to_owned(),
        };
        let fields = change.fields.iter().map(|one| format!("{}:{}", one.name, text(&one.what)));
        change.what.iter().map(text).chain(fields).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(name: &str, before: u32, after: u32, what: &str) {
        assert_eq!(did(name, [before; 2], [after; 2]), what);
    }

    #[test]
    fn settings_change_and_reserved_bits_are_not_swallowed() {
        check("RCR", 0x05ee_0244, 0x05ee_0264, "FCE:changed");
        check("RCR", 0x05ee_0244, 0x05ee_0244, "");
        check("RCR", 0x05ee_0244, 0x05ee_0245, "changed");
        check("PLAIN", 1, 2, "changed");
        check("EIR", 0, 1 << 19, "UN:changed");
    }

    #[test]
    fn counters_count_and_begin_again() {
        check("OCTETS", 5, 5, "");
        check("OCTETS", 5, 1000, "995");
        check("OCTETS", u32::MAX, 4, "5");
        check("OCTETS", 5000, 4, "went back");
        check("SHORT", 250, 3, "N:9");
        check("OLD", 10, 4, "went back");
        check("OLD", 10, u32::MAX, ">=4294967285");
        check("OLD", u32::MAX, u32::MAX, ">=0");
    }

    /// The ring's bug B14 (docs/rings.md): a counter of sixteen bits goes round within a trial. It is counted on where it went
    /// less than half of the way, and never told as less than it may be where it went further.
    #[test]
    fn b14_a_counter_that_wraps_within_a_trial() {
        let check = |before: u32, counted: u64| {
            let after = (u64::from(before) + counted) as u32 & 0xffff;
            let said = did("PAUSED", [before; 2], [after; 2]);
            let expected = match counted {
                0 => String::new(),
                1..=0x7fff => format!("N:{counted}"),
                _ if after > before => format!("N:>={}", after - before),
                // Somebody may have cleared it: that it went back is all that is known.
                _ if after < before && u64::from(after) + 0x1_0000 - u64::from(before) > 0x7fff => {
                    "N:went back".to_owned()
                }
                // More than once round: nobody can see that.
                _ => return,
            };
            assert_eq!(said, expected, "{counted} from {before}");
        };
        let mut random = 14_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            check((random >> 48) as u32, (random >> 20) & 0xffff);
        }
        for counted in [0, 1, 0x7fff, 0x8000, 0xffff] {
            check(0, counted);
            check(0xffff, counted);
        }
    }

    #[test]
    fn what_reading_clears_is_its_own_difference() {
        // Whatever stood there before the first reading, that reading has cleared it.
        check("LOST", 900, 7, "7 cleared");
        check("LOST", 900, 0, "");
        check("LOST", 900, u32::MAX, ">=4294967295 cleared");
        check("EVENTS", 0x44, 0x40, "RXO:latched");
    }

    #[test]
    fn latches_are_read_twice() {
        const UP: u32 = 4;
        assert_eq!(did("LINK", [UP, UP], [UP, UP]), "");
        assert_eq!(did("LINK", [0, UP], [UP, UP]), "", "it was down before the trial, not in it");
        assert_eq!(did("LINK", [UP, UP], [0, UP]), "LSTATUS:latched", "down and up again");
        assert_eq!(did("LINK", [UP, UP], [0, 0]), "LSTATUS:changed");
        assert_eq!(did("LINK", [0, 0], [0, UP]), "LSTATUS:changed");
        assert_eq!(did("LINK", [0, 0], [0, 0]), "", "down all the time");
        assert_eq!(did("LINK", [UP, UP], [UP | 2, UP]), "JABBER:latched");
        assert_eq!(did("IDLE", [0x80ff, 0], [0x8003, 0]), "FAULT:latched ERRORS:3 cleared");
        assert_eq!(did("IDLE", [0, 0], [0xff, 1]), "ERRORS:>=255 cleared");
    }
}
