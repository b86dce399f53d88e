//! The driver as it is: clean over every schedule, whose numbers are kept.

use std::fmt::Write;

use linerate_model::explore::Explored;
use linerate_model::memory::Order;

use super::setup::{CONTROLLERS, Original, Script, Setup, schedules};

/// Every controller, in either order of memory, cached and not, sending and receiving. What changes a number changes what
/// is explored: look at why before it is accepted.
#[test]
fn the_driver_is_clean_over_every_schedule() {
    let mut table = String::new();
    for controller in CONTROLLERS {
        for order in [Order::Program, Order::Weak] {
            for write_back in [false, true] {
                let setup = Setup { order, write_back, erratum: true, ..Setup::of(controller) };
                let number = |what: &str, script| match schedules::<4>(setup, &Original, script) {
                    Explored::Clean { schedules } => schedules,
                    found => panic!("{} {order:?} write-back={write_back} {what}: {found:?}", controller.name),
                };
                let (send, receive) = (number("send", Script::Send), number("receive", Script::Receive(2)));
                let memory = if write_back { "write-back" } else { "uncached" };
                writeln!(
                    table,
                    "{:13} {:7} {memory:10} send {send:7} receive {receive:7}",
                    controller.name,
                    format!("{order:?}")
                )
                .expect("a string takes it");
            }
        }
    }
    insta::assert_snapshot!(table);
}
