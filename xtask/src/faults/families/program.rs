//! An XDP program at the receiver's interface that drops a share of what comes.
//! Knows no findings; the program is an ELF object of its own making, for ip(8) to load.

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
    let octets: String = object(share as u32).iter().map(|octet| format!("\\{octet:03o}")).collect();
    draft.before(
        end,
        format!("file=$(mktemp)\nprintf '{octets}' >$file\nip link set dev eth0 {mode} obj $file sec xdp\nrm $file"),
    );
    let (witness, name) = if is_in_driver { (DROPPED, "xdp_drops") } else { (BEHIND_LINK, "not given to IP") };
    draft.witness(end, witness, 2, name);
}

const NAMES: &[u8] = b"\0xdp\0license\0.symtab\0.strtab\0drop\0";

/// Where a name stands among all of them.
fn name(name: &[u8]) -> u32 {
    NAMES.windows(name.len()).position(|one| one == name).unwrap_or(0) as u32
}

/// A section, as its header has it.
struct Section<'a> {
    name: u32,
    kind: u32,
    flags: u64,
    data: &'a [u8],
    /// Octets of an entry, of a table.
    entry: u64,
}

/// An ELF object (elf(5)) with the one program, as ip-link(8) loads it.
fn object(percent: u32) -> Vec<u8> {
    const HEADER: usize = 64;
    let program = program(percent);
    // Symbols: none, and the program (STB_GLOBAL, STT_FUNC, in section 1).
    let mut symbols = vec![0; 24];
    symbols.extend(name(b"drop\0").to_le_bytes());
    symbols.extend([0x12, 0, 1, 0]);
    symbols.extend(0_u64.to_le_bytes());
    symbols.extend((program.len() as u64).to_le_bytes());
    let section =
        |name: &[u8], kind: u32, flags: u64, data| Section { name: self::name(name), kind, flags, data, entry: 0 };
    let sections = [
        section(b"xdp\0", 1, 6, program.as_slice()),
        section(b"license\0", 1, 3, b"GPL\0"),
        Section { entry: 24, ..section(b".symtab\0", 2, 0, symbols.as_slice()) },
        section(b".strtab\0", 3, 0, NAMES),
    ];
    let (mut body, mut table) = (Vec::new(), vec![0; 64]);
    for Section { name, kind, flags, data, entry } in sections {
        table.extend(name.to_le_bytes());
        table.extend(kind.to_le_bytes());
        table.extend(flags.to_le_bytes());
        table.extend(0_u64.to_le_bytes());
        table.extend(((HEADER + body.len()) as u64).to_le_bytes());
        table.extend((data.len() as u64).to_le_bytes());
        // Of the symbols: their names are in section 4, and the first that others see is 1.
        let (link, others_see): (u32, u32) = if entry > 0 { (4, 1) } else { (0, 0) };
        table.extend(link.to_le_bytes());
        table.extend(others_see.to_le_bytes());
        table.extend(8_u64.to_le_bytes());
        table.extend(entry.to_le_bytes());
        body.extend(data);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    // 64 bits, little-endian, relocatable, for EM_BPF; five sections, of which the last has the names.
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xf7\0\x01\0\0\0".to_vec();
    file.extend([0; 16]);
    file.extend(((HEADER + body.len()) as u64).to_le_bytes());
    file.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0, 5, 0, 4, 0]);
    file.extend(body);
    file.extend(table);
    file
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
        let octets = object(10);
        let elf = Elf::read(&octets).unwrap();
        assert_eq!((elf.kind.bits, elf.kind.big_endian, elf.kind.machine), (64, false, 247));
        assert!(!elf.is_stripped);
        assert_eq!(octets.len() % 8, 0);
    }
}
