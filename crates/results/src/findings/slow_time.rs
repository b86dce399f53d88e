//! For a part of the trial a stream was much slower than otherwise.
//! Knows when, and what limited for about as long; other rules know causes that last all the time.

use linerate_machine::end::End;
use linerate_trial::event::{Event, EventKind};

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// What limited for about as long took so many times the slow time, at least and at most.
const ABOUT: std::ops::Range<f64> = 0.5..1.5;
/// From this share of the time on what limits is named by a rule of its own.
const MUCH: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "slow-time",
    says: "For a part of the trial much less came through than before and after, or than before: something on the way was slower then.",
    rests_on: "The event rate-changed, to less, in a stream that came short and lost no datagrams; and of the time budget's lines path, \
               shaper, qdisc, receive-window and congestion-window the largest, where it is 0.5 to 1.5 times as long. Not where it stayed so and path or shaper has 30 % of the \
               time (bottleneck, shaper).",
    source: "RFC 6349, section 3.2 (bottleneck bandwidth); tc(8).",
    suggests: &[],
    find,
};

/// What of the limits that lasted about as long is the largest: whose it is, and what it says.
fn limit(case: &Case<'_>, share: f64) -> Option<(Option<End>, String)> {
    let is_one = |limit: Limit| {
        matches!(limit, Limit::Path | Limit::Shaper | Limit::Qdisc | Limit::ReceiveWindow | Limit::CongestionWindow)
    };
    let line = case.time().find(|line| is_one(line.limit) && ABOUT.contains(&(line.share / share)))?;
    let why = match line.limit {
        Limit::Path => {
            "a queue stood between the two ends, as behind a shaper or a slower way that came and went".to_owned()
        }
        Limit::Shaper | Limit::Qdisc => format!(
            "packets waited at the {}'s own egress, as in a shaper that was set then or a link that went slower",
            case.sender.end
        ),
        Limit::ReceiveWindow => format!("the {} read as slowly", case.receiver.end),
        _ => "segments were lost, and TCP's window was small".to_owned(),
    };
    Some((line.end, why))
}

fn find(case: &Case<'_>) -> Option<Finding> {
    let (event, from_bps, to_bps) = case.events().find_map(|event| match event.what {
        EventKind::RateChanged { from_bps, to_bps, .. } if to_bps < from_bps => Some((event, from_bps, to_bps)),
        _ => None,
    })?;
    let short = case.short().filter(|_| case.loss().is_none())?;
    let span_s = case.span_s()?;
    let stays = event.for_s.is_none();
    let for_s = event.for_s.unwrap_or(span_s - event.at_s);
    let share = for_s / span_s;
    let is_named = [Limit::Path, Limit::Shaper].iter().any(|limit| case.share_of(&[*limit]) >= MUCH);
    if (stays && is_named) || share <= 0.0 {
        return None;
    }
    let (machine, why) = limit(case, share)?;
    let (at, from, to) = (tidy(event.at_s), tidy(from_bps / 1e6), tidy(to_bps / 1e6));
    let when = match stays {
        true => format!("From {at} s on {to} Mbit/s came through, and {from} before"),
        false => format!(
            "From {at} s to {} s {to} Mbit/s came through, and {from} before and after",
            tidy(event.at_s + for_s)
        ),
    };
    // What did not come for it, beside what did not for silences.
    let missing_s = for_s * (1.0 - to_bps / from_bps);
    let (silent_s, _) = case.held(|event: &Event| matches!(event.what, EventKind::Stall { .. }));
    let (weight, explains): (f64, &'static [&'static str]) = match missing_s > silent_s {
        // What stood in a queue that went is lost.
        true => (
            0.85,
            &["outage", "lossy-path", "unaccounted", "host-limits", "application-limited", "bottleneck", "shaper"],
        ),
        false => (0.4, &[]),
    };
    Some(
        RULE.finds(case, machine, Sureness::Likely, weight, format!("{when}: {why}."))
            .because(format!("that was {} of the trial", percent(share)))
            .because(short)
            .wrong_if("It is wrong if the next trial is as slow at another time, or all the time.")
            .explains(explains),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use super::*;
    use crate::record::Record;

    fn check(change: impl Fn(&mut Record)) -> Option<(usize, String)> {
        let name = "a shaper on the way that comes and goes";
        let mut record = cases::cases().into_iter().find(|case| case.name == name).unwrap().record;
        change(&mut record);
        findings(&record)
            .into_iter()
            .enumerate()
            .find(|(_, one)| one.name == RULE.name)
            .map(|(at, one)| (at, one.sentence))
    }

    fn silent(record: &mut Record, seconds: f64) {
        let what = EventKind::Stall { direction: Some(record.direction), lost_share: Some(0.9) };
        record.events.push(Event { at_s: 1.9, for_s: Some(seconds), within_s: 0.05, end: None, what });
    }

    #[test]
    fn a_slow_time_is_told_with_what_limited_for_as_long() {
        let (at, said) = check(|_| ()).unwrap();
        let wants = "From 0.60 s to 1.20 s 8.50 Mbit/s came through, and 190 before and after: a queue stood between the two ends";
        assert!(at == 0 && said.starts_with(wants), "{at} {said}");
        let (_, said) = check(|record| record.time_budget[0].limit = Limit::Qdisc).unwrap();
        assert!(said.contains("packets waited at the target's own egress"), "{said}");
        let (_, said) = check(|record| {
            record.events[0].for_s = None;
            (record.time_budget[0].limit, record.time_budget[0].share) = (Limit::Qdisc, 0.6);
        })
        .unwrap();
        assert!(said.starts_with("From 0.60 s on 8.50 Mbit/s came through, and 190 before:"), "{said}");
        // Nothing limited for as long; it was faster then; it stays, and another rule names it.
        assert_eq!(check(|record| record.time_budget[0].share = 0.1), None);
        assert_eq!(check(|record| record.time_budget[0].limit = Limit::SenderCpuWait), None);
        assert_eq!(
            check(|record| {
                let EventKind::RateChanged { from_bps, .. } = &mut record.events[0].what else { panic!() };
                *from_bps = 1e6;
            }),
            None
        );
        assert_eq!(check(|record| (record.events[0].for_s, record.time_budget[0].share) = (None, 0.6)), None);
    }

    #[test]
    fn a_longer_silence_comes_before_it() {
        assert_eq!(check(|record| silent(record, 0.3)).unwrap().0, 0);
        assert_eq!(check(|record| silent(record, 0.9)).unwrap().0, 1);
    }
}
