//! The application gave TCP nothing to send.
//! Knows tcp_info's times; a stream that was asked for a rate is limited on purpose.

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

/// From this share of the connection's time on.
const SHARE: f64 = 0.2;

pub(super) const RULE: Rule = Rule {
    name: "application-limited",
    says: "The sending application is the limit: TCP had nothing to send.",
    rests_on: "tcp_info: nothing to send for at least 20 % of the connection's time, in a stream that was to send as fast as it \
               could, and whose threads waited for a CPU less than 10 % of the time.",
    source: "Linux tcp_info tcpi_busy_time (4.10); RFC 4898, section 3.4.",
    suggests: &["message_size"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short().filter(|_| case.is_unlimited() && case.record.workload.is_stream())?;
    let share = case.tcp()?.limited_by_application.filter(|share| *share >= SHARE)?;
    let side = case.sender;
    // Then it is the CPU that the application did not get.
    if side.thread_shares(case).is_some_and(|(_, waited)| waited >= 0.1) {
        return None;
    }
    let sentence = format!("The {}'s application gives TCP too little to send.", side.end);
    let finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, share, sentence)
        .because(format!("TCP had nothing to send {} of the time", percent(share)))
        .because_of(side.thread_shares(case).map(|(worked, waited)| {
            format!(
                "the sending thread worked {} of the time and waited for a CPU {}",
                percent(worked),
                percent(waited)
            )
        }))
        .because(short)
        .wrong_if("It is wrong if larger messages do not shorten the time in which TCP has nothing to send.")
        .explains(&["sender-cpu"]);
    let message = case.message_size();
    Some(if message.is_some_and(|octets| octets < 65_536) {
        finding.because_of(message.map(|octets| format!("message_size is {octets} bytes"))).attempt(
            "message_size",
            "128K",
            "throughput",
        )
    } else {
        finding
    })
}
