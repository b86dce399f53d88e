//! Which records are meant, as a person writes it in every command: `last`, `last~1`, a plan's name, the beginning of an
//! identifier, and then `:NAME=VALUE,NAME=VALUE`.
//! Knows the words; the store knows the records.

use std::collections::BTreeSet;
use std::time::SystemTime;

use anyhow::{Result, anyhow, bail};
use linerate_machine::printable::in_line;
use linerate_machine::units::parse_duration;
use linerate_results::observation::Observation;
use linerate_results::record::Record;
use linerate_results::select::{Filter, Selection};
use linerate_results::store::{LONGEST_ID, Store, StoreEntry, StoreError};
use linerate_trial::options;

use super::without;
use crate::output::say;

/// What the words pick, checked as far as it can be without records.
pub(crate) fn selection(store: &Store, words: &str) -> Result<Selection> {
    let (name, levels) = words.split_once(':').unwrap_or((words, ""));
    if name.is_empty() && levels.is_empty() {
        bail!("'{words}' picks nothing; write a campaign, like last, or :NAME=VALUE for records of all campaigns");
    }
    let mut selection = named(store, name)?;
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
            // As records have it: 1024K is 1M.
            _ => {
                let value = options::canonical(name, value).unwrap_or_else(|_| value.to_owned());
                selection.levels.push((name.to_owned(), value));
            }
        }
    }
    Ok(selection)
}

/// The campaign or the record of this name; of an empty one, all.
pub(crate) fn named(store: &Store, name: &str) -> Result<Selection> {
    if name.is_empty() {
        return Ok(Selection::default());
    }
    let (name, back) = match name.rsplit_once('~') {
        Some((before, back)) => match back.parse() {
            Ok(back) => (before, back),
            Err(_) => bail!("'{name}' picks nothing; behind ~ stands how many campaigns before, like last~1"),
        },
        None => (name, 0),
    };
    Ok(match store.called(name, back)? {
        StoreEntry::Campaign(id) => Selection { campaign: Some(id), ..Selection::default() },
        StoreEntry::Record(id) => Selection { record: Some(id), ..Selection::default() },
    })
}

/// A time, a day, or an age, as milliseconds since 1970.
pub(crate) fn unix_ms(text: &str) -> Result<u64> {
    if let Ok(age) = parse_duration(text) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return Ok(now.saturating_sub(age).as_millis() as u64);
    }
    let whole = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    match whole.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(u64::try_from(time.as_millisecond()).unwrap_or(0)),
        Err(_) => bail!("'{text}' is not a time; write 2026-11-21, 2026-11-21T08:00:00Z, or an age like 2h"),
    }
}

/// The observations that these words pick; an error that says what there is where there are none.
pub(super) fn observations(store: &Store, words: &str, selection: &Selection) -> Result<Vec<Observation>> {
    let found = store.observations(selection)?;
    if found.is_empty() {
        if let Some(why) = unread(store, words, selection)? {
            bail!("{why}");
        }
        why_none(store, words, selection)?;
    }
    Ok(found)
}

/// What is missing of what these words pick, because it cannot be read.
pub(super) fn unread(store: &Store, words: &str, selection: &Selection) -> Result<Option<String>> {
    let unread = store.unread(selection)?;
    let Some(first) = unread.first() else { return Ok(None) };
    let them = if unread.len() == 1 { "one record".to_owned() } else { format!("{} records", unread.len()) };
    let first = in_line(first, LONGEST_ID);
    Ok(Some(format!("{them} of '{words}' cannot be read: 'linerate records show {first}' says why")))
}

/// The same as a filter of lists.
pub(crate) fn filter(store: &Store, words: &str) -> Result<Filter> {
    filter_of_newest(store, words, usize::MAX)
}

/// The same, for a list that shows the newest `most` of them and no others.
pub(crate) fn filter_of_newest(store: &Store, words: &str, most: usize) -> Result<Filter> {
    let wanted = selection(store, words)?;
    let among = match wanted.levels.as_slice() {
        [] => None,
        _ => Some(store.wanted(&wanted, most)?),
    };
    let Selection { campaign, record, since_ms, until_ms, .. } = wanted.clone();
    let filter = Filter { campaign, record, among, since_ms, until_ms, ..Filter::default() };
    let is_empty = match &filter.among {
        Some(found) => found.is_empty(),
        None => store.identifiers(&Filter { limit: Some(1), ..filter.clone() })?.is_empty(),
    };
    // Words that pick nothing are a mistake in lists too; filters beside them that leave nothing are none.
    if is_empty {
        why_none(store, words, &wanted)?;
    }
    Ok(filter)
}

/// The one record that a command works on: of several, the newest, and a line that says so.
pub(super) fn one_record(store: &Store, words: &str) -> Result<Record> {
    let (listed, unreadable) = store.list(&filter(store, words)?)?;
    let Some(newest) = listed.last() else {
        return Err(unreadable.into_iter().next().map_or_else(|| anyhow!(no_records(words)), anyhow::Error::from));
    };
    // One of them may be newer.
    without(&unreadable);
    if listed.len() > 1 {
        let other = listed.iter().rev().find_map(|one| {
            let mut levels = one.factors.iter();
            levels.find(|(name, level)| newest.factors.get(*name).is_some_and(|its| its != *level))
        });
        let joint = if words.contains(':') { ',' } else { ':' };
        let example = other.map(|(name, level)| format!("'{words}{joint}{name}={level}' or ")).unwrap_or_default();
        say(format_args!(
            "linerate: '{words}' picks {} records, and this is the newest, {}; {example}an identifier that 'linerate \
             records list' shows picks another",
            listed.len(),
            newest.id
        ));
    }
    Ok(store.record(&newest.id)?)
}

/// All that these words pick, oldest first, in brief. Why not, of each that cannot be read, goes to the others of which that is known;
/// an error where none can be.
pub(crate) fn records(store: &Store, words: &str, unreadable: &mut Vec<StoreError>) -> Result<Vec<Record>> {
    let (found, why) = store.select_in_brief(&filter(store, words)?)?;
    for one in why {
        if found.is_empty() {
            return Err(one.into());
        }
        // Words may pick a record that others have picked already.
        if !unreadable.iter().any(|known| known.to_string() == one.to_string()) {
            unreadable.push(one);
        }
    }
    if found.is_empty() {
        bail!(no_records(words));
    }
    Ok(found)
}

/// The identifiers of all that these words pick, oldest first.
pub(crate) fn identifiers(store: &Store, words: &str) -> Result<Vec<String>> {
    let found = store.identifiers(&filter(store, words)?)?;
    if found.is_empty() {
        bail!(no_records(words));
    }
    Ok(found)
}

fn no_records(words: &str) -> String {
    format!("'{words}' picks no records; 'linerate records list' shows what there is")
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
            let machine = format!("{name}.endpoint");
            if all.iter().any(|one| one.around.get(&machine).is_some()) {
                bail!("'{words}' picks no records: none has a {name}; did you mean {machine}={value}?");
            }
            let mut names: BTreeSet<&str> = BTreeSet::new();
            all.iter().for_each(|one| names.extend(one.around.asked.factors.keys().map(String::as_str)));
            let names: Vec<&str> = names.into_iter().collect();
            if names.is_empty() {
                bail!("'{words}' picks no records: none has a {name}, and they have no factors");
            }
            bail!("'{words}' picks no records: none has a {name}; their factors are {}", names.join(", "));
        }
        let shown: Vec<&str> = values.into_iter().take(20).collect();
        bail!("'{words}' picks no records: none has {name}={value}; choose from {}", shown.join(", "));
    }
    match selection.levels.as_slice() {
        [_, _, ..] if !all.is_empty() => bail!("'{words}' picks no records: none has all of these at once"),
        _ => bail!(no_records(words)),
    }
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
    let Some([campaign, plan]) = store.last_campaign()?.filter(|_| !is_named) else { return Ok(selection) };
    let mut narrowed = selection.clone();
    narrowed.levels.push(("plan".to_owned(), plan));
    // The plan's last campaign mostly has some, and is read at once where all records are not.
    let of_last = Selection { campaign: Some(campaign), ..narrowed.clone() };
    let has_some = !store.observations(&of_last)?.is_empty() || !store.observations(&narrowed)?.is_empty();
    Ok(if has_some { narrowed } else { selection })
}
