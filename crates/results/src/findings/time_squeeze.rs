//! The softirq that takes packets in was stopped by its budget while more were there.
//! Knows the counter; it is of the whole machine.

use linerate_path::stage::Stage;

use super::case::{Case, tidy};
use super::{Finding, Rule, Sureness};

/// Each costs up to a jiffy (1 to 10 ms) before the rest is taken in, so a hundred a second are a good part of the time.
const A_SECOND: f64 = 100.0;

pub(super) const RULE: Rule = Rule {
    name: "time-squeeze",
    says: "The softirq that empties the receive ring is stopped by its budget while there is more to do.",
    rests_on: "softnet time_squeeze grew by at least 100 a second, and packets were lost at the driver RX ring or the MAC RX \
               FIFO.",
    source: "Linux Documentation/admin-guide/sysctl/net.rst, netdev_budget and netdev_budget_usecs.",
    suggests: &["sysctl.net.core.netdev_budget", "sysctl.net.core.netdev_budget_usecs"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let side = case.receiver;
    let squeezed = side.counter("softnet time_squeeze")?;
    let a_second = squeezed as f64 / case.whole_s()?;
    let lost = [Stage::DriverRxRing, Stage::MacRxFifo].into_iter().filter_map(|stage| case.lost_at(stage));
    let at = lost.max_by(|a, b| a.part.total_cmp(&b.part))?;
    if a_second < A_SECOND {
        return None;
    }
    let budget = side.sysctl_number("net.core.netdev_budget").unwrap_or(300);
    let time = side.sysctl_number("net.core.netdev_budget_usecs").unwrap_or(2000);
    let sentence = format!("The {}'s softirq stops taking packets in before the ring is empty.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, at.part, sentence)
            .because(format!("{}: softnet time_squeeze {squeezed}, {} a second", side.end, tidy(a_second)))
            .because(format!("it may take {budget} packets or {time} µs at a time"))
            .because(at.evidence())
            .attempt(side.setting("sysctl.net.core.netdev_budget"), (budget * 4).to_string(), case.metric())
            .attempt(side.setting("sysctl.net.core.netdev_budget_usecs"), (time * 4).to_string(), case.metric())
            .wrong_if("It is wrong if time_squeeze falls with a larger budget and as many packets are lost.")
            .explains(&["receive-ring", "fifo-overrun"]),
    )
}
