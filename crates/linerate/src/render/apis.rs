//! The socket APIs of a figure, where they are not what an ordinary program uses: `sent by sendmmsg`.
//! Every form of output that shows a figure names them.

use linerate_results::figure::Source;
use linerate_trial::api::ReceiverApi;

/// The sender's and the receiver's, those that are not plain. Requests go by plain calls, but may be waited for by
/// polling.
pub(super) fn of(source: &Source<'_>) -> Option<String> {
    if !source.record.workload.is_stream() {
        let api = source.record.asked_spec()?.receiver_api.filter(|api| *api != ReceiverApi::Plain);
        return api.filter(|_| source.record.result.is_some()).map(|api| pair([None, Some(api.name())]));
    }
    source.flow?.unusual_apis().map(pair)
}

/// The two names in words; nothing where both are plain.
pub(super) fn pair([sender, receiver]: [Option<&str>; 2]) -> String {
    let said = |verb: &str, api: Option<&str>| api.filter(|api| *api != "plain").map(|api| format!("{verb} by {api}"));
    [said("sent", sender), said("received", receiver)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The names alone, for a cell.
pub(super) fn names(source: &Source<'_>) -> Option<String> {
    let apis = source.flow?.unusual_apis()?;
    let named: Vec<&str> = apis.into_iter().flatten().filter(|api| *api != "plain").collect();
    Some(named.join(", "))
}
