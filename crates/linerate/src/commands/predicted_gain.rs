//! How much a suggestion would give, by a model of what the campaign measured: said only where the records tell.
//! Knows which suggestions a model has something like; the words are `render::predict`'s.

use linerate_machine::end::Direction;
use linerate_model::fit::{Effort, fit};
use linerate_model::predict::predict;
use linerate_model::setting::Set;
use linerate_results::findings::Suggestion;
use linerate_results::record::Record;
use linerate_results::select::Filter;
use linerate_results::store::Store;

use super::calibration::Calibration;
use crate::render::predict::PredictedGain;

/// Less than `predict` takes: the predicted gain is secondary in what `explain` answers, and must not delay it.
const EFFORT: Effort = Effort { sets: 120, generations: 150, frames: 400, seed: 1 };
/// Of more configurations a fit takes longer than the rest of the answer.
const MOST_ROWS: usize = 40;

/// Predicts what this suggestion of the record's would come to; `None` where nothing tells.
pub(super) fn guess(store: &Store, record: &Record, suggestion: &Suggestion) -> Option<PredictedGain> {
    let set = asked(record, suggestion)?;
    let filter = Filter { campaign: Some(record.campaign.clone()), ..Filter::default() };
    let (all, _) = store.select_in_brief(&filter).ok()?;
    let calibration = Calibration::of(&all, record).filter(|one| one.configurations.len() <= MOST_ROWS)?;
    calibration.check().ok()?;
    let row = calibration.asked(format!("{}={}", suggestion.name, suggestion.value), vec![set]).ok()?;
    let machine = calibration.any();
    row.resolve(&machine.settings).ok()?;
    let measured = calibration.measured();
    let ensemble = fit(&machine, &measured, EFFORT).ok()?;
    let prediction = predict(&machine, &ensemble, &measured, &[row], EFFORT).pop()?;
    let null = prediction.null.filter(|null| prediction.refusal.is_none() && null.measured)?;
    Some(PredictedGain { prediction, null })
}

/// What a suggestion is to a model. Of throughput and loss: of times it says nothing.
fn asked(record: &Record, suggestion: &Suggestion) -> Option<Set> {
    if !matches!(suggestion.metric, "throughput" | "loss") {
        return None;
    }
    let receives = record.direction == Direction::Rx;
    let (axis, value) = match (suggestion.name.as_str(), suggestion.value.as_str()) {
        (name @ ("message_size" | "rate"), value) => (name, value),
        ("target.ring.rx", value) => ("rings.rx", value),
        ("target.ring.tx", value) => ("rings.tx", value),
        ("target.pause.tx", value) => ("pause", value),
        ("target.coalesce.rx_usecs", value) => ("coalesce.usecs", value),
        ("target.mtu", value) => ("mtu", value),
        ("target.rx_checksum", "on") if receives => ("checksum", "mac"),
        ("target.tx_checksum", "on") if !receives => ("checksum", "mac"),
        _ => return None,
    };
    Some(Set { axis: axis.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use linerate_machine::change::Changed;
    use linerate_results::sample;

    use super::*;

    fn suggestion(name: &str, value: &str) -> Suggestion {
        Suggestion { name: name.to_owned(), value: value.to_owned(), metric: "throughput" }
    }

    /// A sender of 2 µs a datagram and 1 ns an octet, its sizes in turns.
    fn campaign(sizes: &[u64]) -> (Store, Record) {
        let mut store = Store::in_memory().unwrap();
        let mut last = None;
        for (index, size) in sizes.iter().enumerate() {
            let mut record = sample::udp(index as u32, Direction::Tx, 100, 100.0);
            record.asked.insert("rate".to_owned(), "unlimited".to_owned());
            record.asked.insert("message_size".to_owned(), size.to_string());
            let flow = &mut record.result.as_mut().unwrap().flow;
            let bps = *size as f64 * 8e6 / (2.0 + 0.001 * *size as f64);
            (flow.throughput_bps, flow.achieved_load_bps, flow.loss_ratio) = (Some(bps), Some(bps), Some(0.0));
            record.target.environment.nic.as_mut().unwrap().speed_mbps = Some(10_000);
            store.insert(&record).unwrap();
            last = Some(record);
        }
        (store, last.unwrap())
    }

    #[test]
    fn several_sizes_tell_of_another() {
        let (store, record) = campaign(&[64, 256, 1024, 128]);
        let guess = guess(&store, &record, &suggestion("message_size", "512")).expect("four sizes tell of a fifth");
        let (low, high) = guess.prediction.interval;
        // 512 octets in 2.512 µs.
        let truth = 512.0 * 8.0 / 2.512;
        assert!((low..=high).contains(&truth), "{truth} is not in {low} to {high}");
        assert!((guess.prediction.median / truth - 1.0).abs() < 0.1, "{} for {truth}", guess.prediction.median);
    }

    #[test]
    fn what_records_do_not_tell_is_not_said() {
        let (store, record) = campaign(&[128]);
        // One size does not tell what an octet costs.
        let said = guess(&store, &record, &suggestion("message_size", "1470"));
        assert!(said.is_none(), "{:?}", said.map(|guess| guess.prediction));
        // Nor has a model anything like these.
        for (name, value) in [("streams", "4"), ("target.governor", "performance"), ("host.ring.rx", "4096")] {
            assert!(guess(&store, &record, &suggestion(name, value)).is_none(), "{name}");
        }
        // Nor does it know times.
        let latency = Suggestion { metric: "latency_p50", ..suggestion("target.coalesce.rx_usecs", "0") };
        assert!(guess(&store, &record, &latency).is_none());
    }

    #[test]
    fn records_of_other_settings_say_nothing_of_this_machine() {
        let (mut store, record) = campaign(&[64, 256, 1024, 128]);
        let mut other = record;
        other.id = "01M7ZZZZZZZZZZZZZZZZZZZZZZ".to_owned();
        other.trial.index = 99;
        other.target.settings.push(Changed {
            name: "mtu".to_owned(),
            asked: "9000".to_owned(),
            set: None,
            read_back: None,
            original: None,
        });
        store.insert(&other).unwrap();
        let said = guess(&store, &other, &suggestion("message_size", "512"));
        assert!(said.is_none(), "{:?}", said.map(|guess| guess.prediction));
    }
}
