//! Segments are lost between the two ends, and TCP goes as fast as such a loss lets it.
//! Knows both ends' segment counts, and how fast TCP can go at a loss and a round trip.

use linerate_machine::end::Direction;
use linerate_stats::least_variance;
use linerate_trial::event::EventKind;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::spec::Workload;

use super::acknowledgements::ReturnLoss;
use super::case::{Case, FEW, percent, tidy};
use super::streams::{DeadFlows, UnevenFlows, UnevenSizes, is_above_a_rate, own_bursts};
use super::symptom::capital;
use super::unaccounted::{Missing, Pattern, behind_the_link};
use super::{Finding, Rule, Sureness};
use crate::record::{Interval, Losses};
use crate::time_budget::Limit;
use crate::total::Total;

/// Of what was lost, so much must be unaccounted for at the ends.
const BETWEEN: f64 = 0.5;
/// A burst as long as this is no queue that was full for a moment: a link, a switch or a radio did nothing meanwhile.
const STOPS_S: f64 = 0.02;
/// From this share of the time on BBR went as fast as it takes the way for.
const PACED: f64 = 0.3;
/// BBR does not slow down for a smaller share of losses: Linux' takes 20 % and more for a policer's (net/ipv4/tcp_bbr.c,
/// bbr_lt_loss_thresh).
const BORNE_BY_BBR: f64 = 0.15;
/// What loss permits is known to a factor: a trial that reaches no more than so many times it is limited by it.
pub(super) const ABOUT: f64 = 3.0;

/// What is retransmitted at once tells when it was lost where it is so much of all; before this time a window grows for the first time.
const NEARLY_ALL: f64 = 0.8;
const LATE_S: f64 = 0.3;

/// Where TCP loses so much on the way it is not for something else to be looked at first: neither what a CPU does without offloads,
/// nor what comes short of what the formulas permit, which are for small losses.
const MUCH: f64 = 0.02;
/// What a sender that waits for its window looks like besides.
const LIMITS_BESIDE: [&str; 3] = ["sender-cpu", "host-limits", "application-limited"];
/// From this share on the formulas say nothing.
const MANY: f64 = 0.1;
/// Between losses by chance TCP sends now more and now less: in the time of so many, what it sends deviates by this over their root at
/// least. So many deviations of that variance are no accident, of so many slices beside the first and the mean.
const OF_CHANCE: f64 = 0.4;
const DEVIATIONS: f64 = 2.0;
const LEAST_FREEDOM: usize = 2;

/// More than so many times what it permits is none that it lets through.
const EXCEEDS: f64 = 1.8;

pub(super) const RULE: Rule = Rule {
    name: "lossy-path",
    says: "Packets are lost between the two ends; TCP goes no faster than such a loss permits.",
    rests_on: "Datagrams, requests, answers: at least 10 % of the loss unaccounted for, or of datagrams 1 % of what the sender's link sent, and the sender's link tx_packets less the \
               receiver's link rx_packets agree with it to a fifth. TCP: at least 0.1 % of the segments lost, by both ends' counts of them (or retransmitted, where those are not known), no \
               more than half of them dropped by counters of either machine (a packet of its stack is as many segments as one of its link is on average, where the ends could not count them), and no reordering that explains it. What loss \
               permits: Mathis for Reno, the response function for CUBIC; BBR does not slow down for loss below some 15 %. \
               What permits more than three times what came through, steadily, is a limit of rate with a short queue; so is what \
               permits less than a 1.8th of it, where TCP's delivery rate is never much above what came through, and so is where what came through \
               varies from one time slice to the next, of three at least behind the first, by far less than so many losses by chance would have it. Where 80 % of what was \
               retransmitted was so at once (loss-at-once), that is told, and no such loss permits anything. A loss of fewer \
               than 10 segments counts where TCP's congestion window limited at least half of the time.",
    source: "Mathis et al. 1997, The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm; RFC 9438, section 5.1.2 \
             (CUBIC); RFC 4015 (spurious retransmissions).",
    suggests: &["congestion_control", "burst"],
    find,
};

/// Datagrams, requests or answers that left the sender's link and never reached the receiver's.
fn find_datagrams(case: &Case<'_>) -> Option<Finding> {
    let missing = Missing::of(case).filter(Missing::is_between).filter(|_| DeadFlows::of(case).is_none())?;
    let pattern = missing.pattern(case);
    let (uneven, burst, sizes) = (UnevenFlows::of(case), own_bursts(case), UnevenSizes::of(case));
    let together = missing.is_nearly_all() && is_above_a_rate(case, missing.loss.ratio);
    let is_of_a_rate = together || pattern.as_ref().is_some_and(Pattern::is_of_a_rate);
    if burst.is_none() && sizes.is_none() && is_of_a_rate {
        return None;
    }
    let (noun, links) = (case.noun(), &missing.links);
    let are_lost = format!("{} are lost {links}", capital(noun));
    let sentence = match (alone(case, &missing), burst, &pattern, &uneven) {
        (Some(sent), ..) => {
            format!(
                "1 of {sent} {noun} was lost {links}: a single loss or a short outage, for nothing else was sent meanwhile."
            )
        }
        (None, ..) if let Some(sizes) = &sizes => format!(
            "{} {} are lost {links}, and the others are not: something there goes by size, such as an MTU or a buffer.",
            capital(noun),
            sizes.hit()
        ),
        (None, Some(burst), ..) => {
            format!("{are_lost}: a queue there has no room for the {burst} that the trial sends at a time.")
        }
        (None, None, Some(Pattern::Bursts { runs, seconds: Some(seconds), .. }), _) if *seconds >= STOPS_S => {
            let ms = tidy(seconds * 1e3);
            match runs {
                1 => format!("{are_lost} for about {ms} ms, once: something there stopped."),
                _ => format!("{are_lost} for about {ms} ms at a time: something there stopped {runs} times."),
            }
        }
        (None, None, _, Some(_)) => format!(
            "{} of some streams are lost {links}: one of several links that flows are spread over (LAG, ECMP), or a filter that goes by ports.",
            capital(noun)
        ),
        (None, None, _, None) if missing.refusals.is_some() => {
            format!(
                "{are_lost}: a router or a packet filter there refuses them, and says so by ICMP (tcpdump -v icmp or icmp6)."
            )
        }
        (None, None, _, None) => {
            format!("{are_lost}: a switch, the cable, or a MAC that does not count what it drops.")
        }
    };
    let finding = RULE
        .finds(case, None, Sureness::Likely, missing.part * share_of_both(case, missing.loss.packets), sentence)
        .because_of(missing.evidence(case))
        .because_of(sizes.map(|sizes| sizes.clause()))
        .because_of(
            uneven
                .map(|uneven| uneven.clause())
                .or(pattern.filter(|_| burst.is_none()).map(|pattern| pattern.clause())),
        )
        .because_of(case.loss_from().map(|from| from.clause()))
        .wrong_if("It is wrong if as many vanish over a cable from one end to the other, with nothing between.");
    Some(if burst.is_some() { finding.attempt("burst", "1", "loss") } else { finding })
}

/// Which part of what was lost of requests and of answers was lost this way; half at least, and all of a stream.
fn share_of_both(case: &Case<'_>, lost: u64) -> f64 {
    let all = case.record.losses.iter().map(Losses::lost).total();
    if case.record.workload.is_stream() || all == 0 { 1.0 } else { (lost as f64 / all as f64).clamp(0.5, 1.0) }
}

/// How many were sent, where one alone is missing and the next waited until it was given up: nobody can tell then what else
/// would have been lost.
fn alone(case: &Case<'_>, missing: &Missing) -> Option<u64> {
    let waits = case.asked.as_ref().is_some_and(|asked| !asked.workload.is_stream() && asked.outstanding == 1);
    (waits && case.streams() < 2.0 && missing.loss.packets == 1).then(|| case.losses().map(|losses| losses.sent))?
}

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is(Workload::TcpStream) {
        return find_datagrams(case);
    }
    let share = case.retransmitted()?;
    let tcp = case.tcp()?;
    let (lost, sent) = lost_of(case, tcp)?;
    let between = match case.losses() {
        Some(losses) => u64::try_from(losses.unaccounted).unwrap_or(0),
        None => lost.saturating_sub(case.segments_dropped()),
    };
    let few = case.few_segments();
    let missing = Missing::of(case);
    // A smaller part where the links say so.
    let part = (between as f64 / lost.max(1) as f64).min(1.0);
    let is_part = part >= BETWEEN || missing.as_ref().is_some_and(Missing::is_seen_between);
    if lost < few || between < few || !is_part {
        return None;
    }
    // Behind the receiver's link, or before the sender's, is another rule's.
    if missing.is_some_and(|missing| !missing.is_between()) || behind_the_link(case).is_some() {
        return None;
    }
    let ratio = lost as f64 / sent.max(1) as f64;
    let permitted = permitted_bps(tcp, ratio);
    let got = case.throughput_bps()?;
    let once = lost_at_once(case, tcp);
    let is_once = once.is_some();
    let limits = !is_once && is_about(permitted, case, got);
    let back = ReturnLoss::of(case).filter(|back| back.is_of_both_ways(case));
    // Such a loss permits far more than came through, and TCP had nothing else to wait for: it comes of the rate, and not the rate of it.
    let permits_more = match tcp.goes_by_rate() {
        true => ratio < BORNE_BY_BBR && case.share_of(&[Limit::Pacing]) >= PACED,
        false => permitted.is_some_and(|permitted| permitted * case.streams() > got * ABOUT),
    };
    // Far more came through than such a loss permits where chance makes it: a queue that runs over loses many at once.
    let exceeds = permitted.is_some_and(|permitted| permitted * case.streams() * EXCEEDS < got)
        && case.delivers_evenly() == Some(true);
    let is_even = case.is_steady().unwrap_or_else(|| {
        let few = case.varies_little() && case.delivers_evenly() != Some(false);
        tcp.goes_by_rate() || few && (exceeds || case.is_held_by_loss())
    });
    // Where most of the time is that of TCP's timer, neither formula holds, nor is what came through what passes.
    let permits_more = permits_more && (tcp.goes_by_rate() || ratio < MANY);
    let kept = kept_rate(case);
    // A window that grows for the first time fills a queue once, and never again.
    let at_s = once.as_ref().map(|(at_s, _)| *at_s).filter(|at_s| *at_s >= LATE_S);
    let of_rate = (permits_more || exceeds) && is_even || kept.is_some();
    let of_rate = of_rate && case.is_unlimited() && at_s.is_none();
    let sentence = match (&back, limits) {
        (None, _) if let Some(at_s) = at_s => format!(
            "Segments are lost between the two ends once, at about {} s, and hardly any before and after: a queue there that ran over, or a short outage.",
            tidy(at_s)
        ),
        (None, _) if of_rate => format!(
            "Segments are lost between the two ends, as a limit of rate with a short queue drops them: about {} Mbit/s pass it.",
            tidy(kept.unwrap_or(got) / 1e6)
        ),
        (Some(_), _) => "Segments and acknowledgements are lost between the two ends.".to_owned(),
        (None, true) => "Segments are lost between the two ends, and TCP goes as fast as that lets it.".to_owned(),
        (None, false) => "Segments are lost between the two ends.".to_owned(),
    };
    let weight = match () {
        () if limits || kept.is_some() || back.is_some() || (is_once && case.is_held_by_loss()) => 0.8,
        // It permits far more, and is not what a rate comes to: something else is the limit.
        () if permits_more && !of_rate && ratio < MUCH => 0.2,
        () => 0.5,
    };
    let weight = if part >= BETWEEN { weight } else { weight * part };
    // Where acknowledgements are lost too, only TCP's timer goes on: what looks like silence and long round trips is its.
    let timer: &'static [&'static str] = if back.is_some() { &["outage", "bottleneck"] } else { &[] };
    let kind = tcp.congestion_control.as_deref().unwrap_or("TCP");
    Some(
        RULE.finds(case, None, Sureness::Likely, weight, sentence)
            .because(format!("{lost} of {sent} segments never arrived, {}", percent(ratio)))
            .because(format!("counters of both machines saw {} packets dropped", case.drops_seen()))
            .because(format!("{} of the segments were retransmitted", percent(share)))
            .because_of(UnevenFlows::of(case).map(|uneven| uneven.clause()))
            .because_of(back.map(|back| back.clause()))
            .because_of(once.map(|(_, clause)| clause))
            .because_of(kept.filter(|_| of_rate).map(|_| {
                "from one time slice to the next what came through varied far less than it does where losses are chance".to_owned()
            }))
            .because_of(permitted.zip(tcp.rtt_s).filter(|_| !is_once).map(|(bps, rtt_s)| {
                format!(
                    "{kind} reaches about {} Mbit/s at this loss and a round trip of {} ms, and {} came through",
                    tidy(bps * case.streams() / 1e6),
                    tidy(rtt_s * 1e3),
                    tidy(got / 1e6)
                )
            }))
            .wrong_if(
                "It is wrong if udp-stream at this rate loses nothing; if it loses nothing at half the rate, a policer or a \
                 short queue on the way is the cause, not a bad cable.",
            )
            .explains(if is_once && !case.is_held_by_loss() { &[] } else { &LIMITS_BESIDE })
            .explains(if ratio >= MUCH { &["checksum-offload", "segmentation"] } else { &[] })
            .explains(timer),
    )
}

/// Payload bits per second of a way that keeps to a rate, behind a bucket that the first slice may have emptied: what came through TCP's
/// window, which each loss makes smaller, varies far less from slice to slice than so many losses by chance would have it.
fn kept_rate(case: &Case<'_>) -> Option<f64> {
    let of = |slice: &Interval| Some((slice.throughput_bps?, slice.tcp.as_ref()?.retransmissions));
    let slices: Vec<(f64, u32)> = case.record.intervals.iter().filter_map(of).collect();
    let again = f64::from(slices.last()?.1.checked_sub(slices.first()?.1)?);
    let (rates, freedom) = (slices.get(1..)?, slices.len().checked_sub(2).filter(|freedom| *freedom >= LEAST_FREEDOM)?);
    let mean = rates.iter().map(|(bps, _)| bps).sum::<f64>() / rates.len() as f64;
    let variance = rates.iter().map(|(bps, _)| (bps / mean - 1.0).powi(2)).sum::<f64>() / freedom as f64;
    let each = again / rates.len() as f64;
    let is_held = case.is_held_by_loss() && case.record.direction != Direction::Both && each >= FEW as f64;
    (is_held && variance * each < OF_CHANCE * OF_CHANCE * least_variance(freedom, DEVIATIONS)).then_some(mean)
}

/// When TCP retransmitted nearly all that it did, and a clause that says so.
fn lost_at_once(case: &Case<'_>, tcp: &TcpSummary) -> Option<(f64, String)> {
    case.events().find_map(|event| match event.what {
        // What it retransmitted in the warm-up is none of the event's.
        EventKind::LossAtOnce { segments, .. } if segments as f64 >= NEARLY_ALL * tcp.retransmissions as f64 => {
            let to_s = event.at_s + event.for_s.unwrap_or(0.0);
            let share = percent(segments as f64 / tcp.retransmissions.max(1) as f64);
            let (from, to) = (tidy(event.at_s), tidy(to_s));
            Some((event.at_s, format!("{share} of what was retransmitted was so from {from} s to {to} s")))
        }
        _ => None,
    })
}

/// Segments of a stream that were lost, of how many.
fn lost_of(case: &Case<'_>, tcp: &TcpSummary) -> Option<(u64, u64)> {
    let needed = || tcp.needed_retransmissions();
    // Without SACK most of what is retransmitted had arrived, and nobody calls it spurious.
    let lost =
        tcp.segments_lost.unwrap_or_else(|| between_links(case, tcp).map_or_else(needed, |links| needed().min(links)));
    Some((lost, case.losses().map(|losses| losses.sent).or(tcp.segments_sent)?))
}

/// Whether so much is what a loss permits each stream, to the factor to which that is known.
fn is_about(permitted: Option<f64>, case: &Case<'_>, got: f64) -> bool {
    permitted.map(|bps| bps * case.streams()).is_some_and(|bps| (bps / ABOUT..=bps * ABOUT).contains(&got))
}

/// Whether a stream came as far as its loss permits.
pub(super) fn is_as_permitted(case: &Case<'_>) -> bool {
    let Some((tcp, got)) = case.tcp().zip(case.throughput_bps()) else { return false };
    let permitted = lost_of(case, tcp).and_then(|(lost, sent)| permitted_bps(tcp, lost as f64 / sent.max(1) as f64));
    is_about(permitted, case, got)
}

/// How many packets fewer the receiver's link counts than the sender's, where both count each segment as one packet, and read at the
/// same time.
fn between_links(case: &Case<'_>, tcp: &TcpSummary) -> Option<u64> {
    let (out, came) = (case.sender.link_sent()?, case.receiver.link_received()?);
    (out as f64 >= 0.95 * tcp.segments_sent? as f64 && came <= out).then(|| out - came)
}

/// Payload bits per second that a congestion control reaches at a ratio of loss, or marks, and a round trip; absent of one that does not go
/// by loss.
pub(super) fn permitted_bps(tcp: &TcpSummary, ratio: f64) -> Option<f64> {
    let (rtt_s, mss) = (tcp.rtt_s?, f64::from(tcp.mss?));
    if ratio <= 0.0 || rtt_s <= 0.0 || mss <= 0.0 || tcp.goes_by_rate() {
        return None;
    }
    // Segments in a window, by Mathis with delayed acknowledgements off, as Linux has it at a loss.
    let reno = (1.5 / ratio).sqrt();
    // RFC 9438, equation 6, with C = 0.4 and beta = 0.7.
    let cubic = 1.054 * (rtt_s / ratio).powf(0.75);
    let window = if tcp.congestion_control.as_deref() == Some("cubic") { reno.max(cubic) } else { reno };
    Some(window * mss * 8.0 / rtt_s)
}

#[cfg(test)]
mod tests {
    use linerate_path::stage::Stage;
    use linerate_trial::outcome::TcpSample;

    use super::super::{cases, findings};
    use super::*;
    use crate::record::Record;
    use crate::time_budget::TimeLine;

    fn held_by_its_window(direction: Direction) -> TimeLine {
        TimeLine { direction, limit: Limit::CongestionWindow, end: None, seconds: 2.0, share: 0.99 }
    }

    #[test]
    fn few_beside_many_are_told_and_have_no_pattern_of_the_many() {
        let all = cases::cases();
        let name = "a shaper at the sender, and a few of what it lets pass lost on the way";
        let case = all.iter().find(|case| case.name == name).unwrap();
        let names = |record: &Record| findings(record).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names(&case.record), ["qdisc-drops", RULE.name]);
        // Where the links tell of none that are lost between them, a few may be anybody's.
        let mut elsewhere = case.record.clone();
        elsewhere.target.counters.add(Stage::DriverRxRing, "link rx_packets", 600);
        assert_eq!(names(&elsewhere), ["qdisc-drops"]);
    }

    #[test]
    fn what_the_receivers_stack_takes_in_packets_of_several_segments_is_not_lost_on_the_way() {
        let all = cases::cases();
        let record_of = |name: &str| all.iter().find(|case| case.name == name).unwrap().record.clone();
        let filter = record_of("a filter that takes all for half a second").loss_budget.unwrap().remove(0);
        assert_eq!(filter.stage, Stage::ReceiverStack);
        // 51 of 2,589 segments, or a fiftieth, were retransmitted.
        let names = |came: u64| {
            let mut record = record_of("one segment of fifty lost on the way");
            let taken = linerate_path::budget::LossLine { packets: 12, ..filter.clone() };
            (record.losses, record.loss_budget, record.unaccounted) = (Vec::new(), Some(vec![taken]), None);
            record.host.counters.add(Stage::DriverRxRing, "link rx_packets", came);
            findings(&record).into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names(600), ["stack-drops"]);
        assert_eq!(names(1_200)[0], RULE.name, "a hundredth of the packets is half of it");
    }

    #[test]
    fn segments_that_are_lost_at_once_are_told_as_that_and_permit_nothing() {
        let all = cases::cases();
        let record = &all.iter().find(|case| case.name == "one segment of fifty lost on the way").unwrap().record;
        let again = record.result.as_ref().unwrap().flow.tcp.as_ref().unwrap().retransmissions;
        let told = |at_s: f64, segments: u64| {
            let what = EventKind::LossAtOnce { direction: Some(record.direction), segments, share: 1.0 };
            let event = linerate_trial::event::Event { at_s, for_s: Some(0.1), within_s: 0.05, end: None, what };
            let found = findings(&Record { events: vec![event], ..record.clone() });
            let one = found.into_iter().find(|one| one.name == RULE.name).unwrap();
            let permits = one.evidence.iter().any(|clause| clause.contains("at this loss"));
            (one.sentence.contains("once, at about 1.20 s"), one.evidence.join("; ").contains("to 1.30 s"), permits)
        };
        assert_eq!(told(1.2, again), (true, true, false));
        assert_eq!(told(1.2, again / 2), (false, false, true), "as many in the warm-up");
        assert_eq!(told(0.1, again), (false, false, false), "a window that grows for the first time");
    }

    #[test]
    fn a_rate_that_varies_less_than_chance_makes_is_one_that_the_way_keeps_to() {
        let all = cases::cases();
        let record = &all.iter().find(|case| case.name == "one segment of fifty lost on the way").unwrap().record;
        let got = record.result.as_ref().unwrap().flow.throughput_bps.unwrap();
        let rate = |parts: &[f64], again: u32| {
            let slice = |(at, part): (usize, &f64)| Interval {
                start_s: at as f64,
                end_s: at as f64 + 1.0,
                throughput_bps: Some(part * got),
                tcp: Some(TcpSample { retransmissions: again * (at as u32 + 1), ..TcpSample::default() }),
                ..Interval::default()
            };
            let intervals = parts.iter().enumerate().map(slice).collect();
            let line = held_by_its_window(record.direction);
            let record = Record { intervals, time_budget: vec![line], ..record.clone() };
            kept_rate(&Case::of(&record)[0]).map(|bps| (bps / got * 100.0).round())
        };
        // The first slice has what the bucket held besides.
        let steady = [1.3, 1.0, 1.002, 0.998, 1.001];
        assert_eq!(rate(&steady, 100), Some(100.0));
        assert_eq!(rate(&[1.3, 1.0, 1.06, 0.94, 1.03], 100), None, "as chance makes");
        assert_eq!(rate(&steady, 3), None, "hardly any lost");
        assert_eq!(rate(&steady[..3], 100), None, "too few slices");
    }

    #[test]
    fn what_came_through_beside_tcp_s_timer_is_no_rate_that_passes() {
        let all = cases::cases();
        let record = &all.iter().find(|case| case.name == "one segment of fifty lost on the way").unwrap().record;
        let names_a_rate = |part: u64| {
            let mut record = record.clone();
            record.asked.remove("rate");
            let line = held_by_its_window(record.direction);
            record.time_budget = vec![line];
            let flow = &mut record.result.as_mut().unwrap().flow;
            flow.throughput_bps = Some(8e6);
            let slice = |bps: f64| Interval { throughput_bps: Some(bps), ..Interval::default() };
            record.intervals = vec![slice(8e6), slice(8.1e6)];
            let tcp = flow.tcp.as_mut().unwrap();
            let sent = tcp.segments_sent.unwrap();
            // At so short a round trip either loss permits far more.
            (tcp.rtt_s, tcp.min_rtt_s) = (Some(5e-4), Some(2e-5));
            (tcp.retransmissions, tcp.segments_lost) = (sent / part, Some(sent / part));
            (record.losses, record.loss_budget, record.unaccounted) = (Vec::new(), Some(Vec::new()), None);
            let one = findings(&record).into_iter().find(|one| one.name == RULE.name).unwrap();
            one.sentence.contains("pass it")
        };
        assert_eq!((names_a_rate(50), names_a_rate(4)), (true, false));
    }

    #[test]
    fn few_packets_of_many_segments_each_are_a_good_part() {
        let all = cases::cases();
        let record_of = |name: &str| all.iter().find(|case| case.name == name).unwrap().record.clone();
        let mut record = record_of("one segment of fifty lost on the way");
        let filter = record_of("a filter that takes all for half a second").loss_budget.unwrap().remove(0);
        let taken = linerate_path::budget::LossLine { packets: 20, ..filter };
        (record.losses, record.loss_budget, record.unaccounted) = (Vec::new(), Some(vec![taken]), None);
        // Packets of 45 segments; of 200 that came a tenth was taken, which is 900 of the 1,000 segments.
        record.host.counters.add(Stage::DriverRxRing, "link rx_packets", 200);
        let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
        (tcp.segments_sent, tcp.segments_lost, tcp.retransmissions) = (Some(10_000), None, 1_000);
        let found = findings(&record);
        assert_eq!(found[0].name, "stack-drops");
        assert!(found.iter().all(|one| one.name != RULE.name), "{found:?}");
        let said = "they had about 900 segments in them; 0.90 for each segment";
        assert!(found[0].evidence.iter().any(|clause| clause.contains(said)), "{:?}", found[0].evidence);
    }

    #[test]
    fn packets_of_many_segments_that_vanish_behind_the_link_are_not_lost_on_the_way() {
        let all = cases::cases();
        let mut record =
            all.iter().find(|case| case.name == "one segment of fifty lost on the way").unwrap().record.clone();
        (record.losses, record.loss_budget, record.unaccounted) = (Vec::new(), Some(Vec::new()), None);
        let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
        (tcp.segments_sent, tcp.segments_lost, tcp.retransmissions) = (Some(10_000), None, 2_000);
        // Packets of 40 segments; 50 of 200 are 2,000 segments.
        record.host.counters.add(Stage::DriverRxRing, "link rx_packets", 200);
        record.host.counters.add(Stage::ReceiverStack, "Tcp InSegs", 150);
        let names = findings(&record).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names, ["unaccounted"]);
    }

    #[test]
    fn what_loss_permits() {
        let bps = |kind: &str, ratio, rtt_s| {
            let congestion_control = Some(kind.to_owned());
            permitted_bps(
                &TcpSummary { rtt_s: Some(rtt_s), mss: Some(1448), congestion_control, ..TcpSummary::default() },
                ratio,
            )
        };
        let mbit = |kind, ratio, rtt_s| bps(kind, ratio, rtt_s).map(|bps| (bps / 1e6).round());
        // Mathis: 1448 octets, 10 ms, 1 %: 1.22 / 0.1 = 12.2 segments a round trip.
        assert_eq!(mbit("reno", 0.01, 0.01), Some(14.0));
        // RFC 9438, table 1 (100 ms, 1e-6): 38,000 segments, as against Reno's 1,200.
        let cubic = bps("cubic", 1e-6, 0.1).unwrap() * 0.1 / 8.0 / 1448.0;
        assert!((5_000.0..50_000.0).contains(&cubic), "{cubic}");
        assert_eq!(mbit("bbr", 0.01, 0.01), None);
        assert_eq!(mbit("reno", 0.0, 0.01), None);
    }
}
