//! Registers for people: as they are, and what changed in them.
//! Knows no machine and no definition; what a value means was decoded before.

use std::fmt::Write as _;

use linerate_machine::registers::Device;
use linerate_registers::changes::{ChangeKind, FieldChange, RegisterChange, RegisterChanges};
use linerate_registers::decode::{Decoded, DecodedField};
use linerate_registers::definition::Register;
use linerate_results::middle::Middle;
use linerate_results::record::Record;

use super::{json, sentence};

/// Registers as they are. Those that were named show every field, one a line; of all of them, the fields that are set.
pub(crate) fn registers(
    decoded: &[Decoded],
    spared: &[&Register],
    device: &Device,
    is_named: bool,
    json: bool,
) -> String {
    let spared: Vec<&str> = spared.iter().map(|register| register.name.as_str()).collect();
    if json {
        let value = serde_json::json!({ "device": device, "registers": decoded, "not_read": spared });
        return json::line(value);
    }
    let mut text = String::new();
    for one in decoded {
        if is_named { in_full(one, &mut text) } else { in_brief(one, &mut text) }
    }
    if !spared.is_empty() && !decoded.is_empty() {
        let names = sentence(&spared.join(", ")).into_owned();
        let _ = writeln!(
            text,
            "\nNot read, because reading clears what they have kept: {names}. Name them, or give --clearing."
        );
    }
    text
}

/// As report 1's devregs wrote it: `ENET_RCR:0x02188084 =0x05ee0264`.
fn head(one: &Decoded) -> String {
    format!("{}:{} ={:#0width$x}", one.name, one.address, one.value, width = 2 + one.width as usize / 4)
}

fn in_full(one: &Decoded, text: &mut String) {
    let about = if one.about.is_empty() { String::new() } else { format!("  {}", one.about) };
    let _ = writeln!(text, "{}", sentence(&format!("{}{about}", head(one))));
    let width = |of: fn(&DecodedField) -> usize| one.fields.iter().map(of).max().unwrap_or(0);
    let (names, bits, values) = (width(|f| f.name.len()), width(|f| f.bits.len()), width(|f| field_value(f).len()));
    for field in &one.fields {
        let shown = field_value(field);
        let said = said(field);
        let line = format!("  {:<names$}  {:<bits$}  {shown:<values$}  {said}", field.name, field.bits);
        let _ = writeln!(text, "{}", sentence(line.trim_end()));
    }
}

fn field_value(field: &DecodedField) -> String {
    if field.value < 10 { format!("={}", field.value) } else { format!("={:#x} ({})", field.value, field.value) }
}

fn said(field: &DecodedField) -> String {
    let mut said = match (&field.about[..], &field.meaning) {
        ("", Some(meaning)) => meaning.clone(),
        (about, Some(meaning)) => format!("{about}: {meaning}"),
        (about, None) => about.to_owned(),
    };
    if field.latched {
        said +=
            if field.value == 0 { " (it was 1 since the last reading)" } else { " (it was 0 since the last reading)" };
    }
    said
}

fn in_brief(one: &Decoded, text: &mut String) {
    let set: Vec<String> = one
        .fields
        .iter()
        .filter(|field| field.value != 0 || field.latched)
        .map(|field| match (field.bits.contains('-'), field.latched) {
            (false, false) => field.name.clone(),
            (false, true) => format!("{}={} (latched)", field.name, field.value),
            (true, _) => format!("{}={}", field.name, field.value),
        })
        .collect();
    // A counter has no fields, and its value is what one wants to read.
    let set = if one.fields.is_empty() && one.value != 0 { one.about.clone() } else { set.join(" ") };
    let _ = writeln!(text, "{}", sentence(format!("{}  {set}", head(one)).trim_end()));
}

/// What changed since the last look.
pub(crate) fn watched(changes: &[RegisterChange], seconds: f64, json: bool) -> String {
    if json {
        return json::line(serde_json::json!({ "seconds": seconds, "changed": changes }));
    }
    let mut text = String::new();
    for change in changes {
        for line in lines(change) {
            let _ = writeln!(text, "{seconds:>7.1} s  {line}");
        }
    }
    text
}

/// What a trial changed in the registers of all machines; nothing where none were asked for.
pub(crate) fn changes(record: &Record) -> String {
    of_machines(record).iter().map(|(name, registers)| of_machine(name, registers)).collect::<Vec<_>>().join("\n")
}

/// What changed, with the names of those whose registers they are: the ends, and each interface of the middle.
pub(crate) fn of_machines(record: &Record) -> Vec<(String, &RegisterChanges)> {
    let ends = record.machines().into_iter().map(|(end, machine)| (end.to_string(), &machine.registers));
    let ports = record.middle.iter().flat_map(Middle::named).map(|(name, port)| (name, &port.registers));
    ends.chain(ports).filter_map(|(name, registers)| Some((name, registers.as_ref()?))).collect()
}

fn of_machine(end: &str, changes: &RegisterChanges) -> String {
    let RegisterChanges { compared, changed, cleared, notes, .. } = changes;
    let mut text = vec![match (compared, changed.len()) {
        (0, _) => format!("{end}: no register could be read"),
        (compared, 0) => format!("{end}: {compared} registers compared, none differs"),
        (compared, differ) => format!("{end}: {compared} registers compared, {differ} changed or counted"),
    }];
    text.extend(changed.iter().flat_map(lines).map(|line| format!("  {line}")));
    if !cleared.is_empty() {
        text.push(format!(
            "  The reading before the trial cleared {}: what they show is of the trial.",
            cleared.join(", ")
        ));
    }
    text.extend(notes.iter().map(|note| format!("  {note}")));
    text.iter().map(|line| sentence(line)).collect::<Vec<_>>().join("\n")
}

/// `ENET_RCR:0x02188084 0x05ee0244 → 0x05ee0264`, and a line for each field that changed.
fn lines(change: &RegisterChange) -> Vec<String> {
    let RegisterChange { name, address, about, before, after, what, fields } = change;
    let about = if about.is_empty() { String::new() } else { format!("  {about}") };
    let did = match what {
        Some(ChangeKind::Counted { count, at_least, cleared }) => counted(*count, *at_least, *cleared),
        Some(ChangeKind::WentBack) => format!("{before} → {after}, a counter that somebody cleared"),
        Some(ChangeKind::Latched) => format!("{after} since the reading before cleared it"),
        Some(ChangeKind::Changed) | None => format!("{before} → {after}"),
    };
    let mut lines = vec![format!("{name}:{address} {did}{about}")];
    lines.extend(fields.iter().map(|field| format!("  {}", field_line(field))));
    lines.iter().map(|line| sentence(line).into_owned()).collect()
}

fn field_line(field: &FieldChange) -> String {
    let FieldChange { name, bits, before, after, what, meaning } = field;
    let meaning = meaning.as_ref().map_or(String::new(), |meaning| format!("  {meaning}"));
    match what {
        ChangeKind::Changed => format!("{name} {bits}: {before} → {after}{meaning}"),
        ChangeKind::Counted { count, at_least, cleared } => {
            format!("{name} {bits}: {}", counted(*count, *at_least, *cleared))
        }
        ChangeKind::WentBack => format!("{name} {bits}: {before} → {after}, a counter that somebody cleared"),
        ChangeKind::Latched if before == after => {
            let event = u32::from(*after == 0);
            format!("{name} {bits}: was {event} in between, and is {after} again{meaning}")
        }
        ChangeKind::Latched => format!("{name} {bits}: {after} since the reading before cleared it{meaning}"),
    }
}

pub(super) fn counted(count: u64, at_least: bool, cleared: bool) -> String {
    let most = if at_least { " or more: it stands at its highest value" } else { "" };
    let since = if cleared { " since the reading before cleared it" } else { "" };
    format!("+{count}{most}{since}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, bits: &str, value: u32, meaning: Option<&str>) -> DecodedField {
        DecodedField {
            name: name.to_owned(),
            bits: bits.to_owned(),
            access: "rw",
            value,
            meaning: meaning.map(str::to_owned),
            latched: false,
            about: "About".to_owned(),
        }
    }

    fn rcr() -> Decoded {
        Decoded {
            name: "ENET_RCR".to_owned(),
            address: "0x02188084".to_owned(),
            width: 32,
            value: 0x05ee_0264,
            latched: None,
            cleared: false,
            about: "Receive control".to_owned(),
            manual: "RM".to_owned(),
            fields: vec![
                field("MAX_FL", "29-16", 1518, None),
                field("FCE", "5", 1, Some("pause frames are obeyed")),
                field("PROM", "3", 0, None),
            ],
        }
    }

    #[test]
    fn a_register_looks_as_in_report_1() {
        let text = registers(&[rcr()], &[], &Device::default(), true, false);
        let expected = "ENET_RCR:0x02188084 =0x05ee0264  Receive control\n\
                        \u{20} MAX_FL  29-16  =0x5ee (1518)  About\n\
                        \u{20} FCE     5      =1             About: pause frames are obeyed\n\
                        \u{20} PROM    3      =0             About\n";
        assert_eq!(text, expected);
        let brief = registers(&[rcr()], &[], &Device::default(), false, false);
        assert_eq!(brief, "ENET_RCR:0x02188084 =0x05ee0264  MAX_FL=1518 FCE\n");
        let json = registers(&[rcr()], &[], &Device::default(), true, true);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["registers"][0]["value"], 0x05ee_0264);
        assert_eq!(value["registers"][0]["fields"][1]["meaning"], "pause frames are obeyed");
    }

    fn change(what: Option<ChangeKind>, fields: Vec<FieldChange>) -> RegisterChange {
        RegisterChange {
            name: "R".to_owned(),
            address: "0x00001000".to_owned(),
            about: "About".to_owned(),
            before: "0x05ee0244".to_owned(),
            after: "0x05ee0264".to_owned(),
            what,
            fields,
        }
    }

    #[track_caller]
    fn check(change: &RegisterChange, expected: &[&str]) {
        assert_eq!(lines(change), expected);
    }

    #[test]
    fn what_changed_is_said_as_what_it_is() {
        let counted = |count, at_least, cleared| Some(ChangeKind::Counted { count, at_least, cleared });
        check(&change(counted(12, false, false), Vec::new()), &["R:0x00001000 +12  About"]);
        check(
            &change(counted(255, true, true), Vec::new()),
            &["R:0x00001000 +255 or more: it stands at its highest value since the reading before cleared it  About"],
        );
        check(
            &change(Some(ChangeKind::WentBack), Vec::new()),
            &["R:0x00001000 0x05ee0244 → 0x05ee0264, a counter that somebody cleared  About"],
        );
        let field = |before, after, what| FieldChange {
            name: "F".to_owned(),
            bits: "2".to_owned(),
            before,
            after,
            what,
            meaning: Some("up".to_owned()),
        };
        check(
            &change(None, vec![field(0, 1, ChangeKind::Changed), field(1, 1, ChangeKind::Latched)]),
            &[
                "R:0x00001000 0x05ee0244 → 0x05ee0264  About",
                "  F 2: 0 → 1  up",
                "  F 2: was 0 in between, and is 1 again  up",
            ],
        );
    }

    #[test]
    fn a_machine_without_registers_says_why() {
        let notes = vec!["veth0 has no register dump".to_owned()];
        let text = of_machine("host", &RegisterChanges { notes, ..RegisterChanges::default() });
        assert_eq!(text, "host: no register could be read\n  veth0 has no register dump");
        let text = of_machine("target", &RegisterChanges { compared: 3, ..RegisterChanges::default() });
        assert_eq!(text, "target: 3 registers compared, none differs");
    }

    #[test]
    fn an_escape_from_a_machine_moves_no_cursor() {
        let evil = RegisterChange { about: "\u{1b}[2J".to_owned(), ..change(Some(ChangeKind::Changed), Vec::new()) };
        assert!(!watched(&[evil], 1.0, false).contains('\u{1b}'));
    }
}
