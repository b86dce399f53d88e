//! The loads that a search tries: a ladder from the least to the most, each rung the same part above the one below.
//! Knows no trials.

/// More rungs than any search climbs.
const MOST_RUNGS: f64 = 1e6;

/// A ladder of loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loads {
    least: f64,
    most: f64,
    /// The number of the highest rung; the lowest one's is 0.
    top: u32,
}

impl Loads {
    /// From `least` to `most`, both in the same unit and more than 0; neighbours are no farther apart than `width`, as a part of
    /// the upper one. `None`: there is no such ladder.
    pub fn new(least: f64, most: f64, width: f64) -> Option<Loads> {
        let rungs = ((most / least).ln() / step(width)).ceil();
        let is_ladder = least > 0.0 && most > least && (1.0..=MOST_RUNGS).contains(&rungs);
        is_ladder.then_some(Loads { least, most, top: rungs as u32 })
    }

    /// The number of the highest rung.
    pub fn top(&self) -> u32 {
        self.top
    }

    /// The load of a rung.
    pub fn load(&self, rung: u32) -> f64 {
        if rung >= self.top {
            return self.most;
        }
        self.least * (self.most / self.least).powf(f64::from(rung) / f64::from(self.top))
    }

    /// The highest rung that is no more than this load; the lowest one of what is below all.
    pub fn at_most(&self, load: f64) -> u32 {
        if load.is_nan() || load <= self.least {
            return 0;
        }
        if load >= self.most {
            return self.top;
        }
        let near = ((load / self.least).ln() / (self.most / self.least).ln() * f64::from(self.top)) as u32;
        // The logarithm is inexact at a rung itself.
        (near.saturating_sub(1)..=(near + 1).min(self.top)).rev().find(|rung| self.load(*rung) <= load).unwrap_or(0)
    }

    /// How many rungs a width is, at least 1.
    pub fn rungs(&self, width: f64) -> u32 {
        let rung = (self.most / self.least).ln() / f64::from(self.top);
        // A width that is a whole number of rungs must not lose one to the last bit.
        ((step(width) / rung + 1e-9) as u32).max(1)
    }
}

/// The distance of two loads, by their logarithms, of which the lower one lacks this part of the upper one.
fn step(width: f64) -> f64 {
    -(1.0 - width).ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ends_are_exact() {
        let loads = Loads::new(1e6, 1e9, 0.005).unwrap();
        assert_eq!((loads.load(0), loads.load(loads.top())), (1e6, 1e9));
        assert_eq!(loads.top(), 1379);
        assert_eq!(loads.rungs(0.005), 1);
        assert_eq!(loads.rungs(0.01), 2);
        for (least, most, width) in
            [(0.0, 1.0, 0.1), (1.0, 1.0, 0.1), (2.0, 1.0, 0.1), (1.0, f64::NAN, 0.1), (1.0, f64::INFINITY, 0.1)]
        {
            assert_eq!(Loads::new(least, most, width), None);
        }
    }

    proptest! {
        #[test]
        fn a_rung_is_found_again(least in 1.0..1e9, times in 1.001..1e4, width in 0.0005..0.4, part in 0.0..1.0) {
            let loads = Loads::new(least, least * times, width).unwrap();
            let rung = (part * f64::from(loads.top())) as u32;
            let load = loads.load(rung);
            prop_assert_eq!(loads.at_most(load), rung);
            if rung < loads.top() {
                let above = loads.load(rung + 1);
                prop_assert!(above > load && (above - load) / above <= width * (1.0 + 1e-9));
                prop_assert_eq!(loads.at_most(f64::midpoint(load, above)), rung);
            }
        }
    }
}
