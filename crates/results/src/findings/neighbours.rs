//! The table of neighbours has no room, or packets waited in vain for a neighbour's address.
//! Knows the counters of ARP and neighbour discovery.

use linerate_path::stage::Stage;
use linerate_trial::spec::Ip;

use super::case::Case;
use super::{Finding, Rule, Sureness};
use crate::outage;

pub(super) const RULE: Rule = Rule {
    name: "neighbours",
    says: "The table of neighbours (ARP, neighbour discovery) overflows, or packets wait in vain for an address.",
    rests_on: "arp_cache and ndisc_cache table_fulls, unresolved_discards or res_failed moved, and packets were lost at the \
               sender's stack, not while the link was down (link-down). Sure where the kernel gave neighbours as the reason of the drops, likely \
               where the counters account for at least half of what that stage lost, else possible.",
    source: "Linux Documentation/networking/ip-sysctl.rst, neigh/default/gc_thresh3 and unres_qlen_bytes; arp(7); \
             net/core/neighbour.c (neigh_invalidate).",
    suggests: &["sysctl.net.ipv4.neigh.default.gc_thresh3", "sysctl.net.ipv6.neigh.default.gc_thresh3"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let is_v6 = case.asked.as_ref().is_some_and(|asked| asked.ip == Some(Ip::V6));
    let (table, ip) = if is_v6 { ("ndisc_cache", "ipv6") } else { ("arp_cache", "ipv4") };
    let count = |name: &str| case.sender.counter(&format!("{table} {name}")).unwrap_or(0);
    let (full, discarded, failed) = (count("table_fulls"), count("unresolved_discards"), count("res_failed"));
    if (full, discarded, failed) == (0, 0, 0) {
        return None;
    }
    // Nobody answers over a link that is down: that is the cause, and this its consequence.
    let was_down = !outage::carrier_changes(case.record).is_empty();
    if full == 0 && was_down && outage::silence(case.record, case.flow()?).is_some() {
        return None;
    }
    // Without a route nobody asks for an address.
    let lost = case.lost_by(Stage::SenderStack, |line| !line.counts("OutNoRoutes"))?;
    let end = case.sender.end;
    let name = format!("net.{ip}.neigh.default.gc_thresh3");
    let limit = case.sender.sysctl_number(&name);
    let sentence = match full {
        0 => format!("The {end} threw packets away while it waited for its neighbour's hardware address in vain."),
        _ => format!("The {end}'s table of neighbours is full."),
    };
    let sure = match () {
        () if lost.any(|line| line.has_reason("NEIGH_*")) => case.sure_of(&lost),
        () if full.saturating_add(discarded) < lost.packets.div_ceil(2) => Sureness::Possible,
        () => Sureness::Likely,
    };
    let mut finding = RULE
        .finds(case, Some(end), sure, lost.part, sentence)
        .because(format!(
            "{end}: {table} table_fulls {full}, unresolved_discards {discarded}, and {failed} times no answer (res_failed)"
        ))
        .because_of(limit.map(|limit| format!("{name} is {limit}")))
        .because(lost.evidence())
        .wrong_if(
            "It is wrong if a permanent entry for the other end (ip neigh replace … nud permanent) changes nothing, or if the \
             other end answers throughout (arping).",
        )
        .explains(&["stack-drops", "unaccounted"]);
    if full > 0 {
        let more = limit.unwrap_or(1024).saturating_mul(8).to_string();
        finding = finding.attempt(case.sender.setting(&format!("sysctl.{name}")), more, case.metric());
    }
    Some(finding)
}
