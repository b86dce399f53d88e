//! TCP waited for room in its own send buffer.
//! Knows tcp_info's times; a buffer that is small by order is another rule.

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// From this share of the busy time on.
const SHARE: f64 = 0.2;

pub(super) const RULE: Rule = Rule {
    name: "send-buffer",
    says: "TCP is limited by its own send buffer: it may not hold what is on its way.",
    rests_on: "tcp_info: sending was held up by the send buffer for at least 20 % of its busy time, in a trial that came short.",
    source: "Linux tcp_info tcpi_sndbuf_limited (4.10); tcp(7), tcp_wmem.",
    suggests: &["sysctl.net.ipv4.tcp_wmem"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let told = case.tcp()?.limited_by_send_buffer.unwrap_or(0.0);
    let share = Some(told.max(case.share_of(&[Limit::SendBuffer]))).filter(|share| *share >= SHARE)?;
    let side = case.sender;
    let most = side.sysctl_number("net.ipv4.tcp_wmem");
    let sentence = format!("TCP is held up by the {}'s send buffer.", side.end);
    let mut finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, share, sentence)
        .because(format!("sending waited for room in the buffer {} of its busy time", percent(share)))
        .because(short)
        .wrong_if("It is wrong if sending waits as long with a buffer that may grow four times as large.");
    if let Some(most) = most.filter(|_| case.socket_buffer().is_none()) {
        let value = format!("4096 16384 {}", most.saturating_mul(4).max(4_194_304));
        finding = finding.because(format!("net.ipv4.tcp_wmem lets it grow to {most} bytes"));
        finding = finding.attempt(side.setting("sysctl.net.ipv4.tcp_wmem"), value, "throughput");
    }
    Some(finding)
}
