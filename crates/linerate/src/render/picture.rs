//! A small picture of a sweep: offered load against what arrived and what was lost, for a terminal of one colour.
//! Knows only UDP streams whose load was varied; everything else has no picture.

use linerate_machine::end::Direction;
use linerate_results::figure::Source;
use linerate_results::record::{FlowFigures, Record};
use linerate_results::stats::median;
use linerate_trial::spec::Workload;

use super::number::{count, figure};
use super::sentence;

/// The most columns of the field, what stands beside it, and its rows: half of them for a few loads.
const WIDTH: usize = 60;
const BESIDE: usize = 25;
const HEIGHT: usize = 12;
const FEW: usize = 6;

/// One offered load, Mbit/s of UDP payload; medians over its runs.
struct Step {
    offered: f64,
    received: f64,
    sent: f64,
}

/// One picture for each direction, and each level of other factors, that has at least three offered loads and lost
/// something; where nothing was lost, of the first alone. Empty when there is none.
///
/// ```text
///     each bar:  ·  offered and never sent
///                ░  sent and lost
///                █  received
/// ```
pub(crate) fn picture(records: &[Record], width: Option<u16>) -> String {
    let mut sweeps: Vec<(String, Vec<(f64, &FlowFigures)>)> = Vec::new();
    let mut in_order: Vec<&Record> = records.iter().filter(|record| record.workload == Workload::UdpStream).collect();
    in_order.sort_by_key(|record| record.trial.configuration);
    for record in in_order {
        // Of a trial both ways each direction has a picture.
        let is_part = |source: &Source| source.direction.is_some() || record.direction != Direction::Both;
        for source in Source::all(record).into_iter().filter(is_part) {
            let offered = source.offered_bps().filter(|bps| bps.is_finite());
            if let Some((offered, flow)) = offered.zip(source.flow) {
                let title = title(&source);
                match sweeps.iter_mut().find(|(other, _)| *other == title) {
                    Some((_, runs)) => runs.push((offered / 1e6, flow)),
                    None => sweeps.push((title, vec![(offered / 1e6, flow)])),
                }
            }
        }
    }
    let columns = width.map_or(WIDTH, |width| usize::from(width).saturating_sub(BESIDE).clamp(10, WIDTH));
    let sweeps = sweeps.into_iter().map(|(title, runs)| (title, steps(runs))).filter(|(_, steps)| steps.len() >= 3);
    let (mut shown, others): (Vec<_>, Vec<_>) =
        sweeps.partition(|(_, steps)| steps.iter().any(|step| step.received < 0.99 * step.sent));
    if shown.is_empty() {
        shown.extend(others.into_iter().take(1));
    }
    shown.iter().map(|(title, steps)| drawn(steps, title, columns)).collect::<Vec<_>>().join("\n")
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
            Some(Step { offered: runs[0].0, received, sent })
        })
        .collect()
}

fn drawn(steps: &[Step], title: &str, columns: usize) -> String {
    // More loads than columns: every second, third, … of them, the last one always.
    let every = steps.len().div_ceil(columns);
    let shown: Vec<&Step> = steps.iter().rev().step_by(every).collect::<Vec<_>>().into_iter().rev().collect();
    let bar = columns / shown.len();
    let height = if shown.len() <= FEW { HEIGHT / 2 } else { HEIGHT };
    let top = shown.iter().flat_map(|step| [step.offered, step.received, step.sent]).fold(0.0, f64::max);
    let row_mbit = top / height as f64;
    let mut text =
        format!("{}, Mbit/s of UDP payload: █ received, ░ sent and lost, · offered and not sent\n", sentence(title));
    for row in (0..height).rev() {
        // Received is right to a quarter of a row, for there is a half block; the rest to half a row.
        let bottom = row as f64 * row_mbit;
        let filled = |mbit: f64| (mbit - bottom) / row_mbit;
        let mark = match row {
            row if row + 1 == height => figure(top, 3),
            row if row + 1 == height / 2 => figure(top / 2.0, 3),
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
    let some = if every > 1 { format!(" (1 in {every})") } else { String::new() };
    text + &format!("{:>7} └{} Mbit/s offered{some}\n", "0", axis(&shown, bar))
}

/// The axis, with the loads beneath their bars, as many as there is room for.
fn axis(shown: &[&Step], bar: usize) -> String {
    let mut text = String::new();
    let mut end = 1;
    for (at, step) in shown.iter().enumerate() {
        let label = if step.offered < 10.0 { figure(step.offered, 2) } else { count(step.offered.round() as u64) };
        let start = (at * bar + bar / 2).saturating_sub(label.len() / 2);
        if start >= end && start + label.len() <= bar * shown.len() {
            text += &"─".repeat(start - text.chars().count());
            text += &label;
            end = text.chars().count() + 3;
        }
    }
    text += &"─".repeat((bar * shown.len()).saturating_sub(text.chars().count()));
    text
}

#[cfg(test)]
mod tests {
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
        assert_eq!(text.matches("Mbit/s offered").count(), 2, "{text}");
        assert!(text.contains("rx, message_size=64, Mbit/s"), "{text}");
    }

    #[test]
    fn what_is_no_sweep_has_no_picture() {
        assert_eq!(picture(&sample::everything(), None), "");
        assert_eq!(picture(&[], None), "");
    }
}
