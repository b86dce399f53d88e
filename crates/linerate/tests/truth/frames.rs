//! Frames counted to the last one: what was sent is what arrived and what was lost, and the interfaces say the same.
//! Knows no rates.

use std::io;
use std::time::Duration;

use linerate_host::interfaces;
use linerate_host::sys::frames;
use linerate_host::sys::xdp_socket::{self, XdpSocketOptions};
use linerate_host::xdp::attach::PassProgram;
use linerate_lab::{LINK_NAME, Shape};
use linerate_machine::end::{Direction, End};
use linerate_path::stage::Stage;
use linerate_results::figure::Source;
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;

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
        // The two ends are read one after the other, and what the kernels say goes on between.
        let between = link.tx_packets.abs_diff(other.rx_packets);
        assert!(between <= answers, "{what}: a cable loses nothing, and {link:?} is not {other:?}");
        assert_eq!(lost, 0, "{what}");
    }
    assert_eq!(record.unaccounted, Some(0), "{what}: {:?}", record.loss_budget);
}

/// Of each stream; so many frames are sent however slow the machine is.
const OCTETS: u64 = 20_000;

#[track_caller]
fn check_all(rig: &Rig, options: &[(&str, &str)], trials: usize, answers: u64) {
    check_each(rig, "tx,rx,both", options, 3 * trials, answers);
}

#[track_caller]
fn check_each(rig: &Rig, directions: &str, options: &[(&str, &str)], trials: usize, answers: u64) {
    let octets = OCTETS.to_string();
    let always = [("bytes", octets.as_str()), ("direction", directions)];
    let records = rig.run("frames", &[&always[..], options].concat(), &[]);
    assert_eq!(records.len(), trials);
    for record in &records {
        check_counts(record, answers, &format!("{:?} {:?}", options, record.trial.factors));
    }
}

#[test]
fn every_frame_is_counted_in_every_way_size_and_direction() {
    let Some(rig) = Rig::up("frames_counted", &Shape::unshaped()) else { return };
    check_all(&rig, &[("frame_size", "64,65,1518")], 3, 0);
    check_all(&rig, &[("frame_size", "128"), ("vlan", "5,100.5")], 2, 0);
    let jumbo = [("frame_size", "100+9018"), ("target.mtu", "9000"), ("host.mtu", "9000")];
    check_all(&rig, &jumbo, 1, 0);
}

/// Whether this machine sends frames by a BPF program and counts them so: else a sentence, and `false`.
fn has_xdp(rig: &Rig, test: &str) -> bool {
    let record = rig.trial("frames", &[("bytes", "1K")]);
    let names = |record: &Record| {
        let figures = flow(record);
        [&figures.sender_api, &figures.receiver_api].map(|api| api.as_ref().unwrap().name.clone())
    };
    let is_here = names(&record) == ["live-frames", "xdp"];
    if !is_here {
        eprintln!("{test}: skipped, this kernel sends no frames of BPF programs: {:?}", names(&record));
    }
    is_here
}

#[test]
fn every_way_to_send_is_counted_by_every_way_to_receive() {
    const TEST: &str = "every_way_to_send_is_counted_by_every_way_to_receive";
    let Some(rig) = Rig::up("frames_ways", &Shape::unshaped()) else { return };
    if !has_xdp(&rig, TEST) {
        return;
    }
    let ways = [
        ("sender_api", "packet-sendmmsg,packet-bypass,live-frames,af-xdp"),
        ("receiver_api", "packet-recvmmsg,packet-ring,xdp,af-xdp"),
    ];
    check_each(&rig, "both", &[&ways[..], &[("frame_size", "64+1518+65")]].concat(), 16, 0);
    // In the warm-up and beyond, tagged, of several flows, and by a queue that is shared with nobody.
    let more = [("sender_api", "af-xdp"), ("receiver_api", "af-xdp"), ("frame_kind", "udp4"), ("flows", "3,256")];
    check_each(&rig, "tx,rx", &[&more[..], &[("vlan", "5,100.5"), ("frame_size", "128")]].concat(), 8, 0);
    let record =
        rig.trial("frames", &[("bytes", "20K"), ("receiver_api", "packet-ring"), ("sender_api", "live-frames")]);
    let figures = flow(&record);
    assert_eq!(figures.receiver_api.as_ref().unwrap().name, "packet-ring");
    assert_eq!(figures.frames.as_ref().unwrap().unsent, Some(0));
}

#[test]
fn a_flood_by_each_way_is_what_left_and_the_interface_says_the_same() {
    const TEST: &str = "a_flood_by_each_way_is_what_left_and_the_interface_says_the_same";
    let Some(rig) = Rig::up("frames_floods", &Shape::unshaped()) else { return };
    if !has_xdp(&rig, TEST) {
        return;
    }
    for sender in ["packet-sendmmsg", "packet-bypass", "live-frames", "af-xdp"] {
        for (receiver, direction) in [("xdp", "rx"), ("packet-ring", "rx"), ("af-xdp", "rx"), ("xdp", "both")] {
            let what = format!("{sender} {receiver} {direction}");
            let options = [
                ("duration", "150ms"),
                ("warmup", "50ms"),
                ("sender_api", sender),
                ("receiver_api", receiver),
                ("direction", direction),
                ("frame_kind", "udp4"),
                ("flows", "16"),
            ];
            let record = rig.trial("frames", &options);
            for losses in &record.losses {
                let sender = if losses.direction == Direction::Tx { End::Target } else { End::Host };
                let link = Link::of(&record, sender);
                // Beside the trial's: handshakes, and what the kernels have to say.
                let beside = link.tx_packets.checked_sub(losses.sent);
                assert!(beside.is_some_and(|beside| (1..=60).contains(&beside)), "{what}: {losses:?} of {link:?}");
                // What an XDP program did not take, a socket may have had no room for.
                let lost = losses.sent - losses.arrived;
                assert!(receiver != "xdp" || lost == 0, "{what}: {losses:?}, {:?}", record.loss_budget);
            }
            assert_eq!(record.unaccounted, Some(0), "{what}: {:?}", record.loss_budget);
            for source in Source::each(&record) {
                let figures = source.flow.unwrap();
                let [sent, received, lost] =
                    [figures.packets_sent, figures.packets_received, figures.packets_lost].map(Option::unwrap);
                assert!(sent > 1_000 && sent == received + lost, "{what}: {sent} {received} {lost}");
                let frames = figures.frames.as_ref().unwrap();
                assert_eq!(frames.sizes.iter().map(|one| one.sent).sum::<u64>(), sent, "{what}");
                assert_eq!(figures.octets_sent, Some(sent * 64), "{what}");
                println!("{what}: {sent} sent, {lost} lost, {:?} not sent", frames.unsent);
            }
        }
    }
}

#[test]
fn what_was_chosen_is_recorded_with_what_it_jumped_over() {
    const TEST: &str = "what_was_chosen_is_recorded_with_what_it_jumped_over";
    let Some(rig) = Rig::up("frames_chosen", &Shape::unshaped()) else { return };
    if !has_xdp(&rig, TEST) {
        return;
    }
    let check = |options: &[(&str, &str)], want: [&str; 2], jumped: Option<&str>| {
        let record = rig.trial("frames", &[&[("duration", "100ms")], options].concat());
        let figures = flow(&record);
        let [sender, receiver] = [&figures.sender_api, &figures.receiver_api].map(|api| api.as_ref().unwrap());
        assert_eq!([&*sender.name, &*receiver.name], want, "{options:?}");
        assert_eq!(sender.jumped_over.as_deref(), jumped, "{options:?}");
    };
    check(&[("rate", "100kpps")], ["live-frames", "xdp"], None);
    check(&[("rate", "10kpps")], ["packet-sendmmsg", "xdp"], None);
    check(&[("rate", "10kpps"), ("spacing", "poisson")], ["packet-sendmmsg", "xdp"], None);
    check(&[("timestamps", "application")], ["live-frames", "af-xdp"], None);
    check(&[("timestamps", "application"), ("streams", "2")], ["packet-sendmmsg", "packet-recvmmsg"], None);
    let poisson = [("rate", "100kpps"), ("spacing", "poisson")];
    check(&poisson, ["af-xdp", "xdp"], None);
    // The port has one queue, and a queue one socket.
    check(&[&poisson[..], &[("streams", "2")]].concat(), ["packet-sendmmsg", "xdp"], None);
    check(&[&poisson[..], &[("socket_buffer", "1M")]].concat(), ["packet-sendmmsg", "xdp"], None);
    let others = rig.lab.host.run(|| {
        let interface = interfaces::number(LINK_NAME)?;
        xdp_socket::open(&XdpSocketOptions {
            interface,
            queue: 0,
            outgoing: &[60],
            incoming: 0,
            longest: 60,
            copy: true,
        })
    });
    check(&poisson, ["packet-sendmmsg", "xdp"], None);
    drop(others.unwrap());
    // A program that somebody attached stays where it is.
    let pass = rig.lab.host.run(|| PassProgram::attach(LINK_NAME).map_err(io::Error::other)).unwrap();
    check(&poisson, ["af-xdp", "xdp"], None);
    assert!(rig.lab.host.run(|| Ok(PassProgram::attach(LINK_NAME).is_err())).unwrap());
    drop(pass);
    let jumbo = [("frame_size", "9018"), ("target.mtu", "9000"), ("host.mtu", "9000"), ("rate", "10kpps")];
    check(&jumbo, ["packet-sendmmsg", "packet-ring"], None);
    // A shaper that somebody chose is part of what is asked.
    let shaped = [("host.qdisc", "tbf rate 100M burst 32K limit 256K"), ("rate", "60kpps")];
    check(&shaped, ["packet-sendmmsg", "xdp"], None);
    check(&[&shaped[..], &poisson[1..]].concat(), ["packet-sendmmsg", "xdp"], None);
    check(&[&shaped[..], &[("sender_api", "live-frames")]].concat(), ["live-frames", "xdp"], Some("tbf"));
    check(&[&shaped[..], &[("sender_api", "packet-bypass")]].concat(), ["packet-bypass", "xdp"], Some("tbf"));
    check(&[&shaped[..], &[("sender_api", "af-xdp")]].concat(), ["af-xdp", "xdp"], Some("tbf"));
}

#[test]
fn what_a_full_shaper_refuses_is_sent_again_and_nothing_lost() {
    let Some(rig) = Rig::up("frames_refused_below", &Shape::unshaped()) else { return };
    // A queue of nine frames, and twice the load: calls of many frames stop in their middle.
    let shaped = [("host.qdisc", "tbf rate 20M burst 3K limit 9K"), ("rate", "40M"), ("frame_size", "1000")];
    let record = rig.trial("frames", &[&shaped[..], &[("sender_api", "packet-sendmmsg"), ("duration", "1s")]].concat());
    assert_eq!((flow(&record).packets_lost, record.unaccounted), (Some(0), Some(0)), "{:?}", record.loss_budget);
    assert!(!record.has_doubt(DoubtKind::CountersContradict), "{:?}", record.doubts);
}

#[test]
fn a_part_of_the_line_is_so_many_frames_and_z_is_the_mtu() {
    let Some(rig) = Rig::up("frames_of_line", &Shape::unshaped()) else { return };
    let asked = |record: &Record, name: &str| record.asked[name].clone();
    // A veth says 10 Gbit/s; a hundredth of a per cent of them is 1488.1 frames of 64 bytes.
    for (options, rate, bits) in [(&[][..], "761.904K", 761_904), (&[("line_rate", "100M")][..], "7619", 7_619)] {
        let record =
            rig.trial("frames", &[&[("rate", "0.01%"), ("frame_size", "64"), ("duration", "500ms")], options].concat());
        assert_eq!(asked(&record, "rate"), rate);
        let sent = flow(&record).packets_sent.unwrap();
        let want = bits / 2 / 512;
        assert!(sent <= want + 1 && sent >= want / 2, "{sent} of {want}");
    }
    let record =
        rig.trial("frames", &[("frame_size", "az"), ("bytes", "20K"), ("target.mtu", "1400"), ("host.mtu", "1400")]);
    assert_eq!(asked(&record, "frame_size"), "64+1418");
    assert_eq!(flow(&record).packets_lost, Some(0));
}

#[test]
fn a_paced_rate_arrives_to_the_frame() {
    const TEST: &str = "a_paced_rate_arrives_to_the_frame";
    let Some(rig) = Rig::up("frames_paced", &Shape::unshaped()) else { return };
    if !has_xdp(&rig, TEST) {
        return;
    }
    for (rate, size, kind, frames) in [("100kpps", "64", "raw", 50_000), ("256M", "64+64+256", "udp4", 125_000)] {
        let options =
            [("rate", rate), ("frame_size", size), ("frame_kind", kind), ("flows", "3"), ("duration", "500ms")];
        let options = if kind == "raw" { [&options[..3], &options[4..]].concat() } else { options.to_vec() };
        let record = rig.trial("frames", &options);
        let figures = flow(&record);
        let unsent = figures.frames.as_ref().unwrap().unsent.unwrap();
        // A machine that is busy may be more than 20 ms late at the end.
        let sent = figures.packets_sent.unwrap() + unsent;
        assert!((frames - 2_500..=frames).contains(&sent), "{rate}: {sent} of {frames}");
        assert_eq!((figures.packets_lost, figures.packets_reordered), (Some(0), Some(0)), "{rate}");
        let gaps = figures.arrival_gaps.as_ref().unwrap();
        assert!(gaps.count() >= figures.packets_received.unwrap() - 1, "{rate}");
        // When the machine is busy, most come late and at once.
        println!("{rate}: median gap {:?} ns", gaps.percentile_ns(50.0));
    }
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
        rig.lab.host.run(send_foreign).unwrap();
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
