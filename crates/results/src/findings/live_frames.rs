//! Frames that a program made and handed to a driver which sends none of them, and says nothing.
//! Knows what BPF_PROG_TEST_RUN does with frames that nobody takes.

use linerate_trial::api::SenderApi;
use linerate_trial::spec::Workload;

use super::case::Case;
use super::{Finding, Rule, Sureness, lossy_path, transmit_ring, unaccounted};

pub(super) const RULE: Rule = Rule {
    name: "live-frames",
    says: "Live frames do not leave: the sender's driver takes none from XDP programs.",
    rests_on: "Frames, sent by live-frames, none of which arrived, and the sender's link tx_packets, which moved by less than a tenth of \
               them.",
    source: "Linux Documentation/bpf/bpf_prog_run.rst; net/bpf/test_run.c, xdp_test_run_batch, which frees what xdp_do_redirect \
             refuses; ndo_xdp_xmit in struct net_device_ops.",
    suggests: &["sender_api"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let flow = case.flow().filter(|_| case.is(Workload::Frames))?;
    let way = flow.sender_api.as_ref().filter(|api| api.name == SenderApi::LiveFrames.name())?;
    let made = flow.packets_sent.filter(|made| *made > 0)?;
    let left = case.sender.link_sent()?;
    if flow.packets_received != Some(0) || left >= made.div_ceil(10) {
        return None;
    }
    let end = case.sender.end;
    let driver = case.sender.nic().and_then(|nic| nic.driver.as_deref()).map(|driver| format!(", {driver},"));
    let driver = driver.unwrap_or_default();
    let sentence = format!("The {end}'s driver{driver} sends no frames that come from an XDP program (ndo_xdp_xmit).");
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, 1.0, sentence)
            .because(format!("{} made {made} frames, the {end}'s link tx_packets rose by {left}", way.name))
            .because("0 of them arrived")
            .wrong_if("It is wrong if nothing arrives with sender_api=packet-sendmmsg either.")
            .attempt("sender_api", "packet-sendmmsg", "loss")
            .explains(&[unaccounted::RULE.name, transmit_ring::RULE.name, lossy_path::RULE.name]),
    )
}
