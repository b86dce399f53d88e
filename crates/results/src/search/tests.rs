//! Searches replayed, from records that a path by a model leaves.

use linerate_trial::doubt::{Doubted, SenderLimit};

use super::*;
use crate::record::{Figures, FlowFigures};
use crate::sample;

const CAPACITY: f64 = 60e6;

pub(super) fn asked() -> SearchAsked {
    SearchAsked {
        goals: ["ndr", "pdr"].map(|name| name.parse().unwrap()).to_vec(),
        least_bps: 100e3,
        most_bps: 100e6,
        whole_trials: false,
        confirm_s: Some(60.0),
        tester_limit_bps: None,
        calibration: None,
        calibrates: false,
        stages: Vec::new(),
        stage_s: 1.0,
        packet_octets: Some(1000),
        wire_octets: None,
        line_bps: None,
        reset: None,
        is_of_frames: false,
    }
}

pub(super) fn tried(step: Step, loss_ratio: f64) -> TriedLoad {
    let (record, seen) = (String::new(), TrialFigures::default());
    let (effective_s, loss_ratio) = (Some(step.trial_s), Some(loss_ratio));
    TriedLoad { record, effective_s, step, loss_ratio, ended_early: false, on_busy_machine: false, seen }
}

pub(super) fn searched_of(asked: SearchAsked, tried: Vec<TriedLoad>) -> SearchRecords {
    let replay = Replay::new(asked).unwrap();
    SearchRecords { tried, ..replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new()) }
}

/// What a path of [`CAPACITY`] makes of a step; the sender sends no more than so much.
fn record(number: u32, asked: &SearchAsked, step: &Step, sends_bps: f64) -> Record {
    let mut record =
        sample::blank(number, Workload::UdpStream, Direction::Rx, &[("rate", &format!("{}", step.load_bps as u64))]);
    let sent = step.load_bps.min(sends_bps);
    let passed = sent.min(CAPACITY);
    let loss_ratio = 1.0 - passed / sent;
    record.ended_early = step.stop_at_loss.is_some_and(|forgiven| loss_ratio > forgiven);
    record.duration_s = Some(if record.ended_early { 0.2 } else { step.trial_s });
    let flow = FlowFigures {
        throughput_bps: Some(passed),
        achieved_load_bps: Some(sent),
        loss_ratio: Some(loss_ratio),
        ..FlowFigures::default()
    };
    record.result = Some(Figures { flow, ..Figures::default() });
    if sent < step.load_bps * 0.99 {
        let (asked_bps, offered_bps) = (step.load_bps, sent);
        record
            .doubts
            .push(Doubted::SenderFellBehind { asked_bps, offered_bps, held_up: Some(SenderLimit::Unknown) }.into());
    }
    let place = SearchPlace { number: 0, asked: asked.clone(), step: step.clone() };
    record.trial.search = Some(Box::new(place));
    record
}

fn carried_out(asked: SearchAsked, sends_bps: f64) -> (Replay, Vec<Record>) {
    let mut replay = Replay::new(asked.clone()).unwrap();
    let mut records = Vec::new();
    while let Some(step) = replay.ask() {
        records.push(record(records.len() as u32, &asked, &step, sends_bps));
        replay.heard(&step, records.last().unwrap());
        assert!(records.len() < 200);
    }
    (replay, records)
}

#[test]
fn records_tell_what_the_search_found() {
    let (replay, records) = carried_out(asked(), f64::INFINITY);
    let [found] = &searched(&records)[..] else { panic!() };
    let known = replay.searched(Workload::UdpStream, Direction::Rx, found.factors.clone());
    assert_eq!(*found, known);
    for goal in &found.found {
        let (lower, upper) = (goal.lower.unwrap(), goal.upper.unwrap());
        let carries = CAPACITY / (1.0 - goal.goal.loss_ratio);
        assert!(goal.is_regular && lower <= carries && upper > carries, "{goal:?}");
        assert_eq!(found.doubts(goal), []);
        // Each was measured once more, whole.
        let confirmation = found.confirmation(goal).unwrap();
        assert_eq!((confirmation.step.trial_s, confirmation.step.stop_at_loss), (60.0, None));
        assert!(goal.goal.forgives(confirmation.loss_ratio.unwrap()));
    }
    assert!(found.tried.iter().any(|tried| tried.ended_early) && found.measured_s() < 200.0);
    // Read from what a store has.
    let read = records.iter().map(|record| serde_json::from_value(record.to_json()).unwrap());
    assert_eq!(searched(&read.collect::<Vec<Record>>())[0].found, found.found);
}

#[test]
fn a_goal_without_a_bound_has_nothing_to_doubt() {
    let (_, records) = carried_out(asked(), f64::INFINITY);
    let (mut without, mut with_one) = (0, 0);
    for kept in 1..records.len() {
        let [found] = &searched(&records[..kept])[..] else { panic!() };
        for goal in &found.found {
            let is_irregular = found.doubts(goal).contains(&SearchDoubt::Irregular);
            match (goal.lower, goal.upper) {
                (None, None) => without += usize::from(!is_irregular),
                (Some(_), Some(_)) => {}
                _ => with_one += usize::from(is_irregular),
            }
            assert_eq!(is_irregular, !goal.is_regular && goal.lower.or(goal.upper).is_some(), "{goal:?}");
        }
    }
    assert!(without > 0 && with_one > 0, "{without}, {with_one}");
}

#[test]
fn a_search_is_carried_on_where_it_stopped() {
    let (_, records) = carried_out(asked(), f64::INFINITY);
    for kept in [1, 2, 5, 17, records.len() - 1] {
        let mut replay = Replay::new(asked()).unwrap();
        for record in &records[..kept] {
            replay.carry_on(record, record.trial.search.as_ref().unwrap());
        }
        let next = records[kept].trial.search.as_ref().unwrap();
        assert_eq!(replay.ask().as_ref(), Some(&next.step), "{kept}");
    }
}

#[test]
fn what_was_not_sent_is_apart_from_what_was_lost() {
    let mut replay = Replay::new(asked()).unwrap();
    let step = stages::step(Purpose::Latency, 0, 40e6, 1.0);
    for sends_bps in [20e6, f64::INFINITY] {
        replay.heard(&step, &record(0, &asked(), &step, sends_bps));
    }
    let searched = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
    let told = |tried: &TriedLoad| (tried.loss_ratio, tried.seen.sent_ratio, tried.seen.loss_of_sent);
    let told: Vec<_> = searched.tried.iter().map(told).collect();
    assert_eq!(told, [(Some(0.5), Some(0.5), Some(0.0)), (Some(0.0), Some(1.0), Some(0.0))]);
    // Of a load that was not sent whole, what was lost of the rest tells.
    let goal = &asked().goals[0];
    let kept: Vec<_> = searched.tried.iter().map(|tried| tried.keeps_to(goal)).collect();
    assert_eq!(kept, [None, Some(true)]);
    replay.heard(&step, &record(0, &asked(), &Step { load_bps: 80e6, ..step.clone() }, 70e6));
    let searched = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
    assert_eq!(searched.tried[2].keeps_to(goal), Some(false));
}

#[test]
fn what_the_tester_does_not_send_is_its_limit() {
    let (replay, _) = carried_out(asked(), 40e6);
    let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
    for goal in &found.found {
        assert!(goal.upper.is_some_and(|upper| (39e6..42e6).contains(&upper)), "{goal:?}");
        let [SearchDoubt::TesterLimit { bps }] = found.doubts(goal)[..] else { panic!("{:?}", found.doubts(goal)) };
        assert!((40e6..42e6).contains(&bps), "{bps}");
    }
    // As a calibration found it: 3 % is near.
    for (limit, is_near) in [(61.5e6, true), (62.5e6, false)] {
        let (replay, _) = carried_out(SearchAsked { tester_limit_bps: Some(limit), ..asked() }, f64::INFINITY);
        let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
        assert_eq!(!found.doubts(&found.found[0]).is_empty(), is_near, "{limit}");
    }
}

#[test]
fn what_came_late_ends_no_trial_again() {
    let mut replay = Replay::new(asked()).unwrap();
    for number in 0..3 {
        let step = replay.ask().unwrap();
        replay.heard(&step, &record(number, &asked(), &step, f64::INFINITY));
    }
    let step = replay.ask().unwrap();
    assert!(step.stop_at_loss.is_some());
    let mut late = record(3, &asked(), &Step { load_bps: 50e6, ..step.clone() }, f64::INFINITY);
    late.ended_early = true;
    replay.heard(&step, &late);
    assert_eq!(replay.ask(), Some(Step { stop_at_loss: None, ..step }), "the same load, to its end");
    let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
    assert!(found.doubts(&found.found[0]).contains(&SearchDoubt::LateArrivals));
}

#[test]
fn what_was_too_much_on_a_busy_machine_is_doubted() {
    let (_, records) = carried_out(asked(), f64::INFINITY);
    let found = &searched(&records)[0];
    let upper = found.found[0].upper;
    let too_much = |record: &Record| {
        let step = &record.trial.search.as_ref().unwrap().step;
        step.purpose == Purpose::Bound && Some(step.load_bps) == upper
    };
    let at = records.iter().position(too_much).unwrap();
    let check = |is_early: bool, busy_at: usize, is_doubted: bool| {
        let mut records = records.clone();
        if is_early {
            records[at].ended_early = true;
            records[at].trial.search.as_mut().unwrap().step.stop_at_loss = Some(0.0);
        }
        let what = Doubted::BusyMachine { share: 0.4, real_time: None, most: "compiler".to_owned() };
        records[busy_at].doubts.push(what.into());
        let found = &searched(&records)[0];
        let doubts = is_doubted.then_some(SearchDoubt::BusyTester);
        assert_eq!(found.doubts(&found.found[0]), Vec::from_iter(doubts), "{busy_at} of {at}");
    };
    check(false, at, true);
    check(false, at - 1, false);
    // Too short to tell: the one before does.
    check(true, at - 1, true);
    check(true, at - 2, false);
}

#[test]
fn what_is_lost_at_any_load_is_no_limit_of_rate() {
    let found_with = |chance: f64| {
        let mut replay = Replay::new(asked()).unwrap();
        for number in 0..500 {
            let Some(step) = replay.ask() else { break };
            let mut record = record(number, &asked(), &step, f64::INFINITY);
            let loss = &mut record.result.as_mut().unwrap().flow.loss_ratio;
            *loss = loss.map(|loss| 1.0 - (1.0 - loss) * (1.0 - chance));
            replay.heard(&step, &record);
        }
        replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new())
    };
    let found = found_with(0.002);
    let of = |goal: usize| found.doubts(&found.found[goal]);
    let said = of(0).into_iter().find_map(|doubt| match doubt {
        SearchDoubt::LossAtAnyLoad { loss_ratio, loads_bps } => Some((loss_ratio, loads_bps)),
        _ => None,
    });
    let (loss_ratio, [least, most]) = said.unwrap();
    assert!((loss_ratio - 0.002).abs() < 1e-9 && least < 6e6 && most > 40e6, "{loss_ratio} {least} {most}");
    assert!(of(1).is_empty(), "{:?}", of(1));
    let found = found_with(0.0);
    assert!(found.doubts(&found.found[0]).is_empty());
}

#[test]
fn what_nobody_can_have_searched_is_no_search() {
    let (_, mut records) = carried_out(asked(), f64::INFINITY);
    for record in &mut records {
        record.trial.search.as_mut().unwrap().step.rung = u32::MAX;
    }
    assert!(searched(&records)[0].found.iter().all(|goal| goal.lower.is_none()));
    for bad in [
        SearchAsked { goals: Vec::new(), ..asked() },
        SearchAsked { least_bps: f64::NAN, ..asked() },
        SearchAsked { most_bps: 1.0, ..asked() },
        SearchAsked { goals: vec![Goal { width: 1e-9, ..asked().goals[0].clone() }], ..asked() },
    ] {
        assert!(Replay::new(bad.clone()).is_none(), "{bad:?}");
    }
}

#[test]
fn expectations_are_read() {
    let (replay, _) = carried_out(asked(), f64::INFINITY);
    let found = replay.searched(Workload::UdpStream, Direction::Rx, BTreeMap::new());
    for (text, met) in [
        ("ndr >= 59M", Some(true)),
        ("ndr >= 61M", Some(false)),
        ("pdr <= 61M", Some(true)),
        ("pdr <= 50M", Some(false)),
        ("rfc2544 >= 1M", None),
        // 1000 bytes each.
        ("ndr >= 7kpps", Some(true)),
        ("ndr >= 8kpps", Some(false)),
    ] {
        let expected: SearchExpectation = text.parse().unwrap();
        assert_eq!((expected.to_string().as_str(), expected.is_met(&found)), (text, met));
    }
    for text in ["ndr", "ndr > 5M", "ndr >= fast", "best >= 5M", "ndr >= unlimited", "ndr >= 900"] {
        assert!(text.parse::<SearchExpectation>().is_err(), "{text}");
    }
}
