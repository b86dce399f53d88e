//! What a run carries out: a plan with what was changed in it, its trials, and the campaign that it goes on with.

use anyhow::{Result, bail};
use linerate_machine::end::Party;
use linerate_plan::{Changes, Plan, PlannedTrial, expected};
use linerate_results::store::Campaign;
use serde::{Deserialize, Serialize};

use crate::measure::campaign::Order;
use crate::measure::middle::AskedMiddle;
use crate::render::records::Parts;
use crate::render::report::Expected;

/// A plan and all that was changed in it: what a later process needs to carry on with the same trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) source: String,
    #[serde(flatten)]
    pub(crate) changes: Changes,
    /// Its configurations were searched for the most that they carry, by these words of `linerate search`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) search: Vec<String>,
    /// The machine between the two ends, as it was said on the command line: without it, or with another, it would be another campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) middle: Option<String>,
}

/// An order that owns its plan.
pub(crate) struct OwnedOrder {
    pub(crate) plan: Plan,
    pub(super) trials: Vec<PlannedTrial>,
    pub(super) changes: Changes,
    pub(super) plan_text: String,
    pub(super) resume: Option<Campaign>,
    /// The identifier of a new campaign, where somebody else has chosen it.
    pub(super) id: Option<String>,
}

impl OwnedOrder {
    /// Its trials, which something else decides about: none are left.
    pub(crate) fn take_trials(&mut self) -> Vec<PlannedTrial> {
        std::mem::take(&mut self.trials)
    }

    /// Its trials.
    #[cfg(feature = "web")]
    pub(crate) fn trials(&self) -> &[PlannedTrial] {
        &self.trials
    }

    /// The levels of a factor, in the plan's order.
    pub(crate) fn levels_of(&self, factor: &str) -> Vec<String> {
        let factors = self.plan.parts.iter().flat_map(|part| &part.factors);
        factors.filter(|(name, _)| name == factor).flat_map(|(_, levels)| levels.clone()).collect()
    }

    /// Which part each configuration is of, and its title.
    pub(super) fn parts(&self) -> Parts {
        let title = |part: usize| self.plan.parts.get(part).and_then(|part| part.title.clone());
        self.trials.iter().map(|trial| (trial.configuration, (trial.part, title(trial.part)))).collect()
    }

    /// What is expected of which configurations, as a report keeps it.
    pub(super) fn expected(&self) -> Vec<Expected> {
        let all = expected(&self.plan, &self.changes, &self.trials).into_iter();
        let of = |trials: Vec<&PlannedTrial>| trials.into_iter().map(|trial| trial.configuration).collect();
        all.map(|(one, trials)| Expected { text: one.to_string(), configurations: of(trials) }).collect()
    }

    /// The order as a campaign takes it.
    pub(crate) fn borrow(&self) -> Order<'_> {
        Order {
            plan: &self.plan,
            trials: self.trials.clone(),
            changes: self.changes.clone(),
            plan_text: self.plan_text.clone(),
            resume: self.resume.clone(),
            id: self.id.clone(),
        }
    }
}

impl Wanted {
    /// What a plan's campaign carries out.
    pub(crate) fn of(plan: &Plan, changes: Changes, middle: Option<&AskedMiddle>) -> Wanted {
        let middle = middle.map(AskedMiddle::to_string);
        Wanted { name: plan.name.clone(), source: plan.source.clone(), changes, search: Vec::new(), middle }
    }

    /// Why a campaign that these words began is not carried on by those that ask for it now.
    pub(super) fn check_same_middle(&self, begun: &Wanted) -> Result<()> {
        match (&begun.middle, &self.middle) {
            (begun, now) if begun == now => Ok(()),
            (Some(begun), _) => bail!(
                "the unfinished campaign was begun with {begun}; say the same to carry it on, or leave --resume out to begin \
                 another"
            ),
            (None, _) => bail!(
                "the unfinished campaign knew of no machine between the two ends; leave --middle out to carry it on, or \
                 --resume to begin another"
            ),
        }
    }

    /// As a campaign in the store has it.
    #[cfg(feature = "web")]
    pub(crate) fn read(text: &str) -> Result<Wanted> {
        Ok(serde_json::from_str(text)?)
    }

    #[cfg(feature = "web")]
    pub(crate) fn is_search(&self) -> bool {
        !self.search.is_empty()
    }

    /// A new campaign of it.
    pub(crate) fn begin(&self) -> Result<OwnedOrder> {
        let plan = Plan::parse(&self.source, &self.name, &self.name)?;
        let trials = plan.trials_of(&self.changes)?;
        let (changes, plan_text) = (self.changes.clone(), serde_json::to_string(self)?);
        Ok(OwnedOrder { plan, trials, changes, plan_text, resume: None, id: None })
    }
}

/// Settings of a machine between the two that nobody named.
pub(super) fn check_middle(is_there: bool, trials: &[PlannedTrial]) -> Result<()> {
    let of_middle = trials.iter().flat_map(|trial| &trial.settings).find(|one| one.end == Party::Middle);
    match of_middle.filter(|_| !is_there) {
        None => Ok(()),
        Some(one) => bail!(
            "middle.{} is a setting of the machine between the two ends, and none is named; give --middle ENDPOINT",
            one.change.name
        ),
    }
}
