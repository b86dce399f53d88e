//! A small picture of a sweep: offered load against what arrived and what was lost, for a terminal of one colour.
//! Knows only UDP streams whose load was varied; everything else has no picture.

use linerate_chart::{Axis, Cell, Chart, Marks, Panel, Series, Table, terminal};
use linerate_results::figure::Source;
use linerate_results::record::{FlowFigures, Record};
use linerate_stats::median;
use linerate_trial::spec::Workload;

use super::groups::in_groups;
use super::number::{count, figure};

/// At most this wide: of a few loads, bars that are wider say no more.
const WIDTH: u16 = 85;
/// The picture of a few loads is half as high.
const FEW: usize = 6;
/// What arrives of a load that is not said to lose.
const WHOLE: f64 = 0.99;

/// One offered load, Mbit/s of UDP payload; medians over its runs.
struct Step {
    offered: f64,
    received: f64,
    sent: f64,
    /// No more than this was lost.
    lost: f64,
}

/// One picture for each direction, and each level of other factors, that has at least three offered loads and lost
/// something; where nothing was lost, of the first alone. Empty when there is none.
///
/// ```text
///     each bar:  ·  offered and not sent
///                ░  sent and lost
///                █  received
/// ```
pub(crate) fn picture(records: &[Record], width: Option<u16>) -> String {
    let mut in_order: Vec<&Record> = records.iter().filter(|record| record.workload == Workload::UdpStream).collect();
    in_order.sort_by_key(|record| record.trial.configuration);
    // Of a trial both ways each direction has a picture.
    let runs = in_order.into_iter().flat_map(Source::each).filter_map(|source| {
        let offered = source.offered_bps().filter(|bps| bps.is_finite())?;
        Some((title(&source), (offered / 1e6, source.flow?)))
    });
    let sweeps = in_groups(runs, |(title, _)| title.clone()).into_iter();
    let sweeps = sweeps.map(|(title, runs)| (title, steps(runs.into_iter().map(|(_, run)| run).collect())));
    let sweeps = sweeps.filter(|(_, steps)| steps.len() >= 3);
    let (mut shown, others): (Vec<_>, Vec<_>) =
        sweeps.partition(|(_, steps)| steps.iter().any(|step| step.received < WHOLE * step.sent));
    if shown.is_empty() {
        shown.extend(others.into_iter().take(1));
    }
    let width = usize::from(width.unwrap_or(WIDTH).min(WIDTH));
    let drawn = |(title, steps): &(String, Vec<Step>)| terminal::drawn(&chart(title, steps), width, false);
    shown.iter().map(drawn).collect::<Vec<_>>().join("\n")
}

/// The picture that a source belongs to: alike in all but the load.
fn title(source: &Source<'_>) -> String {
    let factors = source.record.trial.factors.iter();
    let factors = factors.filter(|(name, _)| !["rate", "direction", "workload"].contains(&name.as_str()));
    let factors: String = factors.map(|(name, level)| format!(", {name}={level}")).collect();
    match source.direction {
        Some(way) => format!("{way} while the other direction ran{factors}"),
        None => format!("{}{factors}", source.record.direction),
    }
}

fn steps(mut runs: Vec<(f64, &FlowFigures)>) -> Vec<Step> {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    runs.chunk_by(|a, b| a.0 == b.0)
        .filter_map(|runs| {
            let of = |value: fn(&FlowFigures) -> Option<f64>| {
                median(&runs.iter().filter_map(|(_, flow)| value(flow)).collect::<Vec<_>>())
            };
            let received = of(|flow| flow.throughput_bps)? / 1e6;
            // Without the sender's account nothing is drawn as lost, nor as unsent.
            let sent = of(|flow| flow.achieved_load_bps).map_or(received, |bps| bps / 1e6);
            // What came late, out of a queue, was not lost.
            let lost = of(|flow| flow.loss_ratio).map_or(f64::INFINITY, |ratio| ratio * sent);
            Some(Step { offered: runs[0].0, received, sent, lost })
        })
        .collect()
}

/// Each load a bar, of the same width however far apart the loads are.
fn chart(title: &str, steps: &[Step]) -> Chart {
    let load = |mbit: f64| if mbit < 10.0 { figure(mbit, 2) } else { count(mbit.round() as u64) };
    let mut table = Table::new(["offered, Mbit/s", "sent, Mbit/s", "received, Mbit/s"]);
    for Step { offered, received, sent, .. } in steps {
        table = table.row([offered, sent, received].map(|mbit| Cell::number(figure(*mbit, 4), *mbit)));
    }
    let bars = |part: fn(&Step) -> f64| Marks::bar((0..).map(f64::from).zip(steps.iter().map(part)));
    // A sender's account may end before its receiver's.
    let lost = |step: &Step| (step.sent - step.received).max(0.0).min(step.lost);
    let not_sent = |step: &Step| (step.offered - step.sent.max(step.received)).max(0.0);
    // The title says what both axes are: a demo fits a page.
    let mut panel = Panel::new(Axis::linear("", ""))
        .series(Series::new("received", bars(|step| step.received), 0))
        .series(Series::new("sent and lost", bars(lost), 1))
        .series(Series::new("offered and not sent", bars(not_sent), 2));
    if steps.len() <= FEW {
        panel = panel.small();
    }
    let loads = Axis::categories("", steps.iter().map(|step| load(step.offered)));
    let title = format!("What arrived of each offered load, {title}, Mbit/s of UDP payload");
    // What it comes to, the summary below says.
    Chart::new(title, "", table).x(loads).panel(panel)
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;

    use super::*;
    use crate::render::sample;

    #[test]
    fn a_sweep() {
        insta::assert_snapshot!(picture(&sample::sweep(), None));
    }

    #[test]
    fn more_loads_than_columns() {
        let records: Vec<Record> = (1..=130)
            .map(|step| linerate_results::sample::udp(step, Direction::Rx, step * 5, f64::from(step * 5).min(300.0)))
            .collect();
        insta::assert_snapshot!(picture(&records, Some(80)));
    }

    #[test]
    fn a_picture_is_of_one_configuration() {
        let mut records = sample::sweep();
        records.retain(|record| record.direction == Direction::Rx);
        for (at, record) in records.iter_mut().enumerate() {
            record.trial.factors.insert("message_size".to_owned(), ["64", "1470"][at % 2].to_owned());
        }
        let text = picture(&records, Some(80));
        assert_eq!(text.matches("each offered load").count(), 2, "{text}");
        assert!(text.contains("load, rx, message_size=64, Mbit/s"), "{text}");
    }

    #[test]
    fn what_is_no_sweep_has_no_picture() {
        assert_eq!(picture(&sample::everything(), None), "");
        assert_eq!(picture(&[], None), "");
    }
}
