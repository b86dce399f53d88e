//! Faults between the ends: what the relay does to packets.
//! Knows no findings.

use linerate_machine::end::End;

use super::super::case::{Between, Place, other, way_of};
use super::super::draw::Draft;
use super::super::relay::{Impairment, WAYS};

const RELAYS: [Between; 4] = [Between::Relay, Between::Relay, Between::Relay, Between::Routers];

fn percent(ppm: u64) -> String {
    format!("{:.2} %", ppm as f64 / 1e4)
}

/// A stream over the relay, TCP or UDP, mostly one way; who sends what is impaired.
fn stream(draft: &mut Draft) -> End {
    stream_of(draft, &[0, 0, 1, 2])
}

/// The same, and never as fast as it goes: what limits then is the way, whatever else is done to it.
fn paced_stream(draft: &mut Draft) -> End {
    stream_of(draft, &[0, 2])
}

fn stream_of(draft: &mut Draft, kinds: &[u8]) -> End {
    draft.lies_between(&RELAYS);
    draft.lasts(1500, 2500);
    match draft.of(kinds) {
        0 => draft.udp(8, 50),
        1 => {
            // What the path carries must be known, or the CPUs are the limit.
            draft.tcp(None);
            limit(draft, 40, 120);
        }
        _ => {
            let mbps = draft.scaled(10, 60);
            draft.tcp(Some(mbps));
        }
    }
    if draft.one_in(4) {
        draft.set("streams", 2);
    }
    if draft.one_in(3) {
        draft.far(500, 20_000);
    }
    if draft.one_in(6) {
        draft.both_ways();
        let sender = draft.of(&[End::Target, End::Host]);
        draft.case.way = Some(WAYS[way_of(sender)]);
        return sender;
    }
    draft.one_way()
}

/// A slow link with a queue that TCP fills without harm: about 20 ms.
fn limit(draft: &mut Draft, least_mbps: u64, most_mbps: u64) -> u64 {
    let mbps = draft.scaled(least_mbps, most_mbps);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    for impairment in &mut draft.case.impairments {
        impairment.rate_bps = mbps * 1_000_000;
        impairment.queue_octets = (mbps * 2_500).max(30_000);
    }
    mbps
}

pub(super) fn loss(draft: &mut Draft) {
    let sender = stream(draft);
    let ppm = draft.scaled(2_000, 50_000);
    let ppm = draft.enough_ppm(ppm, 40);
    draft.say(format!("{} lost at random", percent(ppm)));
    draft.impair(sender, |path| (path.loss_ppm, path.after_packets) = (ppm, 30), &["lost"], 8);
}

pub(super) fn burst_loss(draft: &mut Draft) {
    let sender = stream(draft);
    let begins = draft.scaled(500, 4_000);
    let begins = draft.enough_ppm(begins, 5);
    let length = draft.between(4, 20);
    draft.say(format!("bursts of about {length} lost, {} begin one", percent(begins)));
    let ends = 1_000_000 / length;
    let change = |path: &mut Impairment| {
        (path.burst_begins_ppm, path.burst_ends_ppm, path.after_packets) = (begins, ends, 30);
    };
    draft.impair(sender, change, &["in_bursts"], 10);
}

pub(super) fn reordering(draft: &mut Draft) {
    let sender = paced_stream(draft);
    let ppm = draft.scaled(10_000, 100_000);
    let ppm = draft.enough_ppm(ppm, 60);
    let gap_us = 1_000_000 / draft.per_s.max(1);
    let held = draft.between(2, 8) * gap_us.max(300);
    draft.say(format!("{} held back by {:.1} ms", percent(ppm), held as f64 / 1e3));
    let change = |path: &mut Impairment| {
        (path.reorder_ppm, path.reorder_us, path.after_packets) = (ppm, held, 30);
    };
    draft.impair(sender, change, &["reordered"], 20);
}

pub(super) fn duplicates(draft: &mut Draft) {
    let sender = paced_stream(draft);
    let ppm = draft.scaled(10_000, 100_000);
    let ppm = draft.enough_ppm(ppm, 40);
    draft.say(format!("{} doubled", percent(ppm)));
    draft.impair(sender, |path| (path.duplicate_ppm, path.after_packets) = (ppm, 30), &["duplicated"], 15);
}

pub(super) fn damage(draft: &mut Draft) {
    let sender = stream(draft);
    let ppm = draft.scaled(3_000, 50_000);
    let ppm = draft.enough_ppm(ppm, 40);
    draft.case.at = Some(other(sender));
    draft.say(format!("{} damaged behind the checksum", percent(ppm)));
    draft.impair(sender, |path| (path.damage_ppm, path.after_packets) = (ppm, 30), &["damaged"], 10);
}

/// Packets above a size vanish once the trial runs.
pub(super) fn hole(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(1500, 2500);
    let is_requests = draft.one_in(4);
    if is_requests {
        draft.requests(&["udp-rr", "tcp-rr"]);
        draft.case.set.retain(|set| !set.contains("_size"));
        draft.set("request_size", 1300);
        draft.set("response_size", 1300);
    } else if draft.one_in(2) {
        draft.udp(8, 40);
        draft.case.set.retain(|set| !set.starts_with("message_size"));
        let message = draft.of(&[1300, 1432]);
        draft.set("message_size", message);
    } else {
        let mbps = draft.scaled(10, 60);
        draft.tcp(Some(mbps));
    }
    let sender = draft.one_way();
    let size = draft.between(600, 1250);
    let after = draft.of(&[0, 0, 200]);
    draft.say(format!("IP packets above {size} bytes vanish{}", if after > 0 { " after a while" } else { "" }));
    draft.impair(sender, |path| (path.hole_octets, path.after_packets) = (size, after), &["in_hole"], 1);
}

pub(super) fn long_queue(draft: &mut Draft) {
    let mbps = slow_link(draft);
    let sender = draft.one_way();
    let queue_ms = draft.scaled(60, 300);
    draft.say(format!("{mbps} Mbit/s behind a queue of {queue_ms} ms"));
    let change = |path: &mut Impairment| {
        (path.rate_bps, path.queue_octets) = (mbps * 1_000_000, (mbps * 125 * queue_ms).max(20_000));
    };
    draft.impair(sender, change, &["longest_queue_us"], 15_000);
}

pub(super) fn short_queue(draft: &mut Draft) {
    let mbps = slow_link(draft);
    let sender = draft.one_way();
    let packets = draft.between(8, 40);
    draft.say(format!("{mbps} Mbit/s behind a queue of {packets} packets"));
    let change = |path: &mut Impairment| {
        (path.rate_bps, path.queue_octets) = (mbps * 1_000_000, packets * 1514);
    };
    draft.impair(sender, change, &["queue_full"], 10);
}

/// TCP that fills the link, or UDP that is offered above its rate; the rate.
fn slow_link(draft: &mut Draft) -> u64 {
    draft.lies_between(&RELAYS);
    draft.lasts(1800, 2800);
    let mbps = draft.scaled(8, 60);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    if draft.one_in(2) {
        draft.tcp(None);
        if draft.one_in(3) {
            draft.far(500, 10_000);
        }
    } else {
        draft.udp(20, 40);
        let more = mbps * draft.between(13, 20) / 10;
        draft.case.set.retain(|set| !set.starts_with("rate"));
        draft.set("rate", format!("{more}M"));
    }
    mbps
}

pub(super) fn policer(draft: &mut Draft) {
    let mbps = slow_link(draft);
    let sender = draft.one_way();
    let depth = draft.scaled(5_000, 40_000);
    draft.say(format!("a policer of {mbps} Mbit/s, {depth} bytes"));
    let change = |path: &mut Impairment| {
        (path.police_bps, path.police_octets) = (mbps * 1_000_000, depth);
    };
    draft.impair(sender, change, &["policed"], 10);
}

/// The same with a bucket that lets a good part of the trial pass before it is empty.
pub(super) fn deep_bucket(draft: &mut Draft) {
    draft.lies_between(&[Between::Relay]);
    draft.lasts(2500, 3500);
    let mbps = draft.scaled(8, 30);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    draft.udp(20, 40);
    let more = mbps * draft.between(14, 26) / 10;
    draft.case.set.retain(|set| !set.starts_with("rate"));
    draft.set("rate", format!("{more}M"));
    let sender = draft.one_way();
    // With headers more is offered than was asked, and the warm-up takes of it too.
    let empty_ms = draft.between(1000, 1600);
    let depth = (more - mbps) * 125 * empty_ms;
    draft.say(format!("a policer of {mbps} Mbit/s whose {depth} bytes last for about {empty_ms} ms"));
    let change = |path: &mut Impairment| {
        (path.police_bps, path.police_octets) = (mbps * 1_000_000, depth);
    };
    draft.impair(sender, change, &["policed"], 100);
}

/// Nothing passes for a while, one way or both.
pub(super) fn outage(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(2500, 3500);
    match draft.of(&[0, 1, 2]) {
        0 => draft.udp(8, 40),
        1 => {
            let mbps = draft.scaled(10, 60);
            draft.tcp(Some(mbps));
        }
        _ => draft.requests(&["udp-rr", "tcp-rr"]),
    }
    draft.one_way();
    interrupt(draft);
}

/// Nothing passes for less than a stall takes: TCP loses what it has under way, once.
pub(super) fn short_outage(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(2500, 3500);
    let mbps = draft.scaled(10, 60);
    draft.tcp(Some(mbps));
    let sender = draft.one_way();
    let (at, length) = (draft.between(800, 1500), draft.between(100, 220));
    draft.say(format!("nothing passes for {length} ms"));
    let change = |path: &mut Impairment| (path.outage_at_us, path.outage_for_us) = (at * 1000, length * 1000);
    draft.impair(sender, change, &["in_outage"], 10);
}

/// An outage in a trial that is drawn already.
pub(super) fn interrupt(draft: &mut Draft) {
    let sender = draft.sender();
    // A request is given up after a second, and the next must find the way open before the end.
    let most = if draft.case.plan.ends_with("rr") { 700 } else { draft.duration_ms.min(2600) / 2 };
    let (at, length) = (draft.between(300, 700), draft.scaled(300, most));
    let is_both = draft.one_in(2);
    draft.say(format!("nothing passes {} for {length} ms", if is_both { "both ways" } else { "one way" }));
    // Of TCP, and of requests, the silence is as long as their timers make it.
    if draft.case.plan == "udp-stream" {
        draft.case.lasts_ms = Some(length);
    }
    let change = |path: &mut Impairment| (path.outage_at_us, path.outage_for_us) = (at * 1000, length * 1000);
    draft.impair(sender, change, &["in_outage"], 1);
    if is_both {
        change(&mut draft.case.impairments[way_of(other(sender))]);
    }
}

/// Nothing passes any more, from a moment on.
pub(super) fn dead(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(2000, 3000);
    match draft.of(&[0, 1, 2]) {
        0 => draft.udp(8, 40),
        1 => {
            let mbps = draft.scaled(10, 60);
            draft.tcp(Some(mbps));
        }
        _ => draft.requests(&["udp-rr", "tcp-rr", "tcp-crr"]),
    }
    let sender = draft.one_way();
    let at = draft.between(300, 1200);
    draft.say(format!("nothing passes from {at} ms on"));
    let change = |path: &mut Impairment| {
        (path.outage_at_us, path.outage_for_us) = (at * 1000, 3_600_000_000);
    };
    draft.impair(sender, change, &["in_outage"], 1);
    if draft.one_in(2) {
        change(&mut draft.case.impairments[way_of(other(sender))]);
    }
}

pub(super) fn fragments(draft: &mut Draft) {
    draft.lies_between(&[Between::Relay]);
    draft.lasts(1500, 2500);
    draft.udp(10, 40);
    draft.case.set.retain(|set| !set.starts_with("message_size"));
    let message = draft.of(&[2000, 4000, 8000]);
    draft.set("message_size", message);
    let sender = draft.one_way();
    let ppm = draft.scaled(20_000, 100_000);
    draft.say(format!("{} of the later fragments lost", percent(ppm)));
    draft.impair(sender, |path| path.fragment_loss_ppm = ppm, &["lost_fragments"], 10);
}

/// A socket buffer that holds less than a round trip of the path.
pub(super) fn window(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(2000, 3000);
    draft.tcp(None);
    let delay_us = draft.scaled(5_000, 30_000);
    for impairment in &mut draft.case.impairments {
        impairment.delay_us = delay_us;
    }
    let buffer = draft.of(&["32K", "64K", "128K"]);
    draft.set("socket_buffer", buffer);
    let sender = draft.one_way();
    draft.say(format!("{} ms each way and a socket buffer of {buffer}", delay_us as f64 / 1e3));
    draft.impair(sender, |_| {}, &["tcp_data"], 20);
}

pub(super) fn no_window_scaling(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(2000, 3000);
    draft.tcp(None);
    let delay_us = draft.scaled(5_000, 30_000);
    for impairment in &mut draft.case.impairments {
        impairment.delay_us = delay_us;
    }
    let sender = draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    draft.before(end, "sysctl -qw net.ipv4.tcp_window_scaling=0");
    draft.case.at = Some(end);
    draft.say(format!("{} ms each way, the {end} scales no window", delay_us as f64 / 1e3));
    draft.impair(sender, |_| {}, &["tcp_data"], 20);
}

/// Little loss, and a round trip that lets TCP recover slowly.
pub(super) fn lossy_far_path(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(2500, 3500);
    draft.tcp(None);
    limit(draft, 60, 120);
    draft.far(3_000, 20_000);
    let control = draft.of(&["auto", "auto", "reno", "cubic"]);
    if control != "auto" {
        draft.set("congestion_control", control);
    }
    let sender = draft.one_way();
    if draft.one_in(3) {
        draft.before(sender, "sysctl -qw net.ipv4.tcp_sack=0");
        draft.say("no SACK");
    }
    let ppm = draft.scaled(4_000, 30_000);
    draft.say(format!("{} lost at random, {control}", percent(ppm)));
    draft.impair(sender, |path| (path.loss_ppm, path.after_packets) = (ppm, 30), &["lost"], 3);
}

/// Requests, answers, or both do not arrive.
pub(super) fn requests_lost(draft: &mut Draft) {
    draft.lies_between(&RELAYS);
    draft.lasts(2000, 3000);
    draft.requests(&["udp-rr", "tcp-rr", "tcp-crr"]);
    draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    let ppm = draft.scaled(5_000, 50_000);
    let ppm = draft.enough_ppm(ppm, 15);
    draft.say(format!("{} of what the {end} sends lost", percent(ppm)));
    draft.impair(end, |path| (path.loss_ppm, path.after_packets) = (ppm, 10), &["lost"], 2);
}

/// A good part of the requests or answers do not arrive: with one outstanding each keeps the next waiting, some one after the other.
pub(super) fn requests_often_lost(draft: &mut Draft) {
    draft.lies_between(&[Between::Relay]);
    draft.lasts(5000, 9000);
    draft.requests(&["udp-rr"]);
    draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    let ppm = draft.between(12, 24) * 10_000;
    draft.say(format!("{} of what the {end} sends lost", percent(ppm)));
    draft.impair(end, |path| (path.loss_ppm, path.after_packets) = (ppm, 10), &["lost"], 3);
}

/// A route asks the sender for small segments, as a router does that clamps the MSS.
pub(super) fn small_segments(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.case.without_ipv6();
    draft.lasts(1500, 2500);
    draft.tcp(None);
    let end = other(draft.one_way());
    let mss = draft.between(100, 250);
    draft.say(format!("the {end}'s route asks for an MSS of {mss}"));
    draft.before(end, format!("ip route change $(ip -4 route show dev eth0 | head -n 1) dev eth0 advmss {mss}"));
    // OutSegs (RFC 4022) of the sender: a buffer of GSO counts as many as it is cut into.
    draft.witness(other(end), "awk '/^Tcp: [0-9]/ {print $12}' /proc/self/net/snmp", 100_000, "segments");
}

/// A router's next link carries smaller packets, and it says so: datagrams are cut into fragments.
pub(super) fn mtu(draft: &mut Draft) {
    draft.lies_between(&[Between::Router]);
    draft.case.without_ipv6();
    draft.lasts(1500, 2500);
    draft.udp(8, 40);
    draft.case.set.retain(|set| !set.starts_with("message_size"));
    draft.set("message_size", 1432);
    let sender = draft.one_way();
    let link = if sender == End::Target { "far" } else { "near" };
    let mtu = draft.of(&[1200, 1300, 1400]);
    draft.say(format!("the router's link to the {} has an MTU of {mtu}", other(sender)));
    draft.before(Place::Middle, format!("ip link set {link} mtu {mtu}"));
    // Ip FragCreates (RFC 4293) of the sender, who heard it.
    draft.witness(sender, "awk '/^Ip: [0-9]/ {print $20}' /proc/self/net/snmp", 20, "fragments made");
}
