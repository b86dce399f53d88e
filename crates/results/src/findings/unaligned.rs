//! The sender's buffers are not aligned, and the stack copies them because the MAC cannot gather.
//! Knows what was asked of the buffers.

use super::case::Case;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "unaligned",
    says: "Buffers start at odd addresses, so that copies and bounce buffers of the sender cost more, and it is out of CPU time.",
    rests_on: "alignment below 64 bytes, a sender whose thread or CPU had no time left, and a trial that came short. Likely where \
               scatter-gather is off too, so that each packet is copied, else possible.",
    source: "Linux Documentation/core-api/unaligned-memory-access.rst; field reports on alignment and bounce buffers (XAPP941; \
             QCA9558, 2013).",
    suggests: &["alignment", "sg"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let alignment = case.asked.as_ref().map(|asked| asked.alignment).filter(|octets| *octets < 64)?;
    let (most, clauses) = case.sender.out_of_cpu(case)?;
    let gathers = case.sender.offload("tx-scatter-gather");
    let sure = if gathers == Some(false) { Sureness::Likely } else { Sureness::Possible };
    let end = case.sender.end;
    let sentence = format!("The {end}'s buffers are aligned to {alignment} bytes only, and it is out of CPU time.");
    let finding = RULE
        .finds(case, Some(end), sure, 0.9 * most, sentence)
        .because(format!("alignment is {alignment} bytes"))
        .because(format!("scatter-gather is {}", gathers.map_or("unknown", |on| if on { "on" } else { "off" })))
        .because_of(clauses)
        .because(short)
        .attempt("alignment", "4096", "throughput")
        .wrong_if("It is wrong if whole pages cost as much CPU time by KiB.")
        .explains(&["sender-cpu", "host-limits"]);
    Some(match gathers {
        Some(false) => finding.attempt(case.sender.setting("sg"), "on", "throughput"),
        _ => finding,
    })
}
