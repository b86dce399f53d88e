//! What datagrams pass on their way out of an interface that can time them: the fq and etf queueing disciplines.
//! Knows no sockets, and asks no kernel; what a trial makes of it is decided elsewhere.

use crate::netlink::attributes;
use crate::qdiscs::{QdiscInfo, TC_H_ROOT};

/// Who times the datagrams that leave through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// fq, by CLOCK_MONOTONIC; whatever leaves passes it.
    Fq,
    /// etf, for what leaves with a certain priority (SO_PRIORITY). It drops what bears no time, or one too near.
    Etf {
        /// The clock it goes by.
        clock: libc::clockid_t,
        /// How long before its time it wants a datagram.
        delta_ns: u64,
        /// The priority whose packets it gets.
        priority: u32,
    },
}

// linux/pkt_sched.h.
const TCA_ETF_PARMS: u16 = 1;
const TCA_TAPRIO_ATTR_PRIOMAP: u16 = 1;
const TC_QOPT_MAX_QUEUE: usize = 16;

/// The timer among them: fq where every queue has it, else etf below a discipline that gives it a priority of its own.
pub(crate) fn timer(disciplines: &[QdiscInfo]) -> Option<Timer> {
    let root = disciplines.iter().find(|one| one.parent == TC_H_ROOT)?;
    let children = || disciplines.iter().filter(|one| one.parent != TC_H_ROOT && one.parent >> 16 == root.handle >> 16);
    // mq has a child for each queue of the device, and nothing of its own.
    if root.kind == "fq" || (root.kind == "mq" && children().count() > 0 && children().all(|one| one.kind == "fq")) {
        return Some(Timer::Fq);
    }
    let map = match root.kind.as_str() {
        "mqprio" => Some(root.options.as_slice()),
        "taprio" => attributes(&root.options).find(|(kind, _)| *kind == TCA_TAPRIO_ATTR_PRIOMAP).map(|(_, map)| map),
        _ => None,
    }?;
    children().filter(|one| one.kind == "etf").find_map(|etf| {
        let (_, parameters) = attributes(&etf.options).find(|(kind, _)| *kind == TCA_ETF_PARMS)?;
        // struct tc_etf_qopt: delta and clock, both 32 bits.
        let word = |at: usize| Some(i32::from_ne_bytes(*parameters.get(at..)?.first_chunk()?));
        // Queues are classes, counted from 1.
        let queue = (etf.parent & 0xffff).checked_sub(1)?;
        Some(Timer::Etf {
            delta_ns: u64::try_from(word(0)?).ok()?,
            clock: word(4)?,
            priority: priority_of(map, queue)?,
        })
    })
}

/// The priority whose packets go to this queue, by struct tc_mqprio_qopt: the number of traffic classes, the class of
/// each of 16 priorities, a flag, and for each of 16 classes how many queues it has and which is the first.
fn priority_of(map: &[u8], queue: u32) -> Option<u32> {
    const COUNTS: usize = 1 + TC_QOPT_MAX_QUEUE + 1;
    const OFFSETS: usize = COUNTS + 2 * TC_QOPT_MAX_QUEUE;
    let classes = usize::from(*map.first()?).min(TC_QOPT_MAX_QUEUE);
    let half = |at: usize| Some(u32::from(u16::from_ne_bytes(*map.get(at..)?.first_chunk()?)));
    let class = (0..classes).find(|class| {
        let (count, offset) = (half(COUNTS + 2 * class), half(OFFSETS + 2 * class));
        count.zip(offset).is_some_and(|(count, offset)| (offset..offset + count).contains(&queue))
    })?;
    let of_priorities = map.get(1..=TC_QOPT_MAX_QUEUE)?;
    of_priorities.iter().position(|&of| usize::from(of) == class).map(|priority| priority as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdiscs;

    fn one(kind: &str, handle: u32, parent: u32, options: &[u8]) -> QdiscInfo {
        QdiscInfo { kind: kind.to_owned(), handle, parent, options: options.to_vec() }
    }

    fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + content.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// `tc qdisc add dev eth0 parent root handle 6666 mqprio num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2
    /// queues 1@0 1@1 2@2 hw 0`, the example of tc-etf(8).
    fn example() -> Vec<u8> {
        let mut map = vec![3, 2, 2, 1, 0];
        map.extend([2; 12]);
        map.push(0);
        for words in [[1u16, 1, 2], [0, 1, 2]] {
            map.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            map.extend([0; 26]);
        }
        map
    }

    #[test]
    fn fq_must_be_in_every_way_out() {
        let fq = |parent| one("fq", 0x8001_0000, parent, &[]);
        assert_eq!(timer(&[fq(TC_H_ROOT)]), Some(Timer::Fq));
        let mq = || one("mq", 0x10_0000, TC_H_ROOT, &[]);
        assert_eq!(timer(&[mq(), fq(0x10_0001), fq(0x10_0002)]), Some(Timer::Fq));
        assert_eq!(timer(&[mq(), fq(0x10_0001), one("fq_codel", 0, 0x10_0002, &[])]), None);
        for none in [&[][..], &[mq()], &[one("noqueue", 0, TC_H_ROOT, &[])], &[one("pfifo_fast", 0, TC_H_ROOT, &[])]] {
            assert_eq!(timer(none), None);
        }
    }

    #[test]
    fn etf_is_found_with_its_clock_and_its_priority() {
        // `tc qdisc replace dev eth0 parent 6666:1 etf clockid CLOCK_TAI delta 300000`.
        let parameters: Vec<u8> = [300_000i32, libc::CLOCK_TAI, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let etf = one("etf", 0x8002_0000, 0x6666_0001, &attribute(TCA_ETF_PARMS, &parameters));
        let want = Some(Timer::Etf { clock: libc::CLOCK_TAI, delta_ns: 300_000, priority: 3 });
        let mqprio = one("mqprio", 0x6666_0000, TC_H_ROOT, &example());
        assert_eq!(timer(&[mqprio.clone(), etf.clone()]), want);
        let taprio = one("taprio", 0x6666_0000, TC_H_ROOT, &attribute(TCA_TAPRIO_ATTR_PRIOMAP, &example()));
        assert_eq!(timer(&[taprio, etf.clone()]), want);
        // At the root it would drop all that bears no time, the handshake with it.
        assert_eq!(timer(&[QdiscInfo { parent: TC_H_ROOT, ..etf.clone() }]), None);
        let queue_9 = QdiscInfo { parent: 0x6666_0009, ..etf };
        assert_eq!(timer(&[mqprio, queue_9]), None, "a queue of no class");
    }

    #[test]
    fn what_makes_no_sense_is_no_timer() {
        for cut in 0..example().len() {
            let root = one("mqprio", 0x6666_0000, TC_H_ROOT, &example()[..cut]);
            let etf = one("etf", 0, 0x6666_0001, &[12, 0, 1, 0]);
            assert_eq!(timer(&[root, etf]), None);
        }
    }

    #[test]
    fn loopback_has_no_timer() {
        let found = qdiscs::of("lo").unwrap();
        assert_eq!(timer(&found), None, "{found:?}");
        assert!(qdiscs::of("no-such-one").is_err());
    }
}
