//! How many frames a second of virtual time one CPU gets through: `cargo run --release -p linerate-model --example virtual_frames`.

use std::time::Instant;

use linerate_model::cost::{Load, Workload, run};
use linerate_model::machine::Machine;

fn main() {
    const FRAMES: usize = 1_000_000;
    for name in Machine::names() {
        let machine = Machine::shipped(name).expect("its name is from the list");
        let values = machine.values(&vec![0.5; machine.unknown().len()]);
        for workload in [Workload::UdpRx, Workload::UdpTx, Workload::TcpRx] {
            let load = Load { workload, payload: 1448.0, offered_mbps: None };
            let begun = Instant::now();
            let outcome = run(&values, &machine.settings, &load, FRAMES);
            let rate = outcome.sent as f64 / begun.elapsed().as_secs_f64() / 1e6;
            println!("{name:12} {workload:?} {rate:5.1} M frames/s, {:.0} Mbit/s", outcome.mbps(load.payload));
        }
    }
}
