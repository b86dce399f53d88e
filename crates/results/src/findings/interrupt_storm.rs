//! An interrupt for nearly every packet, and a CPU without time.
//! Knows interrupt counts and coalescing.

use linerate_path::stage::Stage;

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// From this many interrupts a packet on nothing is coalesced, and from this many a second on it costs: at about 2 µs each,
/// 4 % of a fast CPU, and far more of a board's.
const A_PACKET: f64 = 0.5;
const A_SECOND: f64 = 20_000.0;

pub(super) const RULE: Rule = Rule {
    name: "interrupt-storm",
    says: "The interface interrupts for nearly every packet, because coalescing is off.",
    rests_on: "At least one interrupt for two packets and 20,000 a second, rx_usecs at most 1 and no adaptive coalescing, on a \
               machine out of CPU time (a CPU 95 % busy, or its threads).",
    source: "ethtool(8), --coalesce; Linux Documentation/networking/napi.rst.",
    suggests: &["coalesce.rx_usecs"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is_troubled() {
        return None;
    }
    case.sides().into_iter().rev().find_map(|side| {
        let (_, clauses) = side.out_of_cpu(case)?;
        let interrupts = side.sum(Stage::DriverRxRing, |name| name.starts_with("irq "))?;
        let packets = side.counter("link rx_packets")?.saturating_add(side.counter("link tx_packets")?);
        let (a_packet, a_second) = (interrupts as f64 / packets.max(1) as f64, interrupts as f64 / case.whole_s()?);
        let set = |name: &str| side.nic()?.coalescing.get(name).copied();
        if a_packet < A_PACKET || a_second < A_SECOND || set("rx-usecs")? > 1 || set("adaptive-rx") == Some(1) {
            return None;
        }
        let sentence = format!("The {}'s interface interrupts for nearly every packet.", side.end);
        Some(
            RULE.finds(case, Some(side.end), Sureness::Likely, a_packet.min(1.0), sentence)
                .because(format!("{interrupts} interrupts for {packets} packets, {} a second", tidy(a_second)))
                .because(format!("coalesce.rx_usecs is {}", set("rx-usecs")?))
                .because_of(side.busiest().map(|(number, cpu)| {
                    format!("CPU {number}: {} in interrupts, {} in softirqs", percent(cpu.irq), percent(cpu.softirq))
                }))
                .because_of(clauses)
                .attempt(side.setting("coalesce.rx_usecs"), "50", case.metric())
                .wrong_if("It is wrong if fewer interrupts let no more through.")
                .explains(&[
                    "sender-cpu",
                    "receiver-cpu",
                    "softirq-cpu",
                    "receive-ring",
                    "host-limits",
                    "receiver-starved",
                    "sender-starved",
                ]),
        )
    })
}
