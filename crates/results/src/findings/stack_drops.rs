//! The stack of either end threw packets away: wrong checksums, no port, no route, a filter that counts there.
//! Knows the counters' names; what they mean stands in the sentence.

use linerate_path::budget::{DropCause, LossLine};
use linerate_path::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "stack-drops",
    says: "The stack threw packets away: a wrong checksum, nobody at the port, no route, a packet that it did not believe.",
    rests_on: "A loss of at least 10 packets, and 5 % of what was lost, at the stages sender stack or receiver stack; of requests \
               over TCP any that were retransmitted.",
    source: "RFC 4293 (Ip), RFC 4113 (Udp); Linux Documentation/networking/snmp_counter.rst.",
    suggests: &["tx_checksum"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let lost = [(Stage::SenderStack, case.sender), (Stage::ReceiverStack, case.receiver)];
    let mut lost: Vec<_> = lost.into_iter().filter_map(|(stage, side)| Some((side, case.lost_at(stage)?))).collect();
    lost.sort_by(|a, b| a.1.part.total_cmp(&b.1.part));
    let (side, at) = lost.pop()?;
    let counted = |field: &str| at.any(|line| line.counts(field));
    let is_filtered = |line: &LossLine| {
        matches!(line.cause, Some(DropCause::Undelivered | DropCause::Untransmitted))
            || line.has_reason("NETFILTER_DROP")
            || line.is_dropped_by("nf_hook_slow")
    };
    let is_damaged_tcp = |line: &LossLine| {
        line.cause == Some(DropCause::TcpErrors)
            && side.counter("Tcp InCsumErrors").is_some_and(|errors| errors >= line.packets / 2)
    };
    let why = match () {
        () if counted("InCsumErrors") || at.any(is_damaged_tcp) => "its checksums were wrong",
        () if at.any(|line| matches!(line.cause, Some(DropCause::PolicyIn | DropCause::PolicyOut))) => {
            "its IPsec policies or states refused it (ip xfrm policy, ip xfrm state)"
        }
        () if counted("NoPorts") => "nobody listened at the port",
        () if counted("unresolved_discards") || at.any(|line| line.has_reason("NEIGH_*")) => {
            "its neighbour's hardware address was not known"
        }
        () if at.any(|line| line.cause == Some(DropCause::Untransmitted)) => {
            "a packet filter took it on its way out, for all that shows"
        }
        () if at.any(is_filtered) => "a packet filter took it, for all that shows",
        () if counted("InAddrErrors") => {
            "it was for an address that the machine does not have (ip addr), or came from one that cannot be"
        }
        () if counted("OutNoRoutes") || counted("InNoRoutes") => "there was no route",
        () if counted("ReversePathFilter") => "the reverse path filter did not believe the sender's address",
        () if counted("InTruncatedPkts") => "packets had been cut short on their way",
        () if counted("InHdrErrors") => "its headers were wrong",
        () if counted("ReasmFails") => "fragments were missing",
        () if counted("OutDiscards") && case.passes_elsewhere(side.end) => {
            "IP discarded it on its way out, as the interface does by which it leaves, if its queueing discipline is full \
             (tc -s qdisc; it is another one than this address's, as ip route get says)"
        }
        () if counted("OutDiscards") => {
            "IP discarded it on its way out, as a packet filter or a full queue below has it do"
        }
        () => "as the counters name it",
    };
    let sentence = format!("The {}'s stack threw away what it was handed: {why}.", side.end);
    let mut finding = RULE
        .finds(case, Some(side.end), case.sure_of(&at), at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(&at))
        .because_of(lost.iter().map(|(_, other)| format!("{}; {}", other.evidence(), case.of_loss(other))))
        .explains(&["retransmission-timeout"])
        .wrong_if("It is wrong if these counters grow as fast while no test runs: then other traffic moves them.");
    if counted("InCsumErrors") {
        // A MAC that fills checksums in wrongly is more common than a cable that spoils them and no CRC.
        finding = finding.attempt(case.sender.setting("tx_checksum"), "off", "loss");
    }
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use super::*;

    #[test]
    fn what_the_other_stack_dropped_stands_beside() {
        let all = cases::cases();
        let case = all.iter().find(|case| case.name == "a filter that takes all for half a second").unwrap();
        let mut record = case.record.clone();
        let of_sender = |line: &LossLine| LossLine { stage: Stage::SenderStack, packets: 1_000, ..line.clone() };
        let lines = record.loss_budget.as_mut().unwrap();
        let other = of_sender(&lines[0]);
        lines.push(other);
        let first = findings(&record).remove(0);
        let of_all: Vec<&String> =
            first.evidence.iter().filter(|clause| clause.contains("of all that was lost")).collect();
        assert!(first.name == RULE.name && of_all.len() == 2 && of_all[1].contains("; 19 % of"), "{first:?}");
    }

    #[test]
    fn a_route_that_is_missing_is_named() {
        let all = cases::cases();
        let case = all.iter().find(|case| case.name == "a route that went").unwrap();
        let found = findings(&case.record);
        let sentences: Vec<&str> = found.iter().map(|one| one.sentence.as_str()).collect();
        let dropped = found.iter().find(|one| one.name == RULE.name).unwrap();
        assert!(dropped.sentence.ends_with("there was no route."), "{sentences:?}");
        assert!(sentences[0].ends_with("on, when at the host a route to default was removed."), "{sentences:?}");
    }
}
