//! The k-th smallest of all differences, or all means, of pairs, without making the pairs.
//! Knows only sorted numbers.

/// The `k`-th smallest, from 1, of all `y - x`. Both sorted.
pub(super) fn difference(x: &[f64], y: &[f64], k: u64) -> f64 {
    kth(k, |limit| {
        // As y grows, more of the x lie too far below it.
        let mut from = 0;
        let mut count = 0;
        for &y in y {
            while from < x.len() && y - x[from] > limit {
                from += 1;
            }
            count += (x.len() - from) as u64;
        }
        count
    })
}

/// The `k`-th smallest, from 1, of all means of two values, each with itself too (Walsh averages). Sorted.
pub(super) fn mean_of_two(values: &[f64], k: u64) -> f64 {
    kth(k, |limit| {
        let mut to = values.len();
        let mut count = 0;
        for (at, &low) in values.iter().enumerate() {
            while to > at && (low + values[to - 1]) / 2.0 > limit {
                to -= 1;
            }
            count += to.saturating_sub(at) as u64;
        }
        count
    })
}

/// The smallest number of which `count(number)`, how many of the values are no larger, is at least `k`. That is one
/// of the values. Bisects the 2⁶⁴ doubles, so 64 counts are enough for any number of pairs.
fn kth(k: u64, count: impl Fn(f64) -> u64) -> f64 {
    let (mut low, mut high) = (ordered(f64::NEG_INFINITY), ordered(f64::INFINITY));
    while low < high {
        let middle = low + (high.wrapping_sub(low) as u64 / 2) as i64;
        if count(double(middle)) >= k { high = middle } else { low = middle + 1 }
    }
    // Of the two zeros, the one without a sign.
    double(low) + 0.0
}

/// A double as an integer in the same order.
fn ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn double(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ ((ordered >> 63) as u64 >> 1) as i64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    #[test]
    fn as_if_all_pairs_were_sorted() {
        let mut noise = Noise::new(11);
        for (n, m) in [(1, 1), (2, 3), (7, 4), (12, 12)] {
            // Rounded, so that there are ties; around zero, so that there are both signs.
            let mut draw = |n: usize| -> Vec<f64> {
                let mut values: Vec<f64> = (0..n).map(|_| (noise.normal() * 3.0).round() / 3.0).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let (x, y) = (draw(n), draw(m));
            let mut all: Vec<f64> = x.iter().flat_map(|x| y.iter().map(move |y| y - x)).collect();
            all.sort_by(f64::total_cmp);
            let mut means: Vec<f64> =
                (0..n).flat_map(|i| (i..n).map(move |j| (i, j))).map(|(i, j)| (x[i] + x[j]) / 2.0).collect();
            means.sort_by(f64::total_cmp);
            for (k, want) in all.iter().enumerate() {
                assert_eq!(difference(&x, &y, k as u64 + 1), *want);
            }
            for (k, want) in means.iter().enumerate() {
                assert_eq!(mean_of_two(&x, k as u64 + 1), *want);
            }
        }
    }
}
