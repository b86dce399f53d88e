//! Frames counted to the last one: what was sent is what arrived and what was lost, and the interfaces say the same.
//! Knows no rates.

use std::io;
use std::time::Duration;

use linerate_host::interfaces;
use linerate_host::sys::frames;
use linerate_lab::{LINK_NAME, Shape};
use linerate_machine::end::{Direction, End};
use linerate_path::stage::Stage;
use linerate_results::figure::Source;
use linerate_results::record::Record;

use super::losses::{Xdp, drop_a_quarter};
use super::rig::{Link, Rig, flow, losses};

/// Every frame of each direction is received or lost, of each size, and the sender's interface counted as many.
#[track_caller]
fn check_counts(record: &Record, answers: u64, what: &str) {
    for source in Source::each(record) {
        let way = source.direction.unwrap_or(record.direction);
        let figures = source.flow.unwrap();
        let [sent, received, lost] =
            [figures.packets_sent, figures.packets_received, figures.packets_lost].map(Option::unwrap);
        assert!(sent > 0, "{what}");
        assert_eq!(sent, received + lost, "{what}");
        let frames = figures.frames.as_ref().unwrap();
        assert_eq!(frames.sizes.iter().map(|one| one.sent).sum::<u64>(), sent, "{what}");
        assert_eq!(frames.sizes.iter().map(|one| one.received).sum::<u64>(), received, "{what}");
        assert_eq!(frames.malformed, 0, "{what}");
        let octets: u64 = frames.sizes.iter().map(|one| u64::from(one.octets) * one.sent).sum();
        assert_eq!(figures.octets_sent, Some(octets), "{what}");
        assert!((OCTETS..OCTETS + 10_000).contains(&octets), "{what}: {octets}");
        let sender = if way == Direction::Tx { End::Target } else { End::Host };
        let (link, other) = (Link::of(record, sender), Link::of(record, sender.other()));
        // Beside the trial's: handshakes of both directions, and what IPv6 has to say on a new link.
        assert!((sent + 1..=sent + 40 + answers).contains(&link.tx_packets), "{what}: {sent} of {link:?}");
        assert_eq!(link.tx_packets, other.rx_packets, "{what}: a cable loses nothing");
        assert_eq!(lost, 0, "{what}");
    }
    assert_eq!(record.unaccounted, Some(0), "{what}: {:?}", record.loss_budget);
}

/// Of each stream; so many frames are sent however slow the machine is.
const OCTETS: u64 = 20_000;

#[track_caller]
fn check_all(rig: &Rig, options: &[(&str, &str)], trials: usize, answers: u64) {
    let octets = OCTETS.to_string();
    let always = [("bytes", octets.as_str()), ("direction", "tx,rx,both")];
    let records = rig.run("frames", &[&always[..], options].concat(), &[]);
    assert_eq!(records.len(), 3 * trials);
    for record in &records {
        check_counts(record, answers, &format!("{:?} {:?}", options, record.trial.factors));
    }
}

#[test]
fn every_frame_is_counted_in_every_way_size_and_direction() {
    let Some(rig) = Rig::up("frames_counted", &Shape::unshaped()) else { return };
    check_all(&rig, &[("frame_size", "64,65,1518"), ("sender_api", "packet-sendmmsg,packet-bypass")], 6, 0);
    check_all(&rig, &[("frame_size", "128"), ("vlan", "5,100.5")], 2, 0);
    let jumbo = [("frame_size", "100+9018"), ("target.mtu", "9000"), ("host.mtu", "9000")];
    check_all(&rig, &jumbo, 1, 0);
}

#[test]
fn frames_with_ip_in_them_are_counted_in_every_flow() {
    let Some(rig) = Rig::up("frames_of_ip", &Shape::unshaped()) else { return };
    // The kernels answer some, and ask three times for the neighbour that each answer to one of 256 addresses would go to.
    check_all(&rig, &[("frame_kind", "udp4,udp6"), ("flows", "1,256")], 4, 4 * 256);
}

#[test]
fn a_flood_loses_nothing_that_is_not_counted() {
    let Some(rig) = Rig::up("frames_flood", &Shape::unshaped()) else { return };
    let record = rig.trial("frames", &[("duration", "200ms"), ("frame_size", "imix"), ("warmup", "50ms")]);
    let figures = flow(&record);
    let [sent, received, lost] =
        [figures.packets_sent, figures.packets_received, figures.packets_lost].map(Option::unwrap);
    assert_eq!(sent, received + lost);
    // What a receiver that had to wait for its CPU dropped, its socket counted.
    assert_eq!(record.unaccounted, Some(0), "{:?}", record.loss_budget);
    let wire = Source::whole(&record);
    let of =
        |name: &str| linerate_results::figure::FIGURES.iter().find(|one| one.name == name).unwrap().of(wire).unwrap();
    // 7 of 64 bytes, 4 of 594 and 1 of 1518 are 4342 in 12 frames, each with 20 bytes more on the wire.
    let share = (of("wire_bps") / of("throughput_bps") - 1.0) * 4342.0 / 240.0;
    assert!((share - 1.0).abs() < 0.02, "{share}");
}

#[test]
fn what_a_path_drops_is_what_is_lost() {
    let Some(rig) = Rig::up("frames_lossy", &Shape::unshaped()) else { return };
    let _dropping = drop_a_quarter(&rig, Xdp::InDriver, 60).unwrap();
    let record = rig.trial("frames", &[("bytes", "100K"), ("frame_size", "64+65")]);
    let figures = flow(&record);
    let lost = figures.packets_lost.unwrap();
    let sizes = &figures.frames.as_ref().unwrap().sizes;
    assert_eq!(
        sizes.iter().map(|one| (one.octets, one.sent - one.received)).collect::<Vec<_>>(),
        [(64, lost), (65, 0)]
    );
    assert!((100..300).contains(&lost), "a quarter of 794: {lost}");
    // The driver's own count of what the program dropped.
    assert_eq!(losses(&record).into_iter().collect::<Vec<_>>(), [(Stage::DriverRxRing, lost)]);
    assert_eq!(record.unaccounted, Some(0), "{:?}", record.loss_budget);
}

#[test]
fn frames_of_others_are_counted_apart() {
    let Some(rig) = Rig::up("frames_of_others", &Shape::unshaped()) else { return };
    let record = std::thread::scope(|scope| {
        let trial = scope.spawn(|| rig.trial("frames", &[("duration", "1s"), ("rate", "2kpps")]));
        let before = rig.link(End::Host).tx_packets;
        while rig.link(End::Host).tx_packets < before + 100 {
            assert!(!trial.is_finished(), "no traffic");
            std::thread::sleep(Duration::from_millis(2));
        }
        rig.lab.in_host(send_foreign).unwrap();
        trial.join().unwrap()
    });
    let figures = flow(&record);
    assert_eq!((figures.packets_lost, figures.packets_duplicated), (Some(0), Some(0)));
    let frames = figures.frames.as_ref().unwrap();
    let foreign = frames.foreign.as_ref().unwrap();
    let of = |ethertype| foreign.iter().find(|one| one.ethertype == Some(ethertype)).map(|one| one.frames);
    // Test frames of another trial, and such that end before they say whose; LLDP; a spanning tree's.
    assert_eq!((of(0x88B5), of(0x88CC), of(0)), (Some(150), Some(7), Some(3)), "{foreign:?}");
    assert_eq!(frames.malformed, 0);
}

fn send_foreign() -> io::Result<()> {
    let socket = frames::open_sender(interfaces::number(LINK_NAME)?)?;
    let mut frame = [0xFF; 60];
    let mut send = |ethertype: u16, len: usize, count: usize| {
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        (0..count).try_for_each(|_| socket.send(&frame[..len]).map(|_| ()))
    };
    send(0x88B5, 60, 100)?;
    send(0x88B5, 20, 50)?;
    send(0x88CC, 60, 7)?;
    send(38, 60, 3)
}

#[test]
fn what_has_no_ethernet_is_a_sentence() {
    let store = std::env::temp_dir().join(format!("linerate-truth-{}-no-ethernet.sqlite", std::process::id()));
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["run", "frames", "--target", "local", "--host", "local", "--quiet", "--set", "duration=10ms"])
        .args(["--target-address", "127.0.0.1", "--host-address", "127.0.0.1", "--store"])
        .arg(&store)
        .output()
        .unwrap();
    let _ = std::fs::remove_file(store);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("frames need an Ethernet, and lo is none"), "{said}");
}
