//! Each write leaves a small segment at its end: the message is no multiple of the MSS.
//! Knows segments and octets; report 3 of the field worked this out by hand.

use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};

/// Segments that are filled less than this on average carry headers for nothing.
const FILLED: f64 = 0.75;

pub(super) const RULE: Rule = Rule {
    name: "mss-multiple",
    says: "Messages are no multiple of TCP's segment size, so that each leaves a small segment.",
    rests_on: "Segments filled to less than 75 % of the MSS on average, over at least 100 of them, in a stream with TCP_NODELAY \
               whose message_size is no multiple of the MSS.",
    source: "RFC 9293, section 3.7.4 (Nagle's algorithm); tcp(7), TCP_NODELAY. XAPP941 (2007) advises a multiple of the MSS.",
    suggests: &["nodelay", "message_size"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let tcp = case.tcp().filter(|_| case.is(Workload::TcpStream))?;
    let mss = u64::from(tcp.mss.filter(|mss| *mss > 0)?);
    let message = case.message_size()?;
    let is_split = message % mss != 0 && case.asked.as_ref()?.nodelay == Some(true);
    let (segments, octets) = (tcp.segments_sent.filter(|count| *count >= 100)? as f64, case.flow()?.octets? as f64);
    // Segments are of the whole connection, octets of its measured part.
    let octets = octets * case.whole_s()? / case.span_s()?;
    let filled = octets / segments / mss as f64;
    case.short()?;
    if !is_split || filled >= FILLED {
        return None;
    }
    let rounded = (message / mss).max(1) * mss;
    let sentence = format!("Each message of {message} bytes ends in a segment that is not full.");
    Some(
        RULE.finds(case, Some(case.sender.end), Sureness::Likely, 1.0 - filled, sentence)
            .because(format!(
                "segments carried {} of {} bytes on average, {}",
                tidy(octets / segments),
                mss,
                percent(filled)
            ))
            .because(format!(
                "message_size {message} is {} segments, and nodelay sends the rest at once",
                tidy(message as f64 / mss as f64)
            ))
            .attempt("nodelay", "false", "throughput")
            .attempt("message_size", rounded.to_string(), "throughput")
            .wrong_if("It is wrong if full segments carry no more.")
            .explains(&["sender-cpu", "receiver-cpu", "host-limits", "segmentation", "receive-window"]),
    )
}
