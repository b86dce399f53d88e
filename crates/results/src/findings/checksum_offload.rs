//! Checksum offload is off on a machine that ran out of CPU time.
//! Knows the kernel's feature names.

use linerate_trial::spec::{Ip, Workload};

use super::case::Case;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "checksum-offload",
    says: "The CPU computes checksums that the MAC could, and it is out of time.",
    rests_on: "A stream over TCP or UDP that came short or lost datagrams, on a machine whose thread or CPU had no time left, with its checksum \
               feature off: tx-checksum-* of the sender (not of one that sent all the datagrams that were asked), rx-checksum of the receiver.",
    source: "Linux Documentation/networking/checksum-offloads.rst.",
    suggests: &["tx_checksum", "rx_checksum"],
    find,
};

/// Each with the only version of IP that it is for.
const OUT: [(&str, Option<Ip>); 3] =
    [("tx-checksum-ip-generic", None), ("tx-checksum-ipv4", Some(Ip::V4)), ("tx-checksum-ipv6", Some(Ip::V6))];

fn find(case: &Case<'_>) -> Option<Finding> {
    // Of requests a busy CPU is no limit: they wait for each other. A frame goes as it was made: no kernel looks at what it carries.
    if !case.is_troubled() || !matches!(case.record.workload, Workload::TcpStream | Workload::UdpStream) {
        return None;
    }
    let used = case.asked.as_ref().and_then(|asked| asked.ip);
    let is_used = |ip: Option<Ip>| ip.is_none() || used.is_none() || ip == used;
    let sends = OUT.into_iter().find(|(name, ip)| is_used(*ip) && case.sender.offload(name) == Some(false));
    // Whoever sent all the datagrams that were asked had the time for their checksums.
    let sends = sends.map(|(name, _)| name).filter(|_| !case.has_sent_all());
    let takes = Some("rx-checksum").filter(|name| case.receiver.offload(name) == Some(false));
    let of = |feature: Option<&'static str>, side, setting| Some((feature?, side, setting));
    [of(sends, case.sender, "tx_checksum"), of(takes, case.receiver, "rx_checksum")].into_iter().flatten().find_map(
        |(feature, side, setting): (&str, super::case::Side<'_>, &str)| {
            let (most, clauses) = side.out_of_cpu(case)?;
            let sentence = format!("The {}'s CPU computes checksums that its MAC could.", side.end);
            // Without checksums the kernel turns TSO off too (net/core/dev.c, netdev_fix_features).
            let without_tso = case.is(Workload::TcpStream)
                && setting == "tx_checksum"
                && side.offload("tx-tcp-segmentation") == Some(false);
            Some(
                RULE.finds(case, Some(side.end), Sureness::Likely, 0.8 * most, sentence)
                    .because(format!("{feature} is off at the {} (1 feature that it could have)", side.end))
                    .because_of(without_tso.then(|| "TSO is off too, which needs them".to_owned()))
                    .because_of(clauses)
                    .because_of(case.short())
                    .attempt(side.setting(setting), "on", case.metric())
                    .wrong_if("It is wrong if CPU time by KiB stays what it is with it on.")
                    .explains(match without_tso {
                        true => &["segmentation", "sender-cpu", "receiver-cpu", "host-limits"],
                        false => &["sender-cpu", "receiver-cpu", "host-limits"],
                    }),
            )
        },
    )
}
