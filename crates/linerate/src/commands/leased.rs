//! A campaign under a lease: a worker has started it, and it measures for no longer than it hears that the bench is still the worker's.
//! Knows no queue; what renews the lease is a line on standard input.

use std::io::{BufRead, stdin};
use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::{Result, bail};
use linerate_host::sys::signals::ask_to_end;
use linerate_results::store::Store;

use super::event_lines::EventLines;
use super::plan_request::{OwnedOrder, PlanRequest};
use crate::cli::{Lease, LeasedArgs};
use crate::measure::events::CampaignEvent;

/// As Ctrl-C's.
pub(super) const STATUS: i32 = 130;
/// Of a campaign whose store fails, whatever is kept in it: EX_IOERR of sysexits.h(3head).
pub(super) const STORE_STATUS: u8 = 74;

/// From now on this process ends when nothing has come on standard input for so long, or it has ended: the worker is dead, or
/// has lost the bench, or does not get on itself.
pub(super) fn obey(lease: &Lease) {
    let alone = lease.alone;
    let (heard, renewed) = sync_channel(1);
    thread::spawn(move || {
        let mut lines = stdin().lock();
        let mut line = Vec::new();
        // One that waits to be seen already is enough.
        while let Ok(1..) = lines.read_until(b'\n', &mut line) {
            let _ = heard.try_send(());
            line.clear();
        }
    });
    thread::spawn(move || {
        while renewed.recv_timeout(alone) == Ok(()) {}
        ask_to_end(std::process::id());
        // Settings are put back by then, or by the agents a moment later; the lease is still the worker's.
        thread::sleep(alone / 4);
        std::process::exit(STATUS);
    });
}
/// The order with the identifier that the worker gave, or the campaign of it to carry on; `None`: it was finished before.
pub(super) fn begun(
    arguments: &LeasedArgs,
    mut order: OwnedOrder,
    wanted: &PlanRequest,
    store: &Store,
    events: &EventLines,
) -> Result<Option<OwnedOrder>> {
    let Some(id) = &arguments.campaign else { return Ok(Some(order)) };
    if !linerate_results::id::is_id(id) {
        bail!("--campaign: '{id}' is not an identifier");
    }
    let Some(campaign) = store.campaign(id)? else {
        order.id = Some(id.clone());
        return Ok(Some(order));
    };
    if *wanted != serde_json::from_str::<PlanRequest>(&campaign.plan_text)? {
        bail!(
            "the campaign {id} in {} was begun with another plan or other options; submit the job anew",
            store.path().display()
        );
    }
    if campaign.finished_at.is_some() {
        let (records, unreadable) = store.records_of(id)?;
        let failed = records.iter().filter(|record| record.error.is_some()).count() + unreadable.len();
        events.hear(&CampaignEvent::Ended { failed: Some(failed), not_put_back: 0, error: None });
        return Ok(None);
    }
    order.resume = Some(campaign);
    Ok(Some(order))
}
