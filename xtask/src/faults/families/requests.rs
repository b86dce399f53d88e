//! Faults at the ends that requests meet: filters that take a share of them, shapers that hold them back.
//! Knows no findings.

use linerate_machine::end::End;

use super::super::case::Between;
use super::super::draw::Draft;
use super::ends::{FIREWALL, OVERLIMITS, PLAIN, rule};

/// Either end's firewall drops a share of what comes.
pub(super) fn filtered(draft: &mut Draft) {
    draft.lies_between(&PLAIN);
    draft.lasts(2500, 3500);
    draft.requests(&["udp-rr", "tcp-rr", "tcp-crr"]);
    draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    draft.case.at = Some(end);
    let is_udp = draft.case.plan == "udp-rr";
    // What TCP's own machine refuses it to send, it sends again at once.
    let hook = if is_udp && draft.one_in(3) { "output" } else { "input" };
    let protocol = if is_udp { "udp" } else { "tcp" };
    let share = draft.between(3, 8);
    draft.say(format!("a firewall at the {end} ({hook}, {protocol}) drops {share} %"));
    draft.before(
        end,
        rule("inet", hook, &format!("meta l4proto {protocol} numgen random mod 100 '<' {share} counter drop")),
    );
    draft.witness(end, FIREWALL, 3, "dropped by nft");
}

/// A token bucket at either end's egress that lets fewer pass than are asked.
pub(super) fn shaped(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable]);
    draft.lasts(1500, 2500);
    draft.requests(&["udp-rr", "tcp-rr"]);
    draft.one_way();
    let end = draft.of(&[End::Target, End::Host]);
    draft.case.at = Some(end);
    let asked_kbps = draft.per_s * (draft.message + 66) * 8 / 1000;
    let kbps = (asked_kbps * draft.between(30, 60) / 100).max(40);
    draft.say(format!("a TBF of {kbps} kbit/s at the {end}, of {asked_kbps} that are asked"));
    draft.before(end, format!("tc qdisc replace dev eth0 root tbf rate {kbps}kbit burst 1600 limit 40000"));
    draft.witness(end, OVERLIMITS, 20, "overlimits");
}
