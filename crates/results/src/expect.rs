//! Expectations: what a figure must be, such as "throughput > 900M with direction=tx", and whether it is.
//! Knows metrics and values; which trials an expectation is for is decided where plans are known.

use std::fmt;
use std::str::FromStr;

use linerate_machine::units::{OfferedLoad, parse_duration};

use crate::compare::gate::no_metric;
use crate::figure::{Metric, Unit};

/// What the median of a configuration's repeats must be.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Of which figure.
    pub metric: &'static Metric,
    /// How it must stand to the bound.
    pub relation: Relation,
    /// In the record's unit.
    pub bound: f64,
    /// Only for configurations with these levels: name and text; all, where there are none.
    pub with: Vec<(String, String)>,
    /// The bound as it was written.
    written: String,
}

/// How a figure must stand to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// As they are written; the longer ones first, for they begin as the shorter ones do.
const RELATIONS: [(&str, Relation); 4] =
    [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Below), (">", Relation::Above)];

impl Relation {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Relation::Below => value < bound,
            Relation::AtMost => value <= bound,
            Relation::Above => value > bound,
            Relation::AtLeast => value >= bound,
        }
    }
}

impl Expectation {
    /// Whether a figure, in the record's unit, is as expected. None at all is not: what was not measured has not
    /// been shown.
    pub fn is_met(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| self.relation.holds(value, self.bound))
    }

    /// What to write in place of a bare number, where tables have the figure in another unit than the record: 200 of
    /// throughput is 200 bit/s here, and 200 Mbit/s to a reader of the table. `None`: the bound is clear.
    pub fn unclear(&self) -> Option<String> {
        let is_bare = self.written.parse::<f64>().is_ok();
        if !is_bare || self.bound == 0.0 || self.metric.unit.scale() == 1.0 {
            return None;
        }
        let written = &self.written;
        let clear = match self.metric.unit {
            Unit::Share if self.bound < 1.0 => format!("{written}%, or {}% for that share", self.bound * 100.0),
            Unit::Share => format!("{written}%"),
            Unit::Time => format!("{written}us, {written}ms or {written}s"),
            _ => format!("{written}K, {written}M or {written}G"),
        };
        Some(format!("{} is written with its unit, and {written} has none; write {clear}", self.metric.short()))
    }
}

impl PartialEq for Expectation {
    fn eq(&self, other: &Expectation) -> bool {
        self.to_string() == other.to_string()
    }
}

impl FromStr for Expectation {
    type Err = String;

    /// `METRIC < VALUE`, also with `<=`, `>`, `>=`, and `with NAME=LEVEL, NAME=LEVEL` behind it.
    fn from_str(text: &str) -> Result<Expectation, String> {
        let shape = || {
            format!(
                "'{text}' is not an expectation; write METRIC < VALUE (or <=, >, >=), like 'loss < 0.1%' or 'throughput > \
                 900M with direction=tx'"
            )
        };
        let (what, with) = text.split_once(" with ").unwrap_or((text, ""));
        let place = what.find(['<', '>']).ok_or_else(shape)?;
        let (name, rest) = what.split_at(place);
        let found = RELATIONS.iter().find_map(|(sign, relation)| Some((*relation, rest.strip_prefix(sign)?)));
        let (relation, written) = found.ok_or_else(shape)?;
        let (name, written) = (name.trim(), written.trim());
        if name.is_empty() || written.is_empty() || (with.is_empty() && text.contains(" with ")) {
            return Err(shape());
        }
        let metric = Metric::find(name).ok_or_else(|| no_metric(name))?;
        let bound = value_of(metric, written)
            .ok_or_else(|| format!("'{written}' is not a value of {}; write it {}", metric.short(), example(metric)))?;
        let mut levels = Vec::new();
        for level in with.split(',').filter(|_| !with.is_empty()) {
            let (name, value) = level.split_once('=').ok_or_else(shape)?;
            levels.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(Expectation { metric, relation, bound, with: levels, written: written.to_owned() })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = RELATIONS.iter().find(|(_, relation)| *relation == self.relation).map_or("", |(sign, _)| sign);
        write!(f, "{} {sign} {}", self.metric.short(), self.written)?;
        let levels: Vec<String> = self.with.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if levels.is_empty() { Ok(()) } else { write!(f, " with {}", levels.join(", ")) }
    }
}

/// A value of the metric in the record's unit: a bare number is that already, as records of earlier versions have it.
fn value_of(metric: &Metric, text: &str) -> Option<f64> {
    // As tables have it: a blank before the unit.
    let text: &str = &text.split_whitespace().collect::<String>();
    if let Ok(number) = text.parse::<f64>() {
        return Some(number).filter(|number| number.is_finite());
    }
    match metric.unit {
        Unit::Share => text.strip_suffix('%')?.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| n / 100.0),
        Unit::Time => parse_duration(text).ok().map(|time| time.as_secs_f64()),
        Unit::UsPerKib | Unit::UsPerPacket => None,
        _ => match text.parse().ok()? {
            OfferedLoad::BitsPerSecond(number) => Some(number as f64),
            _ => None,
        },
    }
}

/// How a value of the metric may be written.
fn example(metric: &Metric) -> &'static str {
    match metric.unit {
        Unit::Share => "in per cent like 0.1%",
        Unit::Time => "as a time like 200us or 1.5ms",
        Unit::BitRate => "in bits per second like 900M or 1.5G",
        Unit::UsPerKib | Unit::UsPerPacket => "as a number in µs like 1.5",
        _ => "as a number like 500 or 20k",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, again: &str, bound: f64, met: f64, not: f64) {
        let expectation: Expectation = text.parse().unwrap();
        assert_eq!(expectation.to_string(), again);
        assert_eq!(again.parse::<Expectation>().unwrap(), expectation);
        assert!((expectation.bound / bound - 1.0).abs() < 1e-12, "{}", expectation.bound);
        assert!(expectation.is_met(Some(met)) && !expectation.is_met(Some(not)) && !expectation.is_met(None), "{text}");
    }

    #[test]
    fn expectations_are_read_and_written() {
        check("throughput > 900M", "throughput > 900M", 900e6, 900.1e6, 900e6);
        check("throughput > 90 Mbit/s", "throughput > 90 Mbit/s", 90e6, 90.1e6, 90e6);
        check("throughput_bps>=1.5G", "throughput >= 1.5G", 1.5e9, 1.5e9, 1.4e9);
        check("loss_ratio < 0.001", "loss < 0.001", 0.001, 0.0, 0.001);
        check("loss <= 0.1 %", "loss <= 0.1 %", 0.001, 0.001, 0.0011);
        check("latency_p99 < 1.5ms", "latency_p99 < 1.5ms", 0.0015, 0.001, 0.0015);
        check("latency_p99.9_s < 2e-4", "latency_p99.9 < 2e-4", 0.0002, 0.000_19, 0.0002);
        check("transactions > 20k with ip = 4", "transactions > 20k with ip=4", 20e3, 21e3, 20e3);
        check("target_us_per_kib < 1.5", "target_us_per_kib < 1.5", 1.5, 1.4, 1.6);
        let with: Expectation = "loss < 1% with rate=300M,direction=rx".parse().unwrap();
        assert_eq!(with.to_string(), "loss < 1% with rate=300M, direction=rx");
    }

    #[test]
    fn a_bare_number_is_unclear_where_tables_have_another_unit() {
        let check = |text: &str, want: Option<&str>| {
            let unclear = text.parse::<Expectation>().unwrap().unclear();
            assert_eq!(unclear.as_deref().and_then(|text| text.split("write ").last()), want, "{text}");
        };
        check("throughput > 200", Some("200K, 200M or 200G"));
        check("jitter < 1", Some("1us, 1ms or 1s"));
        check("latency_p99 < 2.5", Some("2.5us, 2.5ms or 2.5s"));
        check("loss < 1", Some("1%"));
        check("loss < 0.001", Some("0.001%, or 0.1% for that share"));
        for clear in ["throughput > 200M", "loss <= 0", "loss < 1%", "transactions > 20", "target_us_per_kib < 1.5"] {
            check(clear, None);
        }
    }

    #[test]
    fn nonsense_is_refused_in_one_sentence() {
        for (text, part) in [
            ("", "is not an expectation; write METRIC < VALUE"),
            ("throughput", "is not an expectation"),
            ("throughput = 900M", "is not an expectation"),
            ("< 900M", "is not an expectation"),
            ("throughput >", "is not an expectation"),
            ("throughput > 900M with ", "is not an expectation"),
            ("throughput > 900M with direction", "is not an expectation"),
            ("thruput > 900M", "there is no metric 'thruput'; did you mean 'throughput'?"),
            ("throughput > fast", "'fast' is not a value of throughput; write it in bits per second like 900M"),
            ("throughput > 10kpps", "is not a value of throughput"),
            ("throughput > inf", "is not a value"),
            ("loss < 1ms", "in per cent like 0.1%"),
            ("latency_p50 < 5%", "as a time like 200us"),
        ] {
            let error = text.parse::<Expectation>().unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
