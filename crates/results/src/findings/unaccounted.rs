//! Packets are missing that no counter explains: between which two places, if link counters say so.
//! Knows how many packets each end's link counted; names no cause that nothing shows.

use linerate_path::stage::Stage;

use super::case::{Case, FEW, Loss, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::record::PathLine;

/// From this part of the loss on.
const PART: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    name: "unaccounted",
    says: "Packets vanished where no counter sees: before the sender's link (its stack), between the two links (a switch, a \
           cable, a MAC that counts nothing), or behind the receiver's (a firewall, an XDP program).",
    rests_on: "At least 10 datagrams, and 10 % of what was lost, unaccounted for. Where: the sender's link tx_packets against \
               the receiver's link rx_packets, which must agree with it to a fifth, and what the sender's socket took against its link tx_packets.",
    source: "Linux Documentation/networking/statistics.rst, rx_packets and tx_packets.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let loss = case.loss()?;
    let missing = u64::try_from(case.unaccounted()?).ok()?;
    let part = missing as f64 / loss.packets as f64;
    if missing < FEW.min(loss.packets) || part < PART || case.record.loss_budget.is_none() {
        return None;
    }
    let out = case.sender.sum(Stage::DriverTxRing, |name| name == "link tx_packets");
    let came = case.receiver.sum(Stage::DriverRxRing, |name| name == "link rx_packets");
    let before = before_the_link(case).zip(out).map(|(taken, out)| taken.saturating_sub(out) as f64 / missing as f64);
    let between = out.zip(came).map(|(out, came)| out.saturating_sub(came) as f64 / missing as f64);
    let (sender, receiver) = (case.sender.end, case.receiver.end);
    let (machine, sentence) = match between {
        // The link counts other packets too, so this is at least what is missing there.
        _ if before.is_some_and(|before| before >= 0.5) => (
            Some(sender),
            format!("Packets vanished in the {sender} before its link: in its stack, where no counter saw them."),
        ),
        Some(between) if between >= 0.8 => (
            None,
            "Packets vanished between the two links: a switch, the cable, or a MAC that does not count what it drops."
                .to_owned(),
        ),
        Some(between) if between <= 0.2 => (
            Some(receiver),
            format!(
                "Packets vanished in the {receiver} behind its link: a firewall, an XDP program, or another filter."
            ),
        ),
        _ => (None, "Packets vanished, and no counter says where.".to_owned()),
    };
    let sure = if between.is_some() { Sureness::Likely } else { Sureness::Possible };
    let known = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
    Some(
        RULE.finds(case, machine, sure, part, sentence)
            .because(format!("{missing} {} are unaccounted for, {} of what was lost", case.noun(), percent(part)))
            .because_of(pattern(case, &loss))
            .because(format!("{sender}: link tx_packets {}; {receiver}: link rx_packets {}", known(out), known(came)))
            .wrong_if(match machine {
                Some(end) if end == sender => {
                    "It is wrong if its kernel traces no drops of its own (drop_reasons=on) while as many vanish."
                }
                Some(_) => {
                    "It is wrong if as many vanish without firewall rules and XDP programs (nft list ruleset, ip link)."
                }
                None => "It is wrong if as many vanish over a cable from one end to the other, with nothing between.",
            }),
    )
}

/// How the loss is spread: one by one at random, at regular distances as a rate limit does, or in bursts.
fn pattern(case: &Case<'_>, loss: &Loss) -> Option<String> {
    let bursts = &case.flow()?.loss_bursts;
    let runs: u64 = bursts.values().sum();
    let lost: u64 = bursts.iter().map(|(length, count)| length * count).sum();
    if runs < ENOUGH_RUNS || lost == 0 {
        return None;
    }
    let mean = lost as f64 / runs as f64;
    // Of losses that do not depend on each other runs are as long as this.
    let independent = 1.0 / (1.0 - loss.ratio).max(0.01);
    let single = bursts.get(&1).copied().unwrap_or(0) as f64 / runs as f64;
    Some(match () {
        () if mean > 3.0 * independent => {
            format!("they vanished in bursts, {} at a time on average", tidy(mean))
        }
        () if loss.ratio >= REGULAR_FROM && single > 1.0 - loss.ratio / 4.0 => {
            "they vanished one by one at regular distances, as a limit of rate on the way has it: measure at half the rate"
                .to_owned()
        }
        () => "they vanished at random, one by one".to_owned(),
    })
}

/// Fewer runs have no pattern.
const ENOUGH_RUNS: u64 = 30;
/// Of a smaller share that is lost at random, few runs are longer than one.
const REGULAR_FROM: f64 = 0.04;

/// What the sender's socket took less what its stack is known to have dropped: so many packets should leave by its link.
/// Not where buffers are cut apart on the way.
fn before_the_link(case: &Case<'_>) -> Option<u64> {
    let segments = case.flow()?.sender_api.as_ref().and_then(|api| api.segments).unwrap_or(1);
    let of_socket = |line: &&PathLine| line.direction == case.way && line.passage.stage == Stage::SenderSocket;
    let taken = case.record.path.iter().find(of_socket).filter(|_| segments <= 1)?.passage.packets;
    Some(taken.saturating_sub(case.dropped_between(Stage::SenderStack, Stage::DriverTxRing)))
}
