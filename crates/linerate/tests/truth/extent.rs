//! What is counted and what is not: warm-up left out, a number of octets delivered, slices that add up.
//! Knows no rates of links.

use linerate_lab::Shape;
use linerate_machine::end::End;

use super::rig::{Link, Rig, assert_near, flow};

#[test]
fn the_warm_up_is_left_out() {
    let Some(rig) = Rig::up("the_warm_up", &Shape::unshaped()) else { return };
    for direction in ["tx", "rx"] {
        let options =
            [("direction", direction), ("rate", "1kpps"), ("warmup", "600ms"), ("duration", "400ms"), ("burst", "1")];
        let record = rig.trial("udp-stream", &options);
        let sent = flow(&record).packets_sent.unwrap();
        // 400 departures lie in the measured part; fewer depart where the sender has to wait for a CPU.
        assert!((300..=415).contains(&sent), "{direction}: {sent}");
        let sender = if direction == "tx" { End::Target } else { End::Host };
        let link = Link::of(&record, sender).tx_packets;
        assert!((sent * 2..=1030).contains(&link), "counters are of the whole trial: {link}");
        assert_near("duration", record.duration_s.unwrap(), 0.4, 1e-6);
        let slices: u64 = record.intervals.iter().map(|slice| slice.packets_sent.unwrap()).sum();
        assert!(slices.abs_diff(sent) <= 15, "{direction}: {slices} in slices, {sent} in all");
        assert!(record.intervals.iter().all(|slice| slice.start_s >= 0.0 && slice.end_s <= 0.6));
    }
}

#[test]
fn so_many_octets_and_no_more() {
    let Some(rig) = Rig::up("so_many_octets", &Shape::unshaped()) else { return };
    for direction in ["tx", "rx"] {
        let sender = if direction == "tx" { End::Target } else { End::Host };
        // 700 datagrams and a part of one, which travels whole.
        let options = [("direction", direction), ("bytes", "1029001"), ("message_size", "1470"), ("rate", "50M")];
        let record = rig.trial("udp-stream", &options);
        assert_eq!(flow(&record).packets_sent, Some(701), "{direction}");
        let link = Link::of(&record, sender);
        assert!((702..=713).contains(&link.tx_packets), "{direction}: {link:?}");

        let before = rig.link(sender);
        let record = rig.trial("tcp-stream", &[("direction", direction), ("bytes", "8M"), ("message_size", "8K")]);
        let (octets, passed) = (flow(&record).octets.unwrap(), rig.link(sender).since(before).tx_octets);
        let again = flow(&record).tcp.as_ref().unwrap().retransmissions * (64 << 10);
        // The first read starts the clock and is no part of the figures; it is one read at most.
        assert!(octets <= 8 << 20 && octets + (128 << 10) >= 8 << 20, "{direction}: {octets}");
        let headers = passed.checked_sub(8 << 20);
        assert!(headers.is_some_and(|headers| headers <= (8 << 20) / 16 + again), "{direction}: {passed} passed");
        let rate = flow(&record).throughput_bps.unwrap();
        assert_near("rate", rate, octets as f64 * 8.0 / record.duration_s.unwrap(), 1e-9);
    }
}

#[test]
fn slices_add_up_to_the_whole() {
    let Some(rig) = Rig::up("slices_add_up", &Shape::unshaped()) else { return };
    let record = rig.trial("tcp-stream", &[("rate", "200M"), ("duration", "1s"), ("interval", "100ms")]);
    assert!((9..=11).contains(&record.intervals.len()), "{}", record.intervals.len());
    let octets: f64 =
        record.intervals.iter().map(|slice| slice.throughput_bps.unwrap() * (slice.end_s - slice.start_s) / 8.0).sum();
    // One write at each edge, and what a late sampler counts beyond the end.
    assert_near("octets in slices", octets, flow(&record).octets.unwrap() as f64, 0.03);
    for pair in record.intervals.windows(2) {
        assert!((pair[0].end_s - pair[1].start_s).abs() < 1e-9, "slices touch");
    }
    let record =
        rig.trial("udp-stream", &[("rate", "20M"), ("duration", "1s"), ("interval", "100ms"), ("streams", "3")]);
    let sum = |of: fn(&linerate_results::record::Interval) -> Option<u64>| -> u64 {
        record.intervals.iter().filter_map(of).sum()
    };
    let (sent, received) = (flow(&record).packets_sent.unwrap(), flow(&record).packets_received.unwrap());
    assert_near("datagrams sent in slices", sum(|slice| slice.packets_sent) as f64, sent as f64, 0.02);
    assert_near("datagrams received in slices", sum(|slice| slice.packets_received) as f64, received as f64, 0.02);
    let streams = &record.result.as_ref().unwrap().streams;
    assert_eq!(streams.len(), 3);
    assert_eq!(streams.iter().map(|stream| stream.flow.packets_sent.unwrap()).sum::<u64>(), sent);
}
