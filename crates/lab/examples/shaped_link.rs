//! Makes the demo's lab, says how to get into it, and keeps it until its standard input ends.
//! Knows nothing of measuring: try `nsenter --net=PATH iperf3 …` in both machines.

use std::io::Read;
use std::time::Instant;

use linerate_lab::{Lab, Privilege, Shape, enter_user_namespace, privilege};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let privilege = privilege();
    if privilege == Privilege::UserNamespace {
        enter_user_namespace()?;
    }
    let begun = Instant::now();
    let lab = Lab::up(&Shape::modest_board())?;
    println!("up in {} ms, {privilege}", begun.elapsed().as_millis());
    println!("host   {}", lab.host.path().display());
    println!("target {}", lab.target.path().display());
    for note in lab.notes() {
        println!("note: {note}");
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("receive queue:  {:?}", lab.receive_queue_counts()?);
    println!("transmit queue: {:?}", lab.transmit_queue_counts()?);
    Ok(())
}
