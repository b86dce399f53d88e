//! A small picture of a sweep: offered load against what arrived and what was lost, for a terminal of one colour.
//! Knows only UDP streams whose load was varied; everything else has no picture.

use std::collections::BTreeMap;

use linerate_results::figure::Source;
use linerate_results::record::{FlowFigures, Record};
use linerate_results::stats::median;
use linerate_trial::spec::{Direction, Workload};

use super::number::{count, figure};
use super::sentence;

/// Columns and rows of the field.
const WIDTH: usize = 60;
const HEIGHT: usize = 12;

/// One offered load, Mbit/s of UDP payload; medians over its runs.
struct Step {
    offered: f64,
    received: f64,
    sent: f64,
}

/// One picture for each direction, and each level of other factors, that has at least three offered loads; empty
/// when there is none.
///
/// ```text
///     each bar:  ·  offered and never sent
///                ░  sent and lost
///                █  received
/// ```
pub(crate) fn picture(records: &[Record]) -> String {
    type Sweep = (Direction, Option<Direction>, String);
    let mut sweeps: BTreeMap<Sweep, Vec<(f64, &FlowFigures)>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.workload == Workload::UdpStream) {
        // Of a trial both ways each direction has a picture.
        let is_part = |source: &Source| source.direction.is_some() || record.direction != Direction::Both;
        for source in Source::all(record).into_iter().filter(is_part) {
            let offered = source.offered_bps().filter(|bps| bps.is_finite());
            if let Some((offered, flow)) = offered.zip(source.flow) {
                let sweep = (record.direction, source.direction, title(&source));
                sweeps.entry(sweep).or_default().push((offered / 1e6, flow));
            }
        }
    }
    let pictures = sweeps.into_iter().map(|((.., title), runs)| (title, steps(runs)));
    let pictures: Vec<String> =
        pictures.filter(|(_, steps)| steps.len() >= 3).map(|(title, steps)| drawn(&steps, &title)).collect();
    pictures.join("\n")
}

/// The picture that a source belongs to: alike in all but the load.
fn title(source: &Source<'_>) -> String {
    let factors = source.record.trial.factors.iter();
    let factors = factors.filter(|(name, _)| !["rate", "direction", "workload"].contains(&name.as_str()));
    let factors: String = factors.map(|(name, level)| format!(", {name} {level}")).collect();
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
            Some(Step { offered: runs[0].0, received, sent })
        })
        .collect()
}

fn drawn(steps: &[Step], title: &str) -> String {
    // More loads than columns: every second, third, … of them, the last one always.
    let every = steps.len().div_ceil(WIDTH);
    let shown: Vec<&Step> = steps.iter().rev().step_by(every).collect::<Vec<_>>().into_iter().rev().collect();
    let bar = WIDTH / shown.len();
    let top = shown.iter().flat_map(|step| [step.offered, step.received, step.sent]).fold(0.0, f64::max);
    let row_mbit = top / HEIGHT as f64;
    let mut text = format!("{}: Mbit/s of UDP payload, by offered load\n", sentence(title));
    for row in (0..HEIGHT).rev() {
        // Received is right to a quarter of a row, for there is a half block; the rest to half a row.
        let bottom = row as f64 * row_mbit;
        let filled = |mbit: f64| (mbit - bottom) / row_mbit;
        let mark = match row {
            row if row + 1 == HEIGHT => figure(top, 3),
            row if row + 1 == HEIGHT / 2 => figure(top / 2.0, 3),
            _ => String::new(),
        };
        let bars: String = shown
            .iter()
            .map(|step| {
                let glyph = match (filled(step.received), filled(step.sent), filled(step.offered)) {
                    (received, ..) if received >= 0.75 => '█',
                    (received, ..) if received >= 0.25 => '▄',
                    (_, sent, _) if sent >= 0.5 => '░',
                    (.., offered) if offered >= 0.5 => '·',
                    _ => ' ',
                };
                glyph.to_string().repeat(bar)
            })
            .collect();
        text += &format!("{mark:>7} ┤{}\n", bars.trim_end());
    }
    text += &format!("{:>7} └{}\n", "0", "─".repeat(bar * shown.len()));
    text += &format!("{:9}{}\n", "", labels(&shown, bar));
    text += "        █ received   ░ sent and lost   · offered and not sent";
    if every > 1 {
        text += &format!("   (one load in {every} shown)");
    }
    text.push('\n');
    text
}

/// The loads beneath their bars, as many as there is room for, and the unit.
fn labels(shown: &[&Step], bar: usize) -> String {
    let mut text = String::new();
    let mut end = 0;
    for (at, step) in shown.iter().enumerate() {
        let label = if step.offered < 10.0 { figure(step.offered, 2) } else { count(step.offered.round() as u64) };
        let start = (at * bar + bar / 2).saturating_sub(label.len() / 2);
        if start >= end {
            text += &" ".repeat(start - text.chars().count());
            text += &label;
            end = text.chars().count() + 3;
        }
    }
    text + "  Mbit/s offered"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_sweep() {
        insta::assert_snapshot!(picture(&sample::sweep()));
    }

    #[test]
    fn more_loads_than_columns() {
        let records: Vec<Record> = (1..=130)
            .map(|step| linerate_results::sample::udp(step, Direction::Rx, step * 5, f64::from(step * 5).min(300.0)))
            .collect();
        insta::assert_snapshot!(picture(&records));
    }

    #[test]
    fn a_picture_is_of_one_configuration() {
        let mut records = sample::sweep();
        records.retain(|record| record.direction == Direction::Rx);
        for (at, record) in records.iter_mut().enumerate() {
            record.trial.factors.insert("message_size".to_owned(), ["64", "1470"][at % 2].to_owned());
        }
        let text = picture(&records);
        assert_eq!(text.matches("by offered load").count(), 2, "{text}");
        assert!(text.contains("rx, message_size 64:"), "{text}");
    }

    #[test]
    fn what_is_no_sweep_has_no_picture() {
        assert_eq!(picture(&sample::everything()), "");
        assert_eq!(picture(&[]), "");
    }
}
