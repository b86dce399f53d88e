//! Of more points than a picture has columns, those that show: the first, the last, the highest and the lowest of each.

/// A place: column and height, both in the picture's units.
pub(crate) type Position = (f64, f64);

/// The points of a line that show, in their order. `column`: how wide one is.
pub(crate) fn line(points: &[Position], column: f64) -> Vec<Position> {
    let mut shown = Vec::new();
    for group in points.chunk_by(|a, b| (a.0 / column).floor() == (b.0 / column).floor()) {
        let by = |pick: fn(f64, f64) -> bool| {
            (1..group.len()).fold(0, |best, at| if pick(group[at].1, group[best].1) { at } else { best })
        };
        let mut kept = [0, by(|a, b| a < b), by(|a, b| a > b), group.len() - 1];
        kept.sort_unstable();
        for (at, index) in kept.iter().enumerate() {
            if at == 0 || kept[at - 1] != *index {
                shown.push(group[*index]);
            }
        }
    }
    shown
}

/// One point of each cell of this size.
pub(crate) fn points(points: &[Position], cell: f64) -> Vec<Position> {
    let of = |place: &Position| ((place.0 / cell).floor() as i64, (place.1 / cell).floor() as i64);
    let mut taken = std::collections::BTreeSet::new();
    points.iter().filter(|place| taken.insert(of(place))).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_keeps_its_ends_and_its_extremes() {
        let many: Vec<Position> = (0..10_000).map(|at| (f64::from(at) / 100.0, f64::from(at * 7919 % 1000))).collect();
        let shown = line(&many, 1.0);
        assert!(shown.len() <= 400);
        for column in 0..100 {
            let of = |points: &[Position]| {
                let inside = points.iter().filter(|point| point.0 as i32 == column).map(|point| point.1);
                inside.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)))
            };
            assert_eq!(of(&many), of(&shown));
        }
        assert_eq!(line(&[(0.0, 1.0), (0.5, 2.0), (1.5, 0.0)], 1.0), [(0.0, 1.0), (0.5, 2.0), (1.5, 0.0)]);
        assert_eq!(line(&[], 1.0), []);
        assert_eq!(points(&[(0.0, 0.0), (0.5, 0.5), (3.0, 0.0)], 1.0).len(), 2);
    }
}
