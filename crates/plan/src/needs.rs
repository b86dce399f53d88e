//! What a campaign needs to be allowed, beside to measure.
//! Knows no flag and no bench: who allows it says how.

use std::collections::BTreeSet;
use std::fmt;

use linerate_machine::end::End;

use crate::{Plan, PlannedTrial};

/// One thing that has to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Machines are booted by commands of the plan's.
    Boot,
    /// The device is reset by a command of the plan's, in mid-trial.
    Reset,
    /// Settings are read and made by programs of the plan's.
    Programs,
    /// A setting is changed, like `target.mtu`.
    Setting(String),
}

impl Need {
    /// Whether programs run that the plan names.
    pub const fn is_program(&self) -> bool {
        matches!(self, Need::Boot | Need::Reset | Need::Programs)
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Boot => f.write_str("the plan boots machines by commands of its own"),
            Need::Reset => f.write_str("the plan resets the device by a command of its own"),
            Need::Programs => f.write_str("the plan reads and sets by programs of its own"),
            Need::Setting(name) => write!(f, "it changes {name}"),
        }
    }
}

/// What these trials of the plan need, by what they would do: an option can bring nothing in that is not seen here.
pub fn needs(plan: &Plan, trials: &[PlannedTrial]) -> Vec<Need> {
    let mut needs = Vec::new();
    let settings = || trials.iter().flat_map(|trial| &trial.settings);
    if !plan.boots.is_empty() || trials.iter().any(|trial| End::BOTH.into_iter().any(|end| trial.boot(end).is_some())) {
        needs.push(Need::Boot);
    }
    if plan.search.as_ref().is_some_and(|search| search.reset.is_some()) {
        needs.push(Need::Reset);
    }
    if !plan.custom.is_empty() || settings().any(|one| one.change.custom.is_some()) {
        needs.push(Need::Programs);
    }
    let names: BTreeSet<String> = settings().map(|one| format!("{}.{}", one.end, one.change.name)).collect();
    needs.extend(names.into_iter().map(Need::Setting));
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Changes;

    #[test]
    fn what_a_plan_needs_is_seen_in_its_trials() {
        let needs_of = |text: &str, sets: &[(&str, &str)]| {
            let plan = Plan::parse(&format!("format = \"linerate.plan/1\"\n{text}"), "p", "p").unwrap();
            let overrides = sets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let trials = plan.trials_of(&Changes { overrides, ..Changes::default() }).unwrap();
            needs(&plan, &trials)
        };
        let setting = |name: &str| Need::Setting(name.to_owned());
        assert_eq!(needs_of("workload = \"tcp-rr\"", &[]), []);
        assert_eq!(needs_of("workload = \"tcp-rr\"", &[("target.mtu", "1400")]), [setting("target.mtu")]);
        let two = "workload = \"tcp-rr\"\n[options]\nhost.gro = \"off\"\n[factors]\ntarget.mtu = [1400, 1500]";
        assert_eq!(needs_of(two, &[]), [setting("host.gro"), setting("target.mtu")]);
        let reset = "workload = \"udp-stream\"\n[search]\nstages = [\"reset\"]\nreset = \"reboot\"";
        assert_eq!(needs_of(reset, &[]), [Need::Reset]);
        let program =
            "workload = \"tcp-rr\"\n[options]\ntarget.custom.x = \"1\"\n[custom.x]\nget = [\"true\"]\nset = [\"true\"]";
        assert_eq!(needs_of(program, &[]), [Need::Programs, setting("target.custom.x")]);
    }
}
