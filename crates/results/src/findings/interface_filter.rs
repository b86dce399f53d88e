//! A program or a filter at the receiver's interface threw packets away: XDP, or tc.
//! Knows the names of drivers' counters and of the kernel's reasons, not what the program is for.

use linerate_path::budget::{DropCause, LossLine};
use linerate_path::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "interface-filter",
    says: "A program at the receiver's interface threw packets away before the stack saw them: XDP, or a filter of tc.",
    rests_on: "A loss of at least 10 packets, and 5 % of what was lost, by a driver's XDP counters, by the drops of an ingress \
               queue, or by the kernel's reasons XDP and TC_INGRESS (drop_reasons=on).",
    source: "Linux Documentation/networking/statistics.rst; include/net/dropreason-core.h; tc-bpf(8), tc-u32(8).",
    suggests: &[],
    find,
};

/// Reasons of the kernel, and where it dropped what it gave none for (net/core/dev.c).
fn find(case: &Case<'_>) -> Option<Finding> {
    let is_xdp = |line: &LossLine| {
        line.cause == Some(DropCause::Xdp)
            || ["XDP", "TC_INGRESS"].iter().any(|reason| line.has_reason(reason))
            || ["do_xdp_generic", "netif_receive_generic_xdp"].iter().any(|function| line.is_dropped_by(function))
    };
    let is_tc = |line: &LossLine| is_xdp(line) || !is_backlog(line);
    let at = [case.lost_by(Stage::DriverRxRing, is_xdp), case.lost_by(Stage::SoftirqBacklog, is_tc)];
    let at = at.into_iter().flatten().max_by(|a, b| a.part.total_cmp(&b.part))?;
    let end = case.receiver.end;
    let sentence = format!("A program at the {end}'s interface threw packets away: XDP, or a filter of tc.");
    Some(
        RULE.finds(case, Some(end), case.sure_of(&at), at.part, sentence)
            .because(at.evidence())
            .because(case.of_loss(&at))
            .wrong_if(
                "It is wrong if as many are dropped without the program (ip link set dev … xdp off; tc qdisc del dev … \
                 ingress).",
            ),
    )
}

/// Whether these packets found the queue of another CPU full.
pub(super) fn is_backlog(line: &LossLine) -> bool {
    line.cause == Some(DropCause::Backlog)
}
