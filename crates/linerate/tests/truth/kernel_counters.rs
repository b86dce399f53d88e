//! Every workload, each way, over IPv4 and IPv6: the record is complete, and its counts are the kernel's.
//! Knows no rates.

use linerate_lab::Shape;
use linerate_machine::end::End;
use linerate_results::record::Record;

use super::rig::{Link, Rig, flow, is_crowded};

/// Packets of the conversation around the data that an end sends in one direction of one flow: hello or answer, end
/// mark (again every 5 ms until heard) or its answer, ARP or neighbour discovery. Many more would be a fault.
const CONTROL: u64 = 12;
/// Octets of a UDP datagram's frame around its payload: Ethernet, IP, UDP.
const AROUND_V4: u64 = 14 + 20 + 8;
const AROUND_V6: u64 = 14 + 40 + 8;
const SIZE: u64 = 1000;

#[test]
fn every_workload_each_way_over_both_protocols() {
    let Some(rig) = Rig::up("every_workload", &Shape::unshaped()) else { return };
    for workload in ["udp-stream", "tcp-stream", "udp-rr", "tcp-rr", "tcp-crr"] {
        for direction in ["tx", "rx", "both"] {
            for ip in ["4", "6"] {
                check(&rig, workload, direction, ip);
            }
        }
    }
}

fn check(rig: &Rig, workload: &str, direction: &str, ip: &str) {
    let mut options = vec![("direction", direction), ("ip", ip), ("duration", "150ms")];
    if workload == "udp-stream" {
        options.extend([("rate", "40M"), ("message_size", "1000")]);
    }
    let before = [End::Target, End::Host].map(|end| rig.link(end));
    let record = rig.trial(workload, &options);
    let what = format!("{workload} {direction} IPv{ip}");
    check_fields(&what, &record);
    for (end, before) in [End::Target, End::Host].into_iter().zip(before) {
        let (seen, told) = (rig.link(end).since(before), Link::of(&record, end));
        // The record's begin when every flow is open and end when both ends have finished: what is around them is
        // the opening, and the closing of connections.
        let extra = seen.tx_packets.checked_sub(told.tx_packets);
        assert!(extra.is_some_and(|extra| extra <= CONTROL + 4), "{what}, {end}: {told:?} of {seen:?}");
        let extra = seen.rx_packets.checked_sub(told.rx_packets);
        assert!(extra.is_some_and(|extra| extra <= CONTROL + 4), "{what}, {end}: {told:?} of {seen:?}");
        if direction != "both" {
            let sends = (direction == "tx") == (end == End::Target);
            check_counts(&what, &record, sends, told);
        }
    }
    if direction == "both" && workload == "udp-stream" {
        let directions = record.result.as_ref().unwrap().directions.as_ref().unwrap();
        let sent = [directions.tx.packets_sent, directions.rx.packets_sent].map(Option::unwrap);
        assert_eq!(Some(sent[0] + sent[1]), flow(&record).packets_sent, "{what}");
        for (end, sent) in [End::Target, End::Host].into_iter().zip(sent) {
            let told = Link::of(&record, end);
            assert!((sent + 2..=sent + CONTROL).contains(&told.tx_packets), "{what}: {sent} sent, {told:?}");
        }
    }
}

/// One direction's counts against the link of the end that sends (or asks) and of the one that does not.
fn check_counts(what: &str, record: &Record, sends: bool, link: Link) {
    let figures = flow(record);
    let (packets, octets) = if sends { (link.tx_packets, link.tx_octets) } else { (link.rx_packets, link.rx_octets) };
    match record.workload.name() {
        "udp-stream" => {
            // No warm-up: the measured part is the whole trial, and a packet is a datagram.
            let sent = figures.packets_sent.unwrap();
            let lost = record.loss_budget.as_ref().unwrap().iter().map(|line| line.packets as i64).sum::<i64>();
            assert_eq!(figures.packets_lost.unwrap() as i64, lost + record.unaccounted.unwrap(), "{what}");
            assert_eq!(record.unaccounted, Some(0), "{what}: {:?}", record.loss_budget);
            assert!((sent + 1..=sent + CONTROL).contains(&packets), "{what}: {sent} sent, {link:?}");
            let around = if what.ends_with('6') { AROUND_V6 } else { AROUND_V4 };
            let rest = octets.checked_sub(sent * (SIZE + around));
            assert!(rest.is_some_and(|rest| rest <= CONTROL * 150), "{what}: {sent} sent, {link:?}");
            let back = if sends { link.rx_packets } else { link.tx_packets };
            assert!((1..=CONTROL).contains(&back), "{what}: only the end mark is answered, {link:?}");
        }
        "tcp-stream" => {
            // What is counted may leave out what was read after the time was over; headers and segments retransmitted
            // come on top. With segmentation offload a veth counts up to 64 KiB as one packet with one header.
            let payload = figures.octets.unwrap();
            let again = figures.tcp.as_ref().unwrap().retransmissions * (64 << 10);
            let most = (payload as f64 * (1.0 + 86.0 / 1400.0)) as u64 + again + (16 << 20);
            assert!((payload..=most).contains(&octets), "{what}: {payload} octets read, {link:?}");
        }
        "udp-rr" => {
            let asked = requests(record);
            assert!((asked..=asked + CONTROL).contains(&packets), "{what}: {asked} answered, {link:?}");
        }
        "tcp-rr" => {
            // A request that waits for its answer needs no acknowledgement of its own, but may get one.
            let asked = requests(record);
            let most = asked + asked / 20 + CONTROL;
            assert!((asked..=most).contains(&packets), "{what}: {asked} answered, {link:?}");
        }
        _ => {
            // SYN, ACK, request, FIN from one side; SYN-ACK, response, FIN from the other; acknowledgements beside.
            let asked = requests(record);
            assert!((asked * 3..=asked * 8 + CONTROL).contains(&packets), "{what}: {asked} answered, {link:?}");
        }
    }
}

/// How many requests were answered, of the whole trial as there was no warm-up.
fn requests(record: &Record) -> u64 {
    let rate = record.result.as_ref().unwrap().transactions_per_s.unwrap();
    (rate * record.duration_s.unwrap()).round() as u64
}

/// What must be there and what must not, by docs/record-format.md.
fn check_fields(what: &str, record: &Record) {
    let value = record.to_json();
    let result = &value["result"];
    let there = |names: &[&str]| names.iter().for_each(|name| assert!(!result[name].is_null(), "{what}: no {name}"));
    let absent = |names: &[&str]| names.iter().for_each(|name| assert!(result[name].is_null(), "{what}: {name}"));
    let datagrams = [
        "packets_sent",
        "packets_received",
        "packets_lost",
        "packets_duplicated",
        "packets_reordered",
        "packets_late",
        "loss_ratio",
        "loss_bursts",
    ];
    let stream = ["throughput_bps", "achieved_load_bps", "octets", "send_calls", "receive_calls"];
    there(&["streams"]);
    // Of time that is too short for a figure there may still be a share of the machine.
    let has_cpu = ["target", "host"].iter().any(|end| !value[end]["cpu"].is_null());
    assert!(result["service_demand"].is_null() || has_cpu, "{what}");
    assert_eq!(record.path.is_empty(), !record.workload.is_stream(), "{what}");
    match record.workload.is_stream() {
        true => {
            there(&stream);
            absent(&["transactions_per_s", "latency"]);
        }
        false => {
            there(&["transactions_per_s", "latency"]);
            absent(&stream);
            assert_eq!(result["latency"]["of"], record.workload.name(), "{what}");
        }
    }
    if what.starts_with("udp-stream") {
        there(&datagrams);
        absent(&["tcp"]);
        assert!(value["loss_budget"].is_array() && value["unaccounted"].is_i64(), "{what}");
    } else {
        absent(&datagrams);
        absent(&["jitter_s", "arrival_gaps"]);
        // Of many short connections nobody counts the segments.
        assert_eq!(value["loss_budget"].is_array(), !what.starts_with("tcp-crr"), "{what}");
        assert_eq!(value["unaccounted"].is_i64(), !record.losses.is_empty(), "{what}");
        assert!(record.losses.iter().all(|losses| losses.lost() == 0), "{what}: {:?}", record.losses);
    }
    if what.starts_with("tcp-stream") {
        there(&["tcp"]);
    }
    let both = record.direction.name() == "both" && record.workload.is_stream();
    assert_eq!(!result["directions"].is_null(), both, "{what}");
    let directions = if both { vec![&result["directions"]["tx"], &result["directions"]["rx"]] } else { vec![result] };
    if what.starts_with("udp-stream") {
        for one in directions {
            assert!(one["jitter_s"].as_f64().is_some_and(|s| s >= 0.0), "{what}");
            assert!(one["arrival_gaps"]["counts"].as_array().is_some_and(|counts| !counts.is_empty()), "{what}");
        }
    }
    for machine in ["target", "host"] {
        let machine = &value[machine];
        let address = machine["address"].as_str().unwrap();
        assert_eq!(address.contains(':'), what.ends_with('6'), "{what}: {address}");
        // The thread that looks at the CPUs may have had no turn in so short a trial.
        assert!(machine["cpu"].is_object() || is_crowded(), "{what}: no cpu");
        for part in ["counters", "threads", "environment"] {
            assert!(machine[part].as_object().is_some_and(|fields| !fields.is_empty()), "{what}: no {part}");
        }
    }
    assert!((0.14..0.3).contains(&record.duration_s.unwrap()), "{what}: {:?}", record.duration_s);
    assert!(!record.intervals.is_empty(), "{what}");
    let mut told: Vec<_> = record.doubts.iter().map(ToString::to_string).collect();
    let all = told.len();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), all, "{what}: a doubt is told twice: {told:?}");
}
