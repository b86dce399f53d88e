//! Where time went, as a flame graph: each function above the one that called it, as wide as its share.

use crate::number::finite;

/// Stacks of functions, joined where they begin alike.
///
/// ```text
///   ┌ memcpy ┐
///   ├────────┴── recv ──┬─ send ─┐
///   ├────────────────── main ────┴──┐
///   └───────────── all ─────────────┘
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// What is counted: "samples".
    pub unit: String,
    /// How many there are in all; frames are shares of it.
    pub whole: f64,
    /// What functions are for; at most eight can be told apart.
    pub kinds: Vec<String>,
    /// Each before those that it called.
    pub frames: Vec<Frame>,
}

/// A function where it was called.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// How many functions are between it and the bottom; 0: it was called by none of them.
    pub depth: usize,
    /// What it is called.
    pub name: String,
    /// How many were found in it, and in what it called.
    pub count: f64,
    /// Which of [`Flame::kinds`]; `None`: it works for its caller.
    pub kind: Option<usize>,
}

/// A frame and its place.
pub(crate) struct Placed<'a> {
    pub frame: &'a Frame,
    pub depth: usize,
    /// Its left edge and its width, as shares of the whole.
    pub from: f64,
    pub share: f64,
}

impl Flame {
    /// The frames in their places: beside those before them, and never beyond the edges of their callers.
    pub(crate) fn placed(&self) -> Vec<Placed<'_>> {
        let whole = finite(self.whole).filter(|whole| *whole > 0.0);
        // Of every depth where the next frame goes, and where its caller ends.
        let mut open = vec![(0.0, 1.0)];
        let mut placed = Vec::with_capacity(self.frames.len());
        for frame in &self.frames {
            let depth = frame.depth.min(open.len() - 1);
            open.truncate(depth + 1);
            let (from, end): (f64, f64) = open[depth];
            let share = whole.zip(finite(frame.count)).map_or(0.0, |(whole, count)| count / whole);
            let share = share.clamp(0.0, (end - from).max(0.0));
            open[depth].0 = from + share;
            open.push((from, from + share));
            placed.push(Placed { frame, depth, from, share });
        }
        placed
    }

    /// Every text turned into another.
    pub(crate) fn with_texts(&mut self, plain: impl Fn(&str) -> String) {
        self.unit = plain(&self.unit);
        self.kinds.iter_mut().for_each(|kind| *kind = plain(kind));
        self.frames.iter_mut().for_each(|frame| frame.name = plain(&frame.name));
    }
}

impl Frame {
    /// A function at this depth.
    pub fn new(depth: usize, name: impl Into<String>, count: f64) -> Frame {
        Frame { depth, name: name.into(), count, kind: None }
    }

    /// And what it is for.
    pub fn kind(self, kind: usize) -> Frame {
        Frame { kind: Some(kind), ..self }
    }
}
