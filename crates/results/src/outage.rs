//! Links that went down in mid-trial, and the time in which nothing arrived.
//! Knows what counters, arrivals and time slices say of it, and nothing of what else went wrong.

use linerate_machine::end::End;
use linerate_path::stage::{Counters, Stage};
use linerate_trial::doubt::{Doubt, Doubted, Silence};
use linerate_trial::event::EventKind;

use crate::record::{FlowFigures, Interval, Record};

/// What counts how often an interface lost its carrier or got it back.
pub const CARRIER_CHANGES: &str = "link carrier_changes";

/// Silence that is told without a link that went down, seconds: shorter ones a busy receiver makes, too.
const LONG_S: f64 = 1.0;
/// Silence that is told beside one: about what the quickest link takes to come up.
const SHORT_S: f64 = 0.05;
/// Silence is so many times what usually passes between arrivals.
const UNUSUAL: f64 = 50.0;
/// A flow that dies with its link does so within this time of it, seconds.
const ABOUT_THEN_S: f64 = 0.5;

/// The ends whose link lost its carrier, or got it back, during the trial, and how often.
pub fn carrier_changes(record: &Record) -> Vec<(End, u64)> {
    record.machines().into_iter().filter_map(|(end, machine)| Some((end, changes(&machine.counters)?))).collect()
}

/// The interfaces of the machine in the middle, by the end that they are towards, whose link did so, and how often.
pub fn middle_changes(record: &Record) -> Vec<(End, u64)> {
    let Some(middle) = &record.middle else { return Vec::new() };
    End::BOTH.into_iter().filter_map(|end| Some((end, changes(&middle.ports[end].counters)?))).collect()
}

/// How often the carrier changed, where it did.
fn changes(counters: &Counters) -> Option<u64> {
    counters.get(Stage::Link, CARRIER_CHANGES).filter(|changes| *changes > 0)
}

/// Whether any link on the way lost its carrier, or got it back, during the trial.
pub fn is_link_changed(record: &Record) -> bool {
    !carrier_changes(record).is_empty() || !middle_changes(record).is_empty()
}

/// From when on nothing of any flow arrived, to the trial's end, where a carrier was lost about then.
pub fn died_with_link(record: &Record) -> Option<f64> {
    let deaths = record.events.iter().filter(|event| matches!(event.what, EventKind::FlowDied { .. }));
    let (from_s, all) = deaths.fold((0.0_f64, 0), |(last, all), event| (last.max(event.at_s), all + 1));
    let streams = record.asked_spec().map_or(1, |spec| spec.streams.max(1));
    let mut lost = record.events.iter().filter(|event| matches!(event.what, EventKind::CarrierLost { .. })).peekable();
    // An end that lost none that was noticed in time has its counter alone.
    let is_then = lost.peek().is_none() || lost.any(|event| (event.at_s - from_s).abs() <= ABOUT_THEN_S);
    (all >= streams && is_then && is_link_changed(record)).then_some(from_s)
}

/// The longest time in mid-trial in which nothing of this traffic arrived, where that is unusual.
pub fn silence(record: &Record, flow: &FlowFigures) -> Option<Silence> {
    let least_s = if is_link_changed(record) { SHORT_S } else { LONG_S };
    let by_gaps = || {
        let (gaps, received) =
            (flow.arrival_gaps.as_ref()?, flow.arrived_in_window().filter(|packets| *packets > 0.0)?);
        let burst = record.asked_spec().map_or(1.0, |spec| f64::from(spec.burst));
        let usual_s = record.duration_s? / received * burst;
        let seconds = gaps.max_ns()? as f64 / 1e9;
        (seconds >= UNUSUAL * usual_s).then_some(Silence { seconds, at_least: false })
    };
    let stalls = record.events.iter().filter(|event| matches!(event.what, EventKind::Stall { .. }));
    let by_events = || {
        let to_the_end = || Some(record.duration_s? - died_with_link(record)?);
        let seconds = stalls.filter_map(|event| event.for_s).chain(to_the_end()).reduce(f64::max)?;
        Some(Silence { seconds, at_least: false })
    };
    let silence = by_gaps().or_else(by_events).or_else(|| longest_without(&record.intervals));
    let silence = silence.or_else(|| without_carrier(record))?;
    (silence.seconds >= least_s).then_some(silence)
}

/// How long a link of the ends had no carrier in the measured part: nothing can have arrived meanwhile.
fn without_carrier(record: &Record) -> Option<Silence> {
    let span_s = record.duration_s?;
    let lost = record.events.iter().filter(|event| matches!(event.what, EventKind::CarrierLost { .. }));
    let seconds = lost.map(|event| {
        let end_s = event.for_s.map_or(span_s, |seconds| event.at_s + seconds);
        end_s.min(span_s) - event.at_s.max(0.0)
    });
    seconds.reduce(f64::max).map(|seconds| Silence { seconds, at_least: true })
}

/// The longest run of slices in which nothing arrived, between slices in which something did.
fn longest_without(intervals: &[Interval]) -> Option<Silence> {
    let is_silent = |slice: &Interval| slice.throughput_bps.or(slice.transactions_per_s) == Some(0.0);
    let first = intervals.iter().position(|slice| !is_silent(slice))?;
    let last = intervals.iter().rposition(|slice| !is_silent(slice))?;
    let runs = intervals[first..=last].chunk_by(|a, b| is_silent(a) == is_silent(b));
    let silent = runs.filter(|run| is_silent(&run[0]));
    let seconds = silent.map(|run| run.iter().map(|slice| slice.end_s - slice.start_s).sum::<f64>());
    seconds.reduce(f64::max).map(|seconds| Silence { seconds, at_least: true })
}

/// What is to be doubted of a trial in which a link went down, or nothing arrived for long.
pub fn doubt(record: &Record) -> Option<Doubt> {
    let flow = &record.result.as_ref()?.flow;
    let changes = carrier_changes(record);
    let silence = silence(record, flow);
    if changes.is_empty() {
        return silence.filter(|_| !is_link_changed(record)).map(|silence| Doubted::Silence { silence }.into());
    }
    let warmup = record.asked_spec().is_some_and(|spec| !spec.warmup.is_zero());
    let ends = changes.iter().map(|(end, _)| *end).collect();
    let changes = changes.iter().map(|(_, changes)| *changes).max().unwrap_or(0);
    Some(Doubted::LinkWentDown { ends, changes, silence, warmup }.into())
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_trial::doubt::DoubtKind;
    use linerate_trial::event::Event;

    use super::*;
    use crate::sample;

    fn slices(mbit: &[f64]) -> Vec<Interval> {
        let slice = |(at, mbit): (usize, &f64)| Interval {
            start_s: at as f64,
            end_s: at as f64 + 1.0,
            throughput_bps: Some(mbit * 1e6),
            ..Interval::default()
        };
        mbit.iter().enumerate().map(slice).collect()
    }

    fn silent_for(record: &Record) -> Option<f64> {
        silence(record, &record.result.as_ref().unwrap().flow).map(|silence| silence.seconds)
    }

    #[test]
    fn slices_without_arrivals_are_silence_between_others_only() {
        let check = |mbit: &[f64], want: Option<f64>| {
            let mut record = sample::tcp(0, Direction::Rx, 940.0, false);
            record.intervals = slices(mbit);
            assert_eq!(silent_for(&record), want, "{mbit:?}");
        };
        check(&[9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 9.0], Some(3.0));
        check(&[0.0, 0.0, 9.0, 9.0], None);
        check(&[9.0, 9.0, 0.0, 0.0], None);
        check(&[0.0, 0.0], None);
        check(&[], None);
    }

    #[test]
    fn a_gap_between_datagrams_is_silence_if_it_is_unusual() {
        let mut record = sample::udp(0, Direction::Rx, 100, 100.0);
        assert_eq!(silent_for(&record), None);
        let flow = &mut record.result.as_mut().unwrap().flow;
        let mut gaps = flow.arrival_gaps.clone().unwrap();
        gaps.record(300_000_000);
        flow.arrival_gaps = Some(gaps.clone());
        assert_eq!(silent_for(&record), None, "a busy receiver does that");
        record.host.counters.add(Stage::Link, CARRIER_CHANGES, 2);
        assert!((silent_for(&record).unwrap() - 0.3).abs() < 0.01);
        // Twenty datagrams in two seconds, or bursts, pause by themselves.
        record.asked.insert("burst".to_owned(), "1000".to_owned());
        assert_eq!(silent_for(&record), None);
        let doubt = doubt(&record).unwrap();
        assert_eq!(doubt.kind(), DoubtKind::LinkWentDown);
        assert!(
            doubt
                .to_string()
                .starts_with("the host's link went down or came up during the trial (changes of the carrier: 2)"),
            "{doubt:?}"
        );
    }

    #[test]
    fn while_a_link_has_no_carrier_nothing_arrives() {
        let check = |at_s: f64, for_s: Option<f64>, want: Option<f64>| {
            let mut record = sample::rr(0, "64");
            record.duration_s = Some(2.0);
            record.host.counters.add(Stage::Link, CARRIER_CHANGES, 2);
            let what = EventKind::CarrierLost { interface: "eth0".to_owned() };
            record.events = vec![Event { at_s, for_s, within_s: 0.05, end: Some(End::Host), what }];
            assert_eq!(silent_for(&record), want, "{at_s} {for_s:?}");
        };
        check(0.5, Some(0.25), Some(0.25));
        // It came back behind the end, or never.
        check(1.75, Some(0.3), Some(0.25));
        check(1.75, None, Some(0.25));
        // In the warm-up.
        check(-0.5, Some(0.25), None);
        check(-0.5, Some(0.75), Some(0.25));
    }

    #[test]
    fn silence_without_a_link_that_went_down_is_told_as_that() {
        let mut record = sample::tcp(0, Direction::Rx, 940.0, false);
        assert_eq!(doubt(&record), None);
        record.intervals = slices(&[9.0, 0.0, 0.0, 9.0]);
        let detail = doubt(&record).unwrap().to_string();
        assert!(detail.starts_with("nothing arrived for 2.0 s or more in mid-trial, though no link"), "{detail}");
    }
}
