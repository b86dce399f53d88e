//! Families of faults, and of healthy worlds: what each draws. A family is a row here and a row in `truth`.
//! Knows no findings.

mod bridges;
mod ends;
mod healthy;
mod paths;
mod program;
mod refused;
mod requests;
mod routed;
mod stacked;

use super::draw::Draft;

/// A kind of fault, or of health.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// How often it is drawn, beside the others.
    pub(super) weight: u64,
    pub(super) draw: fn(&mut Draft),
}

const fn family(name: &'static str, weight: u64, draw: fn(&mut Draft)) -> Family {
    Family { name, weight, draw }
}

/// Worlds in which something is wrong.
pub(super) const FAULTS: [Family; 59] = [
    family("loss", 4, paths::loss),
    family("burst-loss", 3, paths::burst_loss),
    family("reordering", 3, paths::reordering),
    family("duplicates", 3, paths::duplicates),
    family("damage", 3, paths::damage),
    family("hole", 3, paths::hole),
    family("slow-link-long-queue", 3, paths::long_queue),
    family("slow-link-short-queue", 3, paths::short_queue),
    family("policer", 3, paths::policer),
    family("outage", 4, paths::outage),
    family("dead", 3, paths::dead),
    family("fragments", 2, paths::fragments),
    family("window", 3, paths::window),
    family("no-window-scaling", 2, paths::no_window_scaling),
    family("lossy-far-path", 3, paths::lossy_far_path),
    family("requests-lost", 3, paths::requests_lost),
    family("shaper", 4, ends::shaper),
    family("shaper-drops", 3, ends::shaper_drops),
    family("small-buffer", 3, ends::small_buffer),
    family("hog", 3, ends::hog),
    family("real-time-hog", 2, ends::real_time_hog),
    family("hog-sender", 3, ends::hog_sender),
    family("hog-reader", 2, ends::hog_reader),
    family("hog-requests", 2, ends::hog_requests),
    family("quota-receiver", 3, ends::quota_receiver),
    family("quota-sender", 3, ends::quota_sender),
    family("stopped", 4, ends::stopped),
    family("firewall-share", 3, ends::firewall_share),
    family("firewall-out", 2, ends::firewall_out),
    family("ingress-limit", 2, ends::ingress_limit),
    family("backlog", 1, ends::backlog),
    family("mtu", 2, ends::mtu),
    family("carrier", 3, ends::carrier),
    family("neighbour", 2, ends::neighbour),
    family("others-traffic", 2, ends::others_traffic),
    family("router-shaper", 2, ends::router_shaper),
    family("filter-out-tcp", 2, ends::filter_out_tcp),
    family("acks-lost", 2, ends::acks_lost),
    family("acks-shaped", 2, ends::acks_shaped),
    family("path-mtu", 2, paths::mtu),
    family("program", 3, program::drops),
    family("requests-filtered", 3, requests::filtered),
    family("requests-shaped", 2, requests::shaped),
    family("bridge-blocks", 2, bridges::blocks),
    family("bridge-mtu", 2, bridges::mtu),
    family("bridge-astray", 2, bridges::astray),
    family("firewall-drop", 4, refused::firewall_drop),
    family("firewall-reject", 3, refused::firewall_reject),
    family("no-route", 3, refused::no_route),
    family("blackhole", 2, refused::blackhole),
    family("wrong-neighbour", 2, refused::wrong_neighbour),
    family("interface-down", 2, refused::interface_down),
    family("no-forwarding", 2, refused::no_forwarding),
    family("reverse-path", 2, refused::reverse_path),
    family("hole-for-data", 2, refused::hole_for_data),
    family("router-firewall", 2, refused::router_firewall),
    family("no-address", 2, refused::no_address),
    family("duplicate-address", 2, refused::duplicate_address),
    family("circle", 2, refused::circle),
];

/// Such worlds that came later: numbers of their own draw them, so that the others are drawn as they always were.
pub(super) const LATER: [Family; 16] = [
    family("two-ports", 2, stacked::two_ports),
    family("lower-shaper", 2, stacked::lower_shaper),
    family("requests-often-lost", 2, paths::requests_often_lost),
    family("deep-bucket", 2, paths::deep_bucket),
    family("small-segments", 2, paths::small_segments),
    family("slows-down", 2, ends::slows_down),
    family("slow-for-a-while", 2, ends::slow_for_a_while),
    family("short-outage", 2, paths::short_outage),
    family("marks", 2, ends::marks),
    family("dead-flows", 2, routed::dead_flows),
    family("no-fragments", 2, routed::no_fragments),
    family("deep-queue", 2, routed::deep_queue),
    family("first-syn", 2, routed::first_syn),
    family("resets", 2, routed::resets),
    family("short-trains", 1, ends::short_trains),
    family("egress-limit", 2, ends::egress_limit),
];

/// Every family of faults.
pub(super) fn faults() -> impl Iterator<Item = &'static Family> {
    FAULTS.iter().chain(&LATER)
}

/// Faults that are planted beside another one, in the world and the trial that it has drawn.
pub(super) const SECOND: [Family; 3] = [
    family("stopped", 1, ends::stop),
    family("firewall-share", 1, ends::drop_a_share),
    family("outage", 1, paths::interrupt),
];

/// Worlds in which nothing is wrong.
pub(super) const HEALTHY: [Family; 9] = [
    family("clean-udp", 4, healthy::udp),
    family("clean-udp-many", 2, healthy::udp_many),
    family("clean-bursts", 2, healthy::bursts),
    family("clean-tcp-paced", 4, healthy::tcp_paced),
    family("clean-tcp-greedy", 3, healthy::tcp_greedy),
    family("clean-requests", 4, healthy::requests),
    family("clean-far", 3, healthy::far),
    family("clean-shaped", 3, healthy::shaped),
    family("clean-shaped-udp", 2, healthy::shaped_udp),
];

#[cfg(test)]
mod tests {
    use super::super::{draw, truth};
    use super::*;

    #[test]
    fn each_family_has_its_truth_and_a_witness() {
        for family in faults().chain(&HEALTHY) {
            let is_healthy = truth::of(family.name).is_healthy;
            assert_eq!(is_healthy, family.name.starts_with("clean"), "{}", family.name);
            for number in 0..40 {
                let case = draw::case(7, number, Some(family.name));
                assert_eq!(case.families, [family.name]);
                assert_eq!(case.witnesses.is_empty(), is_healthy, "{}", family.name);
            }
        }
    }

    #[test]
    fn two_faults_are_two_families_and_each_has_its_witness() {
        let cases = (0..4000).map(|number| draw::case(5, number, None));
        let two: Vec<_> = cases.filter(|case| case.families.len() == 2).collect();
        assert!(two.len() > 50, "{}", two.len());
        assert!(two.iter().all(|case| case.witnesses.len() >= 2 && case.between.has_relay()));
    }

    #[test]
    fn families_that_came_later_are_drawn_by_numbers_of_their_own() {
        let is_later = |name: &str| LATER.iter().any(|family| family.name == name);
        let drawn: Vec<u64> =
            (0..200).filter(|number| draw::case(1, *number, None).families.iter().any(|name| is_later(name))).collect();
        assert!(drawn.len() >= 10 && drawn.iter().all(|number| *number > 10), "{drawn:?}");
    }

    #[test]
    fn a_case_is_drawn_from_its_seed_and_number() {
        for number in 0..50 {
            let [one, same, another] = [3, 3, 4].map(|seed| format!("{:?}", draw::case(seed, number, None)));
            assert_eq!(one, same);
            assert_ne!(one, another);
        }
    }
}
