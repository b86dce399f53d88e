//! A path with what leaves it on the way: stages in order, each with its branches.

/// What goes in at the first stage, and where it stays.
///
/// ```text
///   entered ═══ stage ═══ stage ═══ stage ═══ arrived
///                           ╚ branch: name, count, counter
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// What is counted: "packets".
    pub unit: String,
    /// How many go in.
    pub entered: f64,
    /// In the order of the path.
    pub stages: Vec<Stage>,
    /// How many come out; `None`: nobody counted them.
    pub arrived: Option<f64>,
    /// What no branch accounts for; below zero where more came out than went in. `None`: it cannot be told.
    pub unaccounted: Option<f64>,
}

/// A stage of the path.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// "MAC RX FIFO".
    pub name: String,
    /// What leaves the path here.
    pub branches: Vec<Branch>,
}

/// What leaves the path at a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// What becomes of it: "FIFO overrun".
    pub name: String,
    /// How many.
    pub count: f64,
    /// The counter that says so: "rx_fifo_errors".
    pub counter: String,
}

impl Flow {
    /// Every text turned into another.
    pub(crate) fn with_texts(&mut self, plain: impl Fn(&str) -> String) {
        self.unit = plain(&self.unit);
        for stage in &mut self.stages {
            stage.name = plain(&stage.name);
            for branch in &mut stage.branches {
                (branch.name, branch.counter) = (plain(&branch.name), plain(&branch.counter));
            }
        }
    }
}

impl Stage {
    /// A stage that nothing leaves.
    pub fn new(name: impl Into<String>) -> Stage {
        Stage { name: name.into(), branches: Vec::new() }
    }

    /// And what leaves it.
    pub fn branch(mut self, name: impl Into<String>, count: f64, counter: impl Into<String>) -> Stage {
        self.branches.push(Branch { name: name.into(), count, counter: counter.into() });
        self
    }
}
