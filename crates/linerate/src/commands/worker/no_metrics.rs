//! Without the feature `web` nobody scrapes a worker, and nothing is counted for it.

use anyhow::Result;
use linerate_work::{CampaignEnd, Nats, Worker};

use crate::cli::WorkerArgs;

/// Nothing.
pub(super) struct Metrics;

impl Metrics {
    pub(super) fn begin(_: &WorkerArgs, _: bool) -> Result<Metrics> {
        Ok(Metrics)
    }

    pub(super) fn begun(&self) {}

    pub(super) fn came(&self, _: &CampaignEnd, _: u64) {}

    pub(super) fn stands(&self, _: &Worker, _: &Nats, _: usize, _: u64) {}
}
