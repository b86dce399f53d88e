//! Definition files to definitions: a line at a time, and the first that is wrong is told by its number.
//! Knows no register; docs/registers.md describes the format to people.

use std::collections::BTreeSet;

use super::definition::{Access, DeviceDefinition, DumpLayout, Field, Mode, Register, RegisterPlace};

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {complaint}")]
pub struct BadDefinition {
    file: String,
    line: usize,
    complaint: String,
}

/// Nobody writes more by hand, and a file of millions of lines is no definition.
const MOST_REGISTERS: usize = 10_000;
const LONGEST_LINE: usize = 400;

/// Reads the devices of a file.
pub fn parse(file: &str, text: &str) -> Result<Vec<DeviceDefinition>, BadDefinition> {
    let mut parser = Parser { layout: Layout::None, ..Parser::default() };
    for (at, line) in text.lines().enumerate() {
        parser.line(line).map_err(|complaint| BadDefinition { file: file.to_owned(), line: at + 1, complaint })?;
    }
    let last = text.lines().count().max(1);
    parser.end().map_err(|complaint| BadDefinition { file: file.to_owned(), line: last, complaint })
}

#[derive(Default)]
struct Parser {
    done: Vec<DeviceDefinition>,
    device: Option<DeviceDefinition>,
    layout: Layout,
    manual: Option<String>,
    names: BTreeSet<String>,
}

/// How words of a dump belong to registers.
#[derive(Clone, Copy, Default, PartialEq)]
enum Layout {
    #[default]
    None,
    ByOffset,
    ByIndex,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.len() > LONGEST_LINE {
            return Err(format!("the line is longer than {LONGEST_LINE} bytes; make it shorter"));
        }
        let indented = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, rest) = split(line);
        if word == "device" && !indented {
            return self.begin(rest);
        }
        let Some(device) = &mut self.device else {
            return Err("a file begins with 'device NAME'".to_owned());
        };
        if indented {
            let register = device.registers.last_mut().ok_or("a field stands before the first register")?;
            return match (rest.strip_prefix('='), register.fields.last_mut()) {
                (Some(meaning), Some(field)) => value(field, word, meaning.trim()),
                (Some(_), None) => Err("a value stands before the first field of its register".to_owned()),
                (None, _) => field(register, word, rest),
            };
        }
        match word {
            "about" => device.about = rest.to_owned(),
            "driver" => device.drivers.extend(rest.split_whitespace().map(str::to_owned)),
            "compatible" => device.compatible.extend(rest.split_whitespace().map(str::to_owned)),
            "base" => {
                let (address, chip) = split(rest);
                device.bases.push((number(address)?, chip.to_owned()));
            }
            "phy-id" => {
                let (value, mask) = split(rest);
                let short =
                    |text| number(text).and_then(|n| u32::try_from(n).map_err(|_| "32 bits at most".to_owned()));
                device.phy_id = Some((short(value)?, if mask.is_empty() { u32::MAX } else { short(mask)? }));
            }
            "manual" if rest.is_empty() => return Err("write which manual, and where in it".to_owned()),
            "manual" => self.manual = Some(rest.to_owned()),
            "dump" => (self.layout, device.dump) = dump(rest)?,
            _ => {
                let manual =
                    self.manual.clone().ok_or("say first which manual has the registers: 'manual TITLE, CHAPTER'")?;
                let register = register(word, rest, manual, self.layout)?;
                for name in std::iter::once(&register.name).chain(&register.aka) {
                    if !self.names.insert(name.to_ascii_lowercase()) {
                        return Err(format!("the device has two registers {name}; call one of them otherwise"));
                    }
                }
                if device.registers.len() >= MOST_REGISTERS {
                    return Err(format!("a device has {MOST_REGISTERS} registers at most"));
                }
                device.registers.push(register);
            }
        }
        Ok(())
    }

    fn begin(&mut self, name: &str) -> Result<(), String> {
        self.finish()?;
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("write 'device NAME', the name in one word".to_owned());
        }
        self.device = Some(DeviceDefinition { name: name.to_owned(), about: name.to_owned(), ..Default::default() });
        (self.layout, self.manual) = (Layout::None, None);
        self.names.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        if let Some(device) = self.device.take() {
            if device.registers.is_empty() {
                return Err(format!("the device {} has no registers", device.name));
            }
            self.done.push(device);
        }
        Ok(())
    }

    fn end(mut self) -> Result<Vec<DeviceDefinition>, String> {
        self.finish()?;
        if self.done.is_empty() { Err("the file defines no device".to_owned()) } else { Ok(self.done) }
    }
}

/// `by-offset` or `by-index`, and which version of the layout.
fn dump(text: &str) -> Result<(Layout, Option<DumpLayout>), String> {
    let (word, rest) = split(text);
    let layout = match word {
        "by-offset" => Layout::ByOffset,
        "by-index" => Layout::ByIndex,
        _ => return Err("write 'dump by-offset' or 'dump by-index', and version=N if it has one".to_owned()),
    };
    let version = match rest.strip_prefix("version=") {
        None if rest.is_empty() => (0, 0),
        None => return Err(format!("'{rest}' is not known here; write version=N or version=N/MASK")),
        Some(text) => {
            let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
            let short = |text| u32::try_from(number(text)?).map_err(|_| "a version has 32 bits".to_owned());
            (short(value)?, short(mask)?)
        }
    };
    Ok((layout, Some(DumpLayout { version })))
}

/// `NAME PLACE [dump=N] ACCESS [aka=NAME,NAME] ABOUT`.
fn register(name: &str, rest: &str, manual: String, layout: Layout) -> Result<Register, String> {
    check_name(name)?;
    let (word, mut rest) = split(rest);
    let place = place(word)?;
    let (mut word, mut after) = split(rest);
    let mut told = None;
    if let Some(at) = word.strip_prefix("dump=") {
        told = Some(if at == "-" { None } else { Some(index(at)?) });
        rest = after;
        (word, after) = split(rest);
    }
    let access = access(word)?.ok_or_else(|| {
        format!(
            "'{word}' says no access; write ro, rw, wo, rc (reading clears), w1c (writing ones clears), with ,counter"
        )
    })?;
    if access.mode == Mode::LatchLow || access.mode == Mode::LatchHigh {
        return Err("only fields latch (ll, lh); write the register's access, and ll or lh at the field".to_owned());
    }
    let (word, about) = split(after);
    let (aka, about) = match word.strip_prefix("aka=") {
        Some(names) => (names.split(',').map(str::to_owned).collect(), about),
        None => (Vec::new(), after),
    };
    for name in &aka {
        check_name(name)?;
    }
    let dump = match (layout, told, place) {
        (Layout::None, Some(_), _) => return Err("dump= needs a line 'dump by-offset' or 'dump by-index'".to_owned()),
        (_, Some(told), _) => told,
        (Layout::ByOffset, None, RegisterPlace::Offset(offset)) => usize::try_from(offset / 4).ok(),
        _ => None,
    };
    Ok(Register {
        name: name.to_owned(),
        aka,
        place,
        access,
        dump,
        about: about.to_owned(),
        manual,
        fields: Vec::new(),
    })
}

/// `NAME BITS [ACCESS] ABOUT`; `.` is no about.
fn field(register: &mut Register, name: &str, rest: &str) -> Result<(), String> {
    check_name(name)?;
    let (bits, rest) = split(rest);
    let (high, low) = bits.split_once(':').unwrap_or((bits, bits));
    let bit = |text: &str| {
        let width = register.place.width();
        match text.parse::<u32>() {
            Ok(bit) if bit < width && text.bytes().all(|b| b.is_ascii_digit()) => Ok(bit),
            _ => Err(format!("'{bits}' are no bits of {}; write 29:16 or 5, the highest {}", register.name, width - 1)),
        }
    };
    let (high, low) = (bit(high)?, bit(low)?);
    if high < low {
        return Err(format!("write the higher bit first: {low}:{high}"));
    }
    if let Some(other) = register.fields.iter().find(|other| other.high >= low && other.low <= high) {
        return Err(format!("{name} lies over {} ({})", other.name, other.bits()));
    }
    if register.fields.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
        return Err(format!("{} has two fields {name}; call one of them otherwise", register.name));
    }
    let (word, after) = split(rest);
    let (access, about) = match access(word)? {
        Some(access) => (access, after),
        None => (register.access, rest),
    };
    let about = if about == "." { "" } else { about };
    let (name, about) = (name.to_owned(), about.to_owned());
    register.fields.push(Field { name, high, low, access, about, values: Vec::new() });
    register.fields.sort_by_key(|field| std::cmp::Reverse(field.high));
    Ok(())
}

/// `VALUE = MEANING`, of the field above it.
fn value(field: &mut Field, number_text: &str, meaning: &str) -> Result<(), String> {
    let value = number(number_text)?;
    let value = u32::try_from(value).ok().filter(|&value| value <= field.mask());
    let value = value.ok_or_else(|| format!("{} has bits {}, too few for {number_text}", field.name, field.bits()))?;
    if meaning.is_empty() {
        return Err("write what the value means behind the =".to_owned());
    }
    if field.meaning(value).is_some() {
        return Err(format!("{} = {value} has a meaning already", field.name));
    }
    field.values.push((value, meaning.to_owned()));
    Ok(())
}

fn place(text: &str) -> Result<RegisterPlace, String> {
    let bad = || {
        format!(
            "'{text}' is not a place; write +0x084 (behind the base), 0x02188084 (an address), mii.0 or mmd.3.1 (a PHY's)"
        )
    };
    let aligned = |address: u64| if address.is_multiple_of(4) { Ok(address) } else { Err(bad()) };
    if let Some(offset) = text.strip_prefix('+') {
        return Ok(RegisterPlace::Offset(aligned(number(offset).map_err(|_| bad())?)?));
    }
    if let Some(register) = text.strip_prefix("mii.") {
        return match number(register) {
            Ok(register @ 0..=31) => Ok(RegisterPlace::Mii(register as u16)),
            _ => Err("registers of clause 22 are mii.0 to mii.31".to_owned()),
        };
    }
    if let Some(both) = text.strip_prefix("mmd.") {
        let (device, register) = both.split_once('.').ok_or_else(bad)?;
        return match (number(device), number(register)) {
            (Ok(device @ 0..=31), Ok(register @ 0..=65_535)) => Ok(RegisterPlace::Mmd(device as u8, register as u16)),
            _ => Err("registers of clause 45 are mmd.0.0 to mmd.31.65535".to_owned()),
        };
    }
    if !text.starts_with("0x") {
        return Err(bad());
    }
    Ok(RegisterPlace::Address(aligned(number(text).map_err(|_| bad())?)?))
}

/// `None`: the word is no access.
fn access(word: &str) -> Result<Option<Access>, String> {
    let mut parts = word.split(',');
    let first = parts.next().unwrap_or_default();
    let Some(mode) = Mode::parse(first) else { return Ok(None) };
    let mut access = Access { mode, counter: false, sticks: false };
    for part in parts {
        match part {
            "counter" => access.counter = true,
            "sticks" => access.sticks = true,
            _ => return Err(format!("'{part}' is not known behind {first}; there are counter and sticks")),
        }
    }
    Ok(Some(access))
}

fn check_name(name: &str) -> Result<(), String> {
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty() && name.len() <= 64;
    // A name that is a number could not be told from a value.
    let has_letter = name.bytes().any(|b| b.is_ascii_alphabetic());
    if is_name && has_letter {
        Ok(())
    } else {
        Err(format!("'{name}' is not a name; letters, digits and _ make one, 64 at most, and one letter at least"))
    }
}

fn index(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&at: &usize| at < linerate_machine::registers::MOST_DUMP).ok_or_else(|| {
        format!("dump={text} is no word of a dump; write dump=0 and up, or dump=- where the dump lacks the register")
    })
}

/// Decimal, or hexadecimal behind 0x.
fn number(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    read.ok_or_else(|| format!("'{text}' is not a number; write 12 or 0x0c"))
}

/// The first word, and what follows it.
fn split(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "device mac\ndriver mac\nmanual M, chapter 1\n";

    #[track_caller]
    fn check(body: &str, line: usize, complaint: &str) {
        let error = parse("mac.regs", &format!("{HEAD}{body}")).expect_err("it was taken");
        assert_eq!((error.file.as_str(), error.line), ("mac.regs", line), "{error}");
        assert!(error.complaint.contains(complaint), "{error}");
    }

    #[test]
    fn bad_files_get_a_sentence_with_the_line() {
        check("", 3, "has no registers");
        check("R\n", 4, "'' is not a place");
        check("R 5 rw\n", 4, "'5' is not a place");
        check("R +0x3 rw\n", 4, "is not a place");
        check("R +0x0\n", 4, "says no access");
        check("R +0x0 rww Control\n", 4, "'rww' says no access");
        check("R +0x0 ro,count Control\n", 4, "there are counter and sticks");
        check("R +0x0 ll Link\n", 4, "only fields latch");
        check("R +0x0 dump=1 rw Control\n", 4, "needs a line 'dump");
        check("dump by-index\nR +0x0 dump=-1 rw Control\n", 5, "no word of a dump");
        check("dump sideways\n", 4, "by-offset");
        check("dump by-index version=x\n", 4, "'x' is not a number");
        check("R +0x0 rw A\nr +0x4 rw B\n", 5, "two registers r");
        check("R +0x0 rw A\nS +0x4 rw aka=r B\n", 5, "two registers r");
        check("    F 0 field\n", 4, "before the first register");
        check("R +0x0 rw A\n        0 = off\n", 5, "before the first field");
        check("R +0x0 rw A\n    F 32 field\n", 5, "no bits of R");
        check("R mii.0 rw A\n    F 16 field\n", 5, "the highest 15");
        check("R +0x0 rw A\n    F 3:8 field\n", 5, "8:3");
        check("R +0x0 rw A\n    F +3 field\n", 5, "no bits");
        check("R +0x0 rw A\n    F 8:4 field\n    G 5 field\n", 6, "lies over F (8-4)");
        check("R +0x0 rw A\n    F 8:4 field\n    f 3 field\n", 6, "two fields f");
        check("R +0x0 rw A\n    F 5:4 field\n        4 = four\n", 6, "too few for 4");
        check("R +0x0 rw A\n    F 5:4 field\n        1 =\n", 6, "what the value means");
        check("R +0x0 rw A\n    F 5:4 field\n        1 = a\n        1 = b\n", 7, "a meaning already");
        check("R mii.32 rw A\n", 4, "mii.0 to mii.31");
        check("R mmd.3 rw A\n", 4, "is not a place");
        check("R mmd.32.0 rw A\n", 4, "mmd.0.0 to");
        check("R-1 +0x0 rw A\n", 4, "'R-1' is not a name");
        check("12 +0x0 rw A\n", 4, "'12' is not a name");
        check("base here\n", 4, "'here' is not a number");
        check("manual\n", 4, "which manual");
        check(&format!("R +0x0 rw {}\n", "x".repeat(LONGEST_LINE)), 4, "longer than 400");
        check("device\n", 4, "has no registers");
        let error = |text| parse("a", text).unwrap_err().to_string();
        assert_eq!(error("R +0x0 rw A"), "a, line 1: a file begins with 'device NAME'");
        assert_eq!(error("device two words"), "a, line 1: write 'device NAME', the name in one word");
        assert_eq!(
            error("device d\nR +0x0 rw A"),
            "a, line 2: say first which manual has the registers: 'manual TITLE, CHAPTER'"
        );
        assert_eq!(error("# nothing\n"), "a, line 1: the file defines no device");
    }

    #[test]
    fn a_register_is_read_as_it_is_written() {
        let text = "# a comment\ndevice enet\nabout The MAC\ndriver fec\ncompatible a,b c,d\nbase 0x02188000 i.MX6Q\n\
                    dump by-offset version=2\nmanual RM, 23.5\n\nENET_RCR +0x084 rw aka=RCR Receive control\n    FCE 5 Flow control\n\
                    \u{20}       0 = off\n        1 = on\n    MAX_FL 29:16 .\nENET_FTRL +0x1b0 dump=- rw Truncation\n\
                    MDIO mmd.0x7.60 ro EEE\n    L 2 ll Link\nCCM 0x020c4000 rw Clock\n";
        let [device] = &parse("a", text).unwrap()[..] else { panic!() };
        assert_eq!((device.name.as_str(), device.about.as_str()), ("enet", "The MAC"));
        assert_eq!(device.compatible, ["a,b", "c,d"]);
        assert_eq!(device.bases, [(0x0218_8000, "i.MX6Q".to_owned())]);
        assert_eq!(device.dump, Some(DumpLayout { version: (2, u32::MAX) }));
        let [rcr, ftrl, mdio, ccm] = &device.registers[..] else { panic!() };
        assert_eq!((rcr.place, rcr.dump, rcr.manual.as_str()), (RegisterPlace::Offset(0x84), Some(0x21), "RM, 23.5"));
        assert!(rcr.is_called("enet_rcr") && rcr.is_called("rcr") && !rcr.clears());
        assert_eq!(rcr.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["MAX_FL", "FCE"]);
        assert_eq!((rcr.fields[0].about.as_str(), rcr.fields[1].meaning(1)), ("", Some("on")));
        assert_eq!(ftrl.dump, None);
        assert_eq!(mdio.place, RegisterPlace::Mmd(7, 60));
        assert!(mdio.clears(), "its field latches");
        assert_eq!((ccm.place, ccm.dump), (RegisterPlace::Address(0x020c_4000), None));
    }
}
