//! Worlds in which nothing is wrong: clean and shaped links, far paths, and traffic of every kind.
//! Knows no findings.

use super::super::case::Between;
use super::super::draw::Draft;

const ALL: [Between; 6] =
    [Between::Cable, Between::Cable, Between::Relay, Between::Bridge, Between::Router, Between::Routers];

fn maybe_both(draft: &mut Draft) {
    if draft.one_in(4) {
        draft.both_ways();
    } else {
        draft.one_way();
    }
}

pub(super) fn udp(draft: &mut Draft) {
    draft.lies_between(&ALL);
    draft.lasts(1000, 2000);
    draft.udp(2, 40);
    if draft.one_in(3) {
        draft.set("spacing", "poisson");
        draft.say("Poisson");
    }
    maybe_both(draft);
}

pub(super) fn udp_many(draft: &mut Draft) {
    draft.lies_between(&ALL);
    draft.lasts(1000, 2000);
    draft.udp(1, 5);
    let streams = draft.between(3, 8);
    draft.set("streams", streams);
    maybe_both(draft);
}

pub(super) fn bursts(draft: &mut Draft) {
    draft.lies_between(&ALL);
    draft.lasts(1000, 2000);
    draft.udp(5, 30);
    let burst = draft.between(4, 24);
    draft.set("burst", burst);
    draft.say(format!("bursts of {burst}"));
    maybe_both(draft);
}

pub(super) fn tcp_paced(draft: &mut Draft) {
    draft.lies_between(&ALL);
    draft.lasts(1000, 2000);
    let mbps = draft.scaled(5, 60);
    draft.tcp(Some(mbps));
    if draft.one_in(3) {
        draft.set("streams", 3);
    }
    maybe_both(draft);
}

pub(super) fn tcp_greedy(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable, Between::Router]);
    draft.lasts(1000, 2000);
    draft.tcp(None);
    if draft.one_in(3) {
        draft.set("streams", 3);
    }
    maybe_both(draft);
}

pub(super) fn requests(draft: &mut Draft) {
    draft.lies_between(&ALL);
    draft.lasts(1000, 2000);
    draft.requests(&["tcp-rr", "udp-rr", "tcp-crr"]);
    if draft.case.plan != "tcp-crr" && draft.one_in(3) {
        draft.set("outstanding", 4);
    }
    if draft.one_in(3) {
        // As fast as answers come.
        draft.case.set.retain(|set| !set.starts_with("rate"));
    }
    draft.one_way();
}

pub(super) fn far(draft: &mut Draft) {
    draft.lies_between(&[Between::Relay, Between::Routers]);
    draft.lasts(1500, 2500);
    draft.far(2_500, 25_000);
    if draft.one_in(2) {
        for impairment in &mut draft.case.impairments {
            impairment.jitter_us = 500;
        }
        draft.say("0.5 ms jitter");
    }
    match draft.of(&[0, 1, 2]) {
        0 => draft.udp(5, 40),
        1 => {
            let mbps = draft.scaled(2, 10);
            draft.tcp(Some(mbps));
        }
        _ => {
            draft.requests(&["tcp-rr", "udp-rr"]);
            // One under way at a time has its answer before the next is due.
            draft.case.set.retain(|set| !set.starts_with("rate"));
            draft.set("rate", "10pps");
        }
    }
    draft.one_way();
}

/// TCP fills a shaped link: the shaper is what limits, and is no fault.
pub(super) fn shaped(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable, Between::Router]);
    draft.lasts(1500, 2500);
    draft.tcp(None);
    let mbps = draft.scaled(10, 150);
    draft.case.carries_bps = Some(mbps * 1_000_000);
    let sender = draft.one_way();
    draft.say(format!("TBF of {mbps} Mbit/s at the {sender}"));
    draft.before(
        sender,
        format!("tc qdisc replace dev eth0 root tbf rate {mbps}mbit burst {} limit 4000000", (mbps * 50).max(6056)),
    );
}

/// UDP within what a shaped link carries.
pub(super) fn shaped_udp(draft: &mut Draft) {
    draft.lies_between(&[Between::Cable, Between::Router]);
    draft.lasts(1000, 2000);
    draft.udp(5, 40);
    let mbps = draft.rate_bps.unwrap_or_default() / 1_000_000 * 2;
    let sender = draft.one_way();
    draft.say(format!("TBF of {mbps} Mbit/s at the {sender}"));
    draft.before(
        sender,
        format!("tc qdisc replace dev eth0 root tbf rate {mbps}mbit burst {} limit 400000", (mbps * 50).max(6056)),
    );
}
