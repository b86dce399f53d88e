//! An interface: its link as it is, and what it counts.
//! Knows which facts a person looks for first; the counters are those of records.

use linerate_machine::environment::Nic;
use linerate_machine::screen::{Kind, Value, View, row};

use crate::counters;
use crate::cpu::StatReading;
use crate::environment;

/// Of USER_HZ, which is 100 wherever Linux runs.
const MS_PER_TICK: u64 = 10;

/// The interface, and its counters that are not 0.
pub(super) fn read(interface: Option<&str>) -> View {
    let mut view = View::new(&[("interface", Kind::Text), ("value", Kind::Counter)]);
    let Some(name) = interface else { return nameless(view) };
    match environment::describe(Some(name), &[]).nic {
        Some(nic) => view.rows = facts(&nic),
        None => view.missing.push(format!("This machine has no interface {name}; 'ip link' shows those it has.")),
    }
    let snapshot = counters::snapshot_of_interface(name);
    let counted = snapshot.counters.iter().filter(|(_, _, value)| *value > 0);
    view.rows.extend(counted.map(|(_, name, value)| vec![name.into(), value.into()]));
    view.missing.extend(snapshot.missing);
    view
}

fn facts(nic: &Nic) -> Vec<Vec<Value>> {
    let word = |yes: &bool| if *yes { "on" } else { "off" };
    let pause = nic.pause.as_ref().map(|pause| {
        let state = |name: &str, is: Option<bool>| is.map(|is| format!("{name} {}", word(&is)));
        let parts = [state("autoneg", pause.autoneg), state("rx", pause.rx), state("tx", pause.tx)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    });
    let speed = nic.speed_mbps.map(|speed| format!("{speed} Mbit/s"));
    let rows: [(&str, Value); 10] = [
        ("name", nic.name.clone().into()),
        ("driver", nic.driver.clone().into()),
        ("MAC", nic.mac.clone().into()),
        ("link", nic.link_detected.map(|is| if is { "up" } else { "down" }).into()),
        ("speed", speed.into()),
        ("duplex", nic.duplex.clone().into()),
        ("autonegotiation", nic.autoneg.as_ref().map(word).into()),
        ("pause frames", pause.into()),
        ("MTU", nic.mtu.map(u64::from).into()),
        ("qdisc", nic.qdisc.clone().into()),
    ];
    rows.into_iter().map(|(name, value)| vec![name.into(), value]).collect()
}

/// What the line of statistics is made of.
pub(super) fn statistics(interface: Option<&str>) -> View {
    let mut view = View::new(&[("statistic", Kind::Text), ("value", Kind::Counter)]);
    let Some(name) = interface else { return nameless(view) };
    let counted = counters::of_link(name);
    let of = |wanted: &str| counted.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    let sum = |names: [&str; 2]| Some(of(names[0])? + of(names[1])?);
    let rows = [
        (row::RX_FRAMES, of("rx_packets")),
        (row::RX_BYTES, of("rx_bytes")),
        (row::TX_FRAMES, of("tx_packets")),
        (row::TX_BYTES, of("tx_bytes")),
        (row::ERRORS, sum(["rx_errors", "tx_errors"])),
        // No descriptor was free, or no room before the MAC. What nobody here wanted (rx_dropped) is no loss.
        (row::DROPPED, sum(["rx_missed_errors", "tx_dropped"])),
    ];
    let times = StatReading::read().ok().map(|stat| stat.machine());
    let busy = times.map(|times| (times.total() - times.idle - times.steal) * MS_PER_TICK);
    let times = [(row::BUSY, busy), (row::CPU_TIME, times.map(|times| times.total() * MS_PER_TICK))];
    let known = rows.into_iter().chain(times).filter_map(|(name, value)| Some((name, value?)));
    view.rows = known.map(|(name, value)| vec![name.into(), value.into()]).collect();
    if counted.is_empty() {
        view.missing.push(format!("The interface {name} could not be read; 'ip link' shows those that there are."));
    }
    view
}

fn nameless(mut view: View) -> View {
    view.missing.push("No interface is up; bring one up, or name one.".to_owned());
    view
}
