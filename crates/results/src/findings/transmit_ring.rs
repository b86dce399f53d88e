//! The sender's driver or MAC lost packets on their way out, or its socket refused them.
//! Knows the transmit ring's length.

use linerate_machine::environment::Nic;
use linerate_path::stage::Stage;

use super::case::Case;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "transmit-ring",
    says: "Packets are lost on the way out: refused by the sender's socket, its driver, or its MAC.",
    rests_on: "A loss of at least 10 packets, and 5 % of what was lost, at the stages sender socket, driver TX ring or MAC TX.",
    source: "Linux Documentation/networking/statistics.rst, tx_dropped, tx_fifo_errors, tx_aborted_errors; send(2), ENOBUFS.",
    suggests: &["ring.tx"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let stages = [Stage::SenderSocket, Stage::DriverTxRing, Stage::MacTx];
    let lost = stages.into_iter().filter_map(|stage| Some((stage, case.lost_at(stage)?)));
    let (stage, at) = lost.max_by(|a, b| a.1.part.total_cmp(&b.1.part))?;
    let side = case.sender;
    let sentence = match stage {
        Stage::SenderSocket => format!("The {}'s socket refused what it was given.", side.end),
        Stage::DriverTxRing if side.nic().is_some_and(Nic::is_tunnel) => format!(
            "The interface below the {}'s {} refused what it was given: its queueing discipline shapes, or was full (tc -s qdisc).",
            side.end,
            side.nic().map_or("tunnel", |nic| &nic.name)
        ),
        Stage::DriverTxRing => format!("The {}'s driver threw away what it was given to send.", side.end),
        _ => format!("The {}'s MAC failed to send.", side.end),
    };
    let mut finding = RULE
        .finds(case, Some(side.end), case.sure_of(&at), at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(&at))
        .wrong_if("It is wrong if the counter does not move when the other end sends in its place.");
    if let Some(ring) = side.nic().and_then(|nic| nic.rings.get("tx")).filter(|_| stage != Stage::MacTx)
        && let Some(max) = ring.max.filter(|max| *max > ring.current)
    {
        finding = finding.because(format!("the transmit ring has {} descriptors of at most {max}", ring.current));
        finding = finding.attempt(side.setting("ring.tx"), max.to_string(), "loss");
    }
    Some(finding)
}
