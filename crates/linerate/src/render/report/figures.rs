//! The pictures of a report, from records: what each shows, and the numbers beneath it.
//! Knows no form; `linerate_chart` draws.

use linerate_chart::{
    Axis, Cell, Chart, Estimate, Flow, Marks, Panel, Range, Reference, Series, Stage as Place, Table,
};
use linerate_machine::end::{Direction, End};
use linerate_path::budget::Leg;
use linerate_results::compare::verdict::Verdict;
use linerate_results::compare::{Comparison, Judged};
use linerate_results::figure::Metric;
use linerate_results::figure::Source;
use linerate_results::record::Record;
use linerate_stats::median;
use linerate_trial::spec::Workload;

use super::Material;
use super::groups::{Distinction, as_planned, by};
use crate::render::groups::in_groups;
use crate::render::number::{count, figure, first_of_most};

/// A picture has at most so many series of results, and so many bars.
pub(super) const SERIES: usize = 6;
const BARS: usize = 16;
/// Loss from here on is where a receiver no longer follows (RFC 2544 has 0; on a busy machine a datagram in a thousand).
const KNEE: f64 = 0.001;
const BOTH: [End; 2] = [End::Target, End::Host];

/// The identifiers of these, as a chart's cell has them.
pub(super) fn trace(runs: &[&Record]) -> String {
    runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>().join(" ")
}

pub(super) fn cell(value: Option<f64>, digits: i32, trace: &str) -> Cell {
    match value.filter(|value| value.is_finite()) {
        Some(value) => Cell::number(figure(value, digits), value).from_records(trace),
        None => Cell::from("-"),
    }
}

/// A count of things.
pub(super) fn whole(number: f64, trace: &str) -> Cell {
    let sign = if number < 0.0 { "-" } else { "" };
    Cell::number(format!("{sign}{}", count(number.abs() as u64)), number).from_records(trace)
}

fn middle(runs: &[&Record], of: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
    median(&runs.iter().filter_map(|run| of(run)).filter(|value| value.is_finite()).collect::<Vec<_>>())
}

fn mbit(of: fn(&linerate_results::record::FlowFigures) -> Option<f64>) -> impl Fn(&Record) -> Option<f64> {
    move |record| Some(of(&record.result.as_ref()?.flow)? / 1e6)
}

/// Offered load against what arrived, with the loss below: of each direction, and of each level of other factors.
pub(super) fn sweeps(records: &[Record]) -> Vec<Chart> {
    let offered =
        |record: &Record| Source::whole(record).offered_bps().filter(|bps| bps.is_finite()).map(|bps| bps / 1e6);
    let streams = records.iter().filter(|record| {
        record.workload == Workload::UdpStream && record.result.is_some() && offered(record).is_some()
    });
    let apart = Distinction::of(records);
    let groups = by(streams, |record| (record.direction, apart.levels(record, &["rate", "workload", "direction"])));
    let mut charts = Vec::new();
    for ((direction, others), runs) in groups {
        // Of numbers that are not negative, the bits are in their order.
        let mut steps = by(runs, |record| offered(record).unwrap_or(0.0).to_bits());
        steps.sort_by_key(|(load, _)| *load);
        let steps: Vec<(f64, Vec<&Record>)> =
            steps.into_iter().map(|(load, runs)| (f64::from_bits(load), runs)).collect();
        let runs: Vec<&Record> = steps.iter().flat_map(|(_, runs)| runs).copied().collect();
        if steps.len() < 3 {
            continue;
        }
        let received = mbit(|flow| flow.throughput_bps);
        let sent = mbit(|flow| flow.achieved_load_bps);
        let loss = |record: &Record| Some(record.result.as_ref()?.flow.loss_ratio? * 100.0);
        let mut table = Table::new(["offered, Mbit/s", "sent, Mbit/s", "received, Mbit/s", "lost, %", "runs"]);
        let line = |of: &dyn Fn(&Record) -> Option<f64>| {
            Marks::line(steps.iter().map(|(load, runs)| (*load, middle(runs, of))).collect::<Vec<_>>())
        };
        for (load, runs) in &steps {
            let from = trace(runs);
            let figure = |of: &dyn Fn(&Record) -> Option<f64>, digits| cell(middle(runs, of), digits, &from);
            table = table.row([
                cell(Some(*load), 4, &from),
                figure(&sent, 4),
                figure(&received, 4),
                figure(&loss, 3),
                whole(runs.len() as f64, &from),
            ]);
        }
        let most = first_of_most(steps.iter().filter_map(|(load, runs)| Some((*load, middle(runs, &received)?))));
        let follows = |runs: &Vec<&Record>| middle(runs, loss).is_some_and(|percent| percent <= 100.0 * KNEE);
        // The last load up to which each was followed; none where even the least was not, nor where all were.
        let knee = steps.iter().take_while(|(_, runs)| follows(runs)).map(|(load, _)| *load).last();
        let knee = knee.filter(|_| steps.iter().any(|(_, runs)| !follows(runs)));
        let of = if others.is_empty() { String::new() } else { format!(", {others}") };
        let mut sentence = match most {
            Some((load, most)) => {
                format!("The most that arrived was {} Mbit/s, at {} Mbit/s offered", figure(most, 4), figure(load, 4))
            }
            None => "Nothing arrived".to_owned(),
        };
        match knee {
            Some(knee) => sentence += &format!("; up to {} Mbit/s at most 0.1 % was lost.", figure(knee, 4)),
            None => sentence.push('.'),
        }
        let mut rates = Panel::new(Axis::linear("rate", "Mbit/s").of("UDP payload")).series(Series::new(
            "ideal: all that is offered",
            Marks::Ideal { slope: 1.0 },
            5,
        ));
        if steps.iter().any(|(_, runs)| runs.len() > 1) {
            let each = runs.iter().filter_map(|run| Some((offered(run)?, received(run)))).collect::<Vec<_>>();
            rates = rates.series(Series::new("received", Marks::points(each), 0).thin());
        }
        rates = rates.series(Series::new("sent", line(&sent), 1)).series(Series::new("received", line(&received), 0));
        if let Some(knee) = knee {
            rates = rates.reference(Reference::X(knee, "knee".to_owned()));
        }
        let losses = Panel::new(Axis::linear("lost", "%").of("what was sent"))
            .series(Series::new("lost", line(&loss), 2))
            .small();
        charts.push(
            Chart::new(format!("Offered load and what arrived, {direction}{of}"), sentence, table)
                .x(Axis::linear("offered load", "Mbit/s").of("UDP payload"))
                .panel(rates)
                .panel(losses),
        );
    }
    charts
}

/// How long transactions took, by percentile: a thick line for the runs of a configuration together, thin ones for each.
pub(super) fn latencies(material: &Material) -> Vec<Chart> {
    const PERCENTILES: [f64; 9] = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];
    let timed = material.records.iter().filter(|record| material.is_timed(record));
    let mut charts = Vec::new();
    for (what, runs) in by(as_planned(timed), |record| (record.workload, record.direction)) {
        let apart = Distinction::of(runs.iter().copied());
        let configurations = by(runs.iter().copied(), |record| apart.levels(record, &["workload", "direction"]));
        let told = configurations.len().min(SERIES);
        let mut head = vec!["percentile".to_owned()];
        let mut columns = Vec::new();
        let mut panel = Panel::new(Axis::log("latency", "µs"));
        for (at, (name, runs)) in configurations.iter().take(SERIES).enumerate() {
            let name = if name.is_empty() { "all runs".to_owned() } else { name.clone() };
            let points = |runs: &[&Record]| -> Vec<(f64, Option<f64>)> {
                let mut all = linerate_trial::histogram::Histogram::default();
                runs.iter().for_each(|run| material.add_times(run, &mut all));
                // A percentile is known only where ten lie beyond it.
                let is_known = |percentile: f64| all.count() as f64 * (1.0 - percentile / 100.0) >= 10.0;
                let at = |percentile| {
                    all.percentile_ns(percentile).filter(|_| is_known(percentile)).map(|ns| ns as f64 / 1e3)
                };
                PERCENTILES.iter().map(|percentile| (*percentile, at(*percentile))).collect()
            };
            let together = points(runs);
            panel = panel.series(Series::new(name.clone(), Marks::line(together.clone()), at));
            if runs.len() > 1 {
                for run in runs.iter().take(12) {
                    panel = panel.series(Series::new(name.clone(), Marks::line(points(&[*run])), at).thin());
                }
            }
            head.push(format!("{name}, µs"));
            columns.push((together, trace(runs)));
        }
        let mut table = Table::new(head);
        for (row, percentile) in PERCENTILES.iter().enumerate() {
            let name = std::iter::once(Cell::from(format!("{percentile}")));
            table = table.row(name.chain(columns.iter().map(|(points, trace)| cell(points[row].1, 3, trace))));
        }
        let half = columns.iter().filter_map(|(points, _)| points[1].1);
        let (low, high) = half.fold((f64::INFINITY, 0.0_f64), |(low, high), half| (low.min(half), high.max(half)));
        let more = configurations.len() - told;
        let left_out =
            if more > 0 { format!("; {more} configurations more are in the table above") } else { String::new() };
        let sentence = match low.is_finite() {
            true if low == high => format!("Half of them took at most {} µs{left_out}.", figure(low, 3)),
            true => format!("Half of them took at most {} to {} µs{left_out}.", figure(low, 3), figure(high, 3)),
            false => format!("Too few for a percentile{left_out}."),
        };
        let title = format!("How long it took, {} {}", what.0, what.1);
        charts.push(Chart::new(title, sentence, table).x(Axis::percentile("percentile")).panel(panel));
    }
    charts
}

/// Medians of parts, which add up to something else than the median of the wholes, as the parts of that.
fn adding_up(parts: Vec<Option<f64>>, whole: Option<f64>) -> Vec<Option<f64>> {
    let sum: f64 = parts.iter().flatten().sum();
    let Some(whole) = whole.filter(|whole| (sum - whole).abs() > 1e-9 * whole) else { return parts };
    parts.into_iter().map(|part| Some(part? * whole / sum).filter(|part| part.is_finite())).collect()
}

/// CPU time a packet or a transaction, by kind of work, both ends on one scale.
pub(super) fn cpu(records: &[Record]) -> Option<Chart> {
    const KINDS: [&str; 5] = ["user", "system", "irq", "softirq", "other"];
    let demand = |record: &Record, end: End| -> Option<f64> {
        let demand = record.result.as_ref()?.service_demand.as_ref()?;
        match end {
            End::Target => demand.target_us_per_packet,
            End::Host => demand.host_us_per_packet,
        }
    };
    // What the kinds are of all that was busy.
    let shares = |record: &Record, end: End| -> Option<[f64; 5]> {
        let cpu = &record.machine(end).cpu.as_ref()?.machine;
        let known = [cpu.user, cpu.system, cpu.irq, cpu.softirq];
        // What is left of a sum of fractions is no kind of work.
        let other = cpu.busy - known.iter().sum::<f64>();
        let other = if other < 1e-6 { 0.0 } else { other };
        let whole = known.iter().sum::<f64>() + other;
        let [user, system, irq, softirq] = known;
        (whole > 0.0).then(|| [user, system, irq, softirq, other].map(|part| part / whole))
    };
    let has = |record: &&Record| BOTH.iter().any(|end| demand(record, *end).is_some());
    let apart = Distinction::of(records.iter().filter(has));
    let groups = by(as_planned(records.iter().filter(has)), |record| apart.configuration(record, &[]));
    if groups.is_empty() || groups.len() > BARS {
        return None;
    }
    let mut table = Table::new([
        "configuration",
        "machine",
        "user, µs",
        "system, µs",
        "irq, µs",
        "softirq, µs",
        "other, µs",
        "in all, µs",
    ]);
    let mut chart_panels = Vec::new();
    let most = groups.iter().flat_map(|(_, runs)| BOTH.map(|end| middle(runs, |record| demand(record, end))));
    let most = most.flatten().fold(0.0, f64::max);
    let mut dearest: Option<(f64, String)> = None;
    for end in BOTH {
        let mut bars: [Vec<(f64, Option<f64>)>; 5] = Default::default();
        for (at, (name, runs)) in groups.iter().enumerate() {
            let from = trace(runs);
            let all = middle(runs, |record| demand(record, end));
            let part = |kind: usize| middle(runs, |record| Some(demand(record, end)? * shares(record, end)?[kind]));
            let parts = adding_up((0..KINDS.len()).map(part).collect(), all);
            bars.iter_mut().zip(&parts).for_each(|(bar, part)| bar.push((at as f64, *part)));
            let cells = parts.iter().map(|part| cell(*part, 3, &from)).collect::<Vec<_>>();
            let names = [Cell::from(name.clone()), Cell::from(end.name())];
            table = table.row(names.into_iter().chain(cells).chain([cell(all, 3, &from)]));
            if let Some(all) = all.filter(|all| dearest.as_ref().is_none_or(|(most, _)| all > most)) {
                dearest = Some((all, format!("{name} at the {end}")));
            }
        }
        let mut panel =
            Panel::new(Axis::linear(format!("CPU time at the {end}"), "µs").range(Range::AtLeast(0.0, most)));
        for (number, (kind, bar)) in KINDS.iter().zip(bars).enumerate() {
            if bar.iter().any(|(_, part)| part.is_some_and(|part| part > 0.0)) {
                panel = panel.series(Series::new(*kind, Marks::bar(bar), number));
            }
        }
        chart_panels.push(panel);
    }
    let (most, which) = dearest?;
    let sentence = format!("The highest cost is that of {which}, {} µs.", figure(most, 3));
    let names: Vec<String> = groups.into_iter().map(|(name, _)| name).collect();
    let mut chart = Chart::new("CPU time of a packet or a transaction, by kind of work", sentence, table)
        .x(Axis::categories("configuration", names));
    for panel in chart_panels {
        chart = chart.panel(panel);
    }
    Some(chart)
}

/// A trial in its time slices.
pub(super) fn slices(record: &Record) -> Option<Chart> {
    if record.intervals.len() < 3 {
        return None;
    }
    let from = trace(&[record]);
    let is_stream = record.workload.is_stream();
    let mut titles = vec![
        "from, s",
        "to, s",
        if is_stream { "received, Mbit/s" } else { "transactions/s" },
        "missing, datagrams",
        "target CPU, %",
        "host CPU, %",
    ];
    let has_middle = record.intervals.iter().any(|slice| slice.middle_cpu.is_some());
    titles.extend(has_middle.then_some("middle CPU, %"));
    let mut table = Table::new(titles);
    let (mut rate, mut missing, mut cpus) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for slice in &record.intervals {
        let of_rate = if is_stream { slice.throughput_bps.map(|bps| bps / 1e6) } else { slice.transactions_per_s };
        let lost = slice.packets_missing.map(|count| count as f64);
        let busy =
            [&slice.target_cpu, &slice.host_cpu, &slice.middle_cpu].map(|cpu| cpu.as_ref().map(|cpu| cpu.busy * 100.0));
        rate.push((slice.start_s, of_rate));
        missing.push((slice.start_s, lost));
        cpus.iter_mut().zip(busy).for_each(|(cpu, busy)| cpu.push((slice.start_s, busy)));
        let mut cells = vec![
            cell(Some(slice.start_s), 3, &from),
            cell(Some(slice.end_s), 3, &from),
            cell(of_rate, 4, &from),
            lost.map_or_else(|| cell(None, 0, &from), |lost| whole(lost, &from)),
            cell(busy[0], 3, &from),
            cell(busy[1], 3, &from),
        ];
        cells.extend(has_middle.then(|| cell(busy[2], 3, &from)));
        table = table.row(cells);
    }
    let (axis, name) = match is_stream {
        true => (Axis::linear("throughput", "Mbit/s").of("payload"), "received"),
        false => (Axis::linear("transactions", "1/s"), "answered"),
    };
    let last = record.intervals.last().map(|slice| slice.end_s);
    let held = |points: Vec<(f64, Option<f64>)>| {
        Marks::step(points.into_iter().chain(last.map(|end| (end, None))).collect::<Vec<_>>())
    };
    let mut rates = Panel::new(axis).series(Series::new(name, held(rate), 0));
    for event in record.events.iter().take(SERIES) {
        rates = rates.reference(Reference::X(event.at_s, event.what.name().to_owned()));
    }
    let sentence = match record.events.len() {
        0 => "Nothing happened meanwhile that was noticed.".to_owned(),
        1 => "One event is marked.".to_owned(),
        events => format!("{} events; the first {} are marked.", events, events.min(SERIES)),
    };
    let mut chart = Chart::new("The trial in time slices", sentence, table).x(Axis::linear("time", "s")).panel(rates);
    if missing.iter().any(|(_, lost)| lost.is_some_and(|lost| lost > 0.0)) {
        let panel =
            Panel::new(Axis::linear("missing", "datagrams")).series(Series::new("missing", held(missing), 2)).small();
        chart = chart.panel(panel);
    }
    if cpus.iter().flatten().any(|(_, busy)| busy.is_some()) {
        let [target, host, middle] = cpus;
        let mut panel = Panel::new(Axis::linear("CPU", "%").of("busy"))
            .series(Series::new("target", held(target), 1))
            .series(Series::new("host", held(host), 3));
        if has_middle {
            panel = panel.series(Series::new("middle", held(middle), 4));
        }
        chart = chart.panel(panel.small());
    }
    Some(chart)
}

/// The loss budget of each direction as a path.
pub(super) fn path(record: &Record) -> Vec<Chart> {
    let Some(budget) = &record.loss_budget else { return Vec::new() };
    let from = trace(&[record]);
    let mut charts = Vec::new();
    for losses in &record.losses {
        let lines: Vec<_> = budget.iter().filter(|line| line.direction == losses.direction).collect();
        if losses.lost() == 0 || losses.sent == 0 {
            continue;
        }
        let mut table = Table::new(["stage", "packets", "counters"]);
        let mut stages = Vec::new();
        for (leg, stage) in Leg::stages(record.middle.is_some()) {
            let title = leg.title(stage);
            let mut place = Place::new(&title);
            for line in lines.iter().filter(|line| line.place() == (leg, stage) && line.packets > 0) {
                let counters: Vec<String> = line.counters.iter().map(|one| one.name.clone()).collect();
                let counters = format!("{}: {}", line.end, counters.join(" + "));
                place = place.branch(format!("lost at the {title}"), line.packets as f64, counters.clone());
                table =
                    table.row([Cell::from(title.as_str()), whole(line.packets as f64, &from), Cell::from(counters)]);
            }
            stages.push(place);
        }
        table = table
            .row([Cell::from("unaccounted"), whole(losses.unaccounted as f64, &from), Cell::from("no counter")])
            .row([Cell::from("arrived"), whole(losses.arrived as f64, &from), Cell::default()])
            .row([Cell::from("sent"), whole(losses.sent as f64, &from), Cell::default()]);
        let sentence = format!(
            "Of {} {} {} were lost, {} of them unaccounted for.",
            count(losses.sent),
            losses.of.name(),
            count(losses.lost()),
            losses.unaccounted
        );
        let flow = Flow {
            unit: losses.of.name().to_owned(),
            entered: losses.sent as f64,
            stages,
            arrived: Some(losses.arrived as f64),
            unaccounted: Some(losses.unaccounted as f64),
        };
        let title = match losses.direction {
            Direction::Tx => "Where they were lost, from the target to the host",
            _ => "Where they were lost, from the host to the target",
        };
        let panel = Panel::new(Axis::default()).series(Series::new("path", Marks::Flow(flow), 0));
        charts.push(Chart::new(title, sentence, table).panel(panel));
    }
    charts
}

/// Every run of both sides beside the medians, for what was judged.
pub(super) fn sides(material: &Material, sides: [&[Record]; 2], comparison: &Comparison) -> Vec<Chart> {
    let mut charts = Vec::new();
    let apart = Distinction::of(sides.into_iter().flatten());
    let configuration = |record: &Record| configuration(record, &apart, comparison);
    let configurations = sides.map(|side| by(side, configuration));
    let both = sides.iter().flat_map(|side| as_planned(side.iter()));
    let names: Vec<String> = by(both, configuration).into_iter().map(|(name, _)| name).take(BARS).collect();
    let mut judged: Vec<_> = comparison.judged.iter().collect();
    // What is found first, then the usual ones.
    judged.sort_by_key(|one| !one.verdict.is_found());
    let mut metrics: Vec<&str> = Vec::new();
    for one in judged {
        if metrics.contains(&one.metric.name.as_str()) || metrics.len() == 4 {
            continue;
        }
        metrics.push(&one.metric.name);
        let metric = one.metric;
        let scale = metric.unit.scale();
        let value = |record: &Record| material.observed(record).value(metric).map(|value| value * scale);
        let mut table = Table::new([
            "configuration".to_owned(),
            "side".to_owned(),
            format!("median, {}", metric.unit.name()),
            "smallest".to_owned(),
            "largest".to_owned(),
            "runs".to_owned(),
        ]);
        let mut panel = Panel::new(Axis::linear(metric.title.clone(), metric.unit.name()).without_zero());
        for (at, (side, name)) in configurations.iter().zip(["baseline", "candidate"]).enumerate() {
            let (mut each, mut middles) = (Vec::new(), Vec::new());
            for (place, level) in names.iter().enumerate() {
                let Some((_, runs)) = side.iter().find(|(name, _)| name == level) else { continue };
                let mut values: Vec<f64> = runs.iter().filter_map(|run| value(run)).collect();
                values.sort_by(f64::total_cmp);
                let (Some(low), Some(high)) = (values.first(), values.last()) else { continue };
                let x = place as f64 + [-0.15, 0.15][at];
                let from = trace(runs);
                let middle = median(&values);
                middles.push(Estimate { x, low: *low, middle, high: *high });
                each.extend(values.iter().map(|value| (x, *value)));
                let words = [Cell::from(level.clone()), Cell::from(name), cell(middle, 4, &from)];
                let ends =
                    [cell(Some(*low), 4, &from), cell(Some(*high), 4, &from), Cell::from(values.len().to_string())];
                table = table.row(words.into_iter().chain(ends));
            }
            panel = panel.series(Series::new(name, Marks::points(each), at).thin()).series(Series::new(
                name,
                Marks::Interval(middles),
                at,
            ));
        }
        if table.rows.is_empty() {
            continue;
        }
        let sentence = verdicts(comparison, metric);
        charts.push(
            Chart::new(format!("{}, both sides", metric.title), sentence, table)
                .x(Axis::categories("configuration", names.clone()))
                .panel(panel),
        );
    }
    charts
}

/// What was judged of a figure: of each configuration where there are few, else how many.
fn verdicts(comparison: &Comparison, metric: &Metric) -> String {
    let judged: Vec<&Judged> = comparison.judged.iter().filter(|one| one.metric.name == metric.name).collect();
    let words = |one: &Judged| match one.verdict {
        Verdict::CannotTell { .. } => "cannot tell".to_owned(),
        _ => one.verdict.words(metric),
    };
    if let [one] = judged[..] {
        return format!("The verdict: {}.", one.verdict.words(metric));
    }
    let all = judged.len();
    let told: Vec<String> = in_groups(judged, |one| words(one))
        .into_iter()
        .map(|(words, alike)| match alike.len() {
            many if many == all => format!("{words} for each configuration"),
            1..=3 => {
                let configurations: Vec<&str> = alike.iter().map(|one| one.configuration.as_str()).collect();
                format!("{words} for {}", configurations.join("; "))
            }
            many => format!("{words} for {many} configurations"),
        })
        .collect();
    format!("The verdict: {}.", told.join(", and "))
}

/// A configuration without what the sides differ in on purpose.
fn configuration(record: &Record, apart: &Distinction, comparison: &Comparison) -> String {
    let on_purpose: Vec<&str> =
        comparison.differs.iter().filter(|one| one.on_purpose).map(|one| one.name.as_str()).collect();
    apart.configuration(record, &on_purpose)
}

#[cfg(test)]
mod tests {
    use super::adding_up;

    #[test]
    fn parts_add_up_to_the_median_of_the_wholes() {
        // Of three runs, 10 + 2, 11 + 9 and 20 + 1: the medians are 11 and 2, and of the wholes 20.
        let parts = adding_up(vec![Some(11.0), Some(2.0), None], Some(20.0));
        assert!((parts.iter().flatten().sum::<f64>() - 20.0).abs() < 1e-12, "{parts:?}");
        assert_eq!(adding_up(vec![Some(1.0), Some(2.0)], Some(3.0)), [Some(1.0), Some(2.0)]);
        assert_eq!(adding_up(vec![Some(0.0), None], Some(3.0)), [None, None]);
        assert_eq!(adding_up(vec![None], None), [None]);
    }
}
