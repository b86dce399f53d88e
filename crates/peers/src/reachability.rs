//! What a client of ours may send to a server that proves nothing, in words.
//! Knows no protocol; `linerate_host::traffic::reachability` decides for every flow.

use linerate_host::traffic::reachability::{Beyond, UnprovenLimit};
use linerate_trial::flow::End;
use linerate_trial::spec::Spec;
use linerate_trial::units::OfferedLoad;

/// Whether a trial keeps within what the user allows to be sent without an answer; else why not, and what to do.
pub fn check_unanswered(limit: UnprovenLimit, spec: &Spec) -> Result<(), String> {
    let most = OfferedLoad::BitsPerSecond(limit.bits_per_second);
    limit.check(spec, End::Host).map_err(|beyond| match beyond {
        Beyond::Rate => format!(
            "to a server that does not answer this trial may send no more than --allow-unanswered {most}, all streams \
             together; choose a rate within that, or allow more"
        ),
        Beyond::Time => format!(
            "to a server that does not answer a trial may send for {} s at most; choose a shorter duration",
            UnprovenLimit::LONGEST.as_secs()
        ),
    })
}
