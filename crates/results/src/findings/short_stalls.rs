//! Everything stands still for tens of milliseconds, again and again, and nothing is lost.
//! Knows the distances of arrivals and the times of transactions; who held the packets no counter tells.

use linerate_trial::histogram::Histogram;
use linerate_trial::spec::Workload;

use super::case::{Case, Side, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::total::Total;

/// A stall of less is a busy machine's, and one of more is an outage.
const SHORTEST_S: f64 = 0.02;
const LONGEST_S: f64 = 0.25;
/// Beside so many times what is usual.
const UNUSUAL: f64 = 20.0;
/// From so many on, and from this share of the time on.
const TIMES: u64 = 3;
const SHARE: f64 = 0.05;
/// Stalls of chance differ; those of a device that does something else meanwhile are alike: most are as long as the longest, to this.
const ALIKE: f64 = 0.6;
const MOST: f64 = 0.7;
/// Threads that waited for a CPU for such a part of it are themselves what stood still.
const WAITED: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "short-stalls",
    says: "Nothing passes for tens of milliseconds, again and again, and nothing is lost: something on the way, or a driver, holds all \
           packets meanwhile.",
    rests_on: "Between arrivals of UDP (and not between departures), or in transactions that lost nothing: at least 3 times of 20 to 250 ms, \
               20 times what is usual, most of them alike (the shortest 60 % of the longest), 5 % of the trial in all; the threads of \
               both ends waited for a CPU for less than 30 % of that, and nothing was retransmitted.",
    source: "RFC 3393 (delay variation); IEEE 802.3, annex 31B (pause).",
    suggests: &["pause.rx"],
    find,
};

/// How often it stood still, and how long in all, seconds.
struct Stalls {
    times: u64,
    seconds: f64,
}

impl Stalls {
    fn of(times: &Histogram, usual_s: f64) -> Option<Stalls> {
        let least_s = (UNUSUAL * usual_s).max(SHORTEST_S);
        let long: Vec<(f64, u64)> = times
            .buckets()
            .map(|(ns, count)| (ns as f64 / 1e9, count))
            .filter(|(seconds, _)| *seconds >= least_s)
            .collect();
        let (longest_s, _) = *long.last()?;
        let count = |least: f64| -> u64 { long.iter().filter(|one| one.0 >= least).map(|one| one.1).total() };
        let (all, alike) = (count(0.0), count(ALIKE * longest_s));
        let seconds = long.iter().map(|(seconds, count)| seconds * *count as f64).sum();
        (longest_s <= LONGEST_S && all >= TIMES && alike as f64 >= MOST * all as f64)
            .then_some(Stalls { times: all, seconds })
    }
}

fn find(case: &Case<'_>) -> Option<Finding> {
    let flow = case.flow()?;
    let shares = case.sides().into_iter().filter_map(|side| side.thread_shares(case));
    let waited = shares.map(|(_, waited)| waited).fold(0.0, f64::max);
    // A way of its own for each stream hides what all of them wait for.
    if case.streams() > 1.0
        || case.loss().is_some()
        || case.retransmitted_by_any() > 0
        || case.waited_for_timer().is_some()
    {
        return None;
    }
    let (stalls, what) = match case.record.workload {
        Workload::UdpStream => {
            let gaps = flow.arrival_gaps.as_ref()?;
            let burst = case.asked.as_ref().map_or(1.0, |asked| f64::from(asked.burst));
            let stalls = Stalls::of(gaps, gaps.mean_ns()? / 1e9 * burst)?;
            let left = flow.departure_gaps.as_ref().and_then(Histogram::max_ns).unwrap_or(0) as f64 / 1e9;
            if 2.0 * left >= stalls.seconds / stalls.times as f64 {
                return None;
            }
            (stalls, "arrived")
        }
        Workload::TcpRr | Workload::UdpRr => {
            let latency = case.latency()?;
            if case.asked.as_ref().is_some_and(|asked| asked.outstanding > 1) {
                return None;
            }
            (Stalls::of(&latency.histogram, *latency.percentiles.get("p50")?)?, "was answered")
        }
        _ => return None,
    };
    let share = stalls.seconds / case.span_s()?;
    if share < SHARE || waited >= WAITED * share {
        return None;
    }
    let each_ms = stalls.seconds / stalls.times as f64 * 1e3;
    let sentence = format!(
        "Nothing passes for about {} ms, {} times: something on the way, or a driver, holds all packets meanwhile.",
        tidy(each_ms),
        stalls.times
    );
    let is_paused = |side: &Side<'_>| side.nic().and_then(|nic| nic.pause?.rx) == Some(true);
    let paused = case.sides().into_iter().find(is_paused);
    let finding = RULE
        .finds(case, None, Sureness::Likely, share.min(1.0), sentence)
        .because(format!("nothing {what} for {} of the time in all, and nothing was lost", percent(share.min(1.0))))
        .because("the threads of both ends hardly waited for a CPU")
        .wrong_if("It is wrong if a cable from one end to the other shows the same: then a driver or an idle state of an end does it.")
        .explains(&["idle-states", "coalescing-latency", "far-path", "slow-answers"]);
    Some(match paused {
        Some(side) => finding.attempt(side.setting("pause.rx"), "off", case.metric()),
        None => finding,
    })
}
