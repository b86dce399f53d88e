//! Which records make a side of a comparison, as a person writes it: `CAMPAIGN:NAME=VALUE,NAME=VALUE`.
//! Knows the words; the store knows the records.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use linerate_results::observation::Observation;
use linerate_results::select::Selection;
use linerate_results::store::Store;

use super::records::unix_ms;

/// What the words pick, checked as far as it can be without records.
pub(super) fn selection(store: &Store, words: &str) -> Result<Selection> {
    let (campaign, levels) = match words.split_once(':') {
        Some((campaign, levels)) => (campaign, levels),
        None => (words, ""),
    };
    if campaign.is_empty() && levels.is_empty() {
        bail!("'{words}' picks nothing; write a campaign, or :NAME=VALUE for records of all campaigns");
    }
    let mut selection = Selection::default();
    if !campaign.is_empty() {
        selection.campaign = Some(store.campaign_called(campaign)?);
    }
    for level in levels.split(',').filter(|level| !level.is_empty()) {
        let (name, value) = match level.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => (name.trim(), value.trim()),
            _ => bail!("'{level}' in '{words}' picks nothing; write NAME=VALUE, like direction=tx"),
        };
        match name {
            "since" => selection.since_ms = Some(unix_ms(value)?),
            "until" => selection.until_ms = Some(unix_ms(value)?),
            _ if selection.levels.iter().any(|(other, _)| other == name) => {
                bail!("'{words}' picks {name} twice; one value of each is enough")
            }
            _ => selection.levels.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok(selection)
}

/// The observations that these words pick; an error that says what there is where there are none.
pub(super) fn observations(store: &Store, words: &str, selection: &Selection) -> Result<Vec<Observation>> {
    let found = store.observations(selection)?;
    if !found.is_empty() {
        return Ok(found);
    }
    why_none(store, words, selection)?;
    bail!("'{words}' picks no records; 'linerate records list' shows what there is")
}

/// An error that says which of the words picks nothing, and what it could have picked.
pub(super) fn why_none(store: &Store, words: &str, selection: &Selection) -> Result<()> {
    let without = Selection { levels: Vec::new(), ..selection.clone() };
    let all = store.observations(&without)?;
    for (name, value) in &selection.levels {
        let values: BTreeSet<&str> = all.iter().filter_map(|one| one.around.get(name)).collect();
        if values.contains(value.as_str()) || all.is_empty() {
            continue;
        }
        if values.is_empty() {
            let mut names: BTreeSet<&str> = BTreeSet::new();
            all.iter().for_each(|one| names.extend(one.around.asked.factors.keys().map(String::as_str)));
            let names: Vec<&str> = names.into_iter().collect();
            bail!("'{words}' picks no records: none has a {name}; their factors are {}", names.join(", "));
        }
        let shown: Vec<&str> = values.into_iter().take(20).collect();
        bail!("'{words}' picks no records: none has {name}={value}; there are {}", shown.join(", "));
    }
    Ok(())
}

/// What the two sides are told apart by: every name whose value the two selections give differently.
pub(super) fn compared(baseline: &Selection, candidate: &Selection) -> Vec<String> {
    let value = |side: &Selection, name: &str| {
        side.levels.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    let names: BTreeSet<&String> = baseline.levels.iter().chain(&candidate.levels).map(|(name, _)| name).collect();
    names.into_iter().filter(|name| value(baseline, name) != value(candidate, name)).cloned().collect()
}

/// The same of the last plan that ran, where it names neither campaign nor plan and that plan has such records: what plans
/// have in common seldom belongs together.
pub(super) fn of_last_plan(store: &Store, selection: Selection) -> Result<Selection> {
    let is_named = selection.campaign.is_some() || selection.levels.iter().any(|(name, _)| name == "plan");
    let Some(last) = store.latest_campaign()?.filter(|_| !is_named) else { return Ok(selection) };
    let mut narrowed = selection.clone();
    narrowed.levels.push(("plan".to_owned(), last.plan));
    Ok(if store.observations(&narrowed)?.is_empty() { selection } else { narrowed })
}
