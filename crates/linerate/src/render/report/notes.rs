//! The author's words: paragraphs for the sections of a report, with references in the places of figures.
//! `{{tx throughput median rate=400M}}` is the figure of those records that fit; nothing is typed by hand.

use linerate_machine::end::Direction;
use linerate_machine::text::nearest;
use linerate_results::figure::{METRICS, Metric};
use linerate_results::observation::Observation;
use linerate_stats::median;
use linerate_trial::spec::Workload;

use crate::render::number::{count, figure};

/// Paragraphs under a heading; those before the first heading have none.
#[derive(Debug, PartialEq)]
pub(super) struct Remarks {
    pub(super) section: Option<String>,
    pub(super) paragraphs: Vec<String>,
}

/// What notes say, with every reference resolved; else where it cannot be, and why: line, column and sentence.
pub(super) fn read(text: &str, records: &[Observation]) -> Result<Vec<Remarks>, (usize, usize, String)> {
    let mut remarks = vec![Remarks { section: None, paragraphs: Vec::new() }];
    let mut is_open = false;
    for (line, number) in text.lines().zip(1..) {
        let resolved = resolved(line, records).map_err(|(column, why)| (number, column, why))?;
        let line = resolved.trim();
        if let Some(title) = line.strip_prefix('#') {
            let title = title.trim_start_matches('#').trim().to_owned();
            remarks.push(Remarks { section: Some(title), paragraphs: Vec::new() });
            is_open = false;
            continue;
        }
        let paragraphs = &mut remarks.last_mut().expect("one is there").paragraphs;
        let item = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
        match (line.is_empty(), item, paragraphs.last_mut()) {
            (true, ..) => {}
            (_, None, Some(last)) if is_open => *last = format!("{last} {line}"),
            (_, item, _) => paragraphs.push(item.unwrap_or(line).to_owned()),
        }
        is_open = !line.is_empty();
    }
    remarks.retain(|one| one.section.is_some() || !one.paragraphs.is_empty());
    Ok(remarks)
}

/// A line with figures in the places of references; else the column, from 1, and why.
fn resolved(line: &str, records: &[Observation]) -> Result<String, (usize, String)> {
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("{{") {
        let column = line[..line.len() - rest.len() + at].chars().count() + 1;
        let behind = &rest[at + 2..];
        let Some(end) = behind.find("}}") else { return Err((column, "a reference ends with }}".to_owned())) };
        text += &rest[..at];
        text += &value(&behind[..end], records).map_err(|why| (column, why))?;
        rest = &behind[end + 2..];
    }
    Ok(text + rest)
}

/// What is told of several values.
const STATISTICS: [&str; 4] = ["median", "min", "max", "count"];

fn value(reference: &str, records: &[Observation]) -> Result<String, String> {
    let (mut direction, mut workload, mut statistic) = (None, None, "median");
    let (mut levels, mut name): (Vec<(&str, &str)>, Vec<&str>) = (Vec::new(), Vec::new());
    for word in reference.split_whitespace() {
        match word.split_once('=') {
            Some(level) => levels.push(level),
            None if STATISTICS.contains(&word) => statistic = word,
            None => match (Direction::ALL.into_iter().find(|way| way.name() == word), Workload::parse(word)) {
                (Some(way), _) => direction = Some(way),
                (_, Some(kind)) => workload = Some(kind),
                _ => name.push(word),
            },
        }
    }
    let name = name.join("_");
    let Some(metric) = Metric::find(&name) else {
        let near = nearest(&name, METRICS.iter().map(Metric::short));
        let near = near.map(|near| format!("did you mean '{near}'?"));
        let near = near.unwrap_or_else(|| "`linerate compare --help` lists them".to_owned());
        return Err(format!("there is no figure '{name}'; {near}"));
    };
    let fits = |observed: &&Observation| {
        // A factor of the same name may say another thing.
        let fact = |name: &str| observed.around.asked.facts.get(name).map(String::as_str);
        direction.is_none_or(|way| fact("direction") == Some(way.name()))
            && workload.is_none_or(|kind| fact("workload") == Some(kind.name()))
            && levels.iter().all(|(name, level)| observed.around.get(name) == Some(*level))
    };
    let mut values: Vec<f64> = records.iter().filter(fits).filter_map(|record| record.value(metric)).collect();
    values.sort_by(f64::total_cmp);
    let value = match statistic {
        "count" => return Ok(count(values.len() as u64)),
        "min" => values.first().copied(),
        "max" => values.last().copied(),
        _ => median(&values),
    };
    let Some(value) = value else { return Err(format!("no record of the report has '{}'", reference.trim())) };
    let unit = metric.unit.name();
    let blank = if unit.is_empty() { "" } else { " " };
    Ok(format!("{}{blank}{unit}", figure(value * metric.unit.scale(), 4)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn references_are_figures_of_records() {
        let records: Vec<Observation> = sample::sweep().iter().map(Observation::of).collect();
        let text = "Does it follow?\n\n# Figures\nAt 400M {{rx throughput rate=400M}} arrive,\nof {{rx udp-stream count throughput}} trials.\n\n- one\n- two\n";
        let remarks = read(text, &records).unwrap();
        assert_eq!(remarks[0], Remarks { section: None, paragraphs: vec!["Does it follow?".to_owned()] });
        assert_eq!(remarks[1].section.as_deref(), Some("Figures"));
        assert_eq!(remarks[1].paragraphs, ["At 400M 400.0 Mbit/s arrive, of 20 trials.", "one", "two"]);
    }

    #[test]
    fn what_is_no_figure_is_told_with_its_place() {
        let records: Vec<Observation> = sample::sweep().iter().map(Observation::of).collect();
        for (text, line, column, why) in [
            ("x\n  {{rx throughputt}}", 2, 3, "did you mean 'throughput'?"),
            ("{{rx throughput rate=401M}}", 1, 1, "no record of the report has 'rx throughput rate=401M'"),
            ("µs {{rx", 1, 4, "ends with }}"),
            ("{{}}", 1, 1, "there is no figure ''"),
        ] {
            let (at, from, said) = read(text, &records).unwrap_err();
            assert!((at, from) == (line, column) && said.contains(why), "{text}: {at}:{from}: {said}");
        }
    }
}
