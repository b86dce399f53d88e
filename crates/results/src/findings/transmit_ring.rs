//! The sender's driver or MAC lost packets on their way out, or its socket refused them.
//! Knows the transmit ring's length.

use linerate_machine::environment::Nic;
use linerate_path::stage::Stage;

use super::case::{Case, tidy};
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
    let change = case.way_changes().find(|event| event.end == Some(side.end));
    let sentence = match (stage, change) {
        (Stage::SenderSocket, Some(event)) => format!(
            "The {}'s socket refused what it was given, and at {} s {}.",
            side.end,
            tidy(event.at_s),
            event.what
        ),
        (Stage::SenderSocket, None) => format!("The {}'s socket refused what it was given.", side.end),
        (Stage::DriverTxRing, _) if side.nic().is_some_and(Nic::is_tunnel) => format!(
            "The interface below the {}'s {} refused what it was given: its queueing discipline shapes, or was full (tc -s qdisc).",
            side.end,
            side.nic().map_or("tunnel", |nic| &nic.name)
        ),
        (Stage::DriverTxRing, _) => format!("The {}'s driver threw away what it was given to send.", side.end),
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

#[cfg(test)]
mod tests {
    use linerate_machine::end::{Direction, End};
    use linerate_path::budget::{Chain, MachineAccount, drops_seen};

    use super::super::{Sureness, cases, findings};
    use super::*;
    use crate::record::{Counted, Losses};
    use crate::sample;

    #[test]
    fn a_route_that_changed_is_why_the_socket_refused() {
        let all = cases::cases();
        let case = all.iter().find(|case| case.name == "a route that became unreachable for half a second").unwrap();
        let mut record = case.record.clone();
        // Of an end whose thread had no CPU there is no silence.
        record.events.remove(1);
        let first = findings(&record).remove(0);
        let says = "socket refused what it was given, and at 0.63 s a route to 10.0.0.2/32 was added or changed.";
        assert!(first.name == RULE.name && first.sentence.ends_with(says), "{first:?}");
        record.events.clear();
        assert!(findings(&record).remove(0).sentence.ends_with("socket refused what it was given."));
    }

    #[test]
    fn of_a_drop_or_two_nothing_is_sure() {
        let sure = |lost: u64| {
            let mut record = sample::rr(0, "64");
            record.doubts.clear();
            record.host.counters.add(Stage::DriverTxRing, "link tx_dropped", lost);
            let way = |direction, of, arrived| Losses { direction, of, sent: 100, arrived, unaccounted: 0 };
            let there = way(Direction::Rx, Counted::Requests, 100 - lost);
            record.losses = vec![there, way(Direction::Tx, Counted::Answers, 100)];
            let [target, host] = [&record.target, &record.host].map(|machine| &machine.counters);
            let (sender, receiver) =
                (MachineAccount::new(End::Host, host, None), MachineAccount::new(End::Target, target, None));
            record.loss_budget = Some(drops_seen(false, Some(lost), Chain::direct(&sender, &receiver)).lines);
            (record.unaccounted, record.result.as_mut().unwrap().transactions_per_s) = (Some(0), Some(50.0));
            record.result.as_mut().unwrap().latency.as_mut().unwrap().timeouts = Some(lost);
            findings(&record).into_iter().find(|one| one.name == RULE.name).map(|one| one.sure)
        };
        assert_eq!([2, 4].map(sure), [Some(Sureness::Likely), Some(Sureness::Sure)]);
    }
}
