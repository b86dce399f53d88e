//! The socket APIs of a figure, where they are not what an ordinary program uses: `sendmmsg → plain`.
//! Every form of output that shows a figure names them in its heading.

use linerate_results::figure::Source;
use linerate_trial::api::ReceiverApi;

/// The sender's and the receiver's, if either is not plain; one that is not known is left out. Requests go by plain calls,
/// but may be waited for by polling.
pub(super) fn of(source: &Source<'_>) -> Option<String> {
    if !source.record.workload.is_stream() {
        let api = source.record.asked_spec()?.receiver_api.filter(|api| *api != ReceiverApi::Plain);
        return api.filter(|_| source.record.result.is_some()).map(|api| api.name().to_owned());
    }
    source.flow?.unusual_apis().map(pair)
}

/// The two names with the way of the data between them.
pub(super) fn pair([sender, receiver]: [Option<&str>; 2]) -> String {
    format!("{} → {}", sender.unwrap_or_default(), receiver.unwrap_or_default()).trim().to_owned()
}
