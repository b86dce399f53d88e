//! Faults at interfaces that stand on others: a shaper below, and traffic that passes by another interface than the address's.
//! Knows no findings.

use linerate_machine::end::End;

use super::super::case::{Between, Place};
use super::super::draw::Draft;
use super::ends::{FIREWALL, QDISC_DROPS, rule};

/// The end's addresses are moved from its interface to `upper`, which these lines make.
fn move_addresses(draft: &mut Draft, end: End, upper: &str, make: &str) {
    let lines = format!(
        "old=$(ip -4 -o address show dev eth0 | awk '{{print $4}}')\n{make}\n\
         ip address flush dev eth0 scope global\nip address add $old dev {upper}\nip link set {upper} up"
    );
    draft.before(end, lines);
}

/// The sender's address is at a bridge or a macvlan, and what it stands on shapes.
pub(super) fn lower_shaper(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable, Between::Bridge]);
    draft.case.without_ipv6();
    draft.lasts(1500, 2500);
    let mbps = draft.scaled(10, 40);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    draft.udp(20, 40);
    draft.case.set.retain(|set| !set.starts_with("rate"));
    let more = mbps * draft.between(13, 20) / 10;
    draft.set("rate", format!("{more}M"));
    let sender = draft.one_way();
    draft.case.at = Some(sender);
    let kind = draft.of(&["bridge", "macvlan"]);
    draft.say(format!("a TBF of {mbps} Mbit/s below the {kind} that has the {sender}'s address"));
    match kind {
        "bridge" => {
            let make =
                "ip link add br1 address $(cat /sys/class/net/eth0/address) type bridge\nip link set eth0 master br1";
            move_addresses(draft, sender, "br1", make);
        }
        _ => move_addresses(draft, sender, "mv0", "ip link add mv0 link eth0 type macvlan mode bridge"),
    }
    draft.before(sender, "ethtool -K eth0 tso off gso off >/dev/null");
    let limit = draft.scaled(12_000, 40_000);
    draft.before(sender, format!("tc qdisc replace dev eth0 root tbf rate {mbps}mbit burst 8k limit {limit}"));
    draft.witness(sender, QDISC_DROPS, 10, "qdisc drops");
}

/// The hardware address of an end's interface, which its neighbour keeps.
const OWN: &str = "02:00:00:00:00:77";

/// An end's address is at a macvlan, and the traffic passes by the interface below it: some is lost where the counters of neither
/// end's link can tell.
pub(super) fn two_ports(draft: &mut Draft) {
    draft.lies_between(&[Between::Bridge]);
    draft.case.without_ipv6();
    draft.lasts(1500, 2500);
    draft.udp(8, 40);
    let sender = draft.one_way();
    let receiver = draft.receiver();
    let end = draft.of(&[sender, receiver]);
    let percent = draft.between(3, 20);
    draft
        .say(format!("the {end}'s traffic passes by another interface than its address's; {percent} % are lost there"));
    let to = if end == sender { receiver } else { sender };
    let last = |end: End| if end == End::Target { 2 } else { 1 };
    draft.before(
        end,
        format!(
            "ip link set eth0 address {OWN}\nsysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0"
        ),
    );
    move_addresses(draft, end, "mv0", "ip link add mv0 link eth0 type macvlan mode bridge");
    // What it sends leaves by the interface below, too.
    draft.before(
        end,
        format!(
            "sysctl -qw net.ipv4.conf.mv0.rp_filter=0\nip route del 198.18.0.0/24 dev mv0\n\
             ip route add 198.18.0.0/24 dev eth0 src 198.18.0.{}",
            last(end)
        ),
    );
    let neighbour = format!("ip neigh replace 198.18.0.{} lladdr {OWN} dev eth0 nud permanent", last(end));
    draft.before(to, neighbour);
    let table = |hook: &str, family: &str| {
        rule(family, hook, &format!("meta l4proto udp numgen random mod 100 '<' {percent} counter drop"))
    };
    let place = if end == sender { Place::Middle } else { end.into() };
    draft
        .before(place, if end == sender { table("forward", "bridge") } else { table("ingress device eth0", "netdev") });
    draft.witness(place, FIREWALL, 10, "dropped by nft");
}
