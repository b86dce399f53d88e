//! Records that nobody measured, as a campaign in a test's store.

use linerate_results::record::Record;
use linerate_results::store::{Campaign, Store};

/// Keeps the records as a campaign of their own, the `number`th of the store, and gives them the identifiers that they have there.
pub fn keep(store: &mut Store, number: u64, records: &mut [Record]) {
    let campaign = format!("{number:026}");
    store
        .campaign_begin(&Campaign {
            id: campaign.clone(),
            plan: "example".to_owned(),
            plan_text: String::new(),
            target: "ssh:root@board".to_owned(),
            host: "local".to_owned(),
            started_at: format!("2026-11-2{number}T03:00:00Z"),
            planned: records.len() as u32,
            finished_at: None,
        })
        .unwrap();
    for (index, record) in (0_u32..).zip(records) {
        record.id = format!("{number:013}{index:013}");
        (record.campaign, record.trial.index) = (campaign.clone(), index);
        store.insert(record).unwrap();
    }
}
