//! Where a record goes that its store on a server does not take: into the usual store of this machine, until somebody pushes it.
//! Knows nothing of trials.

use std::path::Path;

use linerate_results::record::Record;
use linerate_results::store::{Campaign, Store, StoreError, is_url};

use super::campaign::CampaignError;
use crate::usual_store;

/// The end of a campaign whose store did not take this record, for this reason.
pub(super) fn kept_here(why: StoreError, store: &Path, campaign: &Campaign, record: &Record) -> CampaignError {
    let (url, id) = (store.display().to_string(), record.id.clone());
    if !is_url(&url) {
        return why.into();
    }
    let why = Box::new(why);
    match keep(campaign, record) {
        Ok(path) => CampaignError::KeptHere { why, url, id, path },
        Err(error) => CampaignError::NotKept { why, id, error: error.to_string() },
    }
}

fn keep(campaign: &Campaign, record: &Record) -> anyhow::Result<String> {
    let path = usual_store::path()?;
    let mut store = Store::open_to_keep(&path, true)?;
    if store.campaign(&campaign.id)?.is_none() {
        store.campaign_begin(campaign)?;
    }
    store.insert(record)?;
    Ok(path.display().to_string())
}
