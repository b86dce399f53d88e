//! The first page: what runs, and what was measured last.

use anyhow::Result;
use linerate_results::store::StoreError;
use maud::html;

use super::super::Lab;
use super::super::request::WebRequest;
use super::campaigns::latest;
use super::{View, ViewReply, running};
use crate::render::answer::Answer;

/// The most campaigns that are listed.
const LATEST: u32 = 8;

pub(super) fn overview(lab: &Lab, _: &WebRequest) -> Result<ViewReply> {
    let answer = match lab.store() {
        Ok(store) => {
            let (mut campaigns, _) = store.campaigns(None, Some(LATEST))?;
            campaigns.reverse();
            let ids: Vec<&str> = campaigns.iter().map(|one| one.campaign.id.as_str()).collect();
            latest(&campaigns, store.digits_of_campaigns(&ids)?)
        }
        // Nothing was measured yet.
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::NoRecords(_))) => Answer::said(
            "Nothing was measured yet: linerate run tcp --target ENDPOINT, or a plan that is started here.",
        ),
        Err(error) => return Err(error),
    };
    let above = html! {
        h2 { "What runs" }
        (running::table(lab))
        h2 { "The latest campaigns" }
    };
    View::new("Overview", answer).above(above).shown()
}
