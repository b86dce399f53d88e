//! An XDP program at the receiver's interface that drops a share of what comes.
//! Knows no findings; the program is an ELF object of its own making, for ip(8) to load.

use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

use super::super::case::Between;
use super::super::draw::Draft;

/// What the driver of a veth counts of programs.
const DROPPED: &str = "ethtool -S eth0 | awk '/xdp_drops/ {n += $2} END {print n + 0}'";
/// What the interface received and IP did not: programs in the stack count nothing.
const BEHIND_LINK: &str = "link=$(awk '/eth0:/ {print $3}' /proc/self/net/dev)\n\
                           ip=$(awk '/^Ip: [0-9]/ {print $4}' /proc/self/net/snmp)\necho $((link > ip ? link - ip : 0))";

pub(super) fn drops(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable, Between::Cable, Between::Router]);
    draft.case.without_ipv6();
    draft.lasts(1500, 2500);
    match draft.of(&[0, 1, 2]) {
        0 => draft.udp(8, 40),
        1 => {
            let mbps = draft.scaled(10, 60);
            draft.tcp(Some(mbps));
        }
        _ => draft.requests(&["udp-rr"]),
    }
    draft.one_way();
    let end = draft.receiver();
    draft.case.at = Some(end);
    let share = draft.between(3, 15);
    let is_in_driver = draft.one_in(2);
    let (mode, place) = if is_in_driver { ("xdpdrv", "driver") } else { ("xdpgeneric", "stack") };
    draft.say(format!("an XDP program in the {end}'s {place} drops {share} %"));
    // Were there none, ip would say so.
    let object = object(share as u32).unwrap_or_default();
    let octets: String = object.iter().map(|octet| format!("\\{octet:03o}")).collect();
    draft.before(
        end,
        format!("file=$(mktemp)\nprintf '{octets}' >$file\nip link set dev eth0 {mode} obj $file sec xdp\nrm $file"),
    );
    let (witness, name) = if is_in_driver { (DROPPED, "xdp_drops") } else { (BEHIND_LINK, "not given to IP") };
    draft.witness(end, witness, 2, name);
}

/// An ELF object (elf(5)) with the one program, as ip-link(8) loads it.
fn object(percent: u32) -> Result<Vec<u8>, object::write::Error> {
    let mut file = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let code = file.add_section(Vec::new(), b"xdp".to_vec(), SectionKind::Text);
    let licence = file.add_section(Vec::new(), b"license".to_vec(), SectionKind::Data);
    file.append_section_data(licence, b"GPL\0", 1);
    let program = program(percent);
    let symbol = Symbol {
        name: b"drop".to_vec(),
        value: file.append_section_data(code, &program, 8),
        size: program.len() as u64,
        kind: SymbolKind::Text,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(code),
        flags: SymbolFlags::None,
    };
    file.add_symbol(symbol);
    file.write()
}

/// Drops so many of a hundred packets (instructions of linux/bpf.h).
fn program(percent: u32) -> Vec<u8> {
    let op = |code: u8, register: u8, jump: i16, value: u32| {
        let [low, high] = jump.to_le_bytes();
        let [a, b, c, d] = value.to_le_bytes();
        [code, register, low, high, a, b, c, d]
    };
    [
        // r0 = bpf_get_prandom_u32() & 0xffff
        op(0x85, 0, 0, 7),
        op(0x57, 0, 0, 0xffff),
        // If it is larger than the share, XDP_PASS, else XDP_DROP.
        op(0x25, 0, 2, 65_536 * percent / 100),
        op(0xb7, 0, 0, 1),
        op(0x95, 0, 0, 0),
        op(0xb7, 0, 0, 2),
        op(0x95, 0, 0, 0),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Elf;

    #[test]
    fn the_object_is_one_for_bpf() {
        let octets = object(10).unwrap();
        let elf = Elf::read(&octets).unwrap();
        assert_eq!((elf.kind.bits, elf.kind.big_endian, elf.kind.machine), (64, false, object::elf::EM_BPF));
        assert!(!elf.is_stripped);
        assert_eq!(octets.len() % 8, 0);
    }
}
