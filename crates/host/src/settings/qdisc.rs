//! The queueing discipline at the root of an interface, as a kind and its parameters.
//! Knows the kernel's attributes of those kinds that can be made again as they were; all others are left alone.

use std::io;

use linerate_machine::setting::discipline::Discipline;
use linerate_machine::setting::{BadSetting, BadSettingKind};

use super::{Mechanism, SettingError, Subject};
use crate::netlink::{Netlink, attributes, push_attribute};
use crate::qdiscs::{self, QdiscInfo, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, message};
use crate::sys;

// linux/pkt_sched.h.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// The kernel's "no limit" of TCA_FQ_FLOW_MAX_RATE.
const NO_RATE: u64 = u32::MAX as u64;
/// A tick of the packet scheduler (PSCHED_SHIFT 6 in net/pkt_sched.h).
const TICK_NS: u64 = 64;

/// How an attribute has its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// 32 bits, as it is.
    Word,
    /// 8 bits.
    Octet,
    /// The logarithm to base 2.
    Log,
    /// Octets per second.
    OctetRate,
    Microseconds,
    /// Microseconds that the kernel keeps in units of 1024 ns (net/codel.h), and tells rounded down.
    Codel,
}

use Form::{Codel, Log, Microseconds, Octet, OctetRate, Word};

/// The parameters of a kind: name, attribute, form.
type Parameters = &'static [(&'static str, u16, Form)];

const FQ: Parameters = &[
    ("limit", 1, Word),
    ("flow_limit", 2, Word),
    ("quantum", 3, Word),
    ("initial_quantum", 4, Word),
    ("pacing", 5, Word),
    ("maxrate", 7, OctetRate),
    ("buckets", 8, Log),
    ("refill_delay", 9, Microseconds),
    ("orphan_mask", 10, Word),
    ("low_rate_threshold", 11, OctetRate),
    ("ce_threshold", 12, Microseconds),
    ("timer_slack", 13, Word),
    ("horizon", 14, Microseconds),
    ("horizon_drop", 15, Octet),
    ("offload_horizon", 18, Microseconds),
];
/// Bands of fq that have no name here, as the kernel fills them (net/sched/sch_fq.c): struct tc_prio_qopt, and weights.
const FQ_PRIOMAP: (u16, [u8; 16]) = (16, [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
const FQ_WEIGHTS: (u16, [i32; 3]) = (17, [589_824, 196_608, 65_536]);
/// A threshold that is off: ~0 ns in microseconds, of which 32 bits are told.
const FQ_NO_THRESHOLD: u32 = (u64::MAX / 1000) as u32;

const FQ_CODEL: Parameters = &[
    ("target", 1, Codel),
    ("limit", 2, Word),
    ("interval", 3, Codel),
    ("ecn", 4, Word),
    ("flows", 5, Word),
    ("quantum", 6, Word),
    ("ce_threshold", 7, Codel),
    ("drop_batch", 8, Word),
    ("memory_limit", 9, Word),
];

fn parameters_of(kind: &str) -> Parameters {
    match kind {
        "fq" => FQ,
        "fq_codel" => FQ_CODEL,
        _ => &[],
    }
}

/// The root qdisc.
pub(super) struct Qdisc;

impl Mechanism for Qdisc {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        Ok(root(subject)?.to_string())
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let wanted = Discipline::parse(value)
            .map_err(|why| BadSetting { name: subject.name.to_owned(), why: BadSettingKind::Discipline(why) })?;
        // Refuses where what is there could not be put back.
        if root(subject)? == wanted {
            return Ok(());
        }
        let mut netlink = Netlink::route().map_err(|error| subject.not_written(value, &error, None))?;
        change(&mut netlink, subject, &wanted).map_err(|error| {
            let said = netlink.said();
            match error.raw_os_error() {
                // The kernel looks for a module of this name.
                Some(libc::ENOENT) => subject.refused(value, "this kernel has no such qdisc"),
                _ => subject.not_written(value, &error, said),
            }
        })
    }
}

/// What stands at the root, if it can be made again.
fn root(subject: &Subject) -> Result<Discipline, SettingError> {
    let (told, filters) = ask(subject.interface).map_err(|error| subject.not_read(&error, None))?;
    // Known only in the first network namespace; elsewhere it cannot have been changed from here either.
    let default = super::files::read(std::path::Path::new("/proc/sys/net/core/default_qdisc")).ok();
    discipline_of(&told, filters, default.as_deref()).map_err(|reason| subject.cannot_put_back(reason))
}

/// The disciplines of an interface, and how many filters stand at its root.
fn ask(interface: &str) -> io::Result<(Vec<QdiscInfo>, usize)> {
    let index = sys::netlink::interface_index(interface)?;
    let mut netlink = Netlink::route()?;
    let found = qdiscs::told(&mut netlink, index)?;
    let mut filters = 0;
    if let Some(root) = found.iter().find(|told| told.parent == TC_H_ROOT && told.handle != 0) {
        let filters_of = message(index, 0, root.handle);
        // A discipline without classes has no filters, and says so with an error.
        let _ = netlink.request(libc::RTM_GETTFILTER, libc::NLM_F_DUMP as u16, &filters_of, |_| filters += 1);
    }
    Ok((found, filters))
}

/// What the kernel told, as people write it, with a handle that somebody chose: their scripts name it. The error says
/// why it could not be put back.
fn discipline_of(told: &[QdiscInfo], filters: usize, default: Option<&str>) -> Result<Discipline, String> {
    let mut discipline = kind_and_parameters(told, filters, default)?;
    let root = told.iter().find(|one| one.parent == TC_H_ROOT).map_or(0, |root| root.handle >> 16);
    if (1..LEAST_OF_OURS).contains(&root) {
        discipline.set("handle", root.into());
    }
    Ok(discipline)
}

fn kind_and_parameters(told: &[QdiscInfo], filters: usize, default: Option<&str>) -> Result<Discipline, String> {
    let plain =
        |kind: &str| Discipline::new(kind).ok_or_else(|| format!("the qdisc {kind} is not one of docs/settings.md"));
    // Without one at all the interface has never been up.
    let Some(root) = told.iter().find(|one| one.parent == TC_H_ROOT) else { return plain("default") };
    let below: Vec<&QdiscInfo> =
        told.iter().filter(|one| one.parent != TC_H_ROOT && one.parent >> 16 == root.handle >> 16).collect();
    let made_by_itself = |one: &QdiscInfo| one.handle == 0 && default.is_none_or(|default| one.kind == default);
    if root.handle == 0 {
        // `net.core.default_qdisc` may have changed since: then the kernel would make another one now. Interfaces
        // without a queue have noqueue, those that were never up noop, those with several queues mq above the rest.
        match root.kind.as_str() {
            "noqueue" | "noop" => return plain("default"),
            "mq" if below.iter().all(|one| made_by_itself(one)) => return plain("default"),
            "mq" => return Err("mq is the kernel's own with qdiscs that it would not make now; remove them".to_owned()),
            _ if made_by_itself(root) => return plain("default"),
            _ => {}
        }
    }
    if filters > 0 {
        return Err(format!("the qdisc {} has filters; remove them first", root.kind));
    }
    if below.iter().any(|one| one.handle != 0 || !made_by_itself(one) && root.kind == "mq") {
        return Err(format!("the qdisc {} has others below it; remove them first", root.kind));
    }
    parameters(root)
}

/// One discipline with its parameters, as far as its kind is known here.
pub(crate) fn parameters(told: &QdiscInfo) -> Result<Discipline, String> {
    let plain = || {
        let unknown = || format!("the qdisc {} could not be made again; remove it first", told.kind);
        Discipline::new(&told.kind).ok_or_else(unknown)
    };
    match told.kind.as_str() {
        "pfifo" | "bfifo" => {
            let mut discipline = plain()?;
            if let Some(limit) = told.options.first_chunk() {
                discipline.set("limit", u32::from_ne_bytes(*limit).into());
            }
            Ok(discipline)
        }
        "tbf" => token_bucket(&told.options),
        "fq" | "fq_codel" => read_parameters(&told.kind, &told.options),
        _ => plain(),
    }
}

fn read_parameters(kind: &str, options: &[u8]) -> Result<Discipline, String> {
    let mut discipline = Discipline::new(kind).ok_or_else(|| format!("the qdisc {kind} is not known"))?;
    for (attribute, content) in attributes(options) {
        let value = match content {
            [octet] => u32::from(*octet),
            _ => content.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word)),
        };
        let known = parameters_of(kind).iter().find(|(_, of, _)| *of == attribute);
        match (known, kind, attribute) {
            // Off: there is no value to write that says so, but leaving it out does.
            (Some((_, _, OctetRate)), "fq", 7) if u64::from(value) == NO_RATE => {}
            (Some(_), "fq", 12) if value == FQ_NO_THRESHOLD => {}
            // Of kernels that have them and that nothing makes use of.
            (Some(_), "fq", 18) if value == 0 => {}
            (Some((name, _, form)), _, _) => discipline.set(name, form.read(value)),
            (None, "fq", _) if is_default_of_fq(attribute, content) => {}
            // ce_threshold_selector and its mask, which say something only where they are not zero.
            (None, "fq_codel", 10 | 11) if value == 0 => {}
            _ => return Err(format!("the qdisc {kind} has a parameter that is not known here; remove it first")),
        }
    }
    Ok(discipline)
}

fn is_default_of_fq(attribute: u16, content: &[u8]) -> bool {
    let (priomap, weights) = (FQ_PRIOMAP, FQ_WEIGHTS);
    // struct tc_prio_qopt: the number of bands, then the map.
    (attribute == priomap.0 && content.get(..4) == Some(&3i32.to_ne_bytes()) && content.get(4..20) == Some(&priomap.1))
        || (attribute == weights.0 && content == weights.1.map(i32::to_ne_bytes).concat())
}

impl Form {
    /// In the unit in which [`Discipline`] has it.
    fn read(self, value: u32) -> u64 {
        let value = u64::from(value);
        match self {
            Word | Octet => value,
            Log => 1u64.checked_shl(value as u32).unwrap_or(0),
            OctetRate => value * 8,
            Microseconds => value * 1000,
            Codel => {
                // Told is floor(kept × 1.024), which makes one less of itself when it is set again: the number that
                // makes the same is the next whole one.
                let kept = (value * 1000).div_ceil(1024);
                (kept * 1024).div_ceil(1000) * 1000
            }
        }
    }

    fn write(self, value: u64) -> Option<u32> {
        u32::try_from(match self {
            Word | Octet => value,
            Log => u64::from(value.checked_ilog2()?),
            OctetRate => value / 8,
            Microseconds | Codel => value / 1000,
        })
        .ok()
    }
}

/// struct tc_tbf_qopt: the rate (struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate), the peak
/// rate, limit, buffer in ticks, mtu in ticks.
fn token_bucket(options: &[u8]) -> Result<Discipline, String> {
    let content = |wanted: u16| attributes(options).find(|(kind, _)| *kind == wanted).map(|(_, content)| content);
    let told = content(TCA_TBF_PARMS).unwrap_or_default();
    let word = |at: usize| told.get(at..).and_then(|word| word.first_chunk()).map(|word| u32::from_ne_bytes(*word));
    let half = |at: usize| told.get(at..).and_then(|half| half.first_chunk()).map(|half| u16::from_ne_bytes(*half));
    let (Some(rate), Some(peak), Some(limit), Some(buffer)) = (word(8), word(20), word(24), word(28)) else {
        return Err("the kernel does not tell the parameters of tbf; remove it first".to_owned());
    };
    if peak != 0 || half(2) != Some(0) || half(6) != Some(0) || told.get(1).is_some_and(|layer| *layer > 1) {
        return Err("the qdisc tbf has a peak rate, an overhead or a link layer; remove it first".to_owned());
    }
    let long = content(TCA_TBF_RATE64).and_then(|long| long.first_chunk()).map(|long| u64::from_ne_bytes(*long));
    let octets_per_s = long.unwrap_or(u64::from(rate));
    let mut discipline = Discipline::new("tbf").ok_or("tbf is not known")?;
    discipline.set("rate", octets_per_s.saturating_mul(8));
    discipline.set("burst", burst_of(u64::from(buffer), octets_per_s));
    discipline.set("limit", u64::from(limit));
    Ok(discipline)
}

/// The ticks that the kernel makes of a burst, with its own rounding (psched_ratecfg_precompute__ and psched_l2t_ns in
/// net/sched).
fn ticks_of(burst: u64, octets_per_s: u64) -> u64 {
    let (mut factor, mut shift) = (1_000_000_000u64, 0);
    let mult = loop {
        let mult = (factor / octets_per_s.max(1)) & u64::from(u32::MAX);
        if mult & 1 << 31 != 0 || factor & 1 << 63 != 0 {
            break mult;
        }
        factor <<= 1;
        shift += 1;
    };
    (burst.saturating_mul(mult) >> shift) / TICK_NS
}

/// The roundest number of octets that makes these ticks: the kernel tells the burst as a time, and at high rates a tick
/// is many octets.
fn burst_of(ticks: u64, octets_per_s: u64) -> u64 {
    let octets = |ticks: u64| {
        let octets = u128::from(ticks) * u128::from(TICK_NS) * u128::from(octets_per_s) / 1_000_000_000;
        u64::try_from(octets).unwrap_or(u64::MAX)
    };
    let least = octets(ticks);
    let round = (0..32).rev().map(|power| 1u64 << power).find_map(|unit| {
        let round = least.div_ceil(unit).checked_mul(unit)?;
        // The kernel's rounding may take one more.
        [round, round.saturating_add(unit)].into_iter().find(|&round| ticks_of(round, octets_per_s) == ticks)
    });
    round.unwrap_or(least)
}

fn change(netlink: &mut Netlink, subject: &Subject, wanted: &Discipline) -> io::Result<()> {
    let index = subject.index_now()?;
    let (told, _) = ask(subject.interface)?;
    if wanted.kind() == "default" {
        return match netlink.change(libc::RTM_DELQDISC, 0, &message(index, 0, TC_H_ROOT)) {
            // What stands there is the kernel's own.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(()),
            result => result,
        };
    }
    let free = free_handle(&told);
    let Some(handle) = wanted.get("handle").and_then(|major| u32::try_from(major).ok()).map(|major| major << 16) else {
        return make(netlink, index, free, wanted);
    };
    // Of the handle that stands there the kernel changes the parameters that are named, and no others.
    if told.iter().any(|one| one.handle == handle) {
        make(netlink, index, free, wanted)?;
    }
    make(netlink, index, handle, wanted)
}

/// A new discipline of this handle at the root, in place of what is there.
fn make(netlink: &mut Netlink, index: u32, handle: u32, wanted: &Discipline) -> io::Result<()> {
    let mut payload = message(index, handle, TC_H_ROOT);
    push_attribute(&mut payload, TCA_KIND, &[wanted.kind().as_bytes(), &[0]].concat());
    let options = options_of(wanted).ok_or(io::Error::from_raw_os_error(libc::ERANGE))?;
    if !options.is_empty() {
        push_attribute(&mut payload, TCA_OPTIONS, &options);
    }
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    netlink.change(libc::RTM_NEWQDISC, flags, &payload)
}

/// The kernel itself counts from 0x8000 up, and people from 1; linerate takes the major numbers between.
const LEAST_OF_OURS: u32 = 0x7000;

/// A handle that is free. With one of its own, the kernel makes a new qdisc even of the same kind, in one step: what is
/// not named then is its default and not what was there (tc_modify_qdisc in net/sched/sch_api.c).
fn free_handle(told: &[QdiscInfo]) -> u32 {
    let taken = |major: u32| told.iter().any(|one| one.handle >> 16 == major || one.parent >> 16 == major);
    (LEAST_OF_OURS..0x7fff).rev().find(|&major| !taken(major)).unwrap_or(0) << 16
}

/// The content of TCA_OPTIONS; `None` for a number that is too large.
fn options_of(wanted: &Discipline) -> Option<Vec<u8>> {
    let mut options = Vec::new();
    let word = |value: u64| u32::try_from(value).ok().map(u32::to_ne_bytes);
    match wanted.kind() {
        "pfifo" | "bfifo" => {
            if let Some(limit) = wanted.get("limit") {
                options.extend(word(limit)?);
            }
        }
        "tbf" => {
            let (rate, burst, limit) = (wanted.get("rate")? / 8, wanted.get("burst")?, wanted.get("limit")?);
            let mut parameters = vec![0; 36];
            // TC_LINKLAYER_ETHERNET: else the kernel looks for a rate table, as before Linux 3.8.
            parameters[1] = 1;
            parameters[8..12].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
            parameters[24..28].copy_from_slice(&word(limit)?);
            parameters[28..32].copy_from_slice(&word(ticks_of(burst, rate))?);
            push_attribute(&mut options, TCA_TBF_PARMS, &parameters);
            if rate >= u64::from(u32::MAX) {
                push_attribute(&mut options, TCA_TBF_RATE64, &rate.to_ne_bytes());
            }
            push_attribute(&mut options, TCA_TBF_BURST, &word(burst)?);
        }
        kind => {
            for (name, attribute, form) in parameters_of(kind) {
                let Some(value) = wanted.get(name) else { continue };
                let value = form.write(value)?;
                match form {
                    Octet => push_attribute(&mut options, *attribute, &[u8::try_from(value).ok()?]),
                    _ => push_attribute(&mut options, *attribute, &value.to_ne_bytes()),
                }
            }
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &str, handle: u32, parent: u32, options: &[u8]) -> QdiscInfo {
        QdiscInfo { kind: kind.to_owned(), handle, parent, options: options.to_vec() }
    }

    fn root_with(kind: &str, options: &[u8]) -> Vec<QdiscInfo> {
        vec![told(kind, 0x8001_0000, TC_H_ROOT, options)]
    }

    #[track_caller]
    fn check(told: &[QdiscInfo], want: Result<&str, &str>) {
        let got = discipline_of(told, 0, Some("fq_codel")).map(|discipline| discipline.to_string());
        match (got, want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(got), Err(want)) => assert!(got.contains(want), "{got}"),
            (got, want) => panic!("{got:?}, not {want:?}"),
        }
    }

    #[test]
    fn a_handle_that_somebody_chose_is_part_of_it() {
        let chosen = |major: u32| vec![told("pfifo", major << 16, TC_H_ROOT, &10u32.to_ne_bytes())];
        check(&chosen(1), Ok("pfifo limit 10 handle 1:"));
        check(&chosen(0x6fff), Ok("pfifo limit 10 handle 6fff:"));
        for major in [LEAST_OF_OURS, 0x7fff, 0x8001] {
            check(&chosen(major), Ok("pfifo limit 10"));
        }
    }

    #[test]
    fn what_the_kernel_made_by_itself_is_default_while_it_would_make_it_again() {
        let own = |kind, parent| told(kind, 0, parent, &[]);
        check(&[own("noqueue", TC_H_ROOT)], Ok("default"));
        check(&[own("fq_codel", TC_H_ROOT)], Ok("default"));
        check(&[], Ok("default"));
        check(&[own("mq", TC_H_ROOT), own("fq_codel", 1), own("fq_codel", 2)], Ok("default"));
        check(&[own("mq", TC_H_ROOT), own("fq_codel", 1), told("fq", 0x8003_0000, 2, &[])], Err("would not make now"));
        check(&[own("pfifo_fast", TC_H_ROOT)], Ok("pfifo_fast"));
        check(&[own("fq_codel", TC_H_ROOT), told("clsact", 0xffff_0000, 0xffff_fff1, &[])], Ok("default"));
    }

    #[test]
    fn what_cannot_be_made_again_is_left_alone() {
        check(&root_with("htb", &[]), Err("htb could not be made again"));
        let mut with_child =
            root_with("tbf", &options_of(&Discipline::parse("tbf rate 8M burst 1K limit 1K").unwrap()).unwrap());
        with_child.push(told("netem", 0x8002_0000, 0x8001_0001, &[]));
        check(&with_child, Err("has others below it"));
        assert!(discipline_of(&root_with("fq_codel", &[]), 2, None).unwrap_err().contains("filters"));
        let mut unknown = Vec::new();
        push_attribute(&mut unknown, 99, &[1, 0, 0, 0]);
        check(&root_with("fq", &unknown), Err("not known here"));
        check(&root_with("tbf", &[]), Err("does not tell"));
    }

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "pfifo limit 7",
            "bfifo limit 1514000",
            "pfifo_fast",
            "mq",
            "tbf rate 100M burst 32K limit 64K",
            "tbf rate 400M burst 100000 limit 1M",
            "tbf rate 10G burst 1M limit 4M",
            "tbf rate 40G burst 1M limit 4M",
            "tbf rate 8K burst 1600 limit 3000",
            "fq limit 500 flow_limit 50 quantum 3028 pacing off buckets 1024 refill_delay 40ms horizon 10s \
             horizon_drop on",
            "fq maxrate 100M timer_slack 10us",
            "fq_codel limit 10240 flows 1024 quantum 1514 ecn on drop_batch 64 memory_limit 32M",
        ] {
            let wanted = Discipline::parse(text).unwrap();
            check(&root_with(wanted.kind(), &options_of(&wanted).unwrap()), Ok(text));
        }
    }

    #[test]
    fn times_of_codel_do_not_shrink_each_time_they_are_put_back() {
        for us in (1..20_000).chain([100_000, 1_000_000]) {
            let kept = |us: u64| (us * 1000) >> 10;
            let told = (kept(us) << 10) / 1000;
            let back = Codel.read(u32::try_from(told).unwrap()) / 1000;
            assert_eq!(kept(back), kept(us), "{us}");
        }
        assert_eq!(Codel.read(4999), 5_000_000);
    }

    #[test]
    fn a_burst_is_told_as_the_same_ticks() {
        for (rate, burst) in [(12_500_000, 32_768), (1_250_000_000, 1_048_576), (1000, 1600), (50_000_000, 99_999)] {
            let ticks = ticks_of(burst, rate);
            assert_eq!(ticks_of(burst_of(ticks, rate), rate), ticks, "{burst} at {rate}");
        }
        assert_eq!(burst_of(ticks_of(32_768, 51_250_000), 51_250_000), 32_768);
        assert_eq!(burst_of(0, 0), 0);
    }
}
