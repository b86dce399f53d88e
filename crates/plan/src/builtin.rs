//! The built-in plans: the files of plans/, carried in the program.
//! Knows only their names; what each is for stands in its file.

use super::{Plan, PlanError};

macro_rules! plans {
    ($($name:literal),+ $(,)?) => {
        [$(($name, concat!("plans/", $name, ".toml"), include_str!(concat!("../../../plans/", $name, ".toml")))),+]
    };
}

/// Name, place in the repository, text; in the order in which people see them.
const FILES: [(&str, &str, &str); 17] = plans![
    "tcp",
    "udp-sweep",
    "rr",
    "ttcp",
    "canned",
    "soak",
    "packet-cost",
    "rfc2544",
    "rfc8219",
    "rfc9004",
    "rfc6349",
    "tcp-stream",
    "udp-stream",
    "tcp-rr",
    "udp-rr",
    "tcp-crr",
    "frames",
];

/// The names of the built-in plans.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _, _)| *name)
}

/// The built-in plans, all of them good: a test reads each.
pub fn builtins() -> Vec<Plan> {
    FILES.iter().filter_map(|(name, file, text)| Plan::parse(text, file, name).ok()).collect()
}

pub(super) fn builtin(name: &str) -> Option<Result<Plan, PlanError>> {
    FILES.iter().find(|(other, _, _)| *other == name).map(|(name, file, text)| Plan::parse(text, file, name))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use linerate_trial::spec::{Spec, Workload};

    use super::*;
    use crate::{ExpectedTime, PlannedTrial};

    #[test]
    fn every_built_in_plan_is_good_and_says_why_it_exists() {
        for (name, file, text) in FILES {
            let plan = Plan::parse(text, file, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(plan.name, name);
            assert!(!plan.about.is_empty() && plan.about.len() <= 58 && !plan.about.contains('\n'), "{name}: about");
            assert!(plan.why.len() > 80, "{name}: why");
            assert!(!plan.trials(&[], None).unwrap().is_empty());
        }
    }

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut names: Vec<String> = builtin_names().map(str::to_owned).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
    }

    #[test]
    fn every_workload_is_a_plan() {
        for workload in Workload::ALL {
            let trials = builtin(workload.name()).unwrap().unwrap().trials(&[], None).unwrap();
            assert_eq!(trials.iter().map(|trial| trial.spec.clone()).collect::<Vec<_>>(), [Spec::new(workload)]);
        }
    }

    fn line(trial: &PlannedTrial) -> String {
        let levels: String = trial.factors.iter().map(|(name, level)| format!(" {name}={level}")).collect();
        format!("part {} repeat {} {}{levels}", trial.part, trial.repeat, trial.spec.workload)
    }

    #[test]
    fn what_the_built_in_plans_come_to() {
        let mut text = String::new();
        for plan in builtins() {
            let trials = plan.trials(&[], None).unwrap();
            match plan.search {
                Some(_) => writeln!(text, "{}: {} searches", plan.name, trials.len()).unwrap(),
                None => {
                    writeln!(text, "{}: {} trials, {}", plan.name, trials.len(), ExpectedTime::of(&trials)).unwrap()
                }
            }
            writeln!(text, "  first {}\n  last  {}", line(&trials[0]), line(&trials[trials.len() - 1])).unwrap();
        }
        insta::assert_snapshot!(text);
    }
}
