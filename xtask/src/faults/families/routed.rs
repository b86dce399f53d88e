//! Faults of a router that go by what a packet is: its flow, its fragment, its first SYN, its size; and a queue of it that is deep.
//! Knows no findings.

use linerate_machine::end::End;

use super::super::case::{Between, Place, Witness};
use super::super::draw::Draft;
use super::ends::{FIREWALL, OVERLIMITS, rule};

/// A router's rule for what it forwards, and how many it must have dropped.
fn drops(draft: &mut Draft, what: &str, least: u64) {
    draft.before(Place::Middle, rule("inet", "forward", &format!("'{what} counter drop'")));
    draft.witness(Place::Middle, FIREWALL, least, "dropped by nft");
}

/// Some streams of many lose every datagram, as by a dead member of equal-cost routes; what opens them passes.
pub(super) fn dead_flows(draft: &mut Draft) {
    draft.lies_between(&[Between::Router]);
    draft.case.without_ipv6();
    draft.lasts(1500, 2500);
    draft.udp(8, 40);
    draft.case.set.retain(|set| !set.starts_with("rate") && !set.starts_with("message_size"));
    draft.set("rate", "2M");
    draft.set("message_size", 1000);
    let streams = draft.of(&[8, 12, 16]);
    draft.set("streams", streams);
    draft.one_way();
    let bit = draft.of(&[2, 4, 8]);
    draft.say(format!("streams whose port has bit {bit} die"));
    drops(draft, &format!("udp length > 200 udp sport & {bit} == {bit}"), 20);
}

/// Fragments but the first of each datagram are dropped.
pub(super) fn no_fragments(draft: &mut Draft) {
    draft.lies_between(&[Between::Router]);
    draft.case.without_ipv6();
    draft.lasts(1500, 2500);
    draft.udp(5, 20);
    draft.case.set.retain(|set| !set.starts_with("message_size"));
    let message = draft.of(&[2000, 4000, 8000]);
    draft.set("message_size", message);
    draft.one_way();
    draft.say(format!("fragments of datagrams of {message} bytes are dropped"));
    drops(draft, "meta nfproto ipv4 ip frag-off & 0x1fff != 0", 20);
}

/// More datagrams than the router shapes to, and a queue that holds them all.
pub(super) fn deep_queue(draft: &mut Draft) {
    draft.lies_between(&[Between::Router]);
    draft.lasts(1800, 2500);
    let mbps = draft.scaled(8, 25);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    draft.udp(20, 40);
    draft.case.set.retain(|set| !set.starts_with("rate"));
    let more = mbps * draft.between(14, 22) / 10;
    draft.set("rate", format!("{more}M"));
    let sender = draft.one_way();
    let link = if sender == End::Target { "far" } else { "near" };
    draft.say(format!("{mbps} Mbit/s before a queue without an end"));
    let shaper = format!("tc qdisc replace dev {link} root tbf rate {mbps}mbit burst 20k limit 64000000");
    draft.before(Place::Middle, shaper);
    draft.witness(Place::Middle, &OVERLIMITS.replace("eth0", link), 50, "overlimits");
}

/// Each SYN that asks for ECN is dropped, so that each connection waits for the second one.
pub(super) fn first_syn(draft: &mut Draft) {
    draft.lies_between(&[Between::Router]);
    draft.case.without_ipv6();
    draft.lasts(3500, 4500);
    draft.requests(&["tcp-crr"]);
    draft.one_way();
    draft.say("SYNs that ask for ECN are dropped".to_owned());
    for end in End::BOTH {
        draft.before(end, "sysctl -qw net.ipv4.tcp_ecn=1");
    }
    drops(draft, "tcp flags & (ecn | cwr) == ecn | cwr", 2);
}

/// A middlebox that resets a connection at its first full segment.
pub(super) fn resets(draft: &mut Draft) {
    draft.lies_between(&[Between::Router]);
    draft.case.without_ipv6();
    draft.lasts(1000, 1500);
    draft.tcp(Some(20));
    draft.one_way();
    draft.case.witnesses.push(Witness::Failed);
    draft.say("the router resets connections at their first full segment".to_owned());
    draft.before(
        Place::Middle,
        rule("inet", "forward", "'tcp flags & (syn | rst) == 0 meta length > 500 counter reject with tcp reset'"),
    );
}
