//! A small picture of a sweep: offered load against what arrived and what was lost, for a terminal of one colour.
//! Knows only UDP streams whose load was varied; everything else has no picture.

use linerate_results::record::{FlowFigures, Record};
use linerate_trial::spec::Direction;

use super::number::{count, figure, median};
use super::sheet::offered_load_bps;

/// Columns and rows of the field.
const WIDTH: usize = 60;
const HEIGHT: usize = 12;

/// One offered load, Mbit/s of UDP payload; medians over its runs.
struct Step {
    offered: f64,
    received: f64,
    sent: f64,
}

/// One picture for each direction that has at least three offered loads; empty when there is none.
///
/// ```text
///     each bar:  ·  offered and never sent
///                ░  sent and lost
///                █  received
/// ```
pub(crate) fn picture(records: &[Record]) -> String {
    let one_way = [Direction::Tx, Direction::Rx].map(|direction| (direction, false));
    let at_once = [Direction::Tx, Direction::Rx].map(|direction| (direction, true));
    let pictures: Vec<String> = one_way
        .into_iter()
        .chain(at_once)
        .filter_map(|(direction, both)| {
            let steps = steps(records, direction, both);
            let way = if both { format!("{direction}, while the other direction ran") } else { direction.to_string() };
            (steps.len() >= 3).then(|| drawn(&steps, &way))
        })
        .collect();
    pictures.join("\n")
}

fn steps(records: &[Record], direction: Direction, both: bool) -> Vec<Step> {
    let mut runs: Vec<(f64, &FlowFigures)> = Vec::new();
    for record in records.iter().filter(|record| record.workload.is_stream() && record.workload.is_udp()) {
        let Some(figures) = &record.result else { continue };
        let (flow, part) = match (&figures.directions, record.direction) {
            (Some(directions), Direction::Both) if both => {
                (if direction == Direction::Tx { &directions.tx } else { &directions.rx }, Some(direction))
            }
            (_, one_way) if !both && one_way == direction => (&figures.flow, None),
            _ => continue,
        };
        if let Some(offered) = offered_load_bps(record, part).filter(|bps| bps.is_finite()) {
            runs.push((offered / 1e6, flow));
        }
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let same_load = runs.chunk_by(|a, b| a.0 == b.0);
    same_load
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

fn drawn(steps: &[Step], way: &str) -> String {
    // More loads than columns: every second, third, … of them, the last one always.
    let every = steps.len().div_ceil(WIDTH);
    let shown: Vec<&Step> = steps.iter().rev().step_by(every).collect::<Vec<_>>().into_iter().rev().collect();
    let bar = WIDTH / shown.len();
    let top = shown.iter().flat_map(|step| [step.offered, step.received, step.sent]).fold(0.0, f64::max);
    let row_mbit = top / HEIGHT as f64;
    let mut text = format!("{way}: Mbit/s of UDP payload, by offered load\n");
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
    fn what_is_no_sweep_has_no_picture() {
        assert_eq!(picture(&sample::everything()), "");
        assert_eq!(picture(&[]), "");
    }
}
