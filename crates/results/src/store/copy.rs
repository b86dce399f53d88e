//! Records from one store to another, each once: an offline lab's to its team's, and back.
//! Knows no engine. What is copied is the text of each record, byte for byte.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::Value;

use super::{Store, StoreError, said};
use crate::select::Filter;

/// Records in one transaction: what a copy that is broken off loses at most, to be copied again.
const BATCH: usize = 500;

/// What became of a copy.
#[derive(Debug, Default)]
pub struct Copied {
    /// Records that the other store did not have.
    pub records: u64,
    /// Records that it had, and that are the same there.
    pub already: u64,
    /// Why not, of each that cannot be read here.
    pub unreadable: Vec<StoreError>,
}

impl Store {
    /// Gives another store those of the wanted records, and of their campaigns, that it lacks. A record that is another one there
    /// is an error, before anything of its batch is written; whatever was copied before stays, and a second try goes on. One that cannot be read stays where it
    /// is, and all others are copied.
    pub fn copy_to(&self, other: &mut Store, wanted: &Filter) -> Result<Copied, StoreError> {
        let (ids, unreadable) = self.identified(wanted)?;
        let reader = self.reader()?;
        let mut done = Copied { unreadable, ..Copied::default() };
        let mut campaigns = BTreeSet::new();
        for batch in ids.chunks(BATCH) {
            let ours = self.digests(batch)?;
            let theirs = other.those_that_are_the_same(&ours, batch)?;
            let missing = batch.iter().filter(|id| !theirs.contains_key(*id));
            let known = done.unreadable.len();
            let missing = missing.filter_map(|id| reader.if_readable(id, &mut done.unreadable).transpose());
            let missing: Vec<_> = missing.collect::<Result<_, _>>()?;
            if !missing.is_empty() {
                other.make()?;
            }
            let unreadable = done.unreadable.len() - known;
            for campaign in missing.iter().map(|(record, _)| record.campaign.as_str()) {
                if campaigns.insert(campaign.to_owned()) {
                    self.copy_campaign(campaign, other, &mut done.unreadable)?;
                }
            }
            let insert = || other.insert_all(&missing);
            let added = other.database.transaction(insert).map_err(|error| said(&other.path, error))?;
            if added < missing.len() as u64 {
                // Somebody else was quicker with some of them.
                other.those_that_are_the_same(&ours, batch)?;
            }
            done.records += added;
            done.already += (batch.len() - unreadable) as u64 - added;
        }
        // Those that have ended since they were copied.
        for campaign in ids_of_campaigns(self, &ids)?.difference(&campaigns) {
            self.copy_campaign(campaign, other, &mut done.unreadable)?;
        }
        Ok(done)
    }

    /// One that cannot be read stays where it is; why not goes to the others.
    fn copy_campaign(&self, id: &str, other: &mut Store, unreadable: &mut Vec<StoreError>) -> Result<(), StoreError> {
        let ours = match self.campaign(id) {
            Err(why @ StoreError::Unreadable { .. }) => {
                unreadable.push(why);
                return Ok(());
            }
            ours => ours?,
        };
        let Some(ours) = ours else { return Ok(()) };
        match (other.campaign(id)?, &ours.finished_at) {
            (None, _) => other.campaign_begin(&ours),
            (Some(theirs), Some(finished_at)) if theirs.finished_at.is_none() => other.campaign_finish(id, finished_at),
            _ => Ok(()),
        }
    }

    /// The digests of those of a batch that are here. One that has another digest is an error.
    fn those_that_are_the_same(
        &self,
        theirs: &BTreeMap<String, String>,
        batch: &[String],
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let ours = self.digests(batch)?;
        match ours.iter().find(|(id, digest)| theirs.get(*id) != Some(digest)) {
            Some((id, _)) => Err(StoreError::Differs { id: id.clone(), path: self.path.clone() }),
            None => Ok(ours),
        }
    }

    /// The digest of each record's text, by identifier, of those of a batch that are here.
    fn digests(&self, batch: &[String]) -> Result<BTreeMap<String, String>, StoreError> {
        self.fill()?;
        let sql = "SELECT record, digest FROM figures WHERE record IN (SELECT value FROM json_each(?1))";
        let ids = Value::Text(serde_json::json!(batch).to_string());
        Ok(self.rows(sql, vec![ids], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
    }
}

fn ids_of_campaigns(store: &Store, ids: &[String]) -> Result<BTreeSet<String>, StoreError> {
    let mut all = BTreeSet::new();
    for batch in ids.chunks(BATCH) {
        let sql = "SELECT DISTINCT campaign FROM records WHERE id IN (SELECT value FROM json_each(?1))";
        all.extend(store.ids(sql, vec![Value::Text(serde_json::json!(batch).to_string())])?.0);
    }
    Ok(all)
}
