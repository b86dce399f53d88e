//! Axes whose effect is known without the model, and that every one is written down.

use linerate_model::cost::{Load, Workload};
use linerate_model::fit::modelled;
use linerate_model::machine::Machine;
use linerate_model::setting::{AXES, BadSet, Set};
use linerate_model::table::Row;

const FRAMES: usize = 4000;

fn row(workload: Workload, payload: f64, offered_mbps: Option<f64>, set: &[(&str, &str)]) -> Row {
    let set = set.iter().map(|(axis, value)| Set { axis: (*axis).into(), value: (*value).into() }).collect();
    Row { id: "a row".into(), load: Load { workload, payload, offered_mbps }, set }
}

/// Throughput of a machine in the middle of its bounds, Mbit/s.
fn mbps(machine: &Machine, row: &Row) -> f64 {
    modelled(machine, &vec![0.5; machine.unknown().len()], row, FRAMES).mbps
}

#[test]
fn every_axis_is_in_the_documents() {
    let page = include_str!("../../../docs/predict.md");
    for (name, _) in AXES {
        assert!(page.contains(&format!("`{name}`")), "docs/predict.md does not have {name}");
    }
}

#[test]
fn a_clock_is_its_ratio_to_the_machines_own() {
    // PPC405 at 300 MHz: DS489 and the report.
    let machine = Machine::shipped("ml405").unwrap();
    let with = |set: &[(&str, &str)]| mbps(&machine, &row(Workload::TcpTx, 1440.0, None, set));
    assert_eq!(with(&[("cpu.mhz", "600")]), with(&[("cpu.speed", "2")]));
    assert_eq!(with(&[("cpu.mhz", "300")]), with(&[]));
    assert_eq!(with(&[("bus.mhz", "50")]), with(&[("bus.speed", "0.5")]));
    // One after the other, and both factors of a bus together.
    assert_eq!(with(&[("cpu.mhz", "150"), ("cpu.mhz", "300")]), with(&[]));
    let narrow = Machine::shipped("atstk1000").unwrap();
    let narrow = |set: &[(&str, &str)]| mbps(&narrow, &row(Workload::TcpRx, 1448.0, None, set));
    assert_eq!(narrow(&[("bus.bits", "16"), ("bus.mhz", "140")]), narrow(&[]));
    assert!(narrow(&[("bus.bits", "16")]) < narrow(&[]));
}

#[test]
fn a_clock_that_the_machines_file_does_not_say_is_refused() {
    let machine = Machine::shipped("any").unwrap();
    let refused = row(Workload::UdpTx, 1470.0, None, &[("cpu.mhz", "600")]).resolve(&machine.settings);
    assert_eq!(refused.unwrap_err(), BadSet::NoOwn("cpu.mhz".to_owned()));
}

#[test]
fn an_mtu_is_the_segments_length_and_a_datagrams_limit() {
    let machine = Machine::shipped("nitrogen6x").unwrap();
    let load = |row: &Row| row.resolve(&machine.settings).map(|resolved| resolved.load.payload);
    // Headers of IPv4 and TCP with timestamps, of IPv4 and UDP.
    assert_eq!(load(&row(Workload::TcpTx, 1448.0, None, &[("mtu", "9000")])), Ok(8948.0));
    assert_eq!(load(&row(Workload::TcpTx, 1448.0, None, &[("mtu", "1500")])), Ok(1448.0));
    assert_eq!(load(&row(Workload::UdpRx, 1472.0, None, &[("mtu", "1500")])), Ok(1472.0));
    let cut = load(&row(Workload::UdpRx, 1473.0, None, &[("mtu", "1500")]));
    assert_eq!(cut, Err(BadSet::Fragments { payload: 1473, mtu: 1500 }));
    let stream = |set: &[(&str, &str)]| mbps(&machine, &row(Workload::TcpTx, 1448.0, None, set));
    assert_eq!(stream(&[("mtu", "1500")]), stream(&[]));
    assert!(stream(&[("mtu", "9000")]) > stream(&[]) && stream(&[("mtu", "576")]) < stream(&[]));
}

/// A window is octets: where it limits, segments of another length change nothing.
#[test]
fn a_window_keeps_its_octets() {
    let machine = Machine::shipped("nitrogen6x").unwrap();
    let small = [("window.frames", "2")];
    let window = |set: &[(&str, &str)]| {
        let mut values = row(Workload::TcpRx, 1448.0, None, set);
        values.set.extend(row(Workload::TcpRx, 1448.0, None, &small).set);
        mbps(&machine, &values)
    };
    // Given as frames it is so many frames.
    assert!(window(&[("mtu", "9000")]) > 2.0 * window(&[]));
    let known = machine.clone().knowing(linerate_model::parameter::Parameter::WindowFrames, 8.0, "this test");
    let known = |set: &[(&str, &str)]| mbps(&known, &row(Workload::TcpRx, 1448.0, None, set));
    let (longer, shorter) = (known(&[("mtu", "2948")]), known(&[]));
    assert!((longer / shorter - 1.0).abs() < 0.35, "{longer} and {shorter}");
}
