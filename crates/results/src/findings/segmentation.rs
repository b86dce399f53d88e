//! GRO, TSO or GSO are off, or hardly worth it, on a machine that ran out of CPU time.
//! Knows the kernel's feature names; a feature that the machine does not have is not missed, nor one without work to do.

use linerate_path::stage::Stage;
use linerate_trial::spec::Workload;

use super::case::{Case, Side};
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "segmentation",
    says: "GRO, TSO or GSO are off although they are there, and the machine is out of CPU time: each packet is handled by itself.",
    rests_on: "A TCP stream that came short, on a machine whose thread or CPU had no time left, with rx-gro (receiver), \
               tx-tcp-segmentation or tx-generic-segmentation (sender) off, and packets at its link no larger than its MTU on \
               average: over a veth buffers of 64 KiB pass whole, and there is nothing to merge. Or they are on, and the sender's interface takes trains of less \
               than 16 KiB (gso_max_size, gso_ipv4_max_size, gso_max_segments).",
    source: "Linux Documentation/networking/segmentation-offloads.rst; ip-link(8), gso_max_size and gso_max_segs.",
    suggests: &["gro", "tso", "gso", "gso_max_size", "gso_ipv4_max_size"],
    find,
};

/// Trains that are shorter cost a good part of what segmentation offload saves; the kernel's own limit is 64 KiB.
const LONG_TRAIN: u64 = 16 * 1024;

/// A sender whose interface takes short trains only, though it cuts them apart itself.
fn find_short_trains(case: &Case<'_>) -> Option<Finding> {
    let short = case.short().filter(|_| case.is(Workload::TcpStream))?;
    let (side, mss) = (case.sender, u64::from(case.tcp()?.mss.filter(|mss| *mss > 0)?));
    let nic = side.nic()?;
    let (name, size) = match nic.gso_ipv4_max_size.filter(|_| case.is_ipv4()) {
        Some(size) => ("gso_ipv4_max_size", Some(size)),
        None => ("gso_max_size", nic.gso_max_size),
    };
    let by_size = size.map_or(u64::MAX, |size| u64::from(size) / mss);
    let by_count = nic.gso_max_segments.map_or(u64::MAX, u64::from);
    let segments = by_size.min(by_count).max(1);
    let pays = |one: &Side<'_>| one.end == side.end || case.shares_machine();
    let (most, clauses) = case.sides().into_iter().filter(pays).find_map(|one| one.out_of_cpu(case))?;
    if segments.saturating_mul(mss) >= LONG_TRAIN {
        return None;
    }
    let limit = match by_count <= by_size {
        true => format!("gso_max_segs is {by_count} (ip -d link)"),
        false => format!("{name} is {} bytes", size.unwrap_or(0)),
    };
    let sentence = format!(
        "The {} hands TCP's segments to its interface {segments} at a time at most, where 64 KiB could go at once: {limit}.",
        side.end
    );
    let finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, most, sentence)
        .because_of(clauses)
        .because(short)
        .wrong_if("It is wrong if CPU time by KiB stays what it is with longer trains.")
        .explains(&["sender-cpu", "receiver-cpu", "host-limits", "receive-window", "softirq-cpu"]);
    Some(if by_count <= by_size { finding } else { finding.attempt(side.setting(name), "65536", "throughput") })
}

fn find(case: &Case<'_>) -> Option<Finding> {
    find_off(case).or_else(|| find_short_trains(case))
}

fn find_off(case: &Case<'_>) -> Option<Finding> {
    let short = case.short().filter(|_| case.is(Workload::TcpStream))?;
    let out = [
        (case.sender, "tx-tcp-segmentation", "tso"),
        (case.sender, "tx-generic-segmentation", "gso"),
        (case.receiver, "rx-gro", "gro"),
    ];
    let is_missed = |side: Side<'_>, feature| side.offload(feature) == Some(false) && !carries_buffers(case, side);
    let off: Vec<_> = out.into_iter().filter(|(side, feature, _)| is_missed(*side, feature)).collect();
    let (side, feature, _) = *off.first()?;
    let wanted = |side: Side<'_>| side.thread_shares(case).map_or(0.0, |(worked, waited)| worked + waited);
    // On one machine, either end's thread pays for both, but what a receiver might merge does not hold a sender up.
    if side.end == case.receiver.end && case.shares_machine() && wanted(case.receiver) < wanted(case.sender) {
        return None;
    }
    let clauses = case.sides().into_iter().find_map(|one| {
        let pays = one.end == side.end || case.shares_machine();
        one.out_of_cpu(case).filter(|_| pays)
    });
    let (most, clauses) = clauses?;
    let names: Vec<String> = off.iter().map(|(side, _, setting)| side.setting(setting)).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let sentence = format!("The {} handles each packet by itself: {} {are} off.", side.end, names.join(" and "));
    let mut finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, most, sentence)
        .because(format!(
            "{} of {} features are off that the {} could have: {feature} and its like",
            off.len(),
            out.len(),
            side.end
        ))
        .because_of(clauses)
        .because(short)
        .wrong_if("It is wrong if CPU time by KiB stays what it is with them on.")
        .explains(&["sender-cpu", "receiver-cpu", "host-limits", "receive-window", "softirq-cpu"]);
    for (side, _, name) in &off {
        finding = finding.attempt(side.setting(name), "on", "throughput");
    }
    Some(finding)
}

/// Whether the packets of the stream at this side's link are larger than a frame: uncut at a sender, merged at a receiver,
/// whatever the features say.
fn carries_buffers(case: &Case<'_>, side: Side<'_>) -> bool {
    let (stage, names) = match side.end == case.sender.end {
        true => (Stage::DriverTxRing, ["link tx_packets", "link tx_bytes"]),
        false => (Stage::DriverRxRing, ["link rx_packets", "link rx_bytes"]),
    };
    let [packets, octets] = names.map(|name| side.machine.counters.get(stage, name));
    let mtu = side.nic().and_then(|nic| nic.mtu);
    // An Ethernet header, two VLAN tags, and the FCS where a driver counts it.
    let frame = mtu.map(|mtu| u64::from(mtu) + 14 + 8 + 4);
    packets.zip(octets).zip(frame).is_some_and(|((packets, octets), frame)| octets > packets.saturating_mul(frame))
}
