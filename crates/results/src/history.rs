//! A metric over campaigns: for each configuration a series of medians, and where it changed.
//! Knows no store and prints nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use linerate_stats::change::{FEWEST, changes};
use linerate_stats::median;
use serde::Serialize;

use crate::observation::{TrialContext, TrialRequest};
use crate::store::Point;

/// One configuration over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// What tells it from the others, as `rate=100M direction=tx`; empty where there is one only.
    pub configuration: String,
    /// A moment a campaign, oldest first.
    pub moments: Vec<CampaignValue>,
    /// Where it changed.
    pub changes: Vec<ChangePoint>,
    /// How many campaigns are needed for any change to be found, where there are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaigns_needed: Option<usize>,
}

/// A campaign's value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CampaignValue {
    /// The campaign's identifier.
    pub campaign: String,
    /// When its first trial of this configuration started, RFC 3339.
    pub started_at: String,
    /// How many trials.
    pub count: usize,
    /// Their median, in the record's unit.
    pub median: f64,
}

/// From this campaign on, the values are others, or drift.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangePoint {
    /// Its place in the series, from 0.
    pub at: usize,
    /// How many campaigns it takes: one of a step, more of a drift.
    pub over: usize,
    /// The campaign's identifier.
    pub campaign: String,
    /// When it started, RFC 3339.
    pub started_at: String,
    /// The median of the stretch before; where a drift begins.
    pub before: f64,
    /// The median of the stretch that begins; where a drift ends.
    pub after: f64,
    /// Facts that are others in this campaign than in the last one before, or in a drift's last than in its first: name, before, after.
    pub with: Vec<(String, String, String)>,
}

/// How long was measured, and by which seed, makes no other configuration.
const NO_CONFIGURATION: [&str; 6] = ["duration", "warmup", "interval", "seed", "repeat", "latency_of"];

/// The series of these points, each of its last `last` campaigns.
pub fn history(points: &[Point], last: usize) -> Vec<Series> {
    let mut seen = BTreeSet::new();
    let asked = points.iter().map(|point| &*point.around.asked).filter(|asked| seen.insert(std::ptr::from_ref(*asked)));
    let mut names = TrialRequest::varying(&asked.collect::<Vec<_>>());
    names.retain(|name| !NO_CONFIGURATION.contains(&name.name));
    let mut keys: HashMap<*const TrialRequest, Arc<str>> = HashMap::new();
    let mut grouped: BTreeMap<Arc<str>, Vec<&Point>> = BTreeMap::new();
    for point in points {
        let asked = &point.around.asked;
        let key = keys.entry(Arc::as_ptr(asked)).or_insert_with(|| asked.named(&names));
        grouped.entry(Arc::clone(key)).or_default().push(point);
    }
    grouped.into_iter().map(|(key, points)| series(key.to_string(), &points, last)).collect()
}

fn series(configuration: String, points: &[&Point], last: usize) -> Series {
    // Identifiers sort by time, and the points mostly come so.
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.campaign.cmp(&b.campaign));
    let campaigns: Vec<&[&Point]> = points.chunk_by(|a, b| a.campaign == b.campaign).collect();
    let campaigns = &campaigns[campaigns.len().saturating_sub(last)..];
    let moments: Vec<CampaignValue> = campaigns
        .iter()
        .filter_map(|points| {
            let values: Vec<f64> = points.iter().map(|point| point.value).collect();
            let (started_at, count) = (points[0].started_at.clone(), points.len());
            Some(CampaignValue {
                campaign: points[0].campaign.to_string(),
                started_at,
                count,
                median: median(&values)?,
            })
        })
        .collect();
    let medians: Vec<f64> = moments.iter().map(|moment| moment.median).collect();
    let changes = changes(&medians).into_iter().map(|change| {
        let moment = &moments[change.at];
        let ends = if change.over == 1 { [change.at - 1, change.at] } else { [change.at, change.at + change.over - 1] };
        let [first, last] = ends.map(|at| &campaigns[at][0].around);
        ChangePoint {
            at: change.at,
            over: change.over,
            campaign: moment.campaign.clone(),
            started_at: moment.started_at.clone(),
            before: change.before,
            after: change.after,
            with: changed_facts(first, last),
        }
    });
    let campaigns_needed = (moments.len() < FEWEST).then_some(FEWEST);
    Series { configuration, changes: changes.collect(), moments, campaigns_needed }
}

fn changed_facts(before: &TrialContext, after: &TrialContext) -> Vec<(String, String, String)> {
    let names: BTreeSet<&String> = before.facts().chain(after.facts()).map(|(name, _)| name).collect();
    let of = |around: &TrialContext, name: &String| around.get(name).unwrap_or_default().to_owned();
    let both = names.into_iter().map(|name| (name.clone(), of(before, name), of(after, name)));
    both.filter(|(_, before, after)| before != after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Observation;
    use crate::sample;

    fn points(values: &[f64], kernel: impl Fn(usize) -> &'static str) -> Vec<Point> {
        let mut points = Vec::new();
        for (campaign, value) in values.iter().enumerate() {
            for repeat in 0..3 {
                let mut record = sample::ttcp(0, repeat);
                record.target.environment.kernel = Some(kernel(campaign).to_owned());
                let around = Observation::of(&record).around;
                let campaign = format!("{campaign:026}").into();
                let started_at = record.started_at.clone();
                points.push(Point { campaign, started_at, around, value: value + f64::from(repeat) });
            }
        }
        points
    }

    #[test]
    fn a_change_says_what_changed_with_it() {
        let values: Vec<f64> = (0..24).map(|at| if at < 12 { 900.0 } else { 850.0 } + (at * 7 % 5) as f64).collect();
        let found = history(&points(&values, |at| if at < 12 { "6.1" } else { "6.12" }), 1000);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].configuration.as_str(), found[0].moments.len()), ("", 24));
        assert_eq!((found[0].moments[3].count, found[0].moments[0].median), (3, 901.0));
        let change = &found[0].changes[..];
        assert_eq!(change.len(), 1, "{change:?}");
        assert_eq!((change[0].at, change[0].campaign.as_str()), (12, "00000000000000000000000012"));
        assert_eq!(change[0].with, [("target.kernel".to_owned(), "6.1".to_owned(), "6.12".to_owned())]);
        assert_eq!(found[0].campaigns_needed, None);
        let few = &history(&points(&values, |_| "6.1"), 10)[0];
        assert_eq!((&few.changes[..], few.campaigns_needed), (&[][..], Some(12)), "only the last ten");
    }

    #[test]
    fn a_drift_says_what_is_other_at_its_end() {
        let values: Vec<f64> = (0..60).map(|at| 900.0 - f64::from(at) + f64::from(at * 7 % 5)).collect();
        let found = &history(&points(&values, |at| if at < 40 { "6.1" } else { "6.12" }), 1000)[0];
        let [drift] = &found.changes[..] else { panic!("{:?}", found.changes) };
        assert_eq!((drift.at, drift.over, drift.with.len()), (0, 60, 1), "{drift:?}");
        assert!((drift.before - 903.0).abs() < 2.0 && (drift.after - 844.0).abs() < 2.0, "{drift:?}");
    }

    #[test]
    fn configurations_are_kept_apart() {
        let mut records = vec![sample::udp(0, linerate_machine::end::Direction::Rx, 100, 90.0)];
        records.push(sample::udp(1, linerate_machine::end::Direction::Rx, 200, 150.0));
        let points: Vec<Point> = records
            .iter()
            .map(|record| Point {
                campaign: record.campaign.as_str().into(),
                started_at: record.started_at.clone(),
                around: Observation::of(record).around,
                value: 1.0,
            })
            .collect();
        let names: Vec<String> = history(&points, 9).into_iter().map(|series| series.configuration).collect();
        assert_eq!(names, ["rate=100M", "rate=200M"]);
        assert_eq!(history(&[], 9), []);
    }
}
