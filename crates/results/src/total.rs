//! Sums of counts that agents tell: at most what fits, whatever somebody makes up.

/// A count that is summed up.
pub trait Count: Sized {
    /// Of nothing.
    const ZERO: Self;
    /// Both.
    fn plus(self, other: Self) -> Self;
}

impl Count for u64 {
    const ZERO: u64 = 0;
    fn plus(self, other: u64) -> u64 {
        self.saturating_add(other)
    }
}

impl Count for u32 {
    const ZERO: u32 = 0;
    fn plus(self, other: u32) -> u32 {
        self.saturating_add(other)
    }
}

impl Count for i64 {
    const ZERO: i64 = 0;
    fn plus(self, other: i64) -> i64 {
        self.saturating_add(other)
    }
}

/// What one does not know, nobody knows of all.
impl<C: Count> Count for Option<C> {
    const ZERO: Option<C> = Some(C::ZERO);
    fn plus(self, other: Option<C>) -> Option<C> {
        self.zip(other).map(|(one, other)| one.plus(other))
    }
}

/// The sum of an iterator's counts.
pub trait Total: Iterator + Sized {
    /// The sum.
    fn total(self) -> Self::Item
    where
        Self::Item: Count,
    {
        self.fold(Self::Item::ZERO, Count::plus)
    }
}

impl<I: Iterator> Total for I {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_never_overflows_and_knows_no_more_than_its_parts() {
        assert_eq!([1_u64, 2].into_iter().total(), 3);
        assert_eq!([u64::MAX, 1].into_iter().total(), u64::MAX);
        assert_eq!([i64::MIN, -1].into_iter().total(), i64::MIN);
        assert_eq!([Some(1_u64), Some(2)].into_iter().total(), Some(3));
        assert_eq!([Some(1_u64), None].into_iter().total(), None);
    }
}
