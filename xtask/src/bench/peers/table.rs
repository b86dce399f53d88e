//! What the rounds of a work say, as Markdown: medians, ratios with their intervals, and whether a target is met.
//! Knows no tool and runs nothing.

use super::run::Run;
use super::work::{Better, Limit, Metric, Target, Work};
use crate::bench::statistics::{Estimate, median, range};

/// Of each contender, what each round gave, or why it gave nothing.
pub(super) type Rounds = Vec<Vec<Result<Run, String>>>;

/// The tables of a work, and what failed.
pub(super) fn tables(work: &Work, rounds: &Rounds) -> String {
    let mut text = format!("{}\n", work.about);
    for metric in &work.metrics {
        text += &table(work, metric, rounds);
    }
    let mut failures = String::new();
    for (contender, runs) in work.contenders.iter().zip(rounds) {
        let failed: Vec<&String> = runs.iter().filter_map(|run| run.as_ref().err()).collect();
        if let Some(last) = failed.last() {
            failures += &format!("- {} failed in {} of {} rounds: {last}\n", contender.name, failed.len(), runs.len());
        }
    }
    if !failures.is_empty() {
        text += &format!("\n{failures}");
    }
    if !work.targets.is_empty() {
        text += &format!("\n{}", verdicts(work, rounds));
    }
    text
}

fn table(work: &Work, metric: &Metric, rounds: &Rounds) -> String {
    let ours: Vec<usize> = (0..work.contenders.len()).filter(|&place| work.contenders[place].is_linerate()).collect();
    let alone = ours.len() == work.contenders.len();
    let mut head = format!("\n| {} | median | least and most |", metric.name);
    let mut line = "|---|--:|--:|".to_owned();
    if !alone {
        for &our in &ours {
            head += &format!(" ratio of {} |", work.contenders[our].name);
            line += "--:|";
        }
    }
    let mut rows: Vec<(f64, String)> = Vec::new();
    for (place, contender) in work.contenders.iter().enumerate() {
        let all: Vec<f64> = values(work, metric, rounds, place).into_iter().flatten().collect();
        if all.is_empty() {
            // A tool that failed is named; one that tells no such figure has no row.
            if rounds[place].iter().all(Result::is_err) {
                let empty = if alone { 0 } else { ours.len() };
                rows.push((
                    f64::INFINITY,
                    format!("| {} | failed | |{} |\n", contender.name, " |".repeat(empty)).replace("| |\n", "|\n"),
                ));
            }
            continue;
        }
        let (least, most) = range(&all);
        let digits = metric.digits;
        let middle = median(&all);
        let mut row = format!("| {} | {middle:.digits$} | {least:.digits$} – {most:.digits$} |", contender.name);
        if !alone {
            for &our in &ours {
                row += &match Estimate::of(&ratios(work, metric, rounds, our, &[place])) {
                    Some(ratio) if our != place && !contender.is_linerate() => format!(" {} |", show(ratio)),
                    _ => " |".to_owned(),
                };
            }
        }
        rows.push((if metric.better == Better::More { -middle } else { middle }, row + "\n"));
    }
    if rows.is_empty() {
        return String::new();
    }
    if alone {
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    format!("{head}\n{line}\n{}", rows.into_iter().map(|(_, row)| row).collect::<String>())
}

fn show(ratio: Estimate) -> String {
    format!("{} ({} – {})", short(ratio.median), short(ratio.low), short(ratio.high))
}

/// Three digits that count, no exponent.
fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-3).log10().floor() as i32).clamp(0, 5) as usize;
    format!("{value:.digits$}")
}

/// A figure of each round.
fn values(work: &Work, metric: &Metric, rounds: &Rounds, place: usize) -> Vec<Option<f64>> {
    let contender = &work.contenders[place];
    let value = |run: &Result<Run, String>| run.as_ref().ok().and_then(|run| (metric.of)(run, contender));
    rounds[place].iter().map(|run| value(run).filter(|value| value.is_finite())).collect()
}

/// Ours to the best of the others in the same round, of the rounds in which both gave a figure.
fn ratios(work: &Work, metric: &Metric, rounds: &Rounds, our: usize, others: &[usize]) -> Vec<f64> {
    let others: Vec<Vec<Option<f64>>> = others.iter().map(|&place| values(work, metric, rounds, place)).collect();
    let ours = values(work, metric, rounds, our);
    let ratio = |(round, our): (usize, Option<f64>)| {
        let figures = others.iter().filter_map(|figures| figures.get(round).copied().flatten());
        let best = if metric.better == Better::More { figures.reduce(f64::max) } else { figures.reduce(f64::min) };
        Some(our? / best?).filter(|ratio| ratio.is_finite())
    };
    ours.into_iter().enumerate().filter_map(ratio).collect()
}

/// The targets of a work, each with what was measured and whether it is met.
pub(super) fn verdicts(work: &Work, rounds: &Rounds) -> String {
    let mut text = "| target | of | measured | |\n|---|---|--:|---|\n".to_owned();
    for target in &work.targets {
        text += &format!("| {} | {} |", target.text, work.contenders[target.contender].name);
        text += &match measured(work, target, rounds) {
            Some((estimate, verdict)) => format!(" {} | {verdict} |\n", show(estimate)),
            None => " | not measured |\n".to_owned(),
        };
    }
    text
}

fn measured(work: &Work, target: &Target, rounds: &Rounds) -> Option<(Estimate, &'static str)> {
    let metric = &work.metrics[target.metric];
    let peers = |names: &[&str]| -> Vec<usize> {
        let wanted = |name: &str| names.is_empty() || names.contains(&name);
        let peer = |place: &usize| !work.contenders[*place].is_linerate() && wanted(&work.contenders[*place].name);
        (0..work.contenders.len()).filter(peer).collect()
    };
    let figures = || -> Vec<f64> { values(work, metric, rounds, target.contender).into_iter().flatten().collect() };
    let ratio = |names: &[&str]| Estimate::of(&ratios(work, metric, rounds, target.contender, &peers(names)));
    Some(match target.limit {
        Limit::TimesBest(times) | Limit::TimesBestOf(times, _) => {
            let names = if let Limit::TimesBestOf(_, names) = target.limit { names } else { &[] };
            let Estimate { median, low, high } = ratio(names)?;
            // Turned around, more is less.
            (Estimate { median, low, high }, verdict(-median, -high, -low, -times))
        }
        Limit::AtMostTimes(times, names) => {
            let ratio = ratio(names)?;
            (ratio, verdict(ratio.median, ratio.low, ratio.high, times))
        }
        Limit::AtMost(most) => {
            let figure = Estimate::of(&figures())?;
            (figure, verdict(figure.median, figure.low, figure.high, most))
        }
        Limit::Always(most) => {
            let figures = figures();
            let (_, worst) = range(&figures);
            (Estimate::of(&figures)?, if worst <= most { "met" } else { "not met" })
        }
    })
}

/// Whether a figure is at most this, and how surely.
fn verdict(median: f64, low: f64, high: f64, most: f64) -> &'static str {
    match (high <= most, median <= most, low <= most) {
        (true, ..) => "met",
        (_, true, _) => "met by the median, the interval reaches beyond",
        (.., true) => "not met by the median, the interval reaches it",
        _ => "not met",
    }
}

#[cfg(test)]
mod tests {
    use super::super::iperf::IPERF;
    use super::super::iperf3::IPERF3;
    use super::super::run::Look;
    use super::super::tool::{Account, Load};
    use super::super::work::{Contender, GIGABITS};
    use super::*;

    fn run(gigabits: f64) -> Result<Run, String> {
        let account = Account { octets: gigabits * 1e9 / 8.0, seconds: 1.0, ..Account::default() };
        let (busy_s, sender_cpu, recorded_cpu_s) = (None, None, None);
        Ok(Run { account, busy_s, sender_cpu, recorded_cpu_s, sampler: None, evenness: None })
    }

    fn work(limit: Limit) -> Work {
        Work {
            name: "x",
            title: String::new(),
            about: "About.".to_owned(),
            contenders: vec![
                Contender::linerate(Load::Tcp),
                Contender::peer(&IPERF3, Load::Tcp),
                Contender::peer(&IPERF, Load::Tcp),
            ],
            metrics: vec![GIGABITS],
            targets: vec![Target { text: "t", contender: 0, metric: 0, limit }],
            look: Look::default(),
            on_demand: false,
        }
    }

    #[test]
    fn a_ratio_is_to_the_best_of_the_same_round() {
        let rounds = vec![vec![run(30.0), run(20.0)], vec![run(10.0), run(20.0)], vec![run(20.0), run(10.0)]];
        let work = work(Limit::TimesBest(1.2));
        assert_eq!(ratios(&work, &work.metrics[0], &rounds, 0, &[1, 2]), [1.5, 1.0]);
        assert_eq!(ratios(&work, &work.metrics[0], &rounds, 0, &[1]), [3.0, 1.0]);
        let text = tables(&work, &rounds);
        assert!(text.contains("| iperf3 | 15.00 | 10.00 – 20.00 | 2.00 (1.00 – 3.00) |\n"), "{text}");
        assert!(
            text.contains("| t | linerate | 1.25 (1.00 – 1.50) | met by the median, the interval reaches beyond |")
        );
    }

    #[test]
    fn a_tool_that_failed_is_told_and_nothing_is_invented_for_it() {
        let failed = || Err("it crashed".to_owned());
        let rounds = vec![vec![run(30.0), run(20.0)], vec![run(10.0), failed()], vec![failed(), failed()]];
        let work = work(Limit::TimesBest(1.2));
        let text = tables(&work, &rounds);
        assert!(text.contains("| iperf | failed | | |\n"), "{text}");
        assert!(
            text.contains("- iperf3 failed in 1 of 2 rounds: it crashed\n- iperf failed in 2 of 2 rounds"),
            "{text}"
        );
        assert_eq!(ratios(&work, &work.metrics[0], &rounds, 0, &[1, 2]), [3.0], "only where there is one to compare");
        let none = vec![vec![run(1.0)], vec![failed()], vec![failed()]];
        assert!(tables(&work, &none).contains("| t | linerate | | not measured |"));
    }

    #[test]
    fn verdicts_say_how_sure_they_are() {
        assert_eq!(verdict(1.0, 0.9, 1.1, 1.2), "met");
        assert_eq!(verdict(1.3, 1.25, 1.4, 1.2), "not met");
        assert!(verdict(1.1, 1.0, 1.3, 1.2).starts_with("met by"));
        assert!(verdict(1.3, 1.1, 1.4, 1.2).starts_with("not met by"));
        // One bad round of three is enough.
        let rounds = vec![vec![run(0.0), run(0.0), run(1.0)], vec![run(1.0)], vec![run(1.0)]];
        assert!(tables(&work(Limit::Always(0.0)), &rounds).contains("| not met |"));
        assert!(tables(&work(Limit::Always(1.0)), &rounds).contains("| met |"));
    }

    #[test]
    fn three_digits_that_count() {
        assert_eq!([0.0123456, 0.5, 1.5, 23.456, 1234.5].map(short), ["0.0123", "0.500", "1.50", "23.5", "1234"]);
    }
}
