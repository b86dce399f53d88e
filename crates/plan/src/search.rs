//! `[search]`: what a plan's configurations are searched for, instead of measuring loads that it names.
//! Knows what stands in the table; how a search goes on is `linerate_trial::search`'s.

use std::ops::Range;
use std::time::Duration;

use linerate_machine::units::{OfferedLoad, parse_duration};
use linerate_results::search::SearchExpectation;
use linerate_results::search::stages::Stage;
use linerate_trial::search::goal::Goal;
use linerate_trial::spec::Workload;
use toml::Spanned;
use toml::de::DeValue;

use super::file::{Entry, Reader, entries};
use super::{Plan, PlanError};

const KEYS: [&str; 10] = [
    "goals",
    "max_rate",
    "min_rate",
    "tester_limit",
    "confirm",
    "whole_trials",
    "expect",
    "stages",
    "stage_time",
    "reset",
];
/// What a search chooses.
pub(super) const CHOSEN: [&str; 3] = ["rate", "duration", "bytes"];

/// The shortest that a stage's trial can be.
const SHORTEST: Duration = Duration::from_millis(100);

/// A stage by its name.
pub fn stage(name: &str) -> Result<Stage, String> {
    let names = || Stage::ALL.map(Stage::name).join(", ");
    Stage::parse(name).ok_or_else(|| format!("'{name}' is not a stage; there are {}", names()))
}

/// What is searched for in each configuration. Rates are of payload, or of frames with their FCS, in each direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchPlan {
    /// Several are searched for together; none: what is usual.
    pub goals: Vec<Goal>,
    /// The highest load; absent: what the slower link carries.
    pub most: Option<OfferedLoad>,
    /// The lowest load.
    pub least: Option<OfferedLoad>,
    /// The most that the tester carries without what is measured.
    pub tester_limit: Option<OfferedLoad>,
    /// What is found is measured once more, as RFC 2544 has it.
    pub confirm: bool,
    /// Trials go on to their end though their loss has decided them.
    pub whole_trials: bool,
    /// What has to be found.
    pub expect: Vec<SearchExpectation>,
    /// What is measured beside the bounds, in this order.
    pub stages: Vec<Stage>,
    /// For how long each time; absent: what is usual.
    pub stage_time: Option<Duration>,
    /// A command that resets the device on the way, for the stage of that name.
    pub reset: Option<String>,
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
                "max_rate" => plan.most = Some(self.rate(&entry)?),
                "min_rate" => plan.least = Some(self.rate(&entry)?),
                "tester_limit" => plan.tester_limit = Some(self.rate(&entry)?),
                "confirm" => plan.confirm = self.truth(&entry)?,
                "whole_trials" => plan.whole_trials = self.truth(&entry)?,
                "reset" => plan.reset = Some(self.string(&entry)?.to_owned()),
                "stages" => plan.stages = self.texts(&entry, "latency", stage)?,
                "stage_time" => {
                    let time = parse_duration(self.string(&entry)?).ok().filter(|time| *time >= SHORTEST);
                    let sentence = "stage_time: write a time of 100ms or more, like \"10s\"".to_owned();
                    plan.stage_time = Some(time.ok_or_else(|| self.complaint(&entry.value.span(), sentence))?);
                }
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

    fn rate(&self, entry: &Entry<'t>) -> Result<OfferedLoad, PlanError> {
        let is_known =
            |rate: &OfferedLoad| matches!(rate, OfferedLoad::BitsPerSecond(_) | OfferedLoad::PacketsPerSecond(_));
        let known = self.string(entry)?.parse().ok().filter(is_known);
        known.ok_or_else(|| {
            let sentence = format!("{}: write bits of payload per second, like \"900M\", or \"10kpps\"", entry.key);
            self.complaint(&entry.value.span(), sentence)
        })
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
        if let Some(other) = trials.iter().find(|trial| !trial.spec.workload.is_numbered()) {
            let workload = other.spec.workload;
            return refuse(format!("only udp-stream and frames can be searched, and a part measures {workload}"));
        }
        if search.stages.contains(&Stage::Reset) != search.reset.is_some() {
            return refuse("the stage reset and a command for it, reset = \"COMMAND\", go together".to_owned());
        }
        let is_frames = trials.iter().any(|trial| trial.spec.workload == Workload::Frames);
        if let Some(stage) = search.stages.iter().find(|stage| is_frames && !stage.is_of_frames()) {
            return refuse(format!("stages: {stage} is of sockets, which frames have none of; leave it out"));
        }
        let is_unknown = |one: &&SearchExpectation| !search.goals.iter().any(|goal| goal.name == one.goal);
        match search.expect.iter().find(is_unknown).filter(|_| !search.goals.is_empty()) {
            Some(one) => refuse(format!("expect: '{one}' is of no goal of the search; name one of its goals")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(search: &str, rest: &str) -> Result<Plan, String> {
        let text = format!("format = \"linerate.plan/1\"\nworkload = \"udp-stream\"\n{rest}\n[search]\n{search}\n");
        Plan::parse(&text, "my.toml", "my").map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_searched_for_stands_in_a_table() {
        let search = "goals = [\"ndr\", \"loss=1 %,trial=2s\"]\nmax_rate = \"1G\"\nmin_rate = \"1M\"\nconfirm = true\n\
            tester_limit = \"900kpps\"\nexpect = \"ndr >= 5M\"\nstages = [\"latency\", \"back-to-back\"]\nstage_time = \"3s\"";
        let found = parsed(search, "").unwrap().search.unwrap();
        assert_eq!(found.goals.iter().map(|goal| goal.trial_s).collect::<Vec<_>>(), [1.0, 2.0]);
        let bps = |bps| Some(OfferedLoad::BitsPerSecond(bps));
        assert_eq!((found.most, found.least), (bps(1_000_000_000), bps(1_000_000)));
        let limit = Some(OfferedLoad::PacketsPerSecond(900_000));
        assert_eq!((found.tester_limit, found.confirm, found.whole_trials), (limit, true, false));
        assert_eq!(
            (found.stages, found.stage_time),
            (vec![Stage::Latency, Stage::BackToBack], Some(Duration::from_secs(3)))
        );
        assert_eq!(parsed("", "").unwrap().search, Some(SearchPlan::default()));
    }

    #[test]
    fn what_cannot_be_searched_is_told_at_its_place() {
        for (search, rest, place, said) in [
            ("goals = \"best\"", "", "5:9", "goals: 'best' is not a goal"),
            ("goals = [5]", "", "5:10", "write texts like"),
            ("max_rate = \"fast\"", "", "5:12", "bits of payload per second"),
            ("max_rate = \"unlimited\"", "", "5:12", "bits of payload per second"),
            (
                "stages = \"best\"",
                "",
                "5:10",
                "'best' is not a stage; there are latency, loss-rate, back-to-back, recovery, reset, windows",
            ),
            ("stage_time = \"1ms\"", "", "5:14", "100ms or more"),
            ("expect = \"ndr > 5M\"", "", "5:10", "is not an expectation of a search"),
            ("goals = \"ndr\"\nexpect = \"pdr >= 5M\"", "", "4:2", "is of no goal of the search"),
            ("speed = 5", "", "5:1", "keys are goals"),
            ("", "repeat = 3", "4:2", "a search repeats trials by itself"),
            ("", "expect = \"loss < 1%\"", "4:2", "a search repeats trials by itself"),
            ("[options]\nrate = \"5M\"", "", "4:2", "rate is the search's own to choose"),
        ] {
            let error = parsed(search, rest).unwrap_err();
            assert!(error.starts_with(&format!("my.toml:{place}:")) && error.contains(said), "{search}: {error}");
        }
        let tcp = "format = \"linerate.plan/1\"\nworkload = \"tcp-stream\"\n[search]\n";
        let error = Plan::parse(tcp, "my.toml", "my").unwrap_err().to_string();
        assert!(
            error.contains("only udp-stream and frames can be searched, and a part measures tcp-stream"),
            "{error}"
        );
        let frames = "format = \"linerate.plan/1\"\nworkload = \"frames\"\n[search]\nstages = \"STAGE\"\n";
        let of_frames = |stage: &str| Plan::parse(&frames.replace("STAGE", stage), "my.toml", "my");
        assert!(of_frames("back-to-back").is_ok());
        assert!(of_frames("windows").unwrap_err().to_string().contains("windows is of sockets"));
    }
}
