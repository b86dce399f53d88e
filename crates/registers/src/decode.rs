//! Words to values: which word is a register's, and what its fields mean.
//! Knows no machine; absent words stay absent.

use linerate_machine::registers::{Dump, Readings, RegisterRequest};
use serde::Serialize;

use super::chosen::{Item, Selected};
use super::definition::{DumpLayout, Field, Mode};

/// What was read of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// By the first reading: events that were kept until then are in it.
    pub first: u32,
    /// By the last reading: as things are now.
    pub now: u32,
}

/// A register, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decoded {
    /// The vendor's name.
    pub name: String,
    /// Where it is, as in a record.
    pub address: String,
    /// Bits.
    pub width: u32,
    /// Its word.
    pub value: u32,
    /// What the reading before showed, where that cleared something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latched: Option<u32>,
    /// Whether this reading has cleared it.
    pub cleared: bool,
    /// What it is for.
    pub about: String,
    /// Where the manual has it.
    pub manual: String,
    /// Its fields, the highest bits first.
    pub fields: Vec<DecodedField>,
}

/// A field of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecodedField {
    /// The vendor's name.
    pub name: String,
    /// Its bits, such as `29-16`.
    pub bits: String,
    /// How it is read and written, as definitions write it.
    pub access: &'static str,
    /// Its value.
    pub value: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What this value means.
    pub meaning: Option<String>,
    /// It kept an event that has passed.
    pub latched: bool,
    /// What it is for.
    pub about: String,
}

/// A register's value among what was read; `None`: it was not read.
pub fn value(item: &Item<'_>, wanted: &RegisterRequest, readings: &Readings) -> Option<Value> {
    if let Some(place) = item.phy_place() {
        let read = |(one, _): &(_, _)| *one == place;
        return both(wanted.phy.iter().copied().zip(&readings.phy).filter(read).map(|(_, word)| word.map(u32::from)));
    }
    let dumped = readings.dump.as_ref().and_then(|dump| in_dump(item, dump));
    dumped.map(|word| Value { first: word, now: word }).or_else(|| {
        let address = item.address()?;
        let read = |(one, _): &(_, _)| *one == address;
        both(wanted.memory.iter().copied().zip(&readings.memory).filter(read).map(|(_, word)| *word))
    })
}

/// Whether a dump is laid out as the definition says.
pub fn knows_layout(layout: Option<DumpLayout>, dump: &Dump) -> bool {
    layout.is_some_and(|DumpLayout { version: (version, mask) }| dump.version & mask == version & mask)
}

fn in_dump(item: &Item<'_>, dump: &Dump) -> Option<u32> {
    if !knows_layout(item.device.dump, dump) {
        return None;
    }
    dump.words.get(item.register.dump?).copied()
}

fn both(mut words: impl Iterator<Item = Option<u32>>) -> Option<Value> {
    let first = words.next()??;
    // The second reading may have failed where the first did not.
    let now = words.next().flatten().unwrap_or(first);
    Some(Value { first, now })
}

/// The register with its fields, or those that were asked for.
pub fn decode(selected: &Selected<'_>, value: Value) -> Decoded {
    let Selected { item, fields } = selected;
    let register = item.register;
    let wanted = |field: &&Field| fields.is_empty() || fields.iter().any(|one| one.name == field.name);
    let of_field = |field: &Field| {
        // What counts or tells events until it is read, told them to the first reading.
        let shown = if field.access.mode == Mode::ReadClears { value.first } else { value.now };
        DecodedField {
            name: field.name.clone(),
            bits: field.bits(),
            access: field.access.mode.name(),
            value: field.of(shown),
            meaning: field.meaning(field.of(shown)).map(str::to_owned),
            latched: kept_event(field, value),
            about: field.about.clone(),
        }
    };
    Decoded {
        name: register.name.clone(),
        address: item.place_text(),
        width: register.place.width(),
        value: value.now,
        latched: (value.first != value.now).then_some(value.first),
        cleared: register.clears(),
        about: register.about.clone(),
        manual: register.manual.clone(),
        fields: register.fields.iter().filter(wanted).map(of_field).collect(),
    }
}

/// Whether the field showed an event to the first reading that the last one shows no more.
pub(super) fn kept_event(field: &Field, value: Value) -> bool {
    let (first, now) = (field.of(value.first), field.of(value.now));
    match field.access.mode {
        Mode::LatchLow => first == 0 && now != 0,
        Mode::LatchHigh => first != 0 && now == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::registers::Device;

    use super::*;
    use crate as registers;
    use crate::chosen::Chosen;

    fn read(names: &[&str], dump: Option<Dump>, phy: Vec<Option<u16>>) -> Vec<Option<Decoded>> {
        let definitions = registers::definitions(&[]).unwrap();
        let device = Device {
            driver: Some("fec".to_owned()),
            compatible: vec!["fsl,imx6q-fec".to_owned()],
            base: Some(0x0218_8000),
            ..Device::default()
        };
        let names: Vec<String> = names.iter().map(|one| (*one).to_owned()).collect();
        let chosen = Chosen::of(&definitions, &device, None);
        let selection = chosen.select(&names, false).unwrap();
        let wanted = selection.wanted(dump.is_some(), false, None);
        let readings = Readings { dump, phy, ..Readings::default() };
        let decoded = |one: &Selected<'_>| Some(decode(one, value(&one.item, &wanted, &readings)?));
        selection.registers.iter().map(decoded).collect()
    }

    fn dump(version: u32) -> Dump {
        let mut words = vec![0; 0x1000];
        words[0x84 / 4] = 0x05ee_0264;
        Dump { version, words }
    }

    #[test]
    fn report_1s_own_check() {
        let [Some(rcr)] = &read(&["ENET_RCR"], Some(dump(2)), Vec::new())[..] else { panic!() };
        assert_eq!((rcr.address.as_str(), rcr.value), ("0x02188084", 0x05ee_0264));
        let of = |name: &str| rcr.fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!((of("FCE").value, of("FCE").meaning.as_deref()), (1, Some("pause frames are obeyed")));
        assert_eq!((of("MAX_FL").value, of("PROM").value, of("RMII_10T").value), (1518, 0, 1));
    }

    #[test]
    fn a_named_field_comes_alone() {
        let [Some(rcr)] = &read(&["ENET_RCR.FCE"], Some(dump(2)), Vec::new())[..] else { panic!() };
        assert_eq!(rcr.fields.len(), 1);
    }

    #[test]
    fn another_layout_says_nothing() {
        assert_eq!(read(&["ENET_RCR"], Some(dump(1)), Vec::new()), [None]);
        let short = Dump { version: 2, words: vec![0; 4] };
        assert_eq!(read(&["ENET_RCR"], Some(short), Vec::new()), [None]);
        // What the dump leaves out is zero in it, and absent here.
        assert_eq!(read(&["ENET_FTRL"], Some(dump(2)), Vec::new()), [None]);
    }

    #[test]
    fn a_link_that_was_down_is_told_although_it_is_up() {
        let [Some(status)] = &read(&["BMSR"], None, vec![Some(0x7969), Some(0x796d)])[..] else { panic!() };
        assert_eq!((status.value, status.latched, status.cleared), (0x796d, Some(0x7969), true));
        let link = status.fields.iter().find(|field| field.name == "LSTATUS").unwrap();
        assert_eq!((link.value, link.latched), (1, true));
        let [Some(status)] = &read(&["BMSR"], None, vec![Some(0x796d), None])[..] else { panic!() };
        assert_eq!((status.value, status.latched), (0x796d, None));
        assert_eq!(read(&["BMSR"], None, vec![None, Some(1)]), [None]);
        assert_eq!(read(&["BMSR"], None, Vec::new()), [None]);
    }

    #[test]
    fn a_count_that_reading_clears_is_the_first_readings() {
        let [Some(status)] = &read(&["STAT1000"], None, vec![Some(0x3c07), Some(0x3c00)])[..] else { panic!() };
        let errors = status.fields.iter().find(|field| field.name == "IDLE_ERRORS").unwrap();
        assert_eq!((errors.value, errors.access), (7, "rc"));
    }
}
