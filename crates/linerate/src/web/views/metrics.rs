//! What a scraper reads, from the store and from what was started here: no machine is asked.

use anyhow::Result;
use linerate_results::store::StoreError;

use super::super::Lab;
use super::super::reply::Reply;
use super::super::request::WebRequest;
use super::{ViewReply, plain, refused, status_of};
use crate::render::metrics::{Exposition, families};

/// A scraper gets no HTML page, not even of an error; and an error is the server's (5xx), for the request has no parameters.
pub(super) fn metrics(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    scraped(lab, asked).or_else(|error| {
        let status = status_of(&error).max(500);
        Ok(ViewReply::Raw(Reply::said(status, &plain(&format!("{error:#}")))))
    })
}

fn scraped(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let Some(mut tally) = lab.tally.try_lock() else {
        return Err(refused(503, "The store is being read for another scraper; ask again in a moment."));
    };
    let campaigns = match lab.store() {
        Ok(store) => {
            tally.follow(&store)?;
            store.count_campaigns()?
        }
        // Nothing was measured yet, or somebody has taken it away.
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::NoRecords(_))) => {
            tally.clear();
            [0, 0]
        }
        Err(error) => return Err(error),
    };
    let version = env!("CARGO_PKG_VERSION");
    let scraped = Exposition { tally: &tally, campaigns, not_put_back: lab.runs.not_put_back(), version };
    Ok(ViewReply::Raw(Reply::scraped(families(&scraped), asked.reads_openmetrics)))
}
