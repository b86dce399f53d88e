//! What an axis measures, and how its values are laid out.
//! The places on it are `scale`'s.

/// What stands along an edge of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is measured: "throughput".
    pub quantity: String,
    /// Its unit: "Mbit/s". Empty for a name or a plain count.
    pub unit: String,
    /// What the unit counts: "UDP payload". May be empty.
    pub layer: String,
    /// How values are laid out.
    pub scale: Scale,
    /// Which values there is room for.
    pub range: Range,
    /// Whether a linear axis has room for zero. Bars always stand on it.
    pub zero: bool,
}

/// How values become places.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// In proportion, of what there are only whole ones of, such as trials: no tick stands between two of them.
    Whole,
    /// By the logarithm; a value at or below zero has no place, and a note says how many have none.
    Log,
    /// Percentiles, from 0 to 100, by the logarithm of what is above them: 90, 99 and 99.9 are as far apart. 100 is the
    /// maximum.
    Percentile,
    /// Names, at 0, 1, 2, …; a value between them, such as 0.9 and 1.1, stands beside one.
    Categories(Vec<String>),
}

/// Which values an axis has room for. No value is ever outside of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// The values of all panels whose axis is of the same quantity, unit, layer and scale: the same scale for all of them.
    Shared,
    /// The values of this panel alone.
    Own,
    /// The values of this panel, and these two: a live chart that is as high as the offered load shows a collapse.
    AtLeast(f64, f64),
}

impl Axis {
    /// A linear axis from zero.
    pub fn linear(quantity: impl Into<String>, unit: impl Into<String>) -> Axis {
        let (quantity, unit) = (quantity.into(), unit.into());
        Axis { quantity, unit, layer: String::new(), scale: Scale::Linear, range: Range::Shared, zero: true }
    }

    /// A linear axis of whole numbers, with no room for zero but where a value is there.
    pub fn whole(quantity: impl Into<String>) -> Axis {
        Axis { scale: Scale::Whole, zero: false, ..Axis::linear(quantity, "") }
    }

    /// A logarithmic axis.
    pub fn log(quantity: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(quantity, unit) }
    }

    /// Percentiles, from 0 to 100.
    pub fn percentile(quantity: impl Into<String>) -> Axis {
        Axis { scale: Scale::Percentile, ..Axis::linear(quantity, "%") }
    }

    /// Names, at 0, 1, 2, ….
    pub fn categories<T: Into<String>>(quantity: impl Into<String>, names: impl IntoIterator<Item = T>) -> Axis {
        let names = names.into_iter().map(Into::into).collect();
        Axis { scale: Scale::Categories(names), ..Axis::linear(quantity, "") }
    }

    /// What the unit counts.
    pub fn of(self, layer: impl Into<String>) -> Axis {
        Axis { layer: layer.into(), ..self }
    }

    /// With room for these.
    pub fn range(self, range: Range) -> Axis {
        Axis { range, ..self }
    }

    /// With no room for zero but where a value is there: small differences show.
    pub fn without_zero(self) -> Axis {
        Axis { zero: false, ..self }
    }

    /// "throughput, Mbit/s of UDP payload".
    pub fn label(&self) -> String {
        let mut label = self.quantity.clone();
        if !self.unit.is_empty() {
            label = if label.is_empty() { self.unit.clone() } else { format!("{label}, {}", self.unit) };
        }
        if !self.layer.is_empty() {
            label = if label.is_empty() { self.layer.clone() } else { format!("{label} of {}", self.layer) };
        }
        label
    }

    /// Whether values of both can be held against each other.
    pub(crate) fn is_alike(&self, other: &Axis) -> bool {
        let of = |axis: &Axis| (axis.quantity.clone(), axis.unit.clone(), axis.layer.clone(), axis.zero);
        of(self) == of(other) && self.scale == other.scale
    }
}

impl Default for Axis {
    fn default() -> Axis {
        Axis::linear("", "")
    }
}
