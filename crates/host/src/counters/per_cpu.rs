//! What the kernel counts for each CPU, all CPUs together.

use super::Reading;

/// The sum, where all of them are known and 64 bits can hold it.
pub(super) fn sum(mut values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.try_fold(0_u64, |sum, value| sum.checked_add(value?))
}

/// The sums of columns in a table with a row of hexadecimal numbers for each CPU, each by its place and its name. A
/// column that a row lacks, or that is no number in one, is absent.
pub(super) fn sums(text: &str, columns: impl IntoIterator<Item = (usize, &'static str)>) -> Vec<Reading> {
    let rows: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|row| !row.is_empty()).collect();
    let sum = |column: usize| {
        let values = rows.iter().map(|row| u64::from_str_radix(row.get(column)?, 16).ok());
        sum(values).filter(|_| !rows.is_empty())
    };
    columns.into_iter().filter_map(|(column, name)| Some((name.to_owned(), sum(column)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_nothing_can_count_is_absent() {
        let text = "ffffffffffffffff 1\n1 2\n";
        assert_eq!(sums(text, [(0, "much"), (1, "few"), (2, "none")]), [("few".to_owned(), 3)]);
    }
}
