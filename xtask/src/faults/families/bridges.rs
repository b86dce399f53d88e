//! Faults of a bridge between the ends: ports that forward nothing, links that carry less, addresses learnt at the wrong port.
//! Knows no findings.

use linerate_machine::end::End;

use super::super::case::{Between, Place, What};
use super::super::draw::Draft;
use super::super::relay::PORTS;

/// Frames that an end's interface sent.
const SENT: &str = "awk '/eth0:/ {print $11}' /proc/self/net/dev";

/// The bridge's port at an end.
const fn port(end: End) -> &'static str {
    PORTS[match end {
        End::Target => 0,
        End::Host => 1,
    }]
}

fn stream(draft: &mut Draft) {
    if draft.one_in(2) {
        draft.udp(8, 40);
    } else {
        let mbps = draft.scaled(10, 60);
        draft.tcp(Some(mbps));
    }
}

/// A port is blocked for a while, as a spanning tree does it: no link goes down.
pub(super) fn blocks(draft: &mut Draft) {
    draft.lies_between(&[Between::Bridge]);
    draft.lasts(2500, 3500);
    stream(draft);
    let sender = draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    let (at, length) = (draft.between(300, 700), draft.scaled(400, 1200));
    let set = |state: u8| What::Shell(Place::Middle, format!("bridge link set dev {} state {state}", port(end)));
    draft.after(at, set(0));
    draft.after(at + length, set(3));
    if draft.case.plan == "udp-stream" {
        draft.case.lasts_ms = Some(length);
    }
    draft.say(format!("the bridge's port at the {end} is blocked for {length} ms"));
    draft.witness(sender, SENT, 30, "frames sent");
}

/// The bridge carries smaller packets than the ends send, and says nothing.
pub(super) fn mtu(draft: &mut Draft) {
    draft.lies_between(&[Between::Bridge]);
    draft.lasts(1500, 2000);
    draft.udp(8, 40);
    draft.case.set.retain(|set| !set.starts_with("message_size"));
    draft.set("message_size", 1432);
    let sender = draft.one_way();
    let mtu = draft.of(&[1300, 1400, 1450]);
    draft.say(format!("the bridge's ports have an MTU of {mtu}"));
    draft.before(Place::Middle, PORTS.map(|port| format!("ip link set {port} mtu {mtu}\n")).concat());
    draft.witness(sender, SENT, 30, "frames sent");
}

/// From a moment on the bridge takes the receiver to be where the sender is.
pub(super) fn astray(draft: &mut Draft) {
    draft.lies_between(&[Between::Bridge]);
    draft.lasts(2000, 3000);
    stream(draft);
    let sender = draft.one_way();
    let receiver = draft.receiver();
    let at = draft.between(300, 900);
    draft.say(format!("from {at} ms on the bridge forwards nothing to the {receiver}"));
    let lines = format!(
        "mac=$(bridge fdb show br br0 brport {} | awk '!/permanent/ {{print $1; exit}}')\n\
         bridge fdb replace $mac dev {} master static",
        port(receiver),
        port(sender)
    );
    draft.after(at, What::Shell(Place::Middle, lines));
    draft.witness(sender, SENT, 30, "frames sent");
}
