//! One UDP stream at a rate: how well the rate is kept, how evenly, and what that costs the sender.
//! Knows no tool's word for its own pace; that is seen at the link.

use super::iperf::IPERF;
use super::iperf3::IPERF3;
use super::nuttcp::NUTTCP;
use super::run::Look;
use super::tool::Load;
use super::work::{Better, Contender, Limit, Metric, Target, Work};

const OCTETS: u32 = 1470;

/// Places in the list of metrics.
const LINK_ERROR: usize = 0;
const RECEIVED_ERROR: usize = 1;
const LOST: usize = 2;
const GAP_P99: usize = 4;
const CPU: usize = 5;

fn metrics() -> Vec<Metric> {
    let less = |name, digits, of| Metric { name, better: Better::Less, digits, of };
    vec![
        less("rate error at the sender's link, %", 4, |run, contender| {
            let bps = run.evenness?.packets_per_s * f64::from(OCTETS) * 8.0;
            Some(error_percent(bps, contender))
        }),
        less("rate error by the receiver, %", 4, |run, contender| Some(error_percent(run.account.bps(), contender))),
        less("datagrams lost, by the receiver", 0, |run, _| run.account.lost),
        less("distance of a gap between departures from the asked one, median, µs", 3, |run, _| {
            Some(run.evenness?.error_median_s * 1e6)
        }),
        less("the same, 99th percentile, µs", 2, |run, _| Some(run.evenness?.error_p99_s * 1e6)),
        less("CPU of the sending processes, % of one core", 1, |run, _| Some(run.sender_cpu? * 100.0)),
        // Held against the line above: the record speaks of the threads that moved data only.
        less("the same of the sending thread by linerate's record, %", 1, |run, _| {
            Some(run.recorded_cpu_s? / run.account.seconds * 100.0)
        }),
    ]
}

fn error_percent(bps: f64, contender: &Contender) -> f64 {
    match contender.load {
        Load::Udp { rate_bps: Some(asked), .. } => (bps / asked as f64 - 1.0).abs() * 100.0,
        _ => f64::NAN,
    }
}

pub(super) fn works() -> Vec<Work> {
    [("paced-10m", "10 Mbit/s", 10), ("paced-100m", "100 Mbit/s", 100), ("paced-400m", "400 Mbit/s", 400)]
        .into_iter()
        .chain([("paced-1g", "1 Gbit/s", 1000)])
        .map(|(name, rate, megabits)| {
            let load = Load::Udp { octets: OCTETS, rate_bps: Some(megabits * 1_000_000) };
            let target = |text, metric, limit| Target { text, contender: 0, metric, limit };
            let mut targets = vec![
                target("rate error at the link under 0.1 %", LINK_ERROR, Limit::AtMost(0.1)),
                target("rate error by the receiver under 0.1 %", RECEIVED_ERROR, Limit::AtMost(0.1)),
                target("no loss where the link has none, in any round", LOST, Limit::Always(0.0)),
            ];
            if megabits == 100 {
                targets.push(target("sender CPU under 15 % of one core", CPU, Limit::AtMost(15.0)));
            }
            if megabits == 1000 {
                targets.push(target("99th percentile of the gap error under 20 µs", GAP_P99, Limit::AtMost(20.0)));
                let third = Limit::AtMostTimes(1.0 / 3.0, &["iperf3", "iperf"]);
                targets.push(target("and under a third of iperf3's and iperf's", GAP_P99, third));
            }
            Work {
                name,
                title: format!("UDP, {OCTETS} bytes a datagram, paced at {rate}"),
                about: "Departures are taken at the sender's link by tcpdump, which is stopped meanwhile: the kernel stamps \
                        each packet and keeps it, and nobody reads. A run in which one was dropped, or whose count is not \
                        that of the link's own counter, is none. The first and the last twentieth of the packets are left \
                        out of rate and gaps, for all tools alike. CPU time is that of all processes at the sending end, \
                        from /proc, while all of them send."
                    .to_owned(),
                contenders: vec![
                    Contender::linerate(load),
                    Contender::peer(&IPERF3, load),
                    Contender::peer(&IPERF, load),
                    Contender::peer(&NUTTCP, load),
                ],
                metrics: metrics(),
                targets,
                look: Look { departures: true, processes: true },
                on_demand: false,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_no_sign() {
        let contender = Contender::linerate(Load::Udp { octets: OCTETS, rate_bps: Some(1_000_000) });
        assert!((error_percent(999_000.0, &contender) - 0.1).abs() < 1e-9);
        assert!((error_percent(1_001_000.0, &contender) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn places_are_those_of_the_list() {
        let metrics = metrics();
        for (place, part) in [
            (LINK_ERROR, "link"),
            (RECEIVED_ERROR, "receiver, %"),
            (LOST, "lost"),
            (GAP_P99, "99th"),
            (CPU, "processes"),
        ] {
            assert!(metrics[place].name.contains(part), "{part}");
        }
    }
}
