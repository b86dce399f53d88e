//! The socket APIs of a figure, where they are not what an ordinary program uses: `sendmmsg → plain`.
//! Knows no tables; every form of output that shows a figure names them in its heading.

use linerate_results::record::{FlowFigures, Record};
use linerate_trial::spec::Direction;

/// The sender's and the receiver's, if either is not plain; one that is not known is left out.
pub(super) fn of_flow(flow: &FlowFigures) -> Option<String> {
    flow.unusual_apis().map(pair)
}

/// The same of a record, or of one of its directions. Requests go by plain calls, but may be waited for by polling.
pub(super) fn of_record(record: &Record, direction: Option<Direction>) -> Option<String> {
    let figures = record.result.as_ref()?;
    if !record.workload.is_stream() {
        let asked = record.asked.get("receiver_api").filter(|api| !["auto", "plain"].contains(&api.as_str()));
        return asked.cloned();
    }
    of_flow(match (direction, &figures.directions) {
        (Some(Direction::Tx), Some(directions)) => &directions.tx,
        (Some(Direction::Rx), Some(directions)) => &directions.rx,
        _ => &figures.flow,
    })
}

/// The two names with the way of the data between them.
pub(super) fn pair([sender, receiver]: [Option<&str>; 2]) -> String {
    format!("{} → {}", sender.unwrap_or_default(), receiver.unwrap_or_default()).trim().to_owned()
}
