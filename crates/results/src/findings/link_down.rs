//! A link of the two ends was down for a part of the trial.
//! Knows changes of the carrier, and how long nothing arrived meanwhile.

use linerate_machine::end::End;
use linerate_trial::doubt::Silence;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::spec::Workload;

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};
use crate::outage::{self, CARRIER_CHANGES};

/// Silence that explains a smaller part of what went wrong is not what to look at first.
const PART: f64 = 0.05;

pub(super) const RULE: Rule = Rule {
    name: "link-down",
    says: "The link was down for a part of the trial: a cable, a plug, a port or a device that was set down.",
    rests_on: "Changes of an interface's carrier during the trial, and time in which nothing arrived: the longest gap between \
               datagrams, time slices without any, or a flow that died with its link; else as long as the carrier was lost; of a link that \
               went down more than once, all stalls together. Sure where \
               that time explains half of what was lost or missing: of TCP as fast as it goes, of what the best slice would have brought \
               all the time.",
    source: "Linux Documentation/ABI/testing/sysfs-class-net, carrier_changes.",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let (changes, in_middle) = (outage::carrier_changes(case.record), outage::middle_changes(case.record));
    let is_there = outage::is_link_changed(case.record) && case.is_troubled();
    let silence = outage::silence(case.record, case.flow()?).filter(|_| is_there)?;
    let (stalled_s, _) = case.held(|event| matches!(event.what, EventKind::Stall { .. }));
    let died_s = outage::died_with_link(case.record).map_or(0.0, |from_s| case.span_s().unwrap_or(from_s) - from_s);
    let stalled_s = stalled_s + died_s;
    let again = Some(times_down(case)).filter(|times| *times > 1 && stalled_s > silence.seconds);
    let share = (again.map_or(silence.seconds, |_| stalled_s) / case.span_s()?).min(1.0);
    // Of a steady stream as much is lost, or missing, as there was silence.
    let missing = missing_share(case).or_else(|| case.missing_transactions());
    let part = match (case.loss_ratio().filter(|_| case.loss().is_some()), missing) {
        (Some(lost), _) => (share / lost).min(1.0),
        (None, Some(_)) if share < PART => share,
        (None, Some(missing)) => (share / missing).min(1.0),
        (None, None) => share,
    };
    if part < PART {
        return None;
    }
    let sure = if part >= 0.5 { Sureness::Sure } else { Sureness::Likely };
    let machine = if let [(end, _)] = changes[..] { Some(end) } else { None };
    let counted = |(whose, count): (String, u64)| format!("{whose}: {CARRIER_CHANGES} {count}");
    let named = |(end, count): &(End, u64)| (end.to_string(), *count);
    let port = |(end, count): &(End, u64)| Some((case.record.middle.as_ref()?.name(*end), *count));
    let counted: Vec<String> =
        changes.iter().map(named).chain(in_middle.iter().filter_map(port)).map(counted).collect();
    let sentence = match again {
        Some(times) => format!(
            "The link was down {times} times during the trial, and nothing arrived for {} in all, {} at a time at most.",
            Silence { seconds: stalled_s, at_least: false }.words(),
            silence.words()
        ),
        None => format!("The link was down during the trial, and nothing arrived for {}.", silence.words()),
    };
    let finding = RULE
        .finds(case, machine, sure, part, sentence)
        .because(counted.join("; "))
        .because(format!("nothing arrived for {} of the measured time", percent(share)))
        .wrong_if("It is wrong if as much is lost while carrier_changes stands still.")
        // Packets wait in vain for a neighbour that is not there, and are dropped where nobody counts.
        .explains(&["neighbours", "stack-drops", "unaccounted", "qdisc-drops", "transmit-ring", "receive-ring"])
        // The queue before a link that is down runs over, and TCP's window is small after its timer.
        .explains(if sure == Sureness::Sure { &["middle-drops", "bottleneck", "lossy-path"] } else { &[] });
    Some(if changes.is_empty() { finding.on_middle() } else { finding })
}

/// How often a link lost its carrier, as the end that noticed it most often has it.
fn times_down(case: &Case<'_>) -> usize {
    let of = |end: End| {
        let is_lost = |event: &&Event| event.end == Some(end) && matches!(event.what, EventKind::CarrierLost { .. });
        case.events().filter(is_lost).count()
    };
    End::BOTH.into_iter().map(of).max().unwrap_or(0)
}

/// The share that did not come through; of TCP that goes as fast as it can, of what its best slice would have brought all the time.
fn missing_share(case: &Case<'_>) -> Option<f64> {
    if !case.is_unlimited() || !case.is(Workload::TcpStream) {
        return case.missing_share();
    }
    let slices =
        case.record.intervals.iter().filter_map(|slice| Some((slice.throughput_bps?, slice.end_s - slice.start_s)));
    let (best, bits, seconds) = slices.fold((0.0_f64, 0.0, 0.0), |(best, bits, seconds), (bps, span_s)| {
        (best.max(bps), bits + bps * span_s, seconds + span_s)
    });
    // One slice alone tells nothing.
    Some(1.0 - bits / (best * seconds)).filter(|share| *share > 0.0).or_else(|| case.missing_share())
}

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use super::*;
    use crate::record::Record;

    #[test]
    fn a_link_that_goes_down_again_and_again_has_all_its_silences_told() {
        let all = cases::cases();
        let mut record = all.iter().find(|case| case.name == "requests while a link is down").unwrap().record.clone();
        let event = |at_s: f64, for_s: f64, end: Option<End>, what: EventKind| Event {
            at_s,
            for_s: Some(for_s),
            within_s: 0.05,
            end,
            what,
        };
        record.duration_s = Some(4.0);
        record.events.clear();
        for at_s in [0.5, 1.5, 2.5] {
            let lost = EventKind::CarrierLost { interface: "eth0".to_owned() };
            record.events.push(event(at_s, 0.3, Some(End::Host), lost));
            record.events.push(event(at_s, 0.4, None, EventKind::Stall { direction: None, lost_share: None }));
        }
        let told = |record: &Record| {
            let one = findings(record).into_iter().find(|one| one.name == RULE.name).unwrap();
            (one.sentence, one.evidence[1].clone())
        };
        let (sentence, share) = told(&record);
        let said = "The link was down 3 times during the trial, and nothing arrived for 1.2 s in all, 0.40 s at a time at most.";
        assert_eq!((sentence.as_str(), share.as_str()), (said, "nothing arrived for 30 % of the measured time"));
        let died = EventKind::FlowDied { flow: 0, direction: None, lost_share: None };
        record.events.push(Event { at_s: 2.8, for_s: None, within_s: 0.05, end: None, what: died });
        assert!(
            told(&record).0.ends_with("nothing arrived for 2.4 s in all, 1.2 s at a time at most."),
            "{:?}",
            told(&record)
        );
        record.events.truncate(2);
        assert_eq!(told(&record).0, "The link was down during the trial, and nothing arrived for 0.40 s.");
    }

    #[test]
    fn transactions_that_are_missing_are_held_against_the_time_without_a_carrier() {
        let all = cases::cases();
        let case = all.iter().find(|case| case.name == "requests while a link is down").unwrap();
        let sure = |record: &Record| findings(record).into_iter().find(|one| one.name == RULE.name).map(|one| one.sure);
        assert_eq!(sure(&case.record), Some(Sureness::Sure));
        // As many came as were asked for.
        let mut whole = case.record.clone();
        whole.result.as_mut().unwrap().transactions_per_s = Some(200.0);
        assert_eq!(sure(&whole), None);
    }
}
