//! Where a record goes that its store on a server does not take: into the usual store of this machine, until somebody pushes it.

use linerate_results::record::Record;
use linerate_results::store::{Campaign, Store};

use crate::default_store;

/// Keeps the record, with its campaign; the store's file.
pub(super) fn keep_here(campaign: &Campaign, record: &Record) -> anyhow::Result<String> {
    let path = default_store::path()?;
    let mut store = Store::open_to_keep(&path, true)?;
    if store.campaign(&campaign.id)?.is_none() {
        store.campaign_begin(campaign)?;
    }
    store.insert(record)?;
    Ok(path.display().to_string())
}
