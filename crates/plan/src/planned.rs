//! A trial as a plan asks for it: what varies, what is asked, how the machines are set.

use linerate_machine::change::Change;
use linerate_machine::end::Party;
use linerate_machine::setting;
use linerate_results::record::NullSide;
use linerate_results::search::SearchPlace;
use linerate_trial::spec::Spec;

/// Factors, each with one of its levels, in the plan's order.
pub(crate) type Levels = Vec<(String, String)>;

/// One measurement that a plan asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedTrial {
    /// From 0, in the order in which they run.
    pub index: u32,
    /// Which part of the plan, from 0.
    pub part: usize,
    /// Which repeat of its configuration, from 0.
    pub repeat: u32,
    /// Which configuration of the plan, from 0, in the plan's order.
    pub configuration: u32,
    /// Repeats that it has however narrow the interval is by then.
    pub least: u32,
    /// Which side of an A/A pair it is, where the plan asks for them.
    pub null_side: Option<NullSide>,
    /// The levels that distinguish this configuration, in the plan's order.
    pub factors: Levels,
    /// What is asked of the two machines. Valid.
    pub spec: Spec,
    /// How the machines are set for it, in the plan's order.
    pub settings: Vec<WantedSetting>,
    /// Where it stands in the search that asks for it.
    pub search: Option<Box<SearchPlace>>,
}

impl PlannedTrial {
    /// Its configuration in a few words: its factors, or its workload and direction.
    pub fn words(&self) -> String {
        if self.factors.is_empty() {
            return format!("{} {}", self.spec.workload, self.spec.direction);
        }
        let mut words: Vec<String> = self.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
        if !self.factors.iter().any(|(name, _)| name == "workload") {
            words.insert(0, self.spec.workload.to_string());
        }
        words.join(" ")
    }
}

/// A setting that a trial wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSetting {
    /// Whose.
    pub end: Party,
    /// Which, and its value.
    pub change: Change,
}

impl WantedSetting {
    /// What a change of it costs, from 0 to 9.
    pub fn dear(&self) -> u8 {
        setting::find(&self.change.name).map_or(0, |found| found.dear)
    }
}
