//! What went wrong for the user, in one sentence, or that nothing did.
//! Knows what was wanted and what came; names no cause.

use std::collections::BTreeSet;

use linerate_machine::end::Direction;
use linerate_trial::event::{Event, EventKind};
use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use crate::record::{FlowFigures, Record};

/// What is to be explained, or that there is nothing to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    /// Whether something went wrong for the user.
    pub is_there: bool,
    /// What, or that nothing did, in one sentence.
    pub sentence: String,
}

/// What went wrong in a trial.
pub fn symptom(record: &Record) -> Symptom {
    match wrong(record) {
        Some(sentence) => Symptom { is_there: true, sentence },
        None => Symptom { is_there: false, sentence: calm(record) },
    }
}

fn wrong(record: &Record) -> Option<String> {
    if let Some(error) = &record.error {
        return Some(format!("The trial failed: {error}."));
    }
    let mut clauses: Vec<String> = Vec::new();
    let died = record.events.iter().find(|event| matches!(event.what, EventKind::FlowDied { .. }));
    clauses.extend(died.map(|event| format!("{} at {} s", event.what, tidy(event.at_s))));
    let stalls = record.events.iter().filter(|event| matches!(event.what, EventKind::Stall { .. }));
    let stalled_s = stalls.filter_map(|event| event.for_s).sum::<f64>();
    if stalled_s > 0.0 {
        clauses.push(format!("nothing arrived for {} s in mid-trial", tidy(stalled_s)));
    }
    for case in Case::of(record) {
        let way = if record.direction == Direction::Both { format!("{}: ", case.way) } else { String::new() };
        if let Some(loss) = case.loss() {
            let lost = case.flow().and_then(|flow| flow.packets_lost).unwrap_or(loss.packets);
            clauses.push(format!("{way}{lost} {}, {} of those sent, were lost", case.noun(), percent(loss.ratio)));
        }
        if let Some((copies, share)) = case.duplicated() {
            clauses.push(format!("{way}{copies} arrived twice, {} of the {}", percent(share), case.noun()));
        }
        if let Some((late, share)) = case.overtaken() {
            let what = if case.is(Workload::TcpStream) { "arrived out of order" } else { "were overtaken" };
            clauses.push(format!("{way}{late} {what}, {} of the {}", percent(share), case.noun()));
        }
        if let Some(waited) = case.waited_for_timer() {
            let last = if waited.is_left { ", the last of which was not there at the end" } else { "" };
            clauses.push(format!("{} of {} answers took 0.2 s or more{last}", waited.all(), waited.of()));
        }
        if let Some(share) = case.retransmitted() {
            clauses.push(format!("{way}{} of the segments were retransmitted", percent(share)));
        }
        if let Some(share) = case.tcp_loss().filter(|_| case.retransmitted().is_none()) {
            clauses.push(format!("{way}{} of the segments that TCP sent did not arrive", percent(share)));
        }
        clauses.extend(case.short().map(|short| format!("{way}{short}")));
        clauses.extend(case.seldom());
        if let Some((path, ..)) = case.fragmented_by_path() {
            clauses.push(format!(
                "{way}datagrams were cut into fragments, for the way carries packets of {path} bytes only"
            ));
        }
    }
    // Of requests and their answers some are the same.
    let mut said = BTreeSet::new();
    clauses.retain(|clause| said.insert(clause.clone()));
    (!clauses.is_empty()).then(|| format!("{}.", capital(&clauses.join("; "))))
}

/// What limits, by the time budget's largest lines of each direction: one sentence. Absent where nobody looked.
pub fn limit(record: &Record) -> Option<String> {
    let largest = |way: Direction| record.time_budget.iter().find(|line| line.direction == way);
    let both = largest(Direction::Tx).is_some() && largest(Direction::Rx).is_some();
    let clause = |way: Direction| {
        let line = largest(way)?;
        let of = if both { format!("{way}: ") } else { String::new() };
        Some(format!("{of}{}, {} of the time", line.clause(), percent(line.share)))
    };
    let clauses: Vec<String> = [Direction::Tx, Direction::Rx].into_iter().filter_map(clause).collect();
    let what = match record.workload {
        // What is sent and does not arrive in time, another may limit.
        Workload::UdpStream | Workload::Frames => "What limited the sender",
        Workload::TcpStream => "What limited",
        Workload::TcpRr | Workload::UdpRr | Workload::TcpCrr => "Where most of the time went",
    };
    (!clauses.is_empty()).then(|| format!("{what}: {}.", clauses.join("; ")))
}

/// What came through of a trial in which nothing went wrong; what happened in it, though it did no harm, is said.
fn calm(record: &Record) -> String {
    let cases = Case::of(record);
    let case = &cases[0];
    let (got, of) = match (case.asked_bps(), case.throughput_bps(), case.line_bps()) {
        (Some(asked), Some(got), _) if asked.is_finite() => {
            (got, format!("{} Mbit/s that were asked", tidy(asked / 1e6)))
        }
        (Some(_), Some(got), Some(line)) => (got, format!("the {} Mbit/s that the link carries", tidy(line / 1e6))),
        _ => {
            return match case.latency().and_then(|latency| latency.percentiles.get("p50")) {
                Some(median) => format!("Half of the answers came within {} µs.", tidy(median * 1e6)),
                None => "There is nothing to explain.".to_owned(),
            };
        }
    };
    let came = format!("{} of {of} came through", tidy(got / 1e6));
    let harmless = |event: &&Event| matches!(event.what, EventKind::ClockStepped { .. } | EventKind::More { .. });
    match record.events.iter().find(|event| !harmless(event)) {
        Some(event) => format!("{came}. But at {event}."),
        None => match lost(&cases).filter(|_| record.workload.is_stream()) {
            Some(lost) => format!("{came}, and {lost}."),
            None => format!("Nothing went wrong: {came}."),
        },
    }
}

/// The few that were lost, where that is nothing to explain.
fn lost(cases: &[Case<'_>]) -> Option<String> {
    let sum = |of: fn(&FlowFigures) -> Option<u64>| cases.iter().filter_map(|case| of(case.flow()?)).sum::<u64>();
    let (lost, sent) = (sum(|flow| flow.packets_lost), sum(|flow| flow.packets_sent));
    let verb = if lost == 1 { "was" } else { "were" };
    (lost > 0).then(|| format!("{lost} of {sent} {} {verb} lost", cases[0].noun()))
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use linerate_trial::doubt::Doubted;

    use super::*;
    use crate::findings::missing_facts;
    use crate::sample;

    #[test]
    fn few_that_are_lost_are_told() {
        let mut record = sample::udp(0, Direction::Rx, 300, 300.0);
        assert!(symptom(&record).sentence.starts_with("Nothing went wrong: 300 of 300 Mbit/s"));
        let flow = &mut record.result.as_mut().unwrap().flow;
        let sent = flow.packets_sent.unwrap();
        (flow.packets_lost, flow.loss_ratio) = (Some(2), Some(2.0 / sent as f64));
        let wants = format!("300 of 300 Mbit/s that were asked came through, and 2 of {sent} datagrams were lost.");
        assert_eq!(symptom(&record), Symptom { is_there: false, sentence: wants });
    }

    #[test]
    fn no_figure_is_held_against_a_speed_that_it_exceeds() {
        let check = |mbit: f64, emulated: bool, wants: &str| {
            let mut record = sample::tcp(0, Direction::Rx, mbit, false);
            for machine in [&mut record.target, &mut record.host] {
                let nic = machine.environment.nic.as_mut().unwrap();
                (nic.kind, nic.speed_mbps) = (None, Some(100));
            }
            record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap().retransmissions = 0;
            if emulated {
                record.doubts.push(Doubted::Emulated.into());
            }
            assert_eq!(symptom(&record).sentence, wants);
            missing_facts::absent(&record)
                .into_iter()
                .any(|absent| absent.what.contains("tell 100 Mbit/s, and 166 came through"))
        };
        assert!(!check(94.0, false, "Nothing went wrong: 94.0 of the 94.1 Mbit/s that the link carries came through."));
        assert!(check(166.0, false, "166 Mbit/s came through, with no rate limit set."));
        assert!(check(166.0, true, "166 Mbit/s came through, with no rate limit set."));
        // An emulated MAC waits for no cable, however fast it is.
        assert!(!check(50.0, true, "50.0 Mbit/s came through, with no rate limit set."));
    }
}
