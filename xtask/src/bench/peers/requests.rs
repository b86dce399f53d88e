//! Requests and responses, one at a time: how many a second, and how long one takes.
//! Knows which tools can do it, and with how little payload.

use super::iperf::{self, IPERF};
use super::run::Look;
use super::sockperf::{self, SOCKPERF};
use super::tool::Load;
use super::work::{Better, Contender, Limit, Metric, Target, Work};

const TRANSACTIONS: Metric = Metric {
    name: "transactions a second",
    better: Better::More,
    digits: 0,
    of: |run, _| Some(run.account.transactions? / run.account.seconds),
};

const MEDIAN: Metric = Metric {
    name: "median time from request to response, µs",
    better: Better::Less,
    digits: 2,
    of: |run, _| Some(run.account.median_s? * 1e6),
};

pub(super) fn works() -> Vec<Work> {
    [(false, "tcp-rr", "TCP"), (true, "udp-rr", "UDP")]
        .map(|(udp, name, protocol)| {
            let requests = |octets| Load::Requests { udp, octets };
            let mut contenders = vec![
                named("linerate, 1 B", Contender::linerate(requests(1))),
                named("linerate, 14 B", Contender::linerate(requests(sockperf::LEAST_REQUEST))),
                named("sockperf, 14 B", Contender::peer(&SOCKPERF, requests(sockperf::LEAST_REQUEST))),
            ];
            let mut about = "One request under way at a time, request and response of the same size, nobody polling. \
                             sockperf's smallest message is 14 bytes, so linerate does that too. sockperf counts over its \
                             whole run and takes its median over the part after its own warm-up (0.4 s)."
                .to_owned();
            if !udp {
                contenders.push(named("iperf, 100 B", Contender::peer(&IPERF, requests(iperf::LEAST_REQUEST))));
                about += " iperf's `--bounceback` does not go on below 100 bytes, and tells no median.";
            }
            let target = |text, contender, metric, limit| Target { text, contender, metric, limit };
            Work {
                name,
                title: format!("Requests and responses over {protocol}"),
                about,
                contenders,
                metrics: vec![TRANSACTIONS, MEDIAN],
                targets: vec![
                    target("1 B: 1.0 × the best peer's transactions/s", 0, 0, Limit::TimesBest(1.0)),
                    target("1 B: median latency no worse than the best peer's", 0, 1, Limit::AtMostTimes(1.0, &[])),
                    target("14 B: 1.0 × the best peer's transactions/s", 1, 0, Limit::TimesBest(1.0)),
                    target("14 B: median latency no worse than the best peer's", 1, 1, Limit::AtMostTimes(1.0, &[])),
                ],
                look: Look::default(),
                on_demand: false,
            }
        })
        .into()
}

fn named(name: &str, contender: Contender) -> Contender {
    Contender { name: name.to_owned(), ..contender }
}
