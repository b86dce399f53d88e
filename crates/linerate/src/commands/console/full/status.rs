//! How a campaign stands, in two lines: the trial that runs, and what the last ones came to. Made of the campaign's events.
//! Knows no pipe and no terminal.

use std::time::Duration;

use linerate_results::figure::Metric;
use linerate_results::record::Record;

use crate::measure::events::CampaignEvent;
use crate::render::brief;

/// How it stands.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Status {
    trial: String,
    passed: String,
    left: String,
    last: String,
    median: String,
}

impl Status {
    /// Something happens.
    pub(super) fn hear(&mut self, event: &CampaignEvent) {
        match event {
            CampaignEvent::TrialBegan { place, planned, words, left, .. } => {
                let of = planned.map_or(String::new(), |planned| format!(" of {planned}"));
                self.trial = format!("Trial {place}{of}: {words}");
                self.passed.clear();
                self.left = left.as_ref().map_or(String::new(), |left| {
                    let about = if left.at_most { "at most" } else { "about" };
                    format!("{about} {} left", brief::time(left.time))
                });
            }
            CampaignEvent::Booting { end, level, elapsed_s, .. } => {
                let elapsed = brief::time(Duration::try_from_secs_f64(*elapsed_s).unwrap_or_default());
                self.trial = format!("Booting the {end} as {level}, {elapsed}");
            }
            CampaignEvent::Passed(interval) => {
                let mbps = brief::digits(interval.bps / 1e6);
                self.passed = format!("{:.0} s, {mbps} Mbit/s", interval.until_s);
            }
            CampaignEvent::TrialEnded { record, .. } => self.last = format!("Last: {}", came_to(record)),
            CampaignEvent::Narrowed(narrowed) => {
                let metric = Metric::find(&narrowed.metric);
                let (scale, unit) = metric.map_or((1.0, ""), |metric| (metric.unit.scale(), metric.unit.name()));
                let shown = |value: f64| brief::digits(value * scale);
                let interval = narrowed.interval.map_or("no interval yet".to_owned(), |(low, high)| {
                    format!("95 % {} to {}", shown(low), shown(high))
                });
                self.median = format!("median of {}: {} {unit}, {interval}", narrowed.repeats, shown(narrowed.median));
            }
            CampaignEvent::Ended { .. } => (self.trial, self.passed, self.left) = Default::default(),
            _ => {}
        }
    }

    /// As it is shown; nothing where nothing has happened.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |parts: &[&String]| {
            let said: Vec<&str> = parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
            said.join(", ")
        };
        [line(&[&self.trial, &self.passed, &self.left]), line(&[&self.last, &self.median])]
            .into_iter()
            .filter(|line| !line.is_empty())
            .collect()
    }
}

/// The figures of a trial, where most of its losses were, and whether they are doubted.
fn came_to(record: &Record) -> String {
    let mut said = brief::line(record);
    let budget = record.loss_budget.iter().flatten();
    if let Some(most) = budget.filter(|line| line.packets > 0).max_by_key(|line| line.packets) {
        said += &format!(", {} at the {}", most.packets, most.stage.name());
    }
    match record.doubts.len() {
        0 => {}
        1 => said += ", 1 doubt",
        doubts => said += &format!(", {doubts} doubts"),
    }
    said
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_results::sample;

    use super::*;
    use crate::measure::events::IntervalUpdate;
    use crate::measure::live::Interval;

    #[test]
    fn a_campaign_in_two_lines() {
        let mut status = Status::default();
        assert!(status.lines().is_empty());
        status.hear(&CampaignEvent::TrialBegan {
            place: 2,
            planned: Some(8),
            words: "udp-stream rate=600M".to_owned(),
            index: 1,
            repeat: 0,
            configuration: 0,
            expected_s: Some(10.0),
            offered_bps: None,
            left: None,
        });
        let passed = Interval { until_s: 3.01, direction: Direction::Rx, bps: 4e8, is_sent: false };
        status.hear(&CampaignEvent::Passed(passed));
        assert_eq!(status.lines(), ["Trial 2 of 8: udp-stream rate=600M, 3 s, 400.0 Mbit/s"]);
        let record = Box::new(sample::udp(0, Direction::Rx, 600, 400.0));
        let (lost, stage) = record
            .loss_budget
            .iter()
            .flatten()
            .max_by_key(|line| line.packets)
            .map(|line| (line.packets, line.stage.name()))
            .unwrap_or_default();
        status.hear(&CampaignEvent::TrialEnded { place: 2, planned: Some(8), words: String::new(), record });
        status.hear(&CampaignEvent::Narrowed(IntervalUpdate {
            configuration: 0,
            metric: "throughput_mbit_s".to_owned(),
            repeats: 6,
            median: 4e8,
            interval: None,
        }));
        let lines = status.lines();
        assert!(lines[1].starts_with("Last: 400.0 Mbit/s, lost 33.3 %"), "{lines:?}");
        assert!(lost == 0 || lines[1].contains(&format!("{lost} at the {stage}")), "{lines:?}");
        assert!(lines[1].contains("median of 6: ") && lines[1].contains("no interval yet"), "{lines:?}");
        status.hear(&CampaignEvent::Ended { failed: Some(0), error: None, not_put_back: 0 });
        assert_eq!(status.lines().len(), 1);
    }
}
