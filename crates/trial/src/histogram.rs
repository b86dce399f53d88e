//! A histogram of nanoseconds that can be kept whole in a record.
//! Knows nothing of what was timed.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Times in nanoseconds, in an HDR histogram: every bucket is at most 1 % wide (two significant digits), so it
/// stays near 30 KiB however long the trial. Values above an hour are counted as an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

const DIGITS: u8 = 2;
const MAX_NS: u64 = 3_600_000_000_000;

/// The percentiles that a record carries, beside the whole histogram.
pub const PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

impl Default for Histogram {
    fn default() -> Self {
        let mut histogram = hdrhistogram::Histogram::new(DIGITS).expect("two digits are within 0..=5");
        histogram.auto(true);
        Histogram(histogram)
    }
}

impl Histogram {
    /// Counts one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.add(ns, 1);
    }

    /// Counts one time `count` times; of more than 2^64 - 1 in all, no more than that.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        // What sums histograms of other machines must not overflow.
        self.add(ns, count.min(u64::MAX - self.count()));
    }

    fn add(&mut self, ns: u64, count: u64) {
        // With auto-resize only the allocation limit could refuse, and MAX_NS is below it.
        let _ = self.0.record_n(ns.min(MAX_NS), count);
    }

    /// Adds all of another histogram, as far as there is room for.
    pub fn merge(&mut self, other: &Histogram) {
        match self.count().checked_add(other.count()) {
            Some(_) => {
                let _ = self.0.add(&other.0);
            }
            None => other.buckets().for_each(|(ns, count)| self.record_n(ns, count)),
        }
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The smallest time, to the bucket; `None` when empty.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.min())
    }

    /// The largest time, to the bucket; `None` when empty.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.max())
    }

    /// The mean, to the bucket; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.mean())
    }

    /// The time that `percentile` (0 to 100) of all times do not exceed. `None` where the histogram holds too
    /// few to speak of it: a 99.99th percentile needs ten thousand times.
    pub fn percentile_ns(&self, percentile: f64) -> Option<u64> {
        let beyond = self.count() as f64 * (1.0 - percentile / 100.0);
        (beyond >= 1.0 - 1e-6).then(|| self.0.value_at_percentile(percentile))
    }

    /// The filled buckets in rising order: the highest time of each, and how many fell into it.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    unit: String,
    significant_digits: u8,
    counts: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written { unit: "ns".to_owned(), significant_digits: DIGITS, counts: self.buckets().collect() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        if written.unit != "ns" {
            return Err(D::Error::custom("a histogram counts nanoseconds: its unit is 'ns'"));
        }
        let mut histogram = Histogram::default();
        for (ns, count) in written.counts {
            if histogram.count().checked_add(count).is_none() {
                return Err(D::Error::custom("a histogram counts at most 2^64 - 1 times"));
            }
            histogram.record_n(ns, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_anything_have_percentiles() {
        let mut all = Histogram::default();
        all.record_n(1_000, u64::MAX - 1);
        all.record_n(2_000, 5);
        let mut other = Histogram::default();
        other.record_n(3_000, u64::MAX);
        other.merge(&all);
        all.merge(&other);
        for histogram in [&all, &other] {
            assert_eq!(histogram.count(), u64::MAX);
            assert!(histogram.percentile_ns(99.0).is_some() && histogram.mean_ns().is_some());
        }
    }

    #[test]
    fn percentiles_are_within_one_percent_and_silent_when_they_cannot_know() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile_ns(50.0), None);
        for us in 1..=1000 {
            histogram.record(us * 1000);
        }
        let median = histogram.percentile_ns(50.0).unwrap() as f64;
        assert!((median / 500_000.0 - 1.0).abs() < 0.01, "{median}");
        assert!(histogram.percentile_ns(99.9).is_some());
        assert_eq!(histogram.percentile_ns(99.99), None, "a thousand times say nothing of one in ten thousand");
    }

    #[test]
    fn the_whole_histogram_survives_being_written() {
        let mut histogram = Histogram::default();
        for ns in [0, 1, 999, 1_000_000, u64::MAX] {
            histogram.record(ns);
        }
        let text = serde_json::to_string(&histogram).unwrap();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(read.buckets().collect::<Vec<_>>(), histogram.buckets().collect::<Vec<_>>());
    }

    #[test]
    fn a_hostile_histogram_is_refused() {
        let max = u64::MAX;
        let text = format!(r#"{{"unit":"ns","significant_digits":2,"counts":[[1,{max}],[2,{max}]]}}"#);
        assert!(serde_json::from_str::<Histogram>(&text).is_err());
        assert!(serde_json::from_str::<Histogram>(r#"{"unit":"s","significant_digits":2,"counts":[]}"#).is_err());
    }
}
