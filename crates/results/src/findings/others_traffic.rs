//! Others use the same interfaces.
//! Knows events; whose traffic it is nobody can tell.

use linerate_trial::event::EventKind;

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// From this share of the trial on.
const SHARE: f64 = 0.1;
/// Copies come unevenly, and with their headers.
const MOST_COPIES: f64 = 1.5;

pub(super) const RULE: Rule = Rule {
    name: "others-traffic",
    says: "Other traffic passes the same interface, and takes its share of the link, the queues and the CPU.",
    rests_on: "The event others-traffic for at least 10 % of the trial: bytes that an interface counted beyond the trial's own, in a trial \
               that lost something or came short.",
    source: "Linux Documentation/networking/statistics.rst, rx_bytes and tx_bytes.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is_troubled() {
        return None;
    }
    if let Some(surplus) = case.surplus_at_qdisc() {
        let end = case.sender.end;
        let sentence = format!("Other traffic fills the queue at the {end}'s egress as well.");
        return Some(
            RULE.finds(case, Some(end), Sureness::Likely, 0.9, sentence)
                .because(format!(
                    "the queueing discipline dropped {} packets, {surplus} more than the trial lost",
                    case.drops_seen()
                ))
                .because_of(case.short())
                .wrong_if("It is wrong if it drops as many more with nothing else on the interface.")
                .explains(&["qdisc-drops", "contradiction", "host-limits"]),
        );
    }
    let rate = |what: &EventKind| match what {
        EventKind::OthersTraffic { octets_per_s } => Some(*octets_per_s),
        _ => None,
    };
    let (end, most) =
        case.events().filter_map(|event| Some((event.end?, rate(&event.what)?))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (seconds, _) = case.held(|event| rate(&event.what).is_some() && event.end == Some(end));
    let share = (seconds / case.span_s()?).min(1.0);
    if share < SHARE {
        return None;
    }
    let own = case.throughput_bps().unwrap_or(0.0) / 8.0;
    // What the way doubles is no others'.
    let copies = case.duplicated().map_or(0.0, |(_, doubled)| own * doubled / (1.0 - doubled).max(0.01));
    if most <= MOST_COPIES * copies {
        return None;
    }
    let weight = share * (most / (most + own.max(1.0)));
    let sentence = format!("Other traffic of {} Mbit/s passes the {end}'s interface as well.", tidy(most * 8.0 / 1e6));
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, weight, sentence)
            .because(format!("it was there {} of the time", percent(share)))
            .because_of(case.short())
            .wrong_if("It is wrong if as much is lost, or as little comes through, with nothing else on the interface.")
            .explains(&["contradiction"]),
    )
}
