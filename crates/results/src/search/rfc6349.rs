//! TCP's throughput by RFC 6349: what the path is fit for, the ideal that its bandwidth and its round trip leave to each window, and
//! how near TCP comes to it.
//! Knows no machine and no sentences.

use linerate_trial::wire::tcp_header_len;
use serde::Serialize;

use super::stages::{Stage, of, option, step};
use super::{Purpose, SearchAsked, SearchRecords, Step, TriedLoad};

/// Windows, as parts of the bandwidth-delay product.
const WINDOW_PARTS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// The smallest window that is tried, octets: less holds no segment.
const LEAST_WINDOW: f64 = 4096.0;
/// Where more is lost, or arrivals vary more, the test is not meaningful (RFC 6349, section 2).
const MOST_LOSS: f64 = 0.05;
/// Seconds.
const MOST_JITTER_S: f64 = 0.15;
/// Octets.
const UDP_HEADER: f64 = 8.0;

/// Why TCP's throughput says nothing of this path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UnsuitablePath {
    /// The part of the datagrams that was lost.
    pub loss_ratio: f64,
    /// How much arrivals varied, seconds.
    pub jitter_s: Option<f64>,
    /// At this load, bits of payload per second.
    pub load_bps: f64,
}

/// What the test came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rfc6349 {
    /// It was not carried out.
    pub unfit: Option<UnsuitablePath>,
    /// The shortest round trip of an idle path, seconds.
    pub baseline_rtt_s: Option<f64>,
    /// The most that comes through, bits per second on the wire: preamble and gap between frames count.
    pub bottleneck_bps: Option<f64>,
    /// Bandwidth times round trip, octets.
    #[serde(rename = "bdp_bytes")]
    pub bdp_octets: Option<f64>,
    /// The largest packet that TCP believes to pass, octets.
    pub path_mtu: Option<u32>,
    /// One for each window.
    pub windows: Vec<Window>,
}

/// A transfer with a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// The record's identifier.
    pub record: String,
    /// What both sockets' buffers were asked to be, octets.
    #[serde(rename = "window_bytes")]
    pub octets: f64,
    /// What came through, bits of payload per second.
    pub throughput_bps: f64,
    /// What this window and the path leave to TCP, likewise.
    pub ideal_bps: Option<f64>,
    /// Actual time to ideal time; of a stream that lasts as long in both cases, ideal to actual throughput.
    pub transfer_time_ratio: Option<f64>,
    /// Whether each segment bears timestamps, which the ideal then counts; absent: the kernel does not tell, and it does not.
    pub timestamps: Option<bool>,
    /// The part of the payload sent that was not sent again.
    pub efficiency: Option<f64>,
    /// It is of bytes; else of segments.
    #[serde(skip)]
    pub is_of_bytes: bool,
    /// How much longer the mean round trip was than the baseline, as a part of that.
    pub buffer_delay: Option<f64>,
}

/// Before a search: whether the path is fit, and its round trip.
pub(super) fn before(asked: &SearchAsked, tried: &[TriedLoad]) -> Option<Step> {
    if !asked.stages.contains(&Stage::Windows) || unfit(tried).is_some() {
        return None;
    }
    if of(tried, Purpose::Quality).next().is_none() {
        return Some(step(Purpose::Quality, 0, asked.least_bps, asked.stage_s));
    }
    let options = vec![option("workload", "udp-rr"), option("rate", "100pps")];
    let is_known = of(tried, Purpose::BaselineRtt).next().is_some();
    (!is_known).then(|| Step { options, ..step(Purpose::BaselineRtt, 0, asked.least_bps, asked.stage_s) })
}

/// Why there is nothing more to measure.
pub(super) fn unfit(tried: &[TriedLoad]) -> Option<UnsuitablePath> {
    let one = of(tried, Purpose::Quality).next()?;
    let unfit =
        UnsuitablePath { loss_ratio: one.loss_ratio?, jitter_s: one.seen.jitter_s, load_bps: one.step.load_bps };
    let is_it = unfit.loss_ratio > MOST_LOSS || unfit.jitter_s.is_some_and(|jitter_s| jitter_s > MOST_JITTER_S);
    is_it.then_some(unfit)
}

/// The next transfer.
pub(super) fn window(asked: &SearchAsked, tried: &[TriedLoad], throughput_bps: f64) -> Option<Step> {
    let bdp = bdp_octets(baseline_rtt_s(tried)?, wire_bps(asked, throughput_bps)?);
    let mut windows: Vec<u64> = WINDOW_PARTS.iter().map(|part| (bdp * part).max(LEAST_WINDOW).round() as u64).collect();
    windows.dedup();
    let done = of(tried, Purpose::Window).count();
    let options = vec![
        option("workload", "tcp-stream"),
        option("rate", "unlimited"),
        option("socket_buffer", windows.get(done)?),
        option("message_size", "auto"),
        option("sender_api", "auto"),
        option("receiver_api", "auto"),
        option("pacing", "auto"),
        option("probe", true),
    ];
    Some(Step { options, ..step(Purpose::Window, done as u32, throughput_bps, asked.stage_s) })
}

fn baseline_rtt_s(tried: &[TriedLoad]) -> Option<f64> {
    of(tried, Purpose::BaselineRtt).find_map(|one| one.seen.delay.as_ref()?.min_s)
}

/// On an Ethernet, with preamble and gap.
fn wire_bps(asked: &SearchAsked, payload_bps: f64) -> Option<f64> {
    let (payload, wire) = (asked.packet_octets.filter(|octets| *octets > 0)?, asked.wire_octets?);
    Some(payload_bps * f64::from(wire) / f64::from(payload))
}

fn bdp_octets(rtt_s: f64, wire_bps: f64) -> f64 {
    rtt_s * wire_bps / 8.0
}

impl Rfc6349 {
    /// From the trials of a search; `None`: windows were not asked for.
    pub fn of(searched: &SearchRecords) -> Option<Rfc6349> {
        let SearchRecords { asked, tried, .. } = searched;
        if !asked.stages.contains(&Stage::Windows) {
            return None;
        }
        let baseline_rtt_s = baseline_rtt_s(tried);
        let bottleneck_bps = searched.throughput_bps().and_then(|bps| wire_bps(asked, bps));
        let one = |tried: &TriedLoad| window_of(asked, tried, bottleneck_bps, baseline_rtt_s);
        Some(Rfc6349 {
            unfit: unfit(tried),
            baseline_rtt_s,
            bottleneck_bps,
            bdp_octets: baseline_rtt_s.zip(bottleneck_bps).map(|(rtt_s, bps)| bdp_octets(rtt_s, bps)),
            path_mtu: of(tried, Purpose::Window).find_map(|one| one.seen.tcp.as_ref()?.path_mtu),
            windows: of(tried, Purpose::Window).filter_map(one).collect(),
        })
    }
}

fn window_of(asked: &SearchAsked, tried: &TriedLoad, wire_bps: Option<f64>, baseline_s: Option<f64>) -> Option<Window> {
    let seen = &tried.seen;
    let octets: f64 = tried.step.options.iter().find(|(name, _)| name == "socket_buffer")?.1.parse().ok()?;
    let tcp = seen.tcp.as_ref();
    let timestamps = tcp.and_then(|tcp| tcp.timestamps);
    // What a frame has around TCP's payload: that around UDP's, less UDP's header.
    let around = asked.wire_octets.zip(asked.packet_octets).map(|(wire, payload)| f64::from(wire) - f64::from(payload));
    let line_bps = || {
        let mss = f64::from(tcp?.mss?);
        let header = f64::from(tcp_header_len(timestamps == Some(true)));
        Some(wire_bps? * mss / (mss + around? - UDP_HEADER + header))
    };
    let window_bps = baseline_s.filter(|rtt_s| *rtt_s > 0.0).map(|rtt_s| octets * 8.0 / rtt_s);
    let (part, is_of_bytes) = tcp.map_or((None, false), |tcp| {
        let of = |sent: Option<u64>, again: Option<u64>| {
            let (sent, again) = (sent.filter(|sent| *sent > 0)? as f64, again? as f64);
            Some(1.0 - again / sent)
        };
        match of(tcp.bytes_sent, tcp.bytes_retransmitted) {
            Some(part) => (Some(part), true),
            None => (of(tcp.segments_sent, Some(tcp.retransmissions)), false),
        }
    });
    let mean_s = seen.delay.as_ref().and_then(|delay| delay.mean_s);
    let throughput_bps = seen.throughput_bps?;
    let ideal_bps = line_bps().zip(window_bps).map(|(line, window)| line.min(window));
    Some(Window {
        record: tried.record.clone(),
        octets,
        throughput_bps,
        ideal_bps,
        transfer_time_ratio: ideal_bps.filter(|_| throughput_bps > 0.0).map(|ideal| ideal / throughput_bps),
        timestamps,
        efficiency: part,
        is_of_bytes,
        buffer_delay: mean_s.zip(baseline_s).map(|(mean_s, baseline_s)| (mean_s - baseline_s) / baseline_s),
    })
}

#[cfg(test)]
mod tests {
    use linerate_trial::outcome::TcpSummary;

    use super::super::tests::{asked, searched_of, tried};
    use super::super::{Delay, TrialFigures};
    use super::*;

    /// A gigabit, full frames, 10 ms.
    fn gigabit() -> SearchAsked {
        SearchAsked {
            packet_octets: Some(1472),
            wire_octets: Some(1538),
            most_bps: 957_087_126.0,
            stages: vec![Stage::Windows],
            ..asked()
        }
    }

    fn with(step: Step, seen: TrialFigures) -> TriedLoad {
        TriedLoad { seen, ..tried(step, 0.0) }
    }

    #[test]
    fn ideals_are_those_of_the_document() {
        let asked = gigabit();
        let rtt = Delay { min_s: Some(0.010), mean_s: Some(0.011), ..Delay::default() };
        let mut all = Vec::new();
        while let Some(step) = before(&asked, &all) {
            all.push(with(step, TrialFigures { delay: Some(rtt), ..TrialFigures::default() }));
        }
        assert_eq!(all.len(), 2);
        while let Some(step) = window(&asked, &all, asked.most_bps) {
            let mss = if all.len() % 2 == 0 { 1460 } else { 1448 };
            let tcp = TcpSummary {
                mss: Some(mss),
                timestamps: Some(mss == 1448),
                bytes_sent: Some(100_000),
                bytes_retransmitted: Some(2_000),
                ..TcpSummary::default()
            };
            let delay = Some(Delay { mean_s: Some(0.025), ..rtt });
            all.push(with(
                step,
                TrialFigures { throughput_bps: Some(200e6), delay, tcp: Some(tcp), ..TrialFigures::default() },
            ));
        }
        let mut searched = searched_of(asked, all);
        searched.found[0].lower = Some(957_087_126.0);
        let found = Rfc6349::of(&searched).unwrap();
        assert!(
            (found.bottleneck_bps.unwrap() - 1e9).abs() < 1.0 && (found.bdp_octets.unwrap() - 1_250_000.0).abs() < 1.0
        );
        let windows: Vec<f64> = found.windows.iter().map(|one| one.octets).collect();
        assert_eq!(windows, [312_500.0, 625_000.0, 1_250_000.0, 2_500_000.0, 5_000_000.0]);
        let ideals: Vec<f64> = found.windows.iter().map(|one| one.ideal_bps.unwrap() / 1e6).collect();
        // RFC 6349, section 4.1: 949.2 Mbit/s; with timestamps 941.5. Below the product, window by round trip.
        for (ideal, want) in ideals.iter().zip([250.0, 500.0, 949.3, 941.5, 949.3]) {
            assert!((ideal - want).abs() < 0.1, "{ideals:?}");
        }
        let first = &found.windows[0];
        assert_eq!(first.transfer_time_ratio, Some(1.25));
        assert!((first.efficiency.unwrap() - 0.98).abs() < 1e-9 && first.is_of_bytes);
        assert!((first.buffer_delay.unwrap() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_path_that_loses_much_is_refused() {
        let quality = before(&gigabit(), &[]).unwrap();
        for (loss_ratio, jitter_s, is_fit) in [(0.05, 0.15, true), (0.051, 0.0, false), (0.0, 0.151, false)] {
            let seen = TrialFigures { jitter_s: Some(jitter_s), ..TrialFigures::default() };
            let all = [TriedLoad { seen, ..tried(quality.clone(), loss_ratio) }];
            assert_eq!(
                (unfit(&all).is_none(), before(&gigabit(), &all).is_some()),
                (is_fit, is_fit),
                "{loss_ratio} {jitter_s}"
            );
        }
    }
}
