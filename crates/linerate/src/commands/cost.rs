//! `linerate cost`: what a packet and a byte cost a machine's CPUs, from a campaign of several sizes.
//! Knows the campaign; the fit is `results::cost`, the words are `render::cost`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use linerate_results::cost;

use super::selection::records;
use super::{open_store, width, without};
use crate::cli::{CostArgs, SharedArgs, TableArgs};
use crate::output::{data, out};
use crate::render;

/// Fits and shows each configuration's cost. The status is 1 where no fit is good, and 2 where a record could not be read.
pub(crate) fn cost(arguments: &CostArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let store = open_store(shared)?;
    let words = &arguments.selection;
    let mut unreadable = Vec::new();
    let mut records = records(&store, words, &mut unreadable)?;
    let campaign = records[0].campaign.clone();
    if records.iter().any(|record| record.campaign != campaign) {
        bail!("'{words}' picks records of several campaigns; a cost is fitted over one, like last:direction=tx");
    }
    records.sort_by_key(|record| record.trial.index);
    let costs = cost::costs(&records);
    if costs.is_empty() {
        bail!(
            "'{words}' has no CPU time by packet; measure streams of several sizes, as linerate run packet-cost does"
        );
    }
    match arguments.output {
        TableArgs { json: true, .. } => data!("{}", render::cost::json(&campaign, &costs)),
        TableArgs { csv: true, .. } => data!("{}", render::cost::csv(&costs)),
        TableArgs { markdown: true, .. } => out!("{}", render::cost::answer(&costs).markdown()),
        _ => out!("{}", render::cost::answer(&costs).text(width())),
    }
    Ok(match without(&unreadable) {
        ExitCode::SUCCESS if costs.iter().all(|cost| cost.fit.is_none()) => ExitCode::from(1),
        status => status,
    })
}
