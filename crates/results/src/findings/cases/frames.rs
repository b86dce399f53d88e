//! Recorded faults of streams of frames, which a sender tries again when its own machine refuses them.
//! Measured by nobody.

use linerate_machine::end::Direction::{Rx, Tx};
use linerate_path::stage::Stage;
use linerate_trial::outcome::FlowCounts;
use linerate_trial::spec::Workload;

use super::{FaultCase, between_links, case, lose, nic, udp};
use crate::record::{FrameFigures, FrameSize, Record};

/// Every one of them.
pub(super) fn cases() -> Vec<FaultCase> {
    // As many as were sent arrived, less than was asked, by a thread that was busy all the time.
    let refused = |record: &mut Record, sent: u64| {
        record.workload = Workload::Frames;
        let flow = &mut record.result.as_mut().expect("figures").flow;
        (flow.packets_sent, flow.packets_received) = (Some(sent), Some(sent));
        (flow.packets_lost, flow.loss_ratio) = (Some(0), (sent > 0).then_some(0.0));
        flow.throughput_bps = Some(sent as f64 * 512.0 * 8.0 / 2.0);
        flow.achieved_load_bps = flow.throughput_bps;
        let threads = record.target.threads.as_mut().expect("they are told");
        (threads.user_s, threads.system_s) = (0.0, 1.96);
    };
    // The sender says how many were refused, and a budget has none of these.
    let settled = |mut case: FaultCase| {
        (case.record.loss_budget, case.record.unaccounted) = (Some(Vec::new()), Some(0));
        case.record.doubts.clear();
        case
    };
    vec![
        settled(case("frames that a shaper at the egress refuses", "shaper", &[], udp(Tx, 10, 10.0), move |r| {
            refused(r, 1_033);
            nic(&mut r.target).qdisc = Some("tbf".to_owned());
            for (field, value) in [("drops", 332_140), ("overlimits", 335_208), ("packets", 1_042)] {
                r.target.counters.add(Stage::Qdisc, format!("eth0 tbf {field}"), value);
            }
        })),
        settled(case("frames that a short queue refuses", "qdisc-drops", &[], udp(Tx, 10, 10.0), move |r| {
            refused(r, 1_033);
            nic(&mut r.target).qdisc = Some("netem".to_owned());
            r.target.counters.add(Stage::Qdisc, "eth0 netem drops", 40_000);
        })),
        settled(case(
            "frames too long for the other end of a veth",
            "mtu-mismatch",
            &[],
            udp(Tx, 10, 10.0),
            move |r| {
                refused(r, 0);
                drop(r.asked.insert("frame_size".to_owned(), "1518".to_owned()));
                nic(&mut r.host).mtu = Some(1200);
                r.target.counters.add(Stage::DriverTxRing, "link tx_dropped", 418_374);
                r.host.counters.add(Stage::DriverRxRing, "link rx_dropped", 418_374);
            },
        )),
        case("the longest frames of a mix", "lossy-path", &[], udp(Rx, 60, 55.0), |r| {
            r.workload = Workload::Frames;
            let sent = r.result.as_ref().and_then(|figures| figures.flow.packets_sent).expect("a stream of datagrams");
            let lost = lose(r, sent / 12);
            let size = |octets: u32, sent: u64, lost: u64| FrameSize { octets, sent, received: sent - lost };
            let (short, middle) = (sent * 7 / 12, sent / 3);
            let sizes = vec![size(64, short, 0), size(594, middle, 0), size(1518, sent - short - middle, lost)];
            let frames = FrameFigures { sizes, ..FrameFigures::default() };
            let flow = &mut r.result.as_mut().expect("figures").flow;
            // Each twelfth frame is long: lost one by one at even distances, as a limit of rate has it.
            (flow.frames, flow.loss_bursts) = (Some(frames), Some([(1, lost)].into()));
            between_links(r, sent, lost);
        }),
        case("16 of 64 flows of a stream of frames", "dead-flows", &["bottleneck"], udp(Rx, 1, 0.75), |r| {
            r.workload = Workload::Frames;
            let lost = lose(r, 42);
            let sent = r.result.as_ref().and_then(|figures| figures.flow.packets_sent).expect("a stream of datagrams");
            let flows = FlowCounts {
                all: 64,
                dead: 16,
                dead_sent: lost,
                dead_lost: lost,
                others_sent: sent - lost,
                others_lost: 0,
            };
            r.result.as_mut().expect("figures").flow.frames =
                Some(FrameFigures { flows: Some(flows), ..FrameFigures::default() });
            between_links(r, sent, lost);
        }),
    ]
}
