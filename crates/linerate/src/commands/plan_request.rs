//! What a run carries out: a plan with what was changed in it, its trials, and the campaign that it goes on with.

use anyhow::{Result, bail};
use linerate_control::Endpoint;
use linerate_machine::end::{Party, PerEnd};
use linerate_plan::{Changes, Plan, PlannedTrial, expected};
use linerate_results::store::{Campaign, Store, StoreEntry};
use linerate_trial::options;
use serde::{Deserialize, Serialize};

use crate::measure::campaign::Order;
use crate::measure::middle::{AskedMiddle, GivenPorts};
use crate::render::records::Parts;
use crate::render::report::Expected;

/// A plan and all that was changed in it: what a later process needs to carry on with the same trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanRequest {
    pub(crate) name: String,
    pub(crate) source: String,
    #[serde(flatten)]
    pub(crate) changes: Changes,
    /// Its configurations were searched for the most that they carry, by these words of `linerate search`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) search: Vec<String>,
    /// The machine between the two ends, as it was said on the command line: without it, or with another, it would be another campaign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) middle: Option<PlannedMiddle>,
}

/// The machine between the two ends, and its interfaces on the way, as they were said on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedMiddle {
    pub(crate) endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interfaces: Option<PerEnd<String>>,
}

impl PlannedMiddle {
    fn of(asked: &AskedMiddle) -> PlannedMiddle {
        let interfaces = asked.interfaces.clone().map(|GivenPorts(ports)| ports);
        PlannedMiddle { endpoint: asked.endpoint.to_string(), interfaces }
    }

    /// The options of the command line, each with its value.
    pub(crate) fn options(&self) -> impl Iterator<Item = (&'static str, String)> {
        let interfaces = self.interfaces.as_ref().map(|ports| format!("{},{}", ports.target, ports.host));
        std::iter::once(("--middle", self.endpoint.clone()))
            .chain(interfaces.map(|ports| ("--middle-interfaces", ports)))
    }
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

impl PlanRequest {
    /// What a plan's campaign carries out.
    pub(crate) fn of(plan: &Plan, changes: Changes, middle: Option<&AskedMiddle>) -> PlanRequest {
        let middle = middle.map(PlannedMiddle::of);
        PlanRequest { name: plan.name.clone(), source: plan.source.clone(), changes, search: Vec::new(), middle }
    }

    /// Why a campaign that these words began is not carried on by those that ask for it now.
    pub(super) fn check_same_middle(&self, begun: &PlanRequest) -> Result<()> {
        match (&begun.middle, &self.middle) {
            (begun, now) if begun == now => Ok(()),
            (Some(begun), _) => bail!(
                "the unfinished campaign was begun with {}; say the same to carry it on, or leave --resume out to begin \
                 another",
                begun.options().map(|(option, value)| format!("{option} {value}")).collect::<Vec<_>>().join(" ")
            ),
            (None, _) => bail!(
                "the unfinished campaign knew of no machine between the two ends; leave --middle out to carry it on, or \
                 --resume to begin another"
            ),
        }
    }

    /// As a campaign in the store has it.
    #[cfg(feature = "web")]
    pub(crate) fn read(text: &str) -> Result<PlanRequest> {
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

/// Options that do nothing in any trial of this run that takes them: their user would believe that figures were taken with them.
pub(crate) fn check_idle(trials: &[PlannedTrial]) -> Result<()> {
    let takes = |trial: &PlannedTrial, name: &str| {
        options::find(name).is_ok_and(|option| option.applies.to(trial.spec.workload))
    };
    let mut asked: Vec<&str> = Vec::new();
    for rule in trials.iter().flat_map(|trial| trial.spec.idle()) {
        let Some(name) = rule.options.first().copied().filter(|name| !asked.contains(name)) else { continue };
        asked.push(name);
        let does_nothing = |trial: &PlannedTrial| trial.spec.idle().any(|other| other.options.first() == Some(&name));
        if trials.iter().filter(|trial| takes(trial, name)).all(does_nothing) {
            bail!("{}", rule.sentence);
        }
    }
    Ok(())
}

/// The unfinished campaign that is to be carried on: the one that is named, and no other; else the newest of this plan between these
/// ends, if there is one.
pub(super) fn unfinished(
    store: &Store,
    named: Option<&str>,
    plan: &str,
    ends: &PerEnd<Endpoint>,
) -> Result<Option<Campaign>> {
    let (target, host) = (ends.target.to_string(), ends.host.to_string());
    let Some(name) = named else { return Ok(store.latest_unfinished(plan, &target, &host)?) };
    let campaign = named_campaign(store, name)?;
    let id = &campaign.id;
    if campaign.finished_at.is_some() {
        bail!("the campaign {id} is finished, and nothing of it is left to do; leave --resume out to begin another");
    }
    if campaign.plan != plan {
        bail!("the campaign {id} is of the plan {}, and not of {plan}; name that plan to carry it on", campaign.plan);
    }
    if (&campaign.target, &campaign.host) != (&target, &host) {
        bail!(
            "the campaign {id} is between {} and {}, and not between {target} and {host}; give --target and --host as they were \
             to carry it on",
            campaign.target,
            campaign.host
        );
    }
    Ok(Some(campaign))
}

/// The campaign of this identifier, or of the only one that begins so. A whole identifier is never taken for a plan's name.
fn named_campaign(store: &Store, name: &str) -> Result<Campaign> {
    if let Some(campaign) = store.campaign(&name.to_ascii_uppercase())? {
        return Ok(campaign);
    }
    let found = match store.called(name, 0)? {
        StoreEntry::Campaign(id) => store.campaign(&id)?,
        StoreEntry::Record(_) => None,
    };
    let Some(campaign) = found else {
        bail!("--resume: {name} is no campaign; 'linerate records campaigns' lists them");
    };
    Ok(campaign)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_idle_where_no_trial_that_takes_it_does_anything_with_it() {
        let parts = "format = 'linerate.plan/1'\n[[part]]\nworkload = 'udp-stream'\n[[part]]\nworkload = 'tcp-crr'\n";
        let checked = |sets: &[(&str, &str)]| {
            let overrides = sets.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            let plan = Plan::parse(parts, "t.toml", "t").unwrap();
            let trials = plan.trials_of(&Changes { overrides, ..Changes::default() }).unwrap();
            check_idle(&trials).map_err(|error| error.to_string())
        };
        assert!(checked(&[("burst", "4")]).unwrap_err().starts_with("burst does nothing without a limited rate"));
        assert_eq!(checked(&[("burst", "4"), ("rate", "unlimited,10M")]), Ok(()), "one of two levels has it");
        assert_eq!(checked(&[("rate", "10M"), ("first_rate", "20M"), ("first_time", "100ms")]), Ok(()));
    }

    #[test]
    fn a_campaign_that_is_named_is_carried_on_and_no_other() {
        let mut store = Store::in_memory().unwrap();
        let id = |number: u32| format!("{number:013}{number:013}");
        let begun = [(1, "mine"), (2, "mine"), (3, "other"), (4, "mine")];
        for (number, plan) in begun {
            let campaign = Campaign {
                id: id(number),
                plan: plan.to_owned(),
                plan_text: String::new(),
                target: "local".to_owned(),
                host: if number == 4 { "netns:b" } else { "local" }.to_owned(),
                started_at: "2026-11-21T03:00:00Z".to_owned(),
                planned: 2,
                finished_at: None,
            };
            store.campaign_begin(&campaign).unwrap();
        }
        store.campaign_begin(&Campaign { id: id(5), ..store.campaign(&id(2)).unwrap().unwrap() }).unwrap();
        store.campaign_finish(&id(5), "2026-11-21T04:00:00Z").unwrap();
        // A plan of the same name as an identifier is not meant by it.
        store.campaign_begin(&Campaign { id: id(6), plan: id(1), ..store.campaign(&id(2)).unwrap().unwrap() }).unwrap();
        let ends = PerEnd { target: Endpoint::Local, host: Endpoint::Local };
        let found = |named: Option<&str>| unfinished(&store, named, "mine", &ends);
        assert_eq!(found(None).unwrap().unwrap().id, id(2));
        for named in [id(1), id(1)[..13].to_owned()] {
            assert_eq!(found(Some(&named)).unwrap().unwrap().id, id(1));
        }
        for (named, part) in [
            (id(3).as_str(), "is of the plan other, and not of mine"),
            (&id(4), "is between local and netns:b, and not between local and local"),
            (&id(5), "is finished"),
            (&id(9), "no campaign, record or plan"),
            ("000000000000", "campaigns begin with"),
        ] {
            let said = found(Some(named)).unwrap_err().to_string();
            assert!(said.contains(part), "{named}: {said}");
        }
    }
}
