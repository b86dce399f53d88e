//! Faults with which a trial cannot begin.
//! Knows no findings; the words that its sentence must have stand in `truth`.

use linerate_machine::end::End;

use super::super::case::{Between, Place, Witness, other, way_of};
use super::super::draw::Draft;
use super::ends::rule;

const PLAIN: [Between; 3] = [Between::Cable, Between::Cable, Between::Router];
const ROUTED: [Between; 2] = [Between::Router, Between::Routers];

/// A short trial of any kind.
fn trial(draft: &mut Draft, between: &[Between]) {
    draft.lies_between(between);
    draft.lasts(1000, 1500);
    match draft.of(&[0, 1, 2]) {
        0 => draft.udp(8, 40),
        1 => draft.tcp(Some(20)),
        _ => draft.requests(&["udp-rr", "tcp-rr", "tcp-crr"]),
    }
    draft.one_way();
    draft.case.witnesses.push(Witness::Failed);
}

fn an_end(draft: &mut Draft) -> End {
    let end = draft.of(&[End::Target, End::Host]);
    draft.case.at = Some(end);
    end
}

fn is_tcp(draft: &Draft) -> bool {
    draft.case.plan.starts_with("tcp")
}

fn firewall(draft: &mut Draft, verdict: &str) {
    let end = an_end(draft);
    let hook = draft.of(&["input", "input", "output"]);
    let protocol = if is_tcp(draft) { "tcp" } else { "udp" };
    draft.say(format!("the {end}'s firewall ({hook}, {protocol}): {verdict}"));
    draft.before(end, rule("inet", hook, &format!("meta l4proto {protocol} counter {verdict}")));
}

pub(super) fn firewall_drop(draft: &mut Draft) {
    trial(draft, &PLAIN);
    firewall(draft, "drop");
}

pub(super) fn firewall_reject(draft: &mut Draft) {
    trial(draft, &PLAIN);
    let verdict = if is_tcp(draft) {
        draft.of(&["reject with tcp reset", "reject with icmpx type admin-prohibited"])
    } else {
        draft.of(&["reject with icmpx type port-unreachable", "reject with icmpx type admin-prohibited"])
    };
    firewall(draft, verdict);
}

pub(super) fn no_route(draft: &mut Draft) {
    trial(draft, &ROUTED);
    let end = an_end(draft);
    draft.say(format!("the {end} has no route"));
    draft.before(end, "ip route del default\nsix ip -6 route del default");
}

pub(super) fn blackhole(draft: &mut Draft) {
    trial(draft, &ROUTED);
    let kind = draft.of(&["blackhole", "unreachable", "prohibit"]);
    // The router's own network towards the end would be the longer match: a host route beats it.
    let end = an_end(draft);
    let place = if draft.one_in(2) { Place::Middle } else { Place::from(other(end)) };
    if place == Place::Middle {
        draft.case.at = None;
    }
    let net = if end == End::Target { 2 } else { 1 };
    draft.say(format!("a {kind} route to the {end} at the {place:?}"));
    draft.before(
        place,
        format!("ip route add {kind} 198.18.{net}.2/32\nsix ip -6 route add {kind} 2001:2:0:{net}::2/128"),
    );
}

pub(super) fn wrong_neighbour(draft: &mut Draft) {
    trial(draft, &[Between::Cable, Between::Relay]);
    let end = an_end(draft);
    let last = if end == End::Target { 1 } else { 2 };
    draft.say(format!("the {end} has a wrong hardware address for its neighbour"));
    draft.before(
        end,
        format!(
            "ip neigh replace 198.18.0.{last} lladdr 02:00:00:00:00:77 dev eth0 nud permanent\n\
             six ip neigh replace 2001:2:0:0::{last} lladdr 02:00:00:00:00:77 dev eth0 nud permanent"
        ),
    );
}

pub(super) fn interface_down(draft: &mut Draft) {
    trial(draft, &[Between::Cable, Between::Relay, Between::Router]);
    let end = an_end(draft);
    draft.say(format!("the {end}'s interface is down"));
    draft.before(end, "ip link set eth0 down");
}

pub(super) fn no_forwarding(draft: &mut Draft) {
    trial(draft, &ROUTED);
    draft.say("the router does not forward");
    draft.before(Place::Middle, "sysctl -qw net.ipv4.ip_forward=0\nsix sysctl -qw net.ipv6.conf.all.forwarding=0");
}

/// What comes would be answered over another interface, and the reverse path filter takes it for forged.
pub(super) fn reverse_path(draft: &mut Draft) {
    trial(draft, &[Between::Router]);
    draft.case.is_ipv6 = false;
    draft.case.set.retain(|set| !set.starts_with("ip="));
    let end = an_end(draft);
    let net = if end == End::Target { 1 } else { 2 };
    draft.say(format!("the {end}'s reverse path filter"));
    draft.before(
        end,
        format!(
            "ip link add d0 type veth peer name d1\nip link set d0 up\nip link set d1 up\n\
             ip address add 198.18.9.1/24 dev d0\nip neigh add 198.18.9.2 lladdr 02:00:00:00:00:88 dev d0\n\
             ip route add 198.18.{net}.0/24 via 198.18.9.2\n\
             sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1"
        ),
    );
}

/// The handshake passes and the first packet with data does not.
pub(super) fn hole_for_data(draft: &mut Draft) {
    draft.lies_between(&[Between::Relay, Between::Routers]);
    draft.lasts(1000, 1500);
    if draft.one_in(2) {
        draft.tcp(Some(20));
    } else {
        draft.requests(&["tcp-rr", "udp-rr"]);
        draft.case.set.retain(|set| !set.contains("_size"));
        draft.set("request_size", 1200);
        draft.set("response_size", 1200);
    }
    let sender = draft.one_way();
    let size = draft.between(300, 1000);
    draft.say(format!("IP packets above {size} bytes vanish"));
    for end in [sender, other(sender)] {
        draft.case.impairments[way_of(end)].hole_octets = size;
    }
    draft.impair(sender, |_| {}, &["in_hole"], 1);
}

/// Who asks a router's firewall gets no answer from it, or a refusal that names no end.
pub(super) fn router_firewall(draft: &mut Draft) {
    trial(draft, &ROUTED);
    let protocol = if is_tcp(draft) { "tcp" } else { "udp" };
    let verdict = draft.of(&["drop", "drop", "reject with icmpx type admin-prohibited"]);
    draft.say(format!("the router's firewall ({protocol}): {verdict}"));
    draft.before(Place::Middle, rule("inet", "forward", &format!("meta l4proto {protocol} counter {verdict}")));
}

/// One end has no address of the network that both share.
pub(super) fn no_address(draft: &mut Draft) {
    trial(draft, &[Between::Cable, Between::Relay]);
    let end = an_end(draft);
    draft.say(format!("the {end} has no address"));
    draft.before(end, "ip address flush dev eth0 scope global");
}

/// A third machine, the bridge itself, has an end's address as well, and answers for it.
pub(super) fn duplicate_address(draft: &mut Draft) {
    trial(draft, &[Between::Bridge]);
    draft.case.without_ipv6();
    let end = an_end(draft);
    let last = if end == End::Target { 2 } else { 1 };
    draft.say(format!("the bridge has the {end}'s address, too"));
    draft.before(Place::Middle, format!("ip address add 198.18.0.{last}/24 dev br0"));
    draft.before(other(end), "ip neigh flush dev eth0");
}

/// The router sends what is for an end back to the other one, which forwards it to the router.
pub(super) fn circle(draft: &mut Draft) {
    trial(draft, &[Between::Router]);
    draft.case.without_ipv6();
    let end = an_end(draft);
    draft.case.at = None;
    let (net, other_net) = if end == End::Target { (2, 1) } else { (1, 2) };
    draft.say(format!("what is for the {end} goes in a circle"));
    draft.before(Place::Middle, format!("ip route add 198.18.{net}.2/32 via 198.18.{other_net}.2"));
    draft.before(other(end), "sysctl -qw net.ipv4.ip_forward=1");
}
