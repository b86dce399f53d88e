//! The queueing disciplines of an interface as a record has them: in the words of tc(8).
//! Knows of parameters what the settings know, and netem's.

use std::io;
use std::time::Duration;

use linerate_machine::units::{OfferedLoad, format_duration};

use crate::netlink::attributes;
use crate::qdiscs::{QdiscInfo, TC_H_ROOT, of};
use crate::settings::qdisc;

/// All of an interface in tc(8)'s words, the root first, then each different one below it once: a device of eight queues has
/// eight alike. Handles are left out, for the kernel chooses them.
pub(crate) fn in_words(interface: &str) -> io::Result<Vec<String>> {
    let told = of(interface)?;
    let (root, below): (Vec<&QdiscInfo>, Vec<&QdiscInfo>) = told.iter().partition(|one| one.parent == TC_H_ROOT);
    let mut found: Vec<String> = Vec::new();
    for words in root.into_iter().chain(below).map(words) {
        if !found.contains(&words) {
            found.push(words);
        }
    }
    Ok(found)
}

/// A kind and its parameters; of a kind that is not known, the kind.
fn words(told: &QdiscInfo) -> String {
    let known = || qdisc::parameters(told).map_or_else(|_| told.kind.clone(), |discipline| discipline.to_string());
    if told.kind == "netem" { netem(&told.options).unwrap_or_else(known) } else { known() }
}

/// struct tc_netem_qopt (latency, limit, loss, gap, duplicate, jitter; times in ticks of 64 ns, shares of 2^32), and
/// attributes behind it.
fn netem(options: &[u8]) -> Option<String> {
    // linux/pkt_sched.h.
    const REORDER: u16 = 3;
    const CORRUPT: u16 = 4;
    const RATE: u16 = 6;
    const RATE64: u16 = 8;
    const LATENCY64: u16 = 10;
    const JITTER64: u16 = 11;
    const TICK_NS: u64 = 64;
    let word = |octets: &[u8], at: usize| Some(u32::from_ne_bytes(*octets.get(at..)?.first_chunk()?));
    let [latency, limit, loss, _, duplicate, jitter] =
        [0, 4, 8, 12, 16, 20].map(|at| word(options, at)).into_iter().collect::<Option<Vec<_>>>()?.try_into().ok()?;
    let content =
        |wanted: u16| attributes(options.get(24..)?).find(|(kind, _)| *kind == wanted).map(|(_, found)| found);
    let long = |wanted| Some(u64::from_ne_bytes(*content(wanted)?.first_chunk()?));
    let first = |wanted| content(wanted).and_then(|octets| word(octets, 0)).unwrap_or(0);
    let time = |wanted, ticks: u32| Duration::from_nanos(long(wanted).unwrap_or(u64::from(ticks) * TICK_NS));
    let octets_per_s = long(RATE64).unwrap_or(first(RATE).into());
    let mut text = format!("netem limit {limit}");
    for (name, time) in [("delay", time(LATENCY64, latency)), ("jitter", time(JITTER64, jitter))] {
        if !time.is_zero() {
            text += &format!(" {name} {}", format_duration(time));
        }
    }
    for (name, share) in
        [("loss", loss), ("duplicate", duplicate), ("reorder", first(REORDER)), ("corrupt", first(CORRUPT))]
    {
        if share != 0 {
            text += &format!(" {name} {}%", (f64::from(share) / f64::from(u32::MAX) * 1e6).round() / 1e4);
        }
    }
    if octets_per_s != 0 {
        text += &format!(" rate {}", OfferedLoad::BitsPerSecond(octets_per_s.saturating_mul(8)));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use crate::netlink::push_attribute;

    use super::*;

    #[test]
    fn netem_is_told_as_it_was_asked_for() {
        // tc qdisc add dev eth0 root netem delay 10ms 1ms loss 1% rate 100mbit, as Linux 6.12 tells it.
        let mut options: Vec<u8> =
            [156_250u32, 1000, 42_949_673, 0, 0, 15_625].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let rate: Vec<u8> = [12_500_000u32, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        push_attribute(&mut options, 6, &rate);
        push_attribute(&mut options, 10, &10_000_000u64.to_ne_bytes());
        assert_eq!(netem(&options).unwrap(), "netem limit 1000 delay 10ms jitter 1ms loss 1% rate 100M");
        assert_eq!(netem(&options[..20]), None);
        let unknown = QdiscInfo { kind: "htb".to_owned(), options, ..QdiscInfo::default() };
        assert_eq!(words(&unknown), "htb");
    }
}
