//! Machine files, tables, and what is predicted from them.

use linerate_model::cost::{Load, Workload};
use linerate_model::fit::{Effort, Ensemble, fit, modelled, unfitted};
use linerate_model::flow::Resource;
use linerate_model::machine::{BadMachine, Machine};
use linerate_model::parameter::Parameter;
use linerate_model::predict::{Prediction, Refusal, predict};
use linerate_model::setting::Set;
use linerate_model::table::{BadTable, Measured, Row, Table};
use linerate_path::stage::Stage;

/// Enough for a test.
const EFFORT: Effort = Effort { sets: 120, generations: 100, frames: 300, seed: 7 };

fn row(workload: Workload, payload: f64, offered_mbps: Option<f64>, set: &[(&str, &str)]) -> Row {
    let set = set.iter().map(|(axis, value)| Set { axis: (*axis).into(), value: (*value).into() }).collect();
    Row { id: "a row".into(), load: Load { workload, payload, offered_mbps }, set }
}

#[test]
fn every_machine_and_table_that_comes_along_loads() {
    for name in Machine::names() {
        let machine = Machine::shipped(name).unwrap();
        assert_eq!(machine.name, name);
        assert!(machine.known.values().all(|known| !known.source.is_empty()));
        assert!(!machine.unknown().is_empty(), "a machine of which everything is known needs no fit");
    }
    for name in Table::names() {
        let table = Table::shipped(name).unwrap();
        assert!(!table.measured.is_empty() && !table.asked.is_empty(), "{name}");
    }
}

const MACHINE: &str = include_str!("../machines/ap135.toml");

#[track_caller]
fn check_refused(text: &str, part: &str) {
    let error = Machine::parse(text).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn a_number_without_a_source_does_not_load() {
    let source = MACHINE.lines().find(|line| line.starts_with("source")).unwrap();
    check_refused(&MACHINE.replacen(source, "source = \"\"", 1), "has no source");
    check_refused(&MACHINE.replacen(source, "", 1), "has no source");
}

/// A cable of 10 Mbit/s limits every set alike.
#[test]
fn where_all_sets_agree_nothing_would_make_it_surer() {
    let slow = Machine::parse(&MACHINE.replacen("value = 1000\n", "value = 10\n", 1)).unwrap();
    let asked = [row(Workload::UdpRx, 1470.0, None, &[]), row(Workload::TcpTx, 1448.0, None, &[])];
    for one in predict(&slow, &unfitted(&slow, EFFORT), &[], &asked, EFFORT) {
        assert!(one.interval.1 < 10.0 && one.widest.is_none() && one.trial.is_none(), "{one:#?}");
    }
}

#[test]
fn what_a_machine_file_says_is_checked() {
    check_refused(&MACHINE.replacen("unit = \"Mbit/s\"", "unit = \"MB/s\"", 1), "is in Mbit/s, not in MB/s");
    check_refused(&MACHINE.replacen("cable.rate", "cable.speed", 1), "no parameter 'cable.speed'");
    check_refused(&MACHINE.replacen("value = 1000\n", "", 1), "one value where it is known");
    check_refused(&MACHINE.replacen("zero-copy", "no-copy", 1), "'rx.hand_up' takes copy, zero-copy");
    check_refused("name = \"x\"\nabout = \"y\"\n", "has no value");
    assert!(matches!(Machine::parse("name = 1"), Err(BadMachine::Form(_))));
}

#[test]
fn what_a_table_says_is_checked() {
    let refused = |text: &str| Table::parse(text).unwrap_err();
    assert_eq!(refused("machine = \"unknown\""), BadTable::NoMachine("unknown".into()));
    let row = "machine = \"ap135\"\n[[row]]\nid = \"a\"\nworkload = \"bridge\"\npayload = 1448\n";
    assert!(refused(row).to_string().contains("row 'a' has no throughput"));
    let asked = "machine = \"ap135\"\n[[predict]]\nid = \"a\"\nworkload = \"bridge\"\npayload = 1448\n";
    assert!(refused(&format!("{asked}throughput = 1\n")).to_string().contains("is asked for, and has a figure"));
    assert!(refused(&format!("{asked}set = {{ \"no.axis\" = 1 }}\n")).to_string().contains("no axis 'no.axis'"));
    assert_eq!(Table::parse(asked).unwrap().asked.len(), 1);
}

fn of_report_004() -> (Table, Ensemble) {
    let table = Table::shipped("004").unwrap();
    let ensemble = fit(&table.machine, &table.measured, EFFORT).unwrap();
    (table, ensemble)
}

#[test]
fn every_set_reproduces_every_row_within_twice_its_noise() {
    let (table, ensemble) = of_report_004();
    assert!(ensemble.sets.len() >= 100, "{} sets", ensemble.sets.len());
    for set in &ensemble.sets {
        for (row, measured) in &table.measured {
            let model = modelled(&table.machine, set, row, EFFORT.frames).mbps;
            let off = (model / measured.mbps - 1.0).abs();
            assert!(off <= 2.0 * measured.noise + 1e-9, "{}: {model} for {}", row.id, measured.mbps);
        }
    }
    // They are not one set a hundred times over.
    let places: Vec<f64> = ensemble.sets.iter().map(|set| set[0]).collect();
    let (low, high) = (places.iter().copied().fold(1.0, f64::min), places.iter().copied().fold(0.0, f64::max));
    assert!(high - low > 0.3, "from {low} to {high}");
}

#[test]
fn the_same_seed_predicts_the_same() {
    let predicted = || {
        let (table, ensemble) = of_report_004();
        predict(&table.machine, &ensemble, &table.measured, &table.asked, EFFORT)
    };
    assert_eq!(predicted(), predicted());
}

/// A machine whose every number is known here and not to the fit: what it would do is inside the interval, and nearer to the
/// median than to the null.
#[test]
fn a_machine_that_is_known_is_predicted() {
    let table = Table::shipped("004").unwrap();
    let machine = &table.machine;
    let count = machine.unknown().len();
    let (mut hits, mut nearer) = (0, 0);
    let truths = [0.3, 0.4, 0.5, 0.6, 0.7];
    for (nth, place) in truths.into_iter().enumerate() {
        let truth = vec![place; count];
        let baseline =
            [row(Workload::Bridge, 1448.0, None, &[]), row(Workload::Bridge, 1448.0, None, &[("tx.bounce", "never")])];
        let measured: Vec<(Row, Measured)> = baseline
            .into_iter()
            .map(|row| {
                let mbps = modelled(machine, &truth, &row, EFFORT.frames).mbps;
                (row, Measured { mbps, noise: 0.02, lost_at: None })
            })
            .collect();
        let ensemble = fit(machine, &measured, Effort { seed: nth as u64, ..EFFORT }).unwrap();
        let asked = row(Workload::Bridge, 1448.0, None, &[("tx.bounce", "never"), ("cpu.speed", "1.5")]);
        let real = modelled(machine, &truth, &asked, EFFORT.frames).mbps;
        let [prediction] = &predict(machine, &ensemble, &measured, &[asked], EFFORT)[..] else {
            panic!("one was asked for")
        };
        hits += usize::from((prediction.interval.0..=prediction.interval.1).contains(&real));
        nearer += usize::from((prediction.median - real).abs() < (prediction.null.unwrap().mbps - real).abs());
    }
    assert!(hits >= 4, "{hits} of {} inside the interval", truths.len());
    assert_eq!(nearer, truths.len(), "the null is what was measured without the change");
}

#[track_caller]
fn check_single(predictions: Vec<Prediction>) -> Prediction {
    let [prediction] = <[Prediction; 1]>::try_from(predictions).expect("one was asked for");
    prediction
}

#[test]
fn what_the_rows_do_not_tell_is_refused() {
    // One stream that the CPU limits does not tell the packet's cost from the byte's: of small packets it says nothing.
    let machine = Machine::shipped("ml405").unwrap();
    let measured = [(row(Workload::TcpTx, 1440.0, None, &[]), Measured { mbps: 74.0, noise: 0.02, lost_at: None })];
    let ensemble = fit(&machine, &measured, EFFORT).unwrap();
    let asked = [row(Workload::UdpRx, 18.0, None, &[])];
    let prediction = check_single(predict(&machine, &ensemble, &measured, &asked, EFFORT));
    assert!(matches!(prediction.refusal, Some(Refusal::Wide(half)) if half > 0.3), "{:?}", prediction.refusal);
    assert!(prediction.widest.is_some_and(|(parameter, _)| parameter != Parameter::CableRate));
}

/// A window keeps the driver from taking the one CPU from the application: a stream gets what both together cost.
#[test]
fn a_stream_is_not_starved_on_one_cpu() {
    for name in ["atstk1000", "atngw100", "ml405"] {
        let machine = Machine::shipped(name).unwrap();
        let middle = vec![0.5; machine.unknown().len()];
        let outcome = modelled(&machine, &middle, &row(Workload::TcpRx, 1440.0, None, &[]), 3000).outcome;
        assert_eq!(outcome.delivered, outcome.sent, "{name}: {:?}", outcome.lost);
    }
}

#[test]
fn without_rows_there_are_bounds_only() {
    let machine = Machine::shipped("nitrogen6x").unwrap();
    let asked = [row(Workload::UdpTx, 1470.0, None, &[])];
    let prediction = check_single(predict(&machine, &unfitted(&machine, EFFORT), &[], &asked, EFFORT));
    assert_eq!(prediction.refusal, Some(Refusal::Unmeasured));
    assert!(prediction.interval.0 < prediction.interval.1);
}

#[test]
fn rows_that_no_set_reproduces_are_said() {
    let machine = Machine::shipped("ap135").unwrap();
    let measured = [(row(Workload::Bridge, 1448.0, None, &[]), Measured { mbps: 990.0, noise: 0.01, lost_at: None })];
    let error = fit(&machine, &measured, Effort { generations: 20, ..EFFORT }).unwrap_err();
    assert!(error.best > 2.0 && error.row == "a row", "{error}");
}

/// Datagrams of a sweep on any machine behind a gigabit cable: how many were offered, and how many arrived, Mbit/s.
fn sweep(points: &[(f64, f64)], lost_at: Option<Stage>) -> Vec<(Row, Measured)> {
    let of = |&(offered, mbps): &(f64, f64)| {
        let lost_at = lost_at.filter(|_| mbps < offered);
        (row(Workload::UdpRx, 1470.0, Some(offered), &[]), Measured { mbps, noise: 0.01, lost_at })
    };
    points.iter().map(of).collect()
}

fn swept(machine: &Machine, measured: &[(Row, Measured)], asked: Row) -> Prediction {
    let ensemble = fit(machine, measured, EFFORT).unwrap();
    check_single(predict(machine, &ensemble, measured, &[asked], EFFORT))
}

#[test]
fn a_sweep_up_to_its_knee_tells_of_loads_beyond_and_one_below_it_does_not() {
    let machine = Machine::shipped("any").unwrap().knowing(Parameter::CableRate, 1000.0, "this test");
    let beyond = || row(Workload::UdpRx, 1470.0, Some(500.0), &[]);
    let below = sweep(&[(100.0, 100.0), (200.0, 200.0), (300.0, 300.0)], None);
    let prediction = swept(&machine, &below, beyond());
    assert_eq!(prediction.refusal, Some(Refusal::NoLimitMet), "{prediction:?}");
    // Where some was lost, and repeats differ by more than that, not all of it arrived.
    let noisy = Measured { mbps: 280.0, noise: 0.3, lost_at: None };
    let unlike = [below[..2].to_vec(), vec![(below[2].0.clone(), noisy)]].concat();
    let prediction = swept(&machine, &unlike, beyond());
    assert_eq!(prediction.refusal, Some(Refusal::UnlikeRepeats), "{prediction:?}");
    // Nor does it tell of another driver, even at a load that passed.
    let slower = row(Workload::UdpRx, 1470.0, Some(300.0), &[("cpu.speed", "0.5")]);
    assert!(swept(&machine, &below, slower).refusal.is_some());
    // But of what passed, and of less.
    let prediction = swept(&machine, &below, row(Workload::UdpRx, 1470.0, Some(250.0), &[]));
    assert_eq!(prediction.refusal, None);
    assert!((prediction.median - 250.0).abs() < 5.0, "{prediction:?}");
    let knee = sweep(&[(100.0, 100.0), (200.0, 200.0), (300.0, 300.0), (350.0, 335.0)], Some(Stage::Link));
    let prediction = swept(&machine, &knee, beyond());
    assert_eq!(prediction.refusal, None, "{prediction:?}");
    assert!((prediction.median - 335.0).abs() < 10.0, "{prediction:?}");
    // That no more is lost than of 350.
    let null = prediction.null.unwrap();
    assert!((null.mbps - 335.0 / 350.0 * 500.0).abs() < 1e-9 && null.measured);
}

#[test]
fn what_is_lost_of_too_much_is_no_share_of_less() {
    let machine = Machine::shipped("any").unwrap().knowing(Parameter::CableRate, 10_000.0, "this test");
    let less = |offered: f64| row(Workload::UdpRx, 1470.0, Some(offered), &[]);
    // One row of too much does not tell whether less loses the same share.
    let overloaded = sweep(&[(60.0, 38.6)], None);
    for offered in [10.0, 25.0, 50.0] {
        let prediction = swept(&machine, &overloaded, less(offered));
        let floor = offered.min(38.6);
        assert!(
            prediction.refusal == Some(Refusal::LimitOrShare) || prediction.median >= 0.97 * floor,
            "{prediction:?}"
        );
        assert!(prediction.holds(floor), "{prediction:?}");
    }
    // Nor whether more does.
    let prediction = swept(&machine, &overloaded, less(90.0));
    assert_eq!(prediction.refusal, Some(Refusal::LimitOrShare), "{prediction:?}");
    assert!(prediction.interval.1 > 57.0 && prediction.interval.0 < 39.0, "{prediction:?}");
    // A row that lost nothing does, and one of a third load.
    for rows in [[(10.0, 10.0), (60.0, 38.6)], [(50.0, 38.6), (60.0, 38.6)]] {
        let prediction = swept(&machine, &sweep(&rows, None), less(90.0));
        assert!(prediction.refusal.is_none() && prediction.holds(38.6), "{prediction:?}");
    }
    let prediction = swept(&machine, &sweep(&[(10.0, 10.0), (60.0, 38.6)], None), less(25.0));
    assert_eq!(prediction.refusal, None, "{prediction:?}");
    assert!((prediction.median - 25.0).abs() < 0.5, "{prediction:?}");
}

#[test]
fn a_link_counts_what_it_is_said_to_count() {
    // A shaper of 50 Mbit/s that counts neither FCS nor preamble nor gap.
    let arrives = |payload: f64| 50.0 * payload / (payload + 42.0);
    let measured =
        [(row(Workload::UdpRx, 200.0, Some(60.0), &[]), Measured { mbps: arrives(200.0), noise: 0.01, lost_at: None })];
    let machine = Machine::shipped("any").unwrap().knowing(Parameter::CableRate, 10_000.0, "this test");
    let machine = machine.knowing(Parameter::LinkRate, 50.0, "this test");
    for (overhead, factor) in [(0.0, 1.0), (24.0, (1470.0 + 42.0) / (1470.0 + 66.0))] {
        let machine = machine.clone().knowing(Parameter::LinkOverhead, overhead, "this test");
        let large = row(Workload::UdpRx, 1470.0, Some(60.0), &[]);
        let set = vec![0.5; machine.unknown().len()];
        let modelled = modelled(&machine, &set, &large, 3000).outcome;
        let busy = modelled.duration_us / modelled.delivered as f64;
        assert!(
            (busy / (1470.0 * 8.0 / (arrives(1470.0) * factor)) - 1.0).abs() < 0.02,
            "{overhead}: {busy} us a frame"
        );
    }
    let machine = machine.knowing(Parameter::LinkOverhead, 0.0, "this test");
    let prediction = swept(&machine, &measured, row(Workload::UdpRx, 1470.0, Some(60.0), &[]));
    assert_eq!(prediction.refusal, None, "{prediction:?}");
    assert!(
        prediction.holds(arrives(1470.0)) && (prediction.median / arrives(1470.0) - 1.0).abs() < 0.01,
        "{prediction:?}"
    );
}

#[test]
fn a_link_that_is_known_tells_without_a_limit_met() {
    let on_cable = |mbps: f64| row(Workload::UdpRx, 1470.0, None, &[]).load.on_cable(mbps);
    let machine = Machine::shipped("any").unwrap().knowing(Parameter::CableRate, 1000.0, "this test").knowing(
        Parameter::LinkRate,
        on_cable(320.0),
        "this test",
    );
    let below = sweep(&[(200.0, 200.0), (310.0, 310.0)], None);
    let prediction = swept(&machine, &below, row(Workload::UdpRx, 1470.0, Some(500.0), &[]));
    assert_eq!((&prediction.refusal, prediction.limit), (&None, Resource::Link), "{prediction:?}");
    assert!((prediction.median - 320.0).abs() < 5.0, "{prediction:?}");
}

#[test]
fn sets_lose_where_the_machine_did() {
    let machine = Machine::shipped("any").unwrap().knowing(Parameter::CableRate, 1000.0, "this test");
    for stage in [Stage::Link, Stage::MacRxFifo, Stage::ReceiverSocket] {
        let measured = sweep(&[(200.0, 200.0), (500.0, 400.0)], Some(stage));
        let ensemble = fit(&machine, &measured, EFFORT).unwrap();
        assert!(ensemble.sets.len() >= 30, "{stage:?}: {} sets", ensemble.sets.len());
        for set in &ensemble.sets {
            let outcome = modelled(&machine, set, &measured[1].0, EFFORT.frames).outcome;
            assert_eq!(outcome.lost_at(), Some(stage), "{:?}", outcome.lost);
        }
    }
}

/// Two boards whose buses have 32 and 16 bits (report 002): the baseline of the one, from that of the other.
#[test]
fn the_narrow_board_is_predicted_from_the_wide_one() {
    let (wide, narrow) = (Table::shipped("002-atstk1000").unwrap(), Table::shipped("002-atngw100").unwrap());
    let ensemble = fit(&wide.machine, &wide.measured, EFFORT).unwrap();
    let halved = |row: &Row| Row { set: vec![Set { axis: "bus.bits".into(), value: "16".into() }], ..row.clone() };
    for (row, measured) in narrow.measured.iter().filter(|(row, _)| row.load.workload.is_stream()) {
        let prediction = check_single(predict(&wide.machine, &ensemble, &wide.measured, &[halved(row)], EFFORT));
        println!("{}: {} measured, {prediction:?}", row.id, measured.mbps);
        assert!(
            (prediction.median - measured.mbps).abs() < (prediction.null.unwrap().mbps - measured.mbps).abs(),
            "{prediction:?}"
        );
    }
}
