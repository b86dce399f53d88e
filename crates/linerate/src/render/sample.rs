//! Records for the renderers' tests, put together from the examples of `results`.
//! Measured by nobody.

use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_results::sample;
use linerate_trial::doubt::{Doubted, SenderLimit};

/// A sweep of offered load in both directions, in the interleaved order of a campaign.
pub(super) fn sweep() -> Vec<Record> {
    let steps = (1..=20).map(|step| step * 50);
    let mut records: Vec<Record> = steps
        .flat_map(|mbit| {
            let index = mbit / 25;
            // The sender cannot send more than about 900; past 470 the receiver falls.
            let tx = sample::udp(index - 2, Direction::Tx, mbit, f64::from(mbit).min(455.0));
            let rx = sample::udp(
                index - 1,
                Direction::Rx,
                mbit,
                if mbit > 450 { 455.0 - f64::from(mbit - 450) * 0.3 } else { f64::from(mbit) },
            );
            [(tx, 0), (rx, 20)].map(|(mut record, first)| {
                record.trial.configuration = Some(first + mbit / 50);
                record
            })
        })
        .collect();
    for (record, achieved) in records.iter_mut().rev().step_by(2).zip([880, 890]) {
        let (asked_bps, offered_bps) = (1e9, f64::from(achieved) * 1e6);
        record
            .doubts
            .push(Doubted::SenderFellBehind { asked_bps, offered_bps, held_up: Some(SenderLimit::Unknown) }.into());
        let flow = &mut record.result.as_mut().expect("figures").flow;
        flow.achieved_load_bps = Some(f64::from(achieved) * 1e6);
        flow.loss_ratio = flow.throughput_bps.map(|bps| 1.0 - bps / (f64::from(achieved) * 1e6));
    }
    records
}

/// Every workload, both directions at once, a failed trial.
pub(super) fn everything() -> Vec<Record> {
    vec![
        sample::tcp(0, Direction::Tx, 936.41, true),
        sample::tcp(1, Direction::Rx, 8.512, false),
        sample::udp(2, Direction::Rx, 600, 400.0),
        sample::both(3),
        sample::rr(4, "64"),
        sample::rr(5, "1K"),
        sample::failed(6),
        // Nothing at all is known of this one.
        sample::blank(7, linerate_trial::spec::Workload::TcpCrr, Direction::Tx, &[]),
    ]
}

/// Four runs of one configuration; one of them failed.
pub(super) fn repeats() -> Vec<Record> {
    let mut records: Vec<Record> = (0..4).map(|repeat| sample::ttcp(repeat, repeat)).collect();
    records[2].result = None;
    records[2].error = Some("the target stopped answering; look whether it still has power".to_owned());
    records
}
