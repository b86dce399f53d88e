//! What the kernel drops, by its own reasons and places: its tracepoint skb:kfree_skb, counted in the kernel.
//! Knows no trials and no stages; it sees the drops of the whole machine.
//!
//! A program of two dozen instructions runs at each drop and adds one to the number of its (place, reason), so the
//! cost is that of a look into a small table, and nothing is written that must be read in time. It needs no compiler
//! and no type information on the machine: the tracepoint's own description says where the two fields are
//! (Documentation/trace/events.rst). Reasons came with Linux 5.17; before, since 4.7, the place alone is told. With
//! the process the program is gone.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};

use linerate_path::drop_reason::DropReason;
use linerate_trial::doubt::{Doubt, Doubted};

use crate::profile::kallsyms::each_function;
use crate::sys::bpf::{Attached, Counts, Instruction, Program, ProgramKind};
use crate::xdp::assembler::Reg::{R1, R2, R3, R6, R10};
use crate::xdp::assembler::{Assembler, Width};
use crate::xdp::program::count_in;

/// Where tracefs is mounted; before Linux 4.1 it was in debugfs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Different places and reasons in one trial: some dozens at most.
const MOST: u32 = 512;
/// No function is longer: an address farther from a symbol belongs to none.
const FUNCTION: u64 = 1 << 20;

/// Counts drops until it is dropped itself.
#[derive(Debug)]
pub struct Tracing {
    counts: Counts<16>,
    format: Format,
    _program: Attached,
}

impl Tracing {
    /// Begins to count, or says in a sentence why that cannot be.
    pub fn start() -> Result<Tracing, String> {
        let (format, id) = find_tracepoint()?;
        Tracing::attach(format, id).map_err(|error| {
            format!(
                "The kernel's drops cannot be traced ({error}); try as root, on a kernel with CONFIG_BPF_SYSCALL and \
                 CONFIG_BPF_EVENTS"
            )
        })
    }

    fn attach(format: Format, id: u64) -> io::Result<Tracing> {
        let counts = Counts::new(MOST)?;
        let program = Program::load(ProgramKind::Tracepoint, &instructions(&format, counts.number()))?;
        Ok(Tracing { _program: program.attach_to_tracepoint(id)?, counts, format })
    }

    /// What was dropped so far, the most frequent first.
    pub fn read(&self) -> io::Result<Vec<DropReason>> {
        let counted = self.counts.read()?;
        let half = |key: &[u8], at: usize| u64::from_ne_bytes(key[at..at + 8].try_into().expect("eight octets"));
        let places: Vec<u64> = counted.iter().map(|(key, _)| half(key, 0)).collect();
        // A machine that hides its symbols still tells the addresses.
        let symbols =
            File::open("/proc/kallsyms").map(|file| symbols(BufReader::new(file), &places)).unwrap_or_default();
        let mut reasons: Vec<DropReason> = counted
            .iter()
            .zip(&places)
            .map(|((key, packets), place)| DropReason {
                reason: self.format.reason_offset.map(|_| self.format.reason(half(key, 8))),
                location: Some(
                    symbols.iter().find(|(at, _)| at == place).map_or(format!("{place:#x}"), |(_, s)| s.clone()),
                ),
                packets: *packets,
            })
            .collect();
        // Several places in one function are one.
        reasons.sort_by(|a, b| (&a.reason, &a.location).cmp(&(&b.reason, &b.location)));
        reasons.dedup_by(|later, kept| {
            let same = (&later.reason, &later.location) == (&kept.reason, &kept.location);
            if same {
                kept.packets += later.packets;
            }
            same
        });
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.packets));
        Ok(reasons)
    }

    /// There were more different drops than could be told apart, so some were not counted.
    pub fn is_full(&self) -> bool {
        self.counts.read().is_ok_and(|counted| counted.len() >= MOST as usize)
    }
}

/// What the kernel dropped since the tracing began; what is missing of it becomes a doubt.
pub fn told(tracing: Result<Tracing, String>, doubts: &mut Vec<Doubt>) -> Option<Vec<DropReason>> {
    let counted = tracing.and_then(|tracing| {
        if tracing.is_full() {
            let why = "The kernel dropped packets at more places than could be told apart, so drop_reasons lacks some";
            doubts.push(Doubted::CountersMissing { missing: vec![why.to_owned()] }.into());
        }
        tracing.read().map_err(|error| format!("The kernel's drops could not be read ({error}); try again"))
    });
    counted.map_err(|why| doubts.push(Doubted::CountersMissing { missing: vec![why] }.into())).ok()
}

fn find_tracepoint() -> Result<(Format, u64), String> {
    let mut why = String::new();
    for root in TRACEFS {
        let event = |file: &str| fs::read_to_string(format!("{root}/events/skb/kfree_skb/{file}"));
        match event("format").and_then(|format| Ok((format, event("id")?))) {
            Ok((format, id)) => {
                let parsed = Format::parse(&format).zip(id.trim().parse().ok());
                return parsed
                    .ok_or_else(|| "The kernel's tracepoint skb:kfree_skb has a form that is not known".to_owned());
            }
            Err(error) if why.is_empty() => why = error.to_string(),
            Err(_) => {}
        }
    }
    Err(format!(
        "The kernel's drops cannot be traced: its tracepoint skb:kfree_skb cannot be read ({why}); try as root, with \
         tracefs mounted at {}",
        TRACEFS[0]
    ))
}

/// The tracepoint's record, as far as it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Format {
    location_offset: i16,
    /// 4 on 32-bit kernels.
    location_octets: u8,
    reason_offset: Option<i16>,
    names: Vec<(u64, String)>,
}

impl Format {
    /// Lines `field:void * location; offset:16; size:8; signed:0;`, and in the last one `{ 2, "NOT_SPECIFIED" }`.
    fn parse(text: &str) -> Option<Format> {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let mut parts = line.trim().split(';').map(str::trim);
                parts
                    .next()?
                    .strip_prefix("field:")
                    .filter(|field| field.split([' ', '*']).next_back() == Some(name))?;
                let offset: i16 = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
                let octets: u8 = parts.next()?.strip_prefix("size:")?.parse().ok()?;
                // The kernel lets programs read whole, aligned fields behind the eight octets that all records share.
                (offset >= 8 && matches!(octets, 4 | 8) && offset % i16::from(octets) == 0).then_some((offset, octets))
            })
        };
        let (location_offset, location_octets) = field("location")?;
        let reason_offset = field("reason").filter(|(_, octets)| *octets == 4).map(|(offset, _)| offset);
        let names = text.split('{').skip(1).filter_map(|part| {
            let (number, rest) = part.split_once(',')?;
            let name = rest.split('"').nth(1)?;
            let number = number.trim();
            let number = match number.strip_prefix("0x") {
                Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
                None => number.parse(),
            };
            Some((number.ok()?, name.to_owned()))
        });
        Some(Format { location_offset, location_octets, reason_offset, names: names.collect() })
    }

    fn reason(&self, number: u64) -> String {
        let name = self.names.iter().find(|(known, _)| *known == number).map(|(_, name)| name.clone());
        // Subsystems have ranges of their own, whose names the description lacks.
        name.unwrap_or_else(|| format!("reason {number:#x}"))
    }
}

/// The program. r6 is the tracepoint's record.
///
/// ```text
///   stack:  -16 place, -8 reason: the key      -24 a zero to begin a count with
/// ```
fn instructions(format: &Format, map: i32) -> Vec<Instruction> {
    const KEY: i16 = -16;
    const REASON: i16 = -8;
    const ZERO: i16 = -24;
    let a = &mut Assembler::new();
    let end = a.label();
    a.copy(R6, R1);
    let place = if format.location_octets == 8 { Width::W64 } else { Width::W32 };
    a.load(place, R2, R6, format.location_offset);
    a.store(Width::W64, R10, KEY, R2);
    match format.reason_offset {
        Some(offset) => a.load(Width::W32, R3, R6, offset),
        None => a.set(R3, 0),
    }
    a.store(Width::W64, R10, REASON, R3);
    count_in(a, map, KEY, ZERO, end);
    a.place(end);
    a.exit_with(0);
    std::mem::take(a).finish()
}

/// The function in which each address stands, of lines `ffffffff81000000 T _text [module]`. The file is long and read
/// once, a line at a time.
fn symbols(text: impl BufRead, addresses: &[u64]) -> Vec<(u64, String)> {
    let mut best: Vec<(u64, u64, String)> = addresses.iter().map(|address| (*address, 0, String::new())).collect();
    // What was read before a failure counts.
    let _ = each_function(text, |at, name, _module| {
        for (address, start, function) in &mut best {
            if at <= *address && at > *start && *address - at < FUNCTION {
                *start = at;
                name.clone_into(function);
            }
        }
    });
    best.into_iter().filter(|(_, start, _)| *start > 0).map(|(address, _, function)| (address, function)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Linux 6.18 and 5.10, both 64 bits; shortened. The third is made of the second for 32 bits.
    const NEW: &str = "name: kfree_skb\nID: 2310\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
         \tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:void * location;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:void * rx_sk;\toffset:24;\tsize:8;\tsigned:0;\n\tfield:unsigned short protocol;\toffset:32;\tsize:2;\tsigned:0;\n\
         \tfield:enum skb_drop_reason reason;\toffset:36;\tsize:4;\tsigned:0;\n\nprint fmt: \"location=%pS reason: %s\", \
         REC->location, __print_symbolic(REC->reason, { 2, \"NOT_SPECIFIED\" }, { 0x3, \"NO_SOCKET\" })\n";
    const OLD: &str = "format:\n\tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
         \tfield:void * location;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:unsigned short protocol;\toffset:24;\tsize:2;\tsigned:0;\n";
    const NARROW: &str = "\tfield:void * skbaddr;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:void * location;\toffset:12;\tsize:4;\tsigned:0;\n";

    #[test]
    fn the_description_of_each_kernel_is_understood() {
        let new = Format::parse(NEW).unwrap();
        assert_eq!((new.location_offset, new.location_octets, new.reason_offset), (16, 8, Some(36)));
        assert_eq!([2, 3, 0x10004].map(|number| new.reason(number)), ["NOT_SPECIFIED", "NO_SOCKET", "reason 0x10004"]);
        let old = Format::parse(OLD).unwrap();
        assert_eq!((old.location_offset, old.reason_offset), (16, None));
        let narrow = Format::parse(NARROW).unwrap();
        assert_eq!((narrow.location_offset, narrow.location_octets), (12, 4));
        let hostile = [
            "",
            "field:void * location;",
            "field:void * location; offset:2; size:8;",
            "field:void * location; offset:9; size:8;",
        ];
        for text in hostile {
            assert_eq!(Format::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let text = "0000000000001000 T first\n0000000000002000 t second\n0000000000002800 d data\nrubbish\n\
                    0000000000003000 t third\t[module]\n0000000000000000 T hidden\n";
        let found = symbols(text.as_bytes(), &[0x1010, 0x2fff, 0x3000, 0x10, 0x900_0000]);
        let want = [(0x1010, "first"), (0x2fff, "second"), (0x3000, "third")];
        assert_eq!(found, want.map(|(at, name)| (at, name.to_owned())));
    }

    #[test]
    fn drops_are_counted_one_by_one() {
        let tracing = match Tracing::start() {
            Ok(tracing) => tracing,
            Err(why) => {
                println!("SKIPPED drops_are_counted_one_by_one: {why}");
                return;
            }
        };
        let count = || -> u64 {
            let reasons = tracing.read().unwrap();
            assert!(!tracing.is_full());
            reasons.iter().filter(|one| one.reason.as_deref() == Some("NO_SOCKET")).map(|one| one.packets).sum()
        };
        // Nobody listens behind a socket that is closed again.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let before = count();
        for _ in 0..200 {
            // A refusal of the one before is told at the next, which then goes nowhere.
            while socket.send_to(&[1], nobody).is_err() {}
        }
        if tracing.format.reason_offset.is_some() {
            let after = count();
            // Others on this machine may send to nobody meanwhile.
            assert!((200..1000).contains(&(after - before)), "{}", after - before);
        }
        let reasons = tracing.read().unwrap();
        assert!(reasons.iter().all(|one| one.location.as_deref().is_some_and(|at| !at.is_empty())), "{reasons:?}");
    }
}
