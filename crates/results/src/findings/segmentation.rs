//! GRO, TSO or GSO are off on a machine that ran out of CPU time.
//! Knows the kernel's feature names; a feature that the machine does not have is not missed.

use linerate_trial::spec::Workload;

use super::case::Case;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "segmentation",
    says: "GRO, TSO or GSO are off although they are there, and the machine is out of CPU time: each packet is handled by itself.",
    rests_on: "A TCP stream that came short, on a machine whose thread or CPU had no time left, with rx-gro (receiver), \
               tx-tcp-segmentation or tx-generic-segmentation (sender) off.",
    source: "Linux Documentation/networking/segmentation-offloads.rst.",
    suggests: &["gro", "tso", "gso"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short().filter(|_| case.is(Workload::TcpStream))?;
    let out = [
        (case.sender, "tx-tcp-segmentation", "tso"),
        (case.sender, "tx-generic-segmentation", "gso"),
        (case.receiver, "rx-gro", "gro"),
    ];
    let off: Vec<_> = out.into_iter().filter(|(side, feature, _)| side.offload(feature) == Some(false)).collect();
    let (side, feature, _) = *off.first()?;
    // On one machine, either end's thread pays for both.
    let clauses = case.sides().into_iter().find_map(|one| {
        let pays = one.end == side.end || case.shares_machine();
        one.out_of_cpu(case).filter(|_| pays)
    });
    let (most, clauses) = clauses?;
    let names: Vec<String> = off.iter().map(|(side, _, setting)| side.setting(setting)).collect();
    let sentence = format!("The {} handles each packet by itself: {} is off.", side.end, names.join(", "));
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
