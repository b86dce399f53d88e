//! A user-space relay between two interfaces, which does to packets what it was told, and counts exactly what it did.
//! Knows sockets and threads; what becomes of a packet is decided in `way`, what a frame is in `frame`.

mod frame;
mod way;

use std::ffi::OsString;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::Port;
use serde_json::{Value, json};

pub(super) use way::Impairment;
use way::{Start, Way};

/// What follows `faults` on its command line.
pub(super) const COMMAND: &str = "relay";
/// The relay's two interfaces: towards the target, and towards the host.
pub(super) const PORTS: [&str; 2] = ["left", "right"];
/// The names of its two ways in its account: what the target sends, and what it receives.
pub(super) const WAYS: [&str; 2] = ["tx", "rx"];
/// What it says when it forwards.
pub(super) const READY: &str = "forwarding";

/// Longest sleep of a way: the end is noticed within it.
const PATIENCE: Duration = Duration::from_millis(20);
/// Frames that are taken in before those that are due are sent.
const BATCH: usize = 32;
/// Longer than any frame that an interface of 9000 octets makes.
const ROOM: usize = 16 * 1024;

/// `cargo xtask faults relay SEED TX RX`, started by `faults` in the relay's namespace: forwards until standard input ends,
/// then prints its account.
pub(super) fn run(mut words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut word = || words.next().and_then(|word| word.into_string().ok()).ok_or("the relay is for faults to start");
    let seed: u64 = word()?.parse().map_err(|_| "the relay's seed is no number")?;
    let impairments = [word()?, word()?].map(|text| {
        serde_json::from_str(&text).map_err(|error| error.to_string()).and_then(|value: Value| Impairment::read(&value))
    });
    let [tx, rx] = impairments;
    let account = forward(seed, [tx?, rx?]).map_err(|error| format!("the relay: {error}"))?;
    println!("{account}");
    Ok(())
}

fn forward(seed: u64, impairments: [Impairment; 2]) -> io::Result<Value> {
    let [left, right] = PORTS.map(Port::open);
    let (left, right) = (left?, right?);
    let (start, end) = (Arc::new(Start::default()), AtomicBool::new(false));
    let [tx, rx] = impairments;
    let mut tx = Way::new(tx, seed, start.clone());
    let mut rx = Way::new(rx, seed ^ u64::MAX, start);
    let began = Instant::now();
    println!("{READY}");
    thread::scope(|scope| {
        let forwards = [(&left, &right, &mut tx), (&right, &left, &mut rx)]
            .map(|(from, to, way)| scope.spawn(|| carry(from, to, way, began, &end)));
        // Whoever started this closes standard input, by its death too.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        end.store(true, Ordering::Relaxed);
        forwards.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let overflowed = [left.overflowed()?, right.overflowed()?];
    let accounts = [tx.account(), rx.account()];
    Ok(json!({ WAYS[0]: accounts[0], WAYS[1]: accounts[1], "overflowed": overflowed.iter().sum::<u32>() }))
}

/// One way, until the end.
fn carry(from: &Port, to: &Port, way: &mut Way, began: Instant, end: &AtomicBool) -> io::Result<()> {
    let mut room = vec![0; ROOM];
    while !end.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            let Some(len) = from.receive(&mut room)? else { break };
            way.handle_frame(micros(began), &room[..len]);
        }
        while let Some(frame) = way.poll_frame(micros(began)) {
            if !to.send(&frame)? {
                way.refused();
            }
        }
        let now = micros(began);
        let due = way.next_due().map_or(PATIENCE, |due| Duration::from_micros(due.saturating_sub(now)));
        from.wait(due.min(PATIENCE))?;
    }
    Ok(())
}

fn micros(began: Instant) -> u64 {
    began.elapsed().as_micros() as u64
}
