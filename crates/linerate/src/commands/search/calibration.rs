//! What the tester itself carries, as the calibrations in the store have it: those of the same machines.
//! Knows no trials; what a calibration says of some traffic, `results::search` knows.

use anyhow::Result;
use linerate_control::Endpoint;
use linerate_machine::end::PerEnd;
use linerate_plan::PlannedTrial;
use linerate_results::record::Record;
use linerate_results::search::SearchAsked;
use linerate_results::search::calibration::{CALIBRATION, limit_bps};
use linerate_results::store::{Campaign, Store};
use linerate_trial::spec::Spec;

use crate::output::say;

/// So many of the last ones are looked at.
const LAST: u32 = 50;

/// The calibrations between two machines, the newest first.
pub(super) struct Calibrations(Vec<(String, Vec<Record>)>);

impl Calibrations {
    /// Nothing is known of the tester.
    pub(super) const NONE: Calibrations = Calibrations(Vec::new());

    /// Those in the store. One of which a record cannot be read is none: what is left of it may say less than it did.
    pub(super) fn between(ends: &PerEnd<Endpoint>, store: &Store) -> Result<Calibrations> {
        let (target, host) = (ends.target.to_string(), ends.host.to_string());
        let campaigns = store.campaigns(Some(CALIBRATION), Some(LAST))?.0.into_iter().rev();
        let of_these = campaigns.map(|summary| summary.campaign).filter(|one| one.target == target && one.host == host);
        let mut found = Vec::new();
        for Campaign { id, .. } in of_these {
            let (records, unreadable) = store.records_of(&id)?;
            match unreadable.first() {
                Some(why) => say(format_args!("linerate: the calibration {id} is left out: {why}")),
                None => found.push((id, records)),
            }
        }
        Ok(Calibrations(found))
    }

    /// The newest one that was of traffic like this: its campaign, and the most that the tester carries, bits per second in
    /// each direction.
    pub(super) fn of(&self, like: &Spec) -> Option<(String, f64)> {
        self.0.iter().find_map(|(campaign, records)| Some((campaign.clone(), limit_bps(records, like)?)))
    }
}

/// A search that is carried on has the limit that it began with.
pub(super) fn as_begun(asked: &mut [(PlannedTrial, SearchAsked)], records: &[Record]) {
    for place in records.iter().filter_map(|record| record.trial.search.as_deref()) {
        if let Some((_, asked)) = asked.get_mut(place.number as usize).filter(|_| place.asked.calibration.is_some()) {
            (asked.tester_limit_bps, asked.calibration) =
                (place.asked.tester_limit_bps, place.asked.calibration.clone());
        }
    }
}
