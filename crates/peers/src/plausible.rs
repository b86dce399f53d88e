//! What a stranger tells of its end, held against what this end knows: no figure of it is more than can be.
//! Knows no protocol.

use std::time::Duration;

use linerate_trial::doubt::{Doubt, Doubted, ReportFigure};
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::Spec;

/// Segments that a sender may have retransmitted though nothing arrived: its time-outs double, so there are few.
const RETRANSMITTED_IN_VAIN: u64 = 1000;
/// The jitter that a test may have that was shorter than this: its datagrams left at once, and came when they came.
const SHORT_S: f64 = 1.0;

/// The part of a stream's time, and the time, by which the clocks of both ends may differ at its beginning and end, beside a round trip: an
/// end that is told to send begins before the data comes, and ends after it has heard that it may.
const TIME_APART: u64 = 10;
const TIME_APART_NS: u64 = 100_000_000;
/// Octets, and the part of all of them, that another tool may count more than were sent: as headers, or by rounding.
const OCTETS_APART: u64 = 64 << 10;
const PART_APART: u64 = 100;
/// The most that a sender may offer, in terms of the load that it was asked for; and the load of one that was asked for none.
const TIMES_ASKED: f64 = 2.0;
const MOST_BPS: f64 = 1e12;
/// Octets that a sender may send at once, whatever its load: what its socket and the way hold.
const AT_ONCE: u64 = 16 << 20;

/// Takes from the far end's account of a trial what this end's shows to be impossible. The test `took` so long, all of it.
pub fn limit(spec: &Spec, ours: &Outcome, theirs: &mut Outcome, took: Duration) {
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let mut figures = Vec::new();
    for far in &mut theirs.flows {
        let Some(near) = ours.flows.iter().find(|near| near.id == far.id) else { continue };
        match near.role {
            Role::Sender => limit_receiver(near, far, &mut figures),
            Role::Receiver => limit_sender(spec, near, far, took, &mut figures),
            _ => continue,
        }
        if far.elapsed_ns > took_ns {
            far.elapsed_ns = took_of(near).min(took_ns);
            figures.push(ReportFigure::Time);
        }
    }
    doubt(theirs, figures);
}

/// Adds to what is doubted of another tool's account.
pub fn doubt(theirs: &mut Outcome, mut figures: Vec<ReportFigure>) {
    let known = theirs.doubts.iter_mut().find_map(|doubt| match &mut doubt.what {
        Doubted::ImplausibleReport { figures } => Some(figures),
        _ => None,
    });
    match known {
        Some(known) => {
            known.append(&mut figures);
            known.sort();
            known.dedup();
        }
        None if figures.is_empty() => {}
        None => {
            figures.sort();
            figures.dedup();
            theirs.doubts.push(Doubt::of(theirs.end, Doubted::ImplausibleReport { figures }));
        }
    }
}

/// How long a stream took, as far as this end knows: a sender's, until the far end's kernel had all of it.
fn took_of(near: &FlowOutcome) -> u64 {
    near.elapsed_ns.max(near.acknowledged.map_or(0, |acknowledged| acknowledged.elapsed_ns))
}

/// A connection's round trip as its kernel saw it.
fn round_trip_ns(near: &FlowOutcome) -> u64 {
    let seconds = near.tcp.as_ref().and_then(|tcp| tcp.rtt_s.or(tcp.min_rtt_s));
    (seconds.unwrap_or(0.0) * 1e9) as u64
}

/// Nobody receives what was not sent, nor long before it was.
fn limit_receiver(near: &FlowOutcome, far: &mut FlowOutcome, figures: &mut Vec<ReportFigure>) {
    let most = near.octets_total.saturating_add((near.octets_total / PART_APART).max(OCTETS_APART));
    if far.octets_total > most {
        figures.push(ReportFigure::Bytes);
    }
    far.octets_total = far.octets_total.min(near.octets_total);
    far.octets = far.octets.min(far.octets_total);
    far.messages_total = far.messages_total.min(near.messages_total);
    far.messages = far.messages.min(far.messages_total);
    // Both clocks begin at about the same time, and a receiver ends after its sender. Datagrams may cease to come before.
    let round_trip_ns = round_trip_ns(near);
    let most_ns = match near.arrivals.is_some() || far.arrivals.is_some() {
        true => u64::MAX,
        false => (near.elapsed_ns / TIME_APART).max(TIME_APART_NS).saturating_add(round_trip_ns),
    };
    let short_ns = near.elapsed_ns.saturating_sub(far.elapsed_ns);
    if short_ns > most_ns.min(near.elapsed_ns / 2) {
        far.elapsed_ns = took_of(near);
        // Of a test that is hardly longer than its clocks may differ, an honest end may tell a small part.
        figures.extend((short_ns > TIME_APART_NS.saturating_add(round_trip_ns)).then_some(ReportFigure::Time));
    }
    let Some(arrivals) = &mut far.arrivals else { return };
    arrivals.received_total = arrivals.received_total.min(near.messages_total);
    arrivals.received = arrivals.received.min(arrivals.received_total);
    for of_received in [&mut arrivals.reordered, &mut arrivals.duplicated, &mut arrivals.late] {
        *of_received = (*of_received).min(arrivals.received);
    }
    arrivals.duplicated_total = arrivals.duplicated_total.min(arrivals.received_total);
    let most_s = (near.elapsed_ns as f64 / 1e9).max(SHORT_S);
    arrivals.jitter_s = arrivals.jitter_s.filter(|jitter_s| (0.0..=most_s).contains(jitter_s));
}

/// What arrived was sent, and in a time no more than was asked for, about. A segment carries a byte at least.
fn limit_sender(
    spec: &Spec,
    near: &FlowOutcome,
    far: &mut FlowOutcome,
    took: Duration,
    figures: &mut Vec<ReportFigure>,
) {
    let most = near.octets_total.saturating_add(RETRANSMITTED_IN_VAIN);
    far.tcp = far.tcp.take().filter(|tcp| tcp.retransmissions <= most);
    let size = u64::from(spec.message_octets());
    let load = spec.offered_bps().map_or(MOST_BPS, |asked| TIMES_ASKED * asked);
    let most = (load / 8.0 * took.as_secs_f64()) as u64;
    let most = most.saturating_add(AT_ONCE).saturating_add(near.octets_total);
    match &near.arrivals {
        Some(arrivals) => {
            let told = far.messages_total.saturating_add(far.messages_total / PART_APART);
            if told < arrivals.received_total || far.messages_total.saturating_mul(size).max(far.octets_total) > most {
                // By the numbers that came.
                far.messages_total = arrivals.received_total.saturating_add(arrivals.missing());
                far.messages = far.messages_total - (arrivals.received_total - arrivals.received);
                (far.octets, far.octets_total) = (far.messages * size, far.messages_total * size);
                figures.push(ReportFigure::Datagrams);
            }
        }
        None => {
            // Each end leaves out a warm-up by its own clock, and some tell of the rest alone: what was on its way when it ended
            // was sent before, and arrived after.
            let warmup = near.octets_total - near.octets;
            let on_its_way = if warmup > 0 { AT_ONCE } else { 0 };
            let least = near.octets.saturating_sub(warmup).saturating_sub(on_its_way);
            let told = far.octets_total.saturating_add((far.octets_total / PART_APART).max(OCTETS_APART));
            if told < least || far.octets_total > most {
                (far.octets, far.octets_total) = (near.octets, near.octets_total);
                figures.push(ReportFigure::Bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::End;
    use linerate_machine::units::OfferedLoad;
    use linerate_trial::arrivals::Arrivals;
    use linerate_trial::outcome::{Acknowledged, TcpSummary};
    use linerate_trial::spec::Workload;

    use super::*;

    /// What is left of a far end's account, beside this end's.
    fn limited(near: &FlowOutcome, far: FlowOutcome) -> FlowOutcome {
        let mut theirs = Outcome::of_flows(End::Host, vec![far]);
        let ours = Outcome::of_flows(End::Target, vec![near.clone()]);
        limit(&Spec::new(Workload::TcpStream), &ours, &mut theirs, Duration::from_secs(90));
        theirs.flows.remove(0)
    }

    #[test]
    fn what_cannot_be_is_doubted() {
        let near = || FlowOutcome {
            acknowledged: Some(Acknowledged { octets: 1_000_000, elapsed_ns: 1_050_000_000 }),
            elapsed_ns: 1_000_000_000,
            octets: 1_000_000,
            octets_total: 1_000_000,
            ..FlowOutcome::new(0, Role::Sender)
        };
        for (elapsed_ns, rtt_s, octets, want_ns, doubted) in [
            (950_000_000, None, 1_000_000, 950_000_000, vec![]),
            (1_900_000_000, None, 1_000_000, 1_900_000_000, vec![]),
            (850_000_000, None, 1_000_000, 1_050_000_000, vec![ReportFigure::Time]),
            (850_000_000, Some(0.1), 1_000_000, 850_000_000, vec![]),
            (450_000_000, Some(0.1), 1_000_000, 1_050_000_000, vec![ReportFigure::Time]),
            // Within a round trip of 10 s it can be, and makes no rate of it.
            (450_000_000, Some(10.0), 1_000_000, 1_050_000_000, vec![]),
            (1_000_000_000_000, None, 1_000_000, 1_050_000_000, vec![ReportFigure::Time]),
            (1_000_000_000, None, 2_000_000, 1_000_000_000, vec![ReportFigure::Bytes]),
        ] {
            let far = FlowOutcome { elapsed_ns, octets, octets_total: octets, ..FlowOutcome::new(0, Role::Receiver) };
            let mut theirs = Outcome::of_flows(End::Host, vec![far]);
            let near = FlowOutcome { tcp: Some(TcpSummary { rtt_s, ..TcpSummary::default() }), ..near() };
            let ours = Outcome::of_flows(End::Target, vec![near]);
            limit(&Spec::new(Workload::TcpStream), &ours, &mut theirs, Duration::from_secs(2));
            assert_eq!((theirs.flows[0].elapsed_ns, theirs.flows[0].octets), (want_ns, 1_000_000), "{elapsed_ns}");
            let told: Vec<_> = theirs.doubts.iter().map(|doubt| doubt.what.clone()).collect();
            let want = (!doubted.is_empty()).then_some(Doubted::ImplausibleReport { figures: doubted });
            assert_eq!(told, Vec::from_iter(want), "{elapsed_ns}");
        }
    }

    /// As 'iperf3 -R -k 1': the server hears of the end of a test of 0.3 ms after 3 ms.
    #[test]
    fn a_test_that_is_shorter_than_clocks_differ_is_nobodys_lie_and_no_rate() {
        for (near_ns, far_ns, is_doubted) in [
            (2_800_000, 260_000, false),
            (95_000_000, 1, false),
            (150_000_000, 80_000_000, false),
            (150_000_000, 40_000_000, true),
        ] {
            for arrivals in [None, Some(Arrivals::default())] {
                let near = FlowOutcome { octets: 131_072, octets_total: 131_072, elapsed_ns: near_ns, ..sender() };
                let far = FlowOutcome { role: Role::Receiver, elapsed_ns: far_ns, arrivals, ..near.clone() };
                let mut theirs = Outcome::of_flows(End::Host, vec![far]);
                let ours = Outcome::of_flows(End::Target, vec![near]);
                limit(&Spec::new(Workload::TcpStream), &ours, &mut theirs, Duration::from_secs(1));
                let want_ns = if far_ns > near_ns / 2 { far_ns } else { near_ns };
                assert_eq!((theirs.flows[0].elapsed_ns, !theirs.doubts.is_empty()), (want_ns, is_doubted), "{near_ns}");
            }
        }
    }

    /// A sender of 100 datagrams of 10 octets in 2 s, of which 20 are of the warm-up.
    fn sender() -> FlowOutcome {
        FlowOutcome {
            octets: 800,
            octets_total: 1000,
            messages: 80,
            messages_total: 100,
            elapsed_ns: 2_000_000_000,
            ..FlowOutcome::new(0, Role::Sender)
        }
    }

    fn receiver(elapsed_ns: u64, octets: [u64; 2], messages: [u64; 2], arrivals: Arrivals) -> FlowOutcome {
        FlowOutcome {
            octets: octets[0],
            octets_total: octets[1],
            messages: messages[0],
            messages_total: messages[1],
            elapsed_ns,
            arrivals: Some(arrivals),
            ..FlowOutcome::new(0, Role::Receiver)
        }
    }

    #[test]
    fn nobody_receives_more_than_was_sent() {
        let every = |count, jitter_s| Arrivals {
            received: count,
            received_total: count,
            reordered: count,
            duplicated: count,
            duplicated_total: count,
            late: count,
            jitter_s,
            ..Arrivals::default()
        };
        let told = receiver(1, [u64::MAX; 2], [u64::MAX; 2], every(u64::MAX, Some(1e30)));
        let want = receiver(2_000_000_000, [1000; 2], [100; 2], every(100, None));
        assert_eq!(limited(&sender(), told), want);
    }

    #[test]
    fn what_can_be_is_left_as_it_was_told() {
        // More in the measured part than this end takes for it: each end leaves its first seconds out by its own clock.
        let arrivals = Arrivals {
            received: 85,
            received_total: 95,
            reordered: 3,
            duplicated: 2,
            duplicated_total: 2,
            jitter_s: Some(0.001),
            ..Arrivals::default()
        };
        for elapsed_ns in [1_000_000_000, 2_100_000_000, 60_000_000_000] {
            let told = receiver(elapsed_ns, [850, 950], [85, 95], arrivals.clone());
            assert_eq!(limited(&sender(), told.clone()), told);
        }
    }

    #[test]
    fn jitter_is_a_time_within_the_test() {
        for (told, want) in
            [(0.0, Some(0.0)), (1.5, Some(1.5)), (2.1, None), (-5.0, None), (f64::NAN, None), (f64::INFINITY, None)]
        {
            let arrivals = Arrivals { jitter_s: Some(told), ..Arrivals::default() };
            let far = limited(&sender(), receiver(2_000_000_000, [0; 2], [0; 2], arrivals));
            assert_eq!(far.arrivals.and_then(|arrivals| arrivals.jitter_s), want, "{told}");
        }
        // Two datagrams that left at once.
        let near = FlowOutcome { elapsed_ns: 1000, ..sender() };
        let arrivals = Arrivals { jitter_s: Some(0.01), ..Arrivals::default() };
        let far = limited(&near, receiver(2_000_000_000, [0; 2], [0; 2], arrivals.clone()));
        assert_eq!(far.arrivals, Some(arrivals));
    }

    #[test]
    fn what_arrived_was_sent_and_no_more_than_was_asked_for() {
        let spec = |workload| Spec {
            rate: OfferedLoad::BitsPerSecond(10_000_000),
            message_size: Some(1000),
            ..Spec::new(workload)
        };
        let told = |spec: &Spec, near: &FlowOutcome, octets, messages| {
            let counts = [(octets, octets), (messages, messages)];
            let [(octets, octets_total), (messages, messages_total)] = counts;
            let elapsed_ns = near.elapsed_ns;
            let far = FlowOutcome::new(0, Role::Sender);
            let far = FlowOutcome { octets, octets_total, messages, messages_total, elapsed_ns, ..far };
            let mut theirs = Outcome::of_flows(End::Host, vec![far]);
            limit(spec, &Outcome::of_flows(End::Target, vec![near.clone()]), &mut theirs, Duration::from_secs(1));
            (theirs.flows[0].octets_total, theirs.flows[0].messages_total, !theirs.doubts.is_empty())
        };
        let near = |octets, arrivals| FlowOutcome {
            octets,
            octets_total: octets,
            elapsed_ns: 1_000_000_000,
            arrivals,
            ..FlowOutcome::new(0, Role::Receiver)
        };
        for (octets, want) in [(0, 2_000_000), (1_990_000, 1_990_000), (3_000_000, 3_000_000), (1 << 53, 2_000_000)] {
            let seen = told(&spec(Workload::TcpStream), &near(2_000_000, None), octets, 0);
            assert_eq!(seen, (want, 0, want != octets), "{octets}");
        }
        // 20 MB of 40 are of no warm-up, but were on their way when it ended, as far as sockets hold so much.
        for (octets, is_believed) in [(39_000_000, true), (24_000_000, true), (20_000_000, false)] {
            let near = FlowOutcome { octets: 40_000_000, ..near(40_300_000, None) };
            let want = if is_believed { octets } else { near.octets_total };
            assert_eq!(told(&spec(Workload::TcpStream), &near, octets, 0).0, want, "{octets}");
        }
        let arrivals = |received| {
            let loss_bursts = [(7, 1)].into();
            Some(Arrivals { received, received_total: received, loss_bursts, ..Arrivals::default() })
        };
        for (messages, want) in [(0, 1007), (1007, 1007), (1250, 1250), (1 << 53, 1007)] {
            let seen = told(&spec(Workload::UdpStream), &near(1_000_000, arrivals(1000)), messages * 1000, messages);
            assert_eq!(seen, (want * 1000, want, want != messages), "{messages}");
        }
    }

    #[test]
    fn a_retransmitted_segment_carries_a_byte() {
        let near = |octets_total| FlowOutcome { octets_total, ..FlowOutcome::new(0, Role::Receiver) };
        for (octets, retransmissions, is_believed) in
            [(1 << 30, 5_000_000, true), (0, 12, true), (1 << 30, 99_999_999_999, false), (0, 1 << 53, false)]
        {
            let tcp = TcpSummary { retransmissions, ..TcpSummary::default() };
            let far = FlowOutcome { tcp: Some(tcp), ..FlowOutcome::new(0, Role::Sender) };
            assert_eq!(limited(&near(octets), far).tcp.is_some(), is_believed, "{retransmissions} of {octets}");
        }
    }
}
