//! Recorded faults that were examined, because nothing came through.

use linerate_machine::end::Direction::{Rx, Tx};
use linerate_machine::end::End;
use linerate_machine::probe::{Protocol, Refusal};
use linerate_path::stage::Stage;
use linerate_trial::api::{ApiUse, SenderApi};
use linerate_trial::event::{Event, EventKind};
use linerate_trial::spec::Workload;

use super::{FaultCase, between_links, case, lose, nic, rr, tcp, udp, with_middle};
use crate::examination::{Examination, Failed, Passed, PerEndMtu, Place, Probe, Step, StepResult};
use crate::record::Record;

pub(super) fn cases() -> Vec<FaultCase> {
    let examined = |r: &mut Record, from: End, place: Place| {
        let passed =
            StepResult::Passed(Passed::Route { interface: Some("eth0".to_owned()), gateway: None, local: false });
        let lost = Failed::Lost { from, is_answer: false, place, everything: false, drops: Vec::new(), dscp: None };
        let steps = vec![
            Step { probe: Probe::Route { from }, came: passed },
            Step { probe: Probe::Transport { transport: Protocol::Udp, asker: from }, came: StepResult::Failed(lost) },
        ];
        (r.result, r.error) = (None, Some("udp-stream flow 0 was not opened within 5 s".to_owned()));
        r.examination = Some(Examination { seconds: 1.3, steps, cause: Some(1) });
    };
    vec![
        case("an input filter that says nothing", "nothing-comes-through", &[], udp(Rx, 300, 0.0), move |r| {
            examined(r, End::Host, Place::NotUp { interface: "eth0".to_owned(), expected: None });
        }),
        case("an output filter", "nothing-comes-through", &[], udp(Tx, 300, 0.0), move |r| {
            examined(r, End::Target, Place::Refused { refusal: Refusal::NotPermitted });
        }),
        case("a filter that takes FINs", "nothing-comes-through", &[], rr(0.02), move |r| {
            r.workload = Workload::TcpCrr;
            let probe = Probe::Closing { asker: End::Host };
            let carried = Passed::Connected { handshake_s: Some(0.000_3), retransmitted: None };
            let transport = Probe::Transport { transport: Protocol::Tcp, asker: End::Host };
            let steps = vec![
                Step { probe: transport, came: StepResult::Passed(carried) },
                Step { probe, came: StepResult::Failed(Failed::NotClosed) },
            ];
            (r.result, r.error) = (None, Some("the host: no test traffic passed for 5 s".to_owned()));
            r.examination = Some(Examination { seconds: 1.6, steps, cause: Some(1) });
        }),
        case("a middlebox that forges a RST", "connection-reset", &[], tcp(Rx, 40.0), |r| {
            (r.result, r.error) = (None, Some("the target: the connection was reset".to_owned()));
            let what = EventKind::ConnectionReset;
            r.events = vec![Event { at_s: 0.4, for_s: None, within_s: 0.1, end: Some(End::Target), what }];
            r.host.counters.add(Stage::SenderStack, "Tcp OutSegs", 2_100);
            // Of what came behind it.
            r.target.counters.add(Stage::SenderStack, "Tcp OutRsts", 14);
        }),
        case("an agent without descriptors", "nothing-comes-through", &[], udp(Rx, 10, 0.0), move |r| {
            let came = Failed::Connections { open: 51, refusal: Some(Refusal::NoDescriptors), doubled: false };
            let probe = Probe::Connections { asker: End::Host, connections: 100 };
            let steps = vec![Step { probe, came: StepResult::Failed(came) }];
            (r.result, r.error) = (None, Some("the host did not carry out 'connect': EMFILE".to_owned()));
            r.examination = Some(Examination { seconds: 0.7, steps, cause: Some(0) });
        }),
        case(
            "MTU 1400 at the receiver, and probes of 1500",
            "mtu-mismatch",
            &["nothing-comes-through"],
            udp(Rx, 100, 0.0),
            |r| {
                let lost = lose(r, 17_006);
                r.target.counters.add(Stage::DriverRxRing, "link rx_dropped", lost);
                nic(&mut r.target).mtu = Some(1400);
                let mtus = PerEndMtu { target: Some(1400), host: Some(1500) };
                let failed = Failed::Size { largest: 1400, mtus, place: None, drops: Vec::new(), routed: false };
                let step =
                    Step { probe: Probe::Size { from: End::Host, octets: 1500 }, came: StepResult::Failed(failed) };
                r.examination = Some(Examination { seconds: 1.3, steps: vec![step], cause: Some(0) });
            },
        ),
        case(
            "MTU 1300 at the receiver, behind a router whose ICMP is lost",
            "nothing-comes-through",
            &["lossy-path"],
            udp(Rx, 100, 0.0),
            |r| {
                let lost = lose(r, 17_006);
                between_links(r, lost, lost);
                nic(&mut r.target).mtu = Some(1300);
                let mtus = PerEndMtu { target: Some(1300), host: Some(1500) };
                let failed = Failed::Size { largest: 1300, mtus, place: None, drops: Vec::new(), routed: true };
                let steps = vec![
                    Step {
                        probe: Probe::Hops { from: End::Host },
                        came: StepResult::Passed(Passed::Hops { routers: 1 }),
                    },
                    Step { probe: Probe::Size { from: End::Host, octets: 1500 }, came: StepResult::Failed(failed) },
                ];
                r.examination = Some(Examination { seconds: 1.3, steps, cause: Some(1) });
            },
        ),
        case(
            "MTU 1400 at a bridge in the middle",
            "nothing-comes-through",
            &["middle-drops"],
            udp(Rx, 100, 0.0),
            |r| {
                let lost = lose(r, 17_006);
                let ports = &mut with_middle(r).ports;
                ports.host.counters.add(Stage::DriverRxRing, "link rx_dropped", lost);
                for port in [&mut ports.target, &mut ports.host] {
                    port.nic.get_or_insert_default().mtu = Some(1400);
                }
                let mtus = PerEndMtu { target: Some(1500), host: Some(1500) };
                let failed = Failed::Size { largest: 1400, mtus, place: None, drops: Vec::new(), routed: false };
                let step =
                    Step { probe: Probe::Size { from: End::Host, octets: 1500 }, came: StepResult::Failed(failed) };
                r.examination = Some(Examination { seconds: 1.3, steps: vec![step], cause: Some(0) });
            },
        ),
        case("frames of a program at a driver that sends none of them", "live-frames", &[], udp(Tx, 1, 0.0), |r| {
            r.workload = Workload::Frames;
            let sent = r.result.as_ref().and_then(|figures| figures.flow.packets_sent).expect("a stream of datagrams");
            lose(r, sent);
            r.result.as_mut().expect("figures").flow.sender_api =
                Some(ApiUse { name: SenderApi::LiveFrames.name().to_owned(), ..ApiUse::default() });
            r.target.counters.add(Stage::DriverTxRing, "link tx_packets", 2);
            r.host.counters.add(Stage::DriverRxRing, "link rx_packets", 2);
        }),
        case("frames of a program that leave, and vanish behind the link", "lossy-path", &[], udp(Rx, 1, 0.0), |r| {
            r.workload = Workload::Frames;
            let sent = r.result.as_ref().and_then(|figures| figures.flow.packets_sent).expect("a stream of datagrams");
            lose(r, sent);
            r.result.as_mut().expect("figures").flow.sender_api =
                Some(ApiUse { name: SenderApi::LiveFrames.name().to_owned(), ..ApiUse::default() });
            between_links(r, sent, sent);
        }),
    ]
}
