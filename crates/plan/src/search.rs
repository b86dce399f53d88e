//! `[search]`: what a plan's configurations are searched for, instead of measuring loads that it names.
//! Knows what stands in the table; how a search goes on is `linerate_trial::search`'s.

use std::ops::Range;

use linerate_machine::units::OfferedLoad;
use linerate_results::search::SearchExpectation;
use linerate_trial::search::goal::Goal;
use linerate_trial::spec::Workload;
use toml::Spanned;
use toml::de::DeValue;

use super::file::{Entry, Reader, entries};
use super::{Plan, PlanError};

const KEYS: [&str; 7] = ["goals", "max_rate", "min_rate", "tester_limit", "confirm", "whole_trials", "expect"];
/// What a search chooses.
pub(super) const CHOSEN: [&str; 3] = ["rate", "duration", "bytes"];

/// What is searched for in each configuration. Rates in bits of payload per second, in each direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchPlan {
    /// Several are searched for together; none: what is usual.
    pub goals: Vec<Goal>,
    /// The highest load; absent: what the slower link carries.
    pub most_bps: Option<u64>,
    /// The lowest load.
    pub least_bps: Option<u64>,
    /// The most that the tester carries without what is measured.
    pub tester_limit_bps: Option<u64>,
    /// What is found is measured once more, as RFC 2544 has it.
    pub confirm: bool,
    /// Trials go on to their end though their loss has decided them.
    pub whole_trials: bool,
    /// What has to be found.
    pub expect: Vec<SearchExpectation>,
}

impl<'t> Reader<'t> {
    /// The table.
    pub(super) fn search(&self, entry: &Entry<'t>) -> Result<SearchPlan, PlanError> {
        let wrong = || self.complaint(&entry.at, "a search is a table: [search], then a line for each wish".to_owned());
        let mut plan = SearchPlan::default();
        for entry in entries(entry.value.get_ref().as_table().ok_or_else(wrong)?) {
            self.known(&entry, &KEYS)?;
            match entry.key {
                "goals" => plan.goals = self.texts(&entry, "ndr", str::parse::<Goal>)?,
                "max_rate" => plan.most_bps = Some(self.rate(&entry)?),
                "min_rate" => plan.least_bps = Some(self.rate(&entry)?),
                "tester_limit" => plan.tester_limit_bps = Some(self.rate(&entry)?),
                "confirm" => plan.confirm = self.truth(&entry)?,
                "whole_trials" => plan.whole_trials = self.truth(&entry)?,
                _ => plan.expect = self.texts(&entry, "ndr >= 900M", str::parse::<SearchExpectation>)?,
            }
        }
        Ok(plan)
    }

    /// One text, or a list of them.
    fn texts<T, E: ToString>(
        &self,
        entry: &Entry<'t>,
        like: &str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, PlanError> {
        let one = |value: &Spanned<DeValue<'t>>| {
            let text = value.get_ref().as_str().ok_or_else(|| {
                let sentence = format!("{}: write texts like \"{like}\", one or a list of them", entry.key);
                self.complaint(&value.span(), sentence)
            })?;
            read(text).map_err(|error| self.complaint(&value.span(), format!("{}: {}", entry.key, error.to_string())))
        };
        match entry.value.get_ref() {
            DeValue::Array(list) => list.iter().map(one).collect(),
            _ => Ok(vec![one(entry.value)?]),
        }
    }

    fn rate(&self, entry: &Entry<'t>) -> Result<u64, PlanError> {
        match self.string(entry)?.parse() {
            Ok(OfferedLoad::BitsPerSecond(bps)) => Ok(bps),
            _ => {
                let sentence = format!("{}: write bits of payload per second, like \"900M\" or \"1G\"", entry.key);
                Err(self.complaint(&entry.value.span(), sentence))
            }
        }
    }

    /// Whether every part can be searched.
    pub(super) fn can_be_searched(&self, plan: &Plan, at: &Range<usize>) -> Result<(), PlanError> {
        let Some(search) = &plan.search else { return Ok(()) };
        let refuse = |sentence: String| Err(self.complaint(at, sentence));
        for part in &plan.parts {
            let named = part.options.iter().map(|(name, _)| name).chain(part.factors.iter().map(|(name, _)| name));
            if let Some(name) = named.into_iter().find(|name| CHOSEN.contains(&name.as_str())) {
                return refuse(format!("{name} is the search's own to choose; leave it out, or [search]"));
            }
            if part.repeat > 1 || part.null || !part.expect.is_empty() {
                let sentence =
                    "a search repeats trials by itself, and expects in [search]; leave repeat, null and expect out";
                return refuse(sentence.to_owned());
            }
        }
        let trials = plan.trials(&[], None).unwrap_or_default();
        if let Some(other) = trials.iter().find(|trial| trial.spec.workload != Workload::UdpStream) {
            return refuse(format!("only udp-stream can be searched, and a part measures {}", other.spec.workload));
        }
        let is_unknown = |one: &&SearchExpectation| !search.goals.iter().any(|goal| goal.name == one.goal);
        match search.expect.iter().find(is_unknown).filter(|_| !search.goals.is_empty()) {
            Some(one) => refuse(format!("expect: '{one}' is of no goal of the search; name one of its goals")),
            None => Ok(()),
        }
    }
}
