//! The queueing disciplines on the interface's path, over rtnetlink.
//! Knows what `tc -s qdisc` would show; queue lengths are present states, not counters, and left out.

use std::io;

use linerate_path::stage::Stage;

use super::{Machine, Placed};
use crate::interfaces::{self, Link};
use crate::netlink::{Netlink, attributes, text, word};
use crate::qdiscs::{TC_H_ROOT, TCA_KIND, TCMSG_LEN};

// linux/rtnetlink.h, linux/pkt_sched.h, linux/gen_stats.h.
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
const TC_H_INGRESS: u32 = 0xffff_fff1;

/// Stage, name and value of each counter of every discipline in the namespace: those that `interface` sends
/// through are at [`Stage::Qdisc`], those of devices that packets are redirected to are on the way in, and
/// those of interfaces beside it are unplaced.
pub(super) fn read(machine: &Machine) -> io::Result<Vec<Placed>> {
    let Some(interface) = &machine.link else { return Ok(Vec::new()) };
    let links = interfaces::links()?;
    let mut readings = Vec::new();
    Netlink::route()?.request(libc::RTM_GETQDISC, libc::NLM_F_DUMP as u16, &[0; TCMSG_LEN], |reply| {
        // struct tcmsg: family, padding, index, handle, parent, info.
        let (Some(index), Some(parent)) = (word(reply, 4), word(reply, 12)) else { return };
        let Some(link) = links.iter().find(|link| link.index == index) else { return };
        let attribute = |wanted: u16| {
            attributes(reply.get(TCMSG_LEN..).unwrap_or_default())
                .find(|(kind, _)| *kind == wanted)
                .map(|(_, content)| content)
        };
        let (Some(kind), Some(statistics)) = (attribute(TCA_KIND).map(text), attribute(TCA_STATS2)) else { return };
        // They have no queue: these counters are zero for ever.
        if kind == "noqueue" || kind == "noop" {
            return;
        }
        let stage = place(&links, interface, link, parent);
        let below = match parent {
            TC_H_ROOT | TC_H_INGRESS => String::new(),
            class => format!("@{:x}:{:x}", class >> 16, class & 0xffff),
        };
        readings.extend(
            parse(statistics)
                .into_iter()
                .map(|(counter, value)| (stage, format!("{} {kind}{below} {counter}", link.name), value)),
        );
    })?;
    Ok(readings)
}

/// Where a discipline on `device` stands, seen from a trial over `interface`.
fn place(links: &[Link], interface: &Link, device: &Link, parent: u32) -> Stage {
    // An ifb only ever holds packets that were redirected to it; on the way in that is how a receive queue is
    // imitated, and it stands where the board's own would.
    if device.kind.as_deref() == Some("ifb") {
        return Stage::DriverRxRing;
    }
    if !carries(links, interface, device) {
        return Stage::Unplaced;
    }
    // ingress and clsact see packets just after the driver handed them up, before the stack.
    if parent == TC_H_INGRESS { Stage::SoftirqBacklog } else { Stage::Qdisc }
}

/// Whether what `interface` sends goes through `device`: itself, one that it stands on, or one of its ports.
pub(crate) fn carries(links: &[Link], interface: &Link, device: &Link) -> bool {
    let mut reached = vec![interface.index];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        let lower = links.iter().find(|link| link.index == at).and_then(|link| link.lower);
        let ports = links.iter().filter(|link| link.master == Some(at)).map(|link| link.index);
        for index in lower.into_iter().chain(ports) {
            if !reached.contains(&index) {
                reached.push(index);
            }
        }
    }
    reached.contains(&device.index)
}

/// The counters in TCA_STATS2. Read octet by octet: struct gnet_stats_basic is 12 octets long on some machines
/// and 16 on others.
fn parse(statistics: &[u8]) -> Vec<(&'static str, u64)> {
    let word64 = |bytes: &[u8]| bytes.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk));
    let word32 = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|chunk| u64::from(u32::from_ne_bytes(*chunk)))
    };
    let (mut bytes, mut packets, mut queue) = (None, None, [None; 3]);
    for (kind, content) in attributes(statistics) {
        match kind {
            TCA_STATS_BASIC => {
                bytes = word64(content);
                packets = packets.or(word32(content, 8));
            }
            // Since Linux 5.5, when the 32 bits of the basic ones are not enough.
            TCA_STATS_PKT64 => packets = word64(content),
            // struct gnet_stats_queue: length, backlog, drops, requeues, overlimits.
            TCA_STATS_QUEUE => queue = [word32(content, 8), word32(content, 12), word32(content, 16)],
            _ => {}
        }
    }
    let counters =
        [("bytes", bytes), ("packets", packets), ("drops", queue[0]), ("requeues", queue[1]), ("overlimits", queue[2])];
    counters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, words: &[u32]) -> Vec<u8> {
        let mut bytes = ((4 + words.len() * 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn both_lengths_of_the_basic_statistics() {
        let mut octets = 1500u64.to_ne_bytes().to_vec();
        octets.extend(3u32.to_ne_bytes());
        for padding in [0, 4] {
            let mut basic = ((4 + octets.len() + padding) as u16).to_ne_bytes().to_vec();
            basic.extend(TCA_STATS_BASIC.to_ne_bytes());
            basic.extend(&octets);
            basic.extend(vec![0; padding]);
            basic.extend(attribute(TCA_STATS_QUEUE, &[1, 2, 30, 4, 50]));
            let want = [("bytes", 1500), ("packets", 3), ("drops", 30), ("requeues", 4), ("overlimits", 50)];
            assert_eq!(parse(&basic), want);
        }
    }

    #[test]
    fn what_is_not_there_is_absent() {
        assert_eq!(parse(&[]), []);
        assert_eq!(parse(&[0xff; 9]), []);
        assert_eq!(parse(&attribute(TCA_STATS_QUEUE, &[1, 2, 30])), [("drops", 30)]);
    }

    #[test]
    fn places_by_the_way_of_the_packets() {
        let link = |index, kind: Option<&str>, lower, master| Link {
            index,
            kind: kind.map(str::to_owned),
            lower,
            master,
            ..Link::default()
        };
        let links = [
            link(1, None, None, Some(4)),
            link(2, Some("vlan"), Some(4), None),
            link(3, Some("ifb"), None, None),
            link(4, Some("bond"), None, None),
            link(5, None, None, None),
        ];
        // A VLAN on a bond with one port: what it sends passes all three.
        for (device, want) in
            [(1, Stage::Qdisc), (2, Stage::Qdisc), (4, Stage::Qdisc), (3, Stage::DriverRxRing), (5, Stage::Unplaced)]
        {
            assert_eq!(place(&links, &links[1], &links[device - 1], TC_H_ROOT), want, "device {device}");
        }
        assert_eq!(place(&links, &links[4], &links[4], TC_H_INGRESS), Stage::SoftirqBacklog);
    }
}
