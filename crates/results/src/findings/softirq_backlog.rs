//! The queue between the CPU that takes packets in and the CPU that handles them ran full.
//! Knows the counter of /proc/net/softnet_stat, by way of the loss budget.

use linerate_path::stage::Stage;

use super::case::Case;
use super::interface_filter::is_backlog;
use super::{Finding, Rule};

const NAME: &str = "net.core.netdev_max_backlog";

pub(super) const RULE: Rule = Rule {
    name: "softirq-backlog",
    says: "The softirq backlog ran full: the queue of packets that RPS, a veth or the loopback hands to another CPU.",
    rests_on: "A loss of at least 10 packets, and 5 % of what was lost (or of the segments that TCP retransmitted), at the stage \
               softirq backlog, by softnet's counter or the kernel's reason CPU_BACKLOG.",
    source: "Linux Documentation/admin-guide/sysctl/net.rst, netdev_max_backlog; net/core/dev.c, enqueue_to_backlog.",
    suggests: &["sysctl.net.core.netdev_max_backlog"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_by(Stage::SoftirqBacklog, is_backlog)?;
    let side = case.receiver;
    let limit = side.sysctl_number(NAME);
    let more = limit.unwrap_or(1000).saturating_mul(10).max(1000);
    let sentence = format!("The {}'s softirq backlog ran full.", side.end);
    Some(
        RULE.finds(case, Some(side.end), case.sure_of(&at), at.part, sentence)
            .because(at.evidence())
            .because(case.of_loss(&at))
            .because_of(limit.map(|limit| format!("{NAME} is {limit} packets for each CPU")))
            .attempt(side.setting(&format!("sysctl.{NAME}")), more.to_string(), case.metric())
            .wrong_if("It is wrong if as many are dropped with a longer backlog: then the CPU behind it is too slow."),
    )
}
