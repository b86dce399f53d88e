//! Plans: what to measure, as a file says it or as built in.
//! Knows no endpoints and measures nothing; a plan becomes a list of trials, and carrying them out is the campaign's.
#![forbid(unsafe_code)]

mod boot;
mod builtin;
mod demo;
mod expand;
mod expect;
mod file;
mod needs;
mod order;
mod planned;
mod search;

use std::path::Path;

use linerate_machine::change::Custom;
use linerate_machine::text::nearest;
use linerate_machine::words;
use linerate_results::expect::Expectation;
use serde::{Deserialize, Serialize};

pub use boot::{Boot, Checked};
pub use builtin::{builtin_names, builtins};
pub use demo::demo_plans;
pub use expand::{BESIDE_A_TRIAL, ExpectedTime};
pub use expect::{ExpectationResult, expectation, expected, judged, unanswerable};
pub use needs::{Need, needs};
pub use order::RoundOrder;
pub use planned::{PlannedTrial, WantedSetting};
pub use search::{SearchPlan, stage};

/// What to measure: parts, each a workload with fixed options and factors that vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What records and `linerate run` call it.
    pub name: String,
    /// What it measures, in one line.
    pub about: String,
    /// Why it exists: a paragraph, with its source.
    pub why: String,
    /// How its records are shown to people.
    pub report: Report,
    /// The order within a round; absent, what serves the plan ([`Plan::is_random`]).
    pub order: Option<RoundOrder>,
    /// What is measured, in this order.
    pub parts: Vec<Part>,
    /// Settings of the user's own, `custom.NAME`, and how they are read and set.
    pub custom: Vec<(String, Custom)>,
    /// What machines are booted as, where trials differ in that.
    pub boots: Vec<Boot>,
    /// Each configuration is searched for the most that it carries.
    pub search: Option<SearchPlan>,
    /// The text that this was read from. Kept with a campaign, so that a resumed one expands to the same trials
    /// even when the file has changed since, or the built-in plan in a newer version.
    pub source: String,
}

/// A workload with its options and factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// A heading for people, where a plan has several parts.
    pub title: Option<String>,
    /// How often each configuration is measured.
    pub repeat: u32,
    /// Each round measures each configuration twice, as two sides that must be alike.
    pub null: bool,
    /// What its figures must be.
    pub expect: Vec<Expectation>,
    /// Fixed options, name and text; `workload` is the first unless it is a factor.
    pub options: Vec<(String, String)>,
    /// What varies, and its levels. The first varies slowest.
    pub factors: Vec<(String, Vec<String>)>,
}

/// What is changed in a plan for one run; kept with the campaign, so that a later process has the same trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// `--set`: names and texts.
    pub overrides: Vec<(String, String)>,
    /// `--repeat`.
    pub repeat: Option<u32>,
    /// What the order of the trials is drawn from; absent: they run in the plan's order.
    pub seed: Option<u32>,
    /// `--null`: A/A trials of everything.
    #[serde(default)]
    pub null: bool,
    /// `--precision` and `--max-repeats`.
    pub precision: Option<Precision>,
    /// `--expect`: what every figure must be, beside what the plan says.
    #[serde(default)]
    pub expect: Vec<String>,
}

/// Until when each configuration is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// Both ends of the interval lie within this part of the median.
    pub part: f64,
    /// Or this is reached.
    pub max_repeats: u32,
}

words! {
    /// How a plan's records are shown to people.
    Report {
        /// A row for each configuration.
        Table = "table",
        /// Offered load against what was received and lost, with a small picture.
        Sweep = "sweep",
        /// A line for each run, as ttcp prints it.
        Ttcp = "ttcp",
    }
}

/// Why a plan cannot be had or cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No built-in plan has this name.
    #[error("there is no plan '{name}'; {hint}")]
    Unknown {
        /// The name as given.
        name: String,
        /// What to try.
        hint: String,
    },
    /// The plan file cannot be read at all.
    #[error("plan file {file}: {complaint}")]
    Unreadable {
        /// The path as given.
        file: String,
        /// What stands in the way.
        complaint: String,
    },
    /// Something in a plan file is not allowed.
    #[error("{file}:{line}:{column}: {complaint}")]
    File {
        /// The path as given, or the place of a built-in plan in the repository.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong, and what is allowed.
        complaint: String,
    },
    /// An option given for this run does not suit the plan.
    #[error("{0}")]
    Override(String),
    /// Options that are fine one by one cannot be met together.
    #[error("plan {plan}, {configuration}: {complaint}")]
    Trial {
        /// The plan's name.
        plan: String,
        /// Which configuration.
        configuration: String,
        /// What to change.
        complaint: String,
    },
}

/// What ends in `.toml` or has a `/` is a path, and no built-in plan's name.
fn is_path(name_or_path: &str) -> bool {
    name_or_path.ends_with(".toml") || name_or_path.contains('/')
}

/// The folder of a plan file; a built-in plan has none.
pub fn folder(name_or_path: &str) -> Option<&Path> {
    Path::new(name_or_path).parent().filter(|_| is_path(name_or_path))
}

/// The built-in plan of this name, or that of the file at this path, which `read` reads or says why not.
pub fn find(name_or_path: &str, read: impl FnOnce(&Path) -> Result<String, String>) -> Result<Plan, PlanError> {
    if is_path(name_or_path) {
        let path = Path::new(name_or_path);
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let unreadable = |complaint| PlanError::Unreadable { file: name_or_path.to_owned(), complaint };
        return Plan::parse(&read(path).map_err(unreadable)?, name_or_path, &stem);
    }
    named(name_or_path)
}

/// The built-in plan of this name.
pub fn named(name: &str) -> Result<Plan, PlanError> {
    builtin::builtin(name).unwrap_or_else(|| {
        let hint = match nearest(name, builtin_names()) {
            Some(near) => format!("did you mean '{near}'? `linerate plans` lists them all"),
            None => format!(
                "the built-in plans are {}; a plan of your own is given as a path, like ./{}.toml",
                builtin_names().collect::<Vec<_>>().join(", "),
                if name.is_empty() { "mine" } else { name }
            ),
        };
        Err(PlanError::Unknown { name: name.to_owned(), hint })
    })
}

impl Plan {
    /// The plan that this text describes. `file` is named in complaints; `default_name` is taken where the text
    /// gives no name. Every trial of the plan is checked here, so that a bad one is found at its line.
    pub fn parse(text: &str, file: &str, default_name: &str) -> Result<Plan, PlanError> {
        file::parse(text, file, default_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(name_or_path: &str, contains: &[&str]) {
        let error = find(name_or_path, |_| Err("it is not there".to_owned())).unwrap_err().to_string();
        for part in contains {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_plan_that_is_not_there() {
        check_refused("udp-swep", &["there is no plan 'udp-swep'", "did you mean 'udp-sweep'?", "linerate plans"]);
        check_refused("nonsense", &["the built-in plans are tcp, udp-sweep", "./nonsense.toml"]);
        check_refused("", &["./mine.toml"]);
        check_refused("TCP", &["did you mean 'tcp'?"]);
        check_refused("./missing.toml", &["plan file ./missing.toml: it is not there"]);
    }

    #[test]
    fn a_file_is_named_after_itself() {
        let text = "format = \"linerate.plan/1\"\nworkload = \"tcp-rr\"\n";
        assert_eq!(find("folder/mine.toml", |_| Ok(text.to_owned())).unwrap().name, "mine");
    }
}
